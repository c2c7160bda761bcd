"""The tokens a transplant reads: the study's for a base trained in it, else written here with the base's own tokenizer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from overtone.corpora.documents import read_documents, read_summary
from overtone.corpora.tokenfile import TokenFile
from overtone.corpora.tokenize import write_token_file
from overtone.files import sha256_file
from overtone.transplant.config import TransplantConfig


def base_folder(config: TransplantConfig, results: Path) -> Path:
    """Where the converted base lies, with its tokenizer."""
    return results / "transplants" / config.name / "base"


def tokens_folder(config: TransplantConfig, results: Path, corpus: str) -> Path:
    """Where a corpus lies in the base's tokens."""
    if config.base["kind"] == "cell":
        return results / "tokens" / corpus / str(config.base["tokenizer"])
    return results / "transplants" / config.name / "tokens" / corpus


def open_tokens(config: TransplantConfig, results: Path, corpus: str, split: str) -> TokenFile:
    """The token file of one split."""
    return TokenFile.open(tokens_folder(config, results, corpus) / f"{split}.json")


def held_out_split(results: Path, corpus: str, wanted: str) -> str:
    """`wanted` (validation or test), or the other one where a corpus has no such documents (LAMBADA is all test)."""
    (splits,) = read_summary(results / "corpora" / corpus / "splits" / "splits.json", "split", "splits")
    return wanted if splits[wanted]["documents"] else {"validation": "test", "test": "validation"}[wanted]


def write_tokens(config: TransplantConfig, results: Path, tokenizer: Any) -> dict[str, dict[str, str]]:
    """Encode what the transplant reads of every corpus with a tokenizer of transformers; returns the digests by corpus and split.

    No special tokens are added: where a window begins with one, `bos_token` says which, and the windows put it there.
    """
    name = sha256_file(base_folder(config, results) / "tokenizer.json")
    digests: dict[str, dict[str, str]] = {}
    for corpus in dict.fromkeys([config.corpus, *config.corpora]):
        read = {held_out_split(results, corpus, config.evaluation["split"])}
        if corpus == config.corpus:
            read |= {"train", held_out_split(results, corpus, "validation")}
        for split in sorted(read):
            sidecar = write_token_file(
                tokens_folder(config, results, corpus) / f"{split}.json",
                read_documents(results / "corpora" / corpus / "splits" / f"{split}.jsonl"),
                lambda text: tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"],
                vocab_size=len(tokenizer), tokenizer=name, labels={"corpus": corpus, "split": split},
            )
            digests.setdefault(corpus, {})[split] = sidecar["digest"]
    return digests


def bos_token(tokenizer: Any) -> int | None:
    """The token that this tokenizer puts before every text (TinyLlama's <s>); None where it adds none (SmolLM2)."""
    ids = tokenizer("a")["input_ids"]
    return int(ids[0]) if tokenizer.bos_token_id is not None and ids[0] == tokenizer.bos_token_id else None


def encoder(config: TransplantConfig, results: Path) -> Callable[[str], list[int]]:
    """Text -> token ids with the base's tokenizer, as it encodes a text by itself."""
    if config.base["kind"] == "cell":
        from overtone.corpora.tokenizers import load_tokenizer

        own = load_tokenizer(tokens_folder(config, results, config.corpus))
        return lambda text: own.encode(text).tolist()
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(base_folder(config, results))
    return lambda text: list(tokenizer(text)["input_ids"])
