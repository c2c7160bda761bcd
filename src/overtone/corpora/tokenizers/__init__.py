"""Tokenizers behind one interface; tokenizer.json in a folder says which one stands there."""

from __future__ import annotations

import json
from pathlib import Path

from overtone.corpora.documents import read_summary
from overtone.corpora.tokenizers.base import Tokenizer, TrainingText
from overtone.corpora.tokenizers.byte import ByteTokenizer
from overtone.corpora.tokenizers.character import CharacterTokenizer
from overtone.corpora.tokenizers.pretrained import GPT2Tokenizer, PretrainedTokenizer
from overtone.corpora.tokenizers.subword import SentencePieceTokenizer
from overtone.errors import UserError, unknown_name
from overtone.files import StrPath, read_json, write_json

KINDS: dict[str, type[Tokenizer]] = {
    "bytes": ByteTokenizer, "characters": CharacterTokenizer, "sentencepiece": SentencePieceTokenizer,
    "gpt2": GPT2Tokenizer, "pretrained": PretrainedTokenizer,
}

__all__ = ["KINDS", "Tokenizer", "fit_tokenizer", "load_tokenizer"]


def fit_tokenizer(splits_json: StrPath, spec: str, out: StrPath) -> Tokenizer:
    """Fit the tokenizer that the JSON `spec` describes on the training documents; its model is written beside `out`."""
    try:
        options = json.loads(spec)
        kind = options.pop("kind")
    except (ValueError, KeyError, AttributeError, TypeError):
        raise UserError(f"--spec: found {spec}, expected JSON with a kind, such as {{\"kind\": \"bytes\"}}.") from None
    if kind not in KINDS:
        raise unknown_name("tokenizer kind", kind, KINDS)
    corpus, splits = read_summary(splits_json, "split", "corpus", "splits")
    train = splits["train"]
    text = TrainingText(Path(splits_json).with_name("train.jsonl"), train["digest"], train["bytes"])
    chosen = KINDS[kind].check(options)
    tokenizer = KINDS[kind].fit(text, Path(out).parent, chosen)
    write_json(out, {"kind": kind, "options": chosen, "vocab_size": tokenizer.vocab_size, "digest": tokenizer.digest,
                     "corpus": corpus, **tokenizer.stored()})
    return tokenizer


def load_tokenizer(directory: StrPath) -> Tokenizer:
    """The tokenizer of a tokens folder; one whose digest differs from tokenizer.json is a UserError."""
    folder = Path(directory)
    described = folder / "tokenizer.json"
    fields = read_json(described)
    kind = fields.get("kind") if isinstance(fields, dict) else None
    if kind not in KINDS:
        raise unknown_name(f"{described}: kind", str(kind), KINDS)
    try:
        tokenizer = KINDS[kind].load(folder, fields)
        expected = fields["digest"]
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise UserError(f"{described}: damaged ({type(error).__name__}: {error}). Run `overtone tokenizer` "
                        "again.") from None
    if tokenizer.digest != expected:
        raise UserError(f"{folder}: the tokenizer's digest is {tokenizer.digest}, {described.name} expects {expected}. "
                        "Run `overtone tokenizer` again.")
    return tokenizer
