"""decode, decode_memory: time per token and memory of decoding after a prefill of the whole context."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from overtone.reporting import formats
from overtone.reporting.collect import Results
from overtone.reporting.rows import each, records
from overtone.reporting.tables import caption, published
from overtone.reporting.tables.table import Table, not_measured, quartile_columns

COLUMNS = ["source", "architecture", "variant", "context", "batch", "status", "ms_per_token", "ms_per_token_q25", "ms_per_token_q75",
           "samples", "prefill_s", "state_bytes", "peak_bytes", "parameters", "speedup_to_transformer"]
_TIME = ["Source", "Context (tokens)", "Batch", "Architecture", "Variant", "Parameters", "ms per token: median [quartiles]",
         "Prefill", "Speed-up over the Transformer of the same variant"]
_MEMORY = ["Context (tokens)", "Batch", "Architecture", "Variant", "State", "State and one more token at its peak"]


def build(name: str, results: Results) -> Table:
    """decode prints times and crossings, decode_memory state and peak."""
    measured = results.benchmark("decode")
    if not measured or not measured["rows"]:
        return not_measured(f"study {results.study.name} has no benchmark decode; run overtone bench decode.", COLUMNS)
    frame = pd.DataFrame(_row(row) for row in measured["rows"])
    for column in COLUMNS:
        if column not in frame:
            frame[column] = None
    frame["speedup_to_transformer"] = [_speedup(frame, row) for row in each(frame)]
    frame["order"] = [formats.architecture_order(item) for item in frame["architecture"]]
    frame = frame.sort_values(["batch", "context", "order", "variant"], kind="stable")
    where = caption.machine(measured.get("environment", {}))
    if name == "decode_memory":
        rows = [[formats.length(row.context), f"{row.batch}", formats.architecture(row.architecture), formats.text(row.variant),
                 formats.size(row.state_bytes), formats.size(row.peak_bytes)] for row in each(frame)]
        words = f"State after a prefill of the context and what it and one more token take at their peak, on {where}."
        return Table(frame[COLUMNS], _MEMORY, rows, words)
    paper: list[dict[str, Any]] = [{"source": "published", "batch": 1} | row for row in published.decode()]
    times = {row["architecture"]: row["ms_per_token"] for row in paper}
    for row in paper:
        row["speedup_to_transformer"] = times["transformer"] / row["ms_per_token"] if row["architecture"] != "transformer" else None
    data = pd.DataFrame([*records(frame[COLUMNS]), *paper], columns=COLUMNS)
    rows = [[row.source, formats.length(row.context), f"{row.batch}", formats.architecture(row.architecture),
             formats.text(row.variant), formats.count(row.parameters), str(row.status) if formats.absent(row.ms_per_token) else
             formats.quartiles(row.ms_per_token, row.ms_per_token_q25, row.ms_per_token_q75),
             formats.duration(row.prefill_s), formats.number(row.speedup_to_transformer, 2)] for row in each(data)]
    return Table(
        data, _TIME, rows, f"Measured after a real prefill of the context, median and quartiles of repeated tokens, on {where}.",
        [*crossings(frame), *_ways(measured["rows"]), *_dropped(measured),
         "Published: 6M parameters, hardware not named; slower at 2K, crossing between 4K and 8K, 6.47 times faster at 32K."],
    )


_WAYS = {
    "compiled": "compiled to machine code", "traced": "as TorchScript", "step": "operator by operator", "cuda_graph": "as a CUDA graph",
    "compiled_cuda_graph": "compiled, as a CUDA graph",
}


def _ways(rows: list[dict[str, Any]]) -> list[str]:
    """How the static steps ran: the fastest way that chose the same tokens."""
    found: dict[str, set[str]] = {}
    for row in rows:
        if row["variant"] == "static" and "path" in row:
            found.setdefault(_WAYS.get(row["path"], row["path"]), set()).add(formats.architecture(row["architecture"]))
    if not found:
        return []
    return ["Static steps ran " + "; ".join(f"{way}: {', '.join(sorted(names))}" for way, names in sorted(found.items())) + "."]


def _dropped(measured: dict[str, Any]) -> list[str]:
    """Ways of stepping that gave other logits than the plain step, and so were not timed."""
    return [f"{formats.architecture(row['architecture'])} at {formats.length(row['context'])}, batch {row['batch']}: not timed "
            f"{_WAYS.get(row['path'], row['path'])}, {row['message']}."
            for row in measured.get("protocol", {}).get("failures", []) if row["status"] == "rejected"]


def _row(row: dict[str, Any]) -> dict[str, Any]:
    kept = {key: row.get(key) for key in ("architecture", "variant", "context", "batch", "prefill_s", "state_bytes", "peak_bytes",
                                          "parameters")}
    return kept | {"source": "measured", "status": row.get("status", "ok")} | quartile_columns("ms_per_token", row.get("ms_per_token"))


def _speedup(frame: pd.DataFrame, row: Any) -> float | None:
    """Transformer's time over this one, of the same variant where it has that, else its fastest."""
    same = frame[(frame["architecture"] == "transformer") & (frame["context"] == row.context) & (frame["batch"] == row.batch)]
    same = same[same["ms_per_token"].notna()]
    if row.architecture == "transformer" or same.empty or formats.absent(row.ms_per_token):
        return None
    variant = same[same["variant"] == row.variant]
    return float((variant if len(variant) else same)["ms_per_token"].min() / row.ms_per_token)


def crossings(frame: pd.DataFrame) -> list[str]:
    """Where ResonatorLM becomes faster than the Transformer, by batch and variant: log-log interpolation between contexts."""
    notes = []
    for (batch, variant), part in frame.groupby(["batch", "variant"], dropna=False):
        own = part[part["architecture"] == "resonator"].set_index("context")["ms_per_token"].dropna()
        other = part[part["architecture"] == "transformer"].set_index("context")["ms_per_token"].dropna()
        shared = sorted(set(own.index) & set(other.index))
        if not shared:
            continue
        slower = [math.log2(own[context] / other[context]) for context in shared]
        found = [
            2 ** (math.log2(a) + (math.log2(b) - math.log2(a)) * left / (left - right))
            for a, b, left, right in zip(shared, shared[1:], slower, slower[1:], strict=False)
            if left > 0 >= right
        ]
        words = (f"crosses at about {found[0]:,.0f} tokens" if found else
                 f"is {'faster' if slower[0] <= 0 else 'slower'} from {formats.length(shared[0])} to {formats.length(shared[-1])}")
        notes.append(f"ResonatorLM against the Transformer, batch {batch}, {formats.text(variant)}: {words}.")
    return notes
