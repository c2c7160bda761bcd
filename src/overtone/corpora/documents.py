"""documents.jsonl: one {"id", "title", "text"} (and "split", where one is published) a line, read and written as a stream."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from overtone.errors import UserError
from overtone.files import StrPath


@dataclass(frozen=True, slots=True)
class Document:
    """A text with its name; `split` is set where the corpus comes with published splits."""

    id: str
    title: str
    text: str
    split: str | None = None


class DocumentWriter:
    """Writes documents to an open file and keeps the summary: documents, bytes of text (UTF-8), digest of the file."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._hasher = hashlib.sha256()
        self.documents = 0
        self.bytes = 0

    def write(self, document: Document) -> None:
        """Append one document. Lone surrogates, which UTF-8 cannot hold, become U+FFFD."""
        text = document.text
        try:
            size = len(text.encode())
        except UnicodeEncodeError:
            text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
            size = len(text.encode())
        fields = {"id": document.id, "title": document.title, "text": text}
        if document.split is not None:
            fields["split"] = document.split
        line = json.dumps(fields, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
        self._file.write(line)
        self._hasher.update(line)
        self.documents += 1
        self.bytes += size

    def summary(self) -> dict[str, Any]:
        """documents, bytes, digest."""
        return {"documents": self.documents, "bytes": self.bytes, "digest": self._hasher.hexdigest()}


def read_documents(path: StrPath) -> Iterator[Document]:
    """Stream the documents of a JSONL file; a missing or damaged file is a UserError that names file and line."""
    try:
        with open(path, "rb") as source:
            for number, line in enumerate(source, 1):
                try:
                    fields = json.loads(line)
                    yield Document(fields["id"], fields["title"], fields["text"], fields.get("split"))
                except (ValueError, KeyError, TypeError):
                    raise UserError(f"{path}: line {number} is not a document (JSON with id, title, text). Delete the file and run "
                                    "the stage that makes it again.") from None
    except FileNotFoundError:
        raise UserError(f"{path}: not found. Run the stage that makes it.") from None


def beside(json_path: StrPath, name: str) -> Path:
    """The file `name` in the folder of `json_path`."""
    return Path(json_path).parent / name
