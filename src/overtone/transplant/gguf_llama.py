"""A Llama out of a GGUF file, dequantised to float32.

transformers can read one too, but wants accelerate for it, takes four times as long and leaves a model that calls itself quantised.
llama.cpp stores Q and K with the two halves of each head's rotary pairs interleaved; they are put back in transformers' order.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM

from overtone.errors import UserError

_TOP = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
_LAYER = {
    "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
    "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
}


def read_gguf(path: Path) -> LlamaForCausalLM:
    """The model of a GGUF file in float32; one that is no plain Llama is a UserError."""
    from gguf import GGUFReader
    from gguf.quants import dequantize

    try:
        reader = GGUFReader(path)
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: not a GGUF file ({error}). Delete it and run again.") from None
    fields = {name: field.contents() for name, field in reader.fields.items() if not name.startswith("tokenizer.ggml.tokens")}
    if fields.get("general.architecture") != "llama":
        raise UserError(f"{path}: architecture {fields.get('general.architecture')!r}, expected 'llama': other families have other "
                        "attention.")
    tensors = {tensor.name: torch.from_numpy(np.array(dequantize(tensor.data, tensor.tensor_type), dtype=np.float32))
               for tensor in reader.tensors}
    config = gguf_config(fields, tensors)
    weights = {llama_name(name, path): _in_order(name, value, config) for name, value in tensors.items()
               if not name.startswith("rope_freqs")}
    model = LlamaForCausalLM(config)
    wrong = model.load_state_dict(weights, strict=False)
    if wrong.unexpected_keys or any(name != "lm_head.weight" or not config.tie_word_embeddings for name in wrong.missing_keys):
        raise UserError(f"{path}: lacks weights of a Llama ({wrong.missing_keys[:2] or wrong.unexpected_keys[:2]}). Choose another file.")
    return model.eval()


def gguf_config(fields: dict[str, Any], tensors: dict[str, Tensor]) -> LlamaConfig:
    """The LlamaConfig that a GGUF file's metadata and shapes describe."""
    vocab_size, hidden = tensors["token_embd.weight"].shape
    heads = int(fields["llama.attention.head_count"])
    return LlamaConfig(
        vocab_size=vocab_size, hidden_size=hidden, intermediate_size=int(fields["llama.feed_forward_length"]),
        num_hidden_layers=int(fields["llama.block_count"]), num_attention_heads=heads,
        num_key_value_heads=int(fields.get("llama.attention.head_count_kv", heads)),
        max_position_embeddings=int(fields["llama.context_length"]),
        rms_norm_eps=float(fields["llama.attention.layer_norm_rms_epsilon"]), tie_word_embeddings="output.weight" not in tensors,
        rope_parameters={"rope_type": "default", "rope_theta": float(fields.get("llama.rope.freq_base", 10_000.0))},
        bos_token_id=fields.get("tokenizer.ggml.bos_token_id"), eos_token_id=fields.get("tokenizer.ggml.eos_token_id"),
        pad_token_id=fields.get("tokenizer.ggml.padding_token_id"),
    )


def llama_name(name: str, path: Path) -> str:
    """blk.3.attn_q.weight -> model.layers.3.self_attn.q_proj.weight."""
    parts = name.split(".")
    if parts[0] == "blk" and len(parts) == 4 and parts[2] in _LAYER:
        return f"model.layers.{parts[1]}.{_LAYER[parts[2]]}.{parts[3]}"
    if len(parts) == 2 and parts[0] in _TOP:
        return f"{_TOP[parts[0]]}.{parts[1]}"
    raise UserError(f"{path}: tensor {name} has no place in a Llama. Choose a plain Llama.")


def _in_order(name: str, value: Tensor, config: LlamaConfig) -> Tensor:
    if not name.endswith(("attn_q.weight", "attn_k.weight")):
        return value
    heads = int(config.num_attention_heads if "attn_q" in name else config.num_key_value_heads or 1)
    return value.view(heads, -1, 2, value.shape[1]).transpose(1, 2).reshape(value.shape)
