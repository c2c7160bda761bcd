"""The memory wall: peak memory of one training step by length, and the longest length that trains under a limit.

A step is forward, loss, backward and AdamW on a window of random tokens; what counts is everything beyond the warmed-up
program: weights, gradients, moments, activations. Attention is measured as SDPA and as the quadratic
reference, because fused attention is linear in memory too. On a CPU each measurement is a process of its own and the
limit makes an allocation fail there; on a GPU it is the allocator's share of the card. The longest length is found by
doubling, then bisection. `modelled` extrapolates c0 + c1 L + c2 L^2 (all >= 0, fitted to the measured peaks by relative
error) to a card's memory: it is no measurement.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch

from overtone.benchmarks.candidates import Candidate, candidates_of
from overtone.benchmarks.child import in_child
from overtone.benchmarks.settings import add_settings, device_name, numbered, resolve_settings, setting
from overtone.errors import UserError
from overtone.files import write_json
from overtone.models import architecture
from overtone.models.attention import ATTENTION_FORMS
from overtone.provenance import environment
from overtone.training.memory import MemoryMeter, as_out_of_memory, warm_up
from overtone.training.optimizer import AdamW
from overtone.training.protocol import TrainingProtocol

_RULES = TrainingProtocol(budget=1, tokens_per_step=1, evaluation_length=1)


@dataclass(frozen=True)
class Settings:
    """What is measured."""

    architectures: tuple[str, ...] = setting(
        ("harmonic", "transformer", "llama", "mamba", "resonator"), "names in the study, or registered"
    )
    attention: tuple[str, ...] = setting(ATTENTION_FORMS, "how attention is computed, where a model has it")
    match: str = setting("harmonic", "architecture whose parameter count the others get")
    hidden: int = setting(64, "width of the model that the others match")
    size: str = setting("", "a size of the study, in place of hidden")
    vocab_size: int = setting(256, "tokens in the vocabulary")
    lengths: tuple[int, ...] = setting((256, 512, 1024, 2048), "window lengths whose peak is measured", least=2)
    batch: int = setting(1, "windows a step")
    limit_gb: float = setting(0.1, "memory that a step may take, in 10^9 bytes")
    max_length: int = setting(65536, "where the search for the longest length ends")
    resolution: float = setting(0.125, "width of the last interval of the bisection, relative to its start")
    card_gb: float = setting(80.0, "memory of the modelled card, in 10^9 bytes")
    device: str = setting("cpu", "cpu or cuda")
    threads: int = setting(1, "CPU threads")
    seed: int = setting(0, "of weights and tokens")


@dataclass(frozen=True)
class Subject:
    """One model in one form of attention."""

    candidate: Candidate
    attention: str | None

    def names(self) -> dict[str, Any]:
        """As the columns of a row."""
        return {"architecture": self.candidate.name, "attention": self.attention}


def subjects(models: list[Candidate], forms: tuple[str, ...]) -> list[Subject]:
    """Every model, the attention models once a form."""
    found = []
    for candidate in models:
        if "attention" in architecture(candidate.model).Config.option_names():
            for form in forms:
                found.append(Subject(replace(candidate, options=candidate.options | {"attention": form}), form))
        else:
            found.append(Subject(candidate, None))
    return found


def training_step(model: Any, device: torch.device, batch: int, length: int, limit: int, seed: int) -> dict[str, Any]:
    """{status, peak_bytes} of one optimizer step under `limit` bytes: `oom` where memory was refused, or the peak lies above the limit
    (on a CPU what is refused is address space, and what counts is resident)."""
    warm_up(model)  # in this process: library pages count as resident once they are touched
    meter = MemoryMeter(model, device, limit)
    ids = window(model, batch, length, seed)
    status = "ok"
    try:
        with meter.limited():
            backward(model, ids, device)
            AdamW(model, _RULES).step(1e-3)
    except Exception as error:
        if as_out_of_memory(error) is None:
            raise
        status = "oom"
    peak = meter.peak()
    return {"status": "oom" if peak > limit else status, "peak_bytes": peak}


def window(model: Any, batch: int, length: int, seed: int) -> torch.Tensor:
    """Random tokens (batch, length + 1) where the model is."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(model.vocab_size, (batch, length + 1), generator=generator).to(model.head_weight.device)


def backward(model: Any, ids: torch.Tensor, device: torch.device) -> None:
    """Gradients of the loss of one window, as training computes them."""
    autocast = torch.autocast("cuda", dtype=torch.bfloat16) if device.type == "cuda" else nullcontext()
    with autocast:
        loss = model.loss(ids[:, :-1], ids[:, 1:])
    loss.backward()


