"""No logit depends on a later token: by changing tokens and by gradients, in both modes, in float64. A leaky control fails both."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from model_variants import VARIANTS, VOCABULARY, identify, random_ids, small_model, step_by_step

from overtone.models import LanguageModel, architecture_names
from overtone.models.harmonic import Harmonic, HarmonicConfig, HarmonicLevel

LENGTH = 24
ROUNDING = 1e-10  # relative, float64; an FFT moves rounding errors from later to earlier positions
REGISTERED = [(name, {}) for name in architecture_names() if (name, {}) not in VARIANTS]


def logits_of(model: LanguageModel, ids: torch.Tensor, mode: str) -> torch.Tensor:
    return model(ids) if mode == "parallel" else step_by_step(model, ids)


def effect_of_the_future(model: LanguageModel, cut: int, mode: str, seed: int) -> float:
    """How far logits before `cut` move when every token from `cut` on changes, relative to the largest logit."""
    ids, changed = random_ids(1, LENGTH, seed), random_ids(1, LENGTH, seed)
    changed[:, cut:] = (changed[:, cut:] + 1 + random_ids(1, LENGTH - cut, seed + 1) % (VOCABULARY - 1)) % VOCABULARY
    assert (ids[:, cut:] != changed[:, cut:]).all()
    with torch.no_grad():
        before, after = logits_of(model, ids, mode), logits_of(model, changed, mode)
    return float((before - after)[:, :cut].abs().max() / before.abs().max())


def gradient_by_position(model: LanguageModel, t: int, mode: str, seed: int) -> torch.Tensor:
    """|d (a random projection of logits_t) / d embedding_s| summed over channels, (L,)."""
    leaves: list[torch.Tensor] = []

    def cut_off(module: torch.nn.Module, inputs: Any, output: torch.Tensor) -> torch.Tensor:
        leaves.append(output.detach().requires_grad_())
        return leaves[-1]

    handle = model.embedding.register_forward_hook(cut_off)
    logits = logits_of(model, random_ids(1, LENGTH, seed), mode)
    handle.remove()
    direction = torch.randn(VOCABULARY, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    gradients = torch.autograd.grad(logits[0, t] @ direction, leaves, allow_unused=True)
    filled = [torch.zeros_like(leaf) if gradient is None else gradient for leaf, gradient in zip(leaves, gradients, strict=True)]
    return torch.cat([gradient.reshape(-1, model.hidden) for gradient in filled]).abs().sum(1)


@pytest.mark.parametrize("mode", ["parallel", "recurrent"])
@pytest.mark.parametrize("variant", VARIANTS + REGISTERED, ids=identify)
def test_later_tokens_change_no_logit(variant: tuple[str, dict], mode: str) -> None:
    model = small_model(*variant, dtype=torch.float64)

    @settings(max_examples=5, deadline=None, derandomize=True, database=None)
    @given(cut=st.integers(1, LENGTH - 1), seed=st.integers(0, 1000))
    def holds(cut: int, seed: int) -> None:
        assert effect_of_the_future(model, cut, mode, seed) <= ROUNDING

    holds()


@pytest.mark.parametrize("mode", ["parallel", "recurrent"])
@pytest.mark.parametrize("variant", VARIANTS + REGISTERED, ids=identify)
def test_gradients_reach_no_later_embedding(variant: tuple[str, dict], mode: str) -> None:
    model = small_model(*variant, dtype=torch.float64)

    @settings(max_examples=4, deadline=None, derandomize=True, database=None)
    @given(t=st.integers(0, LENGTH - 1), seed=st.integers(0, 1000))
    def holds(t: int, seed: int) -> None:
        gradient = gradient_by_position(model, t, mode, seed)
        assert gradient[t] > 0  # the test sees what it looks at
        assert (gradient[t + 1 :] <= ROUNDING * gradient.max()).all()

    holds()


class LeakyHarmonic(Harmonic):
    """The control: a strided level's block output is spread back over its own block, as the published code is suspected to do."""

    name: ClassVar[str] = "leaky-harmonic"

    def _strided_level(self, level: HarmonicLevel, number: int, x: torch.Tensor, *rest: Any) -> torch.Tensor:
        shifted = super()._strided_level(level, number, F.pad(x, (0, 0, 0, level.stride)), *self._padded(level, rest))
        return shifted[:, level.stride :]

    @staticmethod
    def _padded(level: HarmonicLevel, rest: tuple[Any, ...]) -> tuple[Any, ...]:
        return (F.pad(rest[0], (0, 0, 0, level.stride)), *rest[1:]) if isinstance(rest[0], torch.Tensor) else rest


def test_the_leaky_control_fails_both_tests() -> None:
    model = LeakyHarmonic(HarmonicConfig(vocab_size=VOCABULARY, hidden=16, stride=4)).double().eval()
    assert max(effect_of_the_future(model, cut, "parallel", 0) for cut in range(1, LENGTH)) > 1e-3
    gradient = gradient_by_position(model, 4, "parallel", 0)
    assert gradient[5:8].min() > 1e-3 * gradient.max()  # the rest of its block of four
    assert effect_of_the_future(model, 16, "parallel", 0) <= ROUNDING  # a cut between blocks (of 4 and of 16) would not show it
