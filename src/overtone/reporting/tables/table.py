"""A table: tidy data for machines, text for people, one caption; and its four files.

    NAME.csv        every number, tidy: one row a measurement, intervals as columns NAME_low, NAME_high (95%). Figures
                    read this file and nothing else. Units are in the column names (bpt, _pct, _bytes, _s, _ms)
                    or follow from them: tokens for lengths, counts for parameters.
    NAME.md, .tex   the rows a reader wants, formatted; caption first
    NAME.meta.json  title, caption, notes, study, and which measurements it was computed from
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from overtone.files import StrPath, write_json, write_text
from overtone.reporting.collect import Results
from overtone.reporting.formats import escape_latex, escape_markdown, latex_table, markdown_table
from overtone.study import exhibit

NOT_MEASURED = "not measured in this study"


@dataclass
class Table:
    """`data`: the CSV. `header`, `rows`: what people read. `caption`: one sentence. `needs`: why there is no data, if so."""

    data: pd.DataFrame
    header: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    caption: str = ""
    notes: list[str] = field(default_factory=list)
    needs: str | None = None

    @property
    def measured(self) -> bool:
        """Whether there is anything to show."""
        return self.needs is None


def not_measured(needs: str, columns: Sequence[str]) -> Table:
    """A table without data: it says what it would take."""
    return Table(pd.DataFrame(columns=list(columns)), caption=f"{NOT_MEASURED[0].upper()}{NOT_MEASURED[1:]}: {needs}",
                 needs=needs)


def quartile_columns(name: str, found: Mapping[str, Any] | None) -> dict[str, Any]:
    """NAME, NAME_q25, NAME_q75 and samples of `{median, q25, q75, samples}`; nothing where nothing was measured."""
    if not found:
        return {}
    return {name: found["median"], f"{name}_q25": found["q25"], f"{name}_q75": found["q75"], "samples": len(found.get("samples", []))}


def markdown(name: str, table: Table) -> str:
    """Caption, table, notes."""
    body = markdown_table(table.header, table.rows) if table.rows else f"*{NOT_MEASURED}*"
    notes = "".join(f"\n- {escape_markdown(note)}" for note in table.notes)
    title = exhibit(name).title
    return f"**{escape_markdown(title)}.** {escape_markdown(table.caption)}\n\n{body}\n" + (f"{notes}\n" if notes else "")


def latex(name: str, table: Table) -> str:
    """The caption as a comment, then a tabular to put into a table environment of one's own."""
    header, rows = (table.header, table.rows) if table.rows else ([exhibit(name).title], [[NOT_MEASURED]])
    notes = "".join(f"% {escape_latex(note)}\n" for note in table.notes)
    return f"% {escape_latex(exhibit(name).title)}. {escape_latex(table.caption)}\n{notes}{latex_table(header, rows)}\n"


def meta(name: str, table: Table, results: Results) -> dict[str, Any]:
    """The sidecar."""
    sources = sorted(results.sources)
    return {
        "name": name, "title": exhibit(name).title, "paper": exhibit(name).paper, "caption": table.caption,
        "notes": table.notes, "measured": table.measured, "needs": table.needs, "study": results.study.name,
        "cells": sum(path.startswith("cells/") for path in sources), "rows": len(table.data), "sources": sources,
    }


def write_table(name: str, table: Table, results: Results, folder: StrPath) -> None:
    """Write the four files of table NAME; the CSV last."""
    base = Path(folder)
    write_text(base / f"{name}.md", markdown(name, table))
    write_text(base / f"{name}.tex", latex(name, table))
    write_json(base / f"{name}.meta.json", meta(name, table, results))
    write_text(base / f"{name}.csv", table.data.to_csv(index=False, lineterminator="\n"))
