"""Mamba's step, compiled: the equations of overtone.models.mamba. Inside, the channels of h come last, so that they make vectors."""

# numba infers the types of the loops.
# mypy: disallow-untyped-defs=false

from __future__ import annotations

from collections import namedtuple
from typing import Any, cast

import torch
from torch import Tensor

from overtone.models.base import State
from overtone.models.compiled.arithmetic import (
    add_linear,
    array,
    choose,
    convolve,
    embed,
    exp_of_negative,
    linear,
    part,
    rms_norm,
    room,
    silu,
    softplus,
    stacked,
)
from overtone.models.mamba import Mamba, MambaBlock

Weights = namedtuple(
    "Weights", "embedding head norm in_proj conv conv_bias x_proj dt_proj dt_bias a skip out_proj last_norm eps")


def weights(model: Mamba) -> Weights:
    """The weights as arrays whose first axis is the layer."""
    blocks = cast(list[MambaBlock], list(model.blocks))
    return Weights(
        embedding=array(model.embedding.weight), head=array(model.head_weight),
        norm=stacked(block.norm.weight for block in blocks), in_proj=stacked(block.in_proj.weight for block in blocks),
        conv=stacked(block.conv.weight.squeeze(1).T for block in blocks),  # (layers, d_conv, D_in)
        conv_bias=stacked(cast(Tensor, block.conv.bias) for block in blocks),
        x_proj=stacked(block.x_proj.weight for block in blocks),
        dt_proj=stacked(block.dt_proj.weight.T for block in blocks), dt_bias=stacked(block.dt_proj.bias for block in blocks),
        a=stacked(-torch.exp(block.A_log).T for block in blocks), skip=stacked(block.D for block in blocks),
        out_proj=stacked(block.out_proj.weight for block in blocks),
        last_norm=array(model.norm.weight), eps=model.config.norm_eps,
    )


def memory(model: Mamba, state: State) -> tuple[tuple[Any, ...], dict[str, Tensor]]:
    """A copy of the state as (windows (layers, B, d_conv - 1, D_in), h (layers, B, N, D_in)), and views under the state's names."""
    layers = range(model.config.layers)
    conv = torch.stack([state.tensors[f"conv{layer}"] for layer in layers])
    h = torch.stack([state.tensors[f"h{layer}"].transpose(1, 2) for layer in layers])
    views = {f"conv{layer}": conv[layer] for layer in layers} | {f"h{layer}": h[layer].transpose(1, 2) for layer in layers}
    return (conv.numpy(), h.numpy()), views


def decode(w, conv, h, ids, logits, count):
    """`count` tokens from ids (B,), which end as the next ones; `logits` (B, V) are the last token's."""
    batch, d, channels = len(ids), w.embedding.shape[1], w.conv.shape[2]
    x, normed = room(batch, d), room(batch, d)
    uz, u, delta, y = room(batch, 2 * channels), room(batch, channels), room(batch, channels), room(batch, channels)
    low_rank_b_c = room(batch, w.x_proj.shape[1])
    for _ in range(count):
        embed(x, w.embedding, ids)
        for layer in range(len(h)):
            rms_norm(normed, x, w.norm[layer], w.eps)
            linear(uz, w.in_proj[layer], None, normed)
            u[:] = w.conv_bias[layer]
            convolve(u, conv[layer], uz, w.conv[layer])
            _silu(u)
            linear(low_rank_b_c, w.x_proj[layer], None, u)
            _step_size(delta, w.dt_proj[layer], w.dt_bias[layer], low_rank_b_c)
            _scan(y, h[layer], u, delta, w.a[layer], low_rank_b_c)
            _skip_and_gate(y, w.skip[layer], u, uz)
            add_linear(x, w.out_proj[layer], y)
        rms_norm(x, x, w.last_norm, w.eps)
        linear(logits, w.head, None, x)
        choose(ids, logits)


@part
def _silu(u):
    for b in range(len(u)):
        row = u[b]
        for i in range(len(row)):
            row[i] = silu(row[i])


@part
def _step_size(delta, weight, bias, low_rank):
    """Delta = softplus(W_dt low_rank + bias), the columns of W_dt (D_in, R) as rows: they are long, its rows are not."""
    for b in range(len(delta)):
        row = delta[b]
        row[:] = bias
        for r in range(len(weight)):
            column, gain = weight[r], low_rank[b, r]
            for i in range(len(row)):
                row[i] += column[i] * gain
        for i in range(len(row)):
            row[i] = softplus(row[i])


@part
def _scan(y, h, u, delta, a, low_rank_b_c):
    """h = exp(Delta A) h + Delta B u and y = C h; B and C are the last 2 N of low_rank_b_c."""
    numbers = len(a)
    for b in range(len(h)):
        drive, step, out, selected = u[b], delta[b], y[b], low_rank_b_c[b]
        rank = len(selected) - 2 * numbers
        out[:] = 0
        for n in range(numbers):
            state, rate, in_gain, out_gain = h[b, n], a[n], selected[rank + n], selected[rank + numbers + n]
            for i in range(len(state)):
                value = exp_of_negative(step[i] * rate[i]) * state[i] + step[i] * drive[i] * in_gain
                state[i] = value
                out[i] += out_gain * value


@part
def _skip_and_gate(y, skip, u, uz):
    """y = (y + D u) silu(z)."""
    for b in range(len(y)):
        out, inner = y[b], u[b]
        z = uz[b, len(inner) :]
        for i in range(len(inner)):
            out[i] = (out[i] + skip[i] * inner[i]) * silu(z[i])
