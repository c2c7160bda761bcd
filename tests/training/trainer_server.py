"""Imported once by the server that trainers are forked from: everything slow to load, and the compiled scan."""

import torch

import overtone.training.cell  # noqa: F401
from overtone.models import build_model
from overtone.training.memory import warm_up

torch.set_num_threads(1)  # a process that has started threads cannot be forked safely
warm_up(build_model("harmonic", vocab_size=8, hidden=8))
