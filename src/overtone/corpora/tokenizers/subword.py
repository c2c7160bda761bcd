"""SentencePiece BPE with byte fallback and no normalisation: exact for any text."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from overtone.corpora.tokenizers.base import Tokenizer, TrainingText, id_type
from overtone.errors import UserError
from overtone.files import sha256_file, write_bytes

_MODEL = "tokenizer.model"
_MARK = "\u2581"  # SentencePiece writes a space as this character, so the character itself goes as bytes


class SentencePieceTokenizer(Tokenizer):
    """BPE of `vocab_size` ids, of which one is (never used) unknown and 256 are bytes."""

    OPTIONS: ClassVar = {"vocab_size": (8192, 258), "sample_bytes": (20_000_000, 1)}

    def __init__(self, model: Path) -> None:
        import sentencepiece

        try:
            self._processor = sentencepiece.SentencePieceProcessor(model_file=str(model))
        except (OSError, RuntimeError) as error:
            raise UserError(f"{model}: not a SentencePiece model ({error}). Run `overtone tokenizer` again.") from None
        self.vocab_size = self._processor.vocab_size()
        self.name = f"sentencepiece-{self.vocab_size}"
        self.digest = sha256_file(model)
        self._dtype = id_type(self.vocab_size)
        self._newline = [self._processor.piece_to_id("<0x0A>")]
        self._mark = [self._processor.piece_to_id(f"<0x{byte:02X}>") for byte in _MARK.encode()]

    @classmethod
    def fit(cls, text: TrainingText, folder: Path, options: Mapping[str, Any]) -> SentencePieceTokenizer:
        """Learn `vocab_size` pieces from at most about `sample_bytes` of whole documents; one thread, deterministic."""
        import sentencepiece

        model = io.BytesIO()
        try:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=sample_lines(text, options["sample_bytes"]), model_writer=model, model_type="bpe",
                vocab_size=options["vocab_size"], byte_fallback=True, character_coverage=0.9995, num_threads=1,
                normalization_rule_name="identity", remove_extra_whitespaces=False, add_dummy_prefix=False,
                allow_whitespace_only_pieces=True, bos_id=-1, eos_id=-1, pad_id=-1, unk_id=0,
                max_sentence_length=1 << 24, shuffle_input_sentence=False, minloglevel=2,
            )
        except RuntimeError as error:
            raise UserError(f"tokenizer sentencepiece: cannot be fitted ({' '.join(str(error).split())}). Choose "
                            "another vocab_size.") from None
        write_bytes(folder / _MODEL, model.getvalue())
        return cls(folder / _MODEL)

    @classmethod
    def load(cls, folder: Path, fields: Mapping[str, Any]) -> SentencePieceTokenizer:
        """The model stands beside tokenizer.json."""
        return cls(folder / _MODEL)

    def encode(self, text: str) -> np.ndarray:
        """BPE ids, line by line: no piece holds a newline, and SentencePiece is faster on short texts."""
        ids: list[int] = []
        for number, part in enumerate(text.split(_MARK)):
            ids += self._mark if number else []
            for place, line in enumerate(self._processor.encode(part.split("\n"), num_threads=1)):
                ids += self._newline + line if place else line
        return np.array(ids, self._dtype)

    def decode(self, ids: Sequence[int] | np.ndarray) -> str:
        """Pieces to text."""
        return str(self._processor.decode(np.asarray(ids).tolist()))


def sample_lines(text: TrainingText, sample: int) -> Iterator[str]:
    """Lines of every document, or of every k-th where all would be more than `sample` bytes."""
    step = -(-text.bytes // sample)
    for number, document in enumerate(text):
        if number % max(step, 1) == 0:
            yield from filter(None, document.split("\n"))
