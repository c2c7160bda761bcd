"""The exponent of growth free of any constant part: p of y = a + b x^p, y > 0 and growing, by least relative squares.

For a given p the best a and b are linear least squares, so p alone is searched. Its interval holds every p that the F test with 1 and
n - 3 degrees of freedom does not reject: RSS(p) <= RSS(best) (1 + F / (n - 3)).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from overtone.reporting.quantities import Test
from overtone.reporting.statistics import Estimate

LOW, HIGH = 0.05, 6.0  # exponents that are searched; one at either end is none, an interval that reaches an end has none


def power_exponent(x: Sequence[float], y: Sequence[float]) -> Test | None:
    """The test of the exponent; None below three points, or where y does not grow with x as a power within the search. Three points leave
    nothing for an interval."""
    from scipy.optimize import brentq, minimize_scalar
    from scipy.special import fdtrc, fdtri

    at, value = np.asarray(x, dtype=np.float64) / max(x), np.asarray(y, dtype=np.float64)
    freedom = len(at) - 3
    if freedom < 0 or value.min() <= 0 or _fit(at, value / value.max(), 1.0)[1] <= 1e-9:
        return None

    def residual(p: float) -> float:
        return _fit(at, value, p)[0]

    grid = np.linspace(LOW, HIGH, 240)
    start = float(grid[int(np.argmin([residual(p) for p in grid]))])
    step = float(grid[1] - grid[0])
    best = float(minimize_scalar(residual, bounds=(max(LOW, start - step), min(HIGH, start + step)), method="bounded",
                                 options={"xatol": 1e-9}).x)
    if not LOW + 1e-3 < best < HIGH - 1e-3:
        return None
    if not freedom:
        return lambda null: Estimate(best, None, None, 0.95, null, None, 0, 0, None, None, None)
    least = max(residual(best), 1e-18 * len(at))  # rounding alone
    border = least * (1 + float(fdtri(1, freedom, 0.95)) / freedom)
    low, high = (_crossing(lambda p: residual(p) - border, best, end, brentq) for end in (LOW, HIGH))

    def test(null: float) -> Estimate:
        p = float(fdtrc(1, freedom, freedom * max(0.0, residual(null) / least - 1)))
        bounded = low is not None and high is not None
        return Estimate(best, low if bounded else None, high if bounded else None, 0.95, null, p, 0, 0, None, None, None)

    return test


def _fit(x: np.ndarray, y: np.ndarray, p: float) -> tuple[float, float]:
    """(sum of squared relative residuals, b) of the best a + b x^p."""
    basis = np.stack([np.ones_like(x), x**p], axis=1) / y[:, None]
    coefficients, *_ = np.linalg.lstsq(basis, np.ones_like(y), rcond=None)
    return float(((basis @ coefficients - 1) ** 2).sum()), float(coefficients[1])


def _crossing(excess: Callable[[float], float], start: float, end: float, root: Callable[..., float]) -> float | None:
    """Where, between the best exponent and the end of the search, the residuals become too large; None where they never do."""
    return float(root(excess, start, end, xtol=1e-6)) if excess(end) > 0 else None
