"""Paired comparisons of trained cells: the settings in which all architectures ended ok, and a statistic's test in each.

A setting is a protocol, corpus, tokenizer, size and length. Within it all architectures saw the same seeds, windows and
targets, so every comparison is paired. Losses are those of the split that the tables use (`collect.SPLIT`), in bits per token.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from overtone.errors import unknown_name
from overtone.reporting import formats, statistics
from overtone.reporting.collect import PLACE, SPLIT, outcome, paired
from overtone.reporting.quantities import Evidence, Measurement, NotMeasuredError, Point, Test
from overtone.reporting.quantities_slope import regression_slope, slopes_without
from overtone.reporting.rows import select
from overtone.reporting.statistics import Estimate

Statistic = Callable[..., Any]
SettingTest = Callable[[Sequence[Any]], Test]
_FAR = 1e4  # a ratio whose interval reaches that far has none


@dataclass(frozen=True)
class Setting:
    """One setting with the rows of each architecture, in the order asked for: one row a seed."""

    coordinates: tuple[Any, ...]
    groups: tuple[pd.DataFrame, ...]

    @property
    def length(self) -> int:
        """Training length in tokens."""
        return int(self.coordinates[-1])

    @property
    def text(self) -> tuple[Any, ...]:
        """Corpus and tokenizer: settings of one text are evaluated on the same targets."""
        return self.coordinates[1:3]

    @property
    def sources(self) -> tuple[str, ...]:
        """The cells' metrics files."""
        return tuple(path for group in self.groups for path in group["path"])

    def samples(self) -> list[Any]:
        """One (seeds, windows) matrix an architecture; [] where no seed has them all."""
        return paired(*self.groups)


@dataclass(frozen=True)
class Trained:
    """The settings in which every architecture ended ok, remarks on all failures, and settings lost by the last architecture alone."""

    settings: list[Setting]
    notes: tuple[str, ...]
    lost: tuple[str, ...]


def trained(evidence: Evidence, experiments: Sequence[str], architectures: Sequence[str]) -> Trained:
    """Look at every setting of the experiments that has cells of all architectures; the last one is the model that a claim is about."""
    cells = evidence.cells(experiments)
    for name in architectures:
        if name not in set(cells["architecture"]):
            raise NotMeasuredError(f"No cell of {' or '.join(experiments)} trains {name}.")
    found, notes, lost = [], [], []
    for coordinates, rows in cells.groupby(list(PLACE), sort=True):
        groups = tuple(select(rows, architecture=name) for name in architectures)
        if any(group.empty for group in groups):
            continue
        where = f"{formats.length(coordinates[-1])} ({coordinates[-2]}, {coordinates[1]})"
        notes += [note for name, group in zip(architectures, groups, strict=True) for note in _failures(name, group, where)]
        ended = [outcome(group["status"]) == "ok" for group in groups]
        if all(ended):
            found.append(Setting(coordinates, groups))
        elif all(ended[:-1]):
            lost.append(where)
    return Trained(found, tuple(notes), tuple(lost))


def _failures(name: str, group: pd.DataFrame, where: str) -> list[str]:
    failed = group[group["status"] != "ok"]["status"]
    return [f"{name} at {where}: {len(failed)} of {len(group)} cells ended {' or '.join(sorted(set(failed)))}."] if len(failed) else []


def labels(settings: Sequence[Setting]) -> list[str]:
    """What tells the settings apart: the names that differ, and the length if it does or nothing else does."""
    differ = [len({setting.coordinates[index] for setting in settings}) > 1 for index in range(len(PLACE))]
    named = []
    for setting in settings:
        words = [str(word) for word, varies in zip(setting.coordinates[:-1], differ, strict=False) if varies]
        if differ[-1] or not words:
            words.append(f"{formats.length(setting.length)} tokens")
        named.append(", ".join(words))
    return named


def _place(settings: Sequence[Setting]) -> list[str]:
    """Text and size that all settings share: a verdict is about them."""
    names = [{str(setting.coordinates[index]) for setting in settings} for index in (1, 2, 3)]
    shared = [word for words in names if len(words) == 1 for word in words]
    return [f"Measured on {', '.join(shared)}."] if shared else []


