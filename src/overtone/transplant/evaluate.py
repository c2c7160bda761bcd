"""Untouched base, base with RoPE scaling and every transplanted variant on the same targets at every length."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from overtone.errors import UserError
from overtone.files import read_json
from overtone.provenance import environment
from overtone.training.devices import torch_device
from overtone.training.evaluate import LN2, summarise
from overtone.training.stream import Region
from overtone.transplant import probes, rope
from overtone.transplant.base import load_base
from overtone.transplant.config import TransplantConfig
from overtone.transplant.cost import cost_row
from overtone.transplant.model import load_student
from overtone.transplant.passages import load_passages
from overtone.transplant.scoring import autocast_of, score, whole_targets
from overtone.transplant.text import encoder, held_out_split, open_tokens

PHASES = 16  # published strides are 4 and 16: the loss by position modulo 16 shows what a pooled level leaks
_TOLD = ("variant", "phase", "objective", "train", "control", "block", "tokens", "bpt", "parameters")


def evaluate(config: TransplantConfig, results: Path, log: Callable[[str], None]) -> dict[str, Any]:
    """evaluation.json's content. Every model reads the same targets of each corpus, cut to `windows` of the longest length."""
    device = torch_device(config.device, log)
    reports = read_reports(config, results)
    about = read_json(results / "transplants" / config.name / "base.json")
    measure = Measure(config, results, about, device)
    rows: list[dict[str, Any]] = []
    random: list[dict[str, Any]] = []
    recalls: list[dict[str, Any]] = []
    words: list[dict[str, Any]] = []
    for name, model, lengths in models(config, results, reports, device):
        for row in measure.text(model, lengths):
            rows.append({"model": name, **row})
            log(f"{name}: {row['corpus']} at {row['length']}: bpt {row['bpt']:.4f}")
        if "+" not in name:  # RoPE scaling is for text past the context alone
            random.append({"model": name, **measure.random_tokens(model)})
            recalls += [{"model": name, **row} for row in measure.recall(model)]
            words += [{"model": name, **row} for row in measure.last_words(model)]
        del model  # before the next one is loaded
    return {
        "transplant": config.name, "base": about, "context": about["context"], "trained_length": config.length,
        "variants": {report_name(config, report): {key: report[key] for key in _TOLD} for report in reports},
        "rows": rows, "random_tokens": random, "recall": recalls, "lambada": words,
        "cost": [cost_row(report) for report in reports],
        "environment": environment(str(device), torch.get_num_threads()),
    }


class Measure:
    """What is measured of every model, on the same tokens."""

    def __init__(self, config: TransplantConfig, results: Path, about: dict[str, Any], device: torch.device) -> None:
        self.config = config
        self.settings = config.evaluation
        self.bos = about["bos"]
        self.vocab_size = int(about["vocab_size"])
        autocast = autocast_of(config.data["dtype"], device)
        self.options = {"batch_tokens": self.settings["batch_tokens"], "autocast": autocast, "bos": self.bos}
        self.splits = {corpus: held_out_split(results, corpus, self.settings["split"]) for corpus in config.corpora}
        self.held_out = {corpus: open_tokens(config, results, corpus, split) for corpus, split in self.splits.items()}
        self.noise = random_region(self.vocab_size, config.length * self.settings["windows"] + 1, config.seed)
        self.passages = load_passages(self.settings["lambada"], results, self.settings["split"]) if self.settings["lambada"] else []
        self.encode = encoder(config, results) if self.passages else None

    def text(self, model: Any, lengths: list[int]) -> Iterator[dict[str, Any]]:
        """Loss on every corpus at every length."""
        for corpus, tokens in self.held_out.items():
            region = Region.of(tokens)
            targets = whole_targets(region, max(self.settings["lengths"]), self.settings["windows"])
            for length in lengths:
                losses, hits = score(model, region, targets, length, **self.options)
                row = finite(summarise(losses, hits, length, tokens))
                yield {"corpus": corpus, "split": self.splits[corpus], "length": length, **row, "bpt_by_phase": by_phase(losses, length)}

    def random_tokens(self, model: Any) -> dict[str, Any]:
        """Loss on uniformly random tokens: no causal model averages below the floor log2(V)."""
        length = self.config.length
        losses, _ = score(model, self.noise, self.noise.size - 1, length, **self.options)
        return {"length": length, "bpt": float(losses.astype(np.float64).mean() / LN2), "floor": math.log2(self.vocab_size),
                "targets": self.noise.size - 1, "bpt_by_phase": by_phase(losses, length)}

    def recall(self, model: Any) -> list[dict[str, Any]]:
        """A stretch of text read twice, at every distance."""
        region = Region.of(self.held_out[self.config.corpora[0]])
        return [probes.recall(model, region, distance, self.settings["recall_windows"], self.config.seed, self.settings["batch_tokens"],
                              self.bos) for distance in self.settings["recall"]]

    def last_words(self, model: Any) -> list[dict[str, Any]]:
        """The last-word task, where the study asks for it."""
        return [probes.last_word_accuracy(model, self.encode, self.passages)] if self.encode else []


def read_reports(config: TransplantConfig, results: Path) -> list[dict[str, Any]]:
    """phaseN.json of every phase of every variant."""
    return [read_json(results / "transplants" / config.name / variant.name / f"phase{phase.number}.json")
            for variant in config.variants.values() for phase in variant.phases]


def report_name(config: TransplantConfig, report: dict[str, Any]) -> str:
    """VARIANT for a variant's last phase, VARIANT/phase1 for one before it."""
    last = config.variant(report["variant"]).phases[-1].number
    return str(report["variant"]) if report["phase"] == last else f"{report['variant']}/phase{report['phase']}"


def models(config: TransplantConfig, results: Path, reports: list[dict[str, Any]],
           device: torch.device) -> Iterator[tuple[str, Any, list[int]]]:
    """(name, model, lengths to read it at), one model in memory beside the base, if the caller lets go of the one before."""
    lengths = list(config.evaluation["lengths"])
    base: Any = load_base(config, results)
    base = base.to(device)
    yield "base", base, lengths
    for kind in config.evaluation["rope_scaling"]:
        for length in lengths:
            if length > base.config.max_position_embeddings:
                yield f"base+{kind}", rope.scaled(base, kind, length), [length]
    for report in reports:
        folder = results / report["model"]
        if not (folder / "config.json").is_file():
            raise UserError(f"{folder}: no model. Run phase {report['phase']} of variant {report['variant']} again.")
        student: Any = load_student(folder, report["block"]["kind"])
        yield report_name(config, report), student.eval().to(device), lengths


def by_phase(losses: np.ndarray, length: int) -> list[float]:
    """Mean bits of the inputs at position p mod 16 of their window, p = 0.. (PHASES,)."""
    bits = losses[: len(losses) // length * length].astype(np.float64).reshape(-1, length).mean(axis=0) / LN2
    return [float(bits[phase::PHASES].mean()) for phase in range(min(PHASES, length))]


def random_region(vocab_size: int, tokens: int, seed: int) -> Region:
    """Uniformly random tokens, drawn from (seed, "rand")."""
    ids = np.random.default_rng([seed, int.from_bytes(b"rand")]).integers(0, vocab_size, tokens)
    return Region(ids, np.zeros(1, dtype=np.int64))


def finite(row: dict[str, Any]) -> dict[str, Any]:
    """The row with infinities as null: JSON has neither."""
    return {key: None if isinstance(value, float) and not math.isfinite(value) else value for key, value in row.items()}
