"""A GGUF file, written here, is audited like any other model."""

import gguf
import numpy as np
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from overtone.audits.gguf import load_gguf
from overtone.cli import main
from overtone.errors import UserError

HEADS, GROUPS, LAYERS, WIDTH, V = 4, 2, 2, 32, 40


def to_gguf_order(weight, heads):
    """GGUF keeps the rotary pairs of a head next to each other."""
    return weight.reshape(heads, 2, -1, weight.shape[1]).swapaxes(1, 2).reshape(weight.shape)


@pytest.fixture(scope="module")
def llama():
    torch.manual_seed(0)
    return LlamaForCausalLM(LlamaConfig(vocab_size=V, hidden_size=WIDTH, intermediate_size=48, num_hidden_layers=LAYERS,
                                        num_attention_heads=HEADS, num_key_value_heads=GROUPS, tie_word_embeddings=True)).eval()


def write(model, file, without=()):
    writer = gguf.GGUFWriter(file, "llama")
    writer.add_context_length(256)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(48)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(GROUPS)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_freq_base(10000.0)
    writer.add_vocab_size(V)
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list([f"t{number}" for number in range(V)])
    names = {"embed_tokens": "token_embd", "norm": "output_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
             "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
             "mlp.down_proj": "ffn_down", "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm"}
    for key, value in model.model.state_dict().items():
        part = key.removesuffix(".weight")
        block = ""
        if part.startswith("layers."):
            _, number, part = part.split(".", 2)
            block = f"blk.{number}."
        weight = value.numpy().astype(np.float32)
        if part.endswith(("q_proj", "k_proj")):
            weight = to_gguf_order(weight, HEADS if part.endswith("q_proj") else GROUPS)
        if block + names[part] not in without:
            writer.add_tensor(f"{block}{names[part]}.weight", weight)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return file


def test_a_gguf_gives_the_logits_of_the_model_it_was_written_from(llama, tmp_path):
    ids = torch.randint(V, (2, 30))
    with torch.no_grad():
        assert torch.allclose(load_gguf(write(llama, tmp_path / "m.gguf"))(ids).logits, llama(ids).logits, atol=1e-5)


def test_the_verb_takes_the_file_and_the_folder(llama, tmp_path):
    file = write(llama, tmp_path / "m.gguf")
    assert main(["audit", "causality", "--hf", str(file)]) == 0
    assert main(["audit", "entropy", "--hf", str(tmp_path)]) == 0


def test_a_gguf_with_a_weight_missing_is_a_mistake(llama, tmp_path):
    file = write(llama, tmp_path / "m.gguf", without=("blk.1.ffn_up",))
    with pytest.raises(UserError, match="up_proj"):
        load_gguf(file)
