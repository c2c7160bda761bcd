"""Sentences of captions: what was measured on what, how often, and what stands in for what the paper used."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

from overtone.reporting.formats import count, length
from overtone.reporting.rows import each
from overtone.reporting.tables.published import SETTINGS
from overtone.study import Study, experiment_cells
from overtone.study.cells import rate_owner


def listed(items: Iterable[object]) -> str:
    """a, b and c."""
    words = [str(item) for item in items]
    return " and ".join(part for part in (", ".join(words[:-1]), *words[-1:]) if part)


def span(values: Iterable[float], unit: str) -> str:
    """`3 seeds`, `2 to 5 seeds`, `1 seed`."""
    known = sorted({int(value) for value in values if not pd.isna(value) and value > 0})
    if not known:
        return f"no {unit}s"
    few = f"{known[0]}" if known[0] == known[-1] else f"{known[0]} to {known[-1]}"
    return f"{few} {unit}{'' if known == [1] else 's'}"


def setting(cells: pd.DataFrame, scored: pd.DataFrame) -> str:
    """`enwiki-mini, bytes; 0.15M parameters; 3 seeds, 57 blocks of 2048 tokens; cpu`."""
    text = listed(f"{corpus} ({tokenizer})" for corpus, tokenizer in
                  each(cells[["corpus", "tokenizer"]].drop_duplicates()))
    smallest, largest = cells["parameters"].min(), cells["parameters"].max()
    sizes = count(smallest) if count(smallest) == count(largest) else f"{count(smallest)} to {count(largest)}"
    block = span([training["evaluation_length"] for training in cells["training"]], "token")
    seeds = span(scored["seeds"], "seed")
    blocks = span(scored["blocks"], "block")
    devices = listed(sorted({device for device in cells["device"] if device}))
    return f"{text}, {sizes} parameters, {seeds}, {blocks} of {block} of the test region, {devices}"


def tuning(study: Study, cells: pd.DataFrame) -> list[str]:
    """Where the rates of these cells were chosen. Cells of other lengths and tokenizers train at the same rate."""
    return [f"Protocol {protocol}: learning rates were chosen at {length(sweep['length'])} tokens a window with {sweep['tokenizer']}; no "
            "interval covers that choice." for protocol, sweep in sorted(study.lr_sweep.items()) if protocol in set(cells["protocol"])]


def inherited(study: Study, cells: pd.DataFrame) -> list[str]:
    """Which architectures train at a rate that was swept for another one."""
    swept = cells[[training["lr"] == "swept" for training in cells["training"]]]
    owners = {name: rate_owner(study, name) for name in dict.fromkeys(swept["architecture"])}
    borrowed = sorted({owner for name, owner in owners.items() if owner != name})
    return [f"An ablation trains at the rate swept for {listed(borrowed)}; its own best rate was not looked for."] if borrowed else []


def machine(environment: Mapping[str, Any]) -> str:
    """`cpu (AMD EPYC, threads: 1)`: where a benchmark ran."""
    return (f"{environment.get('device', 'an unnamed device')} ({environment.get('processor', 'unknown processor')}, threads: "
            f"{environment.get('threads')})")


def substitution(name: str, cells: pd.DataFrame) -> list[str]:
    """A note where corpus or tokenizer are not the paper's."""
    corpora, tokenizers, words = SETTINGS[name]
    if set(cells["corpus"]) <= corpora and set(cells["tokenizer"]) <= tokenizers:
        return []
    own = listed(f"{corpus} with {tokenizer}" for corpus, tokenizer in
                 each(cells[["corpus", "tokenizer"]].drop_duplicates()))
    return [f"The paper used {words}. Measured here instead: {own}, {count(cells['parameters'].max())} parameters at most; "
            "bits per token of different tokenizers cannot be compared, the direction and growth of a gap can."]


def failures(scored: pd.DataFrame) -> list[str]:
    """A note for each group with cells that did not end ok."""
    notes = []
    for row in each(scored):
        lost = row.seeds_run - row.seeds
        if lost:
            why = f": {row.failure}" if row.failure else ""
            notes.append(f"{row.architecture} at {row.length} ({row.size}): {lost} of {row.seeds_run} cells ended without a "
                         f"result{why}.")
    return notes


def single_seed(scored: pd.DataFrame) -> list[str]:
    """A note where groups have one seed: what their intervals do not cover."""
    if (scored["seeds"] == 1).any():
        return ["Where one seed ended ok the interval covers other text of the kind, not other seeds."]
    return []


def missing_experiment(study: Study, *names: str) -> str:
    """What it would take to measure an experiment that the study lacks."""
    own = [name for name in names if not experiment_cells(study, name)]
    return (f"study {study.name} has no experiment {listed(own)}; add it to its experiments, or run a "
            "study that has it (mini, paper).")
