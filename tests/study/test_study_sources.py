"""The sources that decide a stage: every pattern names files, and an architecture's cells follow its own file only."""

from __future__ import annotations

import pytest

from overtone.provenance import PACKAGE, source_files
from overtone.study import load_study, study_cells
from overtone.study.sources import STAGES, train_sources


@pytest.mark.parametrize("stage", STAGES)
def test_every_pattern_names_files(stage):
    for part in STAGES[stage]:
        assert source_files(part), f"{stage}: {part} names no file"


def test_the_diagnosis_follows_the_audit_and_the_verb_that_compute_its_content():
    files = {path.relative_to(PACKAGE).as_posix() for path in source_files(*STAGES["diagnose"])}
    assert files == {"benchmarks/resonator.py", "verbs/diagnose.py", "audits/causality.py"}


# What cannot change a number: reading and writing files, names, locks, signals, devices, and the study itself (its part is a parameter).
PLUMBING = ("errors.py", "files.py", "provenance.py", "*/__init__.py", "study", "verbs", "ops/allocator.py", "ops/peak.py",
            "models/registry.py",
            *(f"training/{name}.py" for name in ("checkpoint", "devices", "interrupt", "locks", "memory", "parallel", "progress", "run")))
_TEXT = ("corpora/tokenizers", "corpora/tokenfile.py", "corpora/wheels.py", "models/tokenizer_files.py", "ops/resonant_convolution")
ELSEWHERE = {"transplant": _TEXT, "transplant_evaluate": _TEXT, "bench": ()}  # decided by an input of the stage


@pytest.mark.parametrize(("stage", "roots"), [
    ("transplant", ("transplant/base.py", "transplant/train.py")), ("transplant_evaluate", ("transplant",)), ("bench", ("benchmarks",)),
])
def test_a_stage_follows_what_it_imports(stage, roots, imported):
    files = [path.relative_to(PACKAGE).as_posix() for path in source_files(*roots)]
    followed = {path.relative_to(PACKAGE).as_posix() for path in source_files(*STAGES[stage], *PLUMBING, *ELSEWHERE[stage])}
    assert imported(files) <= followed


def test_the_training_of_a_transplant_does_not_follow_its_evaluation():
    files = {path.name for path in source_files(*STAGES["transplant"])}
    assert not files & {"cost.py", "probes.py", "passages.py", "rope.py"}


def test_training_does_not_depend_on_reporting():
    assert not [path for stage in ("train", "tokenize") for path in source_files(*STAGES[stage]) if "reporting" in path.parts]


def test_a_matched_cell_follows_the_model_it_is_sized_to():
    cells = {cell.architecture: cell for cell in study_cells(load_study("mini")) if cell.protocol == "harmonic"}
    assert cells["llama"].match == "harmonic"
    assert train_sources(cells["llama"]) != train_sources(cells["transformer"])
