"""Quantities of trained cells: gaps, ablations, accuracy, budgets, parameter counts, spread between seeds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from overtone.reporting import formats, statistics
from overtone.reporting.collect import SPLIT
from overtone.reporting.quantities import (
    Evidence,
    Measurement,
    Point,
    Test,
    exact,
    quantity,
    reported_value,
    shifted,
)
from overtone.reporting.quantities_paired import compare, labels, ratio, trained
from overtone.reporting.rows import select
from overtone.reporting.statistics import Estimate


@quantity
def gap(evidence: Evidence, experiments: list[str], model: str, baseline: str, over: str = "length", only: str = "all",
        sizes: list[str] | None = None) -> Measurement:
    """Percent fewer bits per token than the baseline: 100 (bpt_baseline - bpt_model) / bpt_baseline."""
    return compare(evidence, experiments, (baseline, model), statistics.gap, "%", over, only, sizes or ())


@quantity
def gap_against_published(evidence: Evidence, experiments: list[str], model: str, baseline: str, table: str) -> Measurement:
    """Our gap minus the published one, in percentage points, at every length of the published table that both have."""
    printed: Mapping[str, Any] = reported_value(evidence.reported, table)
    published = {length: value for length, value in zip(printed["lengths"], printed["gap_h_tf_pct"], strict=True) if value is not None}
    found = compare(evidence, experiments, (baseline, model), statistics.gap, "points")
    points = [
        Point(point.label, shifted(point.at, -published[int(point.x)]), point.x, point.sources)
        for point in found.points if point.x is not None and int(point.x) in published
    ]
    return Measurement("points", tuple(points), None, found.notes, found.lost)


@quantity
def perplexity_reduction(evidence: Evidence, experiments: list[str], model: str, baseline: str, over: str = "length") -> Measurement:
    """Percent lower perplexity than the baseline: 100 (1 - PPL_model / PPL_baseline)."""
    return compare(evidence, experiments, (baseline, model), statistics.perplexity_reduction, "%", over)


@quantity
def ablation_cost(evidence: Evidence, experiments: list[str], full: str, without: str) -> Measurement:
    """Bits per token lost when a part is removed: bpt_without - bpt_full."""
    return compare(evidence, experiments, (full, without), statistics.difference, "bpt")


@quantity
def ablation_share(evidence: Evidence, experiments: list[str], full: str, without: list[str], baseline: str) -> Measurement:
    """Share of the gain over the baseline that goes when a part is removed: (bpt_without - bpt_full) / (bpt_baseline - bpt_full).

    Where the full model has no certain gain over the baseline there is nothing to share, and no point.
    """
    def lost(base: Any, whole: Any, part: Any) -> Any:
        return part - whole

    def gained(base: Any, whole: Any, part: Any) -> Any:
        return base - whole

    def share(*means: Any) -> Any:
        return lost(*means) / gained(*means)

    points: list[Point] = []
    notes: list[str] = []
    gains = compare(evidence, experiments, (baseline, full), lambda base, whole: base - whole, "bpt").points  # with all their seeds
    ahead = [set(gain.sources) for gain in gains if (found := gain.at(0.0)).decided and found.value > 0]
    for name in without:
        shares = compare(evidence, experiments, (baseline, full, name), share, "", test=lambda samples: ratio(lost, gained, samples))
        notes += shares.notes
        for point in shares.points:
            if any(cells <= set(point.sources) for cells in ahead):
                points.append(Point(f"{name}, {point.label}", point.at, point.x, point.sources))
            else:
                notes.append(f"{point.label}: {full} has no certain gain over {baseline}, so none to share.")
    return Measurement("", tuple(points), None, tuple(dict.fromkeys(notes)))


@quantity
def accuracy_gain(evidence: Evidence, experiments: list[str], model: str, baseline: str) -> Measurement:
    """Percentage points of next-token accuracy above the baseline, paired by seed."""
    found = trained(evidence, experiments, (baseline, model))
    points = []
    for setting, label in zip(found.settings, labels(found.settings), strict=True):
        reference, other = (select(group, status="ok").set_index("seed")[f"{SPLIT}_accuracy"] for group in setting.groups)
        gains = (100.0 * (other - reference)).dropna().astype(float).to_numpy()
        if gains.size:
            points.append(Point(label, _student(gains), float(setting.length), setting.sources))
    return Measurement("points", tuple(points), None, found.notes, found.lost)


@quantity
def training_speed_ratio(evidence: Evidence, experiments: list[str], model: str, baseline: str) -> Measurement:
    """Training tokens per second of the model's cells over those of the baseline's: the geometric mean over seeds, paired by seed."""
    found = trained(evidence, experiments, (baseline, model))
    points = []
    for setting, label in zip(found.settings, labels(found.settings), strict=True):
        reference, other = (select(group, status="ok").set_index("seed")["train_tokens_per_s"] for group in setting.groups)
        logs = np.log((other / reference).dropna().astype(float).to_numpy())
        if logs.size:
            points.append(Point(label, _geometric(logs), float(setting.length), setting.sources))
    return Measurement("×", tuple(points), None, found.notes, found.lost)


def _geometric(logs: Any) -> Test:
    """Student's t of logarithms, told as their exponential."""
    def at(null: float) -> Estimate:
        found = statistics.t_interval(logs, null=math.log(null))
        low, high = (None if edge is None else math.exp(edge) for edge in (found.low, found.high))
        return replace(found, value=math.exp(found.value), low=low, high=high, null=null)

    return at


