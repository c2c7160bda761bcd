"""Weights to and from transformers' own Llama and Mamba: the independent implementations that ours are held to.

`to_hf(model)` gives a LlamaForCausalLM or MambaForCausalLM with a copy of the weights, `from_hf` the way back. Norms, RoPE's
layout, the depthwise convolution and A_log are stored alike on both sides, so a conversion only renames.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from overtone.errors import UserError
from overtone.models.base import LanguageModel
from overtone.models.llama import Llama
from overtone.models.mamba import Mamba
from overtone.models.registry import build_model

# ours -> theirs; {i} is the layer
_LLAMA = {
    "embedding.weight": "model.embed_tokens.weight", "norm.weight": "model.norm.weight", "head.weight": "lm_head.weight",
    "blocks.{i}.norm1.weight": "model.layers.{i}.input_layernorm.weight",
    "blocks.{i}.norm2.weight": "model.layers.{i}.post_attention_layernorm.weight",
    **{f"blocks.{{i}}.{part}.weight": f"model.layers.{{i}}.self_attn.{part}_proj.weight" for part in "qkvo"},
    **{f"blocks.{{i}}.{part}.weight": f"model.layers.{{i}}.mlp.{part}_proj.weight" for part in ("gate", "up", "down")},
}
_MAMBA = {
    "embedding.weight": "backbone.embeddings.weight", "norm.weight": "backbone.norm_f.weight", "head.weight": "lm_head.weight",
    "blocks.{i}.norm.weight": "backbone.layers.{i}.norm.weight",
    "blocks.{i}.conv.weight": "backbone.layers.{i}.mixer.conv1d.weight", "blocks.{i}.conv.bias": "backbone.layers.{i}.mixer.conv1d.bias",
    **{f"blocks.{{i}}.{part}": f"backbone.layers.{{i}}.mixer.{part}"
       for part in ("A_log", "D", "in_proj.weight", "x_proj.weight", "dt_proj.weight", "dt_proj.bias", "out_proj.weight")},
}


def _names(table: dict[str, str], layers: int, tied: bool) -> dict[str, str]:
    names = {ours.format(i=layer): theirs.format(i=layer) for ours, theirs in table.items() for layer in range(layers)}
    return {ours: theirs for ours, theirs in names.items() if not (tied and ours == "head.weight")}


def to_hf(model: LanguageModel) -> Any:
    """A LlamaForCausalLM or MambaForCausalLM that computes what `model` (llama or mamba) computes; the weights are copies."""
    from transformers import LlamaConfig, LlamaForCausalLM, MambaConfig, MambaForCausalLM

    c: Any = model.config
    theirs: Any
    if isinstance(model, Llama):
        table, theirs = _LLAMA, LlamaForCausalLM(LlamaConfig(
            vocab_size=c.vocab_size, hidden_size=c.hidden, intermediate_size=c.intermediate, num_hidden_layers=c.layers,
            num_attention_heads=c.heads, num_key_value_heads=c.kv_heads, rms_norm_eps=c.norm_eps, tie_word_embeddings=c.tied,
            rope_parameters={"rope_type": "default", "rope_theta": c.rope_theta}, bos_token_id=None, eos_token_id=None))
    elif isinstance(model, Mamba):
        table, theirs = _MAMBA, MambaForCausalLM(MambaConfig(
            vocab_size=c.vocab_size, hidden_size=c.hidden, state_size=c.d_state, num_hidden_layers=c.layers, expand=c.expand,
            conv_kernel=c.d_conv, time_step_rank=c.dt_rank, layer_norm_epsilon=c.norm_eps, tie_word_embeddings=c.tied,
            residual_in_fp32=False, bos_token_id=None, eos_token_id=None, pad_token_id=None))
    else:
        raise UserError(f"to_hf: {model.name} has no counterpart in transformers; llama and mamba have.")
    ours = model.state_dict()
    state = {their: ours[our].clone() for our, their in _names(table, c.layers, c.tied).items()}
    if c.tied:
        state["lm_head.weight"] = state[table["embedding.weight"]]
    theirs.load_state_dict(state)
    return theirs.to(model.embedding.weight.dtype).eval()


def from_hf(theirs: Any) -> LanguageModel:
    """Our llama or mamba with a copy of the weights of a LlamaForCausalLM or MambaForCausalLM.

    A feature that ours lacks (biases, scaled rotary positions, another activation) is a UserError.
    """
    c = theirs.config
    if c.model_type == "llama":
        rope = c.rope_parameters
        _refuse(c, attention_bias=False, mlp_bias=False, hidden_act="silu")
        head = getattr(c, "head_dim", None) or c.hidden_size // c.num_attention_heads
        if rope.get("rope_type", "default") != "default" or head * c.num_attention_heads != c.hidden_size:
            raise UserError(f"from_hf: rope {rope}, head dimension {head} found; unscaled RoPE and hidden / heads expected.")
        name, table, options = "llama", _LLAMA, {
            "intermediate": c.intermediate_size, "heads": c.num_attention_heads, "kv_heads": c.num_key_value_heads,
            "rope_theta": rope["rope_theta"], "norm_eps": c.rms_norm_eps}
    elif c.model_type == "mamba":
        _refuse(c, use_bias=False, use_conv_bias=True, hidden_act="silu")
        name, table, options = "mamba", _MAMBA, {
            "expand": c.intermediate_size // c.hidden_size, "d_state": c.state_size, "d_conv": c.conv_kernel,
            "dt_rank": int(c.time_step_rank), "norm_eps": c.layer_norm_epsilon}
    else:
        raise UserError(f"from_hf: model_type {c.model_type!r} found, llama or mamba expected.")
    options |= {"layers": c.num_hidden_layers, "tied": c.tie_word_embeddings}
    model = build_model(name, vocab_size=c.vocab_size, hidden=c.hidden_size, **options)
    state: dict[str, Tensor] = theirs.state_dict()
    names = _names(table, c.num_hidden_layers, c.tie_word_embeddings)
    model.load_state_dict({our: state[their].clone() for our, their in names.items()})
    return model.to(theirs.dtype)


def _refuse(config: Any, **expected: Any) -> None:
    for key, value in expected.items():
        if getattr(config, key, value) != value:
            raise UserError(f"from_hf: {key}: {getattr(config, key)!r} found, {value!r} expected.")
