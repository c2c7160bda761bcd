"""The training rules of a cell: one set for every architecture of a study. Imports no torch."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any

from overtone.errors import UserError, unknown_name
from overtone.study import Cell
from overtone.study.schema import PROTOCOL, check


@dataclass(frozen=True)
class TrainingProtocol:
    """What the study fixes for a cell. `lr` is None where the rate comes from a sweep."""

    budget: int  # tokens
    tokens_per_step: int  # tokens of one optimizer step
    evaluation_length: int  # tokens; regions are cut to a multiple of it
    lr: float | None = None  # peak rate
    batch: int | None = None  # windows held at once; None: all of a step
    warmup: float = 0.1  # share of the steps
    final_lr: float = 0.1  # share of the peak
    weight_decay: float = 0.1
    betas: tuple[float, float] = (0.9, 0.95)
    clip: float = 1.0  # global gradient norm
    dtype: str = "auto"  # auto | float32 | bfloat16
    carry_state: bool = False
    validation_points: int = 4
    checkpoint_every_s: float = 60.0
    memory_limit_gb: float | None = None  # CPU only

    @classmethod
    def from_cell(cls, cell: Cell) -> TrainingProtocol:
        """The protocol in `cell.training`; an unknown key and a value that the study's schema would refuse are UserErrors."""
        given: dict[str, Any] = dict(cell.config()["training"])
        known = {field.name for field in fields(cls)}
        where = f"cell {cell.key}: training"
        for key in given:
            if key not in known:
                raise unknown_name(f"{where}: key", key, known)
        length = given.setdefault("evaluation_length", cell.length)
        if not isinstance(length, int) or isinstance(length, bool) or length < 1:
            raise UserError(f"{where}: evaluation_length: found {length!r}, expected a whole number from 1 up.")
        rate = given.get("lr", "swept")
        if rate != "swept" and (isinstance(rate, bool) or not isinstance(rate, int | float)):
            raise UserError(f"{where}: lr: found {rate!r}, expected a number or 'swept'.")
        check("study", {key: value for key, value in given.items() if key != "evaluation_length"}, where, PROTOCOL)
        given["betas"] = tuple(given.get("betas", cls.betas))
        if given["lr"] == "swept":
            given["lr"] = None
        return cls(**given)

    def rate_at(self, step: int, steps: int, peak: float) -> float:
        """The learning rate of step 0..steps-1: linear up to `peak`, then a cosine down to final_lr * peak.

        The first step has peak/W (W warm-up steps), step W-1 has the peak, the last step final_lr * peak.
        """
        rising = math.ceil(self.warmup * steps)
        if step < rising:
            return peak * (step + 1) / rising
        done = (step - rising + 1) / max(1, steps - rising)
        return peak * (self.final_lr + (1 - self.final_lr) * 0.5 * (1 + math.cos(math.pi * done)))
