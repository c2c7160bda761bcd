"""training_curves, loss_by_position, lr_sweep: loss by tokens seen, by position in the window, by learning rate."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from overtone.reporting import formats
from overtone.reporting.collect import SPLIT, Results
from overtone.reporting.rows import each, select
from overtone.reporting.statistics import t_interval
from overtone.reporting.tables import caption
from overtone.reporting.tables.compare import groups, interval_columns, scores
from overtone.reporting.tables.table import Table, not_measured
from overtone.training.sweep import best_rate

CURVE_COLUMNS = ["corpus", "tokenizer", "size", "length", "architecture", "seed", "status", "curve", "tokens", "bpt", "lr"]
POSITION_COLUMNS = ["corpus", "tokenizer", "size", "length", "architecture", "seeds", "after", "position", "bpt", "bpt_low",
                    "bpt_high"]
SWEEP_COLUMNS = ["protocol", "architecture", "corpus", "tokenizer", "size", "length", "seed", "lr", "status", "validation_bpt",
                 "chosen"]


def build_training(name: str, results: Results) -> Table:
    """CSV: every point of every curve; text: loss at the end and how soon the Transformer's final loss was reached."""
    cells = results.cells("crossover")
    if cells.empty:
        return not_measured(caption.missing_experiment(results.study, "crossover"), CURVE_COLUMNS)
    data = pd.DataFrame(_curve_rows(cells), columns=CURVE_COLUMNS)
    rows = []
    for place, own in groups(cells):
        finals = [_final(cell.validation_curve) for cell in each(select(own, status="ok"))]
        baseline = select(cells, architecture="transformer", status="ok", length=place["length"], size=place["size"],
                          corpus=place["corpus"], tokenizer=place["tokenizer"], protocol=place["protocol"])
        shares = [_share_needed(cell, baseline) for cell in each(select(own, status="ok"))]
        known = [share for share in shares if share is not None]
        rows.append([
            formats.length(place["length"]), formats.architecture(place["architecture"]),
            formats.count(own["budget"].iloc[0]), formats.number(np.mean(finals)) if finals else _status(own),
            formats.number(100 * np.mean(known), 0) if known and len(known) == len(shares) else formats.ABSENT,
            f"{len(finals)}/{len(own)}",
        ])
    return Table(
        data, ["Length (tokens)", "Architecture", "Budget (tokens)", "Final validation bpt",
               "Share of the budget to the Transformer's final loss, %", "Seeds ok"], rows,
        f"Evenly spaced validations of every run; {caption.setting(cells, scores(cells))}.",
        [*caption.substitution(name, cells), "The share is read off the curve by linear interpolation between validations; "
         "a dash: not reached by every seed."],
    )


def _curve_rows(cells: pd.DataFrame) -> list[dict[str, Any]]:
    rows = []
    for cell in each(cells):
        where = {key: getattr(cell, key) for key in CURVE_COLUMNS[:7]}
        for point in cell.validation_curve or []:
            rows.append(where | {"curve": "validation", "tokens": point["tokens"], "bpt": point["bpt"]})
        for point in cell.curve or []:
            rows.append(where | {"curve": "train", "tokens": point["tokens"], "bpt": point["train_bpt"], "lr": point["lr"]})
    return rows


def _final(curve: list[dict[str, Any]] | None) -> float:
    return float(curve[-1]["bpt"]) if curve else float("nan")


def _status(rows: pd.DataFrame) -> str:
    return " and ".join(sorted(set(rows["status"])))


def _share_needed(cell: Any, baseline: pd.DataFrame) -> float | None:
    """Share of the budget at which the cell's curve first meets the final loss of the Transformer of the same seed."""
    same = select(baseline, seed=cell.seed)
    curve = cell.validation_curve or []
    if same.empty or not same["validation_curve"].iloc[0] or not curve:
        return None
    target = _final(same["validation_curve"].iloc[0])
    for before, point in zip([None, *curve[:-1]], curve, strict=True):
        if point["bpt"] <= target:
            if before is None:
                return float(point["tokens"] / cell.budget)
            part = (before["bpt"] - target) / (before["bpt"] - point["bpt"])
            return float((before["tokens"] + part * (point["tokens"] - before["tokens"])) / cell.budget)
    return None


