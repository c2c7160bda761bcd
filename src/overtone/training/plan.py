"""The plan: which windows a cell trains on, in which order. Imports no torch.

A window starts at token s and holds `length` inputs ids[s : s + length] and their targets ids[s + 1 : s + length + 1].
An epoch is a random offset in [0, length) and a random permutation of the non-overlapping windows from there on; the
next epoch draws both again. The draws come from a numpy Generator seeded by (digest of the training tokens, length,
seed) alone: no architecture, no learning rate, and a larger budget only appends windows.

With carried state the region is one stream instead: from a random offset it is cut into as many equal lanes as a step
has windows, and lane k's next window continues its last one; at its end a lane goes on into the next.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from overtone.errors import UserError
from overtone.files import digest_json


@dataclass(frozen=True)
class Plan:
    """Windows of one cell. Equal fields give equal windows, on any machine and under any hash seed."""

    corpus_digest: str  # sha256 of the training tokens
    region: int  # tokens in the training region
    length: int  # tokens a window
    budget: int  # tokens in all
    tokens_per_step: int
    seed: int
    carry_state: bool = False

    def __post_init__(self) -> None:
        if self.region < self.length + 1:
            raise UserError(
                f"training region: {self.region} tokens, but a window of {self.length} needs {self.length + 1}. "
                "Take a larger corpus or a shorter length."
            )
        if self.budget < self.length:
            raise UserError(f"budget: {self.budget} tokens is less than one window of {self.length}. Raise the budget.")

    @property
    def windows(self) -> int:
        """Windows in all: the most that the budget holds whole."""
        return self.budget // self.length

    @property
    def windows_per_step(self) -> int:
        """Windows of one optimizer step; the last step takes what is left."""
        return max(1, self.tokens_per_step // self.length)

    @property
    def steps(self) -> int:
        """Optimizer steps."""
        return -(-self.windows // self.windows_per_step)

    @property
    def tokens(self) -> int:
        """Target tokens in all: the budget, less than one window below it."""
        return self.windows * self.length

    @cached_property
    def starts(self) -> np.ndarray:
        """First token of every window, int64, in training order."""
        identity = [self.corpus_digest, self.length, self.seed]
        random = np.random.default_rng(int(digest_json(identity), 16))
        return self._lanes(random) if self.carry_state else self._epochs(random)

    def _epochs(self, random: np.random.Generator) -> np.ndarray:
        pieces: list[np.ndarray] = []
        drawn = 0
        while drawn < self.windows:
            offset = int(random.integers(0, min(self.length, self.region - self.length)))
            count = (self.region - 1 - offset) // self.length
            pieces.append(offset + self.length * random.permutation(count).astype(np.int64))
            drawn += count
        return np.concatenate(pieces)[: self.windows]

    def _lanes(self, random: np.random.Generator) -> np.ndarray:
        offset = int(random.integers(0, min(self.length, self.region - self.length)))
        count = (self.region - 1 - offset) // self.length
        lanes = self.windows_per_step
        first = np.arange(lanes, dtype=np.int64) * count // lanes
        window = (first[None, :] + np.arange(self.steps, dtype=np.int64)[:, None]) % count
        return (offset + self.length * window).reshape(-1)[: self.windows]

    def step_starts(self, step: int) -> np.ndarray:
        """The windows of one step."""
        per_step = self.windows_per_step
        return self.starts[step * per_step : (step + 1) * per_step]

    @cached_property
    def digest(self) -> str:
        """What `consume` reaches after every window of the plan in its order."""
        chain = self.origin
        for step in range(self.steps):
            chain = consume(chain, self.step_starts(step))
        return chain

    @property
    def origin(self) -> str:
        """Where the digest of the consumed windows begins: the digest of the plan's fields."""
        return digest_json(
            [
                self.corpus_digest,
                self.region,
                self.length,
                self.budget,
                self.tokens_per_step,
                self.seed,
                self.carry_state,
            ]
        )


def consume(chain: str, starts: np.ndarray) -> str:
    """The digest after one more step's windows: sha256(chain, starts as little-endian int64)."""
    return hashlib.sha256(bytes.fromhex(chain) + starts.astype("<i8").tobytes()).hexdigest()
