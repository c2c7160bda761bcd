"""Names of packages: conda-forge's, the Python index's, and what requirements.lock pins."""

from __future__ import annotations

import re

from checkout import ROOT

# conda-forge name -> index name, where they differ.
INDEX = {"pytorch": "torch"}


def normal(name: str) -> str:
    """A name as the index compares names."""
    return re.sub(r"[-_.]+", "-", name).lower()


def index_name(conda_name: str) -> str:
    """The index's name of a conda-forge package."""
    return normal(INDEX.get(conda_name, conda_name))


def locked_versions() -> dict[str, str]:
    """Package -> version of requirements.lock."""
    lines = (ROOT / "requirements.lock").read_text().splitlines()
    return {normal(name): version for name, _, version in (line.partition("==") for line in lines if "==" in line)}
