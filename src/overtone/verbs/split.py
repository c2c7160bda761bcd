"""Assign documents to train, validation and test: {train,validation,test}.jsonl beside --out, then --out itself.

Equal texts go to the same split. A corpus with published splits keeps them.
"""

from __future__ import annotations

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The verb's options."""
    parser.add_argument("--documents", required=True, help="documents.json of `overtone extract`")
    parser.add_argument("--out", required=True, help="splits.json; the documents are written beside it")
    parser.add_argument("--validation", type=float, default=0.03, help="share of bytes for validation (default: 0.03)")
    parser.add_argument("--test", type=float, default=0.03, help="share of bytes for test (default: 0.03)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the draw (default: 0)")


def run(args: argparse.Namespace) -> int:
    """Split."""
    from overtone.corpora.split import split

    summary = split(args.documents, args.out, validation=args.validation, test=args.test, seed=args.seed)
    print(f"{summary['corpus']}: " + ", ".join(f"{name} {part['documents']:,} documents ({part['bytes']:,} bytes)"
                                               for name, part in summary["splits"].items()))
    return 0
