"""Tests from more than one setting: a variance between seeds that settings share, and slopes over settings."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from overtone.reporting import statistics
from overtone.reporting.quantities import Test
from overtone.reporting.statistics import Estimate


@dataclass(frozen=True)
class SeedSpread:
    """The variance of a statistic between seeds, pooled over the settings of a claim.

    With 2 or 3 seeds a setting, its own variance has 1 or 2 degrees of freedom. As in an analysis of variance, the settings of a
    claim are taken to share one variance between seeds: s^2 = sum_i (S_i - 1) s_i^2 / f, f = sum_i (S_i - 1). An estimate
    then has se^2 = se_windows^2 + s^2 / S and Student's t with Welch and Satterthwaite's degrees of freedom. With one setting
    nothing is pooled and the interval is that of the tables.
    """

    variance: float
    freedom: int
    settings: int

    @classmethod
    def pool(cls, per_seed: Sequence[Any]) -> SeedSpread:
        """From the statistic of each seed in each setting: one array (S_i,) a setting."""
        values = [np.atleast_1d(np.asarray(item, dtype=np.float64)) for item in per_seed]
        freedom = sum(item.size - 1 for item in values)
        total = sum(float(item.var(ddof=1)) * (item.size - 1) for item in values if item.size > 1)
        return cls(total / freedom if freedom else 0.0, freedom, len(values))

    @property
    def pooled(self) -> bool:
        """Whether there is more than one setting to pool."""
        return self.settings > 1 and self.freedom > 0

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader must know of the pooling."""
        if not self.pooled:
            return ()
        freedom = f"{self.freedom} degree{'' if self.freedom == 1 else 's'} of freedom"
        return (f"The variance between seeds is pooled over {self.settings} settings ({freedom}).",)

    def test(self, statistic: Callable[..., Any], settings: Sequence[Sequence[Any]], weights: Sequence[float]) -> Test:
        """The test of sum_i weights_i * statistic(setting i). A setting is one (seeds, windows) matrix an architecture.

        All settings must have the same windows: these are resampled together.
        """
        width = len(settings[0])

        def total(*means: Any) -> Any:
            return sum(weight * statistic(*means[start * width:(start + 1) * width]) for start, weight in enumerate(weights))

        windows = statistics.estimate(total, *(matrix.mean(axis=0) for samples in settings for matrix in samples))
        counts = [samples[0].shape[0] for samples in settings]
        seed_part = self.variance * sum(weight**2 / count for weight, count in zip(weights, counts, strict=True))
        sd = math.sqrt(self.variance * sum(weight**2 for weight in weights))
        return _student(windows, seed_part, self.freedom, min(counts), sd)


def _student(windows: Estimate, seed_part: float, seed_freedom: int, seeds: int, sd: float) -> Test:
    """The t test of a value whose variance is that of its windows plus `seed_part`."""
    from scipy.special import stdtr, stdtrit

    value, window_part = windows.value, (windows.window_se or 0.0) ** 2
    error = math.sqrt(window_part + seed_part)
    parts = seed_part**2 / seed_freedom if seed_freedom else 0.0
    parts += window_part**2 / (windows.windows - 1) if windows.windows > 1 else 0.0
    freedom = error**4 / parts if parts else 1.0
    reach = float(stdtrit(freedom, 0.975)) * error

    def at(null: float) -> Estimate:
        p = float(2 * stdtr(freedom, -abs(value - null) / error)) if error > 0 else float(value == null)
        effect = (value - null) / sd if sd else None
        return Estimate(value, value - reach, value + reach, 0.95, null, p, seeds, windows.windows, sd, windows.window_se, effect)

    return at


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
