"""Equal budget: at one corpus, tokenizer, length and seed every architecture saw the same tokens in the same order.

Modes, one row a group of cells:
plan      distinct digests of the windows that were consumed: one
recipe    distinct training rules apart from the learning rate: one
data      distinct digests of the token files: one
tokens    cells whose tokens differ from the whole windows of their budget: none
targets   (a corpus, all lengths) distinct numbers of validation and test targets: one

Reads metrics alone: no torch, no model.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from overtone.audits.report import Row, at_most
from overtone.audits.results import FinishedCell
from overtone.files import digest_json


def audit_budget(cells: Iterable[FinishedCell]) -> tuple[list[Row], list[str]]:
    """Rows over the cells that ended ok, and remarks on budgets that differ between lengths."""
    done = [item for item in cells if item.ok]
    rows: list[Row] = []
    groups = _grouped(done, "protocol", "corpus", "tokenizer", "length", "seed")
    for coordinates, members in groups.items():
        protocol, corpus, tokenizer, length, seed = coordinates
        subject = f"{protocol}/{corpus}/{tokenizer}/*/*/{length}/{seed}"
        rows += [
            _distinct(subject, "plan", members, lambda metrics: metrics["plan"]["digest"]),
            _distinct(subject, "recipe", members, _recipe),
            _distinct(subject, "data", members, lambda metrics: digest_json(metrics["tokens"])),
            _tokens(subject, members),
        ]
    for coordinates, members in _grouped(done, "protocol", "corpus", "tokenizer").items():
        rows.append(_distinct("/".join(map(str, coordinates)) + "/*/*/*/*", "targets", members, _targets))
    return rows, _lengths(done)


def _grouped(cells: Iterable[FinishedCell], *names: str) -> dict[tuple[Any, ...], list[FinishedCell]]:
    groups: dict[tuple[Any, ...], list[FinishedCell]] = defaultdict(list)
    for item in cells:
        groups[tuple(getattr(item.cell, name) for name in names)].append(item)
    return dict(sorted(groups.items()))


def _recipe(metrics: Mapping[str, Any]) -> str:
    return digest_json({key: value for key, value in metrics["config"]["training"].items() if key != "lr"})


def _targets(metrics: Mapping[str, Any]) -> str:
    return digest_json({split: values["targets"] for split, values in metrics["evaluation"].items()})


def _distinct(subject: str, mode: str, members: list[FinishedCell], value: Callable[[Mapping[str, Any]], str]) -> Row:
    """One row: how many different values the members have; the detail names who differs from most."""
    by_value: dict[str, list[str]] = defaultdict(list)
    for item in members:
        by_value[value(item.metrics)].append(item.cell.architecture)
    most = max(by_value.values(), key=len)
    other = sorted({name for names in by_value.values() if names is not most for name in names})
    detail = f"{len(members)} cell{'s' * (len(members) != 1)}" + (f"; not as the rest: {', '.join(other)}" if other else "")
    return at_most(subject, mode, len(by_value), 1, detail=detail)


def _tokens(subject: str, members: list[FinishedCell]) -> Row:
    off = []
    for item in members:
        budget = int(item.metrics["budget"])
        if item.metrics["tokens_seen"] != budget // item.cell.length * item.cell.length or budget != _budget(item):
            off.append(f"{item.cell.architecture} saw {item.metrics['tokens_seen']} of {_budget(item)}")
    return at_most(subject, "tokens", len(off), 0, detail="; ".join(off) or f"{members[0].metrics['tokens_seen']} tokens each")


def _budget(item: FinishedCell) -> int:
    return int(item.metrics["config"]["training"]["budget"])


def _lengths(cells: list[FinishedCell]) -> list[str]:
    notes = []
    for (protocol,), members in _grouped(cells, "protocol").items():
        budgets = {item.cell.length: _budget(item) for item in members}
        if len(set(budgets.values())) > 1:
            listed = ", ".join(f"{length}: {budgets[length]}" for length in sorted(budgets))
            notes.append(f"protocol {protocol}: the budget is equal across architectures at one length, not across lengths ({listed}), "
                         "as in the published runs (batch 1 at 32768 and 65536)")
    return notes