def longest(fits: Callable[[int], bool], start: int, most: int, resolution: float) -> int:
    """The longest length up to `most` that fits, by doubling from `start`, then bisection; 0 where none was found.

    The answer fits; one longer by more than `resolution` of itself does not, or is beyond `most`.
    """
    low, high = 0, start
    while fits(high):
        low = high
        if low == most:
            return low
        high = min(2 * high, most)
    while high - low > max(1, resolution * low):
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def extrapolate(points: list[tuple[int, int]], limit: float) -> dict[str, float]:
    """Fit c0 + c1 L + c2 L^2, c >= 0, to (length, bytes) by relative error; the longest length within `limit`."""
    from scipy.optimize import nnls

    lengths = np.array([length for length, _ in points], dtype=float)
    peaks = np.array([peak for _, peak in points], dtype=float)
    scale = lengths.max()
    basis = np.stack([np.ones_like(lengths), lengths / scale, (lengths / scale) ** 2], axis=1)
    coefficients, _ = nnls(basis / peaks[:, None], np.ones_like(peaks))
    constant, linear, square = (float(value) for value in coefficients / scale ** np.arange(3))
    room = limit - constant
    if room <= 0 or (linear == 0 and square == 0):
        length = 0.0
    elif square == 0:
        length = room / linear
    else:
        length = (-linear + (linear**2 + 4 * square * room) ** 0.5) / (2 * square)
    error = np.abs(basis @ coefficients / peaks - 1).max()
    return {
        "length": int(length), "constant_bytes": constant, "bytes_per_token": linear,
        "bytes_per_token_squared": square, "largest_relative_error": float(error), "points": len(points),
    }


def measure_subject(
    subject: Subject, settings: Settings
) -> tuple[list[dict[str, Any]], dict[str, Any], dict[str, Any] | None]:
    """Rows of every length that was tried, the longest one, and the model of a card (None below two points)."""
    device = numbered(settings.device)
    limit = int(settings.limit_gb * 1e9)
    model: Any = subject.candidate.build(settings.seed).to(device).train()
    if device.type == "cpu":
        load_kernels(model)
    tried: dict[int, dict[str, Any]] = {}

    def step(length: int) -> dict[str, Any]:
        return training_step(model, device, settings.batch, length, limit, settings.seed)

    def alone(length: int) -> dict[str, Any]:
        torch.set_num_threads(settings.threads)
        return step(length)

    def measured(length: int) -> dict[str, Any]:
        if length not in tried:
            if device.type == "cpu":
                tried[length] = in_child(partial(alone, length))
            else:
                rehearse(model, window(model, settings.batch, length, settings.seed), device)
                tried[length] = _on_card(partial(step, length), model, device, limit)
        return tried[length]

    for length in settings.lengths:
        measured(length)

    def fits(length: int) -> bool:
        return bool(measured(length)["status"] == "ok")

    most = longest(fits, settings.lengths[0], settings.max_length, settings.resolution)
    rows = [subject.names() | {"length": length} | tried[length] for length in sorted(tried)]
    best = subject.names() | {
        "limit_bytes": limit, "length": most, "peak_bytes": tried[most]["peak_bytes"] if most else None,
        "search_ended": most == settings.max_length,
    }
    points = [(row["length"], row["peak_bytes"]) for row in rows if row["status"] == "ok"]
    if len(points) < 2:
        return rows, best, None
    card = settings.card_gb * 1e9
    return rows, best, subject.names() | {"limit_bytes": int(card)} | extrapolate(points, card)


@torch.no_grad()
def load_kernels(model: Any) -> None:
    """Compile or load what a child would, once for all of them, and start no thread: what waits for one does not live through a fork."""
    ids = torch.zeros((1, 9), dtype=torch.long)
    model.loss(ids[:, :-1], ids[:, 1:])


def rehearse(model: Any, ids: torch.Tensor, device: torch.device) -> None:
    """A step before the limit stands: at a new length kernels are compiled and tuned, which takes memory that no step needs."""
    try:
        backward(model, ids, device)
    except Exception as error:
        if as_out_of_memory(error) is None:
            raise  # one that fills the card is told by the measured step
    model.zero_grad(set_to_none=True)


def _on_card(step: Callable[[], dict[str, Any]], model: Any, device: torch.device, limit: int) -> dict[str, Any]:
    """A step under a share of the card, with nothing left behind."""
    card = torch.cuda.get_device_properties(device).total_memory
    torch.cuda.empty_cache()
    torch.cuda.set_per_process_memory_fraction(min(1.0, limit / card), device)
    try:
        return step()
    finally:
        model.zero_grad(set_to_none=True)
        torch.cuda.empty_cache()
        torch.cuda.set_per_process_memory_fraction(1.0, device)


def measure(settings: Settings, models: list[Candidate]) -> dict[str, Any]:
    """The content of benchmarks/memory.json."""
    on_card = torch.device(settings.device).type == "cuda"
    torch.set_num_threads(settings.threads if on_card else 1)  # a CPU's step is forked, and OpenMP's threads are not
    rows: list[dict[str, Any]] = []
    best: list[dict[str, Any]] = []
    modelled: list[dict[str, Any]] = []
    for subject in subjects(models, settings.attention):
        tried, most, card = measure_subject(subject, settings)
        rows += tried
        best.append(most)
        modelled += [card] if card else []
    protocol = asdict(settings) | {
        "memory_kind": "cuda_max_memory_allocated" if on_card else "resident_above_baseline",
        "dtype": "bfloat16 autocast" if on_card else "float32", "models": [asdict(candidate) for candidate in models],
    }
    return {
        "rows": rows, "longest": best, "modelled": modelled, "protocol": protocol,
        "environment": environment(device_name(settings.device), settings.threads),
    }


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """One flag a setting."""
    add_settings(parser, Settings)


def run(args: argparse.Namespace) -> int:
    """Measure and write."""
    settings, study = resolve_settings(args, "memory", Settings)
    if list(settings.lengths) != sorted(set(settings.lengths)):
        raise UserError(f"benchmarks.memory.lengths: found {list(settings.lengths)}, expected rising lengths.")
    write_json(args.out, measure(settings, candidates_of(settings, study)))
    return 0
