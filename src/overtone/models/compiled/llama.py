"""The Llama's step, compiled: the equations of overtone.models.llama."""

# numba infers the types of the loops.
# mypy: disallow-untyped-defs=false

from __future__ import annotations

from collections import namedtuple
from typing import cast

import torch

from overtone.models.compiled.arithmetic import add_gated, add_linear, array, choose, embed, linear, rms_norm, room, stacked
from overtone.models.compiled.attention import attend, memory, radians, turn_to
from overtone.models.llama import Llama, LlamaBlock

__all__ = ["decode", "memory", "weights"]

Weights = namedtuple("Weights", "embedding head radians norm1 qkv o norm2 gate up down last_norm eps")


def weights(model: Llama) -> Weights:
    """The weights as arrays whose first axis is the layer."""
    blocks = cast(list[LlamaBlock], list(model.blocks))
    return Weights(
        embedding=array(model.embedding.weight), head=array(model.head_weight), radians=radians(model),
        norm1=stacked(block.norm1.weight for block in blocks),
        qkv=stacked(torch.cat([block.q.weight, block.k.weight, block.v.weight]) for block in blocks),
        o=stacked(block.o.weight for block in blocks), norm2=stacked(block.norm2.weight for block in blocks),
        gate=stacked(block.gate.weight for block in blocks), up=stacked(block.up.weight for block in blocks),
        down=stacked(block.down.weight for block in blocks), last_norm=array(model.norm.weight), eps=model.config.norm_eps,
    )


def decode(w, keys, values, position, ids, logits, count):
    """`count` tokens from ids (B,), which end as the next ones; `logits` (B, V) are the last token's."""
    batch, d, inner, (layers, _, groups, capacity, width) = len(ids), w.embedding.shape[1], w.gate.shape[1], keys.shape
    x, normed, y, qkv = room(batch, d), room(batch, d), room(batch, d), room(batch, w.qkv.shape[1])
    gate, up = room(batch, inner), room(batch, inner)
    turn, scores = room(2, width // 2), room(d // width // groups, capacity)
    for _ in range(count):
        embed(x, w.embedding, ids)
        turn_to(turn, w.radians, position[0])
        for layer in range(layers):
            rms_norm(normed, x, w.norm1[layer], w.eps)
            linear(qkv, w.qkv[layer], None, normed)
            attend(y, qkv, keys[layer], values[layer], position[0], turn, scores)
            add_linear(x, w.o[layer], y)
            rms_norm(normed, x, w.norm2[layer], w.eps)
            add_gated(x, w.gate[layer], w.up[layer], w.down[layer], normed, gate, up)
        rms_norm(x, x, w.last_norm, w.eps)
        linear(logits, w.head, None, x)
        choose(ids, logits)
        position[0] += 1
