"""Parallel evaluation, step-by-step evaluation and evaluation in pieces are one function."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from model_variants import VARIANTS, identify, random_ids, small_model, step_by_step

from overtone.models import LanguageModel, build_model

CUTS = (0, 1, 2, 9, 40, 71)  # pieces of 1, 1, 7, 31 and 31 tokens
LENGTH = CUTS[-1]


@pytest.mark.parametrize("variant", VARIANTS, ids=identify)
def test_parallel_equals_recurrent_at_every_position(variant: tuple[str, dict]) -> None:
    model, ids = small_model(*variant), random_ids(2, LENGTH)
    with torch.no_grad():
        parallel, recurrent = model(ids), step_by_step(model, ids)
    assert (parallel - recurrent).abs().max() <= 1e-4 * parallel.abs().max()


@pytest.mark.parametrize("variant", VARIANTS, ids=identify)
def test_pieces_with_the_state_carried_equal_the_whole(variant: tuple[str, dict]) -> None:
    model, ids = small_model(*variant), random_ids(2, LENGTH)
    state, pieces = None, []
    with torch.no_grad():
        whole = model(ids)
        for start, stop in pairwise(CUTS):
            logits, state = model.prefill(ids[:, start:stop], state)
            pieces.append(logits)
            assert state.position == stop
    assert (whole - torch.cat(pieces, dim=1)).abs().max() <= 1e-4 * whole.abs().max()


@pytest.mark.parametrize("variant", VARIANTS, ids=identify)
def test_steps_go_on_from_a_prefill(variant: tuple[str, dict]) -> None:
    model, ids = small_model(*variant), random_ids(2, 30)
    with torch.no_grad():
        whole = model(ids)
        logits, state = model.prefill(ids[:, :21], max_length=30)
        for position in range(21, 30):
            logits, state = model.step(ids[:, position], state)
            assert (logits - whole[:, position]).abs().max() <= 1e-4 * whole.abs().max()


@pytest.mark.parametrize("variant", VARIANTS, ids=identify)
def test_loss_is_the_cross_entropy_of_the_logits(variant: tuple[str, dict]) -> None:
    model, ids = small_model(*variant, dtype=torch.float64), random_ids(2, 20)
    inputs, targets = ids[:, :-1], ids[:, 1:]
    expected = torch.nn.functional.cross_entropy(model(inputs).flatten(0, 1), targets.flatten(), reduction="none").view(targets.shape)
    each, state = model.loss(inputs, targets, reduction="none", return_state=True)
    assert each.shape == targets.shape
    assert state.position == 19
    torch.testing.assert_close(each, expected)
    torch.testing.assert_close(model.loss(inputs, targets), expected.mean())


@pytest.mark.parametrize("variant", VARIANTS, ids=identify)
def test_carried_state_trains_piece_by_piece(variant: tuple[str, dict]) -> None:
    model, ids = small_model(*variant), random_ids(2, 21)
    whole, _ = model.loss(ids[:, :-1], ids[:, 1:], reduction="none", return_state=True)
    first, state = model.loss(ids[:, :10], ids[:, 1:11], reduction="none", return_state=True)
    first.sum().backward()
    second, state = model.loss(ids[:, 10:20], ids[:, 11:21], state=state.detach(), reduction="none", return_state=True)
    second.sum().backward()
    torch.testing.assert_close(torch.cat([first, second], dim=1), whole, rtol=1e-4, atol=1e-5)
    assert all(parameter.grad is not None and parameter.grad.isfinite().all() for parameter in model.parameters())


def test_recurrent_states_have_one_size_and_attentions_grow() -> None:
    for name in ("harmonic", "mamba", "resonator"):
        model = small_model(name, {})
        assert model.init_state(2, max_length=10).nbytes == model.init_state(2, max_length=10_000).nbytes == model.init_state(2).nbytes
        with torch.no_grad():
            assert model.prefill(random_ids(2, 50))[1].nbytes == model.init_state(2).nbytes
    for name in ("transformer", "llama"):
        model = small_model(name, {})
        assert model.init_state(1, max_length=2048).nbytes == 2 * model.init_state(1, max_length=1024).nbytes


def test_key_value_cache_is_preallocated_and_grows_only_when_full() -> None:
    model, ids = small_model("llama", {}), random_ids(1, 40)
    with torch.no_grad():
        state = model.init_state(1, max_length=32)
        memory = state.tensors["k0"].data_ptr()
        for position in range(32):
            _, state = model.step(ids[:, position], state)
            assert state.tensors["k0"].data_ptr() == memory  # written in place, never copied
        _, state = model.step(ids[:, 32], state)
        assert state.capacity > 32


def test_state_selects_rows() -> None:
    for variant in VARIANTS:
        model, ids = small_model(*variant), random_ids(3, 12)
        with torch.no_grad():
            _, state = model.prefill(ids[:, :11])
            rows = torch.tensor([2, 0, 0])
            expected = model(ids[rows])[:, -1]
            logits, _ = model.step(ids[rows, 11], state.select(rows))
        torch.testing.assert_close(logits, expected, rtol=1e-4, atol=1e-5, msg=identify(variant))


@pytest.mark.parametrize("name", ["harmonic", "mamba", "resonator"])
def test_long_sequences_stay_equal(name: str) -> None:
    model: LanguageModel = build_model(name, vocab_size=37, hidden=16, seed=0)
    ids = random_ids(1, 400)
    with torch.no_grad():
        parallel, recurrent = model(ids), step_by_step(model, ids)
    assert (parallel - recurrent).abs().max() <= 1e-4 * parallel.abs().max()


def test_bfloat16_autocast_keeps_the_gate_and_state_in_float32() -> None:
    for name in ("harmonic", "mamba", "resonator"):
        model, ids = small_model(name, {}), random_ids(2, 64)
        with torch.no_grad():
            exact = model(ids)
            with torch.autocast("cpu", dtype=torch.bfloat16):
                features, state = model.features(ids, return_state=True)
            logits = features.float() @ model.head_weight.T
        kept = {name: tensor for name, tensor in state.tensors.items() if name[0] in "hs"}
        assert all(tensor.dtype in (torch.float32, torch.complex64) for tensor in kept.values())
        assert (logits - exact).abs().max() < 0.1 * exact.abs().max()
