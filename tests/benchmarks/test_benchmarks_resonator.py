"""A resonator's diagnostics, each against its formula; and the numerics that decoding relies on."""

import json
import math

import numpy as np
import pytest
import torch

from overtone.audits.causality import audit_causality
from overtone.audits.subjects import own_subject
from overtone.benchmarks import resonator as diagnostics
from overtone.cli import main
from overtone.models import build_model
from overtone.training.optimizer import AdamW
from overtone.training.protocol import TrainingProtocol

V = 40


def small(seed=0, dtype=torch.float32, **options):
    """A resonator that is no longer at its start: kernels, coupling and local path moved at random."""
    model = build_model("resonator", vocab_size=V, hidden=24, seed=seed, **({"layers": 2, "heads": 4} | options))
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, value in model.named_parameters():
            if "mixer" in name:
                value += 0.2 * torch.randn(value.shape, generator=generator)
    return model.to(dtype).eval()


@pytest.mark.parametrize("options", [{}, {"kernel_backend": "fft"}, {"kernel_backend": "direct"}, {"pure_decay": True}, {"heads": 1}])
@pytest.mark.parametrize("stepwise", [False, True])
def test_the_model_answers_an_impulse_with_the_formula(options, stepwise):
    model = small(**options)
    for layer in range(2):
        measured = diagnostics.impulse_response(model, layer, 300, stepwise=stepwise).double()
        formula = diagnostics.formula_response(model, layer, 300)
        assert (measured - formula).abs().max() < 2e-6 * formula.abs().max()


def test_the_mixer_is_whole_again_after_it_was_isolated():
    model = small()
    ids = torch.randint(V, (2, 30))
    before = model(ids)
    diagnostics.impulse_rows(model, 64)
    diagnostics.head_losses(model, ids[:, :-1], ids[:, 1:])
    diagnostics.energy_rows(model, 64)
    assert torch.equal(model(ids), before)
    assert "kernels" not in vars(model.blocks[0].mixer)


def test_the_rows_of_the_impulse_cover_each_head_and_agree():
    rows = diagnostics.impulse_rows(small(), 512)
    assert [(row["layer"], row["head"]) for row in rows] == [(layer, head) for layer in range(2) for head in range(4)]
    for row in rows:
        assert len(row["t"]) == len(row["model"]) == len(row["formula"]) <= diagnostics.POINTS
        assert row["t"][0] == 0
        assert np.allclose(row["model"], row["formula"], atol=1e-5)
        assert row["largest_difference"] < 1e-5


def test_magnitudes_are_the_fourier_transform_of_the_response():
    model = small(half_lives=(2.0, 32.0))
    response = diagnostics.formula_response(model, 0, 8192)
    bins = torch.arange(0, 4097, 64)
    expected = torch.fft.rfft(response)[:, bins].abs()
    assert torch.allclose(diagnostics.magnitude(model, 0, 2 * math.pi * bins / 8192), expected, rtol=1e-6, atol=1e-9)


def test_the_peak_of_a_spectrum_is_its_largest_value_and_near_the_heads_own_frequency_where_it_rings():
    model = small(half_lives=(300.0, 2000.0), periods=(5.0, 40.0))
    dense = torch.linspace(0, math.pi, 60001, dtype=torch.float64)
    for row in diagnostics.spectrum_rows(model):
        values = diagnostics.magnitude(model, row["layer"], dense)[row["head"]]
        assert row["peak_omega"] == pytest.approx(float(dense[values.argmax()]), abs=1e-3)
        assert row["peak_omega"] == pytest.approx(row["own_omega"], abs=0.02)
        assert max(row["magnitude"]) >= 0.999 * float(values.max())


def test_a_pure_decay_peaks_at_zero():
    assert {row["peak_omega"] for row in diagnostics.spectrum_rows(small(pure_decay=True))} == {0.0}


def test_a_head_that_is_off_is_a_head_with_zero_coupling():
    model = small()
    ids = torch.randint(V, (3, 41), generator=torch.Generator().manual_seed(1))
    whole, rows = diagnostics.head_losses(model, ids[:, :-1], ids[:, 1:])
    with torch.no_grad():
        assert whole == pytest.approx(float(model.loss(ids[:, :-1], ids[:, 1:])) / math.log(2), rel=1e-5)
    assert len(rows) == 8
    with torch.no_grad():
        model.blocks[1].mixer.coupling[:, 2] = 0
        expected = float(model.loss(ids[:, :-1], ids[:, 1:])) / math.log(2)
    [row] = [row for row in rows if (row["layer"], row["head"]) == (1, 2)]
    assert row["bpt_off"] == pytest.approx(expected, rel=1e-6)
    assert row["bpt_off"] != whole


