"""One cell from token files to metrics.json: build, train (or go on), evaluate, store the weights, report."""

from __future__ import annotations

import math
import os
import shutil
import socket
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from overtone.corpora.tokenfile import TokenFile
from overtone.errors import UserError
from overtone.files import atomic_folder, digest_json, sha256_file
from overtone.models import build_for_cell, flops_per_token, parameter_counts, save_checkpoint
from overtone.models.tokenizer_files import save_hf_tokenizer
from overtone.provenance import cpu_name, environment, sources_digest
from overtone.study import Cell
from overtone.training import TRAINING_PASSES
from overtone.training.devices import torch_device
from overtone.training.evaluate import score_region, summarise, target_count
from overtone.training.interrupt import StopFlag
from overtone.training.locks import cell_lock
from overtone.training.loop import CellFailed, Trainer
from overtone.training.memory import MemoryMeter, OutOfMemory, as_out_of_memory, warm_up
from overtone.training.metrics import cell_metrics, write_metrics
from overtone.training.parallel import Ranks
from overtone.training.plan import Plan
from overtone.training.progress import Progress, command_line
from overtone.training.protocol import TrainingProtocol
from overtone.training.run import LN2
from overtone.training.stream import Region

SPLITS = ("train", "validation", "test")
BATCH_TOKENS = {"cpu": 8192, "cuda": 131072}  # tokens of one evaluation batch
CURVE_TOKENS = 16384  # validation tokens of one point of the validation curve


def train_cell(
    cell: Cell,
    tokens_dir: str | Path,
    out: str | Path,
    state_dir: str | Path,
    *,
    rate: float | None = None,
    device: str = "cpu",
    stop: StopFlag | None = None,
    tensorboard: Path | None = None,
    evaluated: Sequence[str] = ("validation", "test"),
) -> dict[str, Any]:
    """Train and evaluate one cell, resuming what STATE/HASH holds; write OUT and model/ beside it, return the metrics.

    rate: the peak learning rate of a swept cell. device: cpu, cuda or auto. evaluated: the splits that are read afterwards; what a
    rate is chosen by does not read test. Raises UserError for what the user can mend
    and Interrupted after a stop signal; `oom` and `diverged` are outcomes, not errors.
    """
    began = time.perf_counter()
    protocol = TrainingProtocol.from_cell(cell)
    peak_rate = _rate(cell, protocol, rate)
    files = {split: TokenFile.open(Path(tokens_dir) / f"{split}.json", verify=True) for split in SPLITS}
    for split in ("validation", "test"):
        if files[split].tokenizer != files["train"].tokenizer:
            raise UserError(
                f"{files[split].path}: of another tokenizer ({files[split].tokenizer[:12]}) than train.json "
                f"({files['train'].tokenizer[:12]}). Run `overtone tokenize` for every split again."
            )
        target_count(files[split].tokens, protocol.evaluation_length)
    plan = Plan(
        files["train"].digest,
        files["train"].tokens,
        cell.length,
        protocol.budget,
        protocol.tokens_per_step,
        cell.seed,
        protocol.carry_state,
    )
    progress = Progress(cell.key, tensorboard)
    where = torch_device(device, progress.log)
    ranks = Ranks.join(where)
    if protocol.carry_state and ranks.world > 1:
        raise UserError(f"cell {cell.key}: carry_state trains on one device; set gpus_per_cell: 1.")
    folder = Path(state_dir) / cell.hash
    progress.log(
        f"{cell.key} on {socket.gethostname()}, {_device_name(where)}, process {os.getpid()}: {command_line()}"
    )
    progress.log(f"{plan.windows} windows of {plan.length} tokens in {plan.steps} steps, peak rate {peak_rate:g}")
    with cell_lock(folder if ranks.rank == 0 else folder / f"rank-{ranks.rank}"):
        job = _Job(cell, plan, protocol, peak_rate, files, where, ranks, folder, stop or StopFlag(), progress, evaluated)
        try:
            metrics = job.run(Path(out), began)
        finally:
            progress.close()
        ranks.worst(0, where)  # nobody removes the state before rank 0 has written the results
        if ranks.rank == 0:
            shutil.rmtree(folder, ignore_errors=True)
    ranks.leave()
    return metrics


