"""claims: the verdict on every claim, from reports/STUDY/claims.json."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from overtone.errors import UserError
from overtone.files import canonical_json, read_json
from overtone.reporting import formats
from overtone.reporting.collect import Results
from overtone.reporting.rows import each
from overtone.reporting.tables.caption import listed
from overtone.reporting.tables.table import Table

COLUMNS = ["id", "paper", "title", "statement", "published", "source", "quantity", "rule", "value", "low", "high", "unit", "at",
           "verdict", "wording", "seeds", "windows", "effect", "power", "needs"]


def build(results: Results, claims: Path | None) -> Table:
    """One row a claim, in the order of the claims file."""
    if claims is None:
        raise UserError("table claims: no verdicts given. Add --claims reports/STUDY/claims.json (overtone claims writes it).")
    content = read_json(claims)
    if not isinstance(content, dict) or not isinstance(content.get("claims"), list):
        raise UserError(f"{claims}: the list 'claims' is missing. Write it again (overtone claims).")
    data = pd.DataFrame([_row(item) for item in content["claims"]], columns=COLUMNS)
    rows = [[row.id, formats.text(row.statement), formats.text(row.published), _measured(row), formats.text(row.at),
             row.verdict if formats.absent(row.wording) else row.wording, formats.number(row.seeds, 0), formats.number(row.windows, 0)]
            for row in each(data)]
    counts = data["verdict"].value_counts()
    told = listed(f"{counts[verdict]} {verdict}" for verdict in sorted(counts.index)) or "none"
    return Table(
        data, ["Claim", "What the paper says", "Published", "Measured [95% interval]", "At", "Verdict", "Seeds", "Windows"], rows,
        f"{len(data)} claims in study {results.study.name}: {told}.",
        [] if results.study.verdicts else [f"Study {results.study.name} is too small to decide claims and never does."],
    )


def _row(item: dict[str, Any]) -> dict[str, Any]:
    low, high = item.get("interval") or (None, None)
    row = {key: item.get(key) for key in COLUMNS if key not in ("low", "high")} | {"low": low, "high": high}
    return {key: canonical_json(value) if isinstance(value, dict | list) else value for key, value in row.items()}


def _measured(row: Any) -> str:
    """Value with interval and unit; the decimals follow from the value's size."""
    if formats.absent(row.value):
        return formats.ABSENT
    digits = 0 if abs(row.value) >= 1000 else 2 if abs(row.value) >= 1 else 3
    unit = "" if formats.absent(row.unit) or not row.unit else f" {row.unit}"
    return formats.interval(row.value, row.low, row.high, digits) + unit
