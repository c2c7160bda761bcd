"""Quantities of the papers' own numbers: what `papers/reported.yaml` says when it is put together.

Each is computed, never quoted, and decided by the same rules as a measurement; the numbers are exact, so a rule holds or
fails. `path` and its like are dotted paths of that file.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from overtone.audits.peak import sheet_peak
from overtone.errors import UserError
from overtone.reporting import formats, statistics
from overtone.reporting.quantities import Evidence, Measurement, Point, exact, published, reported_value
from overtone.reporting.quantities_slope import slope, slopes_without


def _point(label: str, value: float, *paths: str, x: float | None = None) -> Point:
    return Point(label, exact(value), x, tuple(f"reported:{path}" for path in paths), seeds_matter=False)


def _numbers(evidence: Evidence, path: str) -> list[float]:
    values = reported_value(evidence.reported, path)
    if not isinstance(values, Sequence) or isinstance(values, str):
        raise UserError(f"papers/reported.yaml: {path}: expected a list of numbers.")
    return [value if isinstance(value, int | float) else math.nan for value in values]


def _by_length(evidence: Evidence, table: str, *names: str) -> Iterator[tuple[float, list[float]]]:
    columns = [_numbers(evidence, f"{table}.{name}") for name in ("lengths", *names)]
    for length, *values in zip(*columns, strict=True):
        if not any(map(math.isnan, values)):
            yield length, values


@published
def published_ratio(evidence: Evidence, numerator: str, denominator: str) -> Measurement:
    """One published number divided by another."""
    top, bottom = (float(reported_value(evidence.reported, path)) for path in (numerator, denominator))
    return Measurement("×", (_point("ratio", top / bottom, numerator, denominator),))


@published
def published_reduction(evidence: Evidence, baseline: str, model: str) -> Measurement:
    """Percent by which one published number is below another: 100 (baseline - model) / baseline."""
    values = [float(reported_value(evidence.reported, path)) for path in (baseline, model)]
    return Measurement("%", (_point("reduction", float(statistics.gap(*values)), baseline, model),))


def _rows(evidence: Evidence, path: str, *names: str) -> Iterator[tuple[str, float, list[float]]]:
    """(label, length, values) of a list of rows, or of a table of columns with `lengths`; rows without all the names are passed over."""
    found = reported_value(evidence.reported, path)
    if isinstance(found, Mapping):
        for length, values in _by_length(evidence, path, *names):
            yield formats.length(length), length, values
        return
    for row in found:
        if set(names) <= set(row):
            where = f"hidden {row['hidden']}, " if "hidden" in row else ""
            yield f"{where}{formats.length(row['length'])}", float(row["length"]), [float(row[name]) for name in names]


@published
def published_gap(evidence: Evidence, path: str, model: str, baseline: str, least: int = 0) -> Measurement:
    """Gap in percent from published bits per token at every length of at least `least`, and its slope per doubling of the length."""
    points, x, y = [], [], []
    for label, length, (base, other) in _rows(evidence, path, baseline, model):
        if length >= least:
            x.append(math.log2(length))
            y.append(float(statistics.gap(base, other)))
            points.append(_point(label, y[-1], path, x=length))
    if len(set(x)) < 2:
        return Measurement("%", tuple(points))
    trend = _point("per doubling of the length", slope(x, y), path)
    return Measurement("%", tuple(points), replace(trend, without=slopes_without(x, y, [point.label for point in points])))


@published
def published_gap_error(evidence: Evidence, path: str, model: str, baseline: str, printed: str) -> Measurement:
    """Printed gap (column `printed`) minus 100 (bpt_baseline - bpt_model) / bpt_baseline, in points, wherever both are printed."""
    return Measurement("points", tuple(
        _point(label, gap - float(statistics.gap(base, other)), path, x=length)
        for label, length, (base, other, gap) in _rows(evidence, path, baseline, model, printed)
    ))


@published
def published_growth_exponent(evidence: Evidence, table: str, column: str) -> Measurement:
    """Exponent of growth with length, free of any constant part: log_r((y3 - y2) / (y2 - y1)) over lengths L, rL, r^2 L.

    1 for a + bL, 2 for a + bL^2.
    """
    rows = [(length, values[0]) for length, values in _by_length(evidence, table, column)]
    points = []
    for (first, low), (second, middle), (third, high) in zip(rows, rows[1:], rows[2:], strict=False):
        if second / first == third / second and middle > low:
            exponent = math.log((high - middle) / (middle - low)) / math.log(second / first)
            points.append(_point(f"{formats.length(first)} to {formats.length(third)}", exponent, f"{table}.{column}", x=third))
    return Measurement("", tuple(points))


@published
def published_arithmetic_rate(evidence: Evidence, rates: list[str], parameters: str, hidden: int, vocabulary: int,
                              device: str) -> Measurement:
    """Least arithmetic of a published training rate, as a share of the device's bfloat16 peak: 6 (N - V d) tokens/s / peak.

    N - V d: parameters without the input embedding, which is looked up; the recurrence and the optimizer are left out, so this
    is a lower bound.
    """
    peak = sheet_peak(device, "bfloat16")
    if peak is None:
        raise UserError(f"published_arithmetic_rate: the peak of {device!r} is not known. Add it to overtone.audits.peak.")
    weights = float(reported_value(evidence.reported, parameters)) - hidden * vocabulary
    return Measurement("of peak", tuple(
        _point(rate.rsplit(".", 1)[-1], 6 * weights * float(reported_value(evidence.reported, rate)) / peak, rate, parameters)
        for rate in rates
    ))


@published
def published_above_entropy_floor(evidence: Evidence, path: str, vocabulary: int) -> Measurement:
    """Published bits per token on uniformly random tokens minus log2(V), which no causal model can undercut on average."""
    value = float(reported_value(evidence.reported, path))
    return Measurement("bpt", (_point(f"against log2({vocabulary}) = {math.log2(vocabulary):.2f}", value - math.log2(vocabulary), path),))


@published
def published_budget_ratio(evidence: Evidence, training: str, lengths: str) -> Measurement:
    """Training tokens at each length against the shortest: steps * max(tokens per step, length), a batch being one window at least."""
    rules = reported_value(evidence.reported, training)
    tokens = {length: rules["steps"] * max(rules["tokens_per_step"], length) for length in _numbers(evidence, lengths)}
    least = min(tokens.values())
    return Measurement("×", tuple(
        _point(formats.length(length), count / least, training, lengths, x=length) for length, count in tokens.items()
    ))


@published
def published_seed_gaps(evidence: Evidence, table: str, model: str, baseline: str) -> Measurement:
    """Gap in percent at every published seed."""
    base, other = (reported_value(evidence.reported, f"{table}.{name}") for name in (baseline, model))
    return Measurement("%", tuple(
        _point(f"seed {seed}", float(statistics.gap(base[seed], other[seed])), f"{table}.{model}", f"{table}.{baseline}")
        for seed in base if seed in other
    ))


@published
def published_parameter_misfit(evidence: Evidence, conventions: dict[str, list[str]], low: float, high: float) -> Measurement:
    """Smallest misfit of a claimed range of sizes over the ways of counting: min over conventions of the worse relative error.

    conventions: name -> paths of the counts of the smallest and of the largest model.
    """
    misfits = {}
    for name, (smallest, largest) in conventions.items():
        counts = [float(reported_value(evidence.reported, path)) for path in (smallest, largest)]
        misfits[name] = max(abs(counts[0] / low - 1), abs(counts[1] / high - 1))
    best = min(misfits, key=lambda name: misfits[name])
    paths = [path for pair in conventions.values() for path in pair]
    notes = tuple(f"{name}: off by {100 * value:.0f}%." for name, value in misfits.items())
    return Measurement("", (_point(f"{best}, the nearest count", misfits[best], *paths),), None, notes)


@published
def published_attention_cost_growth(evidence: Evidence, table: str) -> Measurement:
    """Growth of attention's cost per token from the shortest to the longest length of a table: O(L^2) in all is L a token."""
    lengths = _numbers(evidence, f"{table}.lengths")
    ratio = max(lengths) / min(lengths)
    label = f"a token, {formats.length(min(lengths))} to {formats.length(max(lengths))}"
    note = f"For the whole window it is {ratio**2:g}."
    return Measurement("×", (_point(label, ratio, f"{table}.lengths"),), None, (note,))


