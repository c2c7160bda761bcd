"""The file that stands for an experiment's cells: complete, and another one for another byte in any cell."""

from __future__ import annotations

import json

import pytest

from overtone.cli import main
from overtone.errors import UserError
from overtone.study import experiment_cells, load_study
from overtone.study.outcome import outcome
from overtone.study.schema import schema

STUDY = load_study("smoke")


@pytest.fixture
def results(tmp_path):
    for number, cell in enumerate(experiment_cells(STUDY, "crossover")):
        path = tmp_path / "cells" / cell.key / "metrics.json"
        path.parent.mkdir(parents=True)
        keys = dict.fromkeys(schema("metrics")["required"], number)
        path.write_text(json.dumps(keys | {"status": "oom" if number == 3 else "ok"}))
    return tmp_path


def test_it_counts_cells_by_how_they_ended(results):
    found = outcome(STUDY, "crossover", results)
    assert (found["experiment"], found["cells"], found["status"]) == ("crossover", 4, {"ok": 3, "oom": 1})
    assert outcome(STUDY, "crossover", results) == found


@pytest.mark.parametrize("number", range(4))
def test_another_byte_in_any_cell_is_another_digest(results, number):
    before = outcome(STUDY, "crossover", results)["digest"]
    path = sorted(results.rglob("metrics.json"))[number]
    path.write_text(path.read_text() + " ")
    assert outcome(STUDY, "crossover", results)["digest"] != before


def test_two_cells_that_change_places_are_another_digest(results):
    before = outcome(STUDY, "crossover", results)["digest"]
    first, second, *_ = sorted(results.rglob("metrics.json"))
    one, other = first.read_text(), second.read_text()
    first.write_text(other)
    second.write_text(one)
    assert outcome(STUDY, "crossover", results)["digest"] != before


def test_a_missing_or_damaged_cell_and_an_unknown_experiment_are_told(results):
    with pytest.raises(UserError, match=r"Did you mean 'crossover'"):
        outcome(STUDY, "crosover", results)
    path = next(results.rglob("metrics.json"))
    for text, told in (("{", "not valid JSON"), ("[]", "the key 'schema' is missing"), ('{"schema": 1}', "the key 'status' is missing")):
        path.write_text(text)
        with pytest.raises(UserError, match=rf"metrics\.json: {told}"):
            outcome(STUDY, "crossover", results)
    path.unlink()
    with pytest.raises(UserError, match=r"metrics\.json: not found"):
        outcome(STUDY, "crossover", results)


def test_the_verb_writes_it(results, tmp_path):
    out = tmp_path / "experiments" / "crossover.json"
    assert main(["gather", "crossover", "--study", "smoke", "--results", str(results), "--out", str(out)]) == 0
    assert json.loads(out.read_text()) == outcome(STUDY, "crossover", results)
    assert out.stat().st_size < 1000
