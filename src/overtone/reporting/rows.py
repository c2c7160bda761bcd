"""Rows of a data frame: chosen, one by one, as dicts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd


def select(frame: pd.DataFrame, **equal: Any) -> pd.DataFrame:
    """Rows whose columns equal the given values."""
    mask = np.ones(len(frame), dtype=bool)
    for column, value in equal.items():
        mask &= (frame[column] == value).to_numpy()
    return frame[mask]


def each(frame: pd.DataFrame) -> Iterator[Any]:
    """Rows as named tuples, columns as attributes (typed Any: pandas' own annotation is a union of everything)."""
    yield from frame.itertuples(index=False)


def records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows as plain dicts."""
    return [{str(key): value for key, value in row.items()} for row in frame.to_dict("records")]
