"""Passages for the last-word task: LAMBADA from the hub, or held-out documents or paragraphs of a corpus of the study."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from overtone.corpora.documents import read_documents
from overtone.errors import UserError
from overtone.transplant.text import held_out_split

_WORDS = (30, 120)  # a paragraph serves when it has between these many words
_WORD = re.compile(r"[A-Za-z]{2,}$")


def load_passages(source: Mapping[str, Any], results: Path, split: str) -> list[str]:
    """`source` is evaluation.lambada of the transplant, `split` its evaluation.split. UserError where nothing comes back."""
    if "repository" in source:
        found = _from_hub(source)
    elif "corpus" in source:
        folder = results / "corpora" / source["corpus"] / "splits"
        documents = folder / f"{held_out_split(results, source['corpus'], split)}.jsonl"
        found = paragraphs(documents) if source["unit"] == "paragraph" else [item.text.strip() for item in read_documents(documents)]
    else:
        raise UserError("evaluation.lambada: found neither repository (a hub data set) nor corpus (held-out paragraphs). Name one.")
    if not found:
        raise UserError(f"evaluation.lambada: no passage in {source.get('repository') or source.get('corpus')}. Name another source.")
    return found[: source["passages"]]


def paragraphs(documents: Path) -> list[str]:
    """Paragraphs of plain prose, cut back to the last sentence-final word: each ends in the word to be guessed."""
    found = []
    for document in read_documents(documents):
        for line in document.text.splitlines():
            if any(mark in line for mark in "{}[]|<>=*#"):
                continue
            text = line.strip().rstrip(".!?\"')")
            if _WORDS[0] <= len(text.split()) <= _WORDS[1] and _WORD.search(text):
                found.append(text)
    return found


def _from_hub(source: Mapping[str, Any]) -> list[str]:
    from datasets import load_dataset

    if "revision" not in source:
        raise UserError("evaluation.lambada.revision: missing. Pin the data set's commit.")
    try:
        rows = load_dataset(source["repository"], split="test", revision=source["revision"])
    except (OSError, ValueError, ConnectionError) as error:
        raise UserError(f"{source['repository']}: cannot be loaded ({' '.join(str(error).split())[:200]}). Check the network; a mirror is "
                        "named by HF_ENDPOINT.") from error
    return [str(row["text"]) for row in rows]
