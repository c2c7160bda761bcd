"""Parameter counts: every published one, exactly."""

from __future__ import annotations

import pytest
import torch

from overtone.models import build_model, flops_per_token, parameter_counts

V = 50257
PUBLISHED = [  # the authors' logs, as papers/reported.yaml cites them
    ("harmonic", 128, {}, 13_425_920),
    ("harmonic", 256, {}, 27_965_952),
    ("harmonic", 512, {}, 60_388_352),
    ("harmonic", 256, {"raw_hidden_states": True}, 27_834_880),
    ("harmonic", 128, {"tied": True}, 6_993_024),
    ("harmonic", 256, {"tied": True}, 15_100_160),
    ("harmonic", 512, {"tied": True}, 34_656_768),
    ("transformer", 128, {}, 13_656_832),
    ("transformer", 256, {}, 28_886_528),
    ("transformer", 512, {}, 64_064_512),
    ("transformer", 768, {}, 105_533_952),
]


def counts(name: str, hidden: int, vocab_size: int = V, **options: object) -> dict:
    with torch.device("meta"):
        return parameter_counts(build_model(name, vocab_size=vocab_size, hidden=hidden, **options))


@pytest.mark.parametrize(("name", "hidden", "options", "published"), PUBLISHED)
def test_published_counts_exactly(name: str, hidden: int, options: dict, published: int) -> None:
    assert counts(name, hidden, **options)["total"] == published


@pytest.mark.parametrize("d", [16, 96, 250])
def test_bodies_follow_their_formulas(d: int) -> None:
    assert counts("harmonic", d)["body"] == 34 * d * d + 24 * d
    assert counts("harmonic", d, raw_hidden_states=True)["body"] == 32 * d * d + 24 * d
    assert counts("harmonic", d, flat_timescales=True)["body"] == 34 * d * d + 24 * d
    assert counts("transformer", d)["body"] == 48 * d * d + 36 * d


def test_parts_add_up_and_tied_embeddings_count_once() -> None:
    for name in ("harmonic", "transformer", "llama", "mamba", "resonator"):
        untied, tied = counts(name, 64, vocab_size=100), counts(name, 64, vocab_size=100, tied=True)
        assert untied["embedding"] == 2 * 100 * 64
        assert tied["embedding"] == 100 * 64
        assert untied["total"] == untied["body"] + untied["embedding"] == sum(untied["parts"].values())
        assert tied["body"] == untied["body"] or name == "llama"


def test_llama_has_harmonics_parameters_within_one_percent() -> None:
    for hidden in (64, 96, 128, 256, 512):
        reference = counts("harmonic", hidden, vocab_size=256)["total"]
        assert counts("llama", hidden, vocab_size=256)["total"] == pytest.approx(reference, rel=0.01)


def test_mamba_block_is_the_published_one() -> None:
    d, inner, state, width, rank = 256, 512, 16, 4, 16
    projections = d * 2 * inner + inner * (rank + 2 * state) + rank * inner + inner + inner * d
    block = projections + (inner * width + inner) + inner * state + inner + d  # convolution, A, D, norm
    assert counts("mamba", d, layers=5)["body"] == 5 * block + d


def test_frozen_kernels_are_not_trainable_parameters() -> None:
    free, frozen = counts("resonator", 64, vocab_size=100), counts("resonator", 64, vocab_size=100, frozen_kernels=True)
    assert free["total"] - frozen["total"] == 4 * 3 * 8  # layers x (alpha, omega, phi) x heads


def test_meta_device_allocates_nothing() -> None:
    with torch.device("meta"):
        model = build_model("harmonic", vocab_size=V, hidden=2048)
    assert all(tensor.is_meta for tensor in [*model.parameters(), *model.buffers()])


@pytest.mark.parametrize(("name", "options"), [
    ("harmonic", {}), ("harmonic", {"raw_hidden_states": True, "tied": True}), ("harmonic", {"stride": 4}),
    ("harmonic", {"ffn": 24, "levels": 2}),
    ("transformer", {"attention": "quadratic"}), ("llama", {"attention": "quadratic", "heads": 4, "kv_heads": 2}),
])
def test_flops_are_those_that_torch_counts(name: str, options: dict) -> None:
    from torch.utils.flop_counter import FlopCounterMode

    model, length = build_model(name, vocab_size=100, hidden=32, **options), 64
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(torch.zeros(1, length, dtype=torch.long))
    counted, own = counter.get_total_flops() / length, flops_per_token(model, length)
    if name == "harmonic":  # torch counts matrix products only
        assert own - model.mixer_flops(length) == pytest.approx(counted)
    else:  # and, of attention, the half that the mask throws away too
        layers = model.config.layers  # type: ignore[attr-defined]
        assert own + 4 * 32 * layers * (length - 1) / 2 == pytest.approx(counted)


def test_attentions_flops_grow_with_the_length_and_others_do_not() -> None:
    for name in ("harmonic", "mamba", "resonator", "transformer", "llama"):
        with torch.device("meta"):
            model = build_model(name, vocab_size=256, hidden=64)
        grows = flops_per_token(model, 32768) > 2 * flops_per_token(model, 1024)
        assert grows == (name in ("transformer", "llama"))
