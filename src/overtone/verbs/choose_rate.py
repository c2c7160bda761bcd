"""Choose an architecture's learning rate from its trials: the lowest validation bpt.

Writes {architecture, protocol, trials, chosen, edge}; `edge`: the best rate is the smallest or the largest tried.
"""

from __future__ import annotations

import argparse

from overtone.files import write_json
from overtone.study.schema import read_metrics
from overtone.training.sweep import choose_rate


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `overtone choose-rate`."""
    parser.add_argument("--trials", required=True, nargs="+", metavar="FILE", help="metrics.json of every trial")
    parser.add_argument("--out", required=True, metavar="FILE", help="chosen.json to write")


def run(args: argparse.Namespace) -> int:
    """Choose and write."""
    write_json(args.out, choose_rate([read_metrics(path) for path in args.trials]))
    return 0
