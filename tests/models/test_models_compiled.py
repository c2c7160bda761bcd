"""Compiled steps are the models' own steps."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from model_variants import VARIANTS, VOCABULARY, identify, random_ids, small_model

from overtone.models import LanguageModel, build_model, compile_step
from overtone.models.compiled import arithmetic
from overtone.models.harmonic import Harmonic

NAMES = ("harmonic", "mamba", "resonator")
COVERED = [(name, options) for name, options in VARIANTS if name in NAMES and "stride" not in options]
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


def test_sequences_may_take_turns_and_batches_may_differ() -> None:
    model, states = small_model("mamba", {"layers": 2}), {}
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


def test_a_prompts_state_is_left_as_it_was() -> None:
    model = small_model("harmonic", {})
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
    assert compile_step(small_model("llama", {})) is None
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
        assert arithmetic.sigmoid(x) == pytest.approx(1 / (1 + math.exp(-exact)), rel=2e-6)
        assert arithmetic.softplus(x) == pytest.approx(max(exact, 0) + math.log1p(math.exp(-abs(exact))), rel=2e-6)
        assert arithmetic.gelu(x) == pytest.approx(exact * (1 + math.erf(exact / math.sqrt(2))) / 2, rel=1e-6, abs=1e-6)


def test_without_a_folder_for_the_cache_it_is_compiled_for_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    njit, asked = arithmetic.numba.njit, []

    def no_folder(*, cache: bool, **options: object) -> object:
        asked.append(cache)
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return njit(cache=cache, **options)

    def double(x):
        x *= 2

    monkeypatch.setattr(arithmetic.numba, "njit", no_folder)
    x = np.ones(3, np.float32)
    arithmetic.machine_code(double, (arithmetic.numba.typeof(x),))(x)
    assert asked == [True, False]
    assert (x == 2).all()
