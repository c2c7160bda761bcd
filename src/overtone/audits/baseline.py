"""The baseline is the strong one: what the study's attention models do when they run, and how their learning rate was found.

Behaviour, of the architecture as configured in the study (watched, not read off its options):
rope       first layer's scores on a constant sequence: how much they vary at one distance, relative to how much they vary between
           distances. Relative positions vary only with distance; absolute ones or none do not
sdpa       calls of the fused attention in a forward pass, one a layer
cache      times the cache moved or grew in eight steps after a prompt, having been told the length: none
optimizer  fused AdamW updates in a training step, one at least
Tuning, from the results:
trials     learning rates tried, as many as for the architecture with most
           Told as remarks: a chosen rate whose neighbours are far away, and trials shorter than the cells
edge       where the best rate is the smallest or largest tried: bpt gained by the last move to that edge. A large gain says that
           the baseline would go on improving outside the grid
rate       cells trained at another rate than the chosen one: none
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from overtone.audits.report import Row, at_least, at_most
from overtone.audits.results import FinishedCell
from overtone.files import read_json
from overtone.study import Study, sweep_trials

BASELINES = ("transformer", "llama")  # registered models that claims are measured against
EDGE_GAIN = 0.05  # bpt
STEP = 2.0  # ratio of neighbouring rates from which a gap may hang on the grid
_SPREAD = 0.01


def audit_baseline(
    study: Study, cells: Iterable[FinishedCell], results: Path, *, edge_gain: float = EDGE_GAIN
) -> tuple[list[Row], list[str]]:
    """Rows for every attention architecture with a finished cell, and remarks on the other architectures' rates."""
    rows: list[Row] = []
    notes: list[str] = []
    done = list(cells)
    baselines = sorted({item.cell.architecture for item in done if item.cell.model in BASELINES})
    for name in baselines:
        rows += behaviour(name, next(item for item in done if item.cell.architecture == name))
    for protocol in sorted({item.cell.protocol for item in done}):
        chosen = _chosen(study, protocol, results)
        if not chosen:
            notes.append(f"protocol {protocol}: no sweep; {_fixed_rates(done, protocol)}")
        notes += _coarse(study, protocol, chosen)
        for architecture in sorted(chosen):
            if architecture in baselines:
                rows += _tuning(f"{protocol}/{architecture}", architecture, chosen, edge_gain)
                rows.append(_rate_row(protocol, architecture, float(chosen[architecture]["chosen"]), done))
            elif chosen[architecture]["edge"]:
                notes.append(f"protocol {protocol}: {architecture}'s rate {chosen[architecture]['chosen']:g} is at the grid's edge, which "
                             "favours the baseline")
    if not baselines:
        notes.append(f"study {study.name} has no finished cell of {' or '.join(BASELINES)}: nothing is compared with attention")
    return rows, notes


def _chosen(study: Study, protocol: str, results: Path) -> dict[str, Mapping[str, Any]]:
    architectures = sorted({name for name, _, _ in sweep_trials(study, protocol)})
    return {name: read_json(results / "lr_sweep" / protocol / name / "chosen.json") for name in architectures}


def _coarse(study: Study, protocol: str, chosen: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Remarks on a sweep that a comparison may hang on. No interval of the report covers the choice of the rate."""
    notes = []
    rates = sorted({float(trial["rate"]) for item in chosen.values() for trial in item["trials"]})
    step = max((high / low for low, high in pairwise(rates)), default=1.0)
    if step > STEP * 1.001:
        notes.append(f"protocol {protocol}: neighbouring rates are up to {step:.1f} times apart; a finer grid may move a gap by more than "
                     "its interval")
    budget, whole = study.lr_sweep.get(protocol, {}).get("budget"), study.protocols[protocol]["budget"]
    if chosen and budget and budget < whole:
        notes.append(f"protocol {protocol}: rates were tried on {budget} of {whole} tokens; the best of a shorter training may be another")
    return notes


def _fixed_rates(cells: list[FinishedCell], protocol: str) -> str:
    rates = sorted({float(item.metrics["lr"]) for item in cells if item.cell.protocol == protocol})
    return f"one rate {rates[0]:g} for all" if len(rates) == 1 else f"rates set by hand: {', '.join(f'{rate:g}' for rate in rates)}"


def _tuning(subject: str, architecture: str, chosen: Mapping[str, Mapping[str, Any]], edge_gain: float) -> list[Row]:
    most = max(len(item["trials"]) for item in chosen.values())
    own = chosen[architecture]
    rows = [at_least(subject, "trials", len(own["trials"]), most, detail=", ".join(f"{trial['rate']:g}" for trial in own["trials"]))]
    gain, detail = edge_gain_of(own)
    rows.append(at_most(subject, "edge", gain, edge_gain, detail=detail))
    return rows


def edge_gain_of(chosen: Mapping[str, Any]) -> tuple[float, str]:
    """(bpt, words): what the last move towards the edge of the grid gained; 0 where the best rate is inside the grid."""
    trials = [trial for trial in chosen["trials"] if trial["validation_bpt"] is not None]
    if not chosen["edge"]:
        return 0.0, f"best rate {chosen['chosen']:g} is inside the grid"
    if len(trials) < 2:
        return float("inf"), f"{len(trials)} of {len(chosen['trials'])} trials ended ok: no best rate to speak of"
    at = next(index for index, trial in enumerate(trials) if trial["rate"] == chosen["chosen"])
    neighbour = trials[at + 1 if at == 0 else at - 1]
    gain = float(neighbour["validation_bpt"] - trials[at]["validation_bpt"])
    return gain, f"best rate {chosen['chosen']:g} is at the grid's edge, {gain:.3f} bpt better than {neighbour['rate']:g}"


def _rate_row(protocol: str, architecture: str, rate: float, cells: list[FinishedCell]) -> Row:
    own = [item for item in cells if (item.cell.protocol, item.cell.architecture) == (protocol, architecture)]
    off = [item.cell.key for item in own if abs(item.metrics["lr"] / rate - 1) > 1e-6]
    return at_most(
        f"{protocol}/{architecture}", "rate", len(off), 0, detail=f"{len(own)} cells at {rate:g}" + (f"; not {off[0]}" if off else "")
    )


def behaviour(subject: str, item: FinishedCell) -> list[Row]:
    """The four rows of what one attention architecture does, on a model built as its cell's."""
    from overtone.audits.watch import attention_calls, cache_moves, fused_updates, position_spread
    from overtone.models import build_for_cell
    from overtone.models.checkpoint import model_of_config

    config = item.folder / "model" / "config.json"
    model: Any = model_of_config(config) if config.is_file() else build_for_cell(item.cell, 256)
    layers = len(model.blocks)
    calls, scores = attention_calls(model)
    updates, operations = fused_updates(model)
    spread = position_spread(scores) if scores is not None else float("inf")
    return [
        at_most(subject, "rope", spread, _SPREAD, detail="spread of scores at one distance over that between distances"),
        at_least(subject, "sdpa", calls, layers, detail=f"{layers} layers"),
        at_most(subject, "cache", cache_moves(model), 0, detail="static key-value cache over 8 steps"),
        at_least(subject, "optimizer", updates, 1, detail=f"{operations} optimizer kernels a step"),
    ]
