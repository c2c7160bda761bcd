"""impulse_responses, half_lives, spectrum, energy: what the oscillators of a trained ResonatorLM do."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from overtone.reporting import formats
from overtone.reporting.collect import Results
from overtone.reporting.tables.table import Table, not_measured

IMPULSE_COLUMNS = ["layer", "head", "t", "model", "formula"]
HALF_LIFE_COLUMNS = ["when", "layer", "head", "half_life_tokens", "bpt_off", "bpt_on"]
ENERGY_COLUMNS = ["layer", "head", "step", "white", "error", "modulus"]
SPECTRUM_COLUMNS = ["layer", "head", "omega", "period_tokens", "magnitude", "peak_omega"]


def _needs(results: Results) -> str:
    return (f"study {results.study.name} trains no ResonatorLM in the experiment quality, or it did not end ok; add the architecture "
            "resonator to it.")


def _about(found: dict[str, Any]) -> str:
    return f"cell {found['key']}, one seed, {found.get('environment', {}).get('device', 'device not recorded')}"


def build_impulse(name: str, results: Results) -> Table:
    """CSV: both responses by time; text: the largest difference of each head."""
    found = results.diagnostics()
    if not found or not found.get("impulse"):
        return not_measured(_needs(results), IMPULSE_COLUMNS)
    data = pd.DataFrame([row for item in found["impulse"] for row in _series(item, ("t", "model", "formula"))], columns=IMPULSE_COLUMNS)
    data["difference"] = (data["model"] - data["formula"]).abs()
    rows = []
    for (layer, head), part in data.groupby(["layer", "head"]):
        largest = part["formula"].abs().max()
        rows.append([f"{layer}", f"{head}", formats.significant(largest), formats.significant(part["difference"].max()),
                     formats.significant(part["difference"].max() / largest if largest else None)])
    return Table(
        data.drop(columns="difference"), ["Layer", "Head", "Largest response", "Largest difference from the formula", "Relative"], rows,
        f"The trained mixer fed an impulse, against exp(-alpha t) cos(omega t + phi); {_about(found)}.",
    )


def _series(item: dict[str, Any], columns: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    where = {"layer": item["layer"], "head": item["head"]}
    if not isinstance(item[columns[0]], list):
        yield where | {column: item[column] for column in columns}
        return
    for values in zip(*(item[column] for column in columns), strict=True):
        yield where | dict(zip(columns, values, strict=True))


def build_half_lives(name: str, results: Results) -> Table:
    """CSV: every head before and after training, and the loss with that head switched off; text: ranges covered."""
    found = results.diagnostics()
    if not found or not found.get("half_lives"):
        return not_measured(_needs(results), HALF_LIFE_COLUMNS)
    off = {(item["layer"], item["head"]): item["bpt_off"] for item in found.get("head_loss", [])}
    rows = [
        {"when": when, "layer": layer, "head": head, "half_life_tokens": value,
         "bpt_off": off.get((layer, head)) if when == "after" else None, "bpt_on": found.get("bpt_on") if when == "after" else None}
        for when in ("before", "after") for layer, head, value in _heads(found["half_lives"].get(when) or [])
    ]
    data = pd.DataFrame(rows, columns=HALF_LIFE_COLUMNS)
    data["cost"] = data["bpt_off"].astype(float) - data["bpt_on"].astype(float)
    shown = []
    for layer, part in data.groupby("layer"):
        before, after = (part[part["when"] == when] for when in ("before", "after"))
        worst = after.dropna(subset="cost").sort_values("cost").iloc[-1] if after["cost"].notna().any() else None
        shown.append([f"{layer}", f"{len(after)}", _range(before), _range(after), formats.ABSENT if worst is None else
                      f"head {worst['head']:.0f} ({formats.significant(worst['half_life_tokens'])} tokens): {worst['cost']:+.3f} bpt"])
    return Table(
        data.drop(columns="cost"),
        ["Layer", "Heads", "Half-lives before: shortest to longest, tokens", "after", "Costliest head to switch off"], shown,
        f"All heads, and the loss with single heads switched off; {_about(found)}.",
        ["Published: learned half-lives from 2 to 2048 tokens."],
    )


def _heads(values: list[Any]) -> Iterator[tuple[int, int, float]]:
    """(layer, head, value) of a list of layers."""
    for layer, heads in enumerate(values):
        for head, value in enumerate(heads):
            yield layer, head, float(value)


def _range(part: pd.DataFrame) -> str:
    values = part["half_life_tokens"]
    return f"{formats.significant(values.min())} to {formats.significant(values.max())}" if len(values) else formats.ABSENT


def build_spectrum(name: str, results: Results) -> Table:
    """CSV: magnitude by frequency; text: the resonance of each head."""
    found = results.diagnostics()
    if not found or not found.get("spectrum"):
        return not_measured(_needs(results), SPECTRUM_COLUMNS)
    rows = []
    for item in found["spectrum"]:
        for row in _series(item, ("omega", "magnitude")):
            rows.append(row | {"period_tokens": 2 * math.pi / row["omega"] if row["omega"] > 0 else None, "peak_omega": item["peak_omega"]})
    data = pd.DataFrame(rows, columns=SPECTRUM_COLUMNS)
    shown = []
    for (layer, head), part in data.groupby(["layer", "head"]):
        peak = float(part["peak_omega"].iloc[0])
        shown.append([f"{layer}", f"{head}", formats.significant(peak), formats.significant(2 * np.pi / peak if peak > 0 else None),
                      formats.significant(part["magnitude"].max())])
    return Table(
        data, ["Layer", "Head", "Resonance, rad per token", "Period, tokens", "Largest magnitude"], shown,
        f"Magnitude by frequency, and the resonance of each head; {_about(found)}.",
        ["A dash as period: the head is a low-pass without an oscillation."],
    )


def build_energy(name: str, results: Results) -> Table:
    """CSV: a row a head (variance out over in, standard error, |lambda|) and a row a point of training (largest |lambda|)."""
    found = results.diagnostics()
    if not found or not found["energy"].get("heads"):
        return not_measured(_needs(results), ENERGY_COLUMNS)
    heads = pd.DataFrame([
        {"layer": row["layer"], "head": row["head"], "white": row["white"], "modulus": row["modulus"],
         "error": row["white"] * math.sqrt(2 / row["samples"])} for row in found["energy"]["heads"]])
    steps = pd.DataFrame([{"step": point["step"], "modulus": point["max_modulus"]} for point in found["energy"]["curve"]])
    shown = [
        [f"{layer}", f"{len(part)}", f"{part['white'].min():.3f} to {part['white'].max():.3f}", f"{part['error'].max():.3f}",
         _tokens(part["modulus"].max())] for layer, part in heads.groupby("layer")]
    largest = max(steps["modulus"].max() if len(steps) else 0.0, heads["modulus"].max())
    return Table(
        pd.concat([heads, steps], ignore_index=True).reindex(columns=ENERGY_COLUMNS),
        ["Layer", "Heads", "Variance of white input, out / in", "Standard error", "Slowest head: half-life, tokens"], shown,
        f"White noise through every head alone, at the last of 16,384 tokens; {_about(found)}.",
        [f"Largest |λ| of any head at any of {int(steps['step'].max()) if len(steps) else 0} training steps: 1 − {1 - largest:.2g}"
         f" (half-life {_tokens(largest)} tokens). {'No head grows.' if largest < 1 else 'A head grows: this model is unstable.'}"],
    )


def _tokens(modulus: float) -> str:
    """The half-life of |lambda|, in tokens."""
    return formats.significant(math.log(2) / -math.log(modulus)) if 0 < modulus < 1 else "∞"
