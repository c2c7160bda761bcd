"""The baseline audit: it notices a weak Transformer by what it does and by how it was tuned."""

from dataclasses import replace

import pytest
import torch

from overtone.audits import watch
from overtone.audits.baseline import audit_baseline, edge_gain_of
from overtone.audits.results import finished_cells
from overtone.audits.watch import attention_calls, cache_moves, fused_updates, position_spread
from overtone.files import read_json, write_json
from overtone.models import build_model
from overtone.models.attention import KeyValueCache


def violated(study, results):
    rows, notes = audit_baseline(study, finished_cells(study, results)[0], results)
    return [(row.subject, row.mode) for row in rows if row.violated], notes


def test_the_trained_baselines_pass(toy):
    study, results = toy
    found, notes = violated(study, results)
    assert found == []
    assert notes[-1] == "protocol resonator: no sweep; one rate 0.01 for all"
    assert "5.0 times apart" in notes[0]


def test_a_coarse_or_short_sweep_is_told(toy):
    study, results = toy
    sweep = {"harmonic": {**study.lr_sweep["harmonic"], "budget": study.protocols["harmonic"]["budget"] // 2}}
    notes = " ".join(audit_baseline(replace(study, lr_sweep=sweep), finished_cells(study, results)[0], results)[1])
    assert f"rates were tried on {sweep['harmonic']['budget']} of" in notes


def edit(file, change):
    content = read_json(file)
    change(content)
    write_json(file, content)


def test_fewer_trials_another_rate_and_unfused_attention_are_found(spoilable):
    study, results = spoilable
    edit(results / "lr_sweep/harmonic/transformer/chosen.json", lambda chosen: chosen["trials"].pop(0))
    assert ("harmonic/transformer", "trials") in violated(study, results)[0]
    edit(results / "cells/harmonic/enwiki-mini/bytes/llama/d16/64/1/metrics.json", lambda metrics: metrics.update(lr=0.02))
    assert ("harmonic/llama", "rate") in violated(study, results)[0]
    for file in (results / "cells/harmonic").glob("**/transformer/**/config.json"):
        edit(file, lambda config: config["options"].update(attention="quadratic"))
    found = violated(study, results)[0]
    assert ("transformer", "sdpa") in found
    assert ("transformer", "rope") in found  # unseen is not proved


def test_a_best_rate_at_the_edge_counts_by_what_the_last_move_gained(spoilable):
    study, results = spoilable
    file = results / "lr_sweep/harmonic/transformer/chosen.json"

    def move(gain):
        def change(chosen):
            chosen["trials"][-1]["validation_bpt"] = chosen["trials"][-2]["validation_bpt"] - gain
            chosen.update(chosen=0.05, edge=True)
        return change

    edit(file, move(0.3))
    found = violated(study, results)[0]
    assert ("harmonic/transformer", "edge") in found
    edit(file, move(0.01))
    assert ("harmonic/transformer", "edge") not in violated(study, results)[0]


def test_another_architecture_at_the_edge_is_a_remark(spoilable):
    study, results = spoilable
    edit(results / "lr_sweep/harmonic/harmonic/chosen.json", lambda chosen: chosen.update(chosen=0.05, edge=True))
    assert any("harmonic's rate 0.05 is at the grid's edge" in note for note in violated(study, results)[1])


def test_one_trial_that_ended_is_no_choice():
    trials = [{"rate": 0.1, "validation_bpt": 3.0}, {"rate": 0.2, "validation_bpt": None}]
    assert edge_gain_of({"trials": trials, "chosen": 0.1, "edge": True})[0] == float("inf")


@pytest.mark.parametrize("name", ["transformer", "llama"])
def test_our_attention_is_rotary_fused_and_static(name):
    model = build_model(name, vocab_size=40, hidden=64, seed=0)
    calls, scores = attention_calls(model)
    assert calls == len(model.blocks)
    assert position_spread(scores) < 1e-4
    assert cache_moves(model) == 0
    assert fused_updates(model)[0] >= 1


def test_absolute_positions_and_none_are_told_from_rotary():
    torch.manual_seed(0)
    content = torch.randn(1, 1, 8).expand(2, 32, 8)
    assert position_spread(content @ content.transpose(1, 2)) == float("inf")
    absolute = content + 0.3 * torch.randn(2, 32, 8)
    assert position_spread(absolute @ absolute.transpose(1, 2)) > 0.1


def test_a_cache_that_grows_is_counted(monkeypatch):
    model = build_model("transformer", vocab_size=40, hidden=32, seed=0)
    plain = KeyValueCache.extended

    def regrown(self, length):
        return plain(type(self)({name: tensor.clone() for name, tensor in self.tensors.items()}, self.position), length)

    monkeypatch.setattr(KeyValueCache, "extended", regrown)
    assert cache_moves(model) > 0


def test_an_unfused_optimizer_is_counted_as_none(monkeypatch):
    class Unfused(watch.AdamW):
        @torch.no_grad()
        def step(self, rate):
            for value in self.parameters.values():
                if value.grad is not None:
                    value -= rate * value.grad

    monkeypatch.setattr(watch, "AdamW", Unfused)
    fused, kernels = fused_updates(build_model("transformer", vocab_size=40, hidden=32, seed=0))
    assert fused == 0
    assert kernels > 10
