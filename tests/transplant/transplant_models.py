"""Tiny Llamas and their transplants, drawn from fixed seeds."""

from __future__ import annotations

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from overtone.transplant.model import HarmonicLlamaForCausalLM


def make_llama(*, vocab: int = 61, hidden: int = 32, layers: int = 2, heads: int = 4, kv_heads: int = 2, tied: bool = False,
               context: int = 32, seed: int = 0) -> LlamaForCausalLM:
    """A random Llama whose logits are far from flat."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = LlamaForCausalLM(LlamaConfig(
            vocab_size=vocab, hidden_size=hidden, intermediate_size=48, num_hidden_layers=layers, num_attention_heads=heads,
            num_key_value_heads=kv_heads, max_position_embeddings=context, tie_word_embeddings=tied, bos_token_id=None, eos_token_id=None,
            initializer_range=0.2,
        ))
    return model.eval()


def stirred(model: HarmonicLlamaForCausalLM, seed: int = 3) -> HarmonicLlamaForCausalLM:
    """Every block weight moved off its start value, so that gates, errors and listeners all matter."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for block in model.blocks:
            for weight in block.parameters():
                weight += 0.3 * torch.randn(weight.shape, generator=generator)
    return model.eval()
