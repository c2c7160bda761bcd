"""The entropy floor: no honest model falls below it, whoever has seen its targets does."""

import math

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from overtone.audits import entropy
from overtone.audits.entropy import audit_entropy
from overtone.audits.subjects import Subject, hf_subject, own_subject
from overtone.models import build_model

V = 97


def with_logits(make) -> Subject:
    return Subject("made up", V, make, dtype="float64")


def told(share: float):
    """A model that knows the next token and gives it `share` of the probability, the rest evenly."""
    def forward(ids):
        known = torch.nn.functional.one_hot(torch.cat([ids[:, 1:], ids[:, :1]], 1), V).double()
        return torch.log(share * known + (1 - share) / V)
    return forward


def test_the_uniform_model_is_exactly_at_the_floor_and_passes():
    [row] = audit_entropy(with_logits(lambda ids: torch.zeros(*ids.shape, V)))
    assert row.measure == pytest.approx(math.log2(V), abs=1e-12)
    assert not row.violated


@pytest.mark.parametrize("name", ["harmonic", "transformer", "llama", "mamba", "resonator"])
def test_our_architectures_pass(name):
    [row] = audit_entropy(own_subject(name, build_model(name, vocab_size=V, hidden=16, seed=0)))
    assert not row.violated
    assert row.measure > math.log2(V) - 0.01


def test_an_honest_hugging_face_model_passes():
    torch.manual_seed(0)
    [row] = audit_entropy(hf_subject("gpt2", GPT2LMHeadModel(GPT2Config(vocab_size=V, n_embd=32, n_layer=1, n_head=2, n_positions=256))))
    assert not row.violated


@pytest.mark.parametrize("share", [0.01, 0.5, 0.9987])
def test_a_model_that_has_seen_its_targets_fails(share):
    [row] = audit_entropy(with_logits(told(share)))
    assert row.violated
    assert row.measure == pytest.approx(-math.log2(share + (1 - share) / V), abs=0.01)


def test_the_threshold_is_twenty_bits_over_all_targets_below_the_floor():
    [row] = audit_entropy(with_logits(lambda ids: torch.zeros(*ids.shape, V)), windows=3, length=11)
    assert row.threshold == pytest.approx(math.log2(V) - 20 / 30)


def test_no_betting_strategy_of_a_causal_model_is_flagged():
    """The bound is for every causal model: also for one that bets much on a token it guesses, right once in V times."""
    def bets(seed):
        def forward(ids):
            guesses = torch.randint(V, ids.shape, generator=torch.Generator().manual_seed(seed))
            return 3.0 * torch.nn.functional.one_hot(guesses, V).double()
        return forward

    assert not any(audit_entropy(with_logits(bets(seed)), windows=1, length=64)[0].violated for seed in range(300))


def test_logits_that_are_not_finite_never_pass():
    [row] = audit_entropy(with_logits(lambda ids: torch.full((*ids.shape, V), float("nan"))))
    assert row.violated
    assert row.measure is None


def test_a_large_vocabulary_is_read_in_parts(monkeypatch):
    subject = with_logits(told(0.3))
    whole = audit_entropy(subject)[0].measure
    monkeypatch.setattr(entropy, "_ELEMENTS", 1)
    assert audit_entropy(subject)[0].measure == pytest.approx(whole, rel=1e-12)
