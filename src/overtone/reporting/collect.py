"""Read a study's finished measurements: cells as one tidy frame, everything else as the JSON it is.

What the study does not ask for is absent (an empty frame or None). What it asks for must be there: a missing, damaged
or outdated file is a UserError that names it. Cells that ended `oom` or `diverged` are rows like any other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from overtone.errors import UserError
from overtone.files import StrPath, read_json
from overtone.reporting.statistics import Array, matrix, merged
from overtone.study import (
    Cell,
    Study,
    diagnosed_cells,
    experiment_cells,
    load_study,
    measured_audits,
    measured_benchmarks,
    study_cells,
    sweep_trials,
)
from overtone.study.cells import COORDINATES

PLACE = ("protocol", "corpus", "tokenizer", "size", "length")  # what compared architectures share: COORDINATES less theirs and the seed
SPLITS = ("validation", "test")
SPLIT = "test"  # nothing is chosen on it: learning rates are picked on validation
STATUSES = ("ok", "oom", "diverged")
_SCORES = ("bpt", "bpb", "perplexity", "accuracy", "targets", "windows", "window_length", "window_bpt",
           "loss_by_position")
_CELL_KEYS = ("schema", "status", "hash", "parameters", "training_flops", "evaluation", "measured", "environment")
_BENCHMARK_ROWS = {
    "decode": ("architecture", "variant", "batch", "context", "ms_per_token", "state_bytes"),
    "kernel_tail": ("method", "length", "ms"), "memory": ("architecture", "attention", "length", "status", "peak_bytes"),
    "throughput": ("architecture", "length", "tokens_per_s", "synchronised"),
}
_EVALUATION_ROWS = ("model", "corpus", "split", "length", "bpt", "window_bpt")


@dataclass
class Results:
    """The measurements under results/STUDY; each file is read once."""

    study: Study
    root: Path
    _read_files: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def sources(self) -> list[str]:
        """The files read so far, relative to results/STUDY."""
        return list(self._read_files)

    @classmethod
    def open(cls, study: StrPath, root: StrPath) -> Results:
        """From results/STUDY/study.json and results/STUDY."""
        folder = Path(root)
        if not folder.is_dir():
            raise UserError(f"--results {folder}: no such folder. Give results/STUDY of a study that has been run.")
        return cls(load_study(str(study)), folder)

    def cells(self, *experiments: str) -> pd.DataFrame:
        """One row a cell of the named experiments ("*": every cell of the study), sorted by key.

        Columns: the seven coordinates; key, hash, model, hidden, options, training (the cell's config); status,
        failure; parameters, body, embedding; budget, tokens_seen, training_flops, steps, lr, plan; for both splits SPLIT_bpt, _bpb,
        _perplexity, _accuracy, _targets, _windows, _window_length, _window_bpt (array), _loss_by_position;
        train_tokens_per_s, peak_bytes, memory_kind, wall_s, train_s, device; curve, validation_curve, diagnostics;
        path. What a failed cell did not reach is None.
        """
        wanted = study_cells(self.study) if "*" in experiments else [
            cell for name in experiments for cell in experiment_cells(self.study, name)
        ]
        unique = {cell.key: cell for cell in wanted}
        rows = [self._cell(unique[key], f"cells/{key}/metrics.json") for key in sorted(unique)]
        return pd.DataFrame(rows, columns=_columns())

    def sweep(self) -> pd.DataFrame:
        """One row a trial of the learning-rate sweeps: the columns of `cells` and `rate`, its folder's name."""
        rows = [
            self._cell(cell, f"lr_sweep/{protocol}/{architecture}/{rate}/metrics.json", ("validation",)) | {"rate": rate}
            for protocol in sorted(self.study.lr_sweep)
            for architecture, rate, cell in sweep_trials(self.study, protocol)
        ]
        return pd.DataFrame(rows, columns=[*_columns(), "rate"])

    def benchmark(self, name: str) -> dict[str, Any] | None:
        """benchmarks/NAME.json."""
        return self._read(f"benchmarks/{name}.json", ("rows",), _BENCHMARK_ROWS[name]) if name in measured_benchmarks(self.study) else None

    def audit(self, name: str) -> dict[str, Any] | None:
        """audits/NAME.json."""
        return self._read(f"audits/{name}.json", ("rows", "violations")) if name in measured_audits(self.study) else None

    def diagnostics(self) -> dict[str, Any] | None:
        """diagnostics/resonator.json, of a study whose `quality` experiment trains a resonator."""
        return self._read("diagnostics/resonator.json", ("key",)) if diagnosed_cells(self.study) else None

    def transplants(self) -> dict[str, dict[str, Any]]:
        """name -> {"evaluation": evaluation.json, "phases": [every phase's JSON, by variant and phase]}."""
        found = {}
        for name in sorted(self.study.transplants):
            phases = [
                self._read(f"transplants/{name}/{variant}/{phase}.json", ("variant", "phase", "curve"))
                for variant, settings in sorted(self.study.transplants[name]["variants"].items())
                for phase in ("phase1", "phase2")
                if phase in settings
            ]
            evaluation = self._read(f"transplants/{name}/evaluation.json", ("rows",), _EVALUATION_ROWS)
            if not evaluation["rows"]:
                raise UserError(f"{self.root}/transplants/{name}/evaluation.json: no row: damaged. Delete it and run its stage again.")
            found[name] = {"evaluation": evaluation, "phases": phases}
        return found

    def price_of_transplant(self, name: str) -> float:
        """Dollars an hour of what a transplant runs on: its own, or the study's."""
        return float(self.study.transplants[name].get("price_per_hour", self.study.data["price_per_hour"]))

    def _read(self, relative: str, keys: Sequence[str], columns: Sequence[str] = ()) -> dict[str, Any]:
        """A JSON file with these keys; `columns`: what every one of its `rows` has."""
        if relative in self._read_files:
            return self._read_files[relative]
        path = self.root / relative
        data = read_json(path)
        missing = [key for key in keys if not isinstance(data, dict) or key not in data]
        if missing:
            raise UserError(f"{path}: the key {missing[0]!r} is missing: damaged, or of an older version. Run snakemake, which makes it "
                            "again.")
        lacking = [column for row in data["rows"] for column in columns if column not in row] if columns else []
        if lacking:
            raise UserError(f"{path}: a row without {lacking[0]!r}: damaged. Delete the file and run its stage again.")
        self._read_files[relative] = data
        return self._read_files[relative]

    def _cell(self, cell: Cell, relative: str, splits: Sequence[str] = SPLITS) -> dict[str, Any]:
        """One row; `splits`: what a cell that ended ok must have been evaluated on."""
        data = self._read(relative, _CELL_KEYS)
        path = self.root / relative
        if data["status"] not in STATUSES:
            raise UserError(f"{path}: status {data['status']!r}, expected one of {', '.join(STATUSES)}. Run it again.")
        if data["hash"] != cell.hash:
            raise UserError(f"{path}: measured with another configuration (hash {data['hash']}, the study's cell has "
                            f"{cell.hash}). Run snakemake again.")
        if data["status"] == "ok" and not set(splits) <= set(data["evaluation"]):
            raise UserError(f"{path}: status ok without an evaluation of {' and '.join(splits)}. Train the cell again.")
        config = cell.config()
        row: dict[str, Any] = cell.coordinates | {
            "key": cell.key, "hash": cell.hash, "model": cell.model, "hidden": cell.hidden,
            "options": config["options"], "training": config["training"],
            "status": data["status"], "failure": data.get("failure"), "parameters": data["parameters"]["total"],
            "body": data["parameters"]["body"], "embedding": data["parameters"]["embedding"],
            "plan": data.get("plan", {}).get("digest"), "device": data["environment"].get("device"), "path": relative,
        }
        row |= {name: data.get(name) for name in _PLAIN}
        row |= {name: data["measured"].get(name) for name in _MEASURED}
        for split in SPLITS:
            scores = data["evaluation"].get(split, {})
            found, told = len(scores.get("window_bpt", ())), scores.get("windows", 0)
            if found != told:
                raise UserError(f"{path}: evaluation.{split}: {found} window_bpt for {told} windows. Damaged: train the cell again.")
            row |= {f"{split}_{name}": scores.get(name) for name in _SCORES}
        return row


_PLAIN = ("budget", "tokens_seen", "training_flops", "steps", "lr", "curve", "validation_curve", "diagnostics")
_MEASURED = ("train_tokens_per_s", "peak_bytes", "memory_kind", "wall_s", "train_s")


def _columns() -> list[str]:
    scores = [f"{split}_{name}" for split in SPLITS for name in _SCORES]
    return [*COORDINATES, "key", "hash", "model", "hidden", "options", "training", "status", "failure", "parameters",
            "body", "embedding", "plan", "device", "path", *_PLAIN, *_MEASURED, *scores]


def paired(*groups: pd.DataFrame, split: str = SPLIT) -> list[Array]:
    """One (seeds, blocks) matrix of bpt a group, over the seeds for which every group has an `ok` cell.

    A group is the rows of one model at one length: one row a seed. Windows are merged into blocks of the protocol's
    longest length (its evaluation_length), so that all lengths have the same units over the same tokens. [] where no
    seed is common, or where the groups were not evaluated on the same blocks (another corpus or tokenizer).
    """
    ended = [group[group["status"] == "ok"] for group in groups]
    common = sorted(set.intersection(*(set(group["seed"]) for group in ended))) if ended else []
    if not common:
        return []
    indexed = [group.set_index("seed") for group in ended]
    found = [
        matrix([
            merged(row[f"{split}_window_bpt"], int(row[f"{split}_window_length"]), int(row["training"]["evaluation_length"]))
            for row in (rows.loc[seed] for seed in common)
        ])
        for rows in indexed
    ]
    return found if len({array.shape for array in found}) == 1 else []


def outcome(statuses: Iterable[str]) -> str:
    """One word for several seeds: ok if any ended so, else the failure they share (oom before diverged)."""
    found = set(statuses)
    return next((status for status in STATUSES if status in found), "missing")
