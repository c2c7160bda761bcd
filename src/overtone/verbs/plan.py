"""Print what a study will cost before anything starts: cells, tokens, FLOPs, memory, hours and dollars by experiment.

From the study alone, on a named device; with --results calibrated from its finished cells. Hours are device hours: with N devices
the wall time is an N-th. A cell that several experiments share is counted in the first (cells: those of the experiment; runs: those
counted here).
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from overtone.errors import UserError
from overtone.study import Study, experiment_cells, load_study, study_cells, sweep_trials
from overtone.study.schema import read_metrics

if TYPE_CHECKING:
    from overtone.training.forecast import Device, Forecast, Forecaster, Shape
    from overtone.transplant.memory import Shape as Sizes


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `overtone plan`."""
    parser.add_argument("--study", default="mini", metavar="NAME", help="study: a name or a file (default: mini)")
    parser.add_argument("--device", metavar="NAME", help="device to plan for: cpu, or a card such as 'NVIDIA H100 80GB'")
    parser.add_argument("--price", type=float, metavar="USD", help="dollars an hour (default: the study's price_per_hour)")
    parser.add_argument("--results", metavar="DIR", help="results/STUDY: calibrate from the cells that are finished there")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    """Forecast and print."""
    study = load_study(args.study)
    from overtone.training.forecast import find_device

    device = find_device(args.device or ("cpu" if study.data["device"] == "cpu" else "NVIDIA H100 80GB"))
    price = study.data["price_per_hour"] if args.price is None else args.price
    if not 0 <= price < math.inf:
        raise UserError(f"--price: {price:g} found, at least 0 expected.")
    if args.results and not Path(args.results).is_dir():
        raise UserError(f"--results {args.results}: no such folder. Give results/STUDY of a study that has been run, or leave it out.")
    found = forecast_study(study, device, float(price), Path(args.results) if args.results else None)
    print(json.dumps(found, indent=1) if args.json else as_text(found))
    return 0


def finished_metrics(results: Path) -> list[dict[str, Any]]:
    """metrics.json of every finished cell and trial."""
    return [read_metrics(path) for kind in ("cells", "lr_sweep") for path in sorted((results / kind).rglob("metrics.json"))]


def forecast_study(study: Study, device: Device, price: float, results: Path | None) -> dict[str, Any]:
    """Rows by sweep, experiment and transplant, and their total."""
    from overtone.training.forecast import Calibration, Forecaster

    finished = finished_metrics(results) if results else []
    calibration = Calibration(study, device, finished)
    forecaster = Forecaster(study, device, calibration)
    done = {metrics["key"] for metrics in finished}
    counted: set[str] = set()
    rows = []
    for protocol in sorted(study.lr_sweep):
        trials = [forecaster.cell(cell, ("validation",)) for _, _, cell in sweep_trials(study, protocol)]
        rows.append(_row(f"sweep of {protocol}", trials, device, price))
    for name in sorted(study.experiments):
        cells = experiment_cells(study, name)
        new = [cell for cell in cells if cell.key not in counted]
        counted |= {cell.key for cell in new}
        rows.append(_row(name, [forecaster.cell(cell) for cell in new], device, price)
                    | {"cells": len(cells), "finished": sum(cell.key in done for cell in cells)})
    others = [cell for cell in study_cells(study) if cell.key not in counted]
    if others:
        rows.append(_row("transplant bases", [forecaster.cell(cell) for cell in others], device, price))
    for name in sorted(study.transplants):
        rows.append(_row(f"transplant {name}", transplant_runs(study, name, forecaster), device, price))
    total = {key: sum(row[key] for row in rows) for key in ("runs", "tokens", "flops", "hours", "dollars")}
    total["memory_bytes"] = max((row["memory_bytes"] for row in rows), default=0)
    return {
        "study": study.name, "device": device.name, "memory_of_device": device.memory, "price_per_hour": price,
        "calibrated_from_cells": calibration.cells, "rows": rows, "total": total,
        "fits": device.memory is None or total["memory_bytes"] <= device.memory,
        "not_counted": _not_counted(study),
    }


def _row(name: str, runs: Iterable[Forecast], device: Device, price: float) -> dict[str, Any]:
    runs = list(runs)
    hours = sum(run.seconds for run in runs) / 3600
    memory = max((run.memory_bytes for run in runs), default=0)
    return {
        "name": name, "runs": len(runs), "tokens": sum(run.tokens for run in runs), "flops": sum(run.flops for run in runs),
        "parameters": max((run.parameters for run in runs), default=0), "memory_bytes": memory, "hours": hours,
        "dollars": hours * price, "fits": device.memory is None or memory <= device.memory,
    }


