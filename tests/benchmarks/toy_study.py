"""A study that is really trained, in seconds: four architectures of a few thousand parameters on a noisy counter."""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np

from overtone.files import write_json
from overtone.study import Study, resolve_study, study_cells, sweep_trials
from overtone.training.sweep import choose_rate

VOCAB = 32
RATES = [0.002, 0.01, 0.05]


def toy_study(**changes: Any) -> Study:
    common = {"corpora": ["enwiki-mini"], "tokenizers": ["bytes"], "sizes": ["d16"], "seeds": [1]}
    data = {
        "study": "toy", "description": "For tests.",
        "tokenizers": {"bytes": {"kind": "bytes"}},
        "protocols": {"harmonic": {"budget": 1024, "tokens_per_step": 128, "lr": "swept"},
                      "resonator": {"budget": 1024, "tokens_per_step": 128, "lr": 0.01}},
        "lr_sweep": {"harmonic": {"rates": RATES, "corpus": "enwiki-mini", "tokenizer": "bytes", "size": "d16", "length": 32, "seed": 9}},
        "architectures": {name: {"model": name} for name in ("harmonic", "transformer", "llama", "resonator")},
        "sizes": {"d16": {"hidden": 16}},
        "experiments": {
            "crossover": common | {"protocol": "harmonic", "architectures": ["harmonic", "transformer", "llama"], "lengths": [32, 64]},
            "quality": common | {"protocol": "resonator", "architectures": ["resonator", "transformer"], "lengths": [64]},
        },
    }
    return resolve_study(data | changes)


def write_tokens(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number, (split, count) in enumerate({"train": 3000, "validation": 700, "test": 700}.items()):
        ids = (np.cumsum(np.random.default_rng(number).integers(0, 3, count)) % VOCAB).astype("<u2")
        starts = np.zeros(1, dtype="<u8")
        ids.tofile(folder / f"{split}.bin")
        starts.tofile(folder / f"{split}.starts")
        write_json(folder / f"{split}.json", {
            "digest": hashlib.sha256(ids.tobytes()).hexdigest(), "vocab_size": VOCAB, "tokens": count, "bytes": 2 * count,
            "bytes_per_token": 2.0, "dtype": "uint16", "documents": 1, "starts_digest": hashlib.sha256(starts.tobytes()).hexdigest(),
            "tokenizer": "0" * 64, "unknown": 0, "unknown_bits": 0.0,
        })


def train_toy(root: Path, study: Study) -> Path:
    """results/STUDY with tokens, trained cells and the sweep's outcome; returns it."""
    from overtone.training.cell import train_cell

    results = root / study.name
    write_json(results / "study.json", dict(study.data))
    tokens = results / "tokens" / "enwiki-mini" / "bytes"
    write_tokens(tokens)
    for cell in study_cells(study):
        rate = 0.01 if cell.config()["training"]["lr"] == "swept" else None
        train_cell(cell, tokens, results / "cells" / cell.key / "metrics.json", results / "state", rate=rate)
    for protocol in study.lr_sweep:
        trials: dict[str, list[dict[str, Any]]] = {}
        for architecture, _, cell in sweep_trials(study, protocol):
            rate = cell.config()["training"]["lr"]
            trials.setdefault(architecture, []).append({
                "cell": cell.coordinates, "budget": 1024, "lr": rate, "status": "ok",
                "evaluation": {"validation": {"bpt": 3 + abs(np.log10(rate / 0.01))}},
            })
        for architecture, found in trials.items():
            write_json(results / "lr_sweep" / protocol / architecture / "chosen.json", choose_rate(found))
    return results
