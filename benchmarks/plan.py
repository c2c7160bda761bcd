"""Measure how long Snakemake plans (a dry run): CPU and wall seconds, peak memory.

    python benchmarks/plan.py --study paper
    python benchmarks/plan.py --cells 5000

With `--cells` the study gets as many seeds in the experiments `crossover`, `ablations` and `quality` as make at least that many cells.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from itertools import count
from pathlib import Path
from typing import Any

from overtone.study import load_study, study_cells

ROOT = Path(__file__).resolve().parents[1]


def edit_for(study: str, cells: int) -> dict[str, Any]:
    """The edit of the study that gives it at least so many cells."""
    for seeds in count(1):
        edit = {"experiments": {name: {"seeds": list(range(1, seeds + 1))} for name in ("crossover", "ablations", "quality")}}
        if len(study_cells(load_study(study, edit))) >= cells:
            return edit
    raise AssertionError


def main() -> None:
    """Plan once in an empty folder and print a line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--study", default="mini")
    parser.add_argument("--cells", type=int)
    args = parser.parse_args()
    edit = edit_for(args.study, args.cells) if args.cells else {}
    cells = len(study_cells(load_study(args.study, edit)))
    with tempfile.TemporaryDirectory() as folder:
        words = [
            sys.executable, "-m", "snakemake", "--snakefile", str(ROOT / "Snakefile"), "--directory", folder, "--cores", "1", "--dry-run",
            "--quiet", "all", "--config", f"study={args.study}", f"edit={json.dumps(edit)}",
        ]
        quiet = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0), (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0)]
        start = time.perf_counter()
        _, status, usage = os.wait4(os.posix_spawn(sys.executable, words, os.environ, file_actions=quiet), 0)
        wall = time.perf_counter() - start
    if status:
        sys.exit(f"{' '.join(words)}: failed")
    print(f"{args.study}: {cells} cells; CPU {usage.ru_utime + usage.ru_stime:.1f} s, wall {wall:.1f} s, peak {usage.ru_maxrss // 1024} MB")


if __name__ == "__main__":
    main()
