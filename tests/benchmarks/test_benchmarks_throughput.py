"""Throughput: whole optimizer steps, interleaved, at equal tokens; and the verb `bench` around all benchmarks."""

import json

import pytest
import torch

from overtone.benchmarks import throughput
from overtone.benchmarks.candidates import candidates
from overtone.benchmarks.throughput import Settings, measure
from overtone.cli import main
from overtone.errors import UserError
from overtone.models import flops_per_token

SMALL = Settings(hidden=16, vocab_size=40, lengths=(16, 64), tokens_per_step=128, repetitions=3)
NAMES = ("harmonic", "transformer", "resonator")


def models(names=NAMES):
    return candidates(names, hidden=16, vocab_size=40, match="harmonic")


def test_every_architecture_and_length_has_a_row_at_equal_tokens():
    found = measure(SMALL, models())
    assert [(row["length"], row["architecture"]) for row in found["rows"]] == [(length, name) for length in (16, 64) for name in NAMES]
    for row in found["rows"]:
        assert row["batch"] * row["length"] == 128
        assert row["synchronised"] is True
        assert row["tokens_per_s"]["q25"] <= row["tokens_per_s"]["median"] <= row["tokens_per_s"]["q75"]
        assert len(row["tokens_per_s"]["samples"]) == 3
    model = models()[1].build()
    assert found["rows"][1]["training_flops_per_token"] == 3 * flops_per_token(model, 16)
    assert json.loads(json.dumps(found, allow_nan=False))["rows"] == found["rows"]


def test_repetitions_are_interleaved_and_really_train(monkeypatch):
    order, changes = [], []
    plain = throughput.Contestant.time_step

    def watched(self):
        before = [value.detach().clone() for value in self.model.parameters()]
        plain(self)
        order.append(self.candidate.name)
        changes.append(any(not torch.equal(old, new) for old, new in zip(before, self.model.parameters(), strict=True)))

    monkeypatch.setattr(throughput.Contestant, "time_step", watched)
    measure(Settings(hidden=16, vocab_size=40, lengths=(16,), tokens_per_step=64, repetitions=2), models())
    assert order == [*NAMES, *NAMES]
    assert all(changes)


def test_a_step_that_does_not_fit_is_a_failure(monkeypatch):
    plain = throughput.Contestant.step

    def full(self):
        if self.candidate.name == "transformer":
            raise MemoryError("allocate 9 GiB")
        plain(self)

    monkeypatch.setattr(throughput.Contestant, "step", full)
    found = measure(SMALL, models())
    assert {row["architecture"] for row in found["rows"]} == {"harmonic", "resonator"}
    assert [item["status"] for item in found["protocol"]["failures"]] == ["oom", "oom"]


def test_a_window_longer_than_the_step_is_a_mistake():
    with pytest.raises(UserError, match="tokens_per_step"):
        measure(Settings(lengths=(256,), tokens_per_step=128), models())


def test_the_settings_of_the_study_are_taken(tmp_path):
    from toy_study import toy_study

    from overtone.files import write_json

    section = {"architectures": ["harmonic"], "lengths": [16], "tokens_per_step": 32, "repetitions": 1, "size": "d16", "vocab_size": 32}
    write_json(tmp_path / "study.json", dict(toy_study(benchmarks={"throughput": section}).data))
    out = tmp_path / "benchmarks" / "throughput.json"
    assert main(["bench", "throughput", "--study", str(tmp_path / "study.json"), "--out", str(out)]) == 0
    [row] = json.loads(out.read_text())["rows"]
    assert (row["architecture"], row["length"], row["batch"]) == ("harmonic", 16, 2)


def test_a_benchmark_that_is_not_installed_is_named_when_it_is_called(monkeypatch, capsys):
    from overtone.verbs import bench

    monkeypatch.setitem(bench.BENCHMARKS, "nothing-such", "x")
    assert main(["bench", "nothing-such", "--out", "x.json"]) == 2
    assert "overtone.benchmarks.nothing_such" in capsys.readouterr().err


def test_help_lists_the_settings_of_a_benchmark(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["bench", "kernel-tail", "--help"])
    assert stop.value.code == 0
    assert "--lengths" in capsys.readouterr().out
