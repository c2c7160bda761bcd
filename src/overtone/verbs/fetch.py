"""Download a corpus archive, verify its digest, and write the archive beside --out, then --out itself.

An archive that is already there and right is kept; a download that broke off is continued.
"""

from __future__ import annotations

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The verb's options."""
    parser.add_argument("--corpus", required=True, help="a name in workflow/corpora.yaml")
    parser.add_argument("--out", required=True, help="archive.json; the archive is written beside it")


def run(args: argparse.Namespace) -> int:
    """Fetch."""
    from overtone.corpora.fetch import fetch

    described = fetch(args.corpus, args.out)
    print(f"{args.corpus}: {described['bytes']:,} bytes from {described['source']}")
    return 0
