"""Draw a figure by its name."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd
from matplotlib.figure import Figure

from overtone.errors import UserError
from overtone.reporting import style
from overtone.reporting.modules import figure_function
from overtone.study import EXHIBITS, exhibit


def check_figure(name: str) -> None:
    """UserError for an unknown name and for a table that has no figure."""
    if not exhibit(name).figure:
        drawn = ", ".join(sorted(other for other, item in EXHIBITS.items() if item.figure))
        raise UserError(f"figure {name!r}: this table has no figure. Figures: {drawn}.")


def draw_figure(name: str, data: pd.DataFrame) -> Figure:
    """The figure of a table; without rows one that says so."""
    check_figure(name)
    if data.empty:
        return style.empty()
    drawer: Callable[[str, pd.DataFrame], Figure] = figure_function(name)
    return drawer(name, data)
