"""Write one table from finished measurements: NAME.csv, NAME.md, NAME.tex and NAME.meta.json in the folder --out.

    overtone table crossover --study results/mini/study.json --results results/mini --out reports/mini/tables
"""

from __future__ import annotations

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The table's name, where it reads and where it writes."""
    parser.add_argument("name", help="a table of the report (docs name them all)")
    parser.add_argument("--study", required=True, help="results/STUDY/study.json")
    parser.add_argument("--results", required=True, help="results/STUDY")
    parser.add_argument("--claims", type=Path, help="reports/STUDY/claims.json, for the table of verdicts")
    parser.add_argument("--out", required=True, help="folder of the tables")


def run(args: argparse.Namespace) -> int:
    """Compute and write."""
    from overtone.study import exhibit

    exhibit(args.name)
    from overtone.reporting.collect import Results
    from overtone.reporting.tables.build import build_table
    from overtone.reporting.tables.table import write_table

    results = Results.open(args.study, args.results)
    write_table(args.name, build_table(args.name, results, args.claims), results, args.out)
    return 0
