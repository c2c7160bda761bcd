"""The timing audit: synchronised, and never above what the device can calculate."""

import pytest

from overtone.audits.peak import cpu_peak, sheet_peak
from overtone.audits.results import finished_cells
from overtone.audits.timing import Peaks, audit_timing, checkpoint_flops
from overtone.files import read_json, write_json
from overtone.models import build_model, flops_per_token
from overtone.provenance import environment

KEY = "harmonic/enwiki-mini/bytes/llama/d16/64/1"


def spoil(results, **measured):
    file = results / "cells" / KEY / "metrics.json"
    metrics = read_json(file)
    metrics["measured"] |= measured
    write_json(file, metrics)


def audit(study, results, peaks=None):
    return audit_timing(finished_cells(study, results)[0], results, peaks or Peaks(lambda threads: 1e11))


def test_trained_cells_pass(toy):
    rows, notes = audit(*toy)
    assert [row.mode for row in rows] == ["synchronised"] + ["rate"] * 8
    assert not any(row.violated for row in rows)
    assert notes == []


def test_a_rate_above_the_peak_is_flagged_at_the_cell(spoilable):
    study, results = spoilable
    flops = 3 * checkpoint_flops(results / "cells" / KEY / "model", 64)
    spoil(results, train_tokens_per_s=1.2e11 / flops)
    [row] = [row for row in audit(study, results)[0] if row.violated]
    assert (row.subject, row.mode) == (KEY, "rate")
    assert row.measure == pytest.approx(1.2e11)


def test_a_clock_that_did_not_wait_is_flagged(spoilable):
    study, results = spoilable
    spoil(results, synchronised=False)
    [row] = [row for row in audit(study, results)[0] if row.violated]
    assert row.mode == "synchronised"
    assert KEY in row.detail


def test_flops_of_a_stored_model_are_those_of_the_model(toy):
    _, results = toy
    model = build_model("llama", vocab_size=32, hidden=16)
    assert checkpoint_flops(results / "cells" / KEY / "model", 64) == flops_per_token(model, 64)


def benchmark(device, rate, synchronised=True):
    row = {"architecture": "harmonic", "length": 1024, "tokens_per_s": {"median": rate}, "synchronised": synchronised,
           "training_flops_per_token": 1e8}
    return {"rows": [row], "environment": environment(device)}


@pytest.mark.parametrize(("device", "rate", "bad"), [
    ("NVIDIA H100 80GB HBM3", 6.45e6, False), ("NVIDIA H100 80GB HBM3", 11.07e6, True), ("NVIDIA A100-SXM4-40GB", 6.45e6, True),
])
def test_benchmarks_are_judged_by_the_data_sheet_of_their_gpu(spoilable, device, rate, bad):
    study, results = spoilable
    write_json(results / "benchmarks" / "throughput.json", benchmark(device, rate))
    found = [row for row in audit(study, results)[0] if row.subject == "throughput/harmonic/1024"]
    assert [row.violated for row in found] == [bad]


def test_unsynchronised_rows_and_unknown_devices_are_remarks(spoilable):
    study, results = spoilable
    write_json(results / "benchmarks" / "throughput.json", benchmark("NVIDIA H100 80GB HBM3", 1e9, synchronised=False))
    rows, notes = audit(study, results)
    assert not any(row.violated for row in rows)
    assert "without waiting" in notes[0]
    write_json(results / "benchmarks" / "throughput.json", benchmark("An accelerator nobody knows", 1e9))
    assert "peak is not known" in audit(study, results)[1][0]


def test_peaks():
    assert sheet_peak("NVIDIA H100 80GB HBM3", "bfloat16") == 989e12
    assert sheet_peak("NVIDIA A100-SXM4-80GB", "float32") == 156e12
    assert sheet_peak("Tesla T4", "bfloat16") == 65e12
    assert sheet_peak("Radeon of the future", "bfloat16") is None
    measured = cpu_peak(2, size=256, seconds=0.05)
    assert 1e8 < measured < 1e13
    here = environment("cpu", 2)
    assert Peaks(lambda threads: 1e10).of(here) == pytest.approx(2.2e10)
    assert Peaks(lambda threads: 1e10).of(here | {"processor": "another"}) is None
    assert Peaks().of(environment("NVIDIA H200") | {"ranks": 8}) == 8 * 989e12
