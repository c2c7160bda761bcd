"""The exponent of growth: exact where the numbers are, covered by its interval where they are noisy, absent where it says nothing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from overtone.reporting.quantities_power import power_exponent

LENGTHS = (256, 512, 1024, 2048, 4096, 4200)


@settings(deadline=None)  # the first call imports scipy
@given(st.floats(0.3, 3.0), st.floats(0.0, 1e8), st.floats(1.0, 1e4))
def test_exact_numbers_give_their_exponent(p, constant, factor):
    y = [constant + factor * length**p for length in LENGTHS]
    assume(max(y) - min(y) >= 1e-3 * max(y))  # growth that rounding hides
    test = power_exponent(LENGTHS, y)
    assert test(1.0).value == pytest.approx(p, abs=2e-2)


def test_the_interval_covers_the_truth_about_as_often_as_it_says():
    random = np.random.default_rng(7)
    found = [power_exponent(LENGTHS, [(1e7 + 9e3 * length) * (1 + 0.02 * random.standard_normal()) for length in LENGTHS])(1.0)
             for _ in range(150)]
    bounded = [item for item in found if item.low is not None]
    assert len(bounded) > 140
    assert 0.85 < np.mean([item.low <= 1 <= item.high for item in bounded]) < 1
    assert all((item.p > 0.05) == (item.low <= 1 <= item.high) for item in bounded)


def test_growth_that_is_no_power_has_no_exponent():
    assert power_exponent(LENGTHS, [5 + 0.1 * np.log(length) for length in LENGTHS]) is None
    assert power_exponent(LENGTHS, [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]) is None


def test_three_points_have_a_value_and_no_interval():
    estimate = power_exponent([1, 2, 4], [11, 14, 26])(2.0)
    assert estimate.value == pytest.approx(2)
    assert estimate.low is estimate.p is None


@pytest.mark.parametrize("y", [(1.0, 2.0), (5.0, 4.0, 3.0, 2.0), (3.0, 3.0, 3.0, 3.0)])
def test_without_growth_or_points_there_is_none(y):
    assert power_exponent(LENGTHS[: len(y)], y) is None
