"""Decide every claim of the study's papers from finished measurements; writes claims.json and claims.md beside it.

    overtone claims --study results/mini/study.json --results results/mini --out reports/mini/claims.json
"""

from __future__ import annotations

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of `overtone claims`."""
    parser.add_argument("--study", required=True, metavar="FILE", help="results/STUDY/study.json")
    parser.add_argument("--results", required=True, metavar="DIR", help="results/STUDY")
    parser.add_argument("--out", required=True, metavar="FILE", help="reports/STUDY/claims.json; claims.md is written beside it")


def run(args: argparse.Namespace) -> int:
    """Decide and write; the JSON last."""
    from overtone.files import write_json, write_text
    from overtone.reporting.claims import claims_markdown, decide_claims
    from overtone.reporting.collect import Results

    content = decide_claims(Results.open(args.study, args.results))
    write_text(Path(args.out).with_suffix(".md"), claims_markdown(content))
    write_json(args.out, content)
    return 0
