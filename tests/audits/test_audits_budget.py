"""The budget audit on really trained cells, and on the same with one thing spoiled."""

import pytest

from overtone.audits.budget import audit_budget
from overtone.audits.results import finished_cells
from overtone.errors import UserError
from overtone.files import read_json, write_json


def spoil(results, key, change):
    file = next(path for path in sorted((results / "cells").glob("*/*/*/*/*/*/*/metrics.json")) if key in str(path))
    metrics = read_json(file)
    change(metrics)
    write_json(file, metrics)


def violated(study, results):
    rows, _ = audit_budget(finished_cells(study, results)[0])
    return [(row.subject, row.mode, row.detail) for row in rows if row.violated]


def test_trained_cells_saw_the_same_tokens(toy):
    study, results = toy
    rows, notes = audit_budget(finished_cells(study, results)[0])
    assert {row.mode for row in rows} == {"plan", "recipe", "data", "tokens", "targets"}
    assert not any(row.violated for row in rows)
    assert notes == []


@pytest.mark.parametrize(("mode", "change"), [
    ("plan", lambda metrics: metrics["plan"].update(digest="0" * 64)),
    ("recipe", lambda metrics: metrics["config"]["training"].update(weight_decay=0.5)),
    ("data", lambda metrics: metrics["tokens"].update(train="0" * 64)),
    ("tokens", lambda metrics: metrics.update(tokens_seen=2 * metrics["tokens_seen"])),
    ("targets", lambda metrics: metrics["evaluation"]["test"].update(targets=1)),
])
def test_each_difference_is_found_and_named(spoilable, mode, change):
    study, results = spoilable
    spoil(results, "llama/d16/64", change)
    [(_, found, detail)] = violated(study, results)
    assert found == mode
    assert "llama" in detail


def test_another_learning_rate_is_no_difference(spoilable):
    study, results = spoilable
    spoil(results, "llama/d16/64", lambda metrics: metrics["config"]["training"].update(lr=0.3))
    assert violated(study, results) == []


def test_a_cell_that_ran_out_of_memory_is_a_remark(spoilable):
    study, results = spoilable
    spoil(results, "llama/d16/64", lambda metrics: metrics.update(status="oom", tokens_seen=0, evaluation={}))
    cells, notes = finished_cells(study, results)
    assert notes == ["harmonic/enwiki-mini/bytes/llama/d16/64/1 ended as oom"]
    assert not any(row.violated for row in audit_budget(cells)[0])


def test_budgets_that_differ_between_lengths_are_told(spoilable):
    study, results = spoilable
    for key in ("harmonic", "transformer", "llama"):
        spoil(results, f"{key}/d16/64", lambda metrics: (metrics.update(budget=2048, tokens_seen=2048),
                                                         metrics["config"]["training"].update(budget=2048)))
    rows, [note] = audit_budget(finished_cells(study, results)[0])
    assert "32: 1024, 64: 2048" in note
    assert [row.mode for row in rows if row.violated] == []


def test_missing_cells_are_counted_and_no_cell_at_all_is_an_error(spoilable, tmp_path):
    study, results = spoilable
    next(iter(sorted((results / "cells").glob("**/llama/d16/64/1/metrics.json")))).unlink()
    assert "1 of 8 cells are not finished" in finished_cells(study, results)[1][0]
    with pytest.raises(UserError, match="no finished cell"):
        finished_cells(study, tmp_path)


def test_the_module_needs_no_torch():
    import subprocess
    import sys

    modules = "overtone.audits.budget, overtone.audits.timing, overtone.audits.baseline, overtone.verbs.audit"
    code = f"import sys, {modules}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
