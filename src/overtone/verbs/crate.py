"""Write the run as a Workflow Run RO-Crate: a folder with ro-crate-metadata.json and copies of the files it describes.

    overtone crate --study results/mini/study.json --results results/mini --reports reports/mini --out reports/mini/crate
"""

from __future__ import annotations

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of `overtone crate`."""
    parser.add_argument("--study", required=True, metavar="FILE", help="results/STUDY/study.json")
    parser.add_argument("--results", required=True, metavar="DIR", help="results/STUDY")
    parser.add_argument("--reports", required=True, metavar="DIR", help="reports/STUDY")
    parser.add_argument("--out", required=True, metavar="PATH", help="the crate's folder, or ro-crate-metadata.json in it")


def run(args: argparse.Namespace) -> int:
    """Build and write."""
    from overtone.reporting.crate import write_crate

    write_crate(Path(args.study), Path(args.results), Path(args.reports), Path(args.out))
    return 0
