"""One real run of the smoke study, in a folder whose name has a space and a letter outside ASCII."""

from __future__ import annotations

import pytest
from checkout import Checkout, copy_repository


def pytest_collection_modifyitems(items):
    for item in items:
        if "tests/workflow/" in str(item.path):
            item.add_marker(pytest.mark.workflow)


@pytest.fixture(scope="session")
def fresh(tmp_path_factory) -> Checkout:
    """A checkout in which nothing has run."""
    return copy_repository(tmp_path_factory.mktemp("fresh") / "overtone")


@pytest.fixture(scope="session")
def smoke(tmp_path_factory) -> Checkout:
    """A checkout in which the smoke study has run."""
    checkout = copy_repository(tmp_path_factory.mktemp("smoke") / "deux études")
    checkout.snakemake("--config", "study=smoke")
    return checkout
