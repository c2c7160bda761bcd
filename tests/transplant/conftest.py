"""A tiny Llama, its transplant and the leaky control."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from transformers import LlamaForCausalLM
from transplant_models import make_llama, stirred

from overtone.transplant import BlockOptions, transplant
from overtone.transplant.model import HarmonicLlamaForCausalLM


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def llama() -> LlamaForCausalLM:
    return make_llama()


@pytest.fixture
def student(llama: LlamaForCausalLM) -> HarmonicLlamaForCausalLM:
    return stirred(transplant(llama, BlockOptions(d_state=8), seed=1))


@pytest.fixture
def leaky(llama: LlamaForCausalLM) -> HarmonicLlamaForCausalLM:
    return stirred(transplant(llama, BlockOptions(kind="leaky", d_state=8), seed=1))
