"""Every architecture, ablation and option as (name, options), and small models of them whose weights are all away from their start."""

from __future__ import annotations

from typing import Any

import torch

from overtone.models import LanguageModel, build_model

VARIANTS: list[tuple[str, dict[str, Any]]] = [
    ("harmonic", {}),
    ("harmonic", {"tied": True}),
    ("harmonic", {"flat_timescales": True}),
    ("harmonic", {"raw_hidden_states": True}),
    ("harmonic", {"bounded_timescales": True}),
    ("harmonic", {"levels": 1}),
    ("harmonic", {"levels": 4, "spread": 1.5}),
    ("harmonic", {"stride": 3}),
    ("harmonic", {"stride": [2, 1, 5], "raw_hidden_states": True}),
    ("transformer", {}),
    ("transformer", {"tied": True, "heads": 4}),
    ("transformer", {"attention": "quadratic"}),
    ("llama", {}),
    ("llama", {"tied": True, "heads": 4, "kv_heads": 1}),
    ("llama", {"attention": "quadratic", "heads": 4, "kv_heads": 2}),
    ("mamba", {"layers": 2}),
    ("mamba", {"layers": 2, "tied": True, "d_state": 5, "d_conv": 3, "expand": 3}),
    ("resonator", {"layers": 2}),
    ("resonator", {"layers": 2, "tied": True}),
    ("resonator", {"layers": 2, "head_coupling": False}),
    ("resonator", {"layers": 2, "local_path": False}),
    ("resonator", {"layers": 2, "head_coupling": False, "local_path": False}),
    ("resonator", {"layers": 2, "frozen_kernels": True}),
    ("resonator", {"layers": 2, "pure_decay": True}),
    ("resonator", {"layers": 2, "heads": 1}),
    ("resonator", {"layers": 2, "kernel_backend": "fft"}),
]
VOCABULARY, HIDDEN = 37, 16


def identify(variant: tuple[str, dict[str, Any]]) -> str:
    """A test id, e.g. harmonic-stride=3."""
    name, options = variant
    return "-".join([name, *(f"{key}={value}" for key, value in options.items())])


def small_model(name: str, options: dict[str, Any], dtype: torch.dtype = torch.float32, hidden: int = HIDDEN) -> LanguageModel:
    """A model with noise on every weight, so that what starts at zero or at the identity takes part."""
    model = build_model(name, vocab_size=VOCABULARY, hidden=hidden, seed=3, **options).to(dtype)
    generator = torch.Generator().manual_seed(4)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.2 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64).to(dtype)
    return model.eval()


def random_ids(batch: int, length: int, seed: int = 0) -> torch.Tensor:
    """Token ids (B, L)."""
    return torch.randint(0, VOCABULARY, (batch, length), generator=torch.Generator().manual_seed(seed))


def step_by_step(model: LanguageModel, ids: torch.Tensor) -> torch.Tensor:
    """Logits (B, L, V) by the recurrence alone."""
    state = model.init_state(ids.shape[0])
    outputs = []
    for column in ids.unbind(1):
        logits, state = model.step(column, state)
        outputs.append(logits)
    return torch.stack(outputs, dim=1)
