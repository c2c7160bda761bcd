"""Forward and backward over the windows of one optimizer step, in micro-batches, with or without carried state."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from overtone.training.stream import Region, document_segments


class StatelessSteps:
    """Every window on its own: gradients of the summed loss of a step, `micro` windows at a time."""

    def __init__(self, model: Any, region: Region, length: int, autocast: Callable[[], Any]) -> None:
        self.model = model
        self.region = region
        self.length = length
        self.autocast = autocast

    def backward(self, starts: np.ndarray, targets: int, micro: int) -> torch.Tensor:
        """Add the gradients of sum(loss) / targets over these windows; returns sum(loss) in nats, detached.

        Sums over micro-batches, so any `micro` gives the same gradients up to the order of additions.
        """
        device = self.model.head_weight.device
        total = torch.zeros((), device=device)
        for first in range(0, len(starts), micro):
            ids, wanted = self.region.windows(starts[first : first + micro], self.length)
            with self.autocast():
                loss = self.model.loss(ids.to(device), wanted.to(device), reduction="sum")
            (loss / targets).backward()
            total += loss.detach()
        return total

    def tensors(self) -> dict[str, torch.Tensor]:
        """What a checkpoint has to hold: nothing."""
        return {}

    def load(self, tensors: dict[str, torch.Tensor]) -> None:
        """Inverse of `tensors`."""


class StatefulSteps:
    """Consecutive windows with the state carried: truncated gradients, and a fresh state where a document begins.

    A step's k-th window continues the k-th lane. A window is cut where documents begin in it; a piece starts from the
    detached state before it in its document: no memory crosses documents, no gradient crosses windows.
    """

    def __init__(self, model: Any, region: Region, length: int, autocast: Callable[[], Any]) -> None:
        self.model = model
        self.region = region
        self.length = length
        self.autocast = autocast
        self.states: dict[int, tuple[int, Any]] = {}  # lane -> (position after its last token, state)

    def backward(self, starts: np.ndarray, targets: int, micro: int) -> torch.Tensor:
        """As StatelessSteps.backward, one window at a time whatever `micro`. Lanes move only when all went well."""
        device = self.model.head_weight.device
        total = torch.zeros((), device=device)
        moved: dict[int, tuple[int, Any]] = {}
        for lane, start in enumerate(int(value) for value in starts):
            loss = torch.zeros((), device=device)
            state = self._carried(lane, start)
            for document in document_segments(self.region, start, start + self.length, self.length):
                left, right = document[0][0], document[-1][1]
                ids, wanted = self.region.windows(np.array([left]), right - left)
                with self.autocast():
                    part, state = self.model.loss(
                        ids.to(device), wanted.to(device), state=state, reduction="sum", return_state=True
                    )
                loss = loss + part
                last, state = state, None
            (loss / targets).backward()
            total += loss.detach()
            moved[lane] = (start + self.length, last.detach())
        self.states.update(moved)
        return total

    def _carried(self, lane: int, start: int) -> Any:
        position, state = self.states.get(lane, (-1, None))
        return state if position == start and not self.region.begins_document(start) else None

    def tensors(self) -> dict[str, torch.Tensor]:
        """The carried states: LANE/NAME tensors, and LANE/at = (position in the region, tokens the state has seen)."""
        found = {}
        for lane, (position, state) in self.states.items():
            found[f"{lane}/at"] = torch.tensor([position, state.position])
            found |= {f"{lane}/tensor/{name}": value for name, value in state.tensors.items()}
        return found

    def load(self, tensors: dict[str, torch.Tensor]) -> None:
        """Inverse of `tensors`."""
        device = self.model.head_weight.device
        self.states = {}
        for name in tensors:
            lane, _, rest = name.partition("/")
            if rest == "at":
                position, seen = (int(value) for value in tensors[name])
                prefix = f"{lane}/tensor/"
                held = {
                    key.removeprefix(prefix): value.to(device)
                    for key, value in tensors.items()
                    if key.startswith(prefix)
                }
                template = self.model.init_state(1, device=device)
                self.states[int(lane)] = (position, dataclasses.replace(template, tensors=held, position=seen))
