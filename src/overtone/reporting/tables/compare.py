"""Scores of groups of cells that differ only in their seed, and paired comparisons with a reference architecture.

A group shares protocol, corpus, tokenizer, size, length and architecture. Every interval is that of
`overtone.reporting.statistics.estimate` over blocks of the evaluation region and seeds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pandas as pd

from overtone.reporting.collect import PLACE, SPLIT, outcome, paired
from overtone.reporting.formats import architecture_order
from overtone.reporting.rows import select
from overtone.reporting.statistics import Estimate, estimate, holm, mean, power_note, t_interval

SCORE_COLUMNS = (
    *PLACE, "architecture", "status", "failure", "seeds", "seeds_run", "blocks", "parameters", "bpt", "bpt_low", "bpt_high",
    "bpb", "perplexity", "accuracy", "accuracy_low", "accuracy_high", "validation_bpt",
)


def groups(cells: pd.DataFrame) -> Iterator[tuple[dict[str, Any], pd.DataFrame]]:
    """(coordinates without seed, rows) of every group: by place, architectures in their fixed order."""
    keyed = cells.groupby([*PLACE, "architecture"], sort=False, dropna=False)
    for key, rows in sorted(keyed, key=lambda item: (*item[0][:-1], architecture_order(str(item[0][-1])))):
        yield dict(zip([*PLACE, "architecture"], key, strict=True)), rows


def scores(cells: pd.DataFrame) -> pd.DataFrame:
    """One row a group: outcome, counts, bpt with its interval, and the other measures (means over seeds that ended ok)."""
    return pd.DataFrame([place | score(rows) for place, rows in groups(cells)], columns=list(SCORE_COLUMNS))


def score(rows: pd.DataFrame) -> dict[str, Any]:
    """The measures of one group."""
    ended = select(rows, status="ok")
    failures = [item["message"] for item in rows["failure"] if item]
    found: dict[str, Any] = {
        "status": outcome(rows["status"]), "failure": failures[0] if failures else None, "seeds": len(ended),
        "seeds_run": len(rows), "parameters": int(rows["parameters"].iloc[0]),
    }
    if len(ended):
        bits = estimate(mean, *paired(rows))
        accuracy = t_interval(ended[f"{SPLIT}_accuracy"].astype(float))
        found |= interval_columns("bpt", bits) | interval_columns("accuracy", accuracy) | {"blocks": bits.windows}
        found |= {name: float(ended[f"{SPLIT}_{name}"].mean()) for name in ("bpb", "perplexity")}
        found["validation_bpt"] = float(ended["validation_bpt"].mean())
    return found


def interval_columns(name: str, found: Estimate) -> dict[str, Any]:
    """NAME, NAME_low, NAME_high."""
    return {name: found.value, f"{name}_low": found.low, f"{name}_high": found.high}


def comparison_columns(name: str) -> list[str]:
    """Columns that `compare` adds."""
    return [name, f"{name}_low", f"{name}_high", f"{name}_p", f"{name}_p_holm", f"{name}_effect", f"{name}_seeds", f"{name}_power"]


def compare(cells: pd.DataFrame, statistic: Callable[..., Any], name: str, reference: str) -> pd.DataFrame:
    """statistic(reference, architecture) for every group beside the reference at the same place, paired.

    Columns: PLACE, architecture, and those of `comparison_columns`. Holm's correction runs over the places of one
    architecture: the claim is about all lengths (and sizes) at once.
    """
    rows = []
    for where, own in groups(cells):
        other = select(cells, architecture=reference, **{key: where[key] for key in PLACE})
        pair = paired(other, own) if where["architecture"] != reference else []
        if pair:
            found = estimate(statistic, *pair)
            rows.append(where | interval_columns(name, found) | {
                f"{name}_p": found.p, f"{name}_effect": found.effect, f"{name}_seeds": found.seeds, f"{name}_power": power_note(found),
            })
    frame = pd.DataFrame(rows, columns=[*PLACE, "architecture", *comparison_columns(name)])
    for _, part in frame.groupby("architecture"):
        p_values = [None if pd.isna(p) else float(p) for p in part[f"{name}_p"]]
        frame.loc[part.index, f"{name}_p_holm"] = pd.Series(holm(p_values), index=part.index, dtype=float)
    return frame


def with_comparison(table: pd.DataFrame, compared: pd.DataFrame) -> pd.DataFrame:
    """Scores and their comparison in one frame."""
    return table.merge(compared, how="left", on=[*PLACE, "architecture"])