def _student(values: Any) -> Test:
    return lambda null: statistics.t_interval(values, null=null)


@quantity
def seed_spread(evidence: Evidence, experiments: list[str], model: str) -> Measurement:
    """Standard deviation of bits per token between seeds, with the chi-squared interval of a normal sample."""
    found = trained(evidence, experiments, (model,))
    points, notes = [], list(found.notes)
    for setting, label in zip(found.settings, labels(found.settings), strict=True):
        values = select(setting.groups[0], status="ok")[f"{SPLIT}_bpt"].astype(float).to_numpy()
        if len(values) > 1:
            points.append(Point(label, _chi_squared(float(values.std(ddof=1)), len(values) - 1), float(setting.length), setting.sources))
        else:
            notes.append(f"{label}: one seed.")
    return Measurement("bpt", tuple(points), None, tuple(notes))


def _chi_squared(sd: float, freedom: int) -> Test:
    from scipy.special import chdtr, chdtri

    low, high = (sd * math.sqrt(freedom / float(chdtri(freedom, tail))) for tail in (0.025, 0.975))

    def at(null: float) -> Estimate:
        below = float(chdtr(freedom, freedom * sd**2 / null**2)) if null > 0 else 1.0
        return Estimate(sd, low, high, 0.95, null, 2 * min(below, 1 - below), freedom + 1, 0, sd, None, None)

    return at


@quantity
def budget_ratio(evidence: Evidence, experiments: list[str]) -> Measurement:
    """Tokens trained on, against the smallest number of any cell of the experiments: largest ratio at each length."""
    cells = evidence.cells(experiments)
    rows = cells[(cells["status"] == "ok") & cells["tokens_seen"].notna()]
    least = float(rows["tokens_seen"].min()) if len(rows) else 0.0
    points = [
        Point(formats.length(length), exact(float(group["tokens_seen"].max()) / least), length, tuple(group["path"]), seeds_matter=False)
        for length, group in ((length, rows[rows["length"] == length]) for length in sorted(map(int, rows["length"].unique())))
    ]
    return Measurement("×", tuple(points))


@quantity
def parameter_range(evidence: Evidence, experiments: list[str], low: float, high: float) -> Measurement:
    """Smallest and largest parameter count of the experiments against the claimed ones: ratios measured / claimed."""
    cells = evidence.cells(experiments)
    counts = cells["parameters"].astype(float)
    return Measurement("×", tuple(
        Point(name, exact(count / claimed), None, tuple(cells[counts == count]["path"]), seeds_matter=False)
        for name, count, claimed in (("smallest", float(counts.min()), low), ("largest", float(counts.max()), high))
    ))
