"""The sources that decide a table, a figure, the claims and the page: whatever of ours in reporting/ they import is among them."""

from __future__ import annotations

import ast
import subprocess
import sys

import pytest

from overtone.provenance import PACKAGE, source_files
from overtone.reporting.modules import FIGURES, TABLES, figure_files, table_files
from overtone.study.sources import STAGES


def names(patterns):
    return {path.relative_to(PACKAGE).as_posix() for path in source_files(*patterns)}


def imported(start):
    """The files of overtone.reporting that a file imports, directly or not."""
    found, waiting = set(), [start]
    while waiting:
        path = waiting.pop()
        if path in found:
            continue
        found.add(path)
        for node in ast.walk(ast.parse((PACKAGE / path).read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("overtone.reporting"):
                module = node.module.removeprefix("overtone.").replace(".", "/")
                files = [f"{module}.py", *(f"{module}/{alias.name}.py" for alias in node.names)]
                waiting += [file for file in files if (PACKAGE / file).is_file()]
    return found - {"reporting/modules.py"}  # what it says of an exhibit stands beside the digest


@pytest.mark.parametrize("name", TABLES)
def test_a_table_follows_what_it_imports(name):
    files = table_files(name)
    assert names(files) == set(files)
    assert imported(files[0]) | imported("reporting/tables/build.py") <= set(files)


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_follows_what_it_imports(name):
    files = figure_files(name)
    assert names(files) == set(files)
    assert imported(files[0]) | imported("reporting/figures/draw.py") <= set(files)


@pytest.mark.parametrize("stage", ["claims", "page", "crate"])
def test_a_stage_follows_what_it_imports(stage):
    assert imported(f"reporting/{stage}.py") <= names(STAGES[stage])


def test_planning_loads_no_pandas_for_the_sources():
    code = "import sys, overtone.reporting.modules\nassert not {'pandas', 'numpy', 'matplotlib', 'torch'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
