"""The sources that decide a table, a figure, the claims and the page: whatever of ours they import is among them."""

from __future__ import annotations

import subprocess
import sys

import pytest

from overtone.provenance import PACKAGE, source_files
from overtone.reporting.modules import FIGURES, TABLES, figure_files, table_files
from overtone.study.sources import STAGES


def names(patterns):
    return {path.relative_to(PACKAGE).as_posix() for path in source_files(*patterns)}


# What cannot change a number or a word: files, errors, the study itself (an input), what an exhibit is made by (stands beside the digest).
PLUMBING = ("errors.py", "files.py", "provenance.py", "**/__init__.py", "study", "reporting/modules.py")


@pytest.mark.parametrize("name", TABLES)
def test_a_table_follows_what_it_imports(name, imported):
    files = table_files(name)
    assert names(files) == set(files)
    assert imported([files[0], "reporting/tables/build.py"], "reporting") <= names([*files, *PLUMBING])


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_follows_what_it_imports(name, imported):
    files = figure_files(name)
    assert names(files) == set(files)
    assert imported([files[0], "reporting/figures/draw.py"], "reporting") <= names([*files, *PLUMBING])


@pytest.mark.parametrize(("stage", "roots"), [
    ("claims", ("reporting/claims.py", "reporting/quantities*.py")), ("page", ("reporting/page.py",)), ("crate", ("reporting/crate.py",)),
])
def test_a_stage_follows_what_it_imports(stage, roots, imported):
    assert imported(names(roots), "reporting") <= names([*STAGES[stage], *PLUMBING])


def test_planning_loads_no_pandas_for_the_sources():
    code = "import sys, overtone.reporting.modules\nassert not {'pandas', 'numpy', 'matplotlib', 'torch'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
