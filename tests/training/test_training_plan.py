import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overtone.errors import UserError
from overtone.training.plan import Plan, consume

PLAN = Plan("ab" * 32, region=5000, length=64, budget=20_000, tokens_per_step=256, seed=3)


def test_equal_fields_give_equal_windows_in_another_process():
    code = (
        "from overtone.training.plan import Plan; import sys;"
        f"print(Plan({PLAN.corpus_digest!r}, 5000, 64, 20000, 256, 3).digest, 'torch' in sys.modules)"
    )
    for seed in ("0", "77"):
        told = subprocess.run([sys.executable, "-c", code], env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True)
        assert told.stdout.split() == [PLAN.digest, "False"]


@pytest.mark.parametrize("change", [
    {"seed": 4}, {"length": 32}, {"corpus_digest": "cd" * 32}, {"budget": 10_000}, {"tokens_per_step": 512}, {"carry_state": True},
])
def test_every_field_changes_the_digest(change):
    assert replace(PLAN, **change).digest != PLAN.digest


def test_a_larger_budget_only_appends_windows():
    longer = replace(PLAN, budget=60_000)
    assert np.array_equal(longer.starts[: PLAN.windows], PLAN.starts)


def test_tokens_per_step_does_not_move_windows():
    assert np.array_equal(replace(PLAN, tokens_per_step=1024).starts, PLAN.starts)


@settings(max_examples=60, deadline=None)
@given(region=st.integers(66, 3000), length=st.integers(2, 65), budget=st.integers(65, 9000), per_step=st.integers(1, 500),
       seed=st.integers(0, 5))
def test_windows_lie_inside_do_not_overlap_within_an_epoch_and_fill_the_budget(region, length, budget, per_step, seed):
    plan = Plan("00" * 32, region, length, budget, per_step, seed)
    starts = plan.starts
    assert len(starts) == plan.windows
    assert 0 <= budget - plan.tokens < length
    assert starts.min() >= 0
    assert starts.max() + length + 1 <= region
    assert sum(len(plan.step_starts(step)) for step in range(plan.steps)) == plan.windows
    first_epoch = (region - 1 - starts[0] % length) // length
    epoch = np.sort(starts[: min(first_epoch, plan.windows)])
    assert (np.diff(epoch) >= length).all()


def test_a_step_has_whole_windows_and_at_least_one():
    assert [replace(PLAN, length=length).windows_per_step for length in (64, 100, 256, 257)] == [4, 2, 1, 1]


def test_lanes_continue_where_they_stopped():
    plan = replace(PLAN, carry_state=True)
    lanes = plan.starts[: plan.steps // 1 * 4].reshape(-1, 4)
    gaps = np.diff(lanes, axis=0)
    assert ((gaps == 64) | (gaps < 0)).all()  # the next window, or back at the start of the stream
    assert (gaps == 64).mean() > 0.9
    assert len(set(lanes[0])) == 4


def test_the_digest_is_what_consuming_the_windows_gives():
    chain = PLAN.origin
    for step in range(PLAN.steps):
        chain = consume(chain, PLAN.step_starts(step))
    assert chain == PLAN.digest
    other = consume(PLAN.origin, PLAN.step_starts(1))
    for step in range(1, PLAN.steps):
        other = consume(other, PLAN.step_starts(step))
    assert other != PLAN.digest


@pytest.mark.parametrize(("change", "said"), [({"region": 64}, "window of 64 needs 65"), ({"budget": 63}, "Raise the budget")])
def test_what_cannot_be_planned_says_why(change, said):
    with pytest.raises(UserError, match=said):
        replace(PLAN, **change)
