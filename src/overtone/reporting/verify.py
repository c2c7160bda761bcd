"""Check results against their manifests: a cell's metrics say what it was made from, and that is looked at again.

schema     metrics.json has the shape of workflow/schemas/metrics.schema.json
path       the folder is the cell's key, the stored key, coordinates and config agree
hash       the stored hash is the digest of the stored config
study      the study still asks for this config (a changed seed, rate or budget shows here)
weights    model.safetensors has the stored sha256
tokens     the token files have the stored digests, and so have their contents
plan       the plan of these tokens, length, budget and seed has the stored digest
scores     bits per token are the mean of the windows', and there are as many of those as are said
rate       a swept cell trained at the rate that its sweep chose
outcome    experiments/NAME.json tells of these cells
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from overtone.corpora.tokenfile import TokenFile
from overtone.errors import UserError
from overtone.files import read_json, sha256_file
from overtone.study import Cell, Study, load_study, study_cells
from overtone.study.cells import rate_owner
from overtone.study.outcome import outcome
from overtone.study.schema import check
from overtone.training.plan import Plan

_SPLITS = ("train", "validation", "test")
_ROUNDING = 1e-5  # losses are float32


@dataclass(frozen=True)
class Problem:
    """What does not agree: the file, the check, and what to do."""

    path: Path
    check: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.check}: {self.message}"


@dataclass(frozen=True)
class Verification:
    """Problems of a results folder, how many cells were looked at, and how many the study still lacks."""

    problems: list[Problem]
    cells: int
    missing: int


def verify(results: Path) -> Verification:
    """Look at every cell under results/STUDY/cells."""
    if not (results / "study.json").is_file():
        raise UserError(f"--results {results}: no study.json in it. Give results/STUDY of a study that has been run.")
    study = load_study(str(results / "study.json"))
    wanted = {cell.key: cell for cell in study_cells(study)}
    found = {str(path.parent.relative_to(results / "cells")): path for path in sorted((results / "cells").rglob("metrics.json"))}
    tokens = TokenDigests(results)
    problems = [problem for key, path in found.items() for problem in check_cell(key, path, wanted.get(key), study, tokens)]
    problems += [*_check_rates(results, study, found), *_check_outcomes(results, study)]
    return Verification(problems, len(found), len(set(wanted) - set(found)))


def check_cell(key: str, path: Path, wanted: Cell | None, study: Study, tokens: TokenDigests) -> Iterator[Problem]:
    """The problems of one cell; the checks that need a readable file are left out where it is not."""
    try:
        metrics = check("metrics", read_json(path), path.name)
        stored = Cell.from_config(metrics["config"])
    except UserError as error:
        yield Problem(path, "schema", str(error))
        return
    if not stored.key == metrics["key"] == key or stored.coordinates != metrics["cell"]:
        yield Problem(path, "path", f"stands in {key}, says {metrics['key']}, its config is of {stored.key}. Move it back or delete it.")
    if stored.hash != metrics["hash"]:
        yield Problem(path, "hash", f"{metrics['hash']} is stored, its config has {stored.hash}. Train the cell again.")
    if wanted is None:
        yield Problem(path, "study", f"study {study.name} has no such cell. Delete the folder, or run the study that has it.")
    elif wanted.hash != stored.hash:
        yield Problem(path, "study", f"study {study.name} asks for {_differences(wanted.config(), stored.config())}. Run snakemake again.")
    yield from _check_scores(path, metrics)
    yield from _check_weights(path, metrics)
    yield from _check_tokens(path, metrics, stored, tokens)


def _differences(wanted: Mapping[str, Any], stored: Mapping[str, Any]) -> str:
    told = []
    for key in wanted:
        if isinstance(wanted[key], dict):
            names = sorted(set(wanted[key]) | set(stored[key]))
            told += [f"{key}.{name} {wanted[key].get(name)!r} (trained with {stored[key].get(name)!r})"
                     for name in names if wanted[key].get(name) != stored[key].get(name)]
        elif wanted[key] != stored[key]:
            told.append(f"{key} {wanted[key]!r} (trained with {stored[key]!r})")
    return ", ".join(told)


def _check_scores(path: Path, metrics: Mapping[str, Any]) -> Iterator[Problem]:
    if metrics["status"] == "ok" and "test" not in metrics["evaluation"]:
        yield Problem(path, "scores", "no evaluation of test. Train the cell again.")
    for split, scores in metrics["evaluation"].items():
        windows, length, targets = scores["window_bpt"], scores["window_length"], scores["targets"]
        sizes = [length] * (len(windows) - 1) + [targets - length * (len(windows) - 1)]
        if len(windows) != scores["windows"] or not 0 < sizes[-1] <= length:
            yield Problem(path, "scores", f"{split}: {len(windows)} windows of {length} for {targets} targets. Train the cell again.")
            continue
        mean = sum(bits * size for bits, size in zip(windows, sizes, strict=True)) / targets
        if not math.isclose(mean, scores["bpt"], rel_tol=_ROUNDING):
            yield Problem(path, "scores", f"{split}: bpt {scores['bpt']}, its windows' mean is {mean}. Train the cell again.")


def _check_rates(results: Path, study: Study, found: Mapping[str, Path]) -> Iterator[Problem]:
    for cell in study_cells(study):
        chosen = results / "lr_sweep" / cell.protocol / rate_owner(study, cell.architecture) / "chosen.json"
        if cell.key in found and cell.config()["training"]["lr"] == "swept" and chosen.is_file():
            try:
                rate, used = read_json(chosen)["chosen"], read_json(found[cell.key])["lr"]
            except (UserError, KeyError, TypeError):
                continue  # told by the schema's check, or by whoever reads the sweep
            if not math.isclose(rate, used, rel_tol=_ROUNDING):
                yield Problem(found[cell.key], "rate", f"trained at {used}, {chosen} has {rate}. Run snakemake again.")


def _check_outcomes(results: Path, study: Study) -> Iterator[Problem]:
    for name in study.experiments:
        path = results / "experiments" / f"{name}.json"
        try:
            if path.is_file() and read_json(path) != outcome(study, name, results):
                yield Problem(path, "outcome", "its cells have changed since. Run snakemake again.")
        except UserError as error:
            yield Problem(path, "outcome", str(error))


def _check_weights(path: Path, metrics: Mapping[str, Any]) -> Iterator[Problem]:
    if metrics["status"] == "ok" and metrics["weights"] is None:
        yield Problem(path, "weights", "ended ok without weights. Train the cell again.")
    if metrics["weights"] is not None:
        file = path.parent / metrics["weights"]["file"]
        if not file.is_file():
            yield Problem(file, "weights", "not found. Train the cell again.")
        elif (digest := sha256_file(file)) != metrics["weights"]["sha256"]:
            yield Problem(file, "weights", f"sha256 {digest}, expected {metrics['weights']['sha256']}. Train the cell again.")


def _check_tokens(path: Path, metrics: Mapping[str, Any], cell: Cell, tokens: TokenDigests) -> Iterator[Problem]:
    for split in _SPLITS:
        try:
            digest = tokens.file(cell, split).digest
        except UserError as error:
            yield Problem(path, "tokens", str(error))
            return
        if digest != metrics["tokens"][split]:
            yield Problem(path, "tokens", f"{split}: trained on {metrics['tokens'][split]}, there is {digest} now. Train the cell again.")
            return
    training = cell.config()["training"]
    train = tokens.file(cell, "train")
    plan = Plan(train.digest, train.tokens, cell.length, training["budget"], training["tokens_per_step"], cell.seed,
                training["carry_state"])
    stored = metrics["plan"]["digest"]
    if plan.digest != stored:
        yield Problem(path, "plan", f"{stored} is stored, these tokens and this config give {plan.digest}. Train the cell again.")


class TokenDigests:
    """Token files of a results folder, each read and checked against its sidecar once."""

    def __init__(self, results: Path) -> None:
        self.results = results
        self._files: dict[Path, TokenFile | UserError] = {}

    def file(self, cell: Cell, split: str) -> TokenFile:
        """The split's token file; a UserError where it is missing or damaged."""
        path = self.results / "tokens" / cell.corpus / cell.tokenizer / f"{split}.json"
        if path not in self._files:
            try:
                self._files[path] = TokenFile.open(path, verify=True)
            except UserError as error:
                self._files[path] = error
        found = self._files[path]
        if isinstance(found, UserError):
            raise found
        return found
