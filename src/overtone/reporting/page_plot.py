"""The small plot of a claim: every point with its interval against the borders of the rule. Geometry only; the template draws it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

LEFT, RIGHT, ROW, TOP, BOTTOM = 165, 20, 24, 12, 36  # pixels of the drawing
WIDTH = 470


@dataclass(frozen=True)
class Mark:
    """One point: its row, value and interval in pixels."""

    label: str
    y: float
    x: float
    low: float | None
    high: float | None
    meets: bool


@dataclass(frozen=True)
class IntervalPlot:
    """Pixels of everything that is drawn."""

    width: int
    height: int
    axis: float
    left: int
    right: int
    marks: tuple[Mark, ...]
    ticks: tuple[tuple[float, str], ...]
    borders: tuple[float, ...]
    unit: str


def interval_plot(claim: Mapping[str, Any]) -> IntervalPlot | None:
    """None where nothing was measured or nothing has an interval: a table says the same in less space."""
    points = claim["points"]
    if not points or all(point["low"] is None or point["low"] == point["high"] for point in points):
        return None
    borders = list(claim["borders"])
    edges = [edge for point in points for edge in (point["value"], point["low"], point["high"]) if edge is not None] + borders
    low, high, step = _scale(min(edges), max(edges))
    span = WIDTH - LEFT - RIGHT

    def x(value: float) -> float:
        return round(LEFT + span * (value - low) / (high - low), 1)

    marks = tuple(
        Mark(_short(point["label"]), TOP + ROW * (row + 0.5), x(point["value"]), None if point["low"] is None else x(point["low"]),
             None if point["high"] is None else x(point["high"]), point["meets"])
        for row, point in enumerate(points)
    )
    count = round((high - low) / step)
    digits = max(0, -math.floor(math.log10(step)))
    ticks = tuple((x(low + step * index), f"{low + step * index:.{digits}f}") for index in range(count + 1))
    height = TOP + ROW * len(points) + BOTTOM
    return IntervalPlot(WIDTH, height, height - BOTTOM, LEFT, WIDTH - RIGHT, marks, ticks, tuple(map(x, borders)), claim["points_unit"])


def _scale(low: float, high: float) -> tuple[float, float, float]:
    """Round limits and a step of 1, 2 or 5 times a power of ten with about five ticks."""
    spread = (high - low) or abs(high) or 1.0
    rough = spread / 5
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough)
    return step * math.floor(low / step), step * math.ceil(high / step), step


def _short(label: str) -> str:
    return label if len(label) <= 26 else f"{label[:25]}…"
