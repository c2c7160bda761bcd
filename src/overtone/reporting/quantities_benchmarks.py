"""Quantities of benchmarks, diagnostics and audits: times, memory, kernels, violations.

Times are those of single repeats: an interval covers the spread between repeats, so it is about this machine and not about seeds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from overtone.reporting import formats
from overtone.reporting.quantities import Evidence, Measurement, NotMeasuredError, Point, exact, lognormal, quantity
from overtone.reporting.quantities_power import power_exponent
from overtone.reporting.quantities_slope import regression_slope, slopes_without
from overtone.study.cells import COORDINATES

_IQR = 1.349  # interquartile range of a normal distribution, in standard deviations
_REPEATS = 3  # fewer say nothing about their spread


def _rows(evidence: Evidence, name: str) -> list[dict[str, Any]]:
    found = evidence.measured.benchmark(name)
    if found is None:
        raise NotMeasuredError(f"The study does not run the benchmark {name}.")
    rows: list[dict[str, Any]] = found["rows"]
    return rows


def _log_sd(summary: Mapping[str, Any]) -> float:
    """Standard deviation of the logarithm of one repeat, from the quartiles: a stray repeat does not move it."""
    return math.log(summary["q75"] / summary["q25"]) / _IQR


def _ratio_point(label: str, x: float, above: Mapping[str, Any], below: Mapping[str, Any], source: str) -> Point:
    repeats = min(len(above["samples"]), len(below["samples"]))
    log_sd = math.hypot(_log_sd(above), _log_sd(below)) if repeats >= _REPEATS else None
    return Point(label, lognormal(above["median"] / below["median"], log_sd, repeats - 1), x, (source,), seeds_matter=False)


def _fastest(rows: Iterable[dict[str, Any]], key: str, **equal: Any) -> dict[int, dict[str, Any]]:
    """By length or context: the fastest row with the given fields, so that a baseline is taken at its best."""
    best: dict[int, dict[str, Any]] = {}
    for row in rows:
        if all(row.get(name) == value for name, value in equal.items()):
            at = int(row["context"] if "context" in row else row["length"])
            if at not in best or row[key]["median"] < best[at][key]["median"]:
                best[at] = row
    return best


def _speedups(rows: Sequence[dict[str, Any]], key: str, model: Mapping[str, Any], baseline: Mapping[str, Any], source: str) -> Measurement:
    ours, theirs = _fastest(rows, key, **model), _fastest(rows, key, **baseline)
    points = tuple(_ratio_point(formats.length(at), at, theirs[at][key], ours[at][key], source) for at in sorted(set(ours) & set(theirs)))
    return Measurement("×", points, _log_trend(points, source))


def _log_trend(points: Sequence[Point], source: str) -> Point | None:
    """Slope of log2(value) per doubling of x: an exponent."""
    usable = [(math.log2(point.x), math.log2(point.at(1.0).value), point.label) for point in points if point.x]
    if len(usable) < 2:
        return None
    x, y, labels = zip(*usable, strict=True)
    return Point("exponent in the length", regression_slope(x, y), None, (source,), False, slopes_without(x, y, labels))


@quantity
def decode_speedup(evidence: Evidence, model: str, baseline: str, batch: int = 1, contexts: list[int] | None = None) -> Measurement:
    """Decode time a token of the baseline (its fastest variant) over that of the model, by context (contexts: these only)."""
    rows = [row for row in _rows(evidence, "decode") if not contexts or row["context"] in contexts]
    return _speedups(rows, "ms_per_token", {"architecture": model, "batch": batch}, {"architecture": baseline, "batch": batch},
                     "benchmarks/decode.json")


@quantity
def decode_state_growth(evidence: Evidence, model: str, batch: int = 1) -> Measurement:
    """Bytes of the decode state at the longest context over those at the shortest."""
    rows = [row for row in _rows(evidence, "decode") if row["architecture"] == model and row["batch"] == batch]
    if len({row["context"] for row in rows}) < 2:
        raise NotMeasuredError(f"The decode benchmark has no two contexts of {model}.")
    first, last = (edge(rows, key=lambda row: row["context"]) for edge in (min, max))
    label = f"{formats.length(first['context'])} to {formats.length(last['context'])}"
    return Measurement("×", (Point(label, exact(last["state_bytes"] / first["state_bytes"]), None, ("benchmarks/decode.json",), False),))


@quantity
def kernel_tail_speedup(evidence: Evidence, method: str, reference: str) -> Measurement:
    """Time of the mixer's quadratic reference over that of a method, by length; its trend is the exponent of the speed-up."""
    return _speedups(_rows(evidence, "kernel_tail"), "ms", {"method": method}, {"method": reference}, "benchmarks/kernel_tail.json")


@quantity
def throughput_ratio(evidence: Evidence, model: str, baseline: str) -> Measurement:
    """Training tokens per second of the model over those of the baseline, device synchronised, by length."""
    tables = [
        {row["length"]: row["tokens_per_s"] for row in _rows(evidence, "throughput") if row["architecture"] == name and row["synchronised"]}
        for name in (model, baseline)
    ]
    source = "benchmarks/throughput.json"
    lengths = sorted(set(tables[0]) & set(tables[1]))
    points = tuple(_ratio_point(formats.length(at), at, tables[0][at], tables[1][at], source) for at in lengths)
    return Measurement("×", points, _log_trend(points, source))


