"""File locks held for a process's life: the kernel drops them however the process ends. Imports no torch."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from overtone.errors import UserError


def try_lock(path: Path) -> int | None:
    """Take the lock file `path`; returns its handle, to be held open, or None where another process has it.

    The file may have been removed by the holder before us between open and lock, so its identity is checked.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{path.parent}: cannot be made ({error.strerror or error}). Name another folder.") from None
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(handle)
            return None
        try:
            if os.fstat(handle).st_ino == os.stat(path).st_ino:
                os.ftruncate(handle, 0)
                os.write(handle, f"{os.getpid()}\n".encode())
                return handle
        except FileNotFoundError:
            pass
        os.close(handle)


@contextmanager
def cell_lock(folder: Path) -> Iterator[None]:
    """Hold a cell's state folder for this process alone; a second trainer on it is a UserError."""
    path = folder / "lock"
    handle = try_lock(path)
    if handle is None:
        holder = path.read_text(encoding="utf-8").strip() if path.exists() else "?"
        raise UserError(
            f"{folder}: another trainer (process {holder}) is at work on this cell. Wait for it or stop it."
        )
    try:
        yield
    finally:
        os.close(handle)
