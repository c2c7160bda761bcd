"""Characters of the training text, the commonest ones; the rest share one unknown id.

An unknown id hides which character stood there, so bits per token understate the text. A whole code would then spell the character
out among all other Unicode scalars: log2(1,112,064 - known) bits. `surprise` counts those bits, a token file keeps their sum, and

    bpb = bpt / bytes_per_token + unknown_bits_per_byte

is the length of a code from which the text can be had back.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from overtone.corpora.documents import read_documents
from overtone.corpora.tokenizers.base import Tokenizer
from overtone.errors import UserError, unknown_name
from overtone.files import digest_json

UNKNOWN = 0
_SCALARS = 0x110000 - 0x800  # Unicode code points that are characters


class CharacterTokenizer(Tokenizer):
    """Id 0 is unknown; id k > 0 the k-th commonest character of the training text (ties by code point)."""

    def __init__(self, characters: str) -> None:
        self.characters = characters
        self.name = "characters"
        self.vocab_size = len(characters) + 1
        self.digest = digest_json({"kind": "characters", "characters": characters})
        self.unknown_bits = math.log2(_SCALARS - len(characters))
        points = np.frombuffer(characters.encode("utf-32-le"), np.uint32)
        self._ids = np.zeros(0x110000, np.uint16 if self.vocab_size <= 1 << 16 else np.uint32)
        self._ids[points] = np.arange(1, self.vocab_size)
        self._points = np.concatenate([[0xFFFD], points]).astype(np.uint32)

    @classmethod
    def fit(cls, documents: Path, folder: Path, options: Mapping[str, Any]) -> CharacterTokenizer:
        """Count characters; `max_vocab` (default 65536) bounds the ids, the unknown one included."""
        for key in set(options) - {"max_vocab"}:
            raise unknown_name("tokenizer characters: option", key, ["max_vocab"])
        limit = options.get("max_vocab", 1 << 16)
        if not isinstance(limit, int) or limit < 2:
            raise UserError(f"tokenizer characters: max_vocab: found {limit!r}, expected an integer of at least 2.")
        counts = Counter("\n")  # the separator of documents is always known
        for document in read_documents(documents):
            counts.update(document.text)
        ranked = sorted(counts, key=lambda character: (-counts[character], character))
        return cls("".join(ranked[: limit - 1]))

    @classmethod
    def load(cls, folder: Path, fields: Mapping[str, Any]) -> CharacterTokenizer:
        """The characters stand in tokenizer.json."""
        return cls(fields["characters"])

    def stored(self) -> dict[str, Any]:
        """The characters, commonest first."""
        return {"characters": self.characters}

    def encode(self, text: str) -> np.ndarray:
        """One id a character."""
        return self._ids[np.frombuffer(text.encode("utf-32-le"), np.uint32)]

    def decode(self, ids: Sequence[int] | np.ndarray) -> str:
        """Characters; the unknown id becomes U+FFFD."""
        return self._points[np.asarray(ids, np.int64)].tobytes().decode("utf-32-le")
