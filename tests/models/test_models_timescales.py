"""Harmonic's time constants and ResonatorLM's damping: as configured at the start, and within their bounds whatever training does."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
import torch
from model_variants import random_ids, small_model
from torch import nn

from overtone.errors import UserError
from overtone.models import LanguageModel, build_model
from overtone.models.harmonic import Harmonic
from overtone.models.resonator import Resonator


def measured_taus(model: LanguageModel) -> list[torch.Tensor]:
    """Time constants in tokens of the gates that real tokens get, (tokens, d) a level."""
    assert isinstance(model, Harmonic)
    x = model.embedding(random_ids(1, 50))[0].double()
    return [-level.stride / torch.log(level.double().decay(x)) for level in model.levels]  # type: ignore[operator]


@pytest.mark.parametrize("options", [
    {}, {"bounded_timescales": True}, {"spread": 1.3}, {"timescales": [3, 10, 500]}, {"levels": 5}, {"stride": 4},
])
def test_gates_start_with_the_configured_timescales(options: dict) -> None:
    model = build_model("harmonic", vocab_size=37, hidden=64, seed=0, **options)
    spread = options.get("spread", 2.0)
    for level, taus in enumerate(measured_taus(model)):
        centre = model.config.centre(level)  # type: ignore[attr-defined]
        assert torch.allclose(taus, taus[:1], rtol=1e-4)  # whatever the token
        assert centre / spread < taus.min() <= centre / spread * 1.05
        assert centre * spread / 1.05 <= taus.max() < centre * spread
        assert torch.exp(torch.log(taus).mean()).item() == pytest.approx(centre, rel=1e-3)


def test_published_centres_and_the_flat_ablation() -> None:
    published = build_model("harmonic", vocab_size=5, hidden=8).config
    flat = build_model("harmonic", vocab_size=5, hidden=8, flat_timescales=True).config
    assert [published.centre(level) for level in range(3)] == [4, 32, 128]  # type: ignore[attr-defined]
    assert [flat.centre(level) for level in range(3)] == pytest.approx([(4 * 32 * 128) ** (1 / 3)] * 3)  # type: ignore[attr-defined]


def test_diagnostics_report_the_time_constants() -> None:
    told = build_model("harmonic", vocab_size=5, hidden=64).diagnostics()
    for level, centre in (("1", 4), ("2", 32), ("3", 128)):
        quantiles = told["tau"][level]
        assert quantiles == sorted(quantiles)
        assert quantiles[len(quantiles) // 2] == pytest.approx(centre, rel=0.02)
        assert centre / 2 < quantiles[0] < quantiles[-1] < centre * 2


def wild_step(model: nn.Module, seed: int, rate: float) -> None:
    """One optimizer step with a learning rate far beyond anything sensible."""
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        parameter.grad = torch.randn(parameter.shape, generator=generator)
    torch.optim.SGD(model.parameters(), lr=rate).step()


@pytest.mark.parametrize("bounded", [False, True])
def test_decay_stays_between_zero_and_one(bounded: bool) -> None:
    model = build_model("harmonic", vocab_size=37, hidden=32, seed=0, bounded_timescales=bounded)
    assert isinstance(model, Harmonic)
    for seed in range(5):
        wild_step(model, seed, rate=1.0)
        x = model.embedding(random_ids(1, 50))[0].double()
        for number, level in enumerate(model.levels):
            decay = level.double().decay(x)  # type: ignore[operator]
            assert ((decay > 0) & (decay < 1)).all()
            if bounded:
                tau = -1 / torch.log(decay)
                centre = model.config.centre(number)
                assert ((tau > centre / 2 * 0.999) & (tau < centre * 2 * 1.001)).all()
        model.float()


@pytest.mark.parametrize("rate", [1e-3, 1.0, 1e3, 1e6])
@pytest.mark.parametrize("options", [{}, {"pure_decay": True}, {"heads": 1}])
def test_alpha_stays_positive_after_any_step(rate: float, options: dict) -> None:
    model = build_model("resonator", vocab_size=37, hidden=32, seed=0, layers=2, **options)
    assert isinstance(model, Resonator)
    for seed in range(4):
        wild_step(model, seed, rate)
        for block in model.blocks:
            alpha, _, _, scale = block.mixer.kernels()  # type: ignore[union-attr,operator]
            assert ((alpha > 0) & alpha.isfinite()).all()
            assert scale.isfinite().all()
        assert model.diagnostics()["max_modulus"] < 1


def test_half_lives_and_periods_start_log_spaced() -> None:
    model = build_model("resonator", vocab_size=37, hidden=32, heads=8, layers=2)
    told = model.diagnostics()
    for half_life, omega in zip(told["half_life"], told["omega"], strict=True):
        assert half_life[0] == pytest.approx(2, rel=1e-4)
        assert half_life[-1] == pytest.approx(2048, rel=1e-2)
        ratios = [after / before for before, after in pairwise(half_life)]
        assert ratios == pytest.approx([1024 ** (1 / 7)] * 7, rel=1e-2)
        assert [2 * math.pi / value for value in (omega[0], omega[-1])] == pytest.approx([4, 4096], rel=1e-4)


def test_white_input_keeps_its_variance() -> None:
    model = build_model("resonator", vocab_size=37, hidden=32, heads=4, layers=1, half_lives=[2, 200])
    mixer = model.blocks[0].mixer  # type: ignore[index,union-attr]
    from overtone.ops import resonant_convolution

    alpha, omega, phi, scale = mixer.kernels()  # type: ignore[operator]
    white = torch.randn(1, 20000, 4, 8, generator=torch.Generator().manual_seed(0))
    y = resonant_convolution(white, alpha, omega, phi) * scale[:, None]  # type: ignore[operator]
    variance = y[0, 2000:].var(dim=(0, 2))
    torch.testing.assert_close(variance, torch.ones(4), rtol=0.15, atol=0)


def test_frozen_kernels_do_not_move() -> None:
    model = small_model("resonator", {"layers": 2, "frozen_kernels": True})
    before = model.diagnostics()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    model.loss(random_ids(2, 20), random_ids(2, 20, seed=1)).backward()
    optimizer.step()
    assert model.diagnostics() == before
    other = build_model("resonator", vocab_size=37, hidden=16, seed=1, layers=2, frozen_kernels=True).diagnostics()
    assert other["half_life"] != before["half_life"]  # drawn from the seed
    for half_life in other["half_life"]:
        assert all(2 <= value <= 2049 for value in half_life)


@pytest.mark.parametrize(("name", "options", "message"), [
    ("harmonic", {"timescales": [4, 32]}, "timescales: .* 3 positive numbers expected"),
    ("harmonic", {"levels": 0}, "levels: 0 found, at least 1"),
    ("harmonic", {"spread": 0.5}, "spread: 0.5 found, at least 1"),
    ("harmonic", {"stride": [1, 0, 2]}, "stride: .* whole numbers from 1 on"),
    ("harmonic", {"spread": 1, "bounded_timescales": True}, "above 1 with bounded_timescales"),
    ("resonator", {"heads": 5}, "heads: 5 found, a divisor of hidden"),
    ("resonator", {"half_lives": [10, 2]}, "shortest <= longest"),
    ("resonator", {"periods": [1, 8]}, "2 <= fastest"),
    ("transformer", {"heads": 3}, "heads: 3 found"),
    ("transformer", {"attention": "flash"}, "attention: 'flash' found"),
    ("llama", {"heads": 4, "kv_heads": 3}, "kv_heads: 3 found, a divisor"),
    ("llama", {"layers": "two"}, "layers: 'two' found, int expected"),
    ("harmonic", {"tied": 1}, "tied: 1 found, bool expected"),
])
def test_impossible_options_are_told(name: str, options: dict, message: str) -> None:
    with pytest.raises(UserError, match=message):
        build_model(name, vocab_size=5, hidden=32, **options)
