"""The class that transformers loads a study's tokenizer with (`overtone.models.tokenizer_files` writes it)."""

from __future__ import annotations

from typing import Any

from transformers import PreTrainedTokenizerFast

from overtone.models.byte_pieces import join_pieces


class OvertoneTokenizer(PreTrainedTokenizerFast):
    """A tokenizer without special tokens: what is named `eos_token` is text like any other."""

    def _decode(self, token_ids: int | list[int], skip_special_tokens: bool = False, clean_up_tokenization_spaces: bool | None = None,
                **kwargs: Any) -> str:
        ids = [token_ids] if isinstance(token_ids, int) else list(token_ids)
        return join_pieces(self.convert_ids_to_tokens(ids))
