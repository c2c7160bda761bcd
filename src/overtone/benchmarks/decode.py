"""Decoding: milliseconds a token and memory by context, for every architecture. The prompt is really read.

static   as good as a user gets it: static key-value cache and SDPA for attention, a state of fixed size for the others; the step is
         captured once, on a CPU into machine code or TorchScript, on a GPU as a CUDA graph (`path` says which way a row took, `failures`
         which ways a model has none of and which gave other logits than the plain step for the same tokens)
eager    attention as a first implementation does it: a cache that is concatenated anew for every token, scores written out

Models are untrained: the time of a step does not depend on the weights. `ms_per_token` is the time of a run of `tokens` tokens over
their number, one sample a run; `matrices_ms` the time of the model's matrix products for one token and nothing else, what no way of
decoding can avoid; `state_bytes` what the past takes; `peak_bytes` that and what one more token takes at its peak on top.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np
import torch

from overtone.benchmarks.candidates import Candidate, candidates_of
from overtone.benchmarks.clock import CLOCK, sample, summary, synchronise
from overtone.benchmarks.decoders import (
    CompiledDecoder,
    Decoder,
    GraphDecoder,
    GrowingCache,
    StepDecoder,
    TracedDecoder,
    copied,
    eager_attention,
    read_prompt,
)
from overtone.benchmarks.footprint import peak_of_call
from overtone.benchmarks.plain_table import aligned
from overtone.benchmarks.settings import add_settings, device_name, resolve_settings, setting
from overtone.files import write_json
from overtone.models import LanguageModel, parameter_counts
from overtone.provenance import environment
from overtone.training.memory import as_out_of_memory

MATRIX_REPETITIONS = 101
CHECKED = 4  # tokens a captured step is compared on with the plain one
# How far logits may lie apart, relative to the largest: a sum in another order, rounded to the dtype at every layer, and no more.
TOLERANCE = {"float64": 1e-9, "float32": 1e-4, "float16": 0.01, "bfloat16": 0.05}
TRIALS = 4  # runs of tokens that decide between the ways, the first to warm up
MEMORY_TOKENS = 2  # decoded to see the memory they take


@dataclass(frozen=True)
class Settings:
    """What is measured."""

    architectures: tuple[str, ...] = setting(
        ("resonator", "transformer", "llama", "harmonic", "mamba"), "names in the study, or registered"
    )
    eager: tuple[str, ...] = setting(("transformer",), "architectures that also run eager")
    match: str = setting("resonator", "architecture whose parameter count the others get")
    hidden: int = setting(64, "width of the model that the others match")
    size: str = setting("", "a size of the study, in place of hidden")
    vocab_size: int = setting(205, "tokens in the vocabulary")
    contexts: tuple[int, ...] = setting((2048, 4096, 8192, 16384, 32768), "prompt lengths")
    batches: tuple[int, ...] = setting((1, 8), "sequences decoded together")
    context_tokens: int = setting(32768, "most prompt tokens of a row, batch times context; rows beyond are left out")
    tokens: int = setting(8, "tokens a sample")
    repetitions: int = setting(9, "samples a row")
    limit_s: float = setting(2.0, "seconds of decoding a row may take")
    compile: bool = setting(False, "on a GPU, compile the step before it is captured")
    device: str = setting("cpu", "cpu or cuda")
    dtype: str = setting("float32", "of weights and cache")
    threads: int = setting(1, "CPU threads")
    seed: int = setting(0, "of weights and prompts")


def measure(settings: Settings, models: list[Candidate]) -> dict[str, Any]:
    """The content of benchmarks/decode.json."""
    torch.set_num_threads(settings.threads)
    device = torch.device(settings.device)
    rows: list[dict[str, Any]] = []
    failures: list[dict[str, Any]] = []
    wanted = [(batch, context) for batch in settings.batches for context in settings.contexts]
    for candidate in models:
        model = candidate.build(settings.seed).to(device, getattr(torch, settings.dtype)).eval()
        with torch.inference_mode():
            for batch, context in wanted:
                if batch * context <= settings.context_tokens:
                    _measure_context(rows, failures, candidate, model, settings, batch, context)
            for batch in settings.batches:
                products = sample(matrix_products(model, batch, device), device, MATRIX_REPETITIONS)
                for row in rows:
                    if (row["architecture"], row["batch"]) == (candidate.name, batch):
                        row["matrices_ms"] = 1e3 * float(np.median(products))
    protocol = asdict(settings) | {
        "clock": CLOCK, "warm_up": "one run of tokens", "synchronised": True, "tolerance": TOLERANCE[settings.dtype], "failures": failures,
        "models": [asdict(candidate) for candidate in models],
        "left_out": [{"batch": batch, "context": context} for batch, context in wanted if batch * context > settings.context_tokens],
    }
    return {"rows": rows, "protocol": protocol, "environment": environment(device_name(settings.device), settings.threads)}


def _measure_context(rows: list[dict[str, Any]], failures: list[dict[str, Any]], candidate: Candidate, model: LanguageModel,
                     settings: Settings, batch: int, context: int) -> None:
    """Read one prompt, then time each variant from the state it left; a row that does not fit becomes a failure."""
    device = torch.device(settings.device)
    place: dict[str, Any] = {"architecture": candidate.name, "context": context, "batch": batch}
    generator = torch.Generator().manual_seed(settings.seed)
    prompt = torch.randint(candidate.vocab_size, (batch, context), generator=generator).to(device)
    room = CHECKED + (TRIALS + settings.repetitions + 1) * settings.tokens + MEMORY_TOKENS
    try:
        if device.type == "cuda":  # kernels are compiled and tuned at the first prompt of a length
            read_prompt(model, prompt, room)
        synchronise(device)
        started = time.perf_counter()
        ids, state = read_prompt(model, prompt, room)
        synchronise(device)
        place["prefill_s"] = time.perf_counter() - started
        decoder, refused = _decoder(model, ids, state, settings)
        failures += [place | reason for reason in refused]
        rows.append(place | _variant(model, decoder, "static", settings))
        if candidate.name in settings.eager:
            with eager_attention(model):
                rows.append(place | _variant(model, StepDecoder(model, ids, GrowingCache.of(state)), "eager", settings))
    except Exception as error:
        if (full := as_out_of_memory(error)) is None:
            raise
        failures.append(place | {"status": "oom", "message": str(full)})


def _variant(model: LanguageModel, decoder: Decoder, variant: str, settings: Settings) -> dict[str, Any]:
    """Time one decoder, then measure the memory of one more token."""
    device = torch.device(settings.device)
    seconds = sample(lambda: decoder.advance(settings.tokens), device, settings.repetitions, settings.limit_s)
    state_bytes = decoder.state.nbytes
    peak_bytes, kind = _peak(decoder, device)
    return {
        "variant": variant, "path": decoder.path, "ms_per_token": summary([1e3 * value / settings.tokens for value in seconds]),
        "state_bytes": state_bytes, "peak_bytes": peak_bytes, "memory_kind": kind,
        "parameters": int(parameter_counts(model)["total"]),
    }


def _peak(decoder: Decoder, device: torch.device) -> tuple[int, str]:
    """Bytes of the state and of what two more tokens take on top, and how they were measured."""
    if device.type == "cuda":
        beyond, kind = peak_of_call(lambda: decoder.advance(MEMORY_TOKENS), device)
        return decoder.state.nbytes + beyond, kind
    # On a CPU only what is allocated inside the call is seen released: so it decodes on a copy of the state.
    return peak_of_call(lambda: StepDecoder(decoder.model, decoder.ids, copied(decoder.state)).advance(MEMORY_TOKENS), device)


def _decoder(model: LanguageModel, ids: torch.Tensor, state: Any, settings: Settings) -> tuple[Decoder, list[dict[str, Any]]]:
    """The fastest of the plain step and the ways to capture it that agree with it; {path, status, message} of the others.

    status: `unavailable` where a way does not have this model, `rejected` where its logits are too far from the plain step's.
    """
    device = torch.device(settings.device)
    graph = "compiled_cuda_graph" if settings.compile else "cuda_graph"
    ways: dict[str, Callable[..., Decoder]] = (
        {"compiled": CompiledDecoder, "traced": TracedDecoder} if device.type == "cpu"
        else {graph: partial(GraphDecoder, compiled=settings.compile)})
    plain = StepDecoder(model, ids, copied(state))
    captured_ones: list[Decoder] = []
    refused: list[dict[str, Any]] = []
    for path, way in ways.items():
        try:
            captured = way(model, ids, state)
            if plain.state.position != state.position:  # read on by the way before
                plain = StepDecoder(model, ids, copied(state))
            apart = difference(captured, plain, CHECKED)
        except (NotImplementedError, RuntimeError) as error:
            if as_out_of_memory(error) is not None:
                raise
            refused.append({"path": path, "status": "unavailable", "message": next(iter(str(error).splitlines()), type(error).__name__)})
        else:
            if apart <= (most := TOLERANCE[settings.dtype]):
                captured_ones.append(captured)
            else:
                far = f"logits are {apart:.2g} of the largest from the plain step's, {most:g} is allowed"
                message = far if math.isfinite(apart) else "the token it chose is not that of its largest logit"
                refused.append({"path": path, "status": "rejected", "message": message})
    if not captured_ones:
        return plain, refused
    decoders: list[Decoder] = [plain, *captured_ones]
    seconds = {decoder: min(sample(partial(decoder.advance, settings.tokens), device, TRIALS - 1)) for decoder in decoders}
    return min(seconds, key=lambda decoder: seconds[decoder]), refused


def difference(captured: Decoder, plain: StepDecoder, tokens: int) -> float:
    """The largest distance of logits over `tokens` tokens, relative to the plain step's largest; infinite where the choice is not theirs.

    Both read the tokens that `captured` chooses: where two are as likely up to rounding, either may come first.
    """
    apart = []
    for _ in range(tokens):
        plain.ids = captured.ids.clone()
        plain.advance(1)
        chosen = captured.advance(1)
        logits, expected = captured.logits.double(), plain.logits.double()
        if not torch.equal(logits.gather(-1, chosen[:, None])[:, 0], logits.amax(-1)):
            return float("inf")
        apart.append((logits - expected).abs().max() / expected.abs().max())
    return float(torch.stack(apart).max())  # NaN where one is


def matrix_products(model: LanguageModel, batch: int, device: torch.device) -> Callable[[], None]:
    """A call that multiplies by every matrix of the model once, the head included, and does nothing else."""
    weights = [part.weight for part in model.modules() if isinstance(part, torch.nn.Linear) and part is not model.head]
    weights.append(model.head_weight)
    pairs = [(torch.zeros(batch, weight.shape[1], device=device, dtype=weight.dtype), weight) for weight in weights]

    def multiply() -> None:
        for x, weight in pairs:
            torch.nn.functional.linear(x, weight)

    return multiply


def table(rows: list[dict[str, Any]]) -> str:
    """The rows as text: time a token, and the same over the matrix products' own time."""
    head = ("architecture", "variant", "path", "batch", "context", "ms/token", "matrices ms", "ratio", "state bytes")
    return aligned([head, *(
        (row["architecture"], row["variant"], row["path"], str(row["batch"]), str(row["context"]), f"{row['ms_per_token']['median']:.3f}",
         f"{row['matrices_ms']:.3f}", f"{row['ms_per_token']['median'] / row['matrices_ms']:.2f}x", f"{row['state_bytes']:,}")
        for row in rows)])


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """One flag a setting."""
    add_settings(parser, Settings)


def run(args: argparse.Namespace) -> int:
    """Measure, print, write."""
    settings, study = resolve_settings(args, "decode", Settings)
    result = measure(settings, candidates_of(settings, study))
    print(table(result["rows"]))
    write_json(args.out, result)
    return 0