def _rate(cell: Cell, protocol: TrainingProtocol, rate: float | None) -> float:
    if protocol.lr is not None:
        return float(protocol.lr)
    if rate is None:
        raise UserError(
            f"cell {cell.key}: its learning rate is swept. Give --rate-file chosen.json (of overtone choose-rate)."
        )
    return float(rate)


def _device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else cpu_name()


class _Job:
    """The stages of one cell, sharing what they all need."""

    def __init__(
        self,
        cell: Cell,
        plan: Plan,
        protocol: TrainingProtocol,
        rate: float,
        files: dict[str, TokenFile],
        device: torch.device,
        ranks: Ranks,
        folder: Path,
        stop: StopFlag,
        progress: Progress,
        evaluated: Sequence[str],
    ) -> None:
        self.evaluated = evaluated
        self.cell, self.plan, self.protocol, self.rate = cell, plan, protocol, rate
        self.files, self.device, self.ranks, self.folder = files, device, ranks, folder
        self.stop, self.progress = stop, progress
        self.regions = {split: Region.of(file) for split, file in files.items()}
        self.model = build_for_cell(cell, files["train"].vocab_size).to(device)
        self.parameters = {name: int(count) for name, count in parameter_counts(self.model).items() if name != "parts"}
        self.flops_per_token = TRAINING_PASSES * flops_per_token(self.model, cell.length)
        warm_up(self.model)
        limit = None if protocol.memory_limit_gb is None else int(protocol.memory_limit_gb * 1e9)
        fingerprint = digest_json([cell.config(), rate, plan.origin, sources_digest("ops", "models", "training")])
        self.trainer = Trainer(
            self.model,
            plan,
            protocol,
            rate,
            self.regions["train"],
            folder=folder,
            fingerprint=fingerprint,
            stop=stop,
            ranks=ranks,
            memory=MemoryMeter(self.model, device, limit),
            log=progress.log,
            on_step=lambda run, nats: progress.step(run, nats, run.curve[-1]["lr"] if run.curve else rate),
        )

    def run(self, out: Path, began: float) -> dict[str, Any]:
        """Train, evaluate, store, report."""
        status, failure, evaluation, weights, after = "ok", None, {}, None, {}
        evaluated_s, targets = 0.0, 0
        self.progress.start(self.plan.tokens)
        try:
            self.trainer.train(self.validate)
            started = time.perf_counter()
            for split in self.evaluated:
                evaluation[split] = self.evaluate(split)
                targets += evaluation[split]["targets"]
            evaluated_s = time.perf_counter() - started
            after = self.model.diagnostics()
        except CellFailed as outcome:
            status, failure, evaluation = outcome.status, outcome.failure, {}
        run = self.trainer.run
        run.peak_bytes = max(run.peak_bytes, self.trainer.memory.peak())
        if self.ranks.rank != 0:
            return {}
        if status == "ok":
            weights = self.store(out.parent)
        elif (out.parent / "model").exists():
            shutil.rmtree(out.parent / "model")
        metrics = cell_metrics(
            self.cell,
            self.plan,
            run,
            status=status,
            failure=failure,
            rate=self.rate,
            parameters=self.parameters,
            flops_per_token=self.flops_per_token,
            tokens={split: file.digest for split, file in self.files.items()},
            evaluation=evaluation,
            diagnostics_after=after,
            weights=weights,
            environment=self.environment(),
            measured={
                "train_tokens_per_s": run.timed_tokens / run.timed_s if run.timed_s else None,
                "eval_tokens_per_s": targets / evaluated_s if evaluated_s else None,
                "peak_bytes": run.peak_bytes,
                "memory_kind": self.trainer.memory.kind,
                "wall_s": time.perf_counter() - began,
                "train_s": run.train_s,
                "synchronised": True,
            },
        )
        write_metrics(out, metrics)
        told = (
            f"validation {evaluation['validation']['bpt']:.4f} bpt"
            if status == "ok" and evaluation
            else (failure or {}).get("message")
        )
        self.progress.log(f"{status}: {told}; {time.perf_counter() - began:.1f} s")
        return metrics

    def environment(self) -> dict[str, Any]:
        """Versions, device, threads and commit of this run."""
        return environment(_device_name(self.device), torch.get_num_threads()) | {"ranks": self.ranks.world}

    def score(self, split: str, length: int, windows: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Loss and hit of every target of a region, shared among the ranks."""
        targets = target_count(self.regions[split].size, self.protocol.evaluation_length)
        if windows is None and self.ranks.world > 1:
            windows = np.arange(-(-targets // length))
        if windows is not None:
            windows = np.array_split(windows, self.ranks.world)[self.ranks.rank]
        losses, hits = np.zeros(targets, dtype=np.float32), np.zeros(targets, dtype=bool)
        memory: OutOfMemory | None = None
        try:
            losses, hits = score_region(
                self.model, self.regions[split], targets, length, batch_tokens=BATCH_TOKENS[self.device.type],
                carry_state=self.protocol.carry_state, windows=windows, between=self.between, autocast=self.trainer.autocast,
            )
        except Exception as error:
            if (memory := as_out_of_memory(error)) is None:
                raise
        if self.ranks.worst(int(memory is not None), self.device):
            raise self.trainer.out_of_memory(memory or OutOfMemory("another rank ran out of memory", None))
        if self.ranks.world > 1:
            both = torch.from_numpy(np.stack([losses, hits.astype(np.float32)])).to(self.device)
            losses, summed = self.ranks.sum(both).cpu().numpy()
            hits = summed > 0
        return losses, hits

    def between(self) -> None:
        """Between evaluation batches: stop where asked to. Training work is in a checkpoint unless none was due yet."""
        if self.stop.signum is not None and self.ranks.world == 1:
            self.trainer.save()
            self.stop.check()

    def validate(self) -> float:
        """One point of the validation curve: bpt over evenly spaced blocks of the region, the same at every length."""
        block = self.protocol.evaluation_length
        targets = target_count(self.regions["validation"].size, block)
        length = self.cell.length
        if self.protocol.carry_state:
            losses, _ = self.score("validation", length)
            return float(losses.mean(dtype=np.float64)) / LN2
        blocks = np.unique(np.linspace(0, targets // block - 1, max(1, CURVE_TOKENS // block)).round().astype(int))
        windows = np.unique(
            np.concatenate([np.arange(b * block // length, -(-(b + 1) * block // length)) for b in blocks])
        )
        losses, _ = self.score("validation", length, windows)
        counted = np.concatenate([losses[w * length : (w + 1) * length] for w in windows])
        return float(counted.mean(dtype=np.float64)) / LN2

    def evaluate(self, split: str) -> dict[str, Any]:
        """Every measure of a region; a loss that is not finite is the outcome `diverged`."""
        losses, hits = self.score(split, self.cell.length)
        measures = summarise(losses, hits, self.cell.length, self.files[split])
        if not math.isfinite(measures["bpt"]) or not math.isfinite(measures["perplexity"]):
            raise self.trainer.diverged(f"{split} loss in bpt", measures["bpt"])
        return measures

    def store(self, folder: Path) -> dict[str, str]:
        """Write the weights and the tokenizer to FOLDER/model, whole or not at all."""
        final = folder / "model"
        with atomic_folder(final) as part:
            save_checkpoint(self.model, part)
            tokens = self.files["train"].path.parent
            if (tokens / "tokenizer.json").is_file():  # ids may come from elsewhere, without a tokenizer
                save_hf_tokenizer(tokens, part)
        return {"file": "model/model.safetensors", "sha256": sha256_file(final / "model.safetensors")}
