"""An archive turned into documents."""

from __future__ import annotations

import bz2
import gzip
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, cast

from overtone.corpora.documents import Document, DocumentWriter, beside
from overtone.corpora.mediawiki import wikitext_documents, xml_documents
from overtone.corpora.registry import Corpus, corpus
from overtone.errors import UserError
from overtone.files import StrPath, atomic_path, read_json, write_json


def extract(archive_json: StrPath, out: StrPath, text: str | None = None) -> dict[str, Any]:
    """Write documents.jsonl beside `out`, then `out`: corpus, text, documents, bytes, digest, archive."""
    described = read_json(archive_json)
    entry = corpus(described["name"])
    chosen = text or entry.text
    target = beside(out, "documents.jsonl")
    with atomic_path(target) as temporary, open(temporary, "wb") as file:
        writer = DocumentWriter(file)
        for document in _documents(entry, str(beside(archive_json, "archive")), chosen):
            writer.write(document)
        if not writer.documents:
            raise UserError(f"{archive_json}: {entry.name} holds no document. Delete the archive and fetch it again.")
    summary = {"corpus": entry.name, "text": chosen, **writer.summary(), "archive": described["sha256"]}
    write_json(out, summary)
    return summary


def _documents(entry: Corpus, path: str, text: str) -> Iterator[Document]:
    with open_archive(entry, path) as source:
        yield from (xml_documents if text == "xml" else wikitext_documents)(source, path)


@contextmanager
def open_archive(entry: Corpus, path: str) -> Iterator[BinaryIO]:
    """The archive's content as a binary stream, unpacked in memory piece by piece: nothing is written, so nothing can escape."""
    unpack = entry.source.get("unpack")
    try:
        if unpack == "bz2":
            with bz2.open(path) as stream:
                yield cast(BinaryIO, stream)
        elif unpack == "gzip":
            with gzip.open(path) as stream:
                yield cast(BinaryIO, stream)
        elif unpack == "zip":
            with zipfile.ZipFile(path) as archive, archive.open(entry.source["inside"]) as stream:
                yield cast(BinaryIO, stream)
        else:
            with open(path, "rb") as plain:
                yield plain
    except (EOFError, zipfile.BadZipFile, KeyError) as error:
        raise UserError(f"{path}: damaged archive ({error}). Delete it and fetch it again.") from None
