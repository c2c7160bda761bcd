"""Downloads over HTTP that end whole and right, or not at all: retried, resumed, verified, then renamed into place."""

from __future__ import annotations

import http.client
import shutil
import time
import urllib.error
import urllib.request
from pathlib import Path

from overtone.errors import UserError
from overtone.files import StrPath, sha256_file

_PIECE = 1 << 20
_PAUSES = (1.0, 2.0, 4.0, 8.0, 16.0)  # seconds before each further try
_PASSING = {408, 425, 429, 500, 502, 503, 504}  # HTTP statuses that another try may cure


def download(url: str, out: StrPath, *, size: int, sha256: str, pauses: tuple[float, ...] = _PAUSES,
             timeout: float = 60.0) -> None:
    """Fetch `url` to `out`, which must have `size` bytes and digest `sha256`.

    What has come stands in `.NAME.part` beside `out`; another try, or another run, asks only for the rest (Range).
    If `out` is there and right, nothing is fetched.
    """
    target = Path(out)
    if target.is_file() and target.stat().st_size == size and sha256_file(target) == sha256:
        return
    part = target.with_name(f".{target.name}.part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        if part.is_file() and part.stat().st_size > size:
            part.unlink()
        _fill(url, part, size, pauses, timeout)
        if (found := sha256_file(part)) != sha256:
            part.unlink()
            raise UserError(f"{target}: expected sha256 {sha256}, found {found} from {url}. It was removed. Run again; "
                            "if it stays so, the source has changed.")
        part.replace(target)
    except OSError as error:
        raise UserError(f"{target}: cannot be written ({error.strerror or error}). Free space or choose another "
                        "folder, then run again: it continues.") from None


def _fill(url: str, part: Path, size: int, pauses: tuple[float, ...], timeout: float) -> None:
    for pause in (*pauses, None):
        have = part.stat().st_size if part.is_file() else 0
        if have == size:
            return
        if (free := shutil.disk_usage(part.parent).free) < size - have:
            raise UserError(f"{part}: needs {size - have:,} bytes, {free:,} are free. Free space, then run again: "
                            "it continues.")
        problem = _request(url, part, have, size, timeout)
        if problem is None:
            return
        if pause is None:
            got = part.stat().st_size if part.is_file() else 0
            raise UserError(f"{url}: {problem}; {got:,} of {size:,} bytes came. Check the network, then run again: "
                            "it continues.")
        time.sleep(pause)


def _request(url: str, part: Path, have: int, size: int, timeout: float) -> str | None:
    """Append the rest of the file to `part`; returns what stopped it, if another try may help."""
    request = urllib.request.Request(url, headers={"User-Agent": "overtone"})
    if have:
        request.add_header("Range", f"bytes={have}-")
    try:
        answer = urllib.request.urlopen(request, timeout=timeout)
    except urllib.error.HTTPError as error:
        if error.code in _PASSING:
            return f"the server answers {error.code} {error.reason}"
        raise UserError(f"{url}: the server answers {error.code} {error.reason}. Correct the address in "
                        "corpora.yaml.") from None
    except (OSError, http.client.HTTPException) as error:
        return f"no connection ({getattr(error, 'reason', error)})"
    resumed = answer.status == 206 and answer.headers.get("Content-Range", "").startswith(f"bytes {have}-")
    with answer, open(part, "ab" if resumed else "wb") as file:
        while True:
            try:
                piece = answer.read(_PIECE)
            except (OSError, http.client.HTTPException) as error:
                return f"the connection broke ({type(error).__name__})"
            if not piece:
                break
            file.write(piece)
            if file.tell() > size:
                part.unlink()
                raise UserError(f"{url}: expected {size:,} bytes, more came and was removed. The source has changed.")
    return None if part.stat().st_size == size else "the file is truncated"
