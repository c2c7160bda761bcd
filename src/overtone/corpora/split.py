"""Documents assigned to train, validation and test: by content, in constant memory, the same on every machine.

A document's bucket is the first two bytes of sha256(seed, text): 65,536 buckets in an order that the seed shuffles. The
first buckets are validation, the next test, the rest train, cut where their bytes come nearest to the shares asked for.
Equal texts share a bucket, so no text stands in two splits and no list of texts is held.

Published splits are kept. A text of a published evaluation split is dropped from the splits before it in (train,
validation, test); an evaluation split that is not published is drawn from train.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from overtone.corpora.documents import SPLITS, Document, DocumentWriter, read_documents, read_summary
from overtone.errors import UserError, unknown_name
from overtone.files import StrPath, atomic_path, write_json

_BUCKETS = 1 << 16


def bucket(text: str, seed: int) -> int:
    """Which of 65,536 buckets a text falls into."""
    return int.from_bytes(hashlib.sha256(f"{seed}\0{text}".encode()).digest()[:2], "big")


def cut(sizes: np.ndarray, validation: float, test: float) -> tuple[int, int]:
    """Bucket numbers (v, t): [0, v) is validation, [v, t) test, [t, end) train.

    sizes: bytes a bucket (65536,). Each cut stands where the bytes before it come nearest to the share; a split whose
    share is not 0 gets at least one document, train too.
    """
    filled = np.flatnonzero(sizes)
    wanted = 1 + (validation > 0) + (test > 0)
    if len(filled) < wanted:
        raise UserError(f"split: {len(filled)} distinct documents cannot fill {wanted} splits. Use a larger corpus or "
                        "a share of 0.")
    total = np.concatenate([[0], np.cumsum(sizes[filled])])  # bytes of the first k filled buckets
    first = _nearest(total, 0, validation * total[-1], len(filled) - wanted + 1) if validation > 0 else 0
    second = _nearest(total, first, test * total[-1], len(filled) - 1) if test > 0 else first
    edges = [0, *(int(number) + 1 for number in filled)]
    return edges[first], edges[second]


def _nearest(total: np.ndarray, start: int, target: float, stop: int) -> int:
    """The k in (start, stop] whose buckets after `start` hold bytes nearest to `target`."""
    counts = np.arange(start + 1, stop + 1)
    return int(counts[np.argmin(np.abs(total[counts] - total[start] - target))])


def split(documents_json: StrPath, out: StrPath, *, validation: float, test: float, seed: int) -> dict[str, Any]:
    """Write {train,validation,test}.jsonl beside `out`, then `out` with documents, bytes and digest of each."""
    if not (0 <= validation < 1 and 0 <= test < 1 and validation + test < 1):
        raise UserError(f"split: found shares validation {validation} and test {test}, expected numbers of at least 0 "
                        "that sum to less than 1.")
    corpus, digest = read_summary(documents_json, "extract", "corpus", "digest")
    source = Path(documents_json).with_name("documents.jsonl")
    documents = _Documents(source, digest)
    drawn = _Draw(documents, validation, test, seed)
    dropped = dict.fromkeys(SPLITS, 0)
    with ExitStack() as stack:
        writers = {}
        for name in SPLITS:
            temporary = stack.enter_context(atomic_path(Path(out).with_name(f"{name}.jsonl")))
            writers[name] = DocumentWriter(stack.enter_context(open(temporary, "wb")))
        for document in documents:
            name, kept = drawn.place(document)
            if kept:
                writers[name].write(document)
            else:
                dropped[name] += 1
    summary = {
        "corpus": corpus, "seed": seed, "shares": {"validation": validation, "test": test},
        "published": [name for name in SPLITS if name in drawn.published], "dropped": dropped,
        "documents": digest, "splits": {name: writer.summary() for name, writer in writers.items()},
    }
    write_json(out, summary)
    return summary


class _Documents:
    """A documents file that can be read more than once, verified each time."""

    def __init__(self, path: Path, digest: str) -> None:
        self._path, self._digest = path, digest

    def __iter__(self) -> Iterator[Document]:
        return read_documents(self._path, self._digest)


class _Draw:
    """Where each document goes; one pass over the documents decides the cuts."""

    def __init__(self, documents: _Documents, validation: float, test: float, seed: int) -> None:
        self._seed = seed
        self.published: set[str] = set()
        self._texts: dict[str, set[bytes]] = {"validation": set(), "test": set()}  # digests of published texts
        sizes = np.zeros(_BUCKETS, np.int64)
        for document in documents:
            if document.split is not None:
                self.published.add(document.split)
            if document.split in self._texts:
                self._texts[document.split].add(_digest(document.text))
            else:
                sizes[bucket(document.text, seed)] += len(document.text.encode())
        for name in self.published - set(SPLITS):
            raise unknown_name("published split", name, SPLITS)
        if sizes.any():
            self._first, self._second = cut(sizes, 0 if "validation" in self.published else validation,
                                            0 if "test" in self.published else test)

    def place(self, document: Document) -> tuple[str, bool]:
        """(split, whether the document stays in it)."""
        if document.split in self._texts:
            return document.split, document.split == "test" or _digest(document.text) not in self._texts["test"]
        number = bucket(document.text, self._seed)
        name = "validation" if number < self._first else "test" if number < self._second else "train"
        text = _digest(document.text)
        return name, not any(text in texts for texts in self._texts.values())


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()[:16]
