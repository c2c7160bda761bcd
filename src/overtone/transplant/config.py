"""A transplant's configuration: one entry of a study's `transplants`, checked and made of plain values. Imports no torch.

Schema and defaults: workflow/schemas/transplant.schema.json.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from overtone.errors import UserError, unknown_name
from overtone.study import Study
from overtone.study.schema import check


@dataclass(frozen=True)
class Phase:
    """One training phase of one variant."""

    number: int  # 1: only the blocks; 2: `train`
    objective: str  # align | cross_entropy | distill
    train: str  # blocks_only | blocks (and norms) | all
    budget: int  # tokens
    lr: float
    tokens_per_step: int
    batch: int | None  # windows held at once
    warmup: float  # share of the steps
    final_lr: float  # share of the peak
    clip: float  # gradient norm of each layer
    validation_points: int
    align_share: float = 0.0  # distill: share of the budget that is alignment, before it
    random_share: float = 0.0  # share of windows of random tokens


@dataclass(frozen=True)
class Variant:
    """One way to teach the blocks."""

    name: str
    block: Mapping[str, Any]
    control: bool
    after: str | None  # the variant whose phase 1 this one continues
    phases: tuple[Phase, ...]


@dataclass(frozen=True)
class TransplantConfig:
    """One transplant. `data` is the checked entry."""

    name: str
    data: Mapping[str, Any]
    base: Mapping[str, Any]
    corpus: str
    length: int
    seed: int
    variants: Mapping[str, Variant]
    evaluation: Mapping[str, Any]
    device: str

    def variant(self, name: str) -> Variant:
        """A variant by name; an unknown one is a UserError."""
        if name not in self.variants:
            raise unknown_name(f"transplant {self.name}: variant", name, self.variants)
        return self.variants[name]

    def phase(self, variant: str, number: int) -> Phase:
        """A phase of a variant; a UserError where the study has none."""
        for phase in self.variant(variant).phases:
            if phase.number == number:
                return phase
        raise UserError(f"transplant {self.name}: variant {variant} has no phase {number}. Add phase{number} to it in the study.")

    @property
    def corpora(self) -> list[str]:
        """Corpora whose held-out text is read."""
        return list(self.evaluation["corpora"]) or [self.corpus]


def load_transplant(study: Study, name: str) -> TransplantConfig:
    """The transplant NAME of a study. Every mistake is a UserError."""
    if name not in study.transplants:
        raise unknown_name(f"study {study.name}: transplant", name, study.transplants)
    where = f"study {study.name}: transplants.{name}"
    data = check("transplant", study.transplants[name], where)
    variants = {key: _variant(key, data["block"], value) for key, value in sorted(data["variants"].items())}
    for variant in variants.values():
        if variant.after is not None and (variant.after not in variants or variants[variant.after].after is not None):
            raise UserError(f"{where}.variants.{variant.name}.after: {variant.after!r}, expected a variant that starts from the base.")
        if variant.block.get("kind") == "attention" and variant.phases[0].objective != "cross_entropy":
            raise UserError(f"{where}.variants.{variant.name}.phase1.objective: {variant.phases[0].objective!r} found, but attention has "
                            "nothing to learn from itself. Write cross_entropy.")
        if not variant.control and variant.block.get("kind") == "leaky":
            raise UserError(f"{where}.variants.{variant.name}: a leaky block is only ever a control. Add control: true.")
    return TransplantConfig(
        name=name, data=data, base=data["base"], corpus=data["corpus"], length=data["length"], seed=data["seed"], variants=variants,
        evaluation=data["evaluation"], device=study.data["device"],
    )


def _variant(name: str, block: Mapping[str, Any], item: Mapping[str, Any]) -> Variant:
    phases = [Phase(number=1, train="blocks_only", **item["phase1"])]
    if "phase2" in item:
        phases.append(Phase(number=2, objective="cross_entropy", **item["phase2"]))
    return Variant(name, {**block, **item["block"]}, item["control"], item.get("after"), tuple(phases))
