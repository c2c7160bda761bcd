"""Check that the study's devices, packages and disk space are here; stops the workflow before anything runs if not.

So does a mistake in what only a later job would read: options of an architecture, dimensions of a size, settings of a benchmark or audit.
A study with `device: cuda` on a machine without a usable GPU ends here (exit code 2) instead of training on the CPU.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from overtone.audits.settings import check_audits
from overtone.files import write_json
from overtone.study import load_study
from overtone.training.preflight import check_study


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `overtone preflight`."""
    parser.add_argument("--study", required=True, metavar="FILE", help="study.json, a study's YAML, or a study's name")
    parser.add_argument("--out", required=True, metavar="FILE", help="preflight.json to write")


def run(args: argparse.Namespace) -> int:
    """Check, write what the study needs, tell what was found."""
    from overtone.benchmarks.settings import check_benchmarks

    study = load_study(args.study)
    check_audits(study)
    needs, here = check_study(study, Path(args.out).parent)
    check_benchmarks(study)
    write_json(args.out, needs)
    print(f"preflight: {here}", file=sys.stderr)
    return 0
