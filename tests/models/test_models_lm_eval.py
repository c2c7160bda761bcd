"""lm-evaluation-harness on a saved model and its tokenizer, offline, with tasks of this repository."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from overtone.files import write_json
from overtone.models import LanguageModel, build_model, load_checkpoint, save_checkpoint
from overtone.models.tokenizer_files import save_hf_tokenizer

lm_eval = pytest.importorskip("lm_eval", reason="the extra `evaluation` is not installed")
ROOT = Path(__file__).resolve().parents[2]


def trained_on_ab() -> LanguageModel:
    """A model that has learned one thing: "ab ab ab ..." ."""
    model = build_model("harmonic", vocab_size=256, hidden=16, seed=0)
    ids = torch.tensor([list(b"ab " * 16)])
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(30):
        optimizer.zero_grad()
        model.loss(ids[:, :-1], ids[:, 1:]).backward()
        optimizer.step()
    return model


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model folder as a cell leaves it: weights, configuration, tokenizer."""
    folder = tmp_path_factory.mktemp("model")
    tokens = tmp_path_factory.mktemp("tokens")
    write_json(tokens / "tokenizer.json", {"kind": "bytes", "vocab_size": 256})
    save_checkpoint(trained_on_ab(), folder)
    save_hf_tokenizer(tokens, folder)
    return folder


def harness_model(saved: Path, batch_size: int = 1) -> Any:
    """As `--model hf --model_args pretrained=DIR,backend=causal` loads it."""
    from lm_eval.models.huggingface import HFLM

    return HFLM(pretrained=str(saved), backend="causal", device="cpu", batch_size=batch_size, dtype="float32")


def evaluate(saved: Path, task: str, batch_size: int) -> dict[str, float]:
    from lm_eval.tasks import TaskManager

    model = harness_model(saved, batch_size)
    found: Any = lm_eval.simple_evaluate(model=model, tasks=[task], bootstrap_iters=0, verbosity="ERROR",
                                    task_manager=TaskManager(include_path=str(ROOT / "tests/data/lm_eval"), include_defaults=False))
    return found["results"][task]


@pytest.mark.parametrize("batch_size", [1, 3])
def test_multiple_choice(saved: Path, batch_size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)  # the task file names its data relative to the repository
    assert evaluate(saved, "overtone_pairs", batch_size)["acc,none"] == 1.0


def test_generation_in_batches_is_generation_alone(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    alone, together = (evaluate(saved, "overtone_endings", size) for size in (1, 4))
    assert alone["exact_match,none"] == together["exact_match,none"]


def test_perplexity_with_the_newline_as_prefix(saved: Path) -> None:
    from lm_eval.api.instance import Instance

    request = Instance(request_type="loglikelihood_rolling", doc={}, arguments=("ab ab ab ab",), idx=0)
    (found,) = harness_model(saved).loglikelihood_rolling([request], disable_tqdm=True)
    ids = torch.tensor([list(b"\nab ab ab ab")])
    expected = load_checkpoint(saved).loss(ids[:, :-1], ids[:, 1:], reduction="sum").item()
    assert found == pytest.approx(-expected, rel=1e-4)
