"""What envs/*.yaml say: the versions of requirements.lock, one channel, and every package that the rules' code imports."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from checkout import ROOT
from conda_packages import index_name, locked_versions

SRC = ROOT / "src"
# Environment -> the folders (or modules) of the package that its rules run.
CODE = {
    "data": (
        *("corpora", "study"),
        *(f"verbs/{verb}.py" for verb in ("fetch", "extract", "split", "tokenizer", "tokenize", "study", "gather")),
    ),
    "train": (
        *("ops", "models", "training", "transplant", "benchmarks", "audits"),
        *(f"verbs/{verb}.py" for verb in ("preflight", "train", "choose_rate", "transplant", "bench", "diagnose", "audit")),
    ),
    "report": ("reporting", *(f"verbs/{verb}.py" for verb in ("table", "figure", "claims", "page", "crate"))),
}
INDEX_NAMES = {"yaml": "pyyaml", "PIL": "pillow"}  # import name -> name on the index, where they differ
# Triton comes with a CUDA build of PyTorch; the others are a benchmark's peers on a GPU, each used where it can be found.
OPTIONAL = {"triton", "accelerated_scan", "fla"}


def environment(name: str) -> dict[str, object]:
    loaded = yaml.safe_load((ROOT / f"envs/{name}.yaml").read_text())
    assert isinstance(loaded, dict)
    return loaded


def pins(name: str) -> dict[str, str]:
    """Package (conda-forge's name) -> version."""
    dependencies = environment(name)["dependencies"]
    assert isinstance(dependencies, list)
    found = [re.fullmatch(r"([a-z0-9_.-]+) =([0-9][0-9a-z.]*)", line) for line in dependencies]
    assert all(found), dependencies
    return {match[1]: match[2] for match in found if match}


def test_every_environment_belongs_to_rules_and_every_rule_has_one():
    rules = "".join(path.read_text() for path in (ROOT / "workflow/rules").glob("*.smk"))
    used = re.findall(r'conda:\s+"../../envs/(\w+).yaml"', rules)
    assert {path.stem for path in (ROOT / "envs").glob("*.yaml")} == set(used) == set(CODE)
    assert len(used) == len(re.findall(r"^rule ", rules, re.M))


@pytest.mark.parametrize("name", CODE)
def test_versions_are_those_of_the_lock(name):
    assert environment(name)["channels"] == ["conda-forge", "nodefaults"]
    assert set(environment(name)) == {"channels", "dependencies"}
    versions = pins(name)
    assert versions.pop("python") == "3.11"
    locked = locked_versions()
    assert {package: locked.get(index_name(package)) for package in versions} == versions


@pytest.mark.parametrize("name", CODE)
def test_it_holds_what_its_code_imports_and_nothing_else(name):
    files = [file for part in CODE[name] for file in python_files(SRC / "overtone" / part)]
    imported = {INDEX_NAMES.get(module, module) for module in third_party(files)} - OPTIONAL
    packages = {index_name(package).replace("-", "_") for package in pins(name)} - {"python"}
    assert imported - packages == set(), "imported, but not in the environment"
    assert packages - imported == set(), "in the environment, but never imported"


def python_files(path: Path) -> list[Path]:
    return sorted(path.rglob("*.py")) if path.is_dir() else [path]


def third_party(files: list[Path]) -> set[str]:
    """Packages that these modules import anywhere, and what they import of ours when it is loaded; optional imports left out."""
    seen: set[Path] = set()
    found: set[str] = set()
    todo = list(files)
    while todo:
        path = todo.pop()
        if path in seen:
            continue
        seen.add(path)
        for module in imports(path, in_functions=path in files):
            if module.split(".")[0] == "overtone":
                todo += modules_of(module)
            elif module.split(".")[0] not in sys.stdlib_module_names:
                found.add(module.split(".")[0])
    return found


def modules_of(name: str) -> list[Path]:
    """The files that `import name` runs: the module and the packages above it."""
    parts = name.split(".")
    candidates = [SRC.joinpath(*parts[:count], "__init__.py") for count in range(1, len(parts) + 1)]
    return [path for path in [*candidates, SRC.joinpath(*parts).with_suffix(".py")] if path.is_file()]


def imports(path: Path, in_functions: bool) -> Iterator[str]:
    """Modules a file imports, but for type checkers' imports and those it can do without."""
    todo: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            if node.module.split(".")[0] == "overtone":
                yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif not is_optional(node) and (in_functions or not isinstance(node, ast.FunctionDef)):
            todo += ast.iter_child_nodes(node)


def is_optional(node: ast.AST) -> bool:
    """`if TYPE_CHECKING:` and `try: import ... except ImportError:`."""
    if isinstance(node, ast.If):
        return "TYPE_CHECKING" in ast.dump(node.test)
    return isinstance(node, ast.Try) and any("ImportError" in ast.dump(handler.type) for handler in node.handlers if handler.type)
