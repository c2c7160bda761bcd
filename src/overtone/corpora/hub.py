"""Data sets of the Hugging Face hub, streamed into one archive of JSON lines; a stream that broke continues."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from overtone.corpora.documents import SPLITS
from overtone.errors import UserError
from overtone.files import StrPath, digest_json, read_json, sha256_file, write_json

_SAVE_EVERY = 1 << 24  # bytes between two saved positions


def fetch_rows(source: Mapping[str, Any], out: StrPath) -> str:
    """Stream the rows of `source` to `out`; returns the commit they come from.

    source: `repo`, `revision`, `format` (parquet | json), `files` {split: pattern} ("all" where none is published),
    `column`, and `limit_bytes` of text a split where not all is wanted. Without a repo the files are local. A line of
    `out` is {"split", "text"}; `.NAME.part` and `.NAME.state` beside it hold what has come and where it stopped.
    """
    target = Path(out)
    state_path = target.with_name(f".{target.name}.state")
    asked = digest_json(dict(source))
    state = _load_state(state_path, asked)
    if state["done"] and target.is_file() and sha256_file(target) == state["done"]:
        return str(state["revision"])
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        state["revision"] = state["revision"] or resolve_revision(source)
        part = target.with_name(f".{target.name}.part")
        with open(part, "r+b" if part.is_file() else "w+b") as file:
            if file.seek(0, os.SEEK_END) < state["offset"]:
                state = _fresh(asked) | {"revision": state["revision"]}
            file.truncate(state["offset"])
            file.seek(state["offset"])
            _write_splits(source, file, state, state_path)
        state["done"] = sha256_file(part)
        part.replace(target)
        write_json(state_path, state)
    except UserError:
        raise
    except Exception as error:  # datasets, fsspec, pyarrow and the hub client share no base class
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise UserError(f"{source.get('repo', target)}: streaming stopped ({type(error).__name__}: {reason}). Check "
                        "network and space, then run again: it continues.") from error
    return str(state["revision"])


def resolve_revision(source: Mapping[str, Any]) -> str:
    """The commit of the data set: `revision` itself where it is one, else the one that the hub says it points to."""
    if "repo" not in source or re.fullmatch(r"[0-9a-f]{40}", source["revision"]):
        return str(source["revision"])
    from huggingface_hub import HfApi

    return str(HfApi().dataset_info(source["repo"], revision=source["revision"]).sha)


def _fresh(asked: str) -> dict[str, Any]:
    return {"asked": asked, "revision": None, "split": 0, "stream": None, "text_bytes": 0, "offset": 0, "done": None}


def _load_state(path: Path, asked: str) -> dict[str, Any]:
    state = read_json(path) if path.is_file() else _fresh(asked)
    return state if state.get("asked") == asked else _fresh(asked)


def _write_splits(source: Mapping[str, Any], file: BinaryIO, state: dict[str, Any], state_path: Path) -> None:
    names = [name for name in ("all", *SPLITS) if name in source["files"]]
    limit = source.get("limit_bytes")

    def save(**changes: Any) -> None:
        file.flush()
        os.fsync(file.fileno())
        state.update(changes, offset=file.tell())
        write_json(state_path, state)

    for number in range(state["split"], len(names)):
        stream = _stream(source, state["revision"], names[number])
        published = {} if names[number] == "all" else {"split": names[number]}
        if state["stream"] is not None:
            stream.load_state_dict(state["stream"])
        size = state["text_bytes"]
        saved = file.tell()
        for row in _rows(stream, limit, size):
            text = row[source["column"]]
            file.write(json.dumps({**published, "text": text}, ensure_ascii=False).encode() + b"\n")
            size += len(text.encode())
            if file.tell() - saved >= _SAVE_EVERY:
                if shutil.disk_usage(state_path.parent).free < 4 * _SAVE_EVERY:
                    raise UserError(f"{state_path.parent}: less than {4 * _SAVE_EVERY:,} bytes free. Free space, then "
                                    "run again: it continues.")
                save(stream=stream.state_dict(), text_bytes=size)
                saved = file.tell()
            if limit is not None and size >= limit:
                break
        save(split=number + 1, stream=None, text_bytes=0)


def _rows(stream: Any, limit: int | None, size: int) -> Iterator[dict[str, Any]]:
    if limit is None or size < limit:
        yield from stream


def _stream(source: Mapping[str, Any], revision: str, split: str) -> Any:
    from datasets import load_dataset

    base = f"hf://datasets/{source['repo']}@{revision}/" if "repo" in source else ""
    files = {"train": base + source["files"][split]}
    rows = load_dataset(source["format"], data_files=files, split="train", streaming=True)
    return rows.select_columns([source["column"]])
