"""Token files as they are written: one pass over a split, memory of one document."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from overtone.corpora.documents import read_documents
from overtone.corpora.tokenfile import DTYPES
from overtone.corpora.tokenizers import load_tokenizer
from overtone.errors import unknown_name
from overtone.files import StrPath, atomic_path, read_json, write_json

SEPARATOR = "\n"


def tokenize(splits_json: StrPath, tokenizer_json: StrPath, split: str, out: StrPath) -> dict[str, Any]:
    """Encode one split into `out` with suffix .bin (ids) and .starts (uint64 offset of each document), then write it.

    A document that does not end with a newline gets one: the separator is text, so every tokenizer has it and its byte
    counts.
    """
    described = read_json(splits_json)
    if split not in described["splits"]:
        raise unknown_name(f"{splits_json}: split", split, described["splits"])
    tokenizer = load_tokenizer(Path(tokenizer_json).parent)
    dtype = "uint16" if tokenizer.vocab_size <= 1 << 16 else "uint32"
    documents = read_documents(Path(splits_json).with_name(f"{split}.jsonl"), described["splits"][split]["digest"])
    ids_hash, starts_hash = hashlib.sha256(), hashlib.sha256()
    tokens = size = count = unknown = 0
    target = Path(out)
    with (atomic_path(target.with_suffix(".bin")) as binary, atomic_path(target.with_suffix(".starts")) as offsets,
          open(binary, "wb") as ids_file, open(offsets, "wb") as starts_file):
        for document in documents:
            text = document.text if document.text.endswith(SEPARATOR) else document.text + SEPARATOR
            ids = tokenizer.encode(text)
            start, raw = tokens.to_bytes(8, "little"), ids.astype(DTYPES[dtype], copy=False).tobytes()
            starts_file.write(start)
            starts_hash.update(start)
            ids_file.write(raw)
            ids_hash.update(raw)
            tokens += len(ids)
            size += len(text) if text.isascii() else len(text.encode())
            unknown += tokenizer.unknown_in(ids)
            count += 1
    summary = {
        "digest": ids_hash.hexdigest(), "vocab_size": tokenizer.vocab_size, "tokens": tokens, "bytes": size,
        "bytes_per_token": size / tokens if tokens else 0.0, "dtype": dtype, "documents": count,
        "starts_digest": starts_hash.hexdigest(), "tokenizer": tokenizer.digest, "unknown": unknown,
        "unknown_bits": unknown * tokenizer.unknown_bits, "corpus": described["corpus"], "split": split,
    }
    write_json(out, summary)
    return summary
