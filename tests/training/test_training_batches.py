"""Gradients of a step: accumulation, and carried state with documents that begin anywhere."""

from contextlib import nullcontext

import numpy as np
import pytest
import torch

from overtone.corpora.tokenfile import TokenFile
from overtone.models import build_model
from overtone.training.batches import StatefulSteps, StatelessSteps
from overtone.training.stream import Region, document_segments


def build(name):
    torch.manual_seed(0)
    return build_model(name, vocab_size=32, hidden=16)


@pytest.fixture
def region(tokens):
    return Region.of(TokenFile.open(tokens / "train.json"))


def gradients(model):
    return {name: value.grad.clone() for name, value in model.named_parameters() if value.grad is not None}


@pytest.mark.parametrize("name", ["harmonic", "transformer", "resonator", "mamba", "llama"])
def test_accumulation_gives_the_gradients_of_the_whole_step(name, region):
    starts = np.array([0, 640, 64, 3000])
    found = {}
    for micro in (4, 3, 1):
        model = build(name)
        steps = StatelessSteps(model, region, 64, nullcontext)
        nats = steps.backward(starts, 256, micro)
        found[micro] = (float(nats), gradients(model))
    for micro in (3, 1):
        assert found[micro][0] == pytest.approx(found[4][0], rel=1e-6)
        for key, value in found[4][1].items():
            torch.testing.assert_close(found[micro][1][key], value, rtol=2e-4, atol=2e-6)


def test_document_segments_cut_at_documents_and_at_windows():
    region = Region(np.arange(100), np.array([0, 30, 70]))
    assert list(document_segments(region, 0, 96, 32)) == [[(0, 30)], [(30, 32), (32, 64), (64, 70)], [(70, 96)]]
    assert list(document_segments(region, 30, 46, 16)) == [[(30, 46)]]
    assert list(document_segments(region, 60, 76, 16)) == [[(60, 70)], [(70, 76)]]


@pytest.mark.parametrize("name", ["harmonic", "transformer", "resonator", "mamba", "llama"])
def test_carried_windows_have_the_loss_of_their_documents_from_the_start(name, region):
    """Documents begin every 211 tokens; windows of 64 in two lanes. With frozen weights every loss is the document's own."""
    model = build(name)
    steps = StatefulSteps(model, region, 64, nullcontext)
    lanes = np.array([0, 211 * 12])
    for step in range(6):
        starts = lanes + 64 * step
        nats = float(steps.backward(starts, 128, 1))
        expected = 0.0
        for start in starts:
            for ((left, right),) in document_segments(region, int(start), int(start) + 64, 64):
                document = left // 211 * 211
                whole = torch.from_numpy(np.asarray(region.ids[document : right + 1], dtype=np.int64))
                with torch.no_grad():
                    losses = model.loss(whole[None, :-1], whole[None, 1:], reduction="none")[0]
                expected += float(losses[left - document :].sum())
        assert nats == pytest.approx(expected, rel=2e-4), step


def test_gradients_stop_at_the_window(region):
    """The second window's gradient is that of its own loss from the carried state as a constant."""
    model = build("harmonic")
    steps = StatefulSteps(model, region, 64, nullcontext)
    steps.backward(np.array([0]), 64, 1)
    model.zero_grad()
    steps.backward(np.array([64]), 64, 1)
    found = gradients(model)
    model.zero_grad()
    ids, wanted = region.windows(np.array([0]), 64)
    with torch.no_grad():
        _, state = model.loss(ids, wanted, return_state=True)
    ids, wanted = region.windows(np.array([64]), 64)
    model.loss(ids, wanted, state=state, reduction="mean").backward()
    for key, value in gradients(model).items():
        torch.testing.assert_close(found[key], value, rtol=1e-4, atol=1e-6)


def test_a_lane_that_jumps_starts_afresh(region):
    model = build("harmonic")
    steps = StatefulSteps(model, region, 64, nullcontext)
    steps.backward(np.array([0]), 64, 1)
    jumped = float(steps.backward(np.array([128]), 64, 1))
    fresh = float(StatelessSteps(model, region, 64, nullcontext).backward(np.array([128]), 64, 1))
    assert jumped == pytest.approx(fresh, rel=1e-5)


@pytest.mark.parametrize("name", ["harmonic", "transformer", "resonator", "mamba"])
def test_carried_states_survive_a_checkpoint_bit_for_bit(name, region):
    model = build(name)
    steps = StatefulSteps(model, region, 64, nullcontext)
    for step in range(2):
        steps.backward(np.array([0, 2110]) + 64 * step, 128, 1)
    twin = StatefulSteps(model, region, 64, nullcontext)
    twin.load({key: value.clone() for key, value in steps.tensors().items()})
    third = np.array([0, 2110]) + 128
    assert float(twin.backward(third, 128, 1)) == float(steps.backward(third, 128, 1))
