from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from overtone.errors import UserError
from overtone.training.stream import Region
from overtone.transplant.evaluate import by_phase, random_region
from overtone.transplant.passages import paragraphs
from overtone.transplant.probes import last_word, last_word_accuracy, recall
from overtone.transplant.scoring import Scorer, whole_targets, with_bos


class Copier(torch.nn.Module):
    """Says the token `distance` back again with probability near one, before that all are as likely."""

    def __init__(self, distance: int, vocab: int = 50) -> None:
        super().__init__()
        self.distance, self.vocab = distance, vocab
        self.anchor = torch.nn.Parameter(torch.zeros(1))

    def forward(self, input_ids: torch.Tensor, use_cache: bool = False) -> SimpleNamespace:
        logits = torch.zeros(*input_ids.shape, self.vocab)
        back = self.distance - 1
        logits[:, back:] = 30.0 * F.one_hot(input_ids[:, : input_ids.shape[1] - back], self.vocab)
        return SimpleNamespace(logits=logits)


def test_recall_tells_a_model_that_copies_from_one_that_cannot() -> None:
    region = Region(np.random.default_rng(0).integers(0, 50, 500), np.zeros(1, dtype=np.int64))
    able = recall(Copier(16), region, 16, 8, seed=1, batch_tokens=64)
    assert able["accuracy_again"] == 1.0
    assert able["bpt_again"] < 0.01
    assert able["bpt_first"] == pytest.approx(np.log2(50), rel=0.2)
    unable = recall(Copier(5), region, 16, 8, seed=1, batch_tokens=10_000)
    assert unable["accuracy_again"] < 0.2
    assert able["targets"] == 8 * 15
    with pytest.raises(UserError, match="does not fit"):
        recall(Copier(5), region, 500, 8, seed=1, batch_tokens=64)


class Speller(torch.nn.Module):
    """Knows one continuation by heart."""

    def __init__(self, known: list[int]) -> None:
        super().__init__()
        self.known = known
        self.anchor = torch.nn.Parameter(torch.zeros(1))

    def forward(self, input_ids: torch.Tensor, use_cache: bool = False) -> SimpleNamespace:
        logits = torch.zeros(*input_ids.shape, 256)
        for place in range(input_ids.shape[1]):
            follow = self.known[place + 1] if place + 1 < len(self.known) else 0
            logits[:, place, follow] = 20.0
        return SimpleNamespace(logits=logits)


def test_last_word_needs_every_token_of_the_word() -> None:
    def encode(text: str) -> list[int]:
        return list(text.encode())

    right, wrong = "the cat sat on the mat", "the cat sat on the mop"
    model = Speller(encode(right))
    assert last_word_accuracy(model, encode, [right])["accuracy"] == 1.0
    assert last_word_accuracy(model, encode, [right, wrong])["accuracy"] == 0.5
    assert last_word_accuracy(model, encode, [right])["bits_per_word"] < 0.01
    assert last_word(right + " ") == ("the cat sat on the", " mat")
    with pytest.raises(UserError, match="two words"):
        last_word("alone")


def test_paragraphs_end_in_a_word(tmp_path) -> None:
    from overtone.files import write_text

    prose = "word " * 40 + "ending."
    text = "\\n".join([prose, "too short.", prose.replace("word", "[[link]]"), "word " * 40 + "in 1999."])
    write_text(tmp_path / "d.jsonl", f'{{"id": "1", "title": "t", "text": "{text}"}}\n')
    assert paragraphs(tmp_path / "d.jsonl") == ["word " * 40 + "ending"]


def test_by_phase_finds_the_position_in_a_group() -> None:
    losses = np.tile(np.log(2.0) * np.array([1.0, 2.0, 3.0, 4.0], dtype=np.float32), 64)
    assert by_phase(losses, 64) == pytest.approx([1.0, 2.0, 3.0, 4.0] * 4, rel=1e-6)
    assert by_phase(np.append(losses, np.float32(99)), 64) == pytest.approx([1.0, 2.0, 3.0, 4.0] * 4, rel=1e-6)


def test_regions_and_bos() -> None:
    region = random_region(10, 101, seed=1)
    assert region.ids.min() >= 0
    assert region.ids.max() <= 9
    assert np.array_equal(region.ids, random_region(10, 101, seed=1).ids)
    assert whole_targets(region, 20, 3) == 60
    assert whole_targets(region, 20, 99) == 100
    assert whole_targets(region, 2000, 3) == 100
    ids = torch.arange(6).view(2, 3)
    assert torch.equal(with_bos(ids, 9), torch.tensor([[9, 1, 2], [9, 4, 5]]))
    assert with_bos(ids, None) is ids


def test_scorer_gives_what_the_model_gives(student) -> None:
    scorer = Scorer(student)
    ids = torch.randint(0, 61, (1, 8), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        torch.testing.assert_close(scorer.features(ids) @ scorer.head_weight.T, student(ids, use_cache=False).logits)
