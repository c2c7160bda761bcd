"""Resolve a study (defaults, edits, names checked) and print it as JSON, or write it with --out.

    overtone study mini
    overtone study mini --edit '{"protocols": {"harmonic": {"budget": 655360}}}' --out study.json
"""

from __future__ import annotations

import argparse
import json

from overtone.audits.settings import check_audits
from overtone.errors import UserError
from overtone.files import write_json
from overtone.study import load_study


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of `overtone study`."""
    parser.add_argument("study", help="name of a study or path of its YAML")
    parser.add_argument("--edit", metavar="JSON", default="{}", help="keys to change, merged over the study")
    parser.add_argument("--out", metavar="FILE", help="write here instead of printing")


def run(args: argparse.Namespace) -> int:
    """Resolve and print or write."""
    try:
        edits = json.loads(args.edit)
    except ValueError as error:
        raise UserError(f"--edit: not valid JSON ({error}).") from None
    if not isinstance(edits, dict):
        raise UserError(f"--edit: found {args.edit}, expected a mapping of keys to change, such as {{\"verdicts\": false}}.")
    study = load_study(args.study, edits)
    check_audits(study)
    if args.out:
        write_json(args.out, study.data)
    else:
        print(json.dumps(study.data, indent=1))
    return 0
