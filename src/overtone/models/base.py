"""What every language model here offers, and the state it carries between calls.

Shapes: B batch, L length, d hidden, V vocabulary. Logits are float, losses are in nats.
A model turns ids (B, L) into features (B, L, d); one linear head without bias turns features into logits (B, L, V).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass, field, fields
from typing import Any, ClassVar, Self, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from overtone.errors import UserError
from overtone.ops import linear_cross_entropy


@dataclass(kw_only=True)
class ModelConfig:
    """Size and options of one model. Subclasses add their options; every field has JSON-able values."""

    vocab_size: int  # V
    hidden: int  # d
    tied: bool = False  # one matrix for input and output embeddings: V d parameters instead of 2 V d

    def to_dict(self) -> dict[str, Any]:
        """Every field, tuples as lists: what config.json stores."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}

    @classmethod
    def option_names(cls) -> list[str]:
        """The options beside vocab_size and hidden."""
        return [item.name for item in fields(cls) if item.name not in ("vocab_size", "hidden")]


def check_sizes(model: str, **options: int | None) -> None:
    """A UserError for a size below 1; None is a size that the model chooses."""
    for option, value in options.items():
        if value is not None and value < 1:
            raise UserError(f"{model}: {option}: {value} found, at least 1 expected.")


@dataclass
class State:
    """What a model remembers of the tokens it has seen: named tensors whose first axis is the batch.

    A recurrent model's state has one size whatever `position` is; attention's grows with its capacity.
    """

    tensors: dict[str, Tensor] = field(default_factory=dict)
    position: int = 0  # tokens seen

    @property
    def nbytes(self) -> int:
        """Bytes held, the unused capacity of a preallocated cache included."""
        return sum(tensor.nbytes for tensor in self.tensors.values())

    def detach(self) -> Self:
        """The same state cut from the autograd graph (for training with a carried state)."""
        return self._with({name: tensor.detach() for name, tensor in self.tensors.items()})

    def select(self, rows: Tensor) -> Self:
        """The state of some rows of the batch, in that order, repeats allowed (beam search)."""
        return self._with({name: tensor.index_select(0, rows) for name, tensor in self.tensors.items()})

    def _with(self, tensors: dict[str, Tensor]) -> Self:
        return type(self)(tensors, self.position)


def windowed(name: str, new: Tensor, before: State, after: State) -> Tensor:
    """The last P inputs kept under `name` and the new ones (B, L, d): (B, P + L, d). The last P of both are kept in `after`."""
    window = torch.cat([before.tensors[name].to(new.dtype), new], dim=1)
    after.tensors[name] = window[:, new.shape[1] :]
    return window


class LanguageModel(nn.Module, ABC):
    """A causal language model. Subclasses give `features`, `step`, `init_state` and `mixer_flops`."""

    name: ClassVar[str]  # the registered name
    Config: ClassVar[type[ModelConfig]]
    depth_option: ClassVar[str | None] = None  # the option that repeats blocks, for parameter matching
    width_option: ClassVar[str | None] = None  # an option the parameter count is affine in

    def __init__(self, config: ModelConfig):
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocab_size, config.hidden)
        self.head = None if config.tied else nn.Linear(config.hidden, config.vocab_size, bias=False)

    @property
    def vocab_size(self) -> int:
        """V."""
        return self.config.vocab_size

    @property
    def hidden(self) -> int:
        """d."""
        return self.config.hidden

    @property
    def head_weight(self) -> Tensor:
        """The (V, d) matrix of the head; the embedding itself where they are tied."""
        return self.embedding.weight if self.head is None else self.head.weight

    @abstractmethod
    def features(self, ids: Tensor, state: State | None = None, return_state: bool = False) -> Any:
        """Ids (B, L) -> what the head sees (B, L, d); with `return_state` also the state after the last token."""

    @abstractmethod
    def step(self, ids: Tensor, state: State) -> tuple[Tensor, State]:
        """One token a row, ids (B,) -> logits (B, V) and the next state. The state given may be overwritten."""

    @abstractmethod
    def init_state(self, batch: int, max_length: int | None = None, device: Any = None, dtype: torch.dtype | None = None) -> State:
        """The state before any token; `max_length` preallocates where the state grows."""

    @abstractmethod
    def mixer_flops(self, length: int) -> float:
        """Forward FLOPs a token, mean over a sequence of `length`, beside those of the weight matrices."""

    def matrix_weights(self) -> float:
        """Entries of the weight matrices a token is multiplied by, the head aside."""
        return sum(part.weight.numel() for part in self.modules() if isinstance(part, nn.Linear) and part is not self.head)

    def forward(self, ids: Tensor) -> Tensor:
        """Ids (B, L) -> logits (B, L, V)."""
        return F.linear(self.features(ids), self.head_weight)

    def loss(self, ids: Tensor, targets: Tensor, state: State | None = None, reduction: str = "mean",
             return_state: bool = False) -> Any:
        """Cross-entropy in nats of targets (B, L); `none` gives (B, L). The (B, L, V) logits are never held whole."""
        features, after = self.features(ids, state, return_state=True) if return_state else (self.features(ids, state), None)
        value = linear_cross_entropy(features.reshape(-1, self.hidden), self.head_weight, targets.reshape(-1), reduction=reduction)
        value = value.view(targets.shape) if reduction == "none" else value
        return (value, after) if return_state else value

    def prefill(self, ids: Tensor, state: State | None = None, max_length: int | None = None) -> tuple[Tensor, State]:
        """Read ids (B, L) in parallel -> logits (B, L, V) and the state that `step` goes on from."""
        if state is None:
            state = self.init_state(ids.shape[0], max_length=max_length, device=ids.device)
        features, after = self.features(ids, state, return_state=True)
        return F.linear(features, self.head_weight), after

    def diagnostics(self) -> dict[str, Any]:
        """What the model says of itself as plain numbers, e.g. its time constants."""
        return {}

    def watched(self) -> dict[str, float]:
        """Numbers that must stay below a bound at every step of training: the curve keeps the largest value of each."""
        return {}

    def state_place(self, device: Any, dtype: torch.dtype | None) -> tuple[torch.device, torch.dtype]:
        """Device and dtype of a new state: the weights' where they are not given."""
        weight = cast(Tensor, self.embedding.weight)
        return torch.device(device) if device is not None else weight.device, dtype or weight.dtype
