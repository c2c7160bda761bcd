"""Decoding on a CPU by one compiled call a run of tokens: `overtone.models.compile_step`."""
