"""What every tokenizer can do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from overtone.corpora.documents import read_documents
from overtone.errors import UserError, unknown_name


@dataclass(frozen=True)
class TrainingText:
    """The training documents that a tokenizer learns from, verified as they are read; `bytes` of text in all."""

    path: Path
    digest: str | None
    bytes: int

    def __iter__(self) -> Iterator[str]:
        return (document.text for document in read_documents(self.path, self.digest))


class Tokenizer(ABC):
    """Text to ids and back. `digest` changes when any id of any text could change."""

    OPTIONS: ClassVar[Mapping[str, tuple[Any, int]]] = {}  # name -> (default, least value)

    name: str
    vocab_size: int
    digest: str
    unknown_id: int | None = None  # the id that hides a character, if there is one
    unknown_bits: float = 0.0  # bits that spell out the character behind it

    @classmethod
    def check(cls, options: Mapping[str, Any]) -> dict[str, Any]:
        """The options with their defaults; an unknown one or a value that is no integer in range is a UserError."""
        chosen = {key: default for key, (default, _) in cls.OPTIONS.items()}
        for key, value in options.items():
            if key not in cls.OPTIONS:
                raise unknown_name("tokenizer option", key, cls.OPTIONS)
            least = cls.OPTIONS[key][1]
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise UserError(f"tokenizer option {key}: found {value!r}, expected an integer of at least {least}.")
            chosen[key] = value
        return chosen

    @classmethod
    @abstractmethod
    def fit(cls, text: TrainingText, folder: Path, options: Mapping[str, Any]) -> Tokenizer:
        """Learn from the training documents; model files go to `folder`."""

    @classmethod
    @abstractmethod
    def load(cls, folder: Path, fields: Mapping[str, Any]) -> Tokenizer:
        """The tokenizer stored in `folder`, whose tokenizer.json holds `fields`."""

    def stored(self) -> dict[str, Any]:
        """What tokenizer.json needs beyond kind, options, size and digest."""
        return {}

    @abstractmethod
    def encode(self, text: str) -> np.ndarray:
        """Token ids (n,) of a text: uint16 where they fit, else uint32."""

    @abstractmethod
    def decode(self, ids: Sequence[int] | np.ndarray) -> str:
        """The text of token ids; bytes that are no UTF-8 become U+FFFD."""


def id_type(vocab_size: int) -> type[np.unsignedinteger[Any]]:
    """uint16 where the ids fit, else uint32."""
    return np.uint16 if vocab_size <= 1 << 16 else np.uint32
