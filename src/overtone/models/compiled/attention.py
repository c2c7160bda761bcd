"""Attention's step, compiled: what the transformer's and the llama's have in common. The equations are those of overtone.models.attention.

Keys and values are read once, those of a group for all the query heads that share it; four positions at a time, so that a loop over
the D channels has four sums to work on.
"""

# numba infers the types of the loops.
# mypy: disallow-untyped-defs=false

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from overtone.models.attention import AttentionModel, frequencies
from overtone.models.base import State
from overtone.models.compiled.arithmetic import ONE, array, dot, exp_of_negative, part

_AT_ONCE = 4  # positions


def radians(model: AttentionModel) -> np.ndarray:
    """The angle a position of every pair of channels, (D/2,)."""
    return array(frequencies(model.head_dimension, model.config.rope_theta, torch.device("cpu"), torch.float32))


def memory(model: AttentionModel, state: State) -> tuple[tuple[Any, ...], dict[str, Tensor]]:
    """A copy of the cache as (keys, values, each (layers, B, G, capacity, D); position (1,)), and views under the state's names."""
    layers = range(model.config.layers)
    keys, values = (torch.stack([state.tensors[f"{kind}{layer}"] for layer in layers]) for kind in ("k", "v"))
    views = {f"k{layer}": keys[layer] for layer in layers} | {f"v{layer}": values[layer] for layer in layers}
    return (keys.numpy(), values.numpy(), np.array([state.position])), views


@part
def turn_to(turn, radians, position):
    """turn (2, D/2) = cosines and sines of the angles at a position, which are float32 as the model's are."""
    for i in range(len(radians)):
        angle = np.float64(np.float32(position) * radians[i])
        turn[0, i], turn[1, i] = math.cos(angle), math.sin(angle)


@part
def attend(y, qkv, keys, values, position, turn, scores):
    """y = softmax(q k^T / sqrt(D)) v of the token at `position`, whose key and value go into the cache (B, G, capacity, D).

    y (B, H D); qkv (B, (H + 2 G) D), whose q and k are turned in place; scores (H/G, capacity) is scratch.
    """
    groups, width = keys.shape[1], keys.shape[3]
    sharing = len(scores)
    heads = groups * sharing
    for b in range(len(y)):
        parts, out = qkv[b].reshape(heads + 2 * groups, width), y[b].reshape(heads, width)
        for head in range(heads + groups):
            _rotate(parts[head], turn)
        for group in range(groups):
            key, value = keys[b, group], values[b, group]
            key[position] = parts[heads + group]
            value[position] = parts[heads + groups + group]
            those = slice(group * sharing, (group + 1) * sharing)
            weights = scores[:, : position + 1]
            _score(weights, parts[those], key)
            _softmax(weights, ONE / np.sqrt(np.float32(width)))
            _blend(out[those], weights, value)


@part
def _rotate(x, turn):
    """Turn the pairs (i, i + D/2) of x (D,)."""
    half = len(x) // 2
    for i in range(half):
        first, second = x[i], x[half + i]
        x[i] = first * turn[0, i] - second * turn[1, i]
        x[half + i] = second * turn[0, i] + first * turn[1, i]


@part
def _score(scores, q, key):
    """scores[i, t] = q_i . k_t."""
    seen = scores.shape[1]
    for t in range(0, seen - _AT_ONCE + 1, _AT_ONCE):
        k0, k1, k2, k3 = key[t], key[t + 1], key[t + 2], key[t + 3]
        for i in range(len(q)):
            query = q[i]
            s0 = s1 = s2 = s3 = np.float32(0)
            for c in range(len(query)):
                s0 += query[c] * k0[c]
                s1 += query[c] * k1[c]
                s2 += query[c] * k2[c]
                s3 += query[c] * k3[c]
            scores[i, t], scores[i, t + 1], scores[i, t + 2], scores[i, t + 3] = s0, s1, s2, s3
    for t in range(seen - seen % _AT_ONCE, seen):
        for i in range(len(q)):
            scores[i, t] = dot(q[i], key[t])


@part
def _softmax(scores, scale):
    """Each row becomes the softmax of scale times it."""
    for i in range(len(scores)):
        row = scores[i]
        largest, total = row[0], np.float32(0)
        for t in range(len(row)):
            largest = max(largest, row[t])
        for t in range(len(row)):
            row[t] = exp_of_negative(scale * (row[t] - largest))
            total += row[t]
        for t in range(len(row)):
            row[t] /= total


@part
def _blend(out, weights, value):
    """out_i = sum_t weights[i, t] v_t."""
    seen = weights.shape[1]
    out[:] = 0
    for t in range(0, seen - _AT_ONCE + 1, _AT_ONCE):
        v0, v1, v2, v3 = value[t], value[t + 1], value[t + 2], value[t + 3]
        for i in range(len(out)):
            sums, w0, w1, w2, w3 = out[i], weights[i, t], weights[i, t + 1], weights[i, t + 2], weights[i, t + 3]
            for c in range(len(sums)):
                sums[c] += w0 * v0[c] + w1 * v1[c] + w2 * v2[c] + w3 * v3[c]
    for t in range(seen - seen % _AT_ONCE, seen):
        last = value[t]
        for i in range(len(out)):
            sums, weight = out[i], weights[i, t]
            for c in range(len(sums)):
                sums[c] += weight * last[c]
