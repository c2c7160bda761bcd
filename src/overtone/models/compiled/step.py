"""A model's step as machine code, where there is one: `compile_step`."""

from __future__ import annotations

import importlib
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from overtone.models.attention import KeyValueCache
from overtone.models.base import LanguageModel, State
from overtone.models.registry import architecture

_COVERED = ("harmonic", "llama", "mamba", "resonator", "transformer")  # a module here each


def compile_step(model: LanguageModel) -> CompiledStep | None:
    """The step of a float32 model on a CPU with its weights as they are now; None where numba or the model's options do not allow it.

    Compiled once a machine (seconds), then read from disk.
    """
    if model.name not in _COVERED or type(model) is not architecture(model.name) or not find_spec("numba"):
        return None
    if any((weight.device.type, weight.dtype) != ("cpu", torch.float32) for weight in model.parameters()):
        return None
    if set(getattr(model.config, "stride", ())) - {1}:  # a strided level's step depends on the position
        return None
    if getattr(model.config, "attention", "sdpa") != "sdpa":  # whoever wants the scores written out gets just that
        return None
    return CompiledStep(model, importlib.import_module(f"overtone.models.compiled.{model.name}"))


class CompiledStep:
    """Steps of one model on one thread, without gradients. The state it returns is overwritten by the next step from it.

    A key-value cache that is full goes on in a larger one, as the model's does.
    """

    _state: State
    _memory: tuple[Any, ...]
    _logits: Tensor

    def __init__(self, model: LanguageModel, kernel: Any) -> None:
        from overtone.models.compiled.arithmetic import machine_code, types_of

        self._model, self._kernel = model, kernel
        with torch.no_grad():
            self._weights = kernel.weights(model)
            self._take(model.init_state(1))
        self._decode = machine_code(kernel.decode, types_of(self._arguments(torch.zeros(1, dtype=torch.long), 1)))

    @property
    def logits(self) -> Tensor:
        """Those that the last token's successor was chosen by, (B, V); the next step writes over them."""
        return self._logits

    def step(self, ids: Tensor, state: State) -> tuple[Tensor, State]:
        """What model.step returns: ids (B,) -> logits (B, V) and the next state."""
        _, after = self.advance(ids, state, 1)
        return self._logits.clone(), after

    def advance(self, ids: Tensor, state: State, count: int) -> tuple[Tensor, State]:
        """The likeliest token `count` times: ids (B,) -> the next ids and the state they go on from."""
        if isinstance(state, KeyValueCache) and state.position + count > state.capacity:
            state = KeyValueCache.extended(state, count)
        if state is not self._state:
            self._take(state)
        ids = ids.clone()
        self._decode(*self._arguments(ids, count))
        self._state = replace(self._state, position=self._state.position + count)
        return ids, self._state

    def _take(self, state: State) -> None:
        """Copy a state into memory of the step's own."""
        self._memory, views = self._kernel.memory(self._model, state.detach())
        self._state = replace(state, tensors={name: views[name] for name in state.tensors})
        self._logits = torch.empty(next(iter(views.values())).shape[0], self._model.vocab_size)

    def _arguments(self, ids: Tensor, count: int) -> tuple[Any, ...]:
        return (self._weights, *self._memory, ids.numpy(), self._logits.numpy(), count)
