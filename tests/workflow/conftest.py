"""One real run of the smoke study, in a folder whose name has a space and a letter outside ASCII."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import slurm_site
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


@pytest.fixture(scope="module")
def slurm(tmp_path_factory) -> Iterator[slurm_site.Slurm]:
    """A private Slurm of one node."""
    site = slurm_site.Slurm(tmp_path_factory.mktemp("slurm"))
    try:
        site.start()
        yield site
    finally:
        site.stop()
