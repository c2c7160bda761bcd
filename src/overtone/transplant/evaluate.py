"""Untouched base, base with RoPE scaling and every transplanted variant on the same targets at every length."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import nullcontext
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
from overtone.transplant.cost import PUBLISHED, cost_row
from overtone.transplant.model import HarmonicLlamaForCausalLM
from overtone.transplant.passages import load_passages
from overtone.transplant.scoring import score, whole_targets
from overtone.transplant.text import encoder, open_tokens

PHASES = 16  # published strides are 4 and 16: the loss by position modulo 16 shows what a pooled level leaks


def evaluate(config: TransplantConfig, results: Path, log: Callable[[str], None]) -> dict[str, Any]:
    """evaluation.json's content. Every model reads the same targets of each corpus, cut to `windows` of the longest length."""
    device = torch_device(config.device, log)
    reports = read_reports(config, results)
    settings = config.evaluation
    base = load_base(config, results).to(device)
    bf16 = config.data["dtype"] == "bfloat16" or (config.data["dtype"] == "auto" and device.type == "cuda")
    autocast = (lambda: torch.autocast(device.type, dtype=torch.bfloat16)) if bf16 else nullcontext
    longest = max(settings["lengths"])
    about = read_json(results / "transplants" / config.name / "base.json")
    options = {"batch_tokens": settings["batch_tokens"], "autocast": autocast, "bos": about["bos"]}
    held_out = {corpus: open_tokens(config, results, corpus, "validation") for corpus in config.corpora}
    rows: list[dict[str, Any]] = []
    random: list[dict[str, Any]] = []
    recalls: list[dict[str, Any]] = []
    words: list[dict[str, Any]] = []
    passages = load_passages(settings["lambada"], results) if settings["lambada"] else []
    encode = encoder(config, results) if passages else None
    noise = random_region(base.config.vocab_size, config.length * settings["windows"] + 1, config.seed)
    for name, model, lengths in models(config, results, base, reports, device):
        for corpus, tokens in held_out.items():
            region = Region.of(tokens)
            targets = whole_targets(region, longest, settings["windows"])
            for length in lengths:
                losses, hits = score(model, region, targets, length, **options)
                row = summarise(losses, hits, length, tokens)
                rows.append({"model": name, "corpus": corpus, "length": length, **finite(row), "bpt_by_phase": by_phase(losses, length)})
                log(f"{name}: {corpus} at {length}: bpt {row['bpt']:.4f}")
        if "+" in name:
            continue
        losses, hits = score(model, noise, noise.size - 1, config.length, **options)
        random.append({"model": name, "length": config.length, "bpt": float(losses.astype(np.float64).mean() / LN2),
                       "floor": math.log2(base.config.vocab_size), "targets": noise.size - 1, "bpt_by_phase": by_phase(losses, config.length)})
        region = Region.of(held_out[config.corpora[0]])
        recalls += [{"model": name, **probes.recall(model, region, distance, settings["recall_windows"], config.seed, settings["batch_tokens"], about["bos"])}
                    for distance in settings["recall"]]
        if passages:
            words.append({"model": name, **probes.last_word_accuracy(model, encode, passages)})
    return {
        "transplant": config.name, "base": about, "context": about["context"], "trained_length": config.length,
        "variants": {report_name(config, report): {key: report[key] for key in
                                                   ("variant", "phase", "objective", "train", "control", "block", "tokens", "bpt", "parameters")}
                     for report in reports},
        "rows": rows, "random_tokens": random, "recall": recalls, "lambada": words,
        "cost": [cost_row(report, config.price_per_hour) for report in reports], "published_cost": PUBLISHED["total_dollars"],
        "environment": environment(str(device), torch.get_num_threads()),
    }


def read_reports(config: TransplantConfig, results: Path) -> list[dict[str, Any]]:
    """phaseN.json of every phase of every variant."""
    return [read_json(results / "transplants" / config.name / variant.name / f"phase{phase.number}.json")
            for variant in config.variants.values() for phase in variant.phases]


def report_name(config: TransplantConfig, report: dict[str, Any]) -> str:
    """VARIANT for a variant's last phase, VARIANT/phase1 for one before it."""
    last = config.variant(report["variant"]).phases[-1].number
    return str(report["variant"]) if report["phase"] == last else f"{report['variant']}/phase{report['phase']}"


def models(config: TransplantConfig, results: Path, base: Any, reports: list[dict[str, Any]],
           device: torch.device) -> Iterator[tuple[str, Any, list[int]]]:
    """(name, model, lengths to read it at), one model in memory beside the base."""
    lengths = list(config.evaluation["lengths"])
    yield "base", base, lengths
    context = base.config.max_position_embeddings
    for kind in config.evaluation["rope_scaling"]:
        for length in lengths:
            if length > context:
                yield f"base+{kind}", rope.scaled(base, kind, length), [length]
    for report in reports:
        folder = results / report["model"]
        if not (folder / "config.json").is_file():
            raise UserError(f"{folder}: no model. Run phase {report['phase']} of variant {report['variant']} again.")
        yield report_name(config, report), HarmonicLlamaForCausalLM.from_pretrained(folder, dtype=torch.float32).eval().to(device), lengths


def by_phase(losses: np.ndarray, length: int) -> list[float]:
    """Mean bits of the inputs at position p mod 16 of their window, p = 0.. (PHASES,)."""
    bits = losses[: len(losses) // length * length].astype(np.float64).reshape(-1, length).mean(axis=0) / LN2
    return [float(bits[phase::PHASES].mean()) for phase in range(min(PHASES, length))]


def random_region(vocab_size: int, tokens: int, seed: int) -> Region:
    """Uniformly random tokens, drawn from (seed, "random tokens")."""
    ids = np.random.default_rng([seed, 0x72616E64]).integers(0, vocab_size, tokens)
    return Region(ids, np.zeros(1, dtype=np.int64))


def finite(row: dict[str, Any]) -> dict[str, Any]:
    """The row with infinities as null: JSON has neither."""
    return {key: None if isinstance(value, float) and not math.isfinite(value) else value for key, value in row.items()}
