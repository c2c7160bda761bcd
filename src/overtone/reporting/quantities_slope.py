"""Slopes over settings or lengths that share nothing but the line through them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from overtone.reporting.quantities import Test
from overtone.reporting.statistics import Estimate


def regression_slope(x: Sequence[float], y: Sequence[float]) -> Test:
    """The test of a least-squares slope: Student's t with n - 2 degrees of freedom; no interval from two points."""
    from scipy.special import stdtr, stdtrit

    count = len(x)
    centred = np.asarray(x, dtype=np.float64) - np.mean(x)
    scale = float(centred @ centred)
    slope = float(centred @ np.asarray(y, dtype=np.float64)) / scale
    residuals = np.asarray(y, dtype=np.float64) - np.mean(y) - slope * centred
    error = math.sqrt(float(residuals @ residuals) / (count - 2) / scale) if count > 2 else None

    def at(null: float) -> Estimate:
        if error is None:
            return Estimate(slope, None, None, 0.95, null, None, 0, 0, None, None, None)
        reach = float(stdtrit(count - 2, 0.975)) * error
        p = float(2 * stdtr(count - 2, -abs(slope - null) / error)) if error > 0 else float(slope == null)
        return Estimate(slope, slope - reach, slope + reach, 0.95, null, p, 0, 0, None, None, None)

    return at
