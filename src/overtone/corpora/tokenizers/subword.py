"""SentencePiece BPE with byte fallback and no normalisation: exact for any text."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from overtone.corpora.documents import read_documents
from overtone.corpora.tokenizers.base import Tokenizer
from overtone.errors import UserError, unknown_name
from overtone.files import sha256_file, write_bytes

_MODEL = "tokenizer.model"
_DEFAULTS = {"vocab_size": 8192, "sample_bytes": 50_000_000}


class SentencePieceTokenizer(Tokenizer):
    """BPE of `vocab_size` ids, 256 of which are bytes."""

    def __init__(self, model: Path) -> None:
        import sentencepiece

        try:
            self._processor = sentencepiece.SentencePieceProcessor(model_file=str(model))
        except (OSError, RuntimeError) as error:
            raise UserError(f"{model}: not a SentencePiece model ({error}). Run `overtone tokenizer` again.") from None
        self.vocab_size = self._processor.vocab_size()
        self.name = f"sentencepiece-{self.vocab_size}"
        self.digest = sha256_file(model)

    @classmethod
    def fit(cls, documents: Path, folder: Path, options: Mapping[str, Any]) -> SentencePieceTokenizer:
        """Learn `vocab_size` pieces from the first `sample_bytes` of the training documents; one thread, deterministic."""
        import sentencepiece

        for key in set(options) - set(_DEFAULTS):
            raise unknown_name("tokenizer sentencepiece: option", key, _DEFAULTS)
        chosen = _DEFAULTS | dict(options)
        model = io.BytesIO()
        try:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=_lines(documents, chosen["sample_bytes"]), model_writer=model, model_type="bpe",
                vocab_size=chosen["vocab_size"], byte_fallback=True, character_coverage=0.9995, num_threads=1,
                normalization_rule_name="identity", remove_extra_whitespaces=False, add_dummy_prefix=False,
                allow_whitespace_only_pieces=True, bos_id=-1, eos_id=-1, pad_id=-1, unk_id=0, max_sentence_length=1 << 20,
                shuffle_input_sentence=False, minloglevel=2,
            )
        except RuntimeError as error:
            raise UserError(f"tokenizer sentencepiece: cannot be fitted ({' '.join(str(error).split())}). Choose another vocab_size.") from None
        write_bytes(folder / _MODEL, model.getvalue())
        return cls(folder / _MODEL)

    @classmethod
    def load(cls, folder: Path, fields: Mapping[str, Any]) -> SentencePieceTokenizer:
        """The model stands beside tokenizer.json."""
        return cls(folder / _MODEL)

    def encode(self, text: str) -> np.ndarray:
        """BPE ids."""
        return np.array(self._processor.encode(text), np.uint16 if self.vocab_size <= 1 << 16 else np.uint32)

    def decode(self, ids: Sequence[int] | np.ndarray) -> str:
        """Pieces to text."""
        return str(self._processor.decode(np.asarray(ids).tolist()))


def _lines(documents: Path, limit: int) -> Iterator[str]:
    seen = 0
    for document in read_documents(documents):
        for line in document.text.splitlines():
            yield line
        seen += len(document.text.encode())
        if seen >= limit:
            return
