"""What every tokenizer can do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np


class Tokenizer(ABC):
    """Text to ids and back. `digest` changes when any id of any text could change."""

    name: str
    vocab_size: int
    digest: str

    @classmethod
    @abstractmethod
    def fit(cls, documents: Path, folder: Path, options: Mapping[str, Any]) -> Tokenizer:
        """Learn from the documents of a JSONL file; model files go to `folder`."""

    @classmethod
    @abstractmethod
    def load(cls, folder: Path, fields: Mapping[str, Any]) -> Tokenizer:
        """The tokenizer stored in `folder`, whose tokenizer.json holds `fields`."""

    def stored(self) -> dict[str, Any]:
        """What tokenizer.json needs beyond name, size and digest."""
        return {}

    @abstractmethod
    def encode(self, text: str) -> np.ndarray:
        """Token ids (n,) of a text, uint16 or uint32."""

    def encode_batch(self, texts: Sequence[str]) -> list[np.ndarray]:
        """Token ids of several texts."""
        return [self.encode(text) for text in texts]

    @abstractmethod
    def decode(self, ids: Sequence[int] | np.ndarray) -> str:
        """The text of token ids; bytes that are no UTF-8 become U+FFFD."""
