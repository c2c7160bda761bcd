"""Decision rules: when a claim holds, fails, or stays open."""

import numpy as np
import pytest

from overtone.reporting import statistics
from overtone.reporting.decide import FAILS, HOLDS, OPEN, decide
from overtone.reporting.quantities import Measurement, NotMeasuredError, Point, exact, lognormal
from overtone.reporting.quantities_paired import ratio
from overtone.reporting.quantities_slope import regression_slope, slope, slopes_without
from overtone.reporting.statistics import t_interval

ABOVE = {"kind": "ordering", "side": "above", "threshold": 0}
BELOW = {"kind": "ordering", "side": "below", "threshold": 0}


def seeds(mean, sd=0.1, count=5):
    """A point with `count` seeds, evenly spread, standard deviation `sd`."""
    spread = np.linspace(-1, 1, count)
    values = mean + sd * spread / spread.std(ddof=1) if count > 1 else np.array([mean])
    return Point("seeds", lambda null: t_interval(values, null=null))


def numbers(*values, trend=None, lost=()):
    points = tuple(Point(f"at {x}", exact(value), x, seeds_matter=False) for x, value in enumerate(values, 1))
    return Measurement("%", points, trend, (), tuple(lost))


@pytest.mark.parametrize(("means", "rule", "state"), [
    ([1.0, 2.0], ABOVE, HOLDS),
    ([-1.0, -2.0], ABOVE, FAILS),
    ([1.0, -2.0], ABOVE, FAILS),  # one length against it is enough
    ([1.0, 0.01], ABOVE, OPEN),
    ([1.0, -0.01], ABOVE, OPEN),
    ([-1.0, -2.0], BELOW, HOLDS),
    ([1.0], BELOW, FAILS),
])
def test_ordering_needs_every_point_beyond_doubt(means, rule, state):
    measurement = Measurement("%", tuple(seeds(mean) for mean in means))
    assert decide(rule, measurement).state == state


def test_holm_makes_many_lengths_harder_than_one():
    one = seeds(0.18, sd=0.13)  # p about 0.04
    assert decide(ABOVE, Measurement("%", (one,))).state == HOLDS
    assert decide(ABOVE, Measurement("%", (one,) * 4)).state == OPEN


def test_the_border_of_an_ordering_is_the_threshold_not_zero():
    rule = {"kind": "ordering", "side": "above", "threshold": 0.5}
    assert decide(rule, Measurement("", (seeds(1.0),))).state == HOLDS
    assert decide(rule, Measurement("", (seeds(0.3),))).state == FAILS
    assert decide(rule, Measurement("", (seeds(0.52),))).state == OPEN


@pytest.mark.parametrize(("mean", "sd", "state"), [
    (0.01, 0.005, HOLDS),
    (0.01, 0.05, OPEN),    # not different from 0 is no proof of equality
    (0.05, 0.005, FAILS),
    (0.03, 0.02, OPEN),
    (0.0, 0.0, HOLDS),
])
def test_equality_is_shown_by_an_interval_inside_the_tolerance(mean, sd, state):
    rule = {"kind": "equality", "target": 0, "tolerance": 0.022}
    assert decide(rule, Measurement("bpt", (seeds(mean, sd),))).state == state


def test_range_includes_its_borders_for_exact_numbers():
    rule = {"kind": "range", "low": 0.7, "high": 1.8}
    assert decide(rule, numbers(0.7, 1.8)).state == HOLDS
    assert decide(rule, numbers(0.69)).state == FAILS


def test_an_exact_number_on_the_threshold_is_not_beyond_it():
    assert decide({"kind": "ordering", "side": "above", "threshold": 1}, numbers(1.0)).state == FAILS


def test_growth_looks_at_the_trend_alone():
    rule = {"kind": "growth", "side": "above", "threshold": 0}
    rising = Point("trend", exact(0.5), seeds_matter=False)
    assert decide(rule, numbers(-3.0, -2.0, trend=rising)).state == HOLDS
    assert decide(rule, Measurement("%", (seeds(1.0),), seeds(0.01))).state == OPEN
    with pytest.raises(NotMeasuredError, match="at least two"):
        decide(rule, numbers(1.0))


def test_a_trend_that_one_place_carries_is_a_step_not_growth():
    rule = {"kind": "growth", "side": "above", "threshold": 0}

    def decision(*values):
        x, labels = range(len(values)), [f"{number}K" for number in range(len(values))]
        trend = Point("trend", exact(slope(x, values)), without=slopes_without(x, values, labels))
        return decide(rule, numbers(*values, trend=trend))

    assert decision(1.3, 4.4, 4.2).state == OPEN
    assert decision(1.3, 4.4, 4.2).notes == ("Without 0K the trend is -0.2: that one place carries it.",)
    assert decision(1.3, 4.4, 4.5).state == HOLDS
    assert decision(1.3, 4.4, 4.2, 6.0, 7.0).state == HOLDS  # a dip on the way is no step
    assert decision(4.2, 1.0, 1.1).state == OPEN  # a fall that one place carries contradicts no growth
    assert decision(4.2, 1.0, 0.9).state == FAILS
    assert decision(1.0, 2.0).state == HOLDS  # two places: nothing to leave out
    carried = Point("trend", exact(1.0), without=(("1K", -0.5),))
    behind = Measurement("%", (Point("1K", exact(-9.0), 1.0), Point("4K", exact(-2.5), 4.0)), carried)
    assert decide(rule, behind).state == OPEN
    assert decide(rule | {"ahead": True}, behind).state == FAILS


