"""What is packed in an archive, as one verified stream. Nothing is unpacked to disk: no member can land outside."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

from overtone.errors import UserError

_DAMAGED = (EOFError, OSError, RuntimeError, zipfile.BadZipFile, zlib.error)


class _Verified(io.RawIOBase):
    """Passes a stream on, counts and hashes it, and at its end compares bytes and sha256 with those expected."""

    def __init__(self, stream: IO[bytes], name: str, size: int | None, sha256: str | None) -> None:
        self._stream, self._name, self._size, self._sha256 = stream, name, size, sha256
        self._hasher = hashlib.sha256()
        self._seen = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            piece = self._stream.read(len(buffer))
        except _DAMAGED as error:
            raise UserError(f"{self._name}: damaged archive ({error}). Delete it and fetch it again.") from None
        self._hasher.update(piece)
        self._seen += len(piece)
        if self._size is not None and (self._seen > self._size or (not piece and self._seen < self._size)):
            raise self._wrong(f"{self._size} bytes", f"{'more than ' if piece else ''}{min(self._seen, self._size)}")
        if not piece and self._sha256 is not None and self._hasher.hexdigest() != self._sha256:
            raise self._wrong(f"sha256 {self._sha256}", self._hasher.hexdigest())
        buffer[: len(piece)] = piece
        return len(piece)

    def _wrong(self, expected: str, found: str) -> UserError:
        return UserError(f"{self._name}: its content is not the published one: expected {expected}, found {found}. "
                         "Delete it and fetch it again.")


@contextmanager
def open_content(archive: Path, content: Mapping[str, Any]) -> Iterator[BinaryIO]:
    """The packed text as a binary stream.

    content: `packing` (none | bz2 | gzip | zip), `member` (of a zip), `bytes` and `sha256` unpacked, where known.
    """
    with ExitStack() as stack:
        try:
            stream = _open(archive, content, stack)
        except _DAMAGED as error:
            raise UserError(f"{archive}: cannot be opened ({error}). Delete it and fetch it again.") from None
        except KeyError:
            raise UserError(f"{archive}: has no member {content['member']}. Delete it and fetch it again.") from None
        verified = _Verified(stream, str(archive), content.get("bytes"), content.get("sha256"))
        yield cast(BinaryIO, io.BufferedReader(verified, 1 << 18))


def _open(archive: Path, content: Mapping[str, Any], stack: ExitStack) -> IO[bytes]:
    packing = content["packing"]
    if packing == "bz2":
        return stack.enter_context(bz2.open(archive))
    if packing == "gzip":
        return cast(IO[bytes], stack.enter_context(gzip.open(archive)))
    if packing == "zip":
        return stack.enter_context(stack.enter_context(zipfile.ZipFile(archive)).open(content["member"]))
    return stack.enter_context(open(archive, "rb"))
