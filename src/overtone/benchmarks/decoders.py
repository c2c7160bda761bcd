"""Ways to decode greedily: a model's own step, the eager baseline, a step captured once (TorchScript, CUDA graph), machine code.

A decoder has read a prompt and advances by tokens it chooses itself (argmax); its state is where the next token goes on from, its
logits (B, V) are those it chose the next token by.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Self, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from overtone.models import LanguageModel, State, compile_step
from overtone.models.attention import KeyValueCache, frequencies, rotate


def read_prompt(model: LanguageModel, ids: Tensor, room: int) -> tuple[Tensor, State]:
    """Run the whole prompt (B, L) in parallel -> the next token (B,) and the state, with room for `room` more tokens.

    Only the last position goes through the head: a prompt's other logits are not needed and would be the largest tensor.
    """
    state = model.init_state(ids.shape[0], max_length=ids.shape[1] + room, device=ids.device)
    features, state = model.features(ids, state, return_state=True)
    return F.linear(features[:, -1], model.head_weight).argmax(-1), state


def copied(state: State) -> State:
    """The same state in memory of its own."""
    return replace(state, tensors={name: tensor.clone() for name, tensor in state.tensors.items()})


class StepDecoder:
    """The model's own step: static key-value cache and SDPA for attention, a fixed state for the others."""

    path = "step"

    def __init__(self, model: LanguageModel, ids: Tensor, state: State) -> None:
        self.model, self.ids, self.state = model, ids, state
        self.logits: Tensor

    def advance(self, tokens: int) -> Tensor:
        """Decode `tokens` tokens; returns the next one (B,)."""
        for _ in range(tokens):
            self.logits, self.state = self.model.step(self.ids, self.state)
            self.ids = self.logits.argmax(-1)
        return self.ids


