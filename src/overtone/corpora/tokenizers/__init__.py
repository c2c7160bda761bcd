"""Tokenizers behind one interface; tokenizer.json in a folder says which one stands there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from overtone.corpora.tokenizers.base import Tokenizer
from overtone.corpora.tokenizers.byte import ByteTokenizer
from overtone.corpora.tokenizers.character import CharacterTokenizer
from overtone.corpora.tokenizers.subword import SentencePieceTokenizer
from overtone.errors import UserError, unknown_name
from overtone.files import StrPath, read_json, write_json

KINDS: dict[str, type[Tokenizer]] = {"bytes": ByteTokenizer, "characters": CharacterTokenizer, "sentencepiece": SentencePieceTokenizer}


def fit_tokenizer(splits_json: StrPath, spec: str, out: StrPath) -> Tokenizer:
    """Fit the tokenizer that the JSON `spec` describes on the training documents; write `out` and its model files beside it."""
    try:
        options = json.loads(spec)
        kind = options.pop("kind")
    except (ValueError, KeyError, AttributeError):
        raise UserError(f"--spec: found {spec}, expected JSON with a kind, such as '{{\"kind\": \"bytes\"}}'.") from None
    if kind not in KINDS:
        raise unknown_name("tokenizer kind", kind, KINDS)
    folder = Path(out).parent
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = KINDS[kind].fit(Path(splits_json).parent / "train.jsonl", folder, options)
    described: dict[str, Any] = {"kind": kind, "spec": {"kind": kind, **options}, "name": tokenizer.name, "vocab_size": tokenizer.vocab_size,
                                 "digest": tokenizer.digest, "corpus": read_json(splits_json)["corpus"]}
    write_json(out, described | tokenizer.stored())
    return tokenizer


def load_tokenizer(directory: StrPath) -> Tokenizer:
    """The tokenizer of a tokens folder."""
    folder = Path(directory)
    fields = read_json(folder / "tokenizer.json")
    if fields.get("kind") not in KINDS:
        raise unknown_name(f"{folder / 'tokenizer.json'}: kind", str(fields.get("kind")), KINDS)
    return KINDS[fields["kind"]].load(folder, fields)
