"""Sizing one architecture to another's parameter count."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from overtone.errors import UserError
from overtone.files import canonical_json
from overtone.models.counts import parameter_counts
from overtone.models.registry import architecture
from overtone.models.unfilled import unfilled_model

TOLERANCE = {"mamba": 0.02}  # of the total; others 1%
MOST_LAYERS = 64


def matched_dimensions(
    name: str, *, reference: str, vocab_size: int, hidden: int, options: Mapping[str, Any]
) -> tuple[int, dict[str, Any]]:
    """(hidden, options) that give `name` the total parameter count of `reference` at `hidden`, within 1% (mamba 2%).

    Options that are set stay as they are; `tied` holds for both sides. An architecture with depth and width options keeps
    `hidden` and gets the depth whose width is closest to its own default; one with a width only gets the hidden size (a multiple
    of 8) whose default is nearest, and the width that is left; one with a depth only gets the depth at `hidden`, or, where no
    depth is near enough, another hidden size too.
    """
    target = _total(reference, vocab_size, hidden, {"tied": True} if options.get("tied") else {})
    found = architecture(name)
    tolerance = TOLERANCE.get(name, 0.01)
    fixed = dict(options)
    if found.width_option and found.width_option not in fixed:
        if found.depth_option is None and abs(_total(name, vocab_size, hidden, fixed) / target - 1) > tolerance:
            hidden = _hidden_near(name, target, vocab_size, fixed, step=8)
        candidates = _by_width(name, found.depth_option, found.width_option, target, vocab_size, hidden, fixed)
    else:
        candidates = _by_depth(name, found.depth_option, target, vocab_size, hidden, fixed, tolerance)
    best = min(candidates, key=lambda candidate: candidate[0], default=None)
    if best is None or abs(_total(name, vocab_size, best[1], best[2]) / target - 1) > tolerance:
        raise UserError(f"{name}: no size comes within {tolerance:.0%} of {reference}'s {target:,} parameters at hidden {hidden}, "
                        f"vocabulary {vocab_size}. Set fewer options or another hidden size.")
    return best[1], best[2]


def _depths(depth: str | None, fixed: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    if depth is None or depth in fixed:
        yield {}
    else:
        yield from ({depth: layers} for layers in range(1, MOST_LAYERS + 1))


def _by_width(name: str, depth: str | None, width: str, target: int, vocab_size: int, hidden: int,
              fixed: dict[str, Any]) -> Iterator[tuple[float, int, dict[str, Any]]]:
    """The count is affine in the width: two counts give the width for each depth."""
    natural = 8 / 3 * hidden if width == "intermediate" else 4 * hidden
    for layers in _depths(depth, fixed):
        chosen = fixed | layers
        low, high = (_total(name, vocab_size, hidden, chosen | {width: size}) for size in (1, 2))
        size = 1 + round((target - low) / (high - low))
        if size < 1:
            return
        yield abs(size / natural - 1), hidden, chosen | {width: size}


def _by_depth(name: str, depth: str | None, target: int, vocab_size: int, hidden: int, fixed: dict[str, Any],
              tolerance: float) -> Iterator[tuple[float, int, dict[str, Any]]]:
    """Depth at `hidden` where one is near enough; else, depth by depth, the hidden size that is nearest to the target."""
    settings = [fixed | layers for layers in _depths(depth, fixed)]
    errors = {index: abs(_total(name, vocab_size, hidden, chosen) / target - 1)
              for index, chosen in _until_above(name, target, vocab_size, hidden, settings)}
    nearest = min(errors, key=lambda index: errors[index])
    if errors[nearest] <= tolerance:
        yield errors[nearest], hidden, settings[nearest]
        return
    for index in errors:
        for step in (8, 4, 2, 1):
            size = _hidden_near(name, target, vocab_size, settings[index], step)
            if abs(_total(name, vocab_size, size, settings[index]) / target - 1) <= tolerance:
                yield abs(size - hidden), size, settings[index]
                break


def _until_above(name: str, target: int, vocab_size: int, hidden: int,
                 settings: list[dict[str, Any]]) -> Iterator[tuple[int, dict[str, Any]]]:
    for index, chosen in enumerate(settings):
        yield index, chosen
        if _total(name, vocab_size, hidden, chosen) > target:
            return


def _hidden_near(name: str, target: int, vocab_size: int, chosen: dict[str, Any], step: int) -> int:
    """The multiple of `step` whose count is nearest to the target; counts grow with the hidden size."""
    low, high = 1, 2
    while _total(name, vocab_size, high * step, chosen) < target:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _total(name, vocab_size, middle * step, chosen) < target else (low, middle)
    return min((low * step, high * step), key=lambda size: abs(_total(name, vocab_size, size, chosen) - target))


def _total(name: str, vocab_size: int, hidden: int, options: Mapping[str, Any]) -> int:
    return _cached_total(name, vocab_size, hidden, canonical_json(dict(options)))


@lru_cache(maxsize=4096)
def _cached_total(name: str, vocab_size: int, hidden: int, options: str) -> int:
    import json

    return int(parameter_counts(unfilled_model(name, vocab_size=vocab_size, hidden=hidden, **json.loads(options)))["total"])