class GrowingCache(KeyValueCache):
    """A key-value cache that is concatenated anew for every token, as a first implementation does it."""

    @classmethod
    def of(cls, cache: KeyValueCache) -> Self:
        """The filled part of a static cache, copied."""
        return cls({name: tensor[:, :, : cache.position].clone() for name, tensor in cache.tensors.items()}, cache.position)

    def extended(self, length: int) -> Self:
        """Itself: it grows when it is written."""
        return self

    def write(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Concatenate and keep."""
        for name, new in ((f"k{layer}", k), (f"v{layer}", v)):
            self.tensors[name] = torch.cat([self.tensors[name], new], dim=2)
        return self.tensors[f"k{layer}"], self.tensors[f"v{layer}"]


@contextmanager
def eager_attention(model: LanguageModel) -> Iterator[None]:
    """Inside the block attention writes its scores out instead of fusing them: the other half of the eager baseline."""
    blocks = list(cast(Any, model).blocks)
    forms = [block.form for block in blocks]
    for block in blocks:
        block.form = "quadratic"
    try:
        yield
    finally:
        for block, form in zip(blocks, forms, strict=True):
            block.form = form


class _Unseen(int):
    """The position during a capture: it can be counted on, and whoever looks at it cannot be captured."""

    def __add__(self, other: int) -> Self:
        return self

    def __mod__(self, other: int) -> int:
        raise NotImplementedError("the step depends on the position: it is not the same for every token")


def _captured_step(model: LanguageModel, ids: Tensor, state: State, position: Tensor) -> tuple[Tensor, State]:
    """(logits (B, V), state): a step without anything that changes from token to token but tensors."""
    if isinstance(state, KeyValueCache):
        if model.name not in ("transformer", "llama"):
            raise NotImplementedError(f"{model.name}: attention_step does not know its blocks")
        return attention_step(model, ids, state, position), state
    return model.step(ids, replace(state, tensors=dict(state.tensors), position=_Unseen()))


class _Step(nn.Module):
    """(ids, position, *tensors of the state) -> the logits and the same after one token: what TorchScript traces."""

    def __init__(self, model: LanguageModel, state: State) -> None:
        super().__init__()
        self.model, self.state = model, state

    def forward(self, ids: Tensor, position: Tensor, *tensors: Tensor) -> tuple[Tensor, ...]:
        """One token."""
        names = list(self.state.tensors)
        given = replace(self.state, tensors=dict(zip(names, tensors, strict=True)))
        logits, after = _captured_step(self.model, ids, given, position)
        return (logits, logits.argmax(-1), position + 1, *(after.tensors[name] for name in names))


class TracedDecoder:
    """The step traced once into TorchScript with the weights as constants: no Python between the operations of a token."""

    path = "traced"

    def __init__(self, model: LanguageModel, ids: Tensor, state: State) -> None:
        self.model, self.ids, self.state = model, ids, copied(state)
        self.position = torch.tensor(state.position, device=ids.device)
        # A recurrent model's first step works out constants of its weights; a cache is written in place.
        template = self.state if isinstance(state, KeyValueCache) else model.step(ids, self.state)[1]
        with warnings.catch_warnings():  # that TorchScript is old, and that constants are constants
            warnings.simplefilter("ignore")
            traced = torch.jit.trace(_Step(model, template).eval(), tuple(self._values()), check_trace=False)
            self.step: Any = torch.jit.freeze(traced)
        self.logits: Tensor

    def _values(self) -> list[Tensor]:
        return [self.ids, self.position, *self.state.tensors.values()]

    def advance(self, count: int) -> Tensor:
        """Decode `count` tokens; returns the next one (B,)."""
        values = self._values()
        for _ in range(count):
            self.logits, *values = self.step(*values)
        self.ids, self.position, *tensors = values
        self.state = replace(self.state, tensors=dict(zip(self.state.tensors, tensors, strict=True)), position=self.state.position + count)
        return self.ids


class CompiledDecoder:
    """The step as machine code, for the models that have one: a run of tokens is one call."""

    path = "compiled"

    def __init__(self, model: LanguageModel, ids: Tensor, state: State) -> None:
        step = compile_step(model)
        if step is None:
            raise NotImplementedError(f"{model.name}: no compiled step for its options, type or device")
        self.model, self.ids, self.state, self.step = model, ids, state, step

    def advance(self, count: int) -> Tensor:
        """Decode `count` tokens; returns the next one (B,)."""
        self.ids, self.state = self.step.advance(self.ids, self.state, count)
        return self.ids

    @property
    def logits(self) -> Tensor:
        """(B, V), written over by the next token."""
        return self.step.logits


class GraphDecoder:
    """The step captured once as a CUDA graph and replayed: no Python and no launch between the kernels of a token.

    Tokens, state and position live on the device at fixed addresses and the graph itself moves them on. A recurrent model
    is captured as it is; attention through `attention_step`, whose position is a tensor.
    """

    path = "cuda_graph"

    def __init__(self, model: LanguageModel, ids: Tensor, state: State, *, compiled: bool = False) -> None:
        self.model, self.ids, self.state = model, ids.clone(), copied(state)
        self.logits: Tensor  # as the other tensors, at the address that a replay writes to
        self.position = torch.tensor(state.position, device=ids.device)
        with torch.cuda.device_of(ids):  # streams and graphs are made on the current card
            self._capture(compiled)

    def _capture(self, compiled: bool) -> None:
        body = torch.compile(self._body, dynamic=False) if compiled else self._body
        if compiled:
            self.path = "compiled_cuda_graph"
        saved = [tensor.clone() for tensor in self._buffers()]
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                body()
        torch.cuda.current_stream().wait_stream(stream)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=stream):
            body()
        for tensor, before in zip(self._buffers(), saved, strict=True):
            tensor.copy_(before)

    def _buffers(self) -> list[Tensor]:
        return [self.ids, self.position, *self.state.tensors.values()]

    def _body(self) -> None:
        self.logits, after = _captured_step(self.model, self.ids, self.state, self.position)
        for name, tensor in self.state.tensors.items():
            if tensor is not after.tensors[name]:
                tensor.copy_(after.tensors[name])
        # What the first step worked out of the weights stays, outside the graph.
        self.state = replace(after, tensors=self.state.tensors, position=self.state.position)
        self.position += 1
        self.ids.copy_(self.logits.argmax(-1))

    def advance(self, tokens: int) -> Tensor:
        """Replay the step `tokens` times."""
        for _ in range(tokens):
            self.graph.replay()
        return self.ids


Decoder = StepDecoder | TracedDecoder | CompiledDecoder | GraphDecoder


def attention_step(model: LanguageModel, ids: Tensor, cache: KeyValueCache, position: Tensor) -> Tensor:
    """One token of `transformer` or `llama` at a position that is a tensor: ids (B,) -> logits (B, V); writes into the cache.

    The same numbers as model.step. The query sees the whole static cache through a mask, so that every token is the same work.
    """
    parts: Any = model
    visible = torch.arange(cache.capacity, device=ids.device) <= position  # (capacity,)
    x = parts.embedding(ids)[:, None]  # (B, 1, d)
    kind = torch.promote_types(x.dtype, torch.float32)
    angle = (position * frequencies(parts.head_dimension, parts.config.rope_theta, ids.device, kind)).repeat(2)
    turn = (angle.cos().to(x.dtype), angle.sin().to(x.dtype))
    for block in parts.blocks:
        normed = block.norm1(x)
        if model.name == "llama":
            q = block.q(normed).unflatten(-1, (block.heads, -1)).transpose(1, 2)  # (B, H, 1, D)
            k, v = (part(normed).unflatten(-1, (block.kv_heads, -1)).transpose(1, 2) for part in (block.k, block.v))
        else:
            q, k, v = (item.transpose(1, 2) for item in block.qkv(normed).unflatten(-1, (3, block.heads, -1)).unbind(2))
        keys, values = cache.tensors[f"k{block.layer}"], cache.tensors[f"v{block.layer}"]
        keys.index_copy_(2, position[None], rotate(k, turn))
        values.index_copy_(2, position[None], v)
        mixed = F.scaled_dot_product_attention(rotate(q, turn), keys, values, attn_mask=visible[None, None, None],
                                               enable_gqa=block.heads != getattr(block, "kv_heads", block.heads)).transpose(1, 2).flatten(2)
        x = x + (block.o if model.name == "llama" else block.out)(mixed)
        normed = block.norm2(x)
        if model.name == "llama":
            x = x + block.down(F.silu(block.gate(normed)) * block.up(normed))
        else:
            x = x + block.ffn_out(F.gelu(block.ffn_in(normed)))
    x = parts.norm(x) if model.name == "llama" else x
    return F.linear(x[:, 0], model.head_weight)
