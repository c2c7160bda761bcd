from __future__ import annotations

import pytest
import torch

from overtone.transplant.rope import scaled


def logits(model, ids: torch.Tensor, position_ids: torch.Tensor | None = None) -> torch.Tensor:
    with torch.no_grad():
        return model(ids, position_ids=position_ids, attention_mask=torch.ones_like(ids), use_cache=False).logits


def test_linear_divides_the_positions(llama) -> None:
    ids = torch.randint(0, 61, (1, 64), generator=torch.Generator().manual_seed(0))
    expected = logits(llama, ids, torch.arange(64)[None] / 2)
    torch.testing.assert_close(logits(scaled(llama, "linear", 64), ids), expected, rtol=1e-4, atol=1e-4)


def test_dynamic_leaves_the_trained_context_alone_and_changes_what_is_past_it(llama) -> None:
    ids = torch.randint(0, 61, (1, 64), generator=torch.Generator().manual_seed(0))
    model = scaled(llama, "dynamic", 64)
    torch.testing.assert_close(logits(model, ids[:, :32]), logits(llama, ids[:, :32]))
    assert (logits(model, ids) - logits(llama, ids)).abs().max() > 1e-3


@pytest.mark.parametrize("kind", ["linear", "dynamic"])
def test_weights_are_shared_and_the_base_stays_as_it_was(llama, kind: str) -> None:
    ids = torch.randint(0, 61, (1, 48), generator=torch.Generator().manual_seed(0))
    before = logits(llama, ids)
    model = scaled(llama, kind, 64)
    logits(model, ids)
    assert model.model.layers[0].mlp.up_proj.weight.data_ptr() == llama.model.layers[0].mlp.up_proj.weight.data_ptr()
    assert torch.equal(logits(llama, ids), before)
    assert llama.config.rope_parameters["rope_type"] == "default"
