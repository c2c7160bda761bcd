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


def test_training_does_not_depend_on_reporting():
    assert not [path for stage in ("train", "tokenize") for path in source_files(*STAGES[stage]) if "reporting" in path.parts]


def test_a_matched_cell_follows_the_model_it_is_sized_to():
    cells = {cell.architecture: cell for cell in study_cells(load_study("mini")) if cell.protocol == "harmonic"}
    assert cells["llama"].match == "harmonic"
    assert train_sources(cells["llama"]) != train_sources(cells["transformer"])
