"""Sampling, settings and footprint: the parts that every benchmark shares."""

import time

import pytest
import torch
from toy_study import toy_study

from overtone.benchmarks.candidates import candidates
from overtone.benchmarks.clock import elapsed, sample, summary
from overtone.benchmarks.footprint import peak_of_call
from overtone.errors import UserError
from overtone.models import parameter_counts

CPU = torch.device("cpu")


def test_a_sample_is_the_time_of_a_call():
    assert 0.02 <= elapsed(lambda: time.sleep(0.02), CPU) < 0.2


def test_repetitions_follow_one_warm_up_and_stop_at_the_limit():
    calls = []
    assert len(sample(lambda: calls.append(1), CPU, 5)) == 5
    assert len(calls) == 6
    assert len(sample(lambda: time.sleep(0.02), CPU, 1000, limit_s=0.1)) < 10
    assert len(sample(lambda: time.sleep(0.02), CPU, 5, limit_s=0.01)) == 1
    assert len(sample(lambda: time.sleep(0.02), CPU, 5, limit_s=0.03)) == 1
    assert len(sample(lambda: time.sleep(0.02), CPU, 5, limit_s=0.01, least=3)) == 3


def test_a_summary_has_quartiles_and_the_samples():
    assert summary([4, 1, 3, 2, 5]) == {"median": 3.0, "q25": 2.0, "q75": 4.0, "samples": [4.0, 1.0, 3.0, 2.0, 5.0]}


def test_the_peak_of_a_call_is_the_memory_it_held_at_once():
    kept = torch.ones(1000)

    def call():
        first = torch.empty(250_000)
        del first
        second, third = torch.empty(500_000), torch.empty(250_000)
        return second, third, kept + 1

    peak, kind = peak_of_call(call, CPU)
    assert kind == "cpu_allocations"
    assert 3_000_000 <= peak < 3_100_000


def test_candidates_have_the_parameters_of_their_reference():
    names = ("resonator", "transformer", "llama", "harmonic", "mamba")
    found = candidates(names, hidden=64, vocab_size=205, match="resonator")
    totals = [parameter_counts(item.build())["total"] for item in found]
    assert [item.name for item in found] == list(names)
    assert all(abs(total / totals[0] - 1) <= 0.02 for total in totals)


def test_candidates_come_from_the_study_where_there_is_one():
    study = toy_study(
        architectures={
            "harmonic": {"model": "harmonic"},
            "flat": {"model": "harmonic", "options": {"flat_timescales": True}},
            "transformer": {"model": "transformer"},
            "llama": {"model": "llama"},
            "resonator": {"model": "resonator"},
        },
        sizes={"d16": {"hidden": 16, "per_architecture": {"transformer": {"layers": 2}}}},
    )
    flat, transformer = candidates(("flat", "transformer"), hidden=99, vocab_size=32, match="", size="d16", study=study)
    assert (flat.model, flat.hidden, flat.options) == ("harmonic", 16, {"flat_timescales": True})
    assert (transformer.hidden, transformer.options) == (16, {"layers": 2})
    with pytest.raises(UserError, match="Did you mean"):
        candidates(("transfomer",), hidden=16, vocab_size=32, match="", study=study)
    with pytest.raises(UserError, match="benchmark size"):
        candidates(("transformer",), hidden=16, vocab_size=32, match="", size="d17", study=study)
