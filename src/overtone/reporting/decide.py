"""Decision rules: what a measurement must look like for a claim to hold, and when it is against it.

    ordering   every point on the claimed side of `threshold`
    equality   every point within `tolerance` of `target`
    range      every point between `low` and `high`
    growth     the trend on the claimed side of `threshold`, and still there (as a value) whichever single length, size or task is left
               out: what one place carries is a step, not growth. With `ahead`, the furthest point on that side of zero, too
    crossing   points up to between[0] below `level`, points from between[1] on above it

A rule holds where every point meets it and its doubt is excluded at 5%, p values corrected by Holm over the points of the claim
(so at a single point: where the 95% interval lies wholly on the claimed side). It fails where at least one point is on the other
side with its doubt excluded in the same way. Everything else is open. The same code decides about a study's measurements and
about the papers' own numbers; exact numbers leave no doubt, so their rules hold or fail. A rule about every point is open where
a setting of the claim is missing because its model failed there.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from overtone.reporting.quantities import Measurement, NotMeasuredError, Point
from overtone.reporting.statistics import Estimate, holm

ALPHA = 0.05
HOLDS, FAILS, OPEN = "holds", "fails", "open"


@dataclass(frozen=True)
class Tested:
    """A point under its rule. `p` is Holm-adjusted, of the border that counts; `meets`: the value itself is where the rule wants it."""

    point: Point
    estimate: Estimate
    p: float | None
    meets: bool

    @property
    def sure(self) -> bool:
        """Whether this point is beyond doubt on its side."""
        lone_seed = self.point.seeds_matter and self.estimate.seeds == 1
        return self.p is not None and self.p < ALPHA and not lone_seed


@dataclass(frozen=True)
class Decision:
    """holds, fails or open, with the points as tested and the one that decides (the trend, or the point of most doubt)."""

    state: str
    tested: tuple[Tested, ...]
    decisive: Tested
    notes: tuple[str, ...] = ()


def decide(rule: Mapping[str, Any], measurement: Measurement) -> Decision:
    """Apply a rule of a claim file to a measurement."""
    if rule["kind"] == "growth":
        if measurement.trend is None:
            raise NotMeasuredError("Growth needs at least two lengths, sizes or tasks measured alike."
                                   + "".join(f" {note}" for note in measurement.notes))
        asked = [(rule, measurement.trend)]
        if rule.get("ahead"):
            furthest = max(measurement.points, key=lambda point: point.x or 0.0)
            asked.append(({"kind": "ordering", "side": rule["side"], "threshold": 0.0}, furthest))
    elif rule["kind"] == "crossing":
        asked = [(rule, point) for point in _beside_crossing(rule, measurement.points)]
    else:
        asked = [(rule, point) for point in measurement.points]
    points = [point for _, point in asked]
    raw = [_one(rule, point) for rule, point in asked]
    adjusted = holm([p for _, p, _ in raw])
    tested = tuple(Tested(point, estimate, p, meets)
                   for point, (estimate, _, meets), p in zip(points, raw, adjusted, strict=True))
    state = _state(tested, measurement.lost)
    if rule["kind"] == "growth":  # the trend is what the claim is about
        notes = _carried(rule, tested[0])
        behind = any(item.sure and not item.meets for item in tested[1:])  # of `ahead`: it fails whatever the trend is
        return Decision(OPEN if notes and not behind else state, tested, tested[0], notes)
    against = [item for item in tested if not item.meets]
    if state == FAILS:
        return Decision(state, tested, min((item for item in against if item.sure), key=_doubt))
    if state == HOLDS:
        return Decision(state, tested, max(tested, key=_doubt))
    return Decision(state, tested, max(against or [item for item in tested if not item.sure] or tested, key=_doubt))


def _state(tested: Sequence[Tested], lost: Sequence[str]) -> str:
    if any(item.sure and not item.meets for item in tested):
        return FAILS
    return HOLDS if all(item.sure and item.meets for item in tested) and not lost else OPEN


def _doubt(item: Tested) -> float:
    return 2.0 if item.p is None else item.p


def _one(rule: Mapping[str, Any], point: Point) -> tuple[Estimate, float | None, bool]:
    """(estimate against the border that counts, its p, whether the value meets the rule)."""
    if rule["kind"] in ("equality", "range"):
        low, high = _band(rule)
        return _inside(point, low, high)
    if rule["kind"] == "crossing":
        above, border = point.x is not None and point.x >= rule["between"][1], float(rule["level"])
    else:
        above, border = rule["side"] == "above", float(rule["threshold"])
    estimate = point.at(border)
    return estimate, 0.0 if _exact(estimate) else estimate.p, estimate.value > border if above else estimate.value < border


def _carried(rule: Mapping[str, Any], trend: Tested) -> tuple[str, ...]:
    """Which places a decided trend hangs on: those without which its value is on the other side."""
    if not trend.sure:
        return ()
    beyond = operator.gt if rule["side"] == "above" else operator.lt
    return tuple(f"Without {left} the trend is {value:.2g}: that one place carries it." for left, value in trend.point.without
                 if beyond(value, rule["threshold"]) != trend.meets)


def _exact(estimate: Estimate) -> bool:
    return estimate.low == estimate.high == estimate.value


def _band(rule: Mapping[str, Any]) -> tuple[float, float]:
    if rule["kind"] == "range":
        return float(rule["low"]), float(rule["high"])
    return float(rule["target"] - rule["tolerance"]), float(rule["target"] + rule["tolerance"])


def _inside(point: Point, low: float, high: float) -> tuple[Estimate, float | None, bool]:
    below, above = point.at(low), point.at(high)
    value = below.value
    if _exact(below):  # the borders belong to the band
        return below, 0.0, low <= value <= high
    if low <= value <= high:
        worst = max((below, above), key=lambda item: 2.0 if item.p is None else item.p)
        return worst, worst.p, True
    nearest = below if value < low else above
    return nearest, nearest.p, False


def _beside_crossing(rule: Mapping[str, Any], points: Sequence[Point]) -> list[Point]:
    first, last = rule["between"]
    before = [point for point in points if point.x is not None and point.x <= first]
    after = [point for point in points if point.x is not None and point.x >= last]
    if not before or not after:
        raise NotMeasuredError(f"The crossing needs a point at {first} or below and one at {last} or above.")
    return before + after


def borders(rule: Mapping[str, Any]) -> list[float]:
    """The values at which points stop meeting the rule; none for growth, whose border is about the trend."""
    if rule["kind"] == "ordering":
        return [float(rule["threshold"])]
    if rule["kind"] == "crossing":
        return [float(rule["level"])]
    return list(_band(rule)) if rule["kind"] in ("equality", "range") else []


def rule_text(rule: Mapping[str, Any], unit: str = "") -> str:
    """The rule in one sentence."""
    kind, mark = rule["kind"], f" {unit}" if unit else ""
    if kind == "ordering":
        return f"every point {rule['side']} {rule['threshold']:g}{mark}"
    if kind == "equality":
        return f"every point within {rule['tolerance']:g} of {rule['target']:g}{mark}"
    if kind == "range":
        return f"every point from {rule['low']:g} to {rule['high']:g}{mark}"
    if kind == "growth":
        ahead = f", and the furthest point {rule['side']} 0" if rule.get("ahead") else ""
        return f"the trend {rule['side']} {rule['threshold']:g}, whichever one place is left out{ahead}"
    return f"below {rule['level']:g}{mark} up to {rule['between'][0]:g}, above it from {rule['between'][1]:g} on"