@published
def published_degradation(evidence: Evidence, table: str, model: str) -> Measurement:
    """Bits per token at the longest minus at the shortest length of each evaluation set."""
    sets = reported_value(evidence.reported, table)
    return Measurement("bpt", tuple(
        _point(name, values[model][-1] - values[model][0], f"{table}.{name}.{model}") for name, values in sets.items()
    ))


@published
def published_difference_at_longest(evidence: Evidence, table: str, model: str, baseline: str) -> Measurement:
    """Bits per token of the baseline minus those of the model, at the longest length of each evaluation set."""
    sets = reported_value(evidence.reported, table)
    return Measurement("bpt", tuple(
        _point(name, values[baseline][-1] - values[model][-1], f"{table}.{name}.{model}", f"{table}.{name}.{baseline}")
        for name, values in sets.items()
    ))


@published
def published_speedup_exponent(evidence: Evidence, path: str) -> Measurement:
    """Exponent of a published speed-up's growth between its two lengths: log(s2 / s1) / log(L2 / L1).

    T^2 against T log T gives nearly 1 (T / log T).
    """
    (first, low), (last, high) = sorted(reported_value(evidence.reported, path).items())
    exponent = math.log(high / low) / math.log(last / first)
    return Measurement("", (_point(f"{formats.length(first)} to {formats.length(last)}", exponent, path, x=float(last)),))
