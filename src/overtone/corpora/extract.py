"""An archive turned into documents."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from overtone.corpora.archive import open_content
from overtone.corpora.documents import Document, DocumentWriter, read_summary
from overtone.corpora.mediawiki import wikitext_documents, xml_documents
from overtone.corpora.rows import article_documents, read_rows, row_documents
from overtone.errors import UserError
from overtone.files import StrPath, atomic_path, write_json


def extract(archive_json: StrPath, out: StrPath) -> dict[str, Any]:
    """Write documents.jsonl beside `out`, then `out`: corpus, content, documents, bytes, digest, and the archive's."""
    name, content, digest = read_summary(archive_json, "fetch", "name", "content", "sha256")
    archive = Path(archive_json).with_name("archive")
    with atomic_path(Path(out).with_name("documents.jsonl")) as temporary, open(temporary, "wb") as file:
        writer = DocumentWriter(file)
        with open_content(archive, content) as source:
            for document in _documents(source, str(archive), content):
                writer.write(document)
        if not writer.documents:
            raise UserError(f"{archive}: {name} holds no document. Delete it and fetch it again.")
    summary = {"corpus": name, "content": content, **writer.summary(), "archive": digest}
    write_json(out, summary)
    return summary


def _documents(source: BinaryIO, name: str, content: dict[str, Any]) -> Iterator[Document]:
    if content["form"] == "mediawiki":
        return (xml_documents if content["text"] == "xml" else wikitext_documents)(source, name)
    rows = read_rows(source, name)
    return article_documents(rows) if content["form"] == "articles" else row_documents(rows)
