"""Harmonic's step, compiled: the equations of overtone.models.harmonic for levels that all run on every token."""

# numba infers the types of the loops.
# mypy: disallow-untyped-defs=false

from __future__ import annotations

from collections import namedtuple
from typing import Any, cast

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from overtone.models.base import State
from overtone.models.compiled.arithmetic import (
    ONE,
    add_linear,
    array,
    choose,
    embed,
    gelu_all,
    linear,
    part,
    rms_norm,
    room,
    sigmoid,
    stacked,
)
from overtone.models.harmonic import LARGEST_LOGIT, Harmonic, HarmonicLevel

EPS = 1e-6
_LARGEST = np.float32(LARGEST_LOGIT)


Weights = namedtuple(
    "Weights",
    "embedding head gate gate_bias fastest span drive_x drive_below drive_bias "
    "norm ffn_in ffn_in_bias ffn_out ffn_out_bias predict ones raw",
)


def weights(model: Harmonic) -> Weights:
    """The weights as arrays whose first axis is the level; what the lowest or highest level has not is zero and unused."""
    levels, d = cast(list[HarmonicLevel], list(model.levels)), model.hidden
    fastest = np.array([level.fastest if level.bounded else 0 for level in levels], np.float32)
    return Weights(
        embedding=array(model.embedding.weight), head=array(model.head_weight),
        gate=stacked(level.gate.weight for level in levels), gate_bias=stacked(level.gate.bias for level in levels),
        fastest=fastest, span=np.array([level.slowest if level.bounded else 1 for level in levels], np.float32) - fastest,
        drive_x=stacked(level.drive.weight[:, :d] for level in levels),  # U = [drive_x, drive_below]
        drive_below=stacked(F.pad(level.drive.weight, (0, 2 * d - level.drive.in_features))[:, d:] for level in levels),
        drive_bias=stacked(level.drive.bias for level in levels), norm=stacked(level.norm.weight for level in levels),
        ffn_in=stacked(level.ffn_in.weight for level in levels), ffn_in_bias=stacked(level.ffn_in.bias for level in levels),
        ffn_out=stacked(level.ffn_out.weight for level in levels), ffn_out_bias=stacked(level.ffn_out.bias for level in levels),
        predict=stacked(torch.zeros(d, d) if level.predict is None else level.predict.weight for level in levels),
        ones=np.ones(d, np.float32), raw=model.config.raw_hidden_states,
    )


def memory(model: Harmonic, state: State) -> tuple[tuple[Any, ...], dict[str, Tensor]]:
    """A copy of the state as (h (N, B, d),), and views of it under the state's names."""
    h = torch.stack([state.tensors[f"h{number}"] for number in range(1, model.config.levels + 1)])
    return (h.numpy(),), {f"h{number}": level for number, level in enumerate(h, start=1)}


def decode(w, h, ids, logits, count):
    """`count` tokens from ids (B,), which end as the next ones; `logits` (B, V) are the last token's."""
    batch, d = len(ids), w.embedding.shape[1]
    x, under, error, output, total = room(batch, d), room(batch, d), room(batch, d), room(batch, d), room(batch, d)
    logit, drive, normed, ffn = room(batch, d), room(batch, d), room(batch, d), room(batch, w.ffn_in.shape[1])
    for _ in range(count):
        embed(x, w.embedding, ids)
        under[:] = x
        total[:] = 0
        for level in range(len(h)):
            linear(logit, w.gate[level], w.gate_bias[level], x)
            linear(drive, w.drive_x[level], w.drive_bias[level], x)
            if level > 0:
                add_linear(drive, w.drive_below[level], error)
            _advance(h[level], logit, drive, w.fastest[level], w.span[level])
            rms_norm(normed, h[level], w.norm[level], EPS)
            linear(ffn, w.ffn_in[level], w.ffn_in_bias[level], normed)
            gelu_all(ffn)
            linear(output, w.ffn_out[level], w.ffn_out_bias[level], ffn)
            output += h[level]
            total += output
            if w.raw:
                error[:] = output
            elif level < len(h) - 1:
                linear(error, w.predict[level], None, output)
                np.subtract(under, error, error)
                rms_norm(error, error, w.ones, EPS)
            under[:] = output
        linear(logits, w.head, None, total)
        choose(ids, logits)


@part
def _advance(h, logit, drive, fastest, span):
    for b in range(len(h)):
        state, gate, new = h[b], logit[b], drive[b]
        for i in range(len(state)):
            decay = fastest + span * sigmoid(min(max(gate[i], -_LARGEST), _LARGEST))
            state[i] = decay * state[i] + (ONE - decay) * new[i]
