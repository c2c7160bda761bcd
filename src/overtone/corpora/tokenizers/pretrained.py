"""Tokenizers published with a model on the Hugging Face hub, pinned to a commit."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from overtone.corpora.tokenizers.base import Tokenizer, TrainingText, id_type
from overtone.errors import UserError
from overtone.files import sha256_file, write_bytes

_MODEL = "tokenizer.hub.json"  # the hub calls it tokenizer.json, which is the name of our own description


class PretrainedTokenizer(Tokenizer):
    """The fast tokenizer of hub model `repo` at commit `revision`; no special tokens are added."""

    def __init__(self, model: Path, name: str) -> None:
        import tokenizers

        try:
            self._tokenizer = tokenizers.Tokenizer.from_file(str(model))
        except Exception as error:  # the library raises bare Exception
            raise UserError(f"{model}: not a tokenizer file ({error}). Run `overtone tokenizer` again.") from None
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self.name = name
        self.vocab_size = self._tokenizer.get_vocab_size()
        self.digest = sha256_file(model)
        self._dtype = id_type(self.vocab_size)

    @classmethod
    def check(cls, options: Mapping[str, Any]) -> dict[str, Any]:
        """`repo` and `revision`, a commit."""
        if set(options) != {"repo", "revision"} or not re.fullmatch(r"[0-9a-f]{40}", str(options["revision"])):
            raise UserError(f"tokenizer pretrained: found {dict(options)}, expected repo and revision (a commit, 40 "
                            "hex digits).")
        return dict(options)

    @classmethod
    def fit(cls, text: TrainingText, folder: Path, options: Mapping[str, Any]) -> PretrainedTokenizer:
        """Nothing to learn: the file comes from the hub."""
        from huggingface_hub import hf_hub_download

        try:
            path = hf_hub_download(options["repo"], "tokenizer.json", revision=options["revision"])
        except Exception as error:  # the hub client's and its transport's errors share no base class
            reason = " ".join(str(error).split())[:160]
            raise UserError(f"tokenizer {options['repo']}: cannot be had from the hub ({type(error).__name__}: "
                            f"{reason}). Check the network, then run again.") from None
        write_bytes(folder / _MODEL, Path(path).read_bytes())
        return cls(folder / _MODEL, options["repo"])

    @classmethod
    def load(cls, folder: Path, fields: Mapping[str, Any]) -> PretrainedTokenizer:
        """The file stands beside tokenizer.json."""
        return cls(folder / _MODEL, fields["options"]["repo"])

    def encode(self, text: str) -> np.ndarray:
        """Ids of the published tokenizer."""
        return np.array(self._tokenizer.encode_batch_fast([text], add_special_tokens=False)[0].ids, self._dtype)

    def decode(self, ids: Sequence[int] | np.ndarray) -> str:
        """Ids to text."""
        return str(self._tokenizer.decode(np.asarray(ids).tolist(), skip_special_tokens=False))


class GPT2Tokenizer(PretrainedTokenizer):
    """GPT-2's byte-level BPE, 50257 ids."""

    @classmethod
    def check(cls, options: Mapping[str, Any]) -> dict[str, Any]:
        """No options."""
        super(PretrainedTokenizer, cls).check(options)
        return {"repo": "openai-community/gpt2", "revision": "607a30d783dfa663caf39e06633721c8d4cfcd7e"}