@quantity
def token_cost_exponent(evidence: Evidence, architecture: str) -> Measurement:
    """Exponent p of the part of a token's training time that grows with the length, a + b L^p: 1024 times over 1K to 32K is p = 2.

    Free of the constant part (`quantities_power`).
    """
    times = sorted((row["length"], 1 / row["tokens_per_s"]["median"]) for row in _rows(evidence, "throughput")
                   if row["architecture"] == architecture and row["synchronised"])
    exponent = power_exponent(*zip(*times, strict=True)) if times else None
    if exponent is None:
        raise NotMeasuredError(f"The time a token of {architecture} does not grow over at least three lengths of the throughput benchmark.")
    return Measurement("", (Point("exponent", exponent, None, ("benchmarks/throughput.json",), False),))


@quantity
def memory_exponent(evidence: Evidence, architecture: str, attention: str | None = None) -> Measurement:
    """Exponent of growth of peak training memory with length, free of any constant part: 1 for a + bL, 2 for a + bL^2.

    Of every length that trained, those that the search for the longest one tried included (`quantities_power`). attention: the kernel,
    where a model has one.
    """
    measured = sorted((row["length"], row["peak_bytes"]) for row in _rows(evidence, "memory")
                      if (row["architecture"], row["status"]) == (architecture, "ok") and attention in (None, row["attention"]))
    exponent = power_exponent(*zip(*measured, strict=True)) if measured else None
    if exponent is None:
        raise NotMeasuredError(f"Peak memory of {architecture} does not grow over at least three lengths.")
    label = f"exponent, {formats.length(measured[0][0])} to {formats.length(measured[-1][0])}"
    return Measurement("", (Point(label, exponent, None, ("benchmarks/memory.json",), False),))


@quantity
def longest_length_ratio(evidence: Evidence, model: str, others: list[str]) -> Measurement:
    """Longest length at which the model trains within the memory limit over that of each other one (its best attention).

    Where the search ended before either ran out of memory there is nothing to compare.
    """
    found = evidence.measured.benchmark("memory")
    if not found or not found.get("longest"):
        raise NotMeasuredError("The study does not look for the longest length that trains.")
    best: dict[str, dict[str, Any]] = {}
    for row in found["longest"]:
        if row["length"] and row["length"] > best.get(row["architecture"], {"length": 0})["length"]:
            best[row["architecture"]] = row
    if model not in best:
        raise NotMeasuredError(f"The memory benchmark has no longest length of {model}.")
    points, notes = [], []
    for name in (name for name in others if name in best):
        if best[model].get("search_ended") and best[name].get("search_ended"):
            notes.append(f"{model} and {name} both train at {formats.length(best[name]['length'])}, where the search ended.")
        else:
            ratio = best[model]["length"] / best[name]["length"]
            points.append(Point(f"against {name}", exact(ratio), None, ("benchmarks/memory.json",), False))
    return Measurement("×", tuple(points), None, tuple(notes))


@quantity
def half_life_span(evidence: Evidence, stage: str = "after") -> Measurement:
    """Longest half-life over the shortest, over all heads of the trained resonator. stage: before | after training."""
    found = evidence.measured.diagnostics()
    values = _flat(found.get("half_lives", {}).get(stage)) if found else []
    if not values or min(values) <= 0:
        raise NotMeasuredError("The study diagnoses no trained resonator.")
    label = f"{formats.significant(min(values))} to {formats.significant(max(values))} tokens"
    return Measurement("×", (Point(label, exact(max(values) / min(values)), None, ("diagnostics/resonator.json",), False),))


@quantity
def impulse_error(evidence: Evidence) -> Measurement:
    """Largest difference of a trained mixer's impulse response from its formula, relative to the formula's largest value."""
    found = evidence.measured.diagnostics()
    if not found or not found.get("impulse"):
        raise NotMeasuredError("The study diagnoses no trained resonator.")
    worst = 0.0
    for row in found["impulse"]:
        response, formula = _flat(row["model"]), _flat(row["formula"])
        scale = max(map(abs, formula)) or 1.0
        worst = max(worst, max(abs(a - b) for a, b in zip(response, formula, strict=True)) / scale)
    return Measurement("", (Point(f"{len(found['impulse'])} heads", exact(worst), None, ("diagnostics/resonator.json",), False),))


def _flat(values: Any) -> list[float]:
    if isinstance(values, Mapping):
        values = list(values.values())
    if isinstance(values, Sequence) and not isinstance(values, str):
        return [number for value in values for number in _flat(value)]
    return [] if values is None else [float(values)]


@quantity
def audit_failures(evidence: Evidence, audit: str, architecture: str) -> Measurement:
    """Rows of an audit that fail, among the cells of an architecture.

    An audit whose controls were not flagged shows nothing, so it yields no number.
    """
    found = evidence.measured.audit(audit)
    if found is None:
        raise NotMeasuredError(f"The study does not run the audit {audit}.")
    if any(row["control"] and row["passed"] for row in found["rows"]):
        raise NotMeasuredError(f"The audit {audit} did not flag its own control.")
    at = COORDINATES.index("architecture")
    keys = [(row, row["subject"].split("/")) for row in found["rows"] if not row["control"]]
    rows = [row for row, parts in keys if len(parts) == len(COORDINATES) and parts[at] == architecture]
    if not rows:
        raise NotMeasuredError(f"The audit {audit} has no cell of {architecture}.")
    failed = sum(not row["passed"] for row in rows)
    return Measurement("failures", (Point(f"{len(rows)} checks", exact(failed), None, (f"audits/{audit}.json",), False),))
