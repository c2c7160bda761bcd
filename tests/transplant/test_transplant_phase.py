from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch
from transplant_models import make_llama

from overtone.errors import UserError
from overtone.training.interrupt import Interrupted, StopFlag
from overtone.training.plan import Plan
from overtone.training.stream import Region
from overtone.transplant import BlockOptions, transplant
from overtone.transplant.config import Phase
from overtone.transplant.phase import PhaseTrainer

PHASE = Phase(number=1, objective="align", train="blocks_only", budget=12 * 64, lr=0.01, tokens_per_step=64, batch=None, warmup=0.1,
              final_lr=0.1, clip=1.0, validation_points=3)


def region(tokens: int = 4000) -> Region:
    """Text with something to learn: each token is followed by its successor or by a random one."""
    random = np.random.default_rng(0)
    ids = np.cumsum(np.where(random.random(tokens) < 0.7, 1, random.integers(0, 61, tokens))) % 61
    return Region(ids.astype(np.uint16), np.zeros(1, dtype=np.int64))


def trainer(folder: Path, phase: Phase = PHASE, **options) -> PhaseTrainer:
    llama = make_llama()
    student = transplant(llama, BlockOptions(d_state=8), 1)
    text = region()
    plan = Plan("d" * 64, text.size, 16, phase.budget, phase.tokens_per_step, 1)
    given = {"folder": folder, "fingerprint": "f", "stop": StopFlag(), "dtype": "float32", "checkpointing": False, "every_s": 1e9}
    return PhaseTrainer(student, llama, phase, text, plan, **(given | options))


def weights(run: PhaseTrainer) -> dict[str, torch.Tensor]:
    return {name: weight.detach().clone() for name, weight in run.student.named_parameters()}


@pytest.mark.parametrize("objective", ["align", "cross_entropy", "distill"])
def test_only_the_blocks_move_and_the_loss_falls(tmp_path, objective: str) -> None:
    run = trainer(tmp_path, dataclasses.replace(PHASE, objective=objective, budget=30 * 64, align_share=0.0))
    before = weights(run)
    progress = run.train(lambda: 1.0)
    after = weights(run)
    moved = {name for name in before if not torch.equal(before[name], after[name])}
    assert moved
    assert all(".self_attn." in name for name in moved)
    losses = [point["loss"] for point in progress.curve if point["loss"] is not None]
    assert sum(losses[-5:]) < sum(losses[:5])
    assert progress.tokens == 30 * 64
    assert progress.step == 30


def test_random_windows_do_not_hang_on_how_many_are_held_at_once(tmp_path) -> None:
    whole = trainer(tmp_path / "a", dataclasses.replace(PHASE, random_share=0.5))
    starts = whole.plan.step_starts(0)
    assert len(starts) == 4
    ids, targets = whole._batch(0, starts)
    parts = [whole._batch(first, starts[first : first + 2]) for first in (0, 2)]
    assert torch.equal(ids, torch.cat([part[0] for part in parts]))
    assert torch.equal(targets, torch.cat([part[1] for part in parts]))
    text, _ = whole.region.windows(starts, whole.plan.length)
    assert 0 < sum(bool((ids[index] != text[index]).any()) for index in range(4)) < 4


def test_curve_has_its_points_and_distillation_begins_with_alignment(tmp_path) -> None:
    run = trainer(tmp_path, dataclasses.replace(PHASE, objective="distill", align_share=0.5))
    progress = run.train(lambda: 2.5)
    assert [point["step"] for point in progress.curve if point["bpt"] is not None] == [0, 4, 8, 12]
    assert [point["objective"] for point in progress.curve[1:]] == ["align"] * 6 + ["distill"] * 6


