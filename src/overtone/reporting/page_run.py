"""How a study was run, as the page tells it: cells with their config, plan and commit, machine, packages, time."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from overtone.audits.results import FinishedCell, finished_cells
from overtone.files import canonical_json
from overtone.reporting import formats
from overtone.reporting.collect import SPLIT, STATUSES
from overtone.study import Study, study_cells


@dataclass(frozen=True)
class CellRow:
    """One cell. `anchor` is its id on the page, `link` its metrics file relative to the page."""

    anchor: str
    key: str
    link: str
    status: str
    parameters: str
    tokens: str
    score: str
    config_hash: str
    plan: str
    commit: str
    wall: str
    config: str
    metrics: Mapping[str, Any]


def cell_rows(study: Study, results: Path, page: Path) -> dict[str, CellRow]:
    """cells/KEY/metrics.json -> row, for every cell that has been measured, sorted by key."""
    found = finished_cells(study, results)[0] if study_cells(study) else []
    return {
        f"cells/{item.cell.key}/metrics.json": _row(item, os.path.relpath(item.folder / "metrics.json", page.parent)) for item in found
    }


def _row(item: FinishedCell, link: str) -> CellRow:
    metrics = item.metrics
    score = metrics["evaluation"].get(SPLIT, {}).get("bpt")
    return CellRow(
        anchor=f"cell-{metrics['hash']}", key=item.cell.key, link=link, status=metrics["status"],
        parameters=formats.count(metrics["parameters"]["total"]), tokens=formats.count(metrics["tokens_seen"]),
        score=formats.number(score, 3), config_hash=metrics["hash"], plan=str((metrics.get("plan") or {}).get("digest") or ""),
        commit=str(metrics["environment"].get("commit", "unknown")), wall=formats.duration(metrics["measured"].get("wall_s")),
        config=canonical_json(metrics["config"]), metrics=metrics,
    )


@dataclass(frozen=True)
class Run:
    """The study as it was run, in words."""

    facts: Sequence[tuple[str, str]]
    packages: Sequence[tuple[str, str]]
    jobs: Sequence[tuple[str, str, str]]  # stage, jobs, summed time


def describe_run(study: Study, logs: Path, rows: Sequence[CellRow]) -> Run:
    """From the cells' environments and Snakemake's benchmark files under results/STUDY/logs."""
    metrics = [row.metrics for row in rows]
    environments = [item["environment"] for item in metrics]
    statuses = Counter(item["status"] for item in metrics)
    facts = [
        ("Study", study.name),
        ("Cells", ", ".join(f"{statuses[status]} {status}" for status in STATUSES if statuses[status]) or "none"),
        ("Tokens trained on", formats.count(sum(item["tokens_seen"] or 0 for item in metrics))),
        ("Training and evaluation of all cells", formats.duration(sum(item["measured"].get("wall_s") or 0 for item in metrics))),
        ("Commit of the workflow", several(environments, "commit")),
        ("Device", several(environments, "device")),
        ("Processor", several(environments, "processor")),
        ("Cores, threads a cell", f"{several(environments, 'cores')}, {several(environments, 'threads')}"),
        ("System", several(environments, "system")),
        ("Python", several(environments, "python")),
        ("Overtone", several(environments, "overtone")),
    ]
    names = sorted({name for environment in environments for name in environment.get("packages", {})})
    packages = [(name, several([environment.get("packages", {}) for environment in environments], name)) for name in names]
    jobs = _jobs(logs)
    if jobs:
        first, last = min(job.end - job.seconds for job in jobs), max(job.end for job in jobs)
        facts.insert(4, ("From the first job's start to the last one's end", formats.duration(last - first)))
    return Run(facts, packages, _by_stage(jobs))


def several(mappings: Sequence[Mapping[str, Any]], key: str) -> str:
    """Every value that the mappings have under a key, sorted; `unknown` for none."""
    found = sorted({str(mapping[key]) for mapping in mappings if mapping.get(key) is not None})
    return ", ".join(found) or "unknown"


@dataclass(frozen=True)
class Job:
    """One finished job: its stage, how long it took, and when its benchmark file was written (seconds since 1970)."""

    stage: str
    seconds: float
    end: float


def _jobs(logs: Path) -> list[Job]:
    """From Snakemake's benchmark files under results/STUDY/logs."""
    found = []
    for path in sorted(logs.rglob("*.tsv")):
        lines = path.read_text(encoding="utf-8").splitlines()
        if len(lines) >= 2 and lines[0].startswith("s\t"):
            stage = path.relative_to(logs).parts[0].removesuffix(".tsv")
            found.append(Job(stage, float(lines[1].split("\t")[0]), path.stat().st_mtime))
    return found


def _by_stage(jobs: Sequence[Job]) -> list[tuple[str, str, str]]:
    """(stage, jobs, summed time); jobs run side by side, so the sums exceed the clock."""
    seconds: dict[str, list[float]] = {}
    for job in jobs:
        seconds.setdefault(job.stage, []).append(job.seconds)
    return [(stage, str(len(values)), formats.duration(sum(values))) for stage, values in sorted(seconds.items())]
