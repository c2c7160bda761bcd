"""A stand-in for conda where no channel can be reached: it answers what Snakemake's --use-conda asks.

`env create` makes a virtual environment of this Python and links into it the pinned packages, and what they require, of
the Python that runs this file. Nothing is solved or downloaded, so it exercises the plumbing of --use-conda alone: a package that an
environment file forgets is missing inside. A package that is not installed here at the pinned version is an error.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import yaml
from conda_packages import index_name
from packaging.requirements import Requirement

ACTIVATE = """export CONDA_PREFIX="$1"
export PATH="$1/bin:$PATH"
"""
# Every start of the environment's Python leaves a line beside it.
WITNESS = """import json, os, sys
with open(sys.prefix + ".runs", "a") as out:
    out.write(json.dumps({"prefix": sys.prefix, "argv": sys.orig_argv, "PYTHONPATH": os.environ.get("PYTHONPATH")}) + "\\n")
"""


def install(folder: Path) -> Path:
    """Write `conda` and `activate` into FOLDER/bin; returns that folder, for PATH."""
    programs = folder / "bin"
    programs.mkdir(parents=True)
    (programs / "conda").write_text(f"#!/bin/sh\nexec '{sys.executable}' '{Path(__file__).resolve()}' '{folder}' \"$@\"\n")
    (programs / "conda").chmod(0o755)
    (programs / "activate").write_text(ACTIVATE)
    return programs


def closure(names: list[str]) -> Iterator[str]:
    """These packages and, through their metadata, everything they require on this platform."""
    seen: set[str] = set()
    todo = [(name, "") for name in names]
    while todo:
        name, extra = todo.pop()
        if (key := f"{index_name(name)}[{extra}]") in seen:
            continue
        seen.add(key)
        yield name
        for text in distribution(name).requires or []:
            requirement = Requirement(text)
            if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
                todo += [(requirement.name, wanted) for wanted in ("", *requirement.extras)]


def create(file: Path, prefix: Path) -> None:
    """`conda env create --file FILE --prefix PREFIX`."""
    pins = dict(re.fullmatch(r"(\S+) =(\S+)", line).groups() for line in yaml.safe_load(file.read_text())["dependencies"])  # type: ignore[union-attr]
    python = pins.pop("python")
    if python != f"{sys.version_info.major}.{sys.version_info.minor}":
        raise SystemExit(f"python ={python}: this is {sys.version.split()[0]}")
    for package, version in pins.items():
        found = distribution(index_name(package)).version.split("+")[0]
        if found != version:
            raise SystemExit(f"{package} ={version}: {found} is installed here")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(prefix)], check=True)
    site = next((prefix / "lib").glob("python*/site-packages"))
    for name in closure([index_name(package) for package in pins]):
        try:
            files = distribution(name).files or []
        except PackageNotFoundError:
            continue
        for top in {path.parts[0] for path in files if path.parts[0] not in ("..", "__pycache__") and path.suffix != ".pth"}:
            source = Path(str(distribution(name).locate_file(top)))
            if source.exists() and not (site / top).exists():
                (site / top).symlink_to(source)
    (site / "sitecustomize.py").write_text(WITNESS)


def main(folder: str, *words: str) -> None:
    """Answer one call of `conda`."""
    if words == ("--version",):
        print("conda 24.9.0")
    elif words == ("info", "--json"):
        print(json.dumps({"conda_prefix": folder, "platform": "linux-64"}))
    elif words == ("config", "--get", "channel_priority", "--json"):
        print(json.dumps({"get": {"channel_priority": "strict"}}))
    elif words[:2] == ("env", "create"):
        create(Path(words[words.index("--file") + 1]), Path(words[words.index("--prefix") + 1]))
    elif words[:1] != ("clean",):
        raise SystemExit(f"conda {' '.join(words)}: not a call this stand-in knows")


if __name__ == "__main__":
    os.environ.pop("PYTHONHOME", None)
    main(*sys.argv[1:])
