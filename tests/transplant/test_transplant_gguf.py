from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
from transplant_models import make_llama

from overtone.errors import UserError
from overtone.transplant.gguf_llama import read_gguf

NAMES = {"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
         "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down", "input_layernorm": "attn_norm",
         "post_attention_layernorm": "ffn_norm"}

TOP = {"model.embed_tokens.weight": "token_embd", "model.norm.weight": "output_norm", "lm_head.weight": "output"}


def write_gguf(path: Path, model, architecture: str = "llama", quantise: bool = False, extra: str | None = None) -> None:
    """The file that llama.cpp's converter makes: its names, and its order of the rotary pairs."""
    config = model.config
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    for name, weight in model.state_dict().items():
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        parts = name.split(".")
        if parts[1] == "layers":
            target = f"blk.{parts[2]}.{NAMES['.'.join(parts[3:-1])]}.weight"
        else:
            target = TOP[name] + ".weight"
        value = weight.float().numpy()
        if target.endswith(("attn_q.weight", "attn_k.weight")):
            heads = config.num_attention_heads if "attn_q" in target else config.num_key_value_heads
            value = value.reshape(heads, 2, -1, value.shape[1]).swapaxes(1, 2).reshape(value.shape)
        if quantise and value.ndim == 2 and value.shape[1] % 32 == 0:
            kind = gguf.GGMLQuantizationType.Q8_0
            writer.add_tensor(target, gguf.quants.quantize(np.ascontiguousarray(value), kind), raw_dtype=kind)
        else:
            writer.add_tensor(target, np.ascontiguousarray(value))
    if extra:
        writer.add_tensor(extra, np.zeros((2, 2), dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@pytest.mark.parametrize("tied", [False, True])
def test_a_gguf_file_gives_the_model_it_was_made_from(tmp_path, tied: bool) -> None:
    llama = make_llama(tied=tied, heads=4, kv_heads=2)
    write_gguf(tmp_path / "m.gguf", llama)
    read = read_gguf(tmp_path / "m.gguf")
    ids = torch.randint(0, 61, (2, 20), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        torch.testing.assert_close(read(ids).logits, llama(ids).logits, rtol=1e-5, atol=1e-5)
    assert read.config.tie_word_embeddings == tied
    assert not hasattr(read.config, "quantization_config")


def test_quantised_weights_are_dequantised(tmp_path) -> None:
    llama = make_llama(hidden=64)
    write_gguf(tmp_path / "m.gguf", llama, quantise=True)
    read = read_gguf(tmp_path / "m.gguf")
    weight, original = read.model.layers[0].mlp.up_proj.weight, llama.model.layers[0].mlp.up_proj.weight
    assert weight.dtype == torch.float32
    error = float((weight - original).detach().abs().max() / original.detach().abs().max())
    assert 0 < error < 0.01


def test_what_is_no_llama_is_refused(tmp_path) -> None:
    write_gguf(tmp_path / "a.gguf", make_llama(), architecture="qwen2")
    with pytest.raises(UserError, match="qwen2"):
        read_gguf(tmp_path / "a.gguf")
    write_gguf(tmp_path / "b.gguf", make_llama(), extra="blk.0.attn_sinks.weight")
    with pytest.raises(UserError, match="attn_sinks"):
        read_gguf(tmp_path / "b.gguf")
    (tmp_path / "c.gguf").write_bytes(b"no model at all" * 10)
    with pytest.raises(UserError, match="not a GGUF"):
        read_gguf(tmp_path / "c.gguf")
