"""What the audits say of a transplant and of the leaky control."""

from __future__ import annotations

import math

import torch
from transplant_models import make_llama

from overtone.audits.causality import audit_causality
from overtone.audits.entropy import audit_entropy
from overtone.audits.subjects import hf_subject
from overtone.ops import linear_cross_entropy
from overtone.transplant import BlockOptions, transplant
from overtone.transplant.evaluate import by_phase, random_region
from overtone.transplant.scoring import score

VOCAB = 32


def trained_on_random_tokens(kind: str):
    """A transplant that has read nothing but uniformly random tokens: there is nothing to learn but what leaks."""
    model = transplant(make_llama(vocab=VOCAB, hidden=32, layers=2, tied=True), BlockOptions(kind=kind, d_state=8), 1).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    generator = torch.Generator().manual_seed(0)
    for _ in range(90):
        ids = torch.randint(0, VOCAB, (16, 49), generator=generator)
        features = model.model(input_ids=ids[:, :-1], use_cache=False).last_hidden_state
        linear_cross_entropy(features.flatten(0, 1), model.lm_head.weight, ids[:, 1:].flatten()).backward()
        optimizer.step()
        optimizer.zero_grad()
    return model.eval()


def test_the_honest_block_passes_and_the_leaky_one_is_flagged() -> None:
    honest, leaky = trained_on_random_tokens("harmonic"), trained_on_random_tokens("leaky")
    rows = audit_causality(hf_subject("honest", honest), length=64)
    assert len(rows) == 3  # parallel, prefill, step
    assert all(row.passed for row in rows)
    assert not all(row.passed for row in audit_causality(hf_subject("leaky", leaky, control=True), length=64))
    (floor,) = audit_entropy(hf_subject("honest", honest), length=64)
    assert floor.passed
    (leak,) = audit_entropy(hf_subject("leaky", leaky, control=True), length=64)
    assert not leak.passed
    assert leak.measure < math.log2(VOCAB) - 0.3

    # One token in four opens a group after the pooled mean has told everything: the position before it sees nothing.
    noise = random_region(VOCAB, 64 * 32 + 1, seed=1)
    losses, _ = score(leaky, noise, 64 * 32, 64, batch_tokens=2048)
    phases = by_phase(losses, 64)
    told, untold = [phases[p] for p in range(16) if p % 4 != 3], [phases[p] for p in range(16) if p % 4 == 3]
    assert min(untold) > math.log2(VOCAB) - 0.1
    assert sum(told) / len(told) < math.log2(VOCAB) - 0.3
