"""Training throughput: tokens a second of whole optimizer steps, by length, at equal tokens a step.

A step is forward, loss, backward, clipping and AdamW as in training. Repetitions are interleaved (every architecture once, then
every architecture again), so that a busy minute of the machine hits all alike; the device is waited for before the clock is read.
On a GPU the same steps are also timed without waiting: rows with `synchronised: false`, which show what a published rate of
that kind is worth, not a rate. On a CPU nothing is queued and the two are the same.
"""

from __future__ import annotations

import argparse
import time
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from typing import Any

import torch

from overtone.benchmarks.candidates import Candidate, candidates_of
from overtone.benchmarks.clock import CLOCK, summary, synchronise
from overtone.benchmarks.plain_table import aligned
from overtone.benchmarks.settings import add_settings, device_name, resolve_settings, setting
from overtone.errors import UserError
from overtone.files import write_json
from overtone.models import flops_per_token, parameter_counts
from overtone.provenance import environment
from overtone.training import TRAINING_PASSES
from overtone.training.memory import as_out_of_memory
from overtone.training.optimizer import AdamW
from overtone.training.protocol import TrainingProtocol

RATE = 1e-3  # of the steps that are timed; no time depends on it


@dataclass(frozen=True)
class Settings:
    """What is measured."""

    architectures: tuple[str, ...] = setting(
        ("harmonic", "transformer", "llama", "mamba", "resonator"), "names in the study, or registered"
    )
    match: str = setting("harmonic", "architecture whose parameter count the others get")
    hidden: int = setting(64, "width of the model that the others match")
    size: str = setting("", "a size of the study, in place of hidden")
    vocab_size: int = setting(256, "tokens in the vocabulary")
    lengths: tuple[int, ...] = setting((512, 2048, 4096), "window lengths")
    tokens_per_step: int = setting(4096, "tokens of one step, at every length")
    repetitions: int = setting(5, "timed steps an architecture and length")
    device: str = setting("cpu", "cpu or cuda")
    threads: int = setting(1, "CPU threads")
    seed: int = setting(0, "of weights and tokens")


@dataclass
class Contestant:
    """A model in training, with its samples in tokens a second."""

    candidate: Candidate
    model: Any
    optimizer: AdamW
    batch: tuple[torch.Tensor, torch.Tensor]
    waited: list[float] = field(default_factory=list)
    unwaited: list[float] = field(default_factory=list)

    def step(self) -> None:
        """One optimizer step."""
        ids, targets = self.batch
        autocast = torch.autocast("cuda", dtype=torch.bfloat16) if ids.device.type == "cuda" else nullcontext()
        with autocast:
            loss = self.model.loss(ids, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step(RATE)
        self.optimizer.zero_grad()

    def time_step(self) -> None:
        """One step, timed up to its last launch and up to its end."""
        ids = self.batch[0]
        synchronise(ids.device)
        started = time.perf_counter()
        self.step()
        launched = time.perf_counter()
        synchronise(ids.device)
        self.unwaited.append(ids.numel() / (launched - started))
        self.waited.append(ids.numel() / (time.perf_counter() - started))


def measure(settings: Settings, models: list[Candidate]) -> dict[str, Any]:
    """The content of benchmarks/throughput.json."""
    torch.set_num_threads(settings.threads)
    device = torch.device(settings.device)
    rows: list[dict[str, Any]] = []
    failures: list[dict[str, Any]] = []
    if (longest := max(settings.lengths)) > settings.tokens_per_step:
        raise UserError(
            f"benchmarks.throughput: length {longest} is more than tokens_per_step {settings.tokens_per_step}. Raise tokens_per_step."
        )
    for length in settings.lengths:
        contestants = [found for candidate in models if (found := _enter(candidate, settings, length, device, failures))]
        for _ in range(settings.repetitions):
            for contestant in contestants:
                contestant.time_step()
        for contestant in contestants:
            rows += _rows(contestant, length, device)
    protocol = asdict(settings) | {
        "clock": CLOCK, "warm_up": "one step", "interleaved": True, "dtype": "bfloat16 autocast" if device.type == "cuda" else "float32",
        "models": [asdict(candidate) for candidate in models], "failures": failures,
    }
    return {"rows": rows, "protocol": protocol, "environment": environment(device_name(settings.device), settings.threads)}


def _enter(
    candidate: Candidate, settings: Settings, length: int, device: torch.device, failures: list[dict[str, Any]]
) -> Contestant | None:
    """Build a model and take its first, untimed step; one that does not fit becomes a failure."""
    generator = torch.Generator().manual_seed(settings.seed)
    tokens = torch.randint(candidate.vocab_size, (settings.tokens_per_step // length, length + 1), generator=generator).to(device)
    model = candidate.build(settings.seed).to(device).train()
    protocol = TrainingProtocol(budget=length, tokens_per_step=settings.tokens_per_step, evaluation_length=length)
    contestant = Contestant(candidate, model, AdamW(model, protocol), (tokens[:, :-1], tokens[:, 1:]))
    try:
        contestant.step()
        synchronise(device)
    except Exception as error:
        if (full := as_out_of_memory(error)) is None:
            raise
        failures.append({"architecture": candidate.name, "length": length, "status": "oom", "message": str(full)})
        return None
    return contestant


def _rows(contestant: Contestant, length: int, device: torch.device) -> list[dict[str, Any]]:
    row = {
        "architecture": contestant.candidate.name, "length": length, "batch": contestant.batch[0].shape[0],
        "parameters": int(parameter_counts(contestant.model)["total"]),
        "training_flops_per_token": TRAINING_PASSES * flops_per_token(contestant.model, length),
    }
    kinds = [(contestant.waited, True)] + ([(contestant.unwaited, False)] if device.type == "cuda" else [])
    return [row | {"tokens_per_s": summary(samples), "synchronised": waited} for samples, waited in kinds]


def table(rows: list[dict[str, Any]]) -> str:
    """The synchronised rows as text, each beside the transformer of its length where there is one."""
    waited = [row for row in rows if row["synchronised"]]
    base = {row["length"]: row["tokens_per_s"]["median"] for row in waited if row["architecture"] == "transformer"}
    lines = [("architecture", "length", "parameters", "tokens/s", "to transformer")]
    for row in waited:
        rate, other = row["tokens_per_s"]["median"], base.get(row["length"])
        ratio = f"{rate / other:.2f}x" if other else "-"
        lines.append((row["architecture"], str(row["length"]), f"{row['parameters']:,}", f"{rate:,.0f}", ratio))
    return aligned(lines)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """One flag a setting."""
    add_settings(parser, Settings)


def run(args: argparse.Namespace) -> int:
    """Measure, print, write."""
    settings, study = resolve_settings(args, "throughput", Settings)
    result = measure(settings, candidates_of(settings, study))
    print(table(result["rows"]))
    write_json(args.out, result)
    return 0