def transplant_runs(study: Study, name: str, forecaster: Forecaster) -> list[Forecast]:
    """Every phase of every variant. A phase that learns from the base runs it forward too."""
    from overtone.training import TRAINING_PASSES
    from overtone.transplant.config import load_transplant

    config = load_transplant(study, name)
    runs = []
    for variant in config.variants.values():
        shape, forward, new = transplant_shape(study, config.base, variant.block, config.length)
        for phase in variant.phases:
            passes = TRAINING_PASSES + (phase.objective in ("align", "distill"))
            held = (phase.batch or max(1, phase.tokens_per_step // config.length)) * config.length
            trained = shape.parameters if phase.train == "all" else new
            runs.append(forecaster.run(f"transplant {name}", shape, phase.budget, passes * forward * phase.budget, held, trained))
    return runs


def transplant_shape(study: Study, base: Mapping[str, Any], block: Mapping[str, Any], length: int) -> tuple[Shape, float, int]:
    """(shape, forward FLOPs a token, parameters of the blocks) of a transplanted Llama.

    A base that the study trains is counted as itself, all of it new: its blocks are a small part of little.
    """
    from overtone.study.cells import COORDINATES, make_cell
    from overtone.training.forecast import shape_of_cell
    from overtone.transplant.memory import KNOWN

    if base["kind"] == "cell":
        shape, forward = shape_of_cell(study, make_cell(study, *(base[key] for key in COORDINATES)), length)
        return shape, forward, shape.parameters
    name = str(base.get("repository") or base.get("package"))
    if name not in KNOWN:
        known = ", ".join(sorted(KNOWN))
        raise UserError(f"transplant base {name}: its shape is not known before it is fetched. Known: {known}.")
    return _llama_shape(KNOWN[name], block)


def _llama_shape(base: Sizes, block: Mapping[str, Any]) -> tuple[Shape, float, int]:
    import torch

    from overtone.training.forecast import Shape, through_linear_maps
    from overtone.transplant.model import ContinuedLlama, HarmonicLlamaConfig, HarmonicLlamaForCausalLM, Student

    config = HarmonicLlamaConfig(**base.llama_config(), block=dict(block))
    with torch.device("meta"):
        model: Student = ContinuedLlama(config) if block.get("kind") == "attention" else HarmonicLlamaForCausalLM(config)
    total = sum(value.numel() for value in model.parameters())
    new = sum(value.numel() for part in model.blocks for value in part.parameters())
    embedding = 0 if base.tied else base.vocab_size * base.hidden
    # Forward: a multiplication and an addition a weight; the embedding is a look-up, the recurrence is small beside it.
    return Shape(total, base.hidden, through_linear_maps(model, model.lm_head)), 2.0 * (total - embedding), new


def _not_counted(study: Study) -> list[str]:
    from overtone.training.forecast import region_tokens

    pairs = sorted({(cell.corpus, cell.tokenizer) for cell in study_cells(study)})
    unknown = sorted({corpus for corpus, tokenizer in pairs if not region_tokens(study, corpus, tokenizer, ("validation", "test"))})
    left_out = ["benchmarks, audits and figures"]
    return left_out + ([f"evaluation on {', '.join(unknown)}: size not in the registry"] if unknown else [])


def as_text(found: Mapping[str, Any]) -> str:
    """The forecast as a table."""
    head = ("", "cells", "done", "runs", "tokens", "FLOPs", "memory", "hours", "dollars")
    lines = [
        (row["name"], str(row.get("cells", "")), str(row.get("finished", "")), str(row["runs"]), _short(row["tokens"]),
         f"{row['flops']:.2e}", _short(row["memory_bytes"]) + "B" + ("" if row.get("fits", True) else " (does not fit)"),
         f"{row['hours']:.2f}", f"{row['dollars']:.2f}")
        for row in [*found["rows"], {"name": "total", **found["total"]}]
    ]
    widths = [max(len(line[column]) for line in [head, *lines]) for column in range(len(head))]
    basis = (
        f"calibrated from {found['calibrated_from_cells']} finished cells"
        if found["calibrated_from_cells"]
        else "from the study alone: rates are assumptions (docs/training.md)"
    )
    title = f"study {found['study']} on {found['device']}, {found['price_per_hour']:g} dollars an hour; {basis}"
    table = ["  ".join(text.ljust(width) if column == 0 else text.rjust(width) for column, (text, width) in
                       enumerate(zip(line, widths, strict=True))).rstrip() for line in [head, *lines]]
    card = found["memory_of_device"]
    room = [
        f"{row['name']}: {_short(row['parameters'])} parameters take {_short(row['memory_bytes'])}B of {_short(card)}B: "
        f"{'fits' if row['fits'] else 'does not fit'}"
        for row in found["rows"] if card and row["name"].startswith("transplant ")
    ]
    return "\n".join([title, *table, *room, f"not counted: {'; '.join(found['not_counted'])}"])


def _short(number: float) -> str:
    for limit, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "K")):
        if number >= limit:
            return f"{number / limit:.1f}{unit}"
    return f"{number:g}"
