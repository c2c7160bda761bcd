"""Fit a tokenizer on the training documents and write it to --out (its model beside it).

Kinds: bytes; characters (max_vocab); sentencepiece (vocab_size, sample_bytes); gpt2; pretrained (repo, revision).
The last two come from the Hugging Face hub at a pinned commit.
"""

from __future__ import annotations

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The verb's options."""
    parser.add_argument("--splits", required=True, help="splits.json of `overtone split`")
    parser.add_argument("--spec", required=True, help='JSON, such as \'{"kind": "sentencepiece", "vocab_size": 4096}\'')
    parser.add_argument("--out", required=True, help="tokenizer.json")


def run(args: argparse.Namespace) -> int:
    """Fit."""
    from overtone.corpora.tokenizers import fit_tokenizer

    tokenizer = fit_tokenizer(args.splits, args.spec, args.out)
    print(f"{tokenizer.name}: {tokenizer.vocab_size:,} ids")
    return 0
