"""Greedy and sampled continuation."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from model_variants import random_ids, small_model

from overtone.errors import UserError
from overtone.models import compile_step, generate, generation
from overtone.models.generation import choose


def test_greedy_takes_the_likeliest_token_at_every_step() -> None:
    model, ids = small_model("mamba", {"layers": 1}), random_ids(2, 7)
    produced = torch.stack(list(generate(model, ids, 10)), dim=1)
    whole = torch.cat([ids, produced], dim=1)
    with torch.no_grad():
        assert torch.equal(model(whole)[:, 6:-1].argmax(-1), produced)


@pytest.mark.parametrize("name", ["harmonic", "llama", "mamba", "resonator", "transformer"])
def test_a_long_continuation_has_the_tokens_of_short_ones(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, ids = small_model(name, {}), random_ids(2, 7)
    short = {temperature: list(generate(model, ids, 20, temperature=temperature)) for temperature in (0.0, 1.0)}
    compiled = []
    monkeypatch.setattr(generation, "COMPILED_FROM", 20)
    monkeypatch.setattr(generation, "compile_step", lambda model: compiled.append(compile_step(model)) or compiled[-1])
    for temperature, expected in short.items():
        assert torch.equal(torch.stack(list(generate(model, ids, 20, temperature=temperature))), torch.stack(expected))
    assert [step is not None for step in compiled] == [True, True]


def test_a_temperature_near_zero_is_nearly_greedy() -> None:
    logits = torch.tensor([[1.0, 3.0, 2.999]])
    assert choose(logits, torch.Generator().manual_seed(0), 1e-300, None, None).tolist() == [1]


def test_draws_depend_on_the_seed_alone() -> None:
    model, ids = small_model("harmonic", {}), random_ids(1, 7)

    def drawn(seed: int) -> list[int]:
        torch.rand(3)  # the global generator has no say
        return [int(token) for token in generate(model, ids, 20, temperature=1.0, seed=seed)]

    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2)


def test_sampling_frequencies_are_the_models() -> None:
    logits = torch.tensor([2.0, 1.0, 0.0, -1.0])
    generator = torch.Generator().manual_seed(0)
    counts = torch.bincount(choose(logits.expand(20000, 4), generator, 2.0, None, None), minlength=4) / 20000
    torch.testing.assert_close(counts, torch.softmax(logits / 2, dim=0), atol=0.015, rtol=0)


def test_top_k_and_top_p_cut_the_tail() -> None:
    logits = torch.log(torch.tensor([0.5, 0.3, 0.15, 0.05])).expand(4000, 4)

    def support(**cuts: object) -> set[int]:
        values = {"top_k": None, "top_p": None} | cuts
        return set(Counter(choose(logits, torch.Generator().manual_seed(0), 1.0, **values).tolist()))

    assert support() == {0, 1, 2, 3}
    assert support(top_k=2) == {0, 1}
    assert support(top_p=0.8) == {0, 1}
    assert support(top_p=0.81) == {0, 1, 2}
    assert support(top_p=0.01) == {0}
    assert support(top_k=3, top_p=0.8) == {0, 1}  # of what top_k has left
    assert support(top_k=9) == {0, 1, 2, 3}


@pytest.mark.parametrize(("prompt", "options", "message"), [
    (torch.zeros(1, 0, dtype=torch.long), {}, "the prompt is empty"),
    (torch.tensor([[99]]), {}, "outside the model's vocabulary of 37"),
    (torch.tensor([[1]]), {"temperature": -1.0}, "temperature: -1.0"),
    (torch.tensor([[1]]), {"top_k": 0}, "top_k: 0"),
    (torch.tensor([[1]]), {"top_p": 1.5}, "top_p: 1.5"),
])
def test_mistakes_are_told(prompt: torch.Tensor, options: dict, message: str) -> None:
    with pytest.raises(UserError, match=message):
        next(generate(small_model("harmonic", {}), prompt, 3, **options))