def test_what_is_left_out_is_a_place_not_a_setting():
    found = dict(slopes_without([7, 7, 9, 11], [0.0, 2.0, 5.0, 9.0], list("abcd")))
    assert found == pytest.approx({"a, b": 2.0, "c": 2.0, "d": 2.0})
    assert slopes_without([7, 7, 9], [0.0, 2.0, 5.0], list("abc")) == ()


def test_crossing_needs_both_sides():
    rule = {"kind": "crossing", "level": 1, "between": [2, 3]}
    assert decide(rule, numbers(0.5, 0.9, 1.1, 2.0)).state == HOLDS
    assert decide(rule, numbers(0.5, 1.2, 1.1, 2.0)).state == FAILS
    with pytest.raises(NotMeasuredError, match="3 or above"):
        decide(rule, numbers(0.5, 0.9))


def test_one_seed_never_decides():
    found = decide(ABOVE, Measurement("%", (seeds(9.0, count=1),)))
    assert found.state == OPEN


def test_a_window_interval_of_one_seed_never_decides_about_models():
    windows = np.full((1, 20), 3.0) + np.linspace(0, 0.001, 20)
    point = Point("one seed", lambda null: statistics.estimate(statistics.mean, windows, null=null))
    assert point.at(0.0).decided
    assert decide(ABOVE, Measurement("bpt", (point,))).state == OPEN
    given = Point("one given model", point.at, seeds_matter=False)
    assert decide(ABOVE, Measurement("bpt", (given,))).state == HOLDS


def test_a_length_at_which_the_claimed_winner_failed_keeps_the_claim_open():
    assert decide(ABOVE, numbers(1.0, 2.0)).state == HOLDS
    assert decide(ABOVE, numbers(1.0, 2.0, lost=["2K"])).state == OPEN
    assert decide(ABOVE, numbers(1.0, -2.0, lost=["2K"])).state == FAILS


def test_a_measurement_without_points_is_not_measured():
    with pytest.raises(NotMeasuredError):
        Measurement("%", ())


def test_times_are_compared_on_a_log_scale():
    faster = Point("ratio", lognormal(1.3, 0.05, 8), seeds_matter=False)
    rule = {"kind": "ordering", "side": "above", "threshold": 1}
    assert decide(rule, Measurement("×", (faster,))).state == HOLDS
    assert decide(rule, Measurement("×", (Point("ratio", lognormal(1.05, 0.05, 9), seeds_matter=False),))).state == OPEN
    assert decide(rule, Measurement("×", (Point("ratio", lognormal(9.0, None, 0), seeds_matter=False),))).state == OPEN
    assert faster.at(1.0).low == pytest.approx(1.3 * np.exp(-2.306 * 0.05), rel=1e-3)


def test_a_slope_of_two_points_has_no_interval():
    assert regression_slope([1, 2], [1, 2])(0.0).low is None
    line = regression_slope([1, 2, 3, 4], [2.0, 4.1, 5.9, 8.0])(0.0)
    reference = np.polyfit([1, 2, 3, 4], [2.0, 4.1, 5.9, 8.0], 1, cov="unscaled")[0][0]
    assert line.value == pytest.approx(reference)
    assert line.p < 0.01
    assert line.low < line.value < line.high


def test_an_advantage_that_grows_must_be_one_at_the_far_end():
    rule = {"kind": "growth", "side": "above", "threshold": 0}
    trend = Point("slope", exact(1.0))
    behind = Measurement("%", (Point("1K", exact(-3.0), 1024.0), Point("2K", exact(-2.0), 2048.0)), trend)
    leading = Measurement("%", (Point("1K", exact(-1.0), 1024.0), Point("2K", exact(2.0), 2048.0)), trend)
    assert decide(rule, behind).state == HOLDS
    assert decide(rule | {"ahead": True}, behind).state == FAILS
    assert decide(rule | {"ahead": True}, leading).state == HOLDS
    assert decide(rule | {"ahead": True}, behind).decisive.point is trend


def samples(above, below, spread, seeds, windows, generator):
    """Two (seeds, windows) matrices with these means."""
    return [mean + spread * (generator.normal(size=(seeds, 1)) + generator.normal(size=(seeds, windows))) for mean in (above, below)]


def test_fiellers_interval_covers_at_its_level_where_the_ratio_of_seeds_does_not():
    """A denominator three times its own standard error: ratios of seeds are skewed, the contrast is not."""
    generator = np.random.default_rng(9)
    inside = bounded = 0
    for _ in range(200):
        found = ratio(lambda a, b: a, lambda a, b: b, samples(0.6, 0.3, 0.1, 4, 12, generator))(0.5)
        assert (found.low is None) == (found.high is None)
        if found.low is not None:
            bounded += 1
            assert found.low < found.value < found.high
            assert statistics.power_note(found).startswith("An effect of this size")  # of four seeds, not of one
            assert found.effect == pytest.approx((found.value - 0.5) / found.seed_sd)
            assert (found.p < 0.05) == (not found.low - 2e-3 <= 0.5 <= found.high + 2e-3) or abs(found.p - 0.05) < 0.01
        inside += ratio(lambda a, b: a, lambda a, b: b, samples(0.6, 0.3, 0.1, 4, 12, generator))(2.0).p >= 0.05
    assert 0.9 <= inside / 200 <= 0.99
    assert bounded > 100


def test_a_ratio_to_nothing_has_no_interval():
    above = np.full((3, 8), 0.5) + np.linspace(0, 0.1, 8)
    below = np.array([[-0.1], [0.0], [0.13]]) + np.linspace(-0.05, 0.05, 8)
    found = ratio(lambda a, b: a, lambda a, b: b, [above, below])(0.5)
    assert (found.low, found.high) == (None, None)
