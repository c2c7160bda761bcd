"""Where a number comes from: versions, device, commit, and the digest of the sources that can change it."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from overtone import __version__

PACKAGE = Path(__file__).resolve().parent
_PACKAGES = ("torch", "numpy", "numba", "triton", "transformers", "sentencepiece", "snakemake")


@cache
def sources_digest(*parts: str) -> str:
    """sha256 over the content of package files; a part is a glob pattern of files or folders in the package ("ops/linear_scan").

    Content, never times: a checkout or a touch changes nothing. Of a folder every file counts but compiled ones.
    """
    hasher = hashlib.sha256()
    for path in source_files(*parts):
        hasher.update(str(path.relative_to(PACKAGE)).encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return hasher.hexdigest()


def source_files(*parts: str) -> list[Path]:
    """The files that the patterns name, sorted."""
    found: set[Path] = set()
    for part in parts:
        for path in PACKAGE.glob(part):
            found |= set(path.rglob("*")) if path.is_dir() else {path}
    return sorted(path for path in found if path.is_file() and "__pycache__" not in path.parts)


@cache
def commit() -> str:
    """The git commit of the workflow, with `+` where tracked files differ from it; "unknown" outside a checkout."""
    def git(*words: str) -> str:
        return subprocess.run(["git", "-C", str(PACKAGE), *words], capture_output=True, text=True, check=True, timeout=20).stdout.strip()

    try:
        head = git("rev-parse", "HEAD")
        return head + ("+" if git("status", "--porcelain", "--untracked-files=no") else "")
    except (OSError, subprocess.SubprocessError):
        return "unknown"


def cpu_name() -> str:
    """The processor's model name."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def environment(device: str = "cpu", threads: int | None = None) -> dict[str, Any]:
    """Versions, device, threads and commit, as every results file stores them."""
    versions = {}
    for name in _PACKAGES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return {
        "overtone": __version__,
        "commit": commit(),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()}",
        "processor": cpu_name(),
        "cores": os.cpu_count(),
        "device": device,
        "threads": threads,
        "packages": versions,
    }
