"""hallamonic, hallamonic_positions, hallamonic_cost: a Llama whose attention was replaced, beside its untouched base.

Models are `base`, `base+linear` and `base+dynamic` (RoPE scaling), and one a variant (`VARIANT/phase1` for a phase before its
last). A control is a block that sees later tokens: it is there to be flagged, its numbers are no result.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd

from overtone.reporting import formats
from overtone.reporting.collect import Results
from overtone.reporting.rows import each
from overtone.reporting.statistics import difference, estimate, mean, merged
from overtone.reporting.tables import published
from overtone.reporting.tables.compare import interval_columns
from overtone.reporting.tables.table import Table, not_measured

BPT_COLUMNS = ["source", "transplant", "model", "control", "corpus", "split", "length", "context", "windows", "bpt", "bpt_low", "bpt_high",
               "accuracy", "to_base_bpt", "to_base_bpt_low", "to_base_bpt_high", "random_tokens_bpt", "entropy_floor_bpt"]
POSITION_COLUMNS = ["transplant", "model", "control", "corpus", "length", "context", "after", "position", "bpt"]
_PRICED = {"hours": "dollars", "extrapolated_hours": "extrapolated_dollars"}
COST_COLUMNS = ["kind", "transplant", "variant", "phase", "objective", "control", "tokens", "seconds", "hours", "dollars", "bpt",
                "device", "extrapolated_hours", "extrapolated_dollars", "published_hours", "published_dollars"]


def _needs(results: Results) -> str:
    return (f"study {results.study.name} has no transplant; add one to the study's transplants (the study mini replaces the attention "
            "of a tiny Llama, the study paper that of TinyLlama).")


def build(name: str, results: Results) -> Table:
    """bpt by model, corpus and length; the difference from the untouched base at the same length and targets."""
    found = results.transplants()
    data = pd.DataFrame(
        [*(row for item, parts in found.items() for row in _bpt_rows(item, parts["evaluation"])),
         *({"source": "published", "transplant": "TinyLlama", "context": 2048, "control": False} | row for row in published.hallamonic())],
        columns=BPT_COLUMNS,
    )
    if not found:
        return not_measured(_needs(results), BPT_COLUMNS)
    rows = [
        [row.source, row.model + (" (control)" if row.control else ""), row.corpus, formats.length(row.length),
         formats.interval(row.bpt, row.bpt_low, row.bpt_high),
         formats.interval(row.to_base_bpt, row.to_base_bpt_low, row.to_base_bpt_high, sign=True),
         formats.number(row.random_tokens_bpt, 2), formats.number(row.entropy_floor_bpt, 2)]
        for row in each(data)
    ]
    contexts = sorted({formats.length(parts["evaluation"].get("context")) for parts in found.values()})
    measured = data[data["source"] == "measured"]
    windows, splits = measured["windows"], " and ".join(sorted(set(measured["split"])))
    return Table(
        data, ["Source", "Model", "Corpus", "Length (tokens)", "bpt [95% interval]", "Difference from base, bpt [95% interval]",
               "bpt on random tokens", "Entropy floor, bpt"], rows,
        f"Text: {splits} split. Positional limit of the base: {', '.join(contexts)} tokens; every length predicts the same targets, "
        f"one training run of each model, {windows.min():.0f} windows of the longest length, intervals over windows; {_device(found)}.",
        [*_last_words(found), *_recalls(found), "A causal model cannot average below the entropy floor on uniformly random tokens. The "
         "published model prints 3.83 bpt there with a floor of 14.97: it sees later tokens, so its bits per token are no "
         "measure of a causal model.", "Published: TinyLlama 1.1B on LAMBADA, FineWeb-Edu held out, WikiText validation."],
    )


def _device(found: dict[str, dict[str, Any]]) -> str:
    names = {parts["evaluation"].get("environment", {}).get("device") for parts in found.values()}
    return ", ".join(sorted(name for name in names if name)) or "device not recorded"


def _bpt_rows(transplant: str, evaluation: dict[str, Any]) -> Iterator[dict[str, Any]]:
    longest = max(row["length"] for row in evaluation["rows"])
    base = {(row["corpus"], row["length"]): row for row in evaluation["rows"] if row["model"] == "base"}
    random = {row["model"]: row for row in evaluation.get("random_tokens", [])}
    for row in evaluation["rows"]:
        own = merged(row["window_bpt"], row["length"], longest)
        found = {"source": "measured", "transplant": transplant, "control": is_control(evaluation, row["model"]),
                 "context": evaluation.get("context"), "windows": len(own), "random_tokens_bpt": random.get(row["model"], {}).get("bpt"),
                 "entropy_floor_bpt": random.get(row["model"], {}).get("floor")}
        found |= {key: row.get(key) for key in ("model", "corpus", "split", "length", "accuracy")}
        found |= interval_columns("bpt", estimate(mean, own))
        other = base.get((row["corpus"], row["length"]))
        if other and row["model"] != "base":
            found |= interval_columns("to_base_bpt", estimate(difference, merged(other["window_bpt"], other["length"], longest), own))
        yield found


def is_control(evaluation: dict[str, Any], model: str) -> bool:
    """Whether a model of the evaluation is a control."""
    return bool((evaluation.get("variants") or {}).get(model, {}).get("control"))


def _last_words(found: dict[str, dict[str, Any]]) -> list[str]:
    rows = [row for parts in found.values() for row in parts["evaluation"].get("lambada") or []]
    if not rows:
        return []
    listed = ", ".join(f"{row['model']} {100 * row['accuracy']:.1f}%" for row in rows)
    return [f"Last word of a passage guessed right ({rows[0]['passages']} passages): {listed}."]


def _recalls(found: dict[str, dict[str, Any]]) -> list[str]:
    rows = [row for parts in found.values() for row in parts["evaluation"].get("recall") or []]
    listed = "; ".join(f"{row['model']} at {row['distance']} tokens {row['bpt_first']:.2f} -> {row['bpt_again']:.2f}" for row in rows)
    return [f"A stretch of text read twice, bpt the first and the second time: {listed}."] if listed else []


def build_positions(name: str, results: Results) -> Table:
    """Loss by position at the longest evaluation length."""
    found = results.transplants()
    if not found:
        return not_measured(_needs(results), POSITION_COLUMNS)
    data = pd.DataFrame([row for item, parts in found.items() for row in _position_rows(item, parts["evaluation"])],
                        columns=POSITION_COLUMNS)
    rows = []
    for (model, corpus, length, control), part in data.groupby(["model", "corpus", "length", "control"], sort=False):
        context = part["context"].iloc[0]
        within, beyond = part[part["position"] <= context], part[part["after"] >= context]
        rows.append([f"{model} (control)" if control else str(model), str(corpus), formats.length(length), formats.number(_mean(within)),
                     formats.number(_mean(beyond))])
    return Table(
        data, ["Model", "Corpus", "Length (tokens)", "bpt up to the positional limit", "bpt past it"], rows,
        f"Longest evaluation window, the base's positional limit marked; one training seed; {_device(found)}.",
    )


def _mean(part: pd.DataFrame) -> float | None:
    weights = (part["position"] - part["after"]).astype(float)
    return float((part["bpt"].astype(float) * weights).sum() / weights.sum()) if len(part) else None


def _position_rows(transplant: str, evaluation: dict[str, Any]) -> Iterator[dict[str, Any]]:
    longest = max(row["length"] for row in evaluation["rows"])
    for row in evaluation["rows"]:
        if row["length"] != longest:
            continue
        where = {"transplant": transplant, "model": row["model"], "control": is_control(evaluation, row["model"]),
                 "corpus": row["corpus"], "length": row["length"], "context": evaluation.get("context")}
        edges = row["loss_by_position"]["position"]
        for after, edge, bpt in zip([0, *edges[:-1]], edges, row["loss_by_position"]["bpt"], strict=True):
            yield where | {"after": after, "position": edge, "bpt": bpt}


def build_cost(name: str, results: Results) -> Table:
    """CSV: what each phase cost (kind `phase`) and its learning curve (kind `curve`); text: the phases."""
    found = results.transplants()
    if not found:
        return not_measured(_needs(results), COST_COLUMNS)
    data = pd.DataFrame([row for item, parts in found.items() for row in _cost_rows(item, parts, results.price_of_transplant(item))],
                        columns=COST_COLUMNS)
    phases = data[data["kind"] == "phase"]
    rows = [
        [row.variant + (" (control)" if row.control else ""), f"{row.phase}", row.objective, formats.count(row.tokens),
         formats.duration(row.seconds), formats.number(row.dollars, 4), formats.number(row.bpt), formats.duration(_seconds(row)),
         formats.number(row.extrapolated_dollars, 2), formats.number(row.published_dollars, 0)]
        for row in each(phases)
    ]
    return Table(
        data, ["Variant", "Phase", "Objective", "Tokens", "Time", "Dollars", "bpt at the end", "Time at the published tokens",
               "Dollars at the published tokens", "Published dollars"], rows,
        f"Each phase as measured, and at the same speed for the published number of tokens; {_device(found)}.",
        ["Published: 1.1B parameters, about 15 dollars together; phase 1's tokens are not published, a quarter of phase 2's step is "
         "assumed.",
         "The extrapolation keeps this study's model and device; it says nothing about the size that the paper trained."],
    )


def _seconds(row: Any) -> float | None:
    return None if formats.absent(row.extrapolated_hours) else 3600 * row.extrapolated_hours


def _cost_rows(transplant: str, parts: dict[str, Any], price: float) -> Iterator[dict[str, Any]]:
    costs = {(row["variant"], row["phase"]): row for row in parts["evaluation"].get("cost") or []}
    for phase in parts["phases"]:
        where = {"transplant": transplant, "variant": phase["variant"], "phase": phase["phase"], "objective": phase["objective"],
                 "control": bool(phase.get("control"))}
        cost = costs.get((phase["variant"], phase["phase"]), {})
        yield where | {"kind": "phase", "tokens": phase["tokens"], "seconds": phase["seconds"], "bpt": phase["bpt"]} | {
            key: cost[key] for key in COST_COLUMNS if key in cost and key not in where and key != "seconds"
        } | {dollars: price * cost[hours] for hours, dollars in _PRICED.items() if hours in cost}
        for point in phase["curve"]:
            if point.get("bpt") is not None:
                yield where | {"kind": "curve", "tokens": point["tokens"], "bpt": point["bpt"]}
