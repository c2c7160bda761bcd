"""Rows of a table as documents: one row a document, or (WikiText) one row a line and many lines an article."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import BinaryIO

from overtone.corpora.documents import Document
from overtone.errors import UserError

Row = tuple[str, str | None]  # text, published split
# A title is " = Robert Boulter = "; sections have more signs: " = = Career = = ".
_TITLE = re.compile(r" = (?!= )(.*\S)(?<! =) = \n?")


def read_rows(source: BinaryIO, name: str) -> Iterator[Row]:
    """Rows of JSON lines {"text", "split" (optional)}."""
    for number, line in enumerate(source, 1):
        try:
            fields = json.loads(line)
            text, split = fields["text"], fields.get("split")
        except (ValueError, KeyError, TypeError, AttributeError):
            raise UserError(f"{name}: line {number} is not JSON with a text. Delete it and fetch it again.") from None
        if not isinstance(text, str):
            raise UserError(f"{name}: line {number}: text: found {text!r:.40}, expected a string.")
        yield text, split


def row_documents(rows: Iterator[Row]) -> Iterator[Document]:
    """Every row that is not blank is a document; its id is its place in its split."""
    for number, (text, split) in enumerate(rows):
        if text.strip():
            yield Document(f"{split or 'row'}-{number}", "", text, split)


def article_documents(rows: Iterator[Row]) -> Iterator[Document]:
    """WikiText: an article begins at a title line between two blank lines.

    The hub's copy has "" for the blank lines of the published files, which hold " \\n": they are put back, so that
    bytes count as in the publication.
    """
    lines: list[str] = []
    title, split, count = "", None, 0
    previous: Row = ("", None)
    for row, following in _pairs(rows):
        text, where = row
        begins = bool(_TITLE.fullmatch(text)) and not previous[0].strip() and not following[0].strip()
        if where != split or (begins and any(line.strip() for line in lines)):
            yield from _article(lines, title, split, count)
            count, lines, title = count + 1, [], ""
        if begins:
            title = text.strip(" =\n")
        split = where
        lines.append(text if text.strip() else " \n")
        previous = row
    yield from _article(lines, title, split, count)


def _article(lines: list[str], title: str, split: str | None, number: int) -> Iterator[Document]:
    text = "".join(lines)
    if text.strip():
        yield Document(f"{split or 'article'}-{number}", title, text, split)


def _pairs(rows: Iterator[Row]) -> Iterator[tuple[Row, Row]]:
    current = next(rows, None)
    for following in rows:
        assert current is not None
        yield current, following
        current = following
    if current is not None:
        yield current, ("", None)
