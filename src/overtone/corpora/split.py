"""Documents assigned to train, validation and test: by content, in constant memory, the same on every machine.

A document's key is the first two bytes of sha256(seed, text): 65,536 buckets in an order that the seed shuffles. The first
buckets are validation, the next test, the rest train, cut where their bytes come nearest to the fractions asked for. Equal texts
share a bucket, so no text stands in two splits, and no set of digests is held.
"""

from __future__ import annotations

import hashlib
from contextlib import ExitStack
from typing import Any

import numpy as np

from overtone.corpora.documents import Document, DocumentWriter, beside, read_documents
from overtone.errors import UserError
from overtone.files import StrPath, atomic_path, read_json, write_json

SPLITS = ("train", "validation", "test")
_BUCKETS = 1 << 16


def bucket(text: str, seed: int) -> int:
    """Which of 65,536 buckets a text falls into."""
    return int.from_bytes(hashlib.sha256(f"{seed}\0{text}".encode()).digest()[:2], "big")


def cut(sizes: np.ndarray, validation: float, test: float) -> tuple[int, int]:
    """Bucket numbers (v, t): [0, v) is validation, [v, t) test, [t, end) train.

    sizes: bytes a bucket (65536,). Each cut stands where the bytes before it come nearest to the share, with at least one
    document on either side.
    """
    filled = np.flatnonzero(sizes)
    wanted = 1 + (validation > 0) + (test > 0)
    if len(filled) < wanted:
        raise UserError(f"split: {len(filled)} distinct documents cannot fill {wanted} splits. Use a larger corpus or fraction 0.")
    total = np.cumsum(sizes[filled])  # bytes up to and with the k-th filled bucket
    first = _nearest(total, validation * total[-1], 0, len(filled) - (wanted - 1)) if validation > 0 else 0
    done = total[first - 1] if first else 0
    second = _nearest(total, done + test * total[-1], first, len(filled) - 1) if test > 0 else first
    edges = [*filled.tolist(), len(sizes)]
    return edges[first], edges[second]


def _nearest(total: np.ndarray, target: float, start: int, stop: int) -> int:
    """How many filled buckets (more than `start`, at most `stop`) bring their bytes nearest to `target`."""
    counts = np.arange(start + 1, stop + 1)
    return int(counts[np.argmin(np.abs(total[counts - 1] - target))])


def split(documents_json: StrPath, out: StrPath, *, validation: float, test: float, seed: int) -> dict[str, Any]:
    """Write train.jsonl, validation.jsonl and test.jsonl beside `out`, then `out` with documents, bytes and digest of each."""
    described = read_json(documents_json)
    source = beside(documents_json, "documents.jsonl")
    sizes = np.zeros(_BUCKETS, np.int64)
    for document in read_documents(source):
        sizes[bucket(document.text, seed)] += len(document.text.encode())
    first, second = cut(sizes, validation, test)

    def assigned(document: Document) -> str:
        number = bucket(document.text, seed)
        return "validation" if number < first else "test" if number < second else "train"

    with ExitStack() as stack:
        writers = {}
        for name in SPLITS:
            temporary = stack.enter_context(atomic_path(beside(out, f"{name}.jsonl")))
            writers[name] = DocumentWriter(stack.enter_context(open(temporary, "wb")))
        for document in read_documents(source):
            writers[assigned(document)].write(document)
    summary = {
        "corpus": described["corpus"], "seed": seed, "fractions": {"validation": validation, "test": test},
        "documents": described["digest"], "splits": {name: writer.summary() for name, writer in writers.items()},
    }
    write_json(out, summary)
    return summary
