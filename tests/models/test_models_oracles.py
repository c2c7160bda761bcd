"""Llama and Mamba against transformers' own: the same logits, the same greedy text, weights moved both ways."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from model_variants import random_ids, small_model

from overtone.errors import UserError
from overtone.models import build_model, from_hf, generate, to_hf

ORACLES = [
    ("llama", {}),
    ("llama", {"tied": True, "heads": 4, "kv_heads": 1, "rope_theta": 500.0, "layers": 2}),
    ("mamba", {"layers": 2}),
    ("mamba", {"layers": 2, "tied": True, "d_state": 7, "d_conv": 3, "dt_rank": 3}),
]


def published(name: str) -> Any:
    """A randomly initialised model of transformers, made without ours."""
    from transformers import LlamaConfig, LlamaForCausalLM, MambaConfig, MambaForCausalLM

    torch.manual_seed(5)
    if name == "llama":
        return LlamaForCausalLM(LlamaConfig(vocab_size=37, hidden_size=24, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4,
                                            num_key_value_heads=2, initializer_range=0.3)).eval()
    return MambaForCausalLM(MambaConfig(vocab_size=37, hidden_size=24, state_size=6, num_hidden_layers=2, initializer_range=0.3)).eval()


@pytest.mark.parametrize(("name", "options"), ORACLES)
def test_logits_agree_with_transformers(name: str, options: dict) -> None:
    ours, ids = small_model(name, options), random_ids(2, 50)
    theirs = to_hf(ours)
    with torch.no_grad():
        expected = theirs(ids).logits
        assert (ours(ids) - expected).abs().max() <= 1e-4 * expected.abs().max()
        assert torch.equal(from_hf(theirs)(ids), ours(ids))


@pytest.mark.parametrize("name", ["llama", "mamba"])
def test_their_weights_run_in_ours(name: str) -> None:
    theirs, ids = published(name), random_ids(2, 50)
    ours = from_hf(theirs)
    with torch.no_grad():
        expected = theirs(ids).logits
        assert (ours(ids) - expected).abs().max() <= 1e-4 * expected.abs().max()
    back = to_hf(ours).state_dict()
    assert {key: value for key, value in theirs.state_dict().items() if not torch.equal(value, back[key])} == {}


@pytest.mark.parametrize(("name", "options"), ORACLES)
def test_generation_agrees_token_for_token(name: str, options: dict) -> None:
    ours, ids = small_model(name, options), random_ids(2, 9)
    text = to_hf(ours).generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=25, do_sample=False, pad_token_id=0)
    assert torch.equal(torch.stack(list(generate(ours, ids, 25)), dim=1), text[:, 9:])


@pytest.mark.parametrize("name", ["llama", "mamba"])
def test_gradients_agree_with_transformers(name: str) -> None:
    theirs, ids = published(name), random_ids(2, 20)
    ours = from_hf(theirs)
    expected = theirs(ids, labels=ids).loss
    expected.backward()
    loss = ours.loss(ids[:, :-1], ids[:, 1:])
    loss.backward()
    torch.testing.assert_close(loss, expected, rtol=1e-5, atol=1e-6)
    norm = lambda model: torch.cat([p.grad.flatten() for p in model.parameters()]).norm()  # noqa: E731
    torch.testing.assert_close(norm(ours), norm(theirs), rtol=1e-4, atol=1e-6)


def test_what_has_no_counterpart_is_refused() -> None:
    with pytest.raises(UserError, match="harmonic has no counterpart"):
        to_hf(build_model("harmonic", vocab_size=5, hidden=4))
    theirs = published("llama")
    theirs.config.attention_bias = True
    with pytest.raises(UserError, match="attention_bias: True found"):
        from_hf(theirs)
