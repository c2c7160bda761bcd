"""MediaWiki XML dumps as documents: the wikitext of articles, or the raw XML page by page. Memory is one page."""

from __future__ import annotations

import html
from collections.abc import Iterator
from typing import Any, BinaryIO
from xml.parsers import expat

from overtone.corpora.documents import Document
from overtone.errors import UserError

_PIECE = 1 << 16
_FIELDS = {("page", "title"), ("page", "ns"), ("page", "id"), ("revision", "text"), ("namespaces", "namespace")}


def wikitext_documents(source: BinaryIO, name: str) -> Iterator[Document]:
    """Articles (main namespace, no redirects, not empty), the wikitext of their last revision as `text`.

    A dump that ends inside a page (enwik8 is cut at 100,000,000 bytes) gives its whole pages. Malformed XML is a
    UserError.
    """
    pages = _Pages()
    parser = expat.ParserCreate("utf-8")
    parser.buffer_text = True
    parser.StartElementHandler = pages.start
    parser.EndElementHandler = pages.end
    parser.CharacterDataHandler = pages.characters

    def refuse(*_: Any) -> None:
        raise UserError(f"{name}: declares XML entities, which no MediaWiki dump does. Use the published dump.")

    parser.EntityDeclHandler = refuse
    while piece := source.read(_PIECE):
        try:
            parser.Parse(piece, False)
        except expat.ExpatError as error:
            raise UserError(f"{name}: not a MediaWiki XML dump ({error}). Delete it and fetch it again.") from None
        yield from pages.take()
    if pages.root != "mediawiki":
        raise UserError(f"{name}: not a MediaWiki XML dump. Delete it and fetch it again.")


class _Pages:
    """Collects the fields of the page being read; `take` hands over the articles finished so far."""

    def __init__(self) -> None:
        self.root: str | None = None
        self._path = ["", ""]
        self._fields: dict[str, list[str]] = {}
        self._redirect = False
        self._prefixes: tuple[str, ...] = ()  # "Talk:", ...: other namespaces, for dumps whose pages have no <ns>
        self._ready: list[Document] = []

    def start(self, tag: str, _: dict[str, str]) -> None:
        self.root = self.root or tag
        self._path.append(tag)
        if tag == "page":
            self._fields, self._redirect = {}, False
        elif tag == "redirect":
            self._redirect = True
        elif tag in ("text", "namespace"):
            self._fields[tag] = []

    def characters(self, data: str) -> None:
        if tuple(self._path[-2:]) in _FIELDS:  # a revision and a contributor have ids too: not those
            self._fields.setdefault(self._path[-1], []).append(data)

    def end(self, tag: str) -> None:
        self._path.pop()
        if tag == "namespace" and (prefix := self._field("namespace")):
            self._prefixes += (f"{prefix}:",)
        elif tag == "page":
            title, text = self._field("title"), self._field("text")
            main = self._field("ns") == "0" if "ns" in self._fields else not title.startswith(self._prefixes)
            redirect = self._redirect or text.lstrip()[:9].upper() == "#REDIRECT"
            if main and not redirect and text.strip():
                self._ready.append(Document(self._field("id"), title, text))

    def _field(self, name: str) -> str:
        return "".join(self._fields.get(name, ()))

    def take(self) -> list[Document]:
        ready, self._ready = self._ready, []
        return ready


def xml_documents(source: BinaryIO, name: str) -> Iterator[Document]:
    """The raw XML cut before each `<page>` line: joined in order, the documents are the dump byte for byte.

    What precedes the first page (siteinfo) belongs to the first document, what follows the last page to the last.
    """
    lines: list[bytes] = []
    pages = 0
    for line in source:
        if line.strip() == b"<page>":
            pages += 1
            if pages > 1:
                yield _page(lines, pages - 1, name)
                lines = []
        lines.append(line)
    if not pages:
        raise UserError(f"{name}: has no <page>, so it is not a MediaWiki XML dump. Delete it and fetch it again.")
    yield _page(lines, pages, name)


def _page(lines: list[bytes], number: int, name: str) -> Document:
    try:
        text = b"".join(lines).decode()
    except UnicodeDecodeError as error:
        raise UserError(f"{name}: page {number} is not UTF-8 ({error.reason}). Delete it and fetch it again.") from None
    _, _, rest = text.partition("<title>")
    return Document(str(number), html.unescape(rest.partition("</title>")[0].partition("\n")[0]), text)
