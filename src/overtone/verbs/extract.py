"""Turn a fetched archive into documents: documents.jsonl beside --out, then --out itself."""

from __future__ import annotations

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The verb's options."""
    parser.add_argument("--archive", required=True, help="archive.json of `overtone fetch`")
    parser.add_argument("--out", required=True, help="documents.json; documents.jsonl is written beside it")


def run(args: argparse.Namespace) -> int:
    """Extract."""
    from overtone.corpora.extract import extract

    summary = extract(args.archive, args.out)
    print(f"{summary['corpus']}: {summary['documents']:,} documents, {summary['bytes']:,} bytes")
    return 0
