"""Token files as they are written: one pass over a split, memory of one document."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from overtone.corpora.documents import Document, read_documents, read_summary
from overtone.corpora.tokenfile import DTYPES
from overtone.corpora.tokenizers import load_tokenizer
from overtone.errors import UserError, unknown_name
from overtone.files import StrPath, atomic_path, write_json

SEPARATOR = "\n"


def tokenize(splits_json: StrPath, tokenizer_json: StrPath, split: str, out: StrPath) -> dict[str, Any]:
    """Encode one split with a tokenizer of ours into a token file; returns its sidecar."""
    corpus, splits = read_summary(splits_json, "split", "corpus", "splits")
    if split not in splits:
        raise unknown_name(f"{splits_json}: split", split, splits)
    if Path(tokenizer_json).name != "tokenizer.json":
        raise UserError(f"{tokenizer_json}: expected a tokenizer.json. Name the one that `overtone tokenizer` wrote.")
    tokenizer = load_tokenizer(Path(tokenizer_json).parent)
    documents = read_documents(Path(splits_json).with_name(f"{split}.jsonl"), splits[split]["digest"])
    return write_token_file(
        out, documents, tokenizer.encode, vocab_size=tokenizer.vocab_size, tokenizer=tokenizer.digest,
        unknown_id=tokenizer.unknown_id, unknown_bits=tokenizer.unknown_bits,
        labels={"corpus": corpus, "split": split},
    )


def write_token_file(
    out: StrPath, documents: Iterable[Document], encode: Callable[[str], Any], *, vocab_size: int, tokenizer: str,
    unknown_id: int | None = None, unknown_bits: float = 0.0, labels: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Write ids to `out` with suffix .bin, the offset of each document (uint64) to .starts, then the sidecar `out`.

    A document that does not end with a newline gets one: the separator is text, so every tokenizer has it and its byte
    counts. `encode` gives the ids (n,) of a text, `tokenizer` names it, `labels` go into the sidecar as they are.
    """
    dtype = "uint16" if vocab_size <= 1 << 16 else "uint32"
    ids_hash, starts_hash = hashlib.sha256(), hashlib.sha256()
    tokens = size = count = unknown = 0
    target = Path(out)
    with (atomic_path(target.with_suffix(".bin")) as binary, atomic_path(target.with_suffix(".starts")) as offsets,
          open(binary, "wb") as ids_file, open(offsets, "wb") as starts_file):
        for document in documents:
            text = document.text if document.text.endswith(SEPARATOR) else document.text + SEPARATOR
            ids = np.asarray(encode(text))
            start, raw = tokens.to_bytes(8, "little"), ids.astype(DTYPES[dtype], copy=False).tobytes()
            starts_file.write(start)
            starts_hash.update(start)
            ids_file.write(raw)
            ids_hash.update(raw)
            tokens += len(ids)
            size += len(text) if text.isascii() else len(text.encode())
            unknown += 0 if unknown_id is None else int(np.count_nonzero(ids == unknown_id))
            count += 1
    sidecar = {
        "digest": ids_hash.hexdigest(), "vocab_size": vocab_size, "tokens": tokens, "bytes": size,
        "bytes_per_token": size / tokens if tokens else 0.0, "dtype": dtype, "documents": count,
        "starts_digest": starts_hash.hexdigest(), "tokenizer": tokenizer, "unknown": unknown,
        "unknown_bits": unknown * unknown_bits, **(labels or {}),
    }
    write_json(target, sidecar)
    return sidecar
