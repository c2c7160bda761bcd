"""Measure one thing: decode, kernel-tail, throughput, memory or scan.

`overtone bench decode --study results/mini/study.json --out results/mini/benchmarks/decode.json` takes its settings from
study.benchmarks.decode; a flag overrides a setting, and without --study the defaults hold. `overtone bench NAME --help`
lists the settings.
"""

from __future__ import annotations

import argparse
import importlib
from pathlib import Path

from overtone.errors import UserError

BENCHMARKS = {
    "decode": "milliseconds a token and memory by context, every architecture",
    "kernel-tail": "the resonant mixer alone against its quadratic reference",
    "throughput": "training tokens per second by length",
    "memory": "peak training memory by length",
    "scan": "the linear scan against its floor",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The benchmark's name; what follows is its own."""
    listed = "; ".join(f"{name}: {text}" for name, text in BENCHMARKS.items())
    parser.add_argument("benchmark", choices=BENCHMARKS, metavar="NAME", help=listed)
    parser.add_argument("settings", nargs=argparse.REMAINDER, help="overtone bench NAME --help lists them")


def run(args: argparse.Namespace) -> int:
    """Import the benchmark, read its arguments, run it."""
    module_name = f"overtone.benchmarks.{args.benchmark.replace('-', '_')}"
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name != module_name:
            raise
        raise UserError(f"benchmark {args.benchmark!r}: this installation has no {module_name}. Install the whole package.") from None
    parser = argparse.ArgumentParser(prog=f"overtone bench {args.benchmark}", description=module.__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    module.add_arguments(parser)
    taken = parser._option_string_actions
    if "--study" not in taken:
        parser.add_argument("--study", type=Path, help="results/STUDY/study.json, whose benchmarks section has the settings")
    if "--out" not in taken:
        parser.add_argument("--out", type=Path, required=True, help="JSON file to write")
    return int(module.run(parser.parse_args(args.settings)) or 0)
