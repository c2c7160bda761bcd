"""Check every cell of a results folder against its manifest: schema, config, study, weights, tokens, plan. Exit code 1 on a problem.

    overtone verify --results results/mini
"""

from __future__ import annotations

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of `overtone verify`."""
    parser.add_argument("--results", required=True, metavar="DIR", help="results/STUDY")


def run(args: argparse.Namespace) -> int:
    """Verify, print what does not agree."""
    from overtone.reporting.verify import verify

    found = verify(Path(args.results))
    for problem in found.problems:
        print(problem)
    cells = f"{found.cells} cell{'' if found.cells == 1 else 's'} looked at"
    missing = f", {found.missing} not there yet" if found.missing else ""
    problems = f"{len(found.problems) or 'no'} problem{'' if len(found.problems) == 1 else 's'}"
    print(f"{cells}{missing}: {problems}")
    return 1 if found.problems else 0
