"""The toy study, trained once a session."""

import pytest
from toy_study import toy_study, train_toy


@pytest.fixture(scope="session")
def toy(tmp_path_factory):
    """(study, results/STUDY); read only."""
    study = toy_study()
    return study, train_toy(tmp_path_factory.mktemp("toy"), study)
