"""Attention -> HarmonicBlock in a pretrained Llama. Importing it registers `harmonic_llama` with transformers' Auto classes."""

from overtone.transplant.block import BlockOptions, HarmonicBlock
from overtone.transplant.cache import HarmonicCache
from overtone.transplant.leaky import LeakyBlock
from overtone.transplant.model import HarmonicLlamaConfig, HarmonicLlamaForCausalLM, HarmonicLlamaModel, transplant

__all__ = [
    "BlockOptions",
    "HarmonicBlock",
    "HarmonicCache",
    "HarmonicLlamaConfig",
    "HarmonicLlamaForCausalLM",
    "HarmonicLlamaModel",
    "LeakyBlock",
    "transplant",
]
