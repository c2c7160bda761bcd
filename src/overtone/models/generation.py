"""Text from a model, token by token: greedy, or sampled by temperature, top-k and nucleus (top-p)."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

from overtone.errors import UserError
from overtone.models.base import LanguageModel
from overtone.models.compiled.step import compile_step

PREFILL_CHUNK = 4096  # tokens of a prompt read at once
COMPILED_FROM = 5000  # tokens that pay for compiling the step (1 ms a token) where no disk has it yet (3 to 5 s)


def generate(model: LanguageModel, prompt: Tensor, max_tokens: int, *, temperature: float = 0.0, top_k: int | None = None,
             top_p: float | None = None, seed: int = 0) -> Iterator[Tensor]:
    """Continue prompt (B, L), L >= 1; yields `max_tokens` times the next ids (B,).

    temperature 0 is greedy; else ids are drawn from softmax(logits / temperature), cut to the `top_k` likeliest and then to
    the smallest set of probability `top_p`. Draws depend on `seed` alone. The state is constant for recurrent models. A long
    continuation uses the compiled step where there is one, after its first token.
    """
    if prompt.dim() != 2 or prompt.shape[1] == 0:
        raise UserError("generate: the prompt is empty; give at least one token.")
    if prompt.min() < 0 or prompt.max() >= model.vocab_size:
        raise UserError(f"generate: the prompt has token ids outside the model's vocabulary of {model.vocab_size}.")
    check_sampling(temperature, top_k, top_p)
    generator = torch.Generator(prompt.device).manual_seed(seed)
    with torch.no_grad():
        state = model.init_state(prompt.shape[0], max_length=prompt.shape[1] + max_tokens, device=prompt.device)
        for piece in prompt.split(PREFILL_CHUNK, dim=1):
            features, state = model.features(piece, state, return_state=True)
        logits = F.linear(features[:, -1], model.head_weight)  # only the last position's logits are wanted
    step = model.step
    for produced in range(1, max_tokens + 1):
        ids = choose(logits, generator, temperature, top_k, top_p)
        yield ids
        if produced == 1 and max_tokens >= COMPILED_FROM and (compiled := compile_step(model)):
            step = compiled.step
        if produced < max_tokens:
            with torch.no_grad():
                logits, state = step(ids, state)


def check_sampling(temperature: float, top_k: int | None, top_p: float | None) -> None:
    """Ranges of the sampling options."""
    if not 0 <= temperature < math.inf:
        raise UserError(f"generate: temperature: {temperature} found, at least 0 expected (0 is greedy).")
    if top_k is not None and top_k < 1:
        raise UserError(f"generate: top_k: {top_k} found, at least 1 expected.")
    if top_p is not None and not 0 < top_p <= 1:
        raise UserError(f"generate: top_p: {top_p} found, more than 0 and at most 1 expected.")


def choose(logits: Tensor, generator: torch.Generator, temperature: float, top_k: int | None, top_p: float | None) -> Tensor:
    """Next ids (B,) from logits (B, V)."""
    if temperature == 0:
        return logits.argmax(dim=-1)
    logits = logits.float()
    # The largest is 0 at any temperature, however small.
    logits = (logits - logits.max(dim=-1, keepdim=True).values) / max(temperature, torch.finfo(torch.float32).tiny)
    if top_k is not None and top_k < logits.shape[-1]:
        least = logits.topk(top_k, dim=-1).values[:, -1:]
        logits = logits.masked_fill(logits < least, -torch.inf)
    probabilities = logits.softmax(dim=-1)
    if top_p is not None and top_p < 1:
        ordered, order = probabilities.sort(dim=-1, descending=True)
        beyond = ordered.cumsum(dim=-1) - ordered >= top_p  # the likeliest id always stays
        probabilities = torch.zeros_like(probabilities).scatter(-1, order, ordered.masked_fill(beyond, 0))
    return torch.multinomial(probabilities, 1, generator=generator).squeeze(-1)
