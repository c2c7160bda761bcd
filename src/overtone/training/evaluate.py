"""Evaluation over a whole region: the same targets at every window length.

The region's first m * E + 1 tokens are used, E the study's evaluation length and m as large as fits: targets 1 .. m E.
Windows of L tokens tile those targets (a shorter one at the end where L does not divide m E), so that two lengths
differ in how much context each target sees and in nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, Protocol

import numpy as np
import torch

from overtone.errors import UserError
from overtone.training.run import LN2
from overtone.training.stream import Region, document_segments

HEAD_BYTES = {"cpu": 32 << 20, "cuda": 1 << 30}  # logits held at once by the chunked head


class Tokens(Protocol):
    """What evaluation needs of an `overtone.corpora` TokenFile."""

    @property
    def ids(self) -> np.ndarray:
        """The region's tokens."""

    @property
    def bytes_per_token(self) -> float:
        """Bytes of text per token."""

    @property
    def unknown_bits_per_byte(self) -> float:
        """Bits a byte to spell out what unknown tokens hide; 0 for a tokenizer that loses nothing."""


def target_count(region: int, evaluation_length: int) -> int:
    """Targets of a region of `region` tokens: the largest multiple of evaluation_length with its first input."""
    blocks = (region - 1) // evaluation_length
    if blocks < 1:
        raise UserError(
            f"evaluation region: {region} tokens, but evaluation_length {evaluation_length} needs one more. "
            "Hold out a larger share of the corpus (split) or evaluate at a shorter length."
        )
    return blocks * evaluation_length


@torch.no_grad()
def score_features(features: torch.Tensor, weight: torch.Tensor, targets: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Loss in nats (N,) and whether the likeliest token is the target (N,) bool.

    features (N, d), weight (V, d), targets (N,) int64. The head is computed in float32 (float64 for float64) whatever the
    autocast, for as many tokens at once as HEAD_BYTES holds.
    """
    rows = max(1, HEAD_BYTES[weight.device.type] // (4 * weight.shape[0]))
    dtype = torch.promote_types(features.dtype, torch.float32)
    weight = weight.to(dtype)
    losses, hits = [], []
    with torch.autocast(weight.device.type, enabled=False):
        for part, wanted in zip(features.split(rows), targets.split(rows), strict=True):
            logits = torch.nn.functional.linear(part.to(dtype), weight)
            losses.append(torch.logsumexp(logits, dim=-1) - logits.gather(-1, wanted[:, None])[:, 0])
            hits.append(logits.argmax(dim=-1) == wanted)
    return torch.cat(losses), torch.cat(hits)


@torch.no_grad()
def score_region(
    model: Any, region: Region, targets: int, length: int, *, batch_tokens: int, carry_state: bool = False,
    windows: np.ndarray | None = None, between: Callable[[], None] = lambda: None, autocast: Callable[[], Any] = nullcontext,
) -> tuple[np.ndarray, np.ndarray]:
    """Loss (targets,) float32 and hit (targets,) bool of every target of the region, 0 where `windows` leaves one out.

    `windows` picks windows by number (default: all); `between` is called between batches (it may raise to stop).
    With `carry_state` each document is read from its first token with its state carried.
    """
    losses = np.zeros(targets, dtype=np.float32)
    hits = np.zeros(targets, dtype=bool)
    device = model.head_weight.device

    def record(start: int, features: torch.Tensor, wanted: torch.Tensor) -> None:
        loss, hit = score_features(features.flatten(0, 1), model.head_weight, wanted)
        losses[start : start + len(wanted)] = loss.cpu().numpy()
        hits[start : start + len(wanted)] = hit.cpu().numpy()

    def score_windows(start: int, count: int, width: int) -> None:
        between()
        ids = region.ids_at(start, count * width + 1).to(device)
        with autocast():
            features = model.features(ids[:-1].view(count, width))
        record(start, features, ids[1:])

    training = model.training
    model.eval()
    if carry_state:
        for document in document_segments(region, 0, targets, length):
            state = None
            for start, end in document:
                between()
                ids = region.ids_at(start, end - start + 1).to(device)
                with autocast():
                    features, state = model.features(ids[None, :-1], state, return_state=True)
                record(start, features, ids[1:])
    else:
        whole, rest = divmod(targets, length)
        rows = max(1, batch_tokens // length)
        chosen = np.arange(whole) if windows is None else windows[windows < whole]
        for run in np.split(chosen, np.flatnonzero(np.diff(chosen) != 1) + 1):
            for first in range(0, len(run), rows):
                score_windows(int(run[first]) * length, min(rows, len(run) - first), length)
        if rest and (windows is None or whole in windows):
            score_windows(whole * length, 1, rest)
    model.train(training)
    return losses, hits


def summarise(losses: np.ndarray, hits: np.ndarray, length: int, tokens: Tokens) -> dict[str, Any]:
    """Every measure of a region, as `evaluation.SPLIT` of metrics.json, from the loss in nats and the hit of every target.

    The targets are those of windows of `length` in order. bpt = mean loss in bits per token; bpb = bpt / bytes per token (+ bits for
    unknown characters); perplexity = 2^bpt; accuracy: share of targets that were the likeliest token; window_bpt: one a window;
    loss_by_position: mean loss up to each right edge. Numbers that are not finite are the caller's to judge (a diverged model).
    """
    bits = losses.astype(np.float64) / LN2
    bpt = float(bits.mean())
    edges = np.arange(0, len(bits), length)
    counts = np.diff(np.append(edges, len(bits)))
    return {
        "bpt": bpt,
        "bpb": bpt / tokens.bytes_per_token + tokens.unknown_bits_per_byte,
        "perplexity": 2.0**bpt if bpt < 1000 else math.inf,
        "accuracy": float(hits.mean()),
        "targets": len(bits),
        "windows": len(edges),
        "window_length": length,
        "bytes_per_token": float(tokens.bytes_per_token),
        "window_bpt": [float(value) for value in np.add.reduceat(bits, edges) / counts],
        "loss_by_position": loss_by_position(bits, length),
    }


def position_edges(length: int) -> list[int]:
    """Right edges of the position bins: 1, 2, 3, 4, 6, 8, 12, 16, ... and `length` itself (1-based positions)."""
    edges = {length}
    power = 1
    while power < length:
        edges |= {power, min(length, power * 3 // 2)}
        power *= 2
    return sorted(edges)


def loss_by_position(bits: np.ndarray, length: int) -> dict[str, Any]:
    """Mean bits of the targets at positions (previous edge, edge] of their window, 1 the first target."""
    whole = len(bits) // length * length
    table = bits[:whole].reshape(-1, length) if whole else bits.reshape(1, -1)
    edges = position_edges(table.shape[1])
    means = table.mean(axis=0)
    return {
        "position": edges,
        "bpt": [float(means[left:right].mean()) for left, right in zip([0, *edges[:-1]], edges, strict=True)],
    }
