"""Resolve a study (defaults, edits, names checked) and print it as JSON, or write it with --out.

    overtone study mini
    overtone study --resolved '{...}' --out results/mini/study.json
"""

from __future__ import annotations

import argparse
import json

from overtone.errors import UserError
from overtone.files import write_json
from overtone.study import load_study, resolve_study


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of `overtone study`."""
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("study", nargs="?", help="name of a study or path of its YAML")
    source.add_argument("--resolved", metavar="JSON", help="a study as JSON")
    parser.add_argument("--out", metavar="FILE", help="write here instead of printing")


def run(args: argparse.Namespace) -> int:
    """Resolve and print or write."""
    try:
        study = resolve_study(json.loads(args.resolved), where="--resolved") if args.resolved else load_study(args.study)
    except ValueError as error:
        raise UserError(f"--resolved: not valid JSON ({error}).") from None
    if args.out:
        write_json(args.out, study.data)
    else:
        print(json.dumps(study.data, indent=1))
    return 0
