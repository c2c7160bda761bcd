"""What a transplant costs: tokens and hours of each phase, measured, and at that speed for the published token counts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# Published: phase 1 10,000 steps, phase 2 5,000 steps of 33K tokens with 4 accumulations. Phase 1's step is not published; without
# accumulation it would be a quarter of phase 2's.
PUBLISHED_TOKENS = {1: 10_000 * 33_000 // 4, 2: 5_000 * 33_000}
PUBLISHED = {1: {"hours": 20 / 60, "dollars": 2.0}, 2: {"hours": 70 / 60, "dollars": 10.0}}


def cost_row(report: Mapping[str, Any]) -> dict[str, Any]:
    """One phase's cost from its phaseN.json; the price of an hour is for who reads it."""
    hours = report["seconds"] / 3600
    rate = report["tokens"] / report["seconds"]
    published = PUBLISHED_TOKENS[report["phase"]]
    extrapolated = published / rate / 3600
    return {
        "variant": report["variant"], "phase": report["phase"], "objective": report["objective"], "tokens": report["tokens"],
        "seconds": report["seconds"], "hours": hours, "tokens_per_s": rate,
        "device": report["environment"]["device"], "published_tokens": published, "published_tokens_assumed": report["phase"] == 1,
        "extrapolated_hours": extrapolated,
        "published_hours": PUBLISHED[report["phase"]]["hours"], "published_dollars": PUBLISHED[report["phase"]]["dollars"],
    }
