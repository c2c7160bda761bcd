"""Quantities of transplants: the base past its context, the transplanted model beside it, and what it cost.

One base and one trained transplant: intervals cover other text of the same kind, not another training run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from overtone.audits.entropy import BITS
from overtone.reporting import formats, statistics
from overtone.reporting.quantities import Evidence, Measurement, NotMeasuredError, Point, Test, exact, quantity

BASE = "base"
_ONE_RUN = "One transplant, trained once: the interval covers other text, not another run."
_CHOSEN = "Of several variants the one with fewest bits at the shortest length counts, on the text that it is judged on."
_MORE_TOKENS = "{}: no variant of kind attention has read the transplant's training tokens in addition to the base's."


@dataclass(frozen=True)
class Transplant:
    """One transplant's evaluation, its best variant (fewest bits at the shortest length) and the base as trained on.

    Controls do not count, nor does a variant below the entropy floor on random tokens: it sees the tokens it predicts.
    `continued`: the variant of kind attention, whose base has read the transplants' tokens, too.
    """

    name: str
    content: dict[str, Any]
    variant: str | None
    continued: str | None

    @property
    def source(self) -> str:
        """Its evaluation file."""
        return f"transplants/{self.name}/evaluation.json"

    def windows(self, model: str, corpus: str) -> dict[int, Any]:
        """length -> bits per token of each window, merged into the windows of the longest length."""
        rows = {int(row["length"]): row for row in self.content["rows"] if row["model"] == model and row["corpus"] == corpus}
        if not rows:
            return {}
        count = len(rows[max(rows)]["window_bpt"])
        return {length: statistics.blocks(row["window_bpt"], count) for length, row in sorted(rows.items())}

    @property
    def corpora(self) -> list[str]:
        """Corpora that were read."""
        return sorted({row["corpus"] for row in self.content["rows"]})


def _transplants(evidence: Evidence) -> Iterator[Transplant]:
    found = evidence.measured.transplants()
    if not found:
        raise NotMeasuredError("The study has no transplant.")
    for name, content in found.items():
        evaluation = content["evaluation"]
        leaking = {row["model"] for row in evaluation["random_tokens"] if row["bpt"] < row["floor"] - BITS / row["targets"]}
        honest = [variant for variant, about in evaluation["variants"].items()
                  if not about["control"] and "/" not in variant and variant not in leaking]
        continued = next((variant for variant in honest if evaluation["variants"][variant]["block"].get("kind") == "attention"), None)
        honest = [variant for variant in honest if variant != continued]
        rows = [row for row in evaluation["rows"] if row["model"] in honest]
        shortest = min((row["length"] for row in rows), default=0)
        best = min((row for row in rows if row["length"] == shortest), key=lambda row: float(row["bpt"]), default=None)
        yield Transplant(name, evaluation, None if best is None else str(best["model"]), continued)


def _transplanted(evidence: Evidence) -> list[tuple[Transplant, str]]:
    found = [(item, item.variant) for item in _transplants(evidence) if item.variant is not None]
    if not found:
        raise NotMeasuredError("No transplanted model stays above the entropy floor on random tokens.")
    return found


def _paired(low: Any, high: Any) -> Test:
    return lambda null: statistics.estimate(statistics.difference, low, high, null=null)


def _rise(transplant: Transplant, model: str) -> Iterator[Point]:
    for corpus in transplant.corpora:
        windows = transplant.windows(model, corpus)
        if len(windows) > 1:
            first, last = min(windows), max(windows)
            label = f"{transplant.name}, {corpus}, {formats.length(first)} to {formats.length(last)}"
            yield Point(label, _paired(windows[first], windows[last]), float(last), (transplant.source,), seeds_matter=False)


@quantity
def base_degradation(evidence: Evidence) -> Measurement:
    """Bits per token the untouched base loses from the shortest length to the longest, which lies past its context."""
    points = [
        point for transplant in _transplants(evidence) for point in _rise(transplant, BASE)
        if (point.x or 0) > int(transplant.content["context"])
    ]
    return Measurement("bpt", tuple(points))


@quantity
def transplant_degradation(evidence: Evidence) -> Measurement:
    """Bits per token the transplanted model loses from the shortest length to the longest."""
    points = [point for transplant, variant in _transplanted(evidence) for point in _rise(transplant, variant)]
    return Measurement("bpt", tuple(points), None, (_ONE_RUN, _CHOSEN))


@quantity
def transplant_gain(evidence: Evidence) -> Measurement:
    """Bits per token of the base, trained on the same tokens where the study has that, minus the transplanted model's, by length."""
    points, notes = [], [_ONE_RUN, _CHOSEN]
    for transplant, variant in _transplanted(evidence):
        if transplant.continued is None:
            notes.append(_MORE_TOKENS.format(transplant.name))
        for corpus in transplant.corpora:
            ours, theirs = transplant.windows(variant, corpus), transplant.windows(transplant.continued or BASE, corpus)
            for length in sorted(set(ours) & set(theirs)):
                label = f"{transplant.name}, {corpus} at {formats.length(length)}"
                points.append(Point(label, _paired(ours[length], theirs[length]), float(length), (transplant.source,), seeds_matter=False))
    return Measurement("bpt", tuple(points), None, tuple(notes))


@quantity
def transplant_cost(evidence: Evidence) -> Measurement:
    """Dollars of all phases of the transplant, at its price an hour or else the study's."""
    points = []
    for transplant, variant in _transplanted(evidence):
        hours = sum(row["hours"] for row in transplant.content["cost"] if row["variant"] == variant)
        dollars = hours * evidence.measured.price_of_transplant(transplant.name)
        points.append(Point(f"{transplant.name}/{variant}", exact(dollars), None, (transplant.source,), seeds_matter=False))
    return Measurement("$", tuple(points))
