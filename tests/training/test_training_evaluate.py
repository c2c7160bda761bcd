from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from overtone.corpora.tokenfile import TokenFile
from overtone.errors import UserError
from overtone.models import build_model
from overtone.training.evaluate import position_edges, score_region, summarise, target_count
from overtone.training.stream import Region


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    return build_model("harmonic", vocab_size=32, hidden=16)


@pytest.fixture
def validation(tokens):
    return TokenFile.open(tokens / "validation.json")


def naive(model, ids, targets, length):
    """Loss of every target in float64, one window at a time from the full logits."""
    losses, hits = [], []
    for start in range(0, targets, length):
        end = min(start + length, targets)
        window = torch.from_numpy(np.asarray(ids[start : end + 1], dtype=np.int64))
        with torch.no_grad():
            logits = model(window[None, :-1])[0].double()
        losses.append(torch.nn.functional.cross_entropy(logits, window[1:], reduction="none"))
        hits.append(logits.argmax(-1) == window[1:])
    return torch.cat(losses).numpy(), torch.cat(hits).numpy()


def evaluate(model, tokens, length, evaluation_length):
    region = Region.of(tokens)
    targets = target_count(region.size, evaluation_length)
    return summarise(*score_region(model, region, targets, length, batch_tokens=300), length, tokens)


@pytest.mark.parametrize("length", [32, 48, 128])
def test_measures_are_those_of_a_window_by_window_loop(model, validation, length):
    found = evaluate(model, validation, length, 128)
    targets = 1099 // 128 * 128
    losses, hits = naive(model, validation.ids, targets, length)
    bits = losses / np.log(2)
    assert found["targets"] == targets
    assert found["windows"] == -(-targets // length)
    assert found["bpt"] == pytest.approx(bits.mean(), rel=1e-5)
    assert found["bpb"] == pytest.approx(bits.mean() / 2, rel=1e-5)
    assert found["perplexity"] == pytest.approx(2 ** bits.mean(), rel=1e-5)
    assert found["accuracy"] == pytest.approx(hits.mean())
    expected = [bits[start : start + length].mean() for start in range(0, targets, length)]
    assert found["window_bpt"] == pytest.approx(expected, rel=1e-5)
    whole = bits[: targets // length * length].reshape(-1, length)
    edges = found["loss_by_position"]["position"]
    expected = [whole[:, left:right].mean() for left, right in zip([0, *edges[:-1]], edges, strict=True)]
    assert found["loss_by_position"]["bpt"] == pytest.approx(expected, rel=1e-5)


def test_every_length_predicts_the_same_targets(model, validation):
    counts = {evaluate(model, validation, length, 256)["targets"] for length in (16, 64, 96, 256)}
    assert counts == {1099 // 256 * 256}


def test_batch_size_does_not_matter(model, validation):
    region = Region.of(validation)
    one, _ = score_region(model, region, 1024, 32, batch_tokens=32)
    many, _ = score_region(model, region, 1024, 32, batch_tokens=4096)
    np.testing.assert_allclose(one, many, rtol=1e-5, atol=1e-6)


def test_chosen_windows_alone_are_scored(model, validation):
    region = Region.of(validation)
    everything, _ = score_region(model, region, 1000, 64, batch_tokens=256)
    some, _ = score_region(model, region, 1000, 64, batch_tokens=256, windows=np.array([0, 3, 4, 15]))
    for window in range(16):
        part = slice(64 * window, 64 * window + 64)
        if window in (0, 3, 4, 15):
            np.testing.assert_allclose(some[part], everything[part], rtol=1e-5)
        else:
            assert not some[part].any()


def test_unknown_characters_cost_bits_per_byte():
    tokens = SimpleNamespace(bytes_per_token=2.0, unknown_bits_per_byte=0.25)
    found = summarise(np.full(8, np.log(2) * 3, dtype=np.float32), np.ones(8, dtype=bool), 4, tokens)
    assert found["bpt"] == pytest.approx(3.0)
    assert found["bpb"] == pytest.approx(1.75)


def test_position_edges_are_log_spaced_and_end_at_the_window():
    assert position_edges(12) == [1, 2, 3, 4, 6, 8, 12]
    assert position_edges(100)[-3:] == [64, 96, 100]
    assert position_edges(1) == [1]


def test_a_region_shorter_than_its_evaluation_length_says_so():
    assert target_count(257, 128) == 256
    with pytest.raises(UserError, match="evaluation_length 256 needs one more"):
        target_count(256, 256)


@pytest.mark.parametrize("name", ["harmonic", "transformer"])
def test_carried_state_gives_each_document_its_whole_past(name, validation):
    torch.manual_seed(0)
    model = build_model(name, vocab_size=32, hidden=16)
    region = Region.of(validation)
    carried, _ = score_region(model, region, 1000, 64, batch_tokens=64, carry_state=True)
    starts = [*(int(value) for value in region.document_starts if value < 1000), 1000]
    for left, right in pairwise(starts):
        document, _ = naive(model, region.ids[left : right + 1], right - left, right - left)
        np.testing.assert_allclose(carried[left:right], document, rtol=2e-4, atol=2e-5)
