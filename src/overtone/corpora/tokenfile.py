"""Token files as they are read: raw little-endian uint16 or uint32 with a JSON sidecar, memory-mapped."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path

import numpy as np

from overtone.errors import UserError
from overtone.files import StrPath, read_json, sha256_file

DTYPES = {"uint16": "<u2", "uint32": "<u4"}


@dataclass(frozen=True)
class TokenFile:
    """Tokens of one split.

    `bytes` is the UTF-8 length of the text they encode, separators included; `unknown_bits` what it takes to spell out
    the characters that an unknown id hides (0 for a tokenizer that loses nothing), so that

        bits per byte = bits per token / bytes_per_token + unknown_bits_per_byte
    """

    path: Path  # of the sidecar
    digest: str  # sha256 of the .bin file
    vocab_size: int
    tokens: int
    bytes: int
    bytes_per_token: float
    dtype: str  # uint16 | uint32
    documents: int
    starts_digest: str  # sha256 of the .starts file
    tokenizer: str  # digest
    unknown: int
    unknown_bits: float

    @classmethod
    def open(cls, sidecar: StrPath, verify: bool = False) -> TokenFile:
        """Open by the JSON sidecar. Sizes are always checked, digests with `verify`; a mismatch is a UserError."""
        path = Path(sidecar)
        values = read_json(path)
        names = [field.name for field in fields(cls) if field.name != "path"]
        missing = [name for name in names if not isinstance(values, dict) or name not in values]
        if missing or values["dtype"] not in DTYPES or not isinstance(values["tokens"], int):
            raise UserError(f"{path}: not the sidecar of a token file ({', '.join(missing) or 'dtype or tokens'} is "
                            "missing or wrong). Delete it and run `overtone tokenize` again.")
        file = cls(path, **{name: values[name] for name in names})
        file._check(".bin", file.tokens * np.dtype(file.dtype).itemsize, file.digest if verify else None)
        file._check(".starts", file.documents * 8, file.starts_digest if verify else None)
        return file

    def _check(self, suffix: str, size: int, digest: str | None) -> None:
        part = self.path.with_suffix(suffix)
        found = f"{part.stat().st_size} bytes" if part.is_file() else "no file"
        expected = f"{size} bytes"
        if found == expected and digest is not None:
            expected, found = f"sha256 {digest}", f"sha256 {sha256_file(part)}"
        if found != expected:
            raise UserError(f"{part}: expected {expected}, found {found}. Delete {self.path} and run `overtone "
                            "tokenize` again.")

    @property
    def unknown_bits_per_byte(self) -> float:
        """Bits a byte to add to bpt / bytes_per_token."""
        return self.unknown_bits / self.bytes if self.bytes else 0.0

    @cached_property
    def ids(self) -> np.ndarray:
        """The token ids (tokens,), read-only."""
        return _map(self.path.with_suffix(".bin"), DTYPES[self.dtype])

    @cached_property
    def document_starts(self) -> np.ndarray:
        """Offset of each document's first token, ascending (documents,), uint64; the first is 0."""
        return _map(self.path.with_suffix(".starts"), "<u8")


def _map(path: Path, dtype: str) -> np.ndarray:
    if path.stat().st_size == 0:  # an empty file cannot be mapped
        return np.zeros(0, dtype)
    return np.memmap(path, dtype=dtype, mode="r")
