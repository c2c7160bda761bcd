"""Tables and figures as the page shows them: everything inside the page, so that it needs no network and no files beside it.

Reads reports/STUDY/tables/NAME.{meta.json,md,csv} and figures/NAME.{svg,png,pdf}.
"""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from overtone.errors import UserError
from overtone.files import read_json
from overtone.study import EXHIBITS, Exhibit

SVG_LIMIT = 1_000_000  # bytes; a larger drawing is shown as its PNG
EMBED_LIMIT = 400_000  # bytes; a larger file is linked beside the page instead of embedded
_TYPES = {"svg": "image/svg+xml", "png": "image/png", "pdf": "application/pdf", "csv": "text/csv", "tex": "text/x-tex"}


@dataclass(frozen=True)
class Download:
    """A file a reader can take along: `href` is the data itself, or a path relative to the page."""

    label: str
    name: str
    href: str


@dataclass(frozen=True)
class Shown:
    """One exhibit, ready for the template."""

    name: str
    paper: str
    title: str
    caption: str
    notes: Sequence[str]
    measured: bool
    needs: str | None
    image: str | None  # data URI
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    numeric: Sequence[bool]
    downloads: Sequence[Download]
    sources: Sequence[str]


def show_exhibits(reports: Path, page: Path) -> list[Shown]:
    """Every exhibit, in the order of `overtone.study.EXHIBITS`; UserError where a table or a figure is missing or empty."""
    tables = {item.name: reports / "tables" / f"{item.name}.meta.json" for item in EXHIBITS.values()}
    if not any(path.is_file() for path in tables.values()):
        raise UserError(f"{reports / 'tables'}: no table. Build tables and figures first (snakemake --cores all).")
    for name, path in tables.items():
        for suffix in (".meta.json", ".md", ".csv", ".tex"):
            _rendered(path.with_name(f"{name}{suffix}"), f"overtone table {name}")
        if EXHIBITS[name].figure:
            _rendered(reports / "figures" / f"{name}.svg", f"overtone figure {name}")
    return [_show(item, reports, page) for item in EXHIBITS.values()]


def _rendered(path: Path, command: str) -> None:
    if not path.is_file() or not path.stat().st_size:
        raise UserError(f"{path}: {'empty' if path.is_file() else 'not found'}. Render it again ({command}).")


def _show(item: Exhibit, reports: Path, page: Path) -> Shown:
    table, figure = reports / "tables" / item.name, reports / "figures" / item.name
    meta: dict[str, Any] = read_json(f"{table}.meta.json")
    if not isinstance(meta, dict) or not {"caption", "measured"} <= set(meta):
        raise UserError(f"{table}.meta.json: damaged, no caption in it. Render it again (overtone table {item.name}).")
    header, rows, numeric = read_pipe_table(Path(f"{table}.md"))
    files = [*([figure.with_suffix(f".{kind}") for kind in ("svg", "pdf")] if item.figure else []),
             *(table.with_suffix(f".{kind}") for kind in ("csv", "tex"))]
    return Shown(
        name=item.name, paper=item.paper, title=item.title, caption=meta["caption"], notes=meta.get("notes") or [],
        measured=bool(meta["measured"]), needs=meta.get("needs"), image=_image(figure) if item.figure else None,
        header=header, rows=rows, numeric=numeric, downloads=[_download(path, page) for path in files if path.is_file()],
        sources=meta.get("sources") or [],
    )


def data_uri(path: Path) -> str:
    """The file as a data URI. An SVG in an <img> is a document of its own: its ids cannot collide and its scripts cannot run."""
    return f"data:{_TYPES[path.suffix[1:]]};base64,{base64.b64encode(path.read_bytes()).decode()}"


def _image(figure: Path) -> str:
    svg, png = figure.with_suffix(".svg"), figure.with_suffix(".png")
    return data_uri(png if svg.stat().st_size > SVG_LIMIT and png.is_file() else svg)


def _download(path: Path, page: Path) -> Download:
    """SVGs are linked (the page has them once already, and its script hands that copy out); other small files are embedded."""
    embed = path.suffix != ".svg" and path.stat().st_size <= EMBED_LIMIT
    return Download(path.suffix[1:].upper(), path.name, data_uri(path) if embed else os.path.relpath(path, page.parent))


def read_pipe_table(path: Path) -> tuple[list[str], list[list[str]], list[bool]]:
    """Header, rows and which columns are numbers (right-aligned) of the first Markdown table of a file; empty without one."""
    if not path.is_file():
        raise UserError(f"{path}: not found. Build the table again (overtone table {path.stem}).")
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    if len(lines) < 2:
        return [], [], []
    header, marks, *rows = (_cells(line) for line in lines)
    return header, rows, [mark.endswith(":") for mark in marks]


def _cells(line: str) -> list[str]:
    parts = re.split(r"(?<!\\)\|", line.strip())[1:-1]
    return [_plain(part.strip()) for part in parts]


def _plain(text: str) -> str:
    """Undo `formats.escape_markdown`."""
    return re.sub(r"\\([\\|*`])", r"\1", text).replace("&lt;", "<").replace("&gt;", ">")
