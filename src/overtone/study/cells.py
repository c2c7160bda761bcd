"""Cells: the training runs that a study's experiments ask for."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

from overtone.errors import UserError, unknown_name
from overtone.files import canonical_json, digest_json

if TYPE_CHECKING:
    from overtone.study.load import Study

COORDINATES = ("protocol", "corpus", "tokenizer", "architecture", "size", "length", "seed")
_CONFIG_TYPES: dict[str, tuple[Any, str]] = {  # all others: a string
    "options": (Mapping, "a mapping"), "training": (Mapping, "a mapping"), "match": (str | None, "a string or null"),
    **dict.fromkeys(("length", "seed", "hidden"), (int, "a whole number")),
}


@dataclass(frozen=True)
class Cell:
    """One training run. Equal coordinates within a study mean the same run, whichever experiment asks for it.

    `model` is a registered architecture, `hidden` and `options` its configuration; `match` names the architecture whose
    total parameter count it is sized to (None: as configured). `training` holds the protocol: budget, tokens_per_step, lr, ...
    `training["lr"]` is a number, or "swept" where the study sweeps it for this protocol.
    """

    protocol: str
    corpus: str
    tokenizer: str
    architecture: str
    size: str
    length: int
    seed: int
    model: str
    hidden: int
    options: str  # canonical JSON of a mapping: hashable
    match: str | None
    training: str  # canonical JSON of a mapping

    @property
    def key(self) -> str:
        """The path PROTOCOL/CORPUS/TOKENIZER/ARCHITECTURE/SIZE/LENGTH/SEED."""
        return "/".join(str(getattr(self, name)) for name in COORDINATES)

    @property
    def coordinates(self) -> dict[str, Any]:
        """The seven coordinates by name."""
        return {name: getattr(self, name) for name in COORDINATES}

    def config(self) -> dict[str, Any]:
        """Everything that decides the result, as plain JSON."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return fields | {"options": json.loads(self.options), "training": json.loads(self.training)}

    @property
    def hash(self) -> str:
        """First 16 hex digits of the config's digest."""
        return digest_json(self.config())[:16]

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Cell:
        """Inverse of `config()`; a missing or unknown field, or one of another type, is a UserError."""
        names = {field.name for field in dataclasses.fields(cls)}
        if not isinstance(config, Mapping):
            raise UserError(f"cell config: found a {type(config).__name__}, expected a mapping of {', '.join(sorted(names))}.")
        if set(config) != names:
            wrong = sorted(set(config) ^ names)
            raise UserError(f"cell config: fields {', '.join(wrong)} are missing or unknown. Expected: {', '.join(sorted(names))}.")
        values = dict(config)
        for name, value in values.items():
            wanted = _CONFIG_TYPES.get(name, (str, "a string"))
            if not isinstance(value, wanted[0]):
                raise UserError(f"cell config: {name}: found {value!r}, expected {wanted[1]}.")
        values["options"] = canonical_json(values["options"])
        values["training"] = canonical_json(values["training"])
        return cls(**values)


@dataclass(frozen=True)
class Experiment:
    """A block of cells: the product of its lists."""

    name: str
    protocol: str
    corpora: tuple[str, ...]
    tokenizers: tuple[str, ...]
    architectures: tuple[str, ...]
    sizes: tuple[str, ...]
    lengths: tuple[int, ...]
    seeds: tuple[int, ...]


def experiment_cells(study: Study, name: str) -> list[Cell]:
    """The cells of one experiment, in a fixed order; [] where the study does not have the experiment."""
    if name not in study.experiments:
        return []
    item = study.experiments[name]
    return [
        make_cell(study, item.protocol, *coordinates)
        for coordinates in product(item.corpora, item.tokenizers, item.architectures, item.sizes, item.lengths, item.seeds)
    ]


def study_cells(study: Study) -> list[Cell]:
    """Every cell of the study once, sorted by key: experiments and the transplants' bases."""
    cells = {cell.key: cell for name in study.experiments for cell in experiment_cells(study, name)}
    for base in transplant_bases(study):
        cells.setdefault(base.key, base)
    return [cells[key] for key in sorted(cells)]


def transplant_bases(study: Study) -> list[Cell]:
    """Cells that a transplant starts from (transplants whose base is a model trained in the study)."""
    return [
        make_cell(study, *(item["base"][name] for name in COORDINATES))
        for _, item in sorted(study.transplants.items())
        if item["base"]["kind"] == "cell"
    ]


def make_cell(study: Study, protocol: str, corpus: str, tokenizer: str, architecture: str, size: str, length: int, seed: int) -> Cell:
    """Look the coordinates up in the study and resolve them into one cell."""
    for kind, name, known in (
        ("protocol", protocol, study.protocols),
        ("corpus", corpus, study.corpora),
        ("tokenizer", tokenizer, study.tokenizers),
        ("architecture", architecture, study.architectures),
        ("size", size, study.sizes),
    ):
        if name not in known:
            raise unknown_name(f"{study.name}: {kind}", name, known)
    rules = dict(study.protocols[protocol])
    match = rules.pop("match", {}).get(architecture)
    entry = study.architectures[architecture]
    dimensions = dict(study.sizes[size])
    dimensions |= dimensions.pop("per_architecture", {}).get(architecture, {})
    hidden = dimensions.pop("hidden")
    return Cell(
        protocol=protocol, corpus=corpus, tokenizer=tokenizer, architecture=architecture, size=size, length=int(length), seed=int(seed),
        model=entry["model"], hidden=hidden, options=canonical_json(entry.get("options", {}) | dimensions), match=match,
        training=canonical_json(_training(study, rules, protocol, architecture, int(length))),
    )


def _training(study: Study, rules: dict[str, Any], protocol: str, architecture: str, length: int) -> dict[str, Any]:
    training = dict(rules)
    per_length = training.pop("per_length", {})
    training |= per_length.get(str(length), {})
    training["evaluation_length"] = max(
        (max(item.lengths) for item in study.experiments.values() if item.protocol == protocol), default=length
    )
    if isinstance(training["lr"], dict):
        rates = training["lr"]
        owner = rate_owner(study, architecture)
        if owner not in rates:
            raise unknown_name(f"{study.name}: protocols.{protocol}.lr", owner, rates)
        training["lr"] = rates[owner]
    return training


def rate_owner(study: Study, architecture: str) -> str:
    """The architecture whose swept rate this one uses: itself, or `rate_of` for an ablation."""
    return str(study.architectures[architecture].get("rate_of", architecture))


def sweep_trials(study: Study, protocol: str) -> Iterator[tuple[str, str, Cell]]:
    """(architecture, rate, cell) of every trial of a protocol's learning-rate sweep: the same rates for every architecture."""
    sweep = study.lr_sweep.get(protocol)
    if sweep is None:
        return
    for architecture in sorted({rate_owner(study, cell.architecture) for cell in study_cells(study) if cell.protocol == protocol}):
        cell = make_cell(study, protocol, sweep["corpus"], sweep["tokenizer"], architecture, sweep["size"], sweep["length"], sweep["seed"])
        training = cell.config()["training"]
        training |= {"budget": sweep.get("budget", training["budget"])}
        for rate in sweep["rates"]:
            trial = dataclasses.replace(cell, training=canonical_json(training | {"lr": float(rate)}))
            yield architecture, f"{float(rate):.3e}", trial