def test_white_input_keeps_its_variance():
    model = small(half_lives=(2.0, 200.0))
    for row in diagnostics.energy_rows(model, 8192, channels=512):
        assert row["response"] == pytest.approx(row["expected"], rel=1e-4)
        assert row["response"] == pytest.approx(1, abs=1e-3)
        assert row["white"] == pytest.approx(1, abs=5 * math.sqrt(2 / row["samples"]))
        assert 0 < row["modulus"] < 1


def test_no_head_grows_at_any_step_of_training_however_large_the_steps():
    model = build_model("resonator", vocab_size=V, hidden=16, seed=0, layers=2, heads=4)
    optimizer = AdamW(model, TrainingProtocol(budget=1, tokens_per_step=1, evaluation_length=1, weight_decay=0.0))
    generator = torch.Generator().manual_seed(0)
    moduli = [model.diagnostics()["max_modulus"]]
    for _ in range(60):
        ids = torch.randint(V, (4, 33), generator=generator)
        model.loss(ids[:, :-1], ids[:, 1:]).backward()
        optimizer.step(0.5)
        optimizer.zero_grad()
        moduli.append(model.diagnostics()["max_modulus"])
    assert len(set(moduli)) > 30  # the kernels did move
    assert all(0 < value < 1 for value in moduli)
    assert all(bool(torch.isfinite(value).all()) for value in model.parameters())


@pytest.mark.parametrize("options", [{}, {"head_coupling": False, "local_path": False}, {"kernel_backend": "chunked"}])
def test_a_resonator_is_causal_in_both_modes(options):
    assert not any(row.violated for row in audit_causality(own_subject("resonator", small(**options))))


def test_a_long_decode_does_not_drift():
    """Float32 steps against the float64 parallel form, 6000 tokens of white input: the difference stays where it was."""
    model, exact = small(layers=1, heads=2), small(layers=1, heads=2, dtype=torch.float64)
    u = torch.randn(1, 6000, 24, generator=torch.Generator().manual_seed(0))
    apart = (diagnostics.run_isolated(model, 0, u, stepwise=True) - diagnostics.run_isolated(exact, 0, u.double())).abs()[0].amax(-1)
    early, late = float(apart[:1500].max()), float(apart[-1500:].max())
    assert late < 1e-4
    assert late < 4 * early


def test_the_verb_diagnoses_the_trained_cell(toy, tmp_path):
    _, results = toy
    out = tmp_path / "diagnostics" / "resonator.json"
    assert main(["diagnose", "--study", str(results / "study.json"), "--results", str(results), "--out", str(out), "--tokens", "256"]) == 0
    found = json.loads(out.read_text())
    assert found["key"] == "resonator/enwiki-mini/bytes/resonator/d16/64/1"
    heads = len(found["impulse"])
    assert heads == len(found["spectrum"]) == len(found["head_loss"]) == len(found["energy"]["heads"]) == 32
    assert [len(layer) for layer in found["half_lives"]["before"]] == [8] * 4
    assert found["half_lives"]["before"] != found["half_lives"]["after"]
    assert found["windows"] == {"count": 4, "length": 64}
    assert 1 < found["bpt_on"] < 5.5
    assert all(row["passed"] for row in found["causality"])
    assert found["energy"]["max_modulus"]["after"] < 1


def test_a_study_without_a_trained_resonator_is_a_mistake(toy, tmp_path, capsys):
    from toy_study import toy_study

    from overtone.files import read_json, write_json

    _, results = toy
    experiments = {"crossover": toy_study().data["experiments"]["crossover"]}
    write_json(tmp_path / "study.json", dict(toy_study(experiments=experiments).data))
    words = ["diagnose", "--results", str(results), "--out", str(tmp_path / "x.json"), "--study"]
    assert main([*words, str(tmp_path / "study.json")]) == 2
    assert "has no resonator" in capsys.readouterr().err
    key = "resonator/enwiki-mini/bytes/resonator/d16/64/1"
    metrics = read_json(results / "cells" / key / "metrics.json")
    write_json(tmp_path / "cells" / key / "metrics.json", metrics | {"status": "oom"})
    assert main(["diagnose", "--study", str(results / "study.json"), "--results", str(tmp_path), "--out", str(tmp_path / "x.json")]) == 2
    assert "ended ok" in capsys.readouterr().err
