"""Characters of the training text, the commonest ones; the rest share one unknown id.

The unknown id hides which character stood there, so bits per token understate the text. A whole code would spell it out
among all other Unicode characters, log2(1,112,064 - known) bits more. A token file keeps the sum of those bits, and

    bpb = bpt / bytes_per_token + unknown_bits_per_byte

is the length of a code from which the text can be had back.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from overtone.corpora.tokenizers.base import Tokenizer, TrainingText, id_type
from overtone.files import digest_json

_CHARACTERS = 0x110000 - 0x800  # code points without the surrogates


class CharacterTokenizer(Tokenizer):
    """Id 0 is unknown; id k > 0 the k-th commonest character of the training text (ties by code point)."""

    OPTIONS: ClassVar = {"max_vocab": (1 << 16, 2)}
    unknown_id = 0

    def __init__(self, characters: str) -> None:
        self.characters = characters
        self.name = "characters"
        self.vocab_size = len(characters) + 1
        self.digest = digest_json({"kind": "characters", "characters": characters})
        self.unknown_bits = math.log2(_CHARACTERS - len(characters))
        points = np.frombuffer(characters.encode("utf-32-le"), "<u4")
        self._ids = np.zeros(0x110000, id_type(self.vocab_size))
        self._ids[points] = np.arange(1, self.vocab_size)
        self._points = np.concatenate([[0xFFFD], points]).astype("<u4")

    @classmethod
    def fit(cls, text: TrainingText, folder: Path, options: Mapping[str, Any]) -> CharacterTokenizer:
        """Count characters; `max_vocab` bounds the ids, the unknown one included."""
        counts = Counter("\n")  # separates documents, so it is known even if no document holds it
        for document in text:
            counts.update(document)
        ranked = sorted(counts, key=lambda character: (-counts[character], character))
        return cls("".join(ranked[: options["max_vocab"] - 1]))

    @classmethod
    def load(cls, folder: Path, fields: Mapping[str, Any]) -> CharacterTokenizer:
        """The characters stand in tokenizer.json."""
        return cls(fields["characters"])

    def stored(self) -> dict[str, Any]:
        """The characters, commonest first."""
        return {"characters": self.characters}

    def encode(self, text: str) -> np.ndarray:
        """One id a character."""
        return self._ids[np.frombuffer(text.encode("utf-32-le"), "<u4")]

    def decode(self, ids: Sequence[int] | np.ndarray) -> str:
        """Characters; the unknown id becomes U+FFFD."""
        return self._points[np.asarray(ids, np.int64)].tobytes().decode("utf-32-le")
