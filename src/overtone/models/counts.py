"""Parameters by part, and forward FLOPs a token."""

from __future__ import annotations

from collections import Counter
from typing import Any

from overtone.models.base import LanguageModel


def parameter_counts(model: LanguageModel) -> dict[str, Any]:
    """`total`, `body`, `embedding` (input and output, once where tied), `parts` (by module, layers of one kind added up).

    Counts trainable parameters; works for a model on the meta device.
    """
    parts: Counter[str] = Counter()
    for name, parameter in model.named_parameters():
        parts[_part(name)] += parameter.numel()
    embedding = parts["embedding"] + parts["head"]
    total = sum(parts.values())
    held = {name: count for name, count in parts.items() if count}
    return {"total": total, "body": total - embedding, "embedding": embedding, "parts": held}


def _part(name: str) -> str:
    """A parameter's module path without layer numbers and without its own last name, e.g. blocks.3.qkv.weight -> blocks.qkv."""
    words = [word for word in name.split(".") if not word.isdigit()]
    return ".".join(words[:-1] if words[-1] in ("weight", "bias") else words)


def flops_per_token(model: LanguageModel, length: int) -> float:
    """Forward FLOPs a token, mean over a sequence of `length`: 2 a weight of every matrix and of the head, and the mixer's own.

    Norms, activations and biases are not counted. A backward pass costs about twice as much again.
    """
    return 2 * (model.matrix_weights() + model.vocab_size * model.hidden) + model.mixer_flops(length)
