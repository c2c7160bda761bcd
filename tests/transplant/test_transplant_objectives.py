from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from transplant_models import stirred

from overtone.transplant import BlockOptions, objectives, transplant
from overtone.transplant.objectives import OBJECTIVES, attention_records
from overtone.transplant.phase import choose_trainable


@pytest.fixture
def batch() -> tuple[torch.Tensor, torch.Tensor]:
    ids = torch.randint(0, 61, (2, 17), generator=torch.Generator().manual_seed(0))
    return ids[:, :-1], ids[:, 1:]


def test_records_are_what_the_attention_layers_saw_and_said(llama, batch) -> None:
    records = attention_records(llama, batch[0])
    with torch.no_grad():
        embedded = llama.model.embed_tokens(batch[0])
        layer = llama.model.layers[0]
        torch.testing.assert_close(records[0][0], layer.input_layernorm(embedded))
        position = llama.model.rotary_emb(embedded, torch.arange(16)[None])
        torch.testing.assert_close(records[0][1], layer.self_attn(records[0][0], position_embeddings=position)[0])
    assert len(records) == 2
    assert not any(hook for layer in llama.model.layers for hook in layer.self_attn._forward_hooks)


def test_alignment_teaches_each_layer_by_itself(llama, batch) -> None:
    student = stirred(transplant(llama, BlockOptions(d_state=8), 1))
    choose_trainable(student, "blocks_only")
    loss = objectives.align(student, llama, *batch, 1.0)
    expected, first = 0.0, student.blocks[0].out.weight.grad.clone()
    for block, (x, y) in zip(student.blocks, attention_records(llama, batch[0]), strict=True):
        expected += float((block(x)[0] - y).detach().square().mean() / y.square().mean()) / 2
    assert loss == pytest.approx(expected, rel=1e-5)
    student.zero_grad()
    with torch.no_grad():  # what the second layer does is nothing to the first
        for weight in student.blocks[1].parameters():
            weight.zero_()
    objectives.align(student, llama, *batch, 1.0)
    assert torch.equal(first, student.blocks[0].out.weight.grad)


def test_alignment_on_the_blocks_own_output_is_no_loss(llama, batch, monkeypatch) -> None:
    student = stirred(transplant(llama, BlockOptions(d_state=8), 1))
    with torch.no_grad():
        pairs = [(x, block(x)[0]) for block, (x, _) in zip(student.blocks, attention_records(llama, batch[0]), strict=True)]
    monkeypatch.setattr(objectives, "attention_records", lambda teacher, ids: pairs)
    assert objectives.align(student, llama, *batch, 1.0) < 1e-12


def test_cross_entropy_is_the_models_own(student, llama, batch) -> None:
    choose_trainable(student, "all")
    loss = objectives.cross_entropy(student, llama, *batch, 0.5)
    gradient = student.model.embed_tokens.weight.grad.clone()
    student.zero_grad()
    expected = F.cross_entropy(student(batch[0], use_cache=False).logits.flatten(0, 1), batch[1].flatten())
    (0.5 * expected).backward()
    assert loss == pytest.approx(float(expected.detach()), rel=1e-5)
    torch.testing.assert_close(gradient, student.model.embed_tokens.weight.grad, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("head_bytes", [1, 5 * 4 * 61, 1 << 20])
def test_distillation_is_the_divergence_from_the_teacher(llama, batch, monkeypatch, head_bytes: int) -> None:
    student = stirred(transplant(llama, BlockOptions(d_state=8), 1))
    choose_trainable(student, "blocks_only")
    monkeypatch.setattr(objectives, "_HEAD_BYTES", head_bytes)
    loss = objectives.distill(student, llama, *batch, 1.0)
    gradient = student.blocks[0].values.weight.grad.clone()
    student.zero_grad()
    p = F.log_softmax(llama(batch[0], use_cache=False).logits, -1).detach()
    q = F.log_softmax(student(batch[0], use_cache=False).logits, -1)
    expected = (p.exp() * (p - q)).sum(-1).mean()
    expected.backward()
    assert loss == pytest.approx(float(expected.detach()), rel=1e-4)
    torch.testing.assert_close(gradient, student.blocks[0].values.weight.grad, rtol=1e-3, atol=1e-6)


def test_a_model_distilled_from_itself_has_no_loss(student, batch) -> None:
    choose_trainable(student, "blocks_only")
    assert abs(objectives.distill(student, student, *batch, 1.0)) < 1e-6


@pytest.mark.parametrize("objective", sorted(OBJECTIVES))
def test_recomputed_activations_give_the_same_gradients(llama, batch, objective: str) -> None:
    from overtone.transplant.phase import recompute_activations

    gradients = []
    for recompute in (False, True):
        student = stirred(transplant(llama, BlockOptions(d_state=8), 1)).train()
        choose_trainable(student, "blocks_only")
        if recompute:
            recompute_activations(student)
        OBJECTIVES[objective](student, llama, *batch, 1.0)
        gradients.append([weight.grad for block in student.blocks for weight in block.parameters()])
    for one, two in zip(*gradients, strict=True):
        torch.testing.assert_close(one, two)


def test_what_trains(student) -> None:
    def names() -> set[str]:
        return {name for name, weight in student.named_parameters() if weight.requires_grad}

    groups = choose_trainable(student, "blocks_only")
    assert all(".self_attn." in name for name in names())
    assert len(groups) == 2
    choose_trainable(student, "blocks")
    norms = ("input_layernorm", "post_attention_layernorm")
    assert {name for name in names() if ".self_attn." not in name} == {
        "model.norm.weight", *(f"model.layers.{layer}.{norm}.weight" for layer in (0, 1) for norm in norms)
    }
    groups = choose_trainable(student, "all")
    assert names() == {name for name, _ in student.named_parameters()}
    assert sum(len(group) for group in groups) == len(names())
