"""Put two runs side by side (machines, commits, settings) and tell which differences exceed noise.

    overtone compare results/mini ../other/results/mini [--out comparison.json]
"""

from __future__ import annotations

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of `overtone compare`."""
    parser.add_argument("run_a", metavar="RUN_A", help="results/STUDY of the first run")
    parser.add_argument("run_b", metavar="RUN_B", help="results/STUDY of the second")
    parser.add_argument("--out", metavar="FILE", help="write the comparison as JSON, too")


def run(args: argparse.Namespace) -> int:
    """Compare and print."""
    from overtone.files import write_json
    from overtone.reporting.compare import compare_runs, comparison_text

    content = compare_runs(Path(args.run_a), Path(args.run_b))
    if args.out:
        write_json(args.out, content)
    print(comparison_text(content), end="")
    return 0
