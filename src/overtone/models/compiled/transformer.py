"""The Transformer's step, compiled: the equations of overtone.models.transformer."""

# numba infers the types of the loops.
# mypy: disallow-untyped-defs=false

from __future__ import annotations

from collections import namedtuple
from typing import cast

from overtone.models.compiled.arithmetic import add_linear, array, choose, embed, gelu_all, layer_norm, linear, room, stacked
from overtone.models.compiled.attention import attend, memory, radians, turn_to
from overtone.models.transformer import Transformer, TransformerBlock

__all__ = ["decode", "memory", "weights"]

Weights = namedtuple(
    "Weights", "embedding head radians norm1 norm1_bias qkv out norm2 norm2_bias ffn_in ffn_in_bias ffn_out ffn_out_bias eps")


def weights(model: Transformer) -> Weights:
    """The weights as arrays whose first axis is the layer."""
    blocks = cast(list[TransformerBlock], list(model.blocks))
    return Weights(
        embedding=array(model.embedding.weight), head=array(model.head_weight), radians=radians(model),
        norm1=stacked(block.norm1.weight for block in blocks), norm1_bias=stacked(block.norm1.bias for block in blocks),
        qkv=stacked(block.qkv.weight for block in blocks), out=stacked(block.out.weight for block in blocks),
        norm2=stacked(block.norm2.weight for block in blocks), norm2_bias=stacked(block.norm2.bias for block in blocks),
        ffn_in=stacked(block.ffn_in.weight for block in blocks), ffn_in_bias=stacked(block.ffn_in.bias for block in blocks),
        ffn_out=stacked(block.ffn_out.weight for block in blocks), ffn_out_bias=stacked(block.ffn_out.bias for block in blocks),
        eps=blocks[0].norm1.eps,
    )


def decode(w, keys, values, position, ids, logits, count):
    """`count` tokens from ids (B,), which end as the next ones; `logits` (B, V) are the last token's."""
    batch, d, (layers, _, groups, capacity, width) = len(ids), w.embedding.shape[1], keys.shape
    x, normed, y, qkv, ffn = room(batch, d), room(batch, d), room(batch, d), room(batch, 3 * d), room(batch, w.ffn_in.shape[1])
    turn, scores = room(2, width // 2), room(d // width // groups, capacity)
    for _ in range(count):
        embed(x, w.embedding, ids)
        turn_to(turn, w.radians, position[0])
        for layer in range(layers):
            layer_norm(normed, x, w.norm1[layer], w.norm1_bias[layer], w.eps)
            linear(qkv, w.qkv[layer], None, normed)
            attend(y, qkv, keys[layer], values[layer], position[0], turn, scores)
            add_linear(x, w.out[layer], y)
            layer_norm(normed, x, w.norm2[layer], w.norm2_bias[layer], w.eps)
            linear(ffn, w.ffn_in[layer], w.ffn_in_bias[layer], normed)
            gelu_all(ffn)
            linear(y, w.ffn_out[layer], w.ffn_out_bias[layer], ffn)
            x += y
        linear(logits, w.head, None, x)
        choose(ids, logits)
        position[0] += 1
