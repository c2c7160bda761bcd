"""The trained toy study of the benchmarks' tests, and copies of it to spoil."""

import shutil
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

from toy_study import toy_study, train_toy


@pytest.fixture(scope="session")
def toy(tmp_path_factory):
    """(study, results/STUDY); read only."""
    study = toy_study()
    return study, train_toy(tmp_path_factory.mktemp("toy"), study)


@pytest.fixture
def spoilable(toy, tmp_path):
    """(study, a copy of its results)."""
    study, results = toy
    return study, Path(shutil.copytree(results, tmp_path / "results" / study.name))
