"""Coverage by simulation, agreement with closed forms, Holm, power."""

import math

import numpy as np
import pytest
from scipy import stats

from overtone.reporting.statistics import (
    blocks,
    difference,
    estimate,
    gap,
    holm,
    matrix,
    mean,
    merged,
    perplexity_reduction,
    power_note,
    seeds_needed,
    t_interval,
)

TRUE = -0.2


def simulated(generator, seeds, windows, seed_sd, window_sd, noise_sd):
    """Two models on the same seeds and windows: large shared variation, a difference of TRUE, skewed window effects."""
    shared = 6 + generator.normal(0, 0.5, (seeds, 1)) + generator.normal(0, 1.0, (1, windows))
    effect = generator.normal(0, seed_sd, (seeds, 1)) if seed_sd else 0.0
    skewed = (generator.standard_gamma(2.0, (1, windows)) - 2) / math.sqrt(2) * window_sd
    return shared, shared + TRUE + effect + skewed + generator.normal(0, noise_sd, (seeds, windows))


def coverage(seeds, windows, seed_sd, window_sd, noise_sd, trials=1000):
    generator = np.random.default_rng(7)
    hits, widths = 0, []
    for _ in range(trials):
        pair = simulated(generator, seeds, windows, seed_sd, window_sd, noise_sd)
        found = estimate(difference, *pair, null=TRUE, draws=1000)
        hits += not found.decided
        widths.append(found.high - found.low)
    return hits / trials, float(np.mean(widths))


# 1000 trials at 0.95 have a standard error of 0.007
@pytest.mark.parametrize(
    ("seeds", "windows", "seed_sd", "window_sd", "noise_sd"),
    [
        (1, 3, 0.0, 0.0, 0.05),  # three windows: about the t interval of three values
        (1, 14, 0.0, 0.3, 0.1),
        (1, 60, 0.0, 0.3, 0.1),
        (2, 14, 0.1, 0.0, 0.05),  # two seeds: one degree of freedom
        (3, 14, 0.1, 0.0, 0.05),
        (3, 40, 0.1, 0.3, 0.1),
        (5, 40, 0.1, 0.3, 0.1),
        (5, 40, 0.02, 0.3, 0.3),
    ],
)
def test_nominal_95_percent_intervals_cover(seeds, windows, seed_sd, window_sd, noise_sd):
    covered, _ = coverage(seeds, windows, seed_sd, window_sd, noise_sd)
    assert covered >= 0.92


def test_intervals_are_not_wide_for_safety_where_one_source_dominates():
    assert coverage(5, 40, 0.1, 0.0, 0.02)[0] <= 0.97
    assert coverage(1, 60, 0.0, 0.3, 0.1)[0] <= 0.97


def test_resampling_seeds_undercovers_which_is_why_it_is_not_used():
    generator = np.random.default_rng(3)
    hits = 0
    for _ in range(300):
        reference, other = simulated(generator, 3, 14, 0.1, 0.0, 0.05)
        resampled = (other - reference)[generator.integers(0, 3, (500, 3))].mean(axis=1)
        windows = generator.multinomial(14, np.full(14, 1 / 14), size=500) / 14
        low, high = np.quantile((resampled * windows).sum(axis=1), [0.025, 0.975])
        hits += low <= TRUE <= high
    assert hits / 300 < 0.85


def test_windows_that_share_a_document_undercover_until_they_are_merged():
    generator = np.random.default_rng(5)
    plain = in_blocks = 0
    for _ in range(300):
        documents = np.repeat(generator.normal(0, 0.3, 8), 8)  # 8 documents of 8 windows
        other = 6 + TRUE + documents + generator.normal(0, 0.1, 64)
        reference = np.full(64, 6.0)
        plain += not estimate(difference, reference, other, null=TRUE, draws=1000).decided
        in_blocks += not estimate(difference, blocks(reference, 8), blocks(other, 8), null=TRUE, draws=1000).decided
    assert plain / 300 < 0.75
    assert in_blocks / 300 > 0.92


def test_without_window_variation_it_is_students_interval():
    per_seed = np.array([6.2, 6.5, 6.1, 6.4])
    found = estimate(mean, np.repeat(per_seed[:, None], 10, axis=1))
    low, high = stats.t.interval(0.95, 3, per_seed.mean(), stats.sem(per_seed))
    assert found.low == pytest.approx(low, abs=0.002)
    assert found.high == pytest.approx(high, abs=0.002)


def test_t_interval_agrees_with_scipy():
    values = [0.31, 0.28, 0.4, 0.33, 0.29]
    found = t_interval(values, null=0.25)
    low, high = stats.t.interval(0.95, 4, np.mean(values), stats.sem(values))
    assert (found.low, found.high) == pytest.approx((low, high))
    assert found.p == pytest.approx(stats.ttest_1samp(values, 0.25).pvalue)
    assert found.effect == pytest.approx((np.mean(values) - 0.25) / np.std(values, ddof=1))


