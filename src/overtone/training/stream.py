"""Regions of tokens, and where documents begin in them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch


@dataclass(frozen=True)
class Region:
    """A token file in memory-mapped form. `document_starts` are sorted token positions, the first one 0."""

    ids: np.ndarray
    document_starts: np.ndarray

    @classmethod
    def of(cls, token_file: Any) -> Region:
        """The region of an `overtone.corpora` TokenFile."""
        starts = np.asarray(getattr(token_file, "document_starts", [0]), dtype=np.int64)
        return cls(token_file.ids, starts)

    @property
    def size(self) -> int:
        """Tokens in the region."""
        return len(self.ids)

    def ids_at(self, start: int, count: int) -> torch.Tensor:
        """Tokens start .. start + count - 1, int64 (count,)."""
        return torch.from_numpy(np.asarray(self.ids[start : start + count], dtype=np.int64))

    def windows(self, starts: np.ndarray, length: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Inputs and targets (len(starts), length), int64."""
        both = np.stack([np.asarray(self.ids[start : start + length + 1], dtype=np.int64) for start in starts])
        ids = torch.from_numpy(both)
        return ids[:, :-1], ids[:, 1:]

    def cuts(self, start: int, end: int) -> list[int]:
        """Document starts inside (start, end), and both ends: the edges of the segments within documents."""
        first, last = np.searchsorted(self.document_starts, [start, end], side="left")
        inside = [int(value) for value in self.document_starts[first:last] if value > start]
        return [start, *inside, end]

    def begins_document(self, position: int) -> bool:
        """Whether a document begins at this token."""
        found = int(np.searchsorted(self.document_starts, position))
        return found < len(self.document_starts) and int(self.document_starts[found]) == position


def document_segments(region: Region, start: int, end: int, length: int) -> Iterator[list[tuple[int, int]]]:
    """For every document in [start, end): its pieces in order, cut at multiples of `length` from `start`."""
    edges = region.cuts(start, end)
    for left, right in itertools.pairwise(edges):
        inner = range(start + ((left - start) // length + 1) * length, right, length)
        bounds = [left, *inner, right]
        yield list(itertools.pairwise(bounds))
