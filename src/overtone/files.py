"""Files and folders that are whole or absent: atomic writes, digests, JSON with errors that name the file."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from overtone.errors import UserError

StrPath = str | os.PathLike[str]


@contextmanager
def atomic_path(final: StrPath) -> Iterator[Path]:
    """Yield a temporary path beside `final`; on success it is synced and renamed into place, else removed.

    A full disk or a missing folder becomes a UserError that names the file.
    """
    target = Path(final)
    temporary: Path | None = None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent)
        os.close(handle)
        temporary = Path(name)
        yield temporary
        with open(temporary, "rb") as written:
            os.fsync(written.fileno())
        temporary.chmod(0o666 & ~_umask())
        temporary.replace(target)
        temporary = None
    except OSError as error:
        raise UserError(f"{target}: cannot be written ({error.strerror or error}). Free space or choose another folder, "
                        "then run again.") from error
    finally:
        if temporary is not None:
            with suppress(OSError):
                temporary.unlink()


@contextmanager
def atomic_folder(final: StrPath) -> Iterator[Path]:
    """Yield an empty folder beside `final`; on success it takes the place of `final`, else it is removed and `final` stays.

    One writer at a time: what a killed one left is cleared up first. A full disk becomes a UserError that names the folder.
    """
    target = Path(final)
    part, old = (target.parent / f".{target.name}.{end}" for end in ("part", "old"))
    try:
        if old.exists() and not target.exists():  # killed between the two renames below
            old.replace(target)
        for left in (part, old):
            shutil.rmtree(left, ignore_errors=True)
        part.mkdir(parents=True)
        yield part
        if target.exists():
            target.replace(old)
        try:
            part.replace(target)
        except OSError:
            if old.exists():
                old.replace(target)
            raise
        shutil.rmtree(old, ignore_errors=True)
    except Exception as error:
        if not isinstance(error, OSError) and type(error).__name__ != "SafetensorError":  # that library's own word for a full disk
            raise
        raise UserError(f"{target}: cannot be written ({getattr(error, 'strerror', None) or error}). Free space or choose another "
                        "folder, then run again.") from error
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def write_text(path: StrPath, text: str) -> None:
    """Write `text` (UTF-8) atomically."""
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_bytes(path: StrPath, data: bytes) -> None:
    """Write `data` atomically."""
    with atomic_path(path) as temporary:
        temporary.write_bytes(data)


def write_json(path: StrPath, value: Any) -> None:
    """Write `value` as indented JSON, atomically. NaN and infinity are errors: JSON has neither."""
    write_text(path, json.dumps(value, indent=1, allow_nan=False, ensure_ascii=False) + "\n")


def parse_json(text: str) -> Any:
    """JSON as the standard has it: NaN and infinity, which Python's reader takes, are a ValueError."""
    def refuse(word: str) -> Any:
        raise ValueError(f"{word} is no number of JSON")

    return json.loads(text, parse_constant=refuse)


def read_json(path: StrPath) -> Any:
    """Read JSON; a missing or damaged file is a UserError that names it."""
    try:
        return parse_json(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path}: not found. Run the stage that makes it (snakemake {path}).") from None
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{path}: not valid JSON ({error}). Delete it and run the stage that makes it again.") from None


def canonical_json(value: Any) -> str:
    """JSON with sorted keys and no spaces: equal values give equal strings whatever the hash seed."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=True)


def digest_json(value: Any) -> str:
    """sha256 (hex) of the canonical JSON of `value`."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


def sha256_file(path: StrPath) -> str:
    """sha256 (hex) of a file's content, read in pieces of 1 MiB."""
    hasher = hashlib.sha256()
    with open(path, "rb") as source:
        while piece := source.read(1 << 20):
            hasher.update(piece)
    return hasher.hexdigest()
