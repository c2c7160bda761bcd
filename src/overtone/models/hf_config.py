"""Hugging Face configurations of the registered architectures, one class each; needs no torch."""

from __future__ import annotations

from functools import cache
from typing import Any

from transformers import AutoConfig
from transformers.configuration_utils import PretrainedConfig

from overtone.models.checkpoint_names import TYPE_PREFIX, class_stem
from overtone.models.registry import architecture_names


class OvertoneConfig(PretrainedConfig):
    """vocab_size (V), hidden_size (d) and the architecture's own options, as `overtone.models.build_model` takes them."""

    model_type = "overtone"
    architecture = ""

    def __init__(self, vocab_size: int = 256, hidden_size: int = 64, options: dict[str, Any] | None = None,
                 **kwargs: Any):
        self.vocab_size, self.hidden_size = vocab_size, hidden_size
        self.options = dict(options or {})
        kwargs["tie_word_embeddings"] = False  # `options["tied"]` says it; the weights then hold one matrix
        super().__init__(**kwargs)


@cache
def config_class(name: str) -> type[OvertoneConfig]:
    """The configuration class of an architecture, e.g. OvertoneHarmonicConfig."""
    return type(f"{class_stem(name)}Config", (OvertoneConfig,), {
        "__module__": __name__, "model_type": TYPE_PREFIX + name, "architecture": name,
        "__doc__": f"Configuration of {name}: vocab_size, hidden_size, options.",
    })


def register_configs() -> None:
    """Make every registered architecture known to AutoConfig."""
    for name in architecture_names():
        found = config_class(name)
        globals()[found.__name__] = found  # pickling a configuration looks its class up here
        AutoConfig.register(found.model_type, found, exist_ok=True)


register_configs()
