"""ResonatorLM's step, compiled: the equations of overtone.models.resonator, the oscillators in double precision as there."""

# numba infers the types of the loops.
# mypy: disallow-untyped-defs=false

from __future__ import annotations

from collections import namedtuple
from typing import Any, cast

import torch
from torch import Tensor

from overtone.models.base import State
from overtone.models.compiled.arithmetic import (
    add_gated,
    add_linear,
    array,
    choose,
    convolve,
    embed,
    linear,
    part,
    rms_norm,
    room,
    stacked,
)
from overtone.models.resonator import Resonator, ResonatorBlock

Weights = namedtuple(
    "Weights", "embedding head norm1 drive decay turn mix local out norm2 gate up down last_norm eps")


def weights(model: Resonator) -> Weights:
    """The weights as arrays whose first axis is the layer."""
    blocks = cast(list[ResonatorBlock], list(model.blocks))
    mixers = [block.mixer for block in blocks]
    oscillators = [mixer.oscillators() for mixer in mixers]
    couplings = [torch.eye(model.config.heads) if mixer.coupling is None else mixer.coupling for mixer in mixers]
    return Weights(
        embedding=array(model.embedding.weight), head=array(model.head_weight),
        norm1=stacked(block.norm1.weight for block in blocks), drive=stacked(mixer.drive.weight for mixer in mixers),
        decay=stacked(known.modes[0].squeeze(1) for known in oscillators),  # lambda, complex128
        turn=stacked(known.modes[1].squeeze(1) for known in oscillators),  # exp(i phi), complex128
        mix=stacked(coupling * known.scale for coupling, known in zip(couplings, oscillators, strict=True)),
        local=stacked(torch.zeros(1, model.hidden) if mixer.local is None else mixer.local.T for mixer in mixers),  # (layers, width, d)
        out=stacked(mixer.out.weight for mixer in mixers), norm2=stacked(block.norm2.weight for block in blocks),
        gate=stacked(block.gate.weight for block in blocks), up=stacked(block.up.weight for block in blocks),
        down=stacked(block.down.weight for block in blocks), last_norm=array(model.norm.weight), eps=model.config.norm_eps,
    )


def memory(model: Resonator, state: State) -> tuple[tuple[Any, ...], dict[str, Tensor]]:
    """A copy of the state as (s (layers, B, H, d/H), windows (layers, B, width - 1, d)), and views under the state's names."""
    layers = range(len(model.blocks))
    s = torch.stack([state.tensors[f"s{layer}"] for layer in layers])
    views = {f"s{layer}": s[layer] for layer in layers}
    u = torch.empty(len(layers), s.shape[1], 0, model.hidden)
    if model.config.local_path:
        u = torch.stack([state.tensors[f"u{layer}"] for layer in layers])
        views |= {f"u{layer}": u[layer] for layer in layers}
    return (s.numpy(), u.numpy()), views


def decode(w, s, window, ids, logits, count):
    """`count` tokens from ids (B,), which end as the next ones; `logits` (B, V) are the last token's."""
    batch, d, inner = len(ids), w.embedding.shape[1], w.gate.shape[1]
    x, normed, u, resonance, y = room(batch, d), room(batch, d), room(batch, d), room(batch, d), room(batch, d)
    gate, up = room(batch, inner), room(batch, inner)
    for _ in range(count):
        embed(x, w.embedding, ids)
        for layer in range(len(s)):
            rms_norm(normed, x, w.norm1[layer], w.eps)
            linear(u, w.drive[layer], None, normed)
            _resonate(resonance, s[layer], u, w.decay[layer], w.turn[layer])
            _couple(y, w.mix[layer], resonance)
            convolve(y, window[layer], u, w.local[layer])
            add_linear(x, w.out[layer], y)
            rms_norm(normed, x, w.norm2[layer], w.eps)
            add_gated(x, w.gate[layer], w.up[layer], w.down[layer], normed, gate, up)
        rms_norm(x, x, w.last_norm, w.eps)
        linear(logits, w.head, None, x)
        choose(ids, logits)


@part
def _resonate(y, s, u, decay, turn):
    """s = lambda s + u and y = Re(exp(i phi) s), head by head."""
    for b in range(len(s)):
        for head in range(len(decay)):
            state = s[b, head]
            first = head * len(state)
            for c in range(len(state)):
                value = decay[head] * state[c] + u[b, first + c]
                state[c] = value
                y[b, first + c] = turn[head].real * value.real - turn[head].imag * value.imag


@part
def _couple(y, mix, resonance):
    """y_g = sum_h mix[g, h] resonance_h."""
    heads = len(mix)
    for b in range(len(y)):
        width = len(y[b]) // heads
        for g in range(heads):
            out = y[b, g * width : (g + 1) * width]
            out[:] = 0
            for h in range(heads):
                gain, part_of_h = mix[g, h], resonance[b, h * width : (h + 1) * width]
                for c in range(width):
                    out[c] += gain * part_of_h[c]
