"""Token files: raw little-endian uint16 or uint32 with a JSON sidecar, memory-mapped."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from overtone.corpora.documents import beside, read_documents
from overtone.corpora.tokenizers import Tokenizer, load_tokenizer
from overtone.errors import UserError
from overtone.files import StrPath, atomic_path, read_json, sha256_file, write_json

_BATCH = 64  # documents encoded together


@dataclass(frozen=True)
class TokenFile:
    """Tokens of one split. `ids` maps the file, `bytes` is how many bytes of UTF-8 text they encode."""

    path: Path
    digest: str
    vocab_size: int
    tokens: int
    bytes: int
    bytes_per_token: float
    dtype: str
    documents: int
    tokenizer: str

    @classmethod
    def open(cls, sidecar: StrPath, verify: bool = False) -> TokenFile:
        """Open by its JSON sidecar. Size is always checked, the digest with `verify`; a mismatch is a UserError."""
        path = Path(sidecar)
        fields = read_json(path)
        file = cls(path=path.with_suffix(".bin"), **{name: fields[name] for name in cls.__dataclass_fields__ if name != "path"})
        for part, size in ((file.path, file.tokens * np.dtype(file.dtype).itemsize), (file._starts, file.documents * 8)):
            found = part.stat().st_size if part.is_file() else "no file"
            if found != size:
                raise UserError(f"{part}: expected {size} bytes, found {found}. Delete it and {path.name}, then run `overtone tokenize`.")
        if verify and (digest := sha256_file(file.path)) != file.digest:
            raise UserError(f"{file.path}: expected sha256 {file.digest}, found {digest}. Delete it and run `overtone tokenize` again.")
        return file

    @property
    def _starts(self) -> Path:
        return self.path.with_suffix(".starts")

    @cached_property
    def ids(self) -> np.ndarray:
        """The token ids (tokens,), read-only."""
        return _map(self.path, self.dtype)

    @cached_property
    def document_starts(self) -> np.ndarray:
        """Offset of each document's first token, ascending (documents,), uint64; the first is 0."""
        return _map(self._starts, "<u8")


def _map(path: Path, dtype: str) -> np.ndarray:
    if path.stat().st_size == 0:  # an empty file cannot be mapped
        return np.zeros(0, dtype)
    return np.memmap(path, dtype=dtype, mode="r")


def tokenize(splits_json: StrPath, tokenizer_json: StrPath, split: str, out: StrPath) -> dict[str, Any]:
    """Encode one split into `out` with suffix .bin (and .starts), then write `out`.

    Every document is encoded with one newline after it unless it ends with one: the separator is text, so every tokenizer
    has it and its byte counts.
    """
    described = read_json(splits_json)
    tokenizer = load_tokenizer(Path(tokenizer_json).parent)
    dtype = "<u2" if tokenizer.vocab_size <= 1 << 16 else "<u4"
    target = Path(out)
    hasher = hashlib.sha256()
    tokens = size = documents = 0
    with (atomic_path(target.with_suffix(".bin")) as binary, atomic_path(target.with_suffix(".starts")) as offsets,
          open(binary, "wb") as ids_file, open(offsets, "wb") as starts_file):
        for texts in _batches(beside(splits_json, f"{split}.jsonl")):
            for text, ids in zip(texts, tokenizer.encode_batch(texts), strict=True):
                starts_file.write(np.uint64(tokens).tobytes())
                raw = ids.astype(dtype).tobytes()
                ids_file.write(raw)
                hasher.update(raw)
                tokens += len(ids)
                size += len(text.encode())
                documents += 1
    summary = {
        "digest": hasher.hexdigest(), "vocab_size": tokenizer.vocab_size, "tokens": tokens, "bytes": size,
        "bytes_per_token": size / tokens if tokens else 0.0, "dtype": dtype, "documents": documents,
        "tokenizer": tokenizer.digest, "corpus": described["corpus"], "split": split,
    }
    write_json(out, summary)
    return summary


def _batches(path: Path) -> Iterator[list[str]]:
    texts: Iterable[str] = (document.text + ("" if document.text.endswith("\n") else "\n") for document in read_documents(path))
    iterator = iter(texts)
    while batch := list(islice(iterator, _BATCH)):
        yield batch


__all__ = ["TokenFile", "Tokenizer", "tokenize"]
