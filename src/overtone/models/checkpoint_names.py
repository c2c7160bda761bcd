"""Names shared by the checkpoint files and the Hugging Face classes."""

from __future__ import annotations

TYPE_PREFIX = "overtone_"  # model_type in config.json: overtone_harmonic, ...
WEIGHT_PREFIX = "model."  # the Hugging Face class holds our model under this name


def class_stem(name: str) -> str:
    """What an architecture's Hugging Face classes start with, e.g. OvertoneHarmonic."""
    return "Overtone" + "".join(word.capitalize() for word in name.replace("-", "_").split("_"))
