"""Note how the cells of an experiment ended: their number by status and one digest over all their metrics.json.

    overtone gather crossover --study results/mini/study.json --results results/mini --out results/mini/experiments/crossover.json
"""

from __future__ import annotations

import argparse
from pathlib import Path

from overtone.files import write_json
from overtone.study.load import load_study
from overtone.study.outcome import outcome


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of `overtone gather`."""
    parser.add_argument("experiment", help="an experiment of the study")
    parser.add_argument("--study", required=True, metavar="FILE", help="results/STUDY/study.json")
    parser.add_argument("--results", required=True, type=Path, metavar="DIR", help="results/STUDY")
    parser.add_argument("--out", required=True, type=Path, metavar="FILE", help="JSON file to write")


def run(args: argparse.Namespace) -> int:
    """Read every cell and write."""
    write_json(args.out, outcome(load_study(args.study), args.experiment, args.results))
    return 0
