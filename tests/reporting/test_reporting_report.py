"""`overtone report`: what the workflow's last rules write, at once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest
from report_factory import small_study
from results_factory import write_results

from overtone.cli import main
from overtone.study import EXHIBITS


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    return write_results(tmp_path_factory.mktemp("report"), small_study())


def words(verb, results, out, *more):
    return [verb, *more, "--study", str(results / "study.json"), "--results", str(results), "--out", str(out)]


def test_every_file_is_the_one_that_its_own_verb_writes(results, tmp_path, capsys):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    assert main([*words("report", results, whole), "--processes", "2"]) == 0
    assert str(whole / "index.html") in capsys.readouterr().out
    assert main(words("claims", results, parts / "claims.json")) == 0
    for name in ("crossover", "quality", "audits", "claims"):
        assert main([*words("table", results, parts / "tables", name), "--claims", str(parts / "claims.json")]) == 0
        if EXHIBITS[name].figure:
            assert main(["figure", name, "--tables", str(parts / "tables"), "--out", str(parts / "figures")]) == 0
    made = [path.relative_to(parts) for path in parts.rglob("*") if path.is_file()]
    assert len(made) == 2 + 4 * 4 + 3 * 3
    for path in made:
        assert (whole / path).read_bytes() == (parts / path).read_bytes(), path
    assert {path.stem.split(".")[0] for path in (whole / "tables").iterdir()} == set(EXHIBITS)
    assert (whole / "crate/ro-crate-metadata.json").is_file()


def test_told_to_stop_it_leaves_nobody_and_nothing_half_written(results, tmp_path):
    out = tmp_path / "out"
    command = [sys.executable, "-m", "overtone.cli", *words("report", results, out), "--processes", "2"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as running:
        deadline = time.monotonic() + 60
        while not list(out.rglob("*.pdf")) and time.monotonic() < deadline:
            time.sleep(0.1)
        running.send_signal(signal.SIGTERM)
        said, _ = running.communicate(timeout=60)  # a worker that lived on would hold the pipe
    assert running.returncode == 143
    assert "Traceback" not in said
    assert not (out / "index.html").exists()
    assert not list(out.rglob("*.part"))


def test_a_killed_process_is_one_line(results, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("overtone.verbs.report.render_exhibit", die)
    assert main([*words("report", results, tmp_path / "out"), "--processes", "1"]) == 2
    assert "was killed" in capsys.readouterr().err


def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_mistake_is_one_line_and_no_page(results, tmp_path, capsys):
    (results / "benchmarks/decode.json").rename(results / "benchmarks/kept.json")
    try:
        assert main(words("report", results, tmp_path / "out")) == 2
    finally:
        (results / "benchmarks/kept.json").rename(results / "benchmarks/decode.json")
    said = capsys.readouterr().err
    assert "decode.json" in said
    assert len(said.strip().splitlines()) == 1
    assert not (tmp_path / "out/index.html").exists()
    assert main([*words("report", results, tmp_path / "out"), "--processes", "0"]) == 2
