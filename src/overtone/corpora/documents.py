"""documents.jsonl, read and written as a stream: a line is {"id", "title", "text"} and, where published, "split"."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

from overtone.errors import UserError
from overtone.files import StrPath, read_json

SPLITS = ("train", "validation", "test")


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
        """Append one document."""
        text = encodable(document.text)
        fields = {"id": document.id, "title": encodable(document.title), "text": text}
        if document.split is not None:
            fields["split"] = document.split
        line = json.dumps(fields, ensure_ascii=False).encode() + b"\n"
        self._file.write(line)
        self._hasher.update(line)
        self.documents += 1
        self.bytes += len(text.encode())

    def summary(self) -> dict[str, Any]:
        """documents, bytes, digest."""
        return {"documents": self.documents, "bytes": self.bytes, "digest": self._hasher.hexdigest()}


def encodable(text: str) -> str:
    """The text, with U+FFFD for lone surrogates: JSON can spell them, UTF-8 cannot."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def read_summary(path: StrPath, verb: str, *keys: str) -> list[Any]:
    """Values of `keys` in the JSON that `verb` wrote; a file without them is a UserError."""
    fields = read_json(path)
    missing = [key for key in keys if not isinstance(fields, dict) or key not in fields]
    if missing:
        raise UserError(f"{path}: has no {missing[0]}. Expected the file that `overtone {verb}` writes.")
    return [fields[key] for key in keys]


def read_documents(path: StrPath, digest: str | None = None) -> Iterator[Document]:
    """Stream the documents of a JSONL file. A missing, damaged or (by `digest`, sha256) other file is a UserError."""
    hasher = hashlib.sha256()
    again = "Delete it and run the stage that makes it again."
    try:
        with open(path, "rb") as source:
            for number, line in enumerate(source, 1):
                hasher.update(line)
                try:
                    fields = json.loads(line)
                    document = Document(fields["id"], fields["title"], fields["text"], fields.get("split"))
                except (ValueError, KeyError, TypeError, AttributeError):
                    raise UserError(f"{path}: line {number} is not JSON with id, title and text. {again}") from None
                yield document
    except FileNotFoundError:
        raise UserError(f"{path}: not found. Run the stage that makes it.") from None
    if digest is not None and hasher.hexdigest() != digest:
        raise UserError(f"{path}: expected sha256 {digest}, found {hasher.hexdigest()}. {again}")