@pytest.mark.parametrize("micro", [1, 3])
def test_micro_batches_change_nothing_but_rounding(tmp_path, micro: int) -> None:
    whole = trainer(tmp_path / "a", dataclasses.replace(PHASE, objective="cross_entropy", budget=64))
    parts = trainer(tmp_path / "b", dataclasses.replace(PHASE, objective="cross_entropy", budget=64, batch=micro))
    one, two = whole.train(lambda: 1.0), parts.train(lambda: 1.0)
    assert one.curve[-1]["loss"] == pytest.approx(two.curve[-1]["loss"], rel=1e-5)
    for name, value in weights(whole).items():
        torch.testing.assert_close(value, weights(parts)[name], rtol=1e-2, atol=1e-4)


@pytest.mark.parametrize("objective", ["align", "cross_entropy"])
def test_stopped_and_resumed_it_ends_on_the_same_bits(tmp_path, objective: str) -> None:
    phase = dataclasses.replace(PHASE, objective=objective, random_share=0.5)
    straight = trainer(tmp_path / "straight", phase)
    expected = straight.train(lambda: 1.0)
    first = trainer(tmp_path / "resumed", phase)

    def stop_at_the_second_validation() -> float:
        if first.progress.step == 8:
            first.stop.signum = 15
        return 1.0

    with pytest.raises(Interrupted):
        first.train(stop_at_the_second_validation)
    assert first.progress.step == 8
    second = trainer(tmp_path / "resumed", phase)
    progress = second.train(lambda: 1.0)
    assert progress.curve == expected.curve
    for name, value in weights(straight).items():
        assert torch.equal(value, weights(second)[name]), name


def test_a_checkpoint_of_another_configuration_is_not_resumed(tmp_path) -> None:
    first = trainer(tmp_path, every_s=0.0)
    first.train(lambda: 1.0)
    lines: list[str] = []
    second = trainer(tmp_path, fingerprint="other", log=lines.append)
    second.train(lambda: 1.0)
    assert any("another configuration" in line for line in lines)
    assert second.progress.step == 12


def test_gradients_are_clipped_layer_by_layer(tmp_path, monkeypatch) -> None:
    run = trainer(tmp_path, dataclasses.replace(PHASE, objective="cross_entropy", budget=64, clip=1e-3))
    norms = []
    step = run.optimizer.step

    def look(rate: float) -> None:
        norms.extend(float(torch.stack([weight.grad.norm() for weight in group if weight.grad is not None]).norm()) for group in run.groups)
        step(rate)

    monkeypatch.setattr(run.optimizer, "step", look)
    run.train(lambda: 1.0)
    assert norms == pytest.approx([1e-3, 1e-3], rel=1e-2)


def test_a_loss_that_is_not_finite_is_told(tmp_path) -> None:
    run = trainer(tmp_path, dataclasses.replace(PHASE, objective="cross_entropy"))
    with torch.no_grad():
        run.student.lm_head.weight.fill_(float("nan"))
    with pytest.raises(UserError, match="Lower lr"):
        run.train(lambda: 1.0)


def test_random_windows_are_random_and_the_others_text(tmp_path) -> None:
    run = trainer(tmp_path, dataclasses.replace(PHASE, random_share=0.5))
    starts = run.plan.step_starts(0)
    ids, targets = run._batch(0, starts)
    text, wanted = run.region.windows(starts, 16)
    same = (ids == text).all(1)
    assert torch.equal(ids[:, 1:], targets[:, :-1])
    assert torch.equal(targets[same], wanted[same])
    assert torch.equal(ids, run._batch(0, starts)[0])
    picked = [bool((run._batch(first, starts)[0] == text).all(1).any()) for first in range(8)]
    assert any(picked)


def test_bos_takes_the_first_place_of_every_window(tmp_path) -> None:
    run = trainer(tmp_path, bos=5)
    ids, targets = run._batch(0, run.plan.step_starts(0))
    text, wanted = run.region.windows(run.plan.step_starts(0), 16)
    assert (ids[:, 0] == 5).all()
    assert torch.equal(ids[:, 1:], text[:, 1:])
    assert torch.equal(targets, wanted)
