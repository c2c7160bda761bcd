"""Claim files: papers/PAPER/claims.yaml, checked before anything is computed. docs/claims.md describes them.

A claim that names an unknown quantity, parameter, exhibit, study or published number is a UserError with the nearest valid name.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from overtone.errors import UserError, unknown_name
from overtone.reporting.quantities import QUANTITIES, Quantity, find_quantity, reported_value
from overtone.reporting.reported import load_reported, read_yaml
from overtone.study import exhibit, study_names
from overtone.study.load import workflow_root
from overtone.study.schema import check

_SIDED = ("kind", "side", "threshold")
_RULE_KEYS = {"ordering": _SIDED, "growth": (*_SIDED, "ahead"), "equality": ("kind", "target", "tolerance"),
              "range": ("kind", "low", "high"), "crossing": ("kind", "level", "between")}
_MODULES = ("cells", "benchmarks", "transplants", "published")


@dataclass(frozen=True)
class Question:
    """A quantity with its parameters and the rule that its value must meet."""

    quantity: Quantity
    parameters: Mapping[str, Any]
    rule: Mapping[str, Any]

    @property
    def text(self) -> str:
        """The quantity as it would be called."""
        given = ", ".join(f"{key}={value!r}" for key, value in self.parameters.items())
        return f"{self.quantity.name}({given})"


@dataclass(frozen=True)
class Check:
    """A question to the paper's own numbers."""

    title: str
    note: str
    question: Question


@dataclass(frozen=True)
class Claim:
    """One claim; `entry` is its part of the file."""

    paper: str
    entry: Mapping[str, Any]
    question: Question
    checks: tuple[Check, ...]

    @property
    def id(self) -> str:
        """Such as H1."""
        return str(self.entry["id"])

    def strength(self, study: str) -> str | None:
        """What a verdict of the study is about: claim, direction, or None where it cannot decide.

        A study of one's own decides what mini would.
        """
        decides: Mapping[str, str] = self.entry["decides"]
        return decides.get(study if study in study_names() else "mini")


def load_quantities() -> Mapping[str, Quantity]:
    """Every registered quantity."""
    for name in _MODULES:
        importlib.import_module(f"overtone.reporting.quantities_{name}")
    return QUANTITIES


def load_claims(papers: Sequence[str], root: Path | None = None) -> list[Claim]:
    """The claims of the papers in the order of their files; ids are unique over all."""
    claims = [claim for paper in papers for claim in parse_claims(_paper(paper, root), f"{paper}/claims.yaml")]
    ids = [claim.id for claim in claims]
    twice = sorted({name for name in ids if ids.count(name) > 1})
    if twice:
        raise UserError(f"claims: the id {twice[0]!r} stands for two claims. Give each its own.")
    return claims


def load_paper_titles(papers: Sequence[str], root: Path | None = None) -> dict[str, str]:
    """Paper -> its title."""
    return {paper: str(check("claims", _paper(paper, root), f"{paper}/claims.yaml")["title"]) for paper in papers}


def _paper(paper: str, root: Path | None) -> Any:
    return read_yaml((root or workflow_root() / "papers") / paper / "claims.yaml")


def parse_claims(content: Any, where: str, reported: Mapping[str, Any] | None = None) -> list[Claim]:
    """Check the content of a claim file."""
    load_quantities()
    data = check("claims", content, where)
    numbers = load_reported() if reported is None else reported
    return [_claim(data["paper"], entry, f"{where}: {entry['id']}", numbers) for entry in data["claims"]]


def _claim(paper: str, entry: Mapping[str, Any], where: str, reported: Mapping[str, Any]) -> Claim:
    for name in entry["exhibits"]:
        try:
            exhibit(name)
        except UserError as error:
            raise UserError(f"{where}: exhibits: {error}") from None
    for name in entry["decides"]:
        if name not in study_names():
            raise unknown_name(f"{where}: decides: study", name, study_names())
    for path in entry["published"]["reported"]:
        try:
            reported_value(reported, path)
        except UserError as error:
            raise UserError(f"{where}: published.reported: {error}") from None
    question = _question(entry, where, published=False)
    checks = tuple(
        Check(item["title"], item.get("note", ""), _question(item, f"{where}: check", published=True)) for item in entry["checks"]
    )
    return Claim(paper, entry, question, checks)


def _question(entry: Mapping[str, Any], where: str, *, published: bool) -> Question:
    name, parameters, rule = entry["quantity"]["name"], entry["quantity"]["with"], entry["rule"]
    quantity = find_quantity(name, parameters, where)
    if quantity.published != published:
        allowed = [other for other, item in QUANTITIES.items() if item.published == published]
        kind = "of the papers' own numbers" if published else "measured in a study"
        raise unknown_name(f"{where}: quantity {kind}", name, allowed)
    for key in rule:
        if key not in _RULE_KEYS[rule["kind"]]:
            raise unknown_name(f"{where}: rule {rule['kind']}: key", key, _RULE_KEYS[rule["kind"]])
    if rule["kind"] == "range" and rule["low"] > rule["high"]:
        raise UserError(f"{where}: rule: low is {rule['low']}, high is {rule['high']}. Swap them.")
    if rule["kind"] == "crossing" and rule["between"][0] >= rule["between"][1]:
        raise UserError(f"{where}: rule.between: found {rule['between']}, expected the smaller number first.")
    return Question(quantity, parameters, rule)
