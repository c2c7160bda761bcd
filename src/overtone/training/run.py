"""Where a run stands: everything besides weights and optimizer that a checkpoint restores. Imports no torch."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

LN2 = math.log(2.0)
CURVE_POINTS = 200  # points of the training curve at most


@dataclass
class RunState:
    """Counters and curves of a run in progress."""

    chain: str  # digest of the windows consumed so far
    micro: int  # windows held at once
    step: int = 0  # optimizer steps taken
    windows: int = 0
    tokens: int = 0
    curve: list[dict[str, Any]] = field(default_factory=list)
    validation_curve: list[dict[str, Any]] = field(default_factory=list)
    pending_nats: float = 0.0  # summed loss since the last point of the curve
    pending_tokens: int = 0
    pending_largest: dict[str, float] = field(default_factory=dict)  # of `LanguageModel.watched`, since then
    train_s: float = 0.0  # measured over the whole run, resumed parts included
    timed_s: float = 0.0  # the same without each process's first step
    timed_tokens: int = 0
    peak_bytes: int = 0
    diagnostics_before: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON."""
        return dict(vars(self))

    def record_step(self, steps: int, windows: int, tokens: int, nats: float, rate: float, watched: dict[str, float]) -> None:
        """Count one step; every ceil(steps / CURVE_POINTS) the curve gets a point: mean loss and largest `watched` since the last."""
        self.step += 1
        self.windows += windows
        self.tokens += tokens
        self.pending_nats += nats
        self.pending_tokens += tokens
        for name, value in watched.items():
            self.pending_largest[name] = max(value, self.pending_largest.get(name, value))
        every = -(-steps // CURVE_POINTS)
        if self.step % every == 0 or self.step == steps:
            bpt = self.pending_nats / self.pending_tokens / LN2
            self.curve.append({"step": self.step, "tokens": self.tokens, "train_bpt": bpt, "lr": rate} | self.pending_largest)
            self.pending_nats, self.pending_tokens, self.pending_largest = 0.0, 0, {}
