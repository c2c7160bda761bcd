"""Compiled steps are the models' own steps."""

from __future__ import annotations

import copy
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from model_variants import VARIANTS, VOCABULARY, identify, random_ids, small_model

from overtone.models import LanguageModel, build_model, compile_step
from overtone.models.attention import rotary
from overtone.models.compiled import arithmetic, attention
from overtone.models.harmonic import Harmonic

NAMES = ("harmonic", "llama", "mamba", "resonator", "transformer")
COVERED = [(name, options) for name, options in VARIANTS if name in NAMES and not {"stride", "attention"} & set(options)]
COVERED += [("llama", {"heads": 4, "kv_heads": 2}), ("llama", {"heads": 8, "kv_heads": 8, "rope_theta": 500_000.0, "norm_eps": 1e-3})]
COVERED += [("mamba", {"layers": 1, "d_conv": 1}), ("harmonic", {"levels": 2, "bounded_timescales": True, "raw_hidden_states": True})]


def close(found: torch.Tensor, expected: torch.Tensor, tolerance: float = 1e-4) -> bool:
    """Equal to a fraction of the largest."""
    return bool((found - expected).abs().max() <= tolerance * expected.abs().max())


def assert_steps_are_the_models(model: LanguageModel, batch: int, prompt: int = 9, steps: int = 6) -> None:
    """Logits and state of both, from a prompt on, beside those of the model in float64."""
    exact, compiled = copy.deepcopy(model).double(), compile_step(model)
    assert compiled is not None
    ids = torch.randint(model.vocab_size, (batch, prompt + steps), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        whole = exact(ids)
        _, ours = model.prefill(ids[:, :prompt])
        theirs = ours
        for position in range(prompt, prompt + steps):
            logits, ours = compiled.step(ids[:, position], ours)
            expected, theirs = model.step(ids[:, position], theirs)
            assert close(logits, expected)
            assert close(logits.double(), whole[:, position])
            assert torch.equal(logits.argmax(-1), expected.argmax(-1))
    assert (ours.position, type(ours), list(ours.tensors)) == (theirs.position, type(theirs), list(theirs.tensors))
    for name, tensor in ours.tensors.items():
        assert tensor.shape == theirs.tensors[name].shape
        assert tensor.dtype == theirs.tensors[name].dtype
        torch.testing.assert_close(tensor, theirs.tensors[name], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("variant", COVERED, ids=identify)
def test_every_option_has_the_models_logits_and_state(variant: tuple[str, dict]) -> None:
    assert_steps_are_the_models(small_model(*variant), batch=2)


@settings(max_examples=10, deadline=None)
@given(hidden=st.integers(1, 40), levels=st.integers(1, 5), ffn=st.integers(1, 70), vocab=st.integers(1, 50), batch=st.integers(1, 3))
def test_harmonic_of_any_size(hidden: int, levels: int, ffn: int, vocab: int, batch: int) -> None:
    assert_steps_are_the_models(build_model("harmonic", vocab_size=vocab, hidden=hidden, levels=levels, ffn=ffn, seed=0), batch)


@settings(max_examples=10, deadline=None)
@given(hidden=st.integers(1, 20), layers=st.integers(1, 3), expand=st.integers(1, 3), numbers=st.integers(1, 20), width=st.integers(1, 5),
       rank=st.integers(1, 5), batch=st.integers(1, 3))
def test_mamba_of_any_size(hidden: int, layers: int, expand: int, numbers: int, width: int, rank: int, batch: int) -> None:
    model = build_model("mamba", vocab_size=11, hidden=hidden, layers=layers, expand=expand, d_state=numbers, d_conv=width, dt_rank=rank,
                        seed=0)
    assert_steps_are_the_models(model, batch)


@settings(max_examples=10, deadline=None)
@given(heads=st.integers(1, 5), width=st.integers(1, 9), layers=st.integers(1, 3), inner=st.integers(1, 50), coupling=st.booleans(),
       local=st.booleans(), batch=st.integers(1, 3))
def test_resonator_of_any_size(heads: int, width: int, layers: int, inner: int, coupling: bool, local: bool, batch: int) -> None:
    model = build_model("resonator", vocab_size=11, hidden=heads * width, heads=heads, layers=layers, intermediate=inner,
                        head_coupling=coupling, local_path=local, seed=0)
    assert_steps_are_the_models(model, batch)


@pytest.mark.parametrize("name", NAMES)
def test_2000_tokens_do_not_drift_from_float64(name: str) -> None:
    model, ids = build_model(name, vocab_size=VOCABULARY, hidden=16, seed=0), random_ids(1, 2000)
    compiled, state = compile_step(model), model.init_state(1)
    assert compiled is not None
    logits = []
    with torch.no_grad():
        for column in ids.unbind(1):
            each, state = compiled.step(column, state)
            logits.append(each)
        exact = model.double()(ids)
    assert state.position == 2000
    assert close(torch.stack(logits, dim=1), exact)


@settings(max_examples=10, deadline=None)
@given(groups=st.integers(1, 3), sharing=st.integers(1, 3), half=st.integers(1, 9), layers=st.integers(1, 3), inner=st.integers(1, 50),
       prompt=st.integers(1, 12), batch=st.integers(1, 3))
def test_llama_of_any_size(groups: int, sharing: int, half: int, layers: int, inner: int, prompt: int, batch: int) -> None:
    heads = groups * sharing
    model = build_model("llama", vocab_size=11, hidden=2 * half * heads, heads=heads, kv_heads=groups, layers=layers, intermediate=inner,
                        seed=0)
    assert_steps_are_the_models(model, batch, prompt)


@settings(max_examples=10, deadline=None)
@given(heads=st.integers(1, 4), half=st.integers(1, 9), layers=st.integers(1, 3), ffn=st.integers(1, 50), prompt=st.integers(1, 12),
       batch=st.integers(1, 3))
def test_transformer_of_any_size(heads: int, half: int, layers: int, ffn: int, prompt: int, batch: int) -> None:
    model = build_model("transformer", vocab_size=11, hidden=2 * half * heads, heads=heads, layers=layers, ffn=ffn, seed=0)
    assert_steps_are_the_models(model, batch, prompt)


@pytest.mark.parametrize("name", ["llama", "transformer"])
@pytest.mark.parametrize("position", [1021, 32764])
def test_attention_far_into_a_sequence_and_beyond_its_cache(name: str, position: int) -> None:
    model, compiled = small_model(name, {"layers": 2, "heads": 4}), compile_step(small_model(name, {"layers": 2, "heads": 4}))
    theirs = model.init_state(2, max_length=position + 3)
    for tensor in theirs.tensors.values():
        tensor.normal_(generator=torch.Generator().manual_seed(5))
    theirs.position = position
    ours = replace(theirs, tensors={tensor: value.clone() for tensor, value in theirs.tensors.items()})
    assert compiled is not None
    with torch.no_grad():
        for ids in random_ids(2, 6).unbind(1):
            logits, ours = compiled.step(ids, ours)
            expected, theirs = model.step(ids, theirs)
            assert close(logits, expected)
    assert ours.position == position + 6
    for tensor, value in ours.tensors.items():
        torch.testing.assert_close(value, theirs.tensors[tensor], rtol=1e-4, atol=1e-4)


@settings(max_examples=20, deadline=None)
@given(seen=st.one_of(st.integers(1, 40), st.just(32768)), groups=st.integers(1, 2), sharing=st.integers(1, 3), half=st.integers(1, 20),
       size=st.sampled_from([0.1, 1.0, 30.0]))
def test_the_softmax_over_the_cache_is_float64s(seen: int, groups: int, sharing: int, half: int, size: float) -> None:
    draw, width, heads = np.random.default_rng(seen).standard_normal, 2 * half, groups * sharing
    keys, values = (draw((1, groups, seen + 3, width), dtype=np.float32) for _ in range(2))
    qkv = draw((1, (heads + 2 * groups) * width), dtype=np.float32)
    qkv[:, : heads * width] *= size  # scores up to hundreds: one position takes all the weight
    no_turn = np.stack([np.ones(half), np.zeros(half)]).astype(np.float32)
    y, given = np.empty((1, heads * width), np.float32), qkv.reshape(-1, width).astype(np.float64)
    attention.attend(y, qkv, keys, values, seen - 1, no_turn, np.empty((sharing, seen + 3), np.float32))
    np.testing.assert_array_equal(keys[0, :, seen - 1], given[heads : heads + groups])
    np.testing.assert_array_equal(values[0, :, seen - 1], given[heads + groups :])
    for head in range(heads):
        key, value = (item[0, head // sharing, :seen].astype(np.float64) for item in (keys, values))
        scores = key @ given[head] / math.sqrt(width)
        weights = np.exp(scores - scores.max())
        exact = weights / weights.sum() @ value
        np.testing.assert_allclose(y.reshape(heads, width)[head], exact, atol=2e-5 * max(1, size), rtol=0)


@pytest.mark.parametrize("position", [0, 1, 1000, 32767, 1_000_003])
def test_rotary_angles_are_the_models(position: int) -> None:
    model = build_model("llama", vocab_size=11, hidden=48, heads=1, seed=0)
    cosine, sine = rotary(position, 1, 48, model.config.rope_theta, torch.zeros(1))
    turn = np.empty((2, 24), np.float32)
    attention.turn_to(turn, attention.radians(model), position)
    np.testing.assert_allclose(turn, torch.cat([cosine, sine])[:, :24], atol=3e-7)


@pytest.mark.parametrize("name", NAMES)
def test_the_models_and_compiled_steps_may_alternate(name: str) -> None:
    model, ids = small_model(name, {}), random_ids(2, 20)
    compiled, (_, state) = compile_step(model), model.prefill(ids[:, :4])
    assert compiled is not None
    with torch.no_grad():
        whole = model(ids)
        for position in range(4, 20):
            logits, state = (model if position % 5 < 2 else compiled).step(ids[:, position], state)
            assert close(logits, whole[:, position])


@pytest.mark.parametrize("name", NAMES)
def test_a_run_of_tokens_is_that_of_the_models_steps(name: str) -> None:
    model, ids = small_model(name, {}), random_ids(2, 12)
    compiled = compile_step(model)
    assert compiled is not None
    with torch.no_grad():
        logits, state = model.prefill(ids)
        first = chosen = logits[:, -1].argmax(-1)
        after, expected = state, []
        for _ in range(30):
            logits, after = model.step(chosen, after)
            chosen = logits.argmax(-1)
            expected.append(chosen)
    ours, state = compiled.advance(first, state, 7)
    assert torch.equal(ours, expected[6])
    ours, state = compiled.advance(ours, state, 23)
    assert torch.equal(ours, expected[29])
    assert state.position == after.position


@pytest.mark.parametrize("name", ["mamba", "llama"])
def test_sequences_may_take_turns_and_batches_may_differ(name: str) -> None:
    model, states = small_model(name, {"layers": 2}), {}
    compiled, theirs = compile_step(model), {}
    assert compiled is not None
    with torch.no_grad():
        for batch in (1, 3):
            states[batch] = theirs[batch] = model.prefill(random_ids(batch, 5))[1]
        for turn in range(4):
            for batch in (1, 3):
                ids = random_ids(batch, 1, seed=turn)[:, 0]
                logits, states[batch] = compiled.step(ids, states[batch])
                expected, theirs[batch] = model.step(ids, theirs[batch])
                assert close(logits, expected)


@pytest.mark.parametrize("name", NAMES)
def test_a_prompts_state_is_left_as_it_was(name: str) -> None:
    model = small_model(name, {})
    compiled, (_, state) = compile_step(model), model.prefill(random_ids(1, 5))
    assert compiled is not None
    before = {name: tensor.clone() for name, tensor in state.tensors.items()}
    compiled.advance(torch.tensor([1]), state, 3)
    assert all(torch.equal(tensor, before[name]) for name, tensor in state.tensors.items())


def test_what_is_not_covered_has_no_compiled_step(monkeypatch: pytest.MonkeyPatch) -> None:
    class Other(Harmonic):
        """A third party's."""

    harmonic = small_model("harmonic", {})
    assert compile_step(harmonic) is not None
    assert compile_step(Other(harmonic.config)) is None
    assert compile_step(small_model("harmonic", {"stride": 2})) is None
    assert compile_step(small_model("llama", {"attention": "quadratic"})) is None
    for name in NAMES:
        assert compile_step(small_model(name, {}, dtype=torch.float64)) is None
        assert compile_step(small_model(name, {}).to("meta")) is None
    monkeypatch.setattr("overtone.models.compiled.step.find_spec", lambda package: None)
    assert compile_step(harmonic) is None


def test_a_token_outside_the_vocabulary_is_an_error() -> None:
    model = small_model("resonator", {"layers": 1})
    compiled = compile_step(model)
    assert compiled is not None
    for token in (-1, VOCABULARY):
        with pytest.raises(IndexError, match="outside the model's vocabulary"):
            compiled.step(torch.tensor([token]), model.init_state(1))


def test_functions_of_one_number_have_float32s_digits() -> None:
    for x in np.linspace(-30, 30, 201, dtype=np.float32):
        exact = float(x)
        assert arithmetic.exp_of_negative(-abs(x)) == pytest.approx(math.exp(-abs(exact)), rel=3e-7)
        assert arithmetic.sigmoid(x) == pytest.approx(1 / (1 + math.exp(-exact)), rel=2e-6)
        assert arithmetic.softplus(x) == pytest.approx(max(exact, 0) + math.log1p(math.exp(-abs(exact))), rel=2e-6)
        assert arithmetic.gelu(x) == pytest.approx(exact * (1 + math.erf(exact / math.sqrt(2))) / 2, rel=1e-6, abs=1e-6)


def test_without_a_folder_for_the_cache_it_is_compiled_for_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    njit, asked = arithmetic.numba.njit, []

    def no_folder(*, cache: bool, **options: Any) -> Any:
        asked.append(cache)
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return njit(cache=cache, **options)

    def double(x: np.ndarray) -> None:
        x *= 2

    monkeypatch.setattr(arithmetic.numba, "njit", no_folder)
    x = np.ones(3, np.float32)
    arithmetic.machine_code(double, (arithmetic.numba.typeof(x),))(x)
    assert asked == [True, False]
    assert (x == 2).all()
