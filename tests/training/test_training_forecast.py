"""Preflight and plan: what is told before anything starts."""

import json

import pytest

from overtone.cli import main
from overtone.errors import UserError
from overtone.models import build_for_cell, flops_per_token, parameter_counts
from overtone.study import experiment_cells, load_study, study_cells, sweep_trials
from overtone.study.schema import schema
from overtone.training.forecast import START_S, Calibration, Forecaster, find_device, region_tokens
from overtone.verbs.plan import as_text, forecast_study, transplant_shape


@pytest.fixture(scope="module")
def smoke():
    return load_study("smoke")


def test_a_cell_costs_what_its_model_says(smoke):
    cell = experiment_cells(smoke, "crossover")[0]
    found = Forecaster(smoke, find_device("cpu")).cell(cell)
    model = build_for_cell(cell, 256)
    training = cell.config()["training"]
    assert found.parameters == parameter_counts(model)["total"]
    assert found.tokens == training["budget"] // cell.length * cell.length
    read = region_tokens(smoke, cell.corpus, cell.tokenizer, ("validation", "test")) + training["validation_points"] * 16384
    assert found.flops == pytest.approx(flops_per_token(model, cell.length) * (3 * found.tokens + read))
    assert found.memory_bytes > 16 * found.parameters


def test_every_run_is_counted_once(smoke):
    found = forecast_study(smoke, find_device("cpu"), 2.0, None)
    trials = sum(len(list(sweep_trials(smoke, protocol))) for protocol in smoke.lr_sweep)
    phases = sum(len([key for key in variant if key.startswith("phase")]) for item in smoke.transplants.values()
                 for variant in item["variants"].values())
    assert found["total"]["runs"] == trials + phases + len(study_cells(smoke))
    assert found["total"]["dollars"] == pytest.approx(2 * found["total"]["hours"])
    assert found["total"]["tokens"] == sum(row["tokens"] for row in found["rows"])
    assert "assumptions" in as_text(found)


def test_finished_cells_set_the_rate(smoke, tmp_path):
    cell = experiment_cells(smoke, "crossover")[0]
    device = find_device("cpu")
    plain = Forecaster(smoke, device).cell(cell)
    fast = {"config": cell.config(), "key": cell.key, "status": "ok",
            "measured": {"wall_s": START_S / 2 + plain.flops / (2 * device.peak), "peak_bytes": 3 * plain.memory_bytes}}
    calibrated = Forecaster(smoke, device, Calibration(smoke, device, [fast])).cell(cell)
    assert calibrated.seconds - START_S == pytest.approx((plain.seconds - START_S) / 2)
    assert calibrated.memory_bytes == pytest.approx(3 * plain.memory_bytes, rel=1e-6)
    folder = tmp_path / "cells" / cell.key
    folder.mkdir(parents=True)
    (folder / "metrics.json").write_text(json.dumps(dict.fromkeys(schema("metrics")["required"]) | fast))
    found = forecast_study(smoke, device, 1.0, tmp_path)
    assert found["calibrated_from_cells"] == 1
    assert sum(row.get("finished", 0) for row in found["rows"]) >= 1
    assert "calibrated from 1 finished cells" in as_text(found)


def test_the_published_transplant_fits_an_80_gb_card_and_not_a_24_gb_one(smoke):
    base = {"kind": "hub", "repository": "TinyLlama/TinyLlama-1.1B-Chat-v1.0"}
    shape, forward, new = transplant_shape(smoke, base, {"d_state": 128}, 2048)
    assert shape.parameters == pytest.approx(1_033.2e6, rel=0.01)
    assert new == pytest.approx(140.7e6, rel=0.05)
    assert forward == pytest.approx(2 * (shape.parameters - 32000 * 2048))
    needs = {}
    for name in ("NVIDIA H100 80GB", "NVIDIA GeForce RTX 4090"):
        device = find_device(name)
        needs[name] = Forecaster(smoke, device).run("x", shape, 10**8, 6e17, held_tokens=8192)
        fits = needs[name].memory_bytes <= device.memory
        assert fits == (name == "NVIDIA H100 80GB")
    with pytest.raises(UserError, match="not known before it is fetched"):
        transplant_shape(smoke, {"kind": "hub", "repository": "a/b"}, {}, 128)


def test_the_verb_prints_a_table_or_json(capsys):
    assert main(["plan", "--study", "smoke"]) == 0
    said = capsys.readouterr().out
    assert "study smoke on cpu" in said
    assert "crossover" in said
    assert main(["plan", "--study", "smoke", "--device", "NVIDIA A100 80GB", "--price", "3", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["device"], found["price_per_hour"]) == ("NVIDIA A100 80GB", 3.0)
    assert main(["plan", "--study", "smoke", "--device", "NVIDIA H10"]) == 2
    assert "NVIDIA H100 80GB" in capsys.readouterr().err
