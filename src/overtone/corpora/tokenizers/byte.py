"""Bytes: the ids are the UTF-8 bytes of the text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from overtone.corpora.tokenizers.base import Tokenizer, TrainingText
from overtone.files import digest_json


class ByteTokenizer(Tokenizer):
    """256 ids, one a byte; exact for any text."""

    name = "bytes"
    vocab_size = 256
    digest = digest_json({"kind": "bytes"})

    @classmethod
    def fit(cls, text: TrainingText, folder: Path, options: Mapping[str, Any]) -> ByteTokenizer:
        """Nothing to learn."""
        return cls()

    @classmethod
    def load(cls, folder: Path, fields: Mapping[str, Any]) -> ByteTokenizer:
        """Nothing to load."""
        return cls()

    def encode(self, text: str) -> np.ndarray:
        """UTF-8 bytes as uint16."""
        return np.frombuffer(text.encode(), np.uint8).astype(np.uint16)

    def decode(self, ids: Sequence[int] | np.ndarray) -> str:
        """Bytes to text."""
        return np.asarray(ids).astype(np.uint8).tobytes().decode("utf-8", "replace")
