"""Preflight: what stops a study before anything runs."""

import json
import shutil
from collections import namedtuple

import pytest

from overtone.cli import main
from overtone.errors import UserError
from overtone.files import canonical_json
from overtone.study import load_study
from overtone.training import preflight


@pytest.fixture(scope="module")
def smoke():
    return load_study("smoke")


@pytest.fixture
def no_gpu(monkeypatch):
    for name in ("CUDA_VISIBLE_DEVICES", "SLURM_STEP_GPUS", "SLURM_JOB_GPUS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OVERTONE_GPUS", "")


def test_preflight_writes_what_a_study_needs_and_tells_what_is_here(tmp_path, capsys, monkeypatch):
    """The file is an input of every cell: what differs from day to day would train them all again."""
    out = tmp_path / "preflight.json"
    words = ["preflight", "--study", "smoke", "--out", str(out)]
    assert main(words) == 0
    found = json.loads(out.read_text())
    assert (found["study"], found["device"]) == ("smoke", "cpu")
    assert {"torch", "sentencepiece"} <= set(found["needs"])
    said = capsys.readouterr().err
    assert "GPUs: none" in said
    assert "GB free" in said
    before = out.read_bytes()
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(2e12, 1e12, 1e12))
    monkeypatch.setattr(preflight.metadata, "version", lambda name: "99")
    assert main(words) == 0
    assert out.read_bytes() == before


def test_linear_scans_need_what_the_machine_they_run_on_uses():
    study = load_study("smoke", {"device": "auto"})
    assert "numba" in preflight.needed_packages(study, [])
    assert "triton" not in preflight.needed_packages(study, [])
    assert "triton" in preflight.needed_packages(study, ["0"])


def test_a_study_that_wants_a_gpu_stops_where_there_is_none(no_gpu, monkeypatch, tmp_path, capsys):
    out = tmp_path / "preflight.json"
    assert main(["preflight", "--study", "paper", "--out", str(out)]) == 2
    said = capsys.readouterr().err
    assert "this machine shows none" in said
    assert len(said.strip().splitlines()) == 1
    assert not out.exists()
    monkeypatch.setenv("OVERTONE_GPUS", "0")
    with pytest.raises(UserError, match="needs 2 GPUs a cell"):
        preflight.check_devices(load_study("paper", {"gpus_per_cell": 2}))
    assert preflight.check_devices(load_study("smoke", {"device": "cpu"})) == []


def test_auto_takes_the_cpu_where_there_is_no_gpu(no_gpu):
    assert preflight.check_devices(load_study("smoke", {"device": "auto"})) == []


def test_a_missing_package_is_named_with_what_needs_it(smoke, monkeypatch):
    real = preflight.importlib.util.find_spec
    monkeypatch.setattr(preflight.importlib.util, "find_spec", lambda name: None if name == "sentencepiece" else real(name))
    with pytest.raises(UserError, match=r"sentencepiece is missing \(tokenizer bpe-512\)"):
        preflight.check_packages(smoke, [])


def test_too_little_space_stops(smoke, monkeypatch, tmp_path):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(10, 9, 1))
    with pytest.raises(UserError, match="Free space"):
        preflight.check_study(smoke, tmp_path / "not" / "made" / "yet")

@pytest.mark.parametrize("name", ["smoke", "mini", "paper"])
def test_the_studies_that_ship_have_models_that_can_be_built(name):
    preflight.check_models(load_study(name))


@pytest.mark.parametrize(
    ("edit", "told"),
    [
        ({"architectures": {"harmonic-flat": {"options": {"flat_timescale": True}}}},
         "architectures.harmonic-flat.options: 'flat_timescale' is not known. Did you mean 'flat_timescales'?"),
        ({"architectures": {"harmonic-flat": {"options": {"flat_timescales": "yes"}}}},
         "architectures.harmonic-flat at sizes.d48: harmonic: flat_timescales: 'yes' found, bool expected"),
        ({"architectures": {"unused": {"model": "mamba", "options": {"layer": 2}}}}, "architectures.unused.options: 'layer' is not known"),
        ({"sizes": {"d48": {"strid": 3}}}, "sizes.d48 (read by harmonic): 'strid' is not known. Did you mean 'stride'?"),
        ({"sizes": {"d48": {"per_architecture": {"transformer": {"head": 3}}}}},
         "sizes.d48.per_architecture.transformer (read by transformer): 'head' is not known. Did you mean 'heads'?"),
        ({"benchmarks": {"memory": {"lenghts": [64]}}}, "benchmarks.memory: key: 'lenghts' is not known. Did you mean 'lengths'?"),
        ({"audits": {"entropy": {"window": 3}}}, "audits.entropy: key: 'window' is not known. Did you mean 'windows'?"),
    ],
)
def test_what_only_a_later_job_would_read_is_checked_first(edit, told, tmp_path, capsys):
    study = tmp_path / "study.json"
    assert main(["study", "mini", "--out", str(study)]) == 0
    study.write_text(canonical_json(load_study("mini", edit).data))
    assert main(["preflight", "--study", str(study), "--out", str(tmp_path / "preflight.json")]) == 2
    said = capsys.readouterr().err
    assert told in said
    assert len(said.strip().splitlines()) == 1
    assert not (tmp_path / "preflight.json").exists()


def test_the_study_verb_checks_what_audits_are_told(capsys):
    assert main(["study", "mini", "--edit", '{"audits": {"causality": {"lenght": 9}}}']) == 2
    assert "audits.causality: key: 'lenght' is not known. Did you mean 'length'?" in capsys.readouterr().err


def test_a_tokenizer_of_a_hub_repository_has_a_size_to_plan_with():
    assert preflight.vocabulary_of({"kind": "pretrained", "repo": "a/b", "revision": "c"}) > 1000
