"""A private copy of the repository and Snakemake runs in it, as a user would start them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Ran:
    """What a run printed and how it ended."""

    code: int
    text: str

    @property
    def jobs(self) -> dict[str, int]:
        """Rule -> planned jobs, from the job table; {} when there is nothing to do."""
        if "Job stats:" not in self.text:
            return {}
        table = self.text.split("Job stats:", 1)[1].strip().splitlines()[2:]
        counts = {}
        for line in table:
            match = re.fullmatch(r"(\S+)\s+(\d+)\s*", line)
            if not match:
                break
            counts[match[1]] = int(match[2])
        counts.pop("total", None)
        return counts


@dataclass(frozen=True)
class Checkout:
    """A copy of the repository at `path`; runs happen in `where` (the copy itself unless told otherwise)."""

    path: Path
    where: Path

    def snakemake(self, *words: str, check: bool = True, timeout: float = 900, cwd: Path | None = None, **env: str) -> Ran:
        """Run Snakemake; its output is kept whole."""
        command = [sys.executable, "-m", "snakemake", "--cores", "2", "--snakefile", str(self.path / "Snakefile"), *words]
        done = subprocess.run(
            command, cwd=cwd or self.where, env=clean_environment() | env, text=True, timeout=timeout,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
        )
        if check and done.returncode:
            raise AssertionError(f"snakemake {' '.join(words)} exited {done.returncode}:\n{done.stdout[-6000:]}")
        return Ran(done.returncode, done.stdout)

    def plan(self, *words: str, **env: str) -> dict[str, int]:
        """The job table of a dry run."""
        return self.snakemake("--dry-run", *words, **env).jobs

    def overtone(self, *words: str, check: bool = True) -> Ran:
        """Run one verb from this copy's sources."""
        done = subprocess.run(
            [sys.executable, str(self.path / "workflow/scripts/overtone.py"), *words], cwd=self.where, env=clean_environment(), text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, timeout=600,
        )
        if check and done.returncode:
            raise AssertionError(f"overtone {' '.join(words)} exited {done.returncode}:\n{done.stdout[-6000:]}")
        return Ran(done.returncode, done.stdout)


def clean_environment() -> dict[str, str]:
    """The environment of a user's shell: no leftovers of the test runner."""
    return {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST", "SNAKEMAKE", "PYTHONPATH"))}


def copy_repository(target: Path) -> Checkout:
    """Copy every file that git tracks or would track."""
    listed = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "-co", "--exclude-standard", "-z"], capture_output=True, check=True
    ).stdout.decode()
    for name in filter(None, listed.split("\0")):
        source = ROOT / name
        if source.is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target / name)
    return Checkout(target, target)
