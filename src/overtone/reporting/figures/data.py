"""Reading a table's CSV, and the pieces that several figures share."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from pandas.api.types import is_numeric_dtype

from overtone.errors import UserError
from overtone.files import StrPath
from overtone.reporting import style
from overtone.reporting.formats import architecture_order

# Columns that hold words, or truth values with gaps; every other column that a figure needs holds numbers.
WORDS = frozenset({
    "architecture", "attention", "audit", "chosen", "control", "corpus", "curve", "id", "kind", "method", "mode", "model", "objective",
    "protocol", "size", "source", "status", "synchronised", "title", "tokenizer", "transplant", "variant", "verdict", "what", "when",
})


def read_table(folder: StrPath, name: str) -> pd.DataFrame:
    """FOLDER/NAME.csv; a missing or damaged file is a UserError that names it."""
    path = Path(folder) / f"{name}.csv"
    try:
        return pd.read_csv(path)
    except FileNotFoundError:
        raise UserError(f"{path}: not found. Write the table first (overtone table {name}).") from None
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: not a table ({error}). Delete it and write the table again (overtone table {name}).") from None


def need(data: pd.DataFrame, columns: Sequence[str], name: str, words: Collection[str] = WORDS) -> None:
    """A UserError where a column is missing (the CSV is of another version) or holds a word among its numbers (edited by hand)."""
    missing = [column for column in columns if column not in data]
    if missing:
        raise UserError(f"{name}.csv: the column {missing[0]!r} is missing. Write the table again (overtone table {name}).")
    for column in columns:
        if column not in words and not is_numeric_dtype(data[column]):
            wrong = data.loc[pd.to_numeric(data[column], errors="coerce").isna() & data[column].notna(), column]
            raise UserError(f"{name}.csv: the column {column!r} holds {wrong.iloc[0]!r}, expected a number. Write the table again "
                            f"(overtone table {name}).")


def by_architecture(data: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """(architecture, rows) in the fixed order."""
    for name in sorted(set(data["architecture"].dropna()), key=architecture_order):
        yield name, data[data["architecture"] == name]


def unique(data: pd.DataFrame, column: str) -> list[Any]:
    """Values of a column in the order of the table, without NaN."""
    return list(dict.fromkeys(data[column].dropna()))


def places(data: pd.DataFrame, columns: Sequence[str] = ("corpus", "tokenizer", "size")) -> list[tuple[Any, ...]]:
    """Distinct combinations in the order of the table."""
    return list(data[list(columns)].drop_duplicates().itertuples(index=False, name=None))


def at_place(data: pd.DataFrame, place: tuple[Any, ...], columns: Sequence[str] = ("corpus", "tokenizer", "size")) -> pd.DataFrame:
    """Rows of one combination."""
    for column, value in zip(columns, place, strict=True):
        data = data[data[column] == value]
    return data


def lines(axis: Axes, data: pd.DataFrame, x: str, y: str, dodge: float = 0.0) -> list[tuple[float, str, str]]:
    """One line an architecture with its intervals; returns (last y, label, colour) of each for direct labels.

    dodge: share of an octave between neighbours, so that intervals at one x stand beside each other.
    """
    labels = []
    names = [name for name, rows in by_architecture(data) if rows[y].notna().any()]
    for index, name in enumerate(names):
        rows = data[(data["architecture"] == name) & data[y].notna()].sort_values(x)
        look = style.look(name)
        at = [value * 2 ** (dodge * (index - (len(names) - 1) / 2)) for value in rows[x]]
        style.series(axis, at, list(rows[y]), look)
        if f"{y}_low" in rows:
            style.errors(axis, at, list(rows[y]), list(rows[f"{y}_low"]), list(rows[f"{y}_high"]), look.color)
        labels.append((float(rows[y].iloc[-1]), look.label, look.color))
    return labels
