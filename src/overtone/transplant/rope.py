"""RoPE scaling of the untouched base, as transformers has it: what a user would try first past the trained context."""

from __future__ import annotations

import torch
from transformers import LlamaConfig, LlamaForCausalLM


@torch.no_grad()
def scaled(base: LlamaForCausalLM, kind: str, length: int) -> LlamaForCausalLM:
    """The base with RoPE scaling `linear` or `dynamic` (NTK) by length / trained context; weights are shared with `base`.

    linear: positions are divided by the factor. dynamic: the base frequency grows with the sequence, once it is past the context.
    """
    values = base.config.to_dict()
    rope = dict(values["rope_parameters"]) | {"rope_type": kind, "factor": length / base.config.max_position_embeddings}
    config = LlamaConfig(**(values | {"rope_parameters": rope}))
    with torch.device("meta"):
        model = LlamaForCausalLM(config)
    model.load_state_dict(base.state_dict(), assign=True)
    model.tie_weights()
    fresh = type(model.model.rotary_emb)(config)  # its frequencies are buffers outside the state dict
    model.model.rotary_emb = fresh.to(next(base.parameters()).device)
    return model.eval()
