"""What must be right before a study starts: devices, packages, space, options of its models. Imports torch only in functions."""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from overtone.errors import UserError, unknown_name
from overtone.study import Cell, Study, study_cells, sweep_trials
from overtone.study.load import corpus_registry
from overtone.training.devices import assigned_gpus, gpu_ids

VOCABULARY = {"bytes": 256, "characters": 1024, "sentencepiece": 8192, "gpt2": 50257, "pretrained": 50257}  # where the study names no size
COPIES = 4  # archive, documents, splits and tokens: each about the size of the text
CHECKPOINT_BYTES = 2 * 12  # a parameter: two checkpoints of weights and two moments, float32
WEIGHT_BYTES = 4  # a parameter of a finished cell


def check_study(study: Study, folder: Path) -> tuple[dict[str, Any], str]:
    """Check everything; the first thing that is missing is a UserError.

    Returns what preflight.json holds, what the study needs: the same on every machine and every day, since every cell has that
    file among its inputs (so numba and triton, of which a machine needs one, are not in it). And in words what was found here, for the log.
    """
    gpus = check_devices(study)
    packages = check_packages(study, gpus)
    free, needed = free_bytes(folder), needed_bytes(study)
    if free < needed:
        raise UserError(
            f"{folder}: {_size(free)} are free, the study {study.name} needs about {_size(needed)}. "
            "Free space, or choose another folder (config key `results`)."
        )
    check_models(study)
    versions = ", ".join(f"{name} {version}" for name, version in packages.items())
    here = f"device {study.data['device']}, GPUs: {', '.join(gpus) or 'none'}; {_size(free)} free, about {_size(needed)} needed; {versions}"
    return {"study": study.name, "device": study.data["device"], "needs": sorted(set(packages) - {"numba", "triton"})}, here


def check_devices(study: Study) -> list[str]:
    """The GPUs that the study may use; a study that wants one and finds none, or too few, is a UserError."""
    wanted, count = study.data["device"], int(study.data["gpus_per_cell"])
    if wanted == "cpu":
        return []
    assigned = assigned_gpus()
    gpus = gpu_ids() if assigned is None else assigned
    if wanted == "auto" and not gpus:
        return []
    if len(gpus) < count:
        found = f"{len(gpus)} ({', '.join(gpus)})" if gpus else "none"
        raise UserError(
            f"study {study.name}: device {wanted} needs {count} GPU{'s' * (count > 1)} a cell, this machine shows {found}. "
            "Run it on a GPU node, or set `device: cpu` (it may then run for weeks)."
        )
    import torch

    if not torch.cuda.is_available():
        raise UserError(
            f"study {study.name}: GPU {', '.join(gpus)} found, but torch {torch.__version__} cannot use it "
            f"({'a build without CUDA' if torch.version.cuda is None else 'driver or visibility'}). Install a CUDA build of torch."
        )
    return gpus


def needed_packages(study: Study, gpus: Sequence[str]) -> dict[str, str]:
    """Importable name -> what needs it on a machine with these GPUs."""
    needed = {"torch": "every cell", "numpy": "every cell", "safetensors": "every cell"}
    models = {cell.model for cell in study_cells(study)}
    if models & {"harmonic", "mamba"}:
        needed["triton" if gpus else "numba"] = "linear scans"
    for name, entry in study.tokenizers.items():
        if entry.get("kind") == "sentencepiece":
            needed["sentencepiece"] = f"tokenizer {name}"
        if entry.get("kind") == "gpt2":
            needed["tokenizers"] = f"tokenizer {name}"
    registry = corpus_registry()
    for name in study.corpora:
        if registry[name]["source"]["kind"] == "hub":
            needed["huggingface_hub"] = needed["pyarrow"] = f"corpus {name}"
    for name, entry in study.transplants.items():
        needed["transformers"] = f"transplant {name}"
        if entry["base"]["kind"] == "wheel":
            needed["gguf"] = f"transplant {name}"
    return needed


def check_packages(study: Study, gpus: Sequence[str]) -> dict[str, str]:
    """Versions of the packages the study needs; a missing one is a UserError that says what for."""
    found = {}
    for name, reason in sorted(needed_packages(study, gpus).items()):
        if importlib.util.find_spec(name) is None:
            raise UserError(f"study {study.name}: the package {name} is missing ({reason}). Install it: pip install {name}")
        found[name] = metadata.version(name)
    return found


def check_models(study: Study) -> None:
    """Every option that the study gives to an architecture, and every model it trains; the first mistake is a UserError.

    A model is built before it is matched to another's size, with the vocabulary that the study names or is taken to have.
    """
    from overtone.models import architecture
    from overtone.models.unfilled import unfilled_model

    for name, entry in study.architectures.items():
        known = architecture(entry["model"]).Config.option_names()
        for option in entry["options"]:
            if option not in known:
                raise unknown_name(f"{study.name}: architectures.{name}.options", option, known)
    trials = [cell for protocol in study.lr_sweep for _, _, cell in sweep_trials(study, protocol)]
    cells = {(cell.model, cell.hidden, cell.options, cell.tokenizer): cell for cell in [*study_cells(study), *trials]}
    for cell in cells.values():
        options = cell.config()["options"]
        known = architecture(cell.model).Config.option_names()
        for option in options:
            if option not in known:
                raise unknown_name(f"{study.name}: {_giver(study, cell, option)} (read by {cell.architecture})", option, known)
        try:
            unfilled_model(cell.model, vocab_size=vocabulary_of(study.tokenizers[cell.tokenizer]), hidden=cell.hidden, **options)
        except UserError as error:
            raise UserError(f"{study.name}: architectures.{cell.architecture} at sizes.{cell.size}: {error}") from None


def _giver(study: Study, cell: Cell, option: str) -> str:
    """The key under which a size gives an option to a cell's architecture."""
    own = study.sizes[cell.size]["per_architecture"].get(cell.architecture, {})
    return f"sizes.{cell.size}.per_architecture.{cell.architecture}" if option in own else f"sizes.{cell.size}"


def vocabulary_of(tokenizer: Mapping[str, Any]) -> int:
    """Entries of a tokenizer as the study describes it; an assumption where only the text will tell."""
    return int(tokenizer.get("vocab_size") or tokenizer.get("max_vocab") or VOCABULARY[tokenizer["kind"]])


def free_bytes(folder: Path) -> int:
    """Free space where `folder` is or will be."""
    folder = folder.absolute()
    while not folder.exists():
        folder = folder.parent
    return shutil.disk_usage(folder).free


def needed_bytes(study: Study) -> int:
    """Space the study needs, roughly: texts and tokens, weights of every cell, checkpoints of those running at once.

    Parameters are taken as 2 V d + 50 d^2 a cell; corpora whose size the registry does not tell are left out.
    """
    sizes = []
    for cell in study_cells(study):
        sizes.append(2 * vocabulary_of(study.tokenizers[cell.tokenizer]) * cell.hidden + 50 * cell.hidden**2)
    registry = corpus_registry()
    texts = sum(int(registry[name].get("content", {}).get("bytes", 0)) for name in study.corpora)
    at_once = sorted(sizes)[-(os.cpu_count() or 1) :]
    return COPIES * texts + WEIGHT_BYTES * sum(sizes) + CHECKPOINT_BYTES * sum(at_once)


def _size(count: int) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.0f} MB"
