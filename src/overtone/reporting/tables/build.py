"""Build a table by its name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from overtone.reporting.collect import Results
from overtone.reporting.modules import table_function
from overtone.reporting.tables.table import Table
from overtone.study import exhibit


def build_table(name: str, results: Results, claims: Path | None = None) -> Table:
    """Compute table NAME; `claims` is reports/STUDY/claims.json, for the table of verdicts. UserError for an unknown name."""
    if exhibit(name).claims:
        verdicts: Callable[[Results, Path | None], Table] = table_function(name)
        return verdicts(results, claims)
    builder: Callable[[str, Results], Table] = table_function(name)
    return builder(name, results)