def test_pairing_removes_what_the_models_share():
    reference, other = simulated(np.random.default_rng(0), 3, 30, 0.01, 0.02, 0.01)
    paired = estimate(difference, reference, other)
    alone = estimate(mean, other)
    assert paired.high - paired.low < 0.2 * (alone.high - alone.low)
    assert paired.decided
    assert paired.p < 0.05


def test_p_value_and_interval_agree():
    generator = np.random.default_rng(12)
    for _ in range(40):
        reference, other = simulated(generator, 3, 6, 0.1, 0.3, 0.1)
        found = estimate(difference, reference, other)
        assert found.decided == (found.p < 0.05)


def test_one_window_and_one_seed_has_no_interval():
    found = estimate(difference, [[6.0]], [[5.0]])
    assert (found.value, found.low, found.high, found.p, found.decided) == (-1.0, None, None, None, False)
    assert t_interval([3.0]).low is None


def test_statistics_of_known_values():
    assert gap(6.662, 6.571) == pytest.approx(1.4, abs=0.05)  # the published gap at length 1024
    published = perplexity_reduction(np.log2(4.617), np.log2(3.764))
    assert published == pytest.approx(18.5, abs=0.05)
    same = np.array([[5.0, 6.0, 7.0]])
    none = estimate(gap, same, same)
    assert (none.value, none.low, none.high, none.p) == (0.0, 0.0, 0.0, 1.0)


def test_equal_streams_give_equal_intervals_and_other_streams_do_not():
    reference, other = simulated(np.random.default_rng(1), 2, 20, 0.1, 0.2, 0.1)
    first = estimate(gap, reference, other)
    assert first == estimate(gap, reference, other)
    assert first != estimate(gap, reference, other, stream="another")


def test_growth_of_a_gap_pairs_four_models():
    generator = np.random.default_rng(2)
    text = generator.normal(6, 1, (1, 30))
    tf_short, tf_long = text + 0.02 * generator.normal(size=(3, 30)), text + 0.4 + 0.02 * generator.normal(size=(3, 30))
    own_short, own_long = text - 0.1, text - 0.1

    def growth(a, b, c, d):
        return gap(c, d) - gap(a, b)

    found = estimate(growth, tf_short, own_short + 0 * tf_short, tf_long, own_long + 0 * tf_long)
    assert found.value == pytest.approx(6.1, abs=0.8)
    assert found.low > 4


def test_shapes_are_checked():
    with pytest.raises(ValueError, match="share one shape"):
        estimate(difference, [[1.0, 2.0]], [[1.0]])
    with pytest.raises(ValueError, match="windows per seed"):
        matrix([[1.0, 2.0], [1.0]])
    with pytest.raises(ValueError, match="cannot be merged"):
        blocks([1.0, 2.0, 3.0], 2)


def test_blocks_average_neighbours():
    assert blocks([1.0, 3.0, 5.0, 7.0], 2).tolist() == [2.0, 6.0]


def test_holm_on_the_textbook_case():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.5, None, 0.9]) == [1.0, None, 1.0]
    assert holm([]) == []


def test_holm_keeps_the_family_wise_error():
    p_values = np.random.default_rng(4).uniform(size=(2000, 6))
    rejected = [min(holm(row.tolist())) < 0.05 for row in p_values]
    assert np.mean(rejected) == pytest.approx(0.05, abs=0.015)


def test_power_note_names_a_number_of_seeds_that_reaches_the_power():
    sd, effect = 0.1, 0.1
    found = t_interval(effect + sd * np.array([-1.0, 0.0, 1.0]))
    needed = seeds_needed(found)
    generator = np.random.default_rng(6)
    decided = [t_interval(generator.normal(effect, sd, needed)).decided for _ in range(600)]
    assert 0.75 <= np.mean(decided) <= 0.92
    assert f"about {needed} seeds" in power_note(found)


def test_power_note_says_when_seeds_cannot_help():
    generator = np.random.default_rng(8)
    windows = np.array([-1.0, 1.0, -0.5, 0.5])
    noisy = estimate(difference, np.zeros((3, 4)), 0.1 + windows + generator.normal(0, 0.01, (3, 4)))
    assert seeds_needed(noisy) is None
    assert "evaluation text is too short" in power_note(noisy)
    assert "One seed" in power_note(estimate(difference, [[1.0, 2.0]], [[1.5, 2.2]]))
    assert "No effect" in power_note(t_interval([0.0, 0.0]))


def test_short_windows_are_merged_into_the_longest_where_they_fill_them():
    assert merged([1.0, 3.0, 5.0, 7.0], 16, 32).tolist() == [2.0, 6.0]
    assert merged([1.0, 3.0], 32, 32).tolist() == [1.0, 3.0]
    assert merged([1.0, 3.0, 5.0], 16, 32).tolist() == [1.0, 3.0, 5.0]  # the last unit would be half
    assert merged([1.0, 3.0], 24, 32).tolist() == [1.0, 3.0]
