"""Shared by all tests: one torch thread, no progress bars, no network hub."""

import ast
import os

import pytest

from overtone.provenance import PACKAGE

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_DATASETS_OFFLINE", "1")
os.environ.setdefault("MPLBACKEND", "Agg")

@pytest.fixture(scope="session")
def imported():
    """imported(files, within=""): the package's files that these import, directly or not; what lies outside `within` is not looked into."""

    def closure(files, within=""):
        found, waiting = set(), list(files)
        while waiting:
            path = waiting.pop()
            if path in found:
                continue
            found.add(path)
            if not path.startswith(within):
                continue
            for node in ast.walk(ast.parse((PACKAGE / path).read_text())):
                if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("overtone."):
                    module = node.module.removeprefix("overtone.").replace(".", "/")
                    names = [module, *(f"{module}/{alias.name}" for alias in node.names)]
                    waiting += [file for name in names for file in (f"{name}.py", f"{name}/__init__.py") if (PACKAGE / file).is_file()]
        return found

    return closure
