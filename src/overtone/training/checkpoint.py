"""Checkpoints of a running cell: safetensors and JSON, never pickle.

A checkpoint is one file, STEP-SHA256.safetensors: its tensors are the weights, the optimizer's state, carried states
and random states; its metadata holds the rest as JSON. It is written beside, synced and renamed, so a power cut leaves
a whole file or none; the digest in its name tells a damaged one, and then the one before it is used.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from overtone.errors import UserError
from overtone.files import sha256_file

KEPT = 2


@dataclass(frozen=True)
class Checkpoint:
    """Tensors by name and everything else as JSON."""

    tensors: dict[str, torch.Tensor]
    state: dict[str, Any]


def save_checkpoint(folder: Path, step: int, checkpoint: Checkpoint) -> Path:
    """Write the checkpoint of `step`; older ones than the last two are removed afterwards.

    Raises UserError where it cannot be written (a full disk): the checkpoints before it stay as they are.
    """
    part = folder / "checkpoint.part"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tensors = {name: value.detach().contiguous() for name, value in checkpoint.tensors.items()}
        save_file(tensors, part, metadata={"state": json.dumps(checkpoint.state, allow_nan=False)})
        final = folder / f"{step:09d}-{sha256_file(part)}.safetensors"
        with open(part, "rb") as written:
            os.fsync(written.fileno())
        part.replace(final)
        _sync_folder(folder)
    except (OSError, SafetensorError) as error:
        with suppress(OSError):
            part.unlink()
        raise UserError(
            f"{folder}: the checkpoint of step {step} cannot be written ({error}). The last good one is kept: "
            "free space and run again, the cell goes on from there."
        ) from error
    for old in checkpoint_files(folder)[KEPT:]:
        old.unlink(missing_ok=True)
    return final


def checkpoint_files(folder: Path) -> list[Path]:
    """Checkpoint files, newest first."""
    return sorted(folder.glob("*-*.safetensors"), reverse=True)


def load_checkpoint(
    folder: Path, fits: Callable[[dict[str, Any]], bool], warn: Callable[[str], None]
) -> Checkpoint | None:
    """The newest checkpoint that is whole and belongs to this run (`fits(state)`); None where there is none.

    Damaged ones and those of another configuration are removed: theirs may be the higher steps, and the newest steps are what is kept.
    """
    for path in checkpoint_files(folder):
        try:
            whole = sha256_file(path) == path.stem.partition("-")[2]
        except FileNotFoundError:  # another rank has removed it
            continue
        if not whole:
            warn(f"{path.name}: damaged (its digest differs); removed, using the checkpoint before it")
            path.unlink(missing_ok=True)
            continue
        with safe_open(path, framework="pt") as file:
            state = json.loads(file.metadata()["state"])
            if fits(state):
                return Checkpoint({name: file.get_tensor(name) for name in file.keys()}, state)  # noqa: SIM118
        warn(f"{path.name}: belongs to another configuration; removed")
        path.unlink(missing_ok=True)
    return None


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
