"""The causality audit: honest models of anybody's pass in every mode, each kind of leak is flagged."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, MambaConfig, MambaForCausalLM

from overtone.audits import causality
from overtone.audits.causality import audit_causality, change_from
from overtone.audits.entropy import audit_entropy
from overtone.audits.subjects import Subject, draw_tokens, hf_subject, named_generator, own_subject
from overtone.models import build_model

V = 61


def tiny_llama() -> LlamaForCausalLM:
    torch.manual_seed(0)
    return LlamaForCausalLM(LlamaConfig(vocab_size=V, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
                                        num_key_value_heads=2))


HF = {
    "llama": tiny_llama,
    "gpt2": lambda: GPT2LMHeadModel(GPT2Config(vocab_size=V, n_embd=32, n_layer=2, n_head=2, n_positions=256)),
    "mamba": lambda: MambaForCausalLM(MambaConfig(vocab_size=V, hidden_size=32, num_hidden_layers=2, state_size=4)),
}


@pytest.mark.parametrize("kind", HF)
def test_honest_hugging_face_models_pass_in_every_mode(kind):
    rows = audit_causality(hf_subject(kind, HF[kind]()))
    assert [row.mode for row in rows] == ["parallel", "prefill", "step"]
    assert not any(row.violated for row in rows), rows


def test_windows_fit_the_positions_of_the_model():
    model = GPT2LMHeadModel(GPT2Config(vocab_size=V, n_embd=32, n_layer=1, n_head=2, n_positions=24))
    rows = audit_causality(hf_subject("short", model))
    assert not any(row.violated for row in rows), rows
    assert "windows of 24 tokens" in rows[0].detail
    [row] = audit_entropy(hf_subject("short", model))
    assert not row.violated
    assert "989 tokens" in row.detail


def test_a_model_without_logits_to_speak_of_is_causal():
    [row] = audit_causality(Subject("zero", V, lambda ids: torch.zeros(*ids.shape, V)))
    assert (row.measure, row.violated) == (0.0, False)


def test_a_llama_without_its_mask_fails_in_every_mode():
    model = tiny_llama()
    plain = model.forward

    def unmasked(input_ids, **words):
        length = input_ids.shape[1]
        if length > 1:
            words["attention_mask"] = torch.zeros(len(input_ids), 1, length, length)
        return plain(input_ids=input_ids, **words)

    model.forward = unmasked
    rows = audit_causality(hf_subject("unmasked", model))
    assert [row.mode for row in rows if row.violated] == ["parallel", "prefill", "step"]
    assert "logits at position 0 change" in rows[0].detail


@pytest.mark.parametrize("name", ["harmonic", "transformer", "llama", "mamba", "resonator"])
def test_our_architectures_pass_in_both_modes(name):
    rows = audit_causality(own_subject(name, build_model(name, vocab_size=V, hidden=16, seed=0)))
    assert len(rows) == 3
    assert not any(row.violated for row in rows), rows


def test_the_fft_passes_in_float32_too():
    model = build_model("resonator", vocab_size=V, hidden=16, seed=0, kernel_backend="fft")
    rows = audit_causality(own_subject("fft", model, dtype="float32"))
    assert not any(row.violated for row in rows), rows


class Mixing(nn.Module):
    """An embedding, something done along the sequence, a head."""

    def __init__(self, mix):
        super().__init__()
        torch.manual_seed(0)
        self.embedding, self.head, self.mix = nn.Embedding(V, 24), nn.Linear(24, V), mix

    def forward(self, ids):
        return self.head(self.mix(self.embedding(ids)))


def subject_of(mix, **words) -> Subject:
    model = Mixing(mix).double()
    return Subject("mixing", V, model.forward, dtype="float64", **words)


def running_mean(x):
    return x.cumsum(1) / torch.arange(1, x.shape[1] + 1)[:, None]


def pooled(stride):
    def mix(x):
        groups = nn.functional.avg_pool1d(x.transpose(1, 2), stride, ceil_mode=True).transpose(1, 2)
        return running_mean(x) + groups.repeat_interleave(stride, 1)[:, : x.shape[1]]
    return mix


@given(stride=st.integers(2, 40), seed=st.integers(0, 10**6))
@settings(max_examples=40, deadline=None)
def test_any_pooled_and_unshifted_level_is_flagged(stride, seed):
    [row] = audit_causality(subject_of(pooled(stride)), seed=seed)
    assert row.violated


@given(seed=st.integers(0, 10**6), length=st.integers(4, 80), cuts=st.integers(1, 6))
@settings(max_examples=40, deadline=None)
def test_a_running_mean_is_never_flagged(seed, length, cuts):
    [row] = audit_causality(subject_of(running_mean), seed=seed, length=length, cuts=cuts)
    assert not row.violated


LEAKS = {
    "one token ahead": lambda x: x + torch.cat([x[:, 1:], x[:, -1:]], 1),
    "normalised over time": lambda x: x / x.std(1, keepdim=True),
    "a millionth of the last token": lambda x: running_mean(x) + 1e-6 * x[:, -1:],
    "convolution padded on both sides": lambda x: nn.functional.conv1d(x.transpose(1, 2), torch.ones(24, 1, 3, dtype=x.dtype), padding=1,
                                                                       groups=24).transpose(1, 2),
    "only past the 100th token": lambda x: torch.cat([x[:, :100], x[:, 100:].flip(1)], 1),
}


@pytest.mark.parametrize("leak", LEAKS)
def test_leaks_are_flagged(leak):
    [row] = audit_causality(subject_of(LEAKS[leak]), cuts=8)
    assert row.violated
    assert "leak" in row.detail


def test_logits_that_are_not_finite_never_pass():
    [row] = audit_causality(subject_of(lambda x: x * float("nan")))
    assert row.violated
    assert row.measure is None


def test_a_step_that_forgets_its_state_fails_the_step_mode_alone():
    model = build_model("harmonic", vocab_size=V, hidden=16, seed=0)
    honest = own_subject("harmonic", model)
    forgetful = Subject("forgetful", V, honest.forward, honest.prefill,
                        lambda ids, state: (model.step(ids, model.init_state(len(ids)))[0], state), "float64")
    assert [row.mode for row in audit_causality(forgetful) if row.violated] == ["step"]


def test_a_control_must_leak():
    assert audit_causality(subject_of(running_mean, control=True))[0].violated
    assert not audit_causality(subject_of(pooled(4), control=True))[0].violated


def test_the_same_seed_gives_the_same_rows_and_a_split_batch_the_same_verdict(monkeypatch):
    subject = subject_of(pooled(4))
    whole = audit_causality(subject, seed=3)
    assert whole == audit_causality(subject, seed=3)
    monkeypatch.setattr(causality, "_ELEMENTS", 1)  # one window at a time
    [split] = audit_causality(subject, seed=3)
    assert split.measure == pytest.approx(whole[0].measure, rel=1e-12)


@given(st.integers(2, 9), st.data())
@settings(max_examples=50, deadline=None)
def test_changed_tokens_differ_everywhere_from_the_cut_and_nowhere_before(vocabulary, data):
    cuts = torch.tensor(data.draw(st.lists(st.integers(1, 18), min_size=1, max_size=4)))
    generator = named_generator("test", data.draw(st.integers(0, 999)))
    ids = draw_tokens((len(cuts), 20), vocabulary, generator)
    changed = change_from(ids, cuts, vocabulary, generator)
    late = torch.arange(20)[None] >= cuts[:, None]
    assert torch.equal(changed != ids, late)
    assert 0 <= int(changed.min()) <= int(changed.max()) < vocabulary
