"""Least-squares slopes: their test over settings or lengths that share nothing but the line, and what they owe to one place."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from overtone.reporting.quantities import Test
from overtone.reporting.statistics import Estimate


def slope(x: Sequence[float], y: Sequence[float]) -> float:
    """The least-squares slope."""
    centred = np.asarray(x, dtype=np.float64) - np.mean(x)
    return float(centred @ np.asarray(y, dtype=np.float64)) / float(centred @ centred)


def slopes_without(x: Sequence[float], y: Sequence[float], labels: Sequence[str]) -> tuple[tuple[str, float], ...]:
    """(what is left out, the slope of the rest) for each place of the axis; () where fewer than three are there."""
    if len(set(x)) < 3:
        return ()
    found = []
    for place in sorted(set(x)):
        kept = [(at, value) for at, value in zip(x, y, strict=True) if at != place]
        left = ", ".join(label for at, label in zip(x, labels, strict=True) if at == place)
        found.append((left, slope(*zip(*kept, strict=True))))
    return tuple(found)


def regression_slope(x: Sequence[float], y: Sequence[float]) -> Test:
    """The test of a least-squares slope: Student's t with n - 2 degrees of freedom; no interval from two points."""
    from scipy.special import stdtr, stdtrit

    count = len(x)
    centred = np.asarray(x, dtype=np.float64) - np.mean(x)
    scale = float(centred @ centred)
    value = slope(x, y)
    residuals = np.asarray(y, dtype=np.float64) - np.mean(y) - value * centred
    error = math.sqrt(float(residuals @ residuals) / (count - 2) / scale) if count > 2 else None

    def at(null: float) -> Estimate:
        if error is None:
            return Estimate(value, None, None, 0.95, null, None, 0, 0, None, None, None)
        reach = float(stdtrit(count - 2, 0.975)) * error
        p = float(2 * stdtr(count - 2, -abs(value - null) / error)) if error > 0 else float(value == null)
        return Estimate(value, value - reach, value + reach, 0.95, null, p, 0, 0, None, None, None)

    return at
