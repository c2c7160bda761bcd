"""What a study will cost before it starts: tokens, FLOPs, memory, hours; from the study, and from finished cells if any.

    training FLOPs  = 3 * forward FLOPs a token * tokens        (backward: twice the forward)
    hours           = (training + evaluation FLOPs) / rate + start-up, rate in FLOP/s
    memory          = 4 bytes a parameter + 12 a trained one (gradient, two moments) + activations of the windows held

Without finished cells the rate is an assumption about the device: see `Device`. With them it is their own, by
architecture, and so is memory.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import median
from typing import Any

import torch

from overtone.errors import unknown_name
from overtone.files import canonical_json
from overtone.models import flops_per_token, parameter_counts
from overtone.models.matching import matched_dimensions
from overtone.models.unfilled import unfilled_model
from overtone.study import Cell, Study
from overtone.study.load import corpus_registry
from overtone.training import TRAINING_PASSES
from overtone.training.cell import CURVE_TOKENS
from overtone.training.preflight import vocabulary_of

WEIGHT_BYTES = 4  # a parameter, float32
TRAINED_BYTES = 12  # a parameter that trains: gradient and two moments, float32
SAVED = 1.3  # activations kept over those in and out of the linear maps, as measured on a CPU (benchmarks/memory.json)
START_S = 3.0  # importing, building, writing
GPT2_BYTES_PER_TOKEN = 3.45  # enwik8: 90 MB are 26.1M tokens


@dataclass(frozen=True)
class Device:
    """A device one can plan for. `rate(width)` is what training is assumed to reach on it."""

    name: str
    peak: float  # FLOP/s
    memory: float | None  # bytes
    activation_bytes: float  # bytes of one activation

    def rate(self, width: int) -> float:
        """Assumed FLOP/s of a model of this width.

        CPU: the peak given is already a measured rate of one core. GPU: 3% of the peak at width 256 and 25% at 2048,
        which the published synchronised rates on an H100 come to (28M Harmonic: 330K tokens/s; 1.03B transplant, phase
        2: 165M tokens in 70 minutes), and in proportion to the width elsewhere, up to 40%.
        """
        return self.peak if self.memory is None else self.peak * min(0.4, 0.03 * width / 256)


DEVICES = {
    device.name: device
    for device in (
        # One thread of an AMD EPYC core, hidden 64 and 128, five architectures: 12 to 36 GFLOP/s, median 24.
        Device("cpu", 24e9, None, 4.0),
        Device("NVIDIA A100 40GB", 312e12, 40e9, 3.0),
        Device("NVIDIA A100 80GB", 312e12, 80e9, 3.0),
        Device("NVIDIA H100 80GB", 989e12, 80e9, 3.0),
        Device("NVIDIA H200", 989e12, 141e9, 3.0),
        Device("NVIDIA L40S", 362e12, 48e9, 3.0),
        Device("NVIDIA GeForce RTX 4090", 165e12, 24e9, 3.0),
    )
}


def find_device(name: str) -> Device:
    """A device by name; an unknown one is a UserError with the nearest."""
    if name not in DEVICES:
        raise unknown_name("--device", name, DEVICES)
    return DEVICES[name]


@dataclass(frozen=True)
class Shape:
    """What a model's configuration says of its cost."""

    parameters: int
    width: int
    activations: float  # numbers kept a token


@lru_cache(maxsize=4096)
def _model(name: str, hidden: int, options: str, match: str | None, vocabulary: int) -> Any:
    """The model, for its counts alone."""
    chosen: dict[str, Any] = json.loads(options)
    if match is not None and match != name:
        hidden, chosen = matched_dimensions(name, reference=match, vocab_size=vocabulary, hidden=hidden, options=chosen)
    return unfilled_model(name, vocab_size=vocabulary, hidden=hidden, **chosen)


@lru_cache(maxsize=4096)
def _shape(name: str, hidden: int, options: str, match: str | None, vocabulary: int) -> Shape:
    model = _model(name, hidden, options, match, vocabulary)
    return Shape(int(parameter_counts(model)["total"]), model.hidden, through_linear_maps(model, model.head))


def through_linear_maps(model: torch.nn.Module, head: torch.nn.Module | None) -> float:
    """Numbers kept a token for the backward pass: SAVED times those in and out of every linear map but the head."""
    maps = [part for part in model.modules() if isinstance(part, torch.nn.Linear) and part is not head]
    return SAVED * sum(part.in_features + part.out_features for part in maps)


