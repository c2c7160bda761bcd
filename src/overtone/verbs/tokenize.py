"""Encode one split into a memory-mapped token file: .bin (and .starts) beside --out, then --out itself."""

from __future__ import annotations

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The verb's options."""
    parser.add_argument("--splits", required=True, help="splits.json of `overtone split`")
    parser.add_argument("--tokenizer", required=True, help="tokenizer.json of `overtone tokenizer`")
    parser.add_argument("--split", required=True, choices=("train", "validation", "test"))
    parser.add_argument("--out", required=True, help="SPLIT.json; SPLIT.bin is written beside it")


def run(args: argparse.Namespace) -> int:
    """Tokenize."""
    from overtone.corpora.tokenize import tokenize

    summary = tokenize(args.splits, args.tokenizer, args.split, args.out)
    print(f"{summary['corpus']} {args.split}: {summary['tokens']:,} tokens of {summary['bytes_per_token']:.2f} bytes")
    return 0
