"""Two runs side by side: which differences exceed noise.

Cells are grouped by everything but the seed. Where both runs have cells with the same plan and the same evaluation tokens, their
difference is paired over seeds and windows (Student's t); otherwise the seeds of the two runs are two independent
samples (Welch's t). p values are corrected by Holm over all groups. Speed and memory are given as ratios without a test: one machine's
repeats say nothing about another's.

    identical      every window has the same loss to the last bit
    within noise   the interval of the difference includes 0
    exceeds noise  it does not
    outcome        one run has a result where the other ran out of memory or diverged
    not comparable no pair of plans, and fewer than two seeds on a side
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from overtone.audits.results import FinishedCell, finished_cells
from overtone.errors import UserError
from overtone.reporting import formats, statistics
from overtone.reporting.collect import SPLIT
from overtone.reporting.page_run import several
from overtone.study import load_study

ALPHA = 0.05
_GROUP = ("protocol", "corpus", "tokenizer", "architecture", "size", "length")
IDENTICAL, WITHIN, EXCEEDS, OUTCOME, INCOMPARABLE = "identical", "within noise", "exceeds noise", "outcome", "not comparable"


@dataclass(frozen=True)
class Side:
    """One run: its name, environments and cells."""

    path: str
    study: str
    facts: Mapping[str, str]
    cells: Mapping[str, FinishedCell]


@dataclass(frozen=True)
class Difference:
    """One group: test bits per token of both runs and their difference B - A with its interval."""

    group: str
    a: float | None
    b: float | None
    value: float | None
    low: float | None
    high: float | None
    p: float | None
    pairing: str  # windows and seeds | windows | seeds | none
    seeds: int
    config: str  # same | what differs
    speed: float | None  # training tokens/s, B / A
    memory: float | None  # peak bytes, B / A
    verdict: str
    detail: str


def read_side(results: Path) -> Side:
    """A results folder; UserError where it is none."""
    if not (results / "study.json").is_file():
        raise UserError(f"{results}: no study.json in it. Give results/STUDY of a study that has been run.")
    study = load_study(str(results / "study.json"))
    cells, _ = finished_cells(study, results)
    environments = [item.metrics["environment"] for item in cells]
    facts = {key: several(environments, key) for key in ("commit", "device", "processor", "threads", "python", "system")}
    packages = [environment.get("packages", {}) for environment in environments]
    facts |= {name: several(packages, name) for name in sorted({name for versions in packages for name in versions})}
    return Side(str(results), study.name, facts, {item.cell.key: item for item in cells})


def compare_runs(a: Path, b: Path) -> dict[str, Any]:
    """Everything that the two runs share, and what only one has."""
    first, second = read_side(a), read_side(b)
    groups: dict[str, tuple[list[FinishedCell], list[FinishedCell]]] = {}
    for index, side in enumerate((first, second)):
        for item in side.cells.values():
            groups.setdefault("/".join(str(getattr(item.cell, name)) for name in _GROUP), ([], []))[index].append(item)
    shared = {name: pair for name, pair in sorted(groups.items()) if pair[0] and pair[1]}
    if not shared:
        raise UserError(f"{a} and {b} share no protocol, corpus, tokenizer, architecture, size and length. Compare runs of one study.")
    differences = _with_holm([_difference(name, *pair) for name, pair in shared.items()])
    return {
        "a": {"path": first.path, "study": first.study, "facts": dict(first.facts)},
        "b": {"path": second.path, "study": second.study, "facts": dict(second.facts)},
        "differences": [asdict(item) for item in differences],
        "only_a": sorted(name for name, pair in groups.items() if not pair[1]),
        "only_b": sorted(name for name, pair in groups.items() if not pair[0]),
    }


def _difference(group: str, a: Sequence[FinishedCell], b: Sequence[FinishedCell]) -> Difference:
    ended = [{item.cell.seed: item for item in side if item.ok} for side in (a, b)]
    empty = Difference(group, None, None, None, None, None, None, "none", 0, _configs(a, b), None, None, OUTCOME, "")
    if not ended[0] or not ended[1]:
        words = [" and ".join(sorted({item.metrics["status"] for item in side})) for side in (a, b)]
        return replace(empty, verdict=OUTCOME if words[0] != words[1] else IDENTICAL, detail=f"A {words[0]}, B {words[1]}")
    means = [float(np.mean([_score(item) for item in side.values()])) for side in ended]
    base = replace(empty, a=means[0], b=means[1], value=means[1] - means[0], speed=_ratio(ended, "train_tokens_per_s"),
                   memory=_ratio(ended, "peak_bytes"))
    seeds = [seed for seed in sorted(set(ended[0]) & set(ended[1])) if _paired(ended[0][seed], ended[1][seed])]
    return _paired_difference(base, ended, seeds) if seeds else _unpaired_difference(base, ended)


def _paired_difference(base: Difference, ended: Sequence[Mapping[int, FinishedCell]], seeds: Sequence[int]) -> Difference:
    samples = [statistics.matrix([_windows(side[seed]) for seed in seeds]) for side in ended]
    found = statistics.estimate(statistics.difference, *samples)
    same = bool(np.array_equal(samples[0], samples[1]))
    left = sum(len(side) for side in ended) - 2 * len(seeds)
    detail = "one seed: the interval covers other text, not other seeds" if len(seeds) == 1 and not same else ""
    detail += f"{'; ' if detail and left else ''}{left} cells without a partner of the same plan left out" if left else ""
    return replace(base, a=float(samples[0].mean()), b=float(samples[1].mean()), value=found.value, low=found.low, high=found.high,
                   p=None if same else found.p, pairing="windows and seeds" if len(seeds) > 1 else "windows", seeds=len(seeds),
                   verdict=IDENTICAL if same else WITHIN, detail=detail)


def _unpaired_difference(base: Difference, ended: Sequence[Mapping[int, FinishedCell]]) -> Difference:
    """Welch's t of the seeds' losses."""
    from scipy.special import stdtr, stdtrit

    scores = [np.asarray([_score(item) for item in side.values()]) for side in ended]
    counts = [len(values) for values in scores]
    if min(counts) < 2:
        detail = "other plans or other tokens, and fewer than two seeds on a side"
        return replace(base, seeds=min(counts), verdict=INCOMPARABLE, detail=detail)
    parts = [float(values.var(ddof=1)) / count for values, count in zip(scores, counts, strict=True)]
    error = math.sqrt(sum(parts))
    value = float(scores[1].mean() - scores[0].mean())
    if error == 0:
        return replace(base, low=value, high=value, p=float(value == 0), pairing="seeds", seeds=min(counts), verdict=WITHIN)
    freedom = sum(parts) ** 2 / sum(part**2 / (count - 1) for part, count in zip(parts, counts, strict=True))
    reach = float(stdtrit(freedom, 0.975)) * error
    p = float(2 * stdtr(freedom, -abs(value) / error))
    return replace(base, low=value - reach, high=value + reach, p=p, pairing="seeds", seeds=min(counts), verdict=WITHIN,
                   detail="plans differ")


def _with_holm(items: Sequence[Difference]) -> list[Difference]:
    adjusted = statistics.holm([item.p for item in items])
    return [
        replace(item, p=p, verdict=EXCEEDS if p is not None and p < ALPHA else item.verdict)
        for item, p in zip(items, adjusted, strict=True)
    ]


def _paired(a: FinishedCell, b: FinishedCell) -> bool:
    return bool(a.metrics["plan"]["digest"] == b.metrics["plan"]["digest"] and a.metrics["tokens"][SPLIT] == b.metrics["tokens"][SPLIT]
                and len(_windows(a)) == len(_windows(b)))


def _windows(item: FinishedCell) -> list[float]:
    values: list[float] = item.metrics["evaluation"][SPLIT]["window_bpt"]
    return values


def _score(item: FinishedCell) -> float:
    return float(item.metrics["evaluation"][SPLIT]["bpt"])


def _ratio(ended: Sequence[Mapping[int, FinishedCell]], key: str) -> float | None:
    medians = []
    for side in ended:
        values = [item.metrics["measured"][key] for item in side.values() if item.metrics["measured"].get(key)]
        medians.append(float(np.median(values)) if values else 0.0)
    return medians[1] / medians[0] if all(medians) else None


def _configs(a: Sequence[FinishedCell], b: Sequence[FinishedCell]) -> str:
    """`same`, or the first settings that differ, seeds aside."""
    flat = [{key: value for key, value in _flatten(items[0].cell.config()).items() if key != "seed"} for items in (a, b)]
    differ = sorted(key for key in set(flat[0]) | set(flat[1]) if flat[0].get(key) != flat[1].get(key))
    return "same" if not differ else ", ".join(f"{key} {flat[0].get(key)} / {flat[1].get(key)}" for key in differ[:3])


def _flatten(config: Mapping[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in config.items():
        flat |= {f"{key}.{name}": item for name, item in value.items()} if isinstance(value, dict) else {key: value}
    return flat


_HEADER = ("Group", "A, test bpt", "B, test bpt", "B - A [95% interval]", "p (Holm)", "Seeds", "Speed B/A", "Memory B/A", "Verdict",
           "Remarks")


def _row(item: Mapping[str, Any]) -> list[str]:
    remarks = [] if item["config"] == "same" else [item["config"]]
    return [
        item["group"], formats.number(item["a"], 4), formats.number(item["b"], 4),
        formats.interval(item["value"], item["low"], item["high"], 4, True), formats.p_value(item["p"]), str(item["seeds"]),
        formats.number(item["speed"], 2), formats.number(item["memory"], 2), item["verdict"],
        "; ".join([*remarks, *([item["detail"]] if item["detail"] else [])]),
    ]


def comparison_text(content: Mapping[str, Any]) -> str:
    """The comparison as Markdown: the two runs, then the groups, those that exceed noise first."""
    a, b = content["a"], content["b"]
    keys = [key for key in dict.fromkeys([*a["facts"], *b["facts"]]) if a["facts"].get(key) != b["facts"].get(key)]
    facts = [["folder", a["path"], b["path"]], ["study", a["study"], b["study"]],
             *([key, a["facts"].get(key, formats.ABSENT), b["facts"].get(key, formats.ABSENT)] for key in keys)]
    order = {EXCEEDS: 0, OUTCOME: 1, INCOMPARABLE: 2, WITHIN: 3, IDENTICAL: 4}
    rows = [_row(item) for item in sorted(content["differences"], key=lambda item: order[item["verdict"]])]
    counts = {verdict: sum(item["verdict"] == verdict for item in content["differences"]) for verdict in order}
    told = ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count)
    only = "".join(f"\nOnly in {side.upper()}: {', '.join(content[f'only_{side}'])}." for side in ("a", "b") if content[f"only_{side}"])
    return f"{formats.markdown_table(['', 'A', 'B'], facts)}\n\n{formats.markdown_table(_HEADER, rows)}\n\n{told}.{only}\n"