@lru_cache(maxsize=4096)
def _flops(name: str, hidden: int, options: str, match: str | None, vocabulary: int, length: int) -> float:
    return float(flops_per_token(_model(name, hidden, options, match, vocabulary), length))


@dataclass(frozen=True)
class Forecast:
    """The cost of one run on one device."""

    architecture: str
    tokens: int
    parameters: int
    flops: float  # training and evaluation
    seconds: float
    memory_bytes: int


def region_tokens(study: Study, corpus: str, tokenizer: str, splits: Sequence[str]) -> int:
    """Tokens of these splits together, roughly; 0 where the registry does not know the corpus's size."""
    size = int(corpus_registry()[corpus].get("content", {}).get("bytes", 0))
    entry = study.tokenizers[tokenizer]
    per_token = {"bytes": 1.0, "characters": 1.0, "gpt2": GPT2_BYTES_PER_TOKEN}.get(
        entry["kind"], max(1.0, 0.3 * math.log2(vocabulary_of(entry)) - 0.6)
    )
    return int(size * sum(study.data["split"][split] for split in splits) / per_token)


def shape_of_cell(study: Study, cell: Cell, length: int) -> tuple[Shape, float]:
    """A cell's shape and its forward FLOPs a token at a length."""
    options = canonical_json(cell.config()["options"])
    identity = (cell.model, cell.hidden, options, cell.match, vocabulary_of(study.tokenizers[cell.tokenizer]))
    return _shape(*identity), _flops(*identity, length)


class Calibration:
    """Rates and memory of finished cells against what would have been assumed for them."""

    def __init__(self, study: Study, device: Device, finished: Iterable[Mapping[str, Any]] = ()) -> None:
        self._rates: dict[str, list[float]] = {}
        self._memory: dict[str, list[float]] = {}
        plain = Forecaster(study, device)
        for metrics in finished:
            cell = Cell.from_config(metrics["config"])
            expected = plain.cell(cell)
            if metrics["status"] != "ok" or not metrics["measured"]["wall_s"]:
                continue
            name = cell.architecture
            self._rates.setdefault(name, []).append(expected.flops / max(0.1, metrics["measured"]["wall_s"] - START_S / 2))
            self._memory.setdefault(name, []).append(metrics["measured"]["peak_bytes"] / expected.memory_bytes)
        self.cells = sum(map(len, self._rates.values()))

    def rate(self, architecture: str) -> float | None:
        """FLOP/s of the architecture's finished cells, of all where it has none; None where there are none at all."""
        return _of(self._rates, architecture)

    def memory(self, architecture: str) -> float:
        """Measured over assumed memory; 1 where nothing was measured."""
        return _of(self._memory, architecture) or 1.0


def _of(found: Mapping[str, list[float]], architecture: str) -> float | None:
    values = found.get(architecture) or [value for values in found.values() for value in values]
    return median(values) if values else None


class Forecaster:
    """Forecasts cells of one study on one device."""

    def __init__(self, study: Study, device: Device, calibration: Calibration | None = None) -> None:
        self.study = study
        self.device = device
        self.calibration = calibration

    def cell(self, cell: Cell, evaluated: Sequence[str] = ("validation", "test")) -> Forecast:
        """One cell, or a trial: that is evaluated on validation alone."""
        training = cell.config()["training"]
        shape, forward = shape_of_cell(self.study, cell, cell.length)
        tokens = training["budget"] // cell.length * cell.length
        read = region_tokens(self.study, cell.corpus, cell.tokenizer, evaluated) + training.get("validation_points", 4) * CURVE_TOKENS
        held = (training.get("batch") or max(1, training["tokens_per_step"] // cell.length)) * cell.length
        return self.run(cell.architecture, shape, tokens, forward * (TRAINING_PASSES * tokens + read), held)

    def run(
        self, architecture: str, shape: Shape, tokens: int, flops: float, held_tokens: int, trained: int | None = None
    ) -> Forecast:
        """Any run: its FLOPs at the device's rate, its memory with `held_tokens` tokens at once; trained: parameters, default all."""
        rate = (self.calibration.rate(architecture) if self.calibration else None) or self.device.rate(shape.width)
        state = WEIGHT_BYTES * shape.parameters + TRAINED_BYTES * (shape.parameters if trained is None else trained)
        memory = state + self.device.activation_bytes * shape.activations * held_tokens
        scale = self.calibration.memory(architecture) if self.calibration else 1.0
        return Forecast(architecture, tokens, shape.parameters, flops, flops / rate + START_S, int(memory * scale))