def compare(evidence: Evidence, experiments: Sequence[str], architectures: Sequence[str], statistic: Statistic, unit: str,
            over: str = "length", only: str = "all", sizes: Sequence[str] = (), test: SettingTest | None = None) -> Measurement:
    """`statistic(mean of each architecture)` in every setting of the experiments, and its trend.

    test: how a setting is tested from its samples; None: by the interval that the tables print.

    over: what the trend runs along: length (a doubling), size (a doubling of the first architecture's parameters), or
    task (a bit per byte of the first architecture's loss, which says how hard a task is).
    only: "all" lengths, or the "shortest" or "longest" of those that most settings share. sizes: these only ([]: all).
    """
    if over not in _TREND:
        raise unknown_name("quantity: over", over, _TREND)
    found = trained(evidence, experiments, architectures)
    settings = _at_edge([item for item in found.settings if not sizes or item.coordinates[3] in sizes], only)
    kept, notes = [], list(found.notes)
    for setting, label in zip(settings, labels(settings), strict=True):
        samples = setting.samples()
        if samples:
            kept.append((setting, label, samples))
        else:
            notes.append(f"{label}: no seed has all of {', '.join(architectures)}.")
    notes = [*_place([setting for setting, _, _ in kept]), *notes]
    axis = [_axis(over, setting) for setting, _, _ in kept]
    points = tuple(
        Point(label, test(samples) if test else bootstrap(statistic, samples), x if over == "task" else 2.0**x, setting.sources)
        for (setting, label, samples), x in zip(kept, axis, strict=True)
    )
    trend = _trend(statistic, [setting for setting, _, _ in kept], [samples for _, _, samples in kept], axis, over)
    if trend:
        values = [float(statistic(*(matrix.mean() for matrix in samples))) for _, _, samples in kept]
        trend = replace(trend, without=slopes_without(axis, values, [label for _, label, _ in kept]))
    return Measurement(unit, points, trend, tuple(notes), found.lost if only == "all" else ())


def ratio(above: Statistic, below: Statistic, samples: Sequence[Any]) -> Test:
    """The test of above(means) / below(means) by Fieller's theorem: r is tested as above - r * below = 0, whose uncertainty is
    known, instead of by the spread of ratios whose denominator varies. The interval holds every r that this does not reject;
    none where it has no end (the denominator is not surely other than 0)."""
    whole = float(below(*(matrix.mean() for matrix in samples)))
    value = float(above(*(matrix.mean() for matrix in samples))) / whole

    def contrast(r: float) -> Estimate:
        return statistics.estimate(lambda *means: above(*means) - r * below(*means), *samples)

    bounds: tuple[float | None, float | None] = (None, None)
    if statistics.estimate(below, *samples).decided:
        low, high = _edge(contrast, value, -1.0), _edge(contrast, value, 1.0)
        bounds = (None, None) if low is None or high is None else (low, high)

    def at(null: float) -> Estimate:
        found = contrast(null)  # divided by `whole` it is value - null, and so are its errors in units of the ratio
        sd, se = (None if error is None else error / abs(whole) for error in (found.seed_sd, found.window_se))
        return replace(found, value=value, low=bounds[0], high=bounds[1], null=null, seed_sd=sd, window_se=se,
                       effect=(value - null) / sd if sd else None)

    return at


def _edge(contrast: Callable[[float], Estimate], start: float, step: float) -> float | None:
    """Where, from `start` in the direction of `step`, the contrast begins to be decided; None where it never does."""
    inside, outside = start, start + step
    while not contrast(outside).decided:
        inside, step = outside, 2 * step
        outside += step
        if abs(step) > _FAR:
            return None
    while abs(outside - inside) > 1e-3 * max(1.0, abs(outside)):
        middle = (inside + outside) / 2
        inside, outside = (inside, middle) if contrast(middle).decided else (middle, outside)
    return outside


def bootstrap(statistic: Statistic, samples: Sequence[Any]) -> Test:
    """The test of one setting: the interval that the tables print."""
    return lambda null: statistics.estimate(statistic, *samples, null=null)


def _at_edge(settings: list[Setting], only: str) -> list[Setting]:
    if only == "all" or not settings:
        return settings
    lengths = [setting.length for setting in settings]
    most = max(map(lengths.count, lengths))
    edge = (min if only == "shortest" else max)(length for length in lengths if lengths.count(length) == most)
    return [setting for setting in settings if setting.length == edge]


def _axis(over: str, setting: Setting) -> float:
    reference = select(setting.groups[0], status="ok")
    if over == "length":
        return math.log2(setting.length)
    if over == "size":
        return math.log2(float(reference["parameters"].iloc[0]))
    return float(reference[f"{SPLIT}_bpb"].astype(float).mean())


_TREND = {"length": "per doubling of the length", "size": "per doubling of the size", "task": "per bit a byte of the baseline"}


def _trend(statistic: Statistic, settings: Sequence[Setting], samples: Sequence[Sequence[Any]], axis: Sequence[float],
           over: str) -> Point | None:
    """Least-squares slope of the statistic along the axis.

    Settings of one text share seeds and windows: every seed has a slope of its own, and windows are resampled together, so that what
    settings share cancels. Settings of other texts (tasks) share neither: there the slope has Student's interval of a regression.
    """
    if len(set(axis)) < 2:
        return None
    sources = tuple(source for setting in settings for source in setting.sources)
    joint = paired(*(group for setting in settings for group in setting.groups)) if len({setting.text for setting in settings}) == 1 else []
    if joint:
        x = np.asarray(axis) - np.mean(axis)
        width = len(settings[0].groups)

        def slope(*means: Any) -> Any:
            return sum(weight * statistic(*means[start * width : (start + 1) * width]) for start, weight in enumerate(x / (x @ x)))

        return Point(_TREND[over], bootstrap(slope, joint), None, sources)
    values = [float(statistic(*(matrix.mean() for matrix in matrices))) for matrices in samples]
    return Point(_TREND[over], regression_slope(axis, values), None, sources, seeds_matter=False)
