"""The state of a transplanted model during generation: N numbers a layer and sequence, however long the text."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from transformers.cache_utils import Cache, CacheLayerMixin


class HarmonicCacheLayer(CacheLayerMixin):
    """One block's state h (B, N), float32 or wider, and how many tokens it has seen."""

    is_croppable = False
    supports_early_init = False

    def __init__(self) -> None:
        super().__init__()
        self.state: Tensor | None = None
        self.seen = 0

    def replace(self, state: Tensor, tokens: int) -> None:
        """Take over the state after `tokens` more tokens."""
        self.state = state
        self.seen += tokens
        self.is_initialized = True

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        """Nothing to allocate: the first `replace` brings the state."""

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """A block calls `replace`; keys and values have no place here."""
        raise TypeError("HarmonicCacheLayer keeps no keys and values")

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """(tokens visible, offset), as the mask code wants them."""
        return self.seen + query_length, 0

    def get_seq_length(self) -> int:
        """Tokens seen."""
        return self.seen

    def get_max_length(self) -> int:
        """No limit."""
        return -1

    def reset(self) -> None:
        """Forget everything."""
        self.state, self.seen, self.is_initialized = None, 0, False

    def offload(self) -> None:
        """Nothing worth moving."""

    def prefetch(self) -> None:
        """Nothing was moved."""

    def reorder_cache(self, beam_idx: Tensor) -> None:
        """Beam search: sequence i goes on from beam_idx[i]."""
        if self.state is not None:
            self.state = self.state.index_select(0, beam_idx.to(self.state.device))

    def batch_repeat_interleave(self, repeats: int) -> None:
        """Each sequence `repeats` times."""
        if self.state is not None:
            self.state = self.state.repeat_interleave(repeats, dim=0)

    def batch_select_indices(self, indices: Tensor) -> None:
        """Keep some sequences."""
        if self.state is not None:
            self.state = self.state[indices]


class HarmonicCache(Cache):
    """The states of all layers; `nbytes` does not grow with the text."""

    def __init__(self, layers: int) -> None:
        super().__init__(layers=[HarmonicCacheLayer() for _ in range(layers)])

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return sum(layer.state.nbytes for layer in self.layers if isinstance(layer, HarmonicCacheLayer) and layer.state is not None)
