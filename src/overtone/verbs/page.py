"""Render the report as one self-contained page from finished tables, figures and verdicts.

    overtone page --study results/mini/study.json --results results/mini --reports reports/mini --out reports/mini/index.html
"""

from __future__ import annotations

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of `overtone page`."""
    parser.add_argument("--study", required=True, metavar="FILE", help="results/STUDY/study.json")
    parser.add_argument("--results", required=True, metavar="DIR", help="results/STUDY")
    parser.add_argument("--reports", required=True, metavar="DIR", help="reports/STUDY: tables/, figures/ and claims.json")
    parser.add_argument("--out", required=True, metavar="FILE", help="reports/STUDY/index.html")


def run(args: argparse.Namespace) -> int:
    """Render and write."""
    from overtone.files import write_text
    from overtone.reporting.page import render

    write_text(args.out, render(Path(args.study), Path(args.results), Path(args.reports), Path(args.out)))
    return 0