def build_positions(name: str, results: Results) -> Table:
    """CSV: every bin of positions (after, position], mean over seeds; text: first, middle and last of the longest length."""
    cells = results.cells("crossover")
    if cells.empty:
        return not_measured(caption.missing_experiment(results.study, "crossover"), POSITION_COLUMNS)
    data = pd.DataFrame(_position_rows(cells), columns=POSITION_COLUMNS)
    rows = []
    for place, own in groups(cells):
        part = select(data, architecture=place["architecture"], length=place["length"], size=place["size"],
                      corpus=place["corpus"], tokenizer=place["tokenizer"])
        shown = [_at(part, target) for target in (1, 16, 128, place["length"])]
        rows.append([formats.length(place["length"]), formats.architecture(place["architecture"]),
                     *(shown if len(part) else [_status(own)] * 4)])
    return Table(
        data, ["Length (tokens)", "Architecture", "bpt at position 1", "13 to 16", "97 to 128", "last bin"], rows,
        f"Test loss with 95% t intervals over seeds; {caption.setting(cells, scores(cells))}.",
        caption.substitution(name, cells),
    )


def _at(part: pd.DataFrame, target: int) -> str:
    row = part[part["position"] == target]
    if row.empty:
        return formats.ABSENT
    found = row.iloc[0]
    return formats.interval(found["bpt"], found["bpt_low"], found["bpt_high"], 2)


def _position_rows(cells: pd.DataFrame) -> list[dict[str, Any]]:
    rows = []
    for place, own in groups(cells):
        curves = [item for item in select(own, status="ok")[f"{SPLIT}_loss_by_position"] if item]
        if not curves:
            continue
        edges = curves[0]["position"]
        where = {key: place[key] for key in POSITION_COLUMNS[:5]}
        for index, (after, edge) in enumerate(zip([0, *edges[:-1]], edges, strict=True)):
            found = t_interval([curve["bpt"][index] for curve in curves])
            rows.append(where | {"seeds": len(curves), "after": after, "position": edge} | interval_columns("bpt", found))
    return rows


def build_sweep(name: str, results: Results) -> Table:
    """Every trial of every sweep, the chosen rate marked."""
    trials = results.sweep()
    if trials.empty:
        return not_measured(f"study {results.study.name} has no learning-rate sweep; add one to its lr_sweep.",
                            SWEEP_COLUMNS)
    data = trials[[column for column in SWEEP_COLUMNS if column != "chosen"]].copy()
    data["lr"] = [float(rate) for rate in trials["rate"]]
    data["chosen"] = False
    for _, part in data.groupby(["protocol", "architecture"]):
        best = best_rate((row.lr, float(row.validation_bpt) if row.status == "ok" else None) for row in each(part))
        data.loc[part.index[part["lr"] == best], "chosen"] = True
    rows = [[row.protocol, formats.architecture(row.architecture), f"{row.lr:g}",
             formats.number(row.validation_bpt) if row.status == "ok" else row.status, "chosen" if row.chosen else ""]
            for row in each(data)]
    at_edge = [f"{row.architecture} ({row.protocol}): the chosen rate {row.lr:g} is at the edge of the trials; the best may lie "
               "beyond." for row in each(data[data["chosen"]]) if _edge(data, row)]
    return Table(
        data, ["Protocol", "Architecture", "Learning rate", "Validation bpt", ""], rows,
        f"The same trials for every architecture, "
        f"{caption.span(trials.groupby(['protocol', 'architecture']).size(), 'trial')} each, one seed that no cell uses.",
        [*caption.tuning(results.study, trials), *at_edge],
    )


def _edge(data: pd.DataFrame, row: Any) -> bool:
    rates = select(data, protocol=row.protocol, architecture=row.architecture)["lr"]
    return bool(row.lr in (rates.min(), rates.max()))
