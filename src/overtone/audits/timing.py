"""Timing: a throughput counts only if the device was waited for, and none exceeds what the device can calculate.

synchronised   cells and benchmark rows that were timed without waiting for the device: none
rate           training FLOP/s = tokens/s x FLOPs a token, at most the device's peak. Training counts three forward passes; norms,
               activations and the optimizer are left out, so the rate is a lower bound and a violation is certain

The published 6.45 million tokens a second were read from a clock that did not wait for the GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from overtone.audits.peak import cpu_peak, sheet_peak
from overtone.audits.report import Row, at_most
from overtone.audits.results import FinishedCell
from overtone.files import read_json
from overtone.provenance import cpu_name
from overtone.training import TRAINING_PASSES

MARGIN = 1.1  # a core's clock may have been higher than when its peak was measured


class Peaks:
    """Peak FLOP/s by environment: this CPU's measured once, a GPU's from its data sheet, None where neither is known."""

    def __init__(self, measure: Callable[[int], float] = cpu_peak) -> None:
        self._measure = measure
        self._one_core: float | None = None

    def of(self, environment: Mapping[str, Any]) -> float | None:
        """FLOP/s of the devices of one run (`ranks` of them)."""
        if environment["device"] in ("cpu", environment["processor"]):
            if environment["processor"] != cpu_name():
                return None
            if self._one_core is None:
                self._one_core = self._measure(1)
            one: float | None = MARGIN * self._one_core * (environment.get("threads") or environment["cores"])
        else:
            one = sheet_peak(environment["device"], "bfloat16")
        return one and one * environment.get("ranks", 1)


def audit_timing(cells: Iterable[FinishedCell], results: Path, peaks: Peaks | None = None) -> tuple[list[Row], list[str]]:
    """Rows for every timed cell and every row of benchmarks/throughput.json, and remarks on devices without a known peak."""
    peaks = peaks or Peaks()
    rows: list[Row] = []
    notes: dict[str, None] = {}
    loose, timed = [], 0
    for item in cells:
        measured = item.metrics["measured"]
        if not item.ok or measured.get("train_tokens_per_s") is None:
            continue
        timed += 1
        if not measured["synchronised"]:
            loose.append(item.cell.key)
        flops = TRAINING_PASSES * checkpoint_flops(item.folder / "model", item.cell.length)
        _judge(rows, notes, item.cell.key, measured["train_tokens_per_s"] * flops, item.metrics["environment"], peaks)
    rows.insert(0, at_most("cells", "synchronised", len(loose), 0, detail=f"{timed} timed cells" + (f"; not {loose[0]}" if loose else "")))
    file = results / "benchmarks" / "throughput.json"
    if file.is_file():
        _benchmark(rows, notes, read_json(file), peaks)
    return rows, list(notes)


def checkpoint_flops(folder: Path, length: int) -> float:
    """Forward FLOPs a token of the model stored in a folder, from its configuration alone."""
    import torch

    from overtone.models import flops_per_token
    from overtone.models.checkpoint import model_of_config

    with torch.device("meta"):
        return float(flops_per_token(model_of_config(folder / "config.json"), length))


def _benchmark(rows: list[Row], notes: dict[str, None], content: Mapping[str, Any], peaks: Peaks) -> None:
    for row in content["rows"]:
        subject = f"throughput/{row['architecture']}/{row['length']}"
        if not row["synchronised"]:
            notes[f"{subject}: timed without waiting for the device, shown for comparison only"] = None
        else:
            _judge(rows, notes, subject, row["tokens_per_s"]["median"] * row["training_flops_per_token"], content["environment"], peaks)


def _judge(rows: list[Row], notes: dict[str, None], subject: str, rate: float, environment: Mapping[str, Any], peaks: Peaks) -> None:
    peak = peaks.of(environment)
    if peak is None:
        notes[f"{environment['device']}: its peak is not known here, so its throughput is not judged"] = None
    else:
        where = environment["processor"] if environment["device"] == "cpu" else environment["device"]
        rows.append(at_most(subject, "rate", rate, peak, detail=f"{rate / peak:.1%} of the peak of {where}"))
