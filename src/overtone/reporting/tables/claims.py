"""claims: the verdict on every claim, from reports/STUDY/claims.json."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from overtone.errors import UserError
from overtone.files import canonical_json, read_json
from overtone.reporting import formats
from overtone.reporting.collect import Results, each
from overtone.reporting.tables.caption import listed
from overtone.reporting.tables.table import Table

COLUMNS = ["id", "paper", "statement", "published", "source", "quantity", "value", "low", "high", "verdict", "rule", "seeds", "windows",
           "effect", "power", "needs"]


def build(results: Results, claims: Path | None) -> Table:
    """One row a claim, in the order of the claims file."""
    if claims is None:
        raise UserError("table claims: no verdicts given. Add --claims reports/STUDY/claims.json (overtone claims writes it).")
    content = read_json(claims)
    if not isinstance(content, dict) or not isinstance(content.get("claims"), list):
        raise UserError(f"{claims}: the list 'claims' is missing. Write it again with `overtone claims`.")
    data = pd.DataFrame([_row(item) for item in content["claims"]], columns=COLUMNS)
    rows = [[row.id, row.statement or "", _text(row.published), formats.interval(row.value, row.low, row.high, _digits(row.value)),
             row.verdict, _count(row.seeds), _count(row.windows)] for row in each(data)]
    counts = data["verdict"].value_counts()
    told = listed(f"{counts[verdict]} {verdict}" for verdict in sorted(counts.index)) or "none"
    return Table(
        data, ["Claim", "What the paper says", "Published", "Measured [95% interval]", "Verdict", "Seeds", "Windows"], rows,
        f"The verdict on each of {len(data)} claims in study {results.study.name}: {told}.",
        [] if results.study.verdicts else [f"Study {results.study.name} is too small to decide claims and never does."],
    )


def _row(item: dict[str, Any]) -> dict[str, Any]:
    low, high = item.get("interval") or (None, None)
    row = {key: item.get(key) for key in COLUMNS if key not in ("low", "high")} | {"low": low, "high": high}
    return {key: _text(value) if isinstance(value, dict | list) else value for key, value in row.items()}


def _text(value: Any) -> str:
    if formats.absent(value):
        return formats.ABSENT
    return value if isinstance(value, str) else canonical_json(value) if isinstance(value, dict | list) else f"{value:g}"


def _count(value: Any) -> str:
    return formats.ABSENT if formats.absent(value) else f"{value:.0f}"


def _digits(value: Any) -> int:
    return 2 if formats.absent(value) or abs(value) >= 1 else 3
