"""Draw one figure from its table's CSV: NAME.pdf, NAME.svg and NAME.png in the folder --out.

    overtone figure crossover --tables reports/mini/tables --out reports/mini/figures
"""

from __future__ import annotations

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The figure's name, where its table is and where it goes."""
    parser.add_argument("name", help="a figure of the report (each has the name of its table)")
    parser.add_argument("--tables", required=True, help="folder of the tables")
    parser.add_argument("--out", required=True, help="folder of the figures")


def run(args: argparse.Namespace) -> int:
    """Draw and write."""
    from overtone.reporting import style
    from overtone.reporting.figures.data import read_table
    from overtone.reporting.figures.draw import check_figure, draw_figure

    check_figure(args.name)
    style.save(draw_figure(args.name, read_table(args.tables, args.name)), args.out, args.name)
    return 0
