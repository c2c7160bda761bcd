"""MediaWiki XML dumps as documents: the wikitext of articles, or the raw XML page by page. Streams; memory is one page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO
from xml.parsers import expat

from overtone.corpora.documents import Document
from overtone.errors import UserError

_PIECE = 1 << 16


def wikitext_documents(source: BinaryIO, name: str) -> Iterator[Document]:
    """Articles (namespace 0, no redirects, not empty) of a dump, their wikitext as `text`.

    A dump that ends inside a page (enwik8 is cut at 100,000,000 bytes) gives its whole pages. Malformed XML is a UserError.
    """
    pages = _Pages()
    parser = expat.ParserCreate("utf-8")
    parser.buffer_text = True
    parser.StartElementHandler = pages.start
    parser.EndElementHandler = pages.end
    parser.CharacterDataHandler = pages.characters
    parser.EntityDeclHandler = _no_entities(name)
    try:
        while piece := source.read(_PIECE):
            parser.Parse(piece, False)
            yield from pages.take()
    except expat.ExpatError as error:
        raise UserError(f"{name}: not a MediaWiki XML dump ({error}). Delete it and fetch it again.") from None


def _no_entities(name: str) -> object:
    def refuse(*_: object) -> None:
        raise UserError(f"{name}: declares XML entities, which no MediaWiki dump does. Use the published dump.")

    return refuse


class _Pages:
    """Collects the fields of the page being read; `take` hands over the articles finished so far."""

    def __init__(self) -> None:
        self._path: list[str] = []
        self._fields: dict[str, list[str]] = {}
        self._redirect = False
        self._ready: list[Document] = []

    def start(self, tag: str, _: dict[str, str]) -> None:
        self._path.append(tag)
        if tag == "page":
            self._fields, self._redirect = {}, False
        elif tag == "redirect":
            self._redirect = True

    def characters(self, data: str) -> None:
        # title, ns and id stand in the page; text in its revision (whose own id is not the page's)
        here = self._path[-2:]
        if here in (["page", "title"], ["page", "ns"], ["page", "id"], ["revision", "text"]):
            self._fields.setdefault(here[1], []).append(data)

    def end(self, tag: str) -> None:
        self._path.pop()
        if tag != "page":
            return
        title, namespace, page, text = ("".join(self._fields.get(key, [])) for key in ("title", "ns", "id", "text"))
        if not self._redirect and not text[:9].upper().startswith("#REDIRECT") and namespace in ("", "0") and text.strip():
            self._ready.append(Document(page, title, text))

    def take(self) -> list[Document]:
        ready, self._ready = self._ready, []
        return ready


def xml_documents(source: BinaryIO, name: str) -> Iterator[Document]:
    """The raw XML of a dump cut before each `<page>` line: joined in order, the documents are the dump byte for byte.

    What precedes the first page (siteinfo) belongs to the first document, what follows the last page to the last.
    """
    lines: list[bytes] = []
    pages = 0
    for line in source:
        if line.strip() == b"<page>":
            pages += 1
            if pages > 1:
                yield _raw(lines, pages - 1, name)
                lines = []
        lines.append(line)
    if not pages:
        raise UserError(f"{name}: has no <page>, so it is no MediaWiki XML dump. Delete it and fetch it again.")
    yield _raw(lines, pages, name)


def _raw(lines: list[bytes], number: int, name: str) -> Document:
    raw = b"".join(lines)
    try:
        # a dump cut at a byte count may end inside a character
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UserError(f"{name}: page {number} is not UTF-8 ({error.reason}). Delete it and fetch it again.") from None
    title = next((line.strip()[7:-8].decode() for line in lines if line.strip().startswith(b"<title>")), "")
    return Document(str(number), title, text)
