"""The models' states as a transformers cache, and padding as an identity step.

A row's tokens are the ones its attention mask shows; a masked position leaves the row's state as it was. Rows that have seen
the same positions share one state (a group); a batch of prompts of different lengths, padded on the left, makes several groups.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import Cache

from overtone.models.base import State

Group = tuple[Tensor, State]  # rows of the batch (indices, ascending or in beam order) and their state


class StateCache(Cache):
    """States of a batch. It cannot be cropped: a recurrent state does not forget single tokens."""

    is_compileable = False
    is_croppable = False
    is_initialized = True
    is_sliding = [False]  # noqa: RUF012
    is_linear = [False]  # noqa: RUF012 generate() then passes only the tokens that this cache has not seen

    def __init__(self, max_length: int | None = None):
        super().__init__(layers=[])
        self.max_length, self.seen, self.groups = max_length, 0, list[Group]()

    @property
    def nbytes(self) -> int:
        """Bytes of all states."""
        return sum(state.nbytes for _, state in self.groups)

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Positions seen, padding included."""
        return self.seen

    def get_max_cache_shape(self, layer_idx: int = 0) -> int:
        """No limit: attention's caches grow when they are full."""
        return -1

    def reorder_cache(self, beam_idx: Tensor) -> None:
        """Row i goes on from what row beam_idx[i] has seen (beam search)."""
        self.batch_select_indices(beam_idx)

    def batch_select_indices(self, indices: Tensor) -> None:
        """Keep these rows, in this order."""
        if len(self.groups) == 1:
            _, state = self.groups[0]
            self.groups = [(torch.arange(len(indices), device=indices.device), state.select(indices))]
            return
        groups = []
        for rows, state in self.groups:
            place = {row: index for index, row in enumerate(rows.tolist())}
            pairs = [(new, place[old]) for new, old in enumerate(indices.tolist()) if old in place]
            if pairs:
                new, old = (torch.tensor(side, device=rows.device) for side in zip(*pairs, strict=True))
                groups.append((new, state.select(old)))
        self.groups = groups

    def batch_repeat_interleave(self, repeats: int) -> None:
        """Every row `repeats` times."""
        count = sum(len(rows) for rows, _ in self.groups)
        self.batch_select_indices(torch.arange(count, device=self.groups[0][0].device).repeat_interleave(repeats))

    def reset(self) -> None:
        """Forget everything."""
        self.seen, self.groups = 0, []

    def crop(self, *args: Any, **kwargs: Any) -> None:
        """Not possible."""
        raise ValueError("a recurrent state cannot be cropped: use a generation mode that only appends (no assisted generation)")


def spans(mask: Tensor) -> dict[tuple[int, int], Tensor]:
    """Rows (indices) by the half-open span of positions their mask (B, L) shows; a mask with a hole is a ValueError."""
    shown = mask.bool()
    count, start = shown.sum(1), shown.int().argmax(1)
    at = torch.arange(mask.shape[1], device=mask.device)
    if not torch.equal(shown, (at >= start[:, None]) & (at < (start + count)[:, None])):
        raise ValueError("attention_mask: a row has padding between its tokens; pad on the left or on the right only. (generate() without "
                         "a mask takes every pad_token_id in the prompt for padding: pass attention_mask.)")
    rows: dict[tuple[int, int], list[int]] = {}
    for row, (first, length) in enumerate(torch.stack([start, count], dim=1).tolist()):
        rows.setdefault((first, first + length), []).append(row)
    return {span: torch.tensor(members, device=mask.device) for span, members in rows.items()}
