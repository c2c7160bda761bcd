"""A toy corpus as token files, and small cells on it."""

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
from trainer_process import TrainerProcess, train_words

from overtone.files import canonical_json
from overtone.study import Cell

VOCAB = 32


def write_tokens(folder: Path, tokens: dict[str, int], vocab: int = VOCAB, every: int = 211) -> Path:
    """Token files of a noisy counter: learnable, and one document every `every` tokens."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, (split, count) in enumerate(tokens.items()):
        random = np.random.default_rng(number)
        ids = (np.cumsum(random.integers(0, 3, count)) % vocab).astype("<u2")
        starts = np.arange(0, count, every).astype("<u8")
        ids.tofile(folder / f"{split}.bin")
        starts.tofile(folder / f"{split}.starts")
        sidecar = {
            "digest": hashlib.sha256(ids.tobytes()).hexdigest(), "vocab_size": vocab, "tokens": count, "bytes": 2 * count,
            "bytes_per_token": 2.0, "dtype": "uint16", "documents": len(starts),
            "starts_digest": hashlib.sha256(starts.tobytes()).hexdigest(), "tokenizer": "0" * 64, "unknown": 0, "unknown_bits": 0.0,
        }
        (folder / f"{split}.json").write_text(json.dumps(sidecar))
    return folder


@pytest.fixture(scope="session")
def tokens(tmp_path_factory) -> Path:
    return write_tokens(tmp_path_factory.mktemp("corpus") / "tokens", {"train": 9000, "validation": 1100, "test": 1200})


@pytest.fixture
def make_cell():
    def make(model="transformer", length=64, seed=1, hidden=16, options=None, **training) -> Cell:
        rules = {"budget": 1024, "tokens_per_step": 128, "lr": 0.01, "evaluation_length": 128, "validation_points": 2}
        return Cell("toy", "counter", "ids", model, "d16", length, seed, model, hidden, canonical_json(options or {}), None,
                    canonical_json(rules | training))

    return make


@pytest.fixture
def start_trainer(tokens, tmp_path):
    """Start `overtone train` on a cell; what it says goes to a log of its own."""
    started = []

    def start(cell: Cell, out: Path, *more: str, state: Path | None = None) -> TrainerProcess:
        log = tmp_path / f"trainer-{len(started)}.log"
        started.append(TrainerProcess([*train_words(cell, tokens, state or tmp_path / "state", out), *more], log))
        return started[-1]

    yield start
    for trainer in started:
        if trainer.process.is_alive():
            trainer.process.kill()
        trainer.process.join()
