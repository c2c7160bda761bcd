"""What became of an experiment: one small file that stands for the results of all its cells.

Tables, audits and claims depend on it instead of on each cell, so that a plan of N cells and T tables has N + T edges, not N * T.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from pathlib import Path
from typing import Any

from overtone.errors import unknown_name
from overtone.files import sha256_file
from overtone.study.cells import experiment_cells
from overtone.study.load import Study
from overtone.study.schema import read_metrics


def outcome(study: Study, name: str, results: Path) -> dict[str, Any]:
    """`{experiment, cells, status {ok, oom, diverged: how many cells}, digest}` of the experiment `name` under results/STUDY.

    `digest` is the sha256 of the lines `sha256(metrics.json)  KEY`, sorted by key: another byte in any cell is another digest.
    UserError for an unknown experiment and for a missing or damaged metrics.json.
    """
    if name not in study.experiments:
        raise unknown_name(f"{study.name}: experiment", name, study.experiments)
    keys = sorted(cell.key for cell in experiment_cells(study, name))
    statuses: Counter[str] = Counter()
    hasher = hashlib.sha256()
    for key in keys:
        path = results / "cells" / key / "metrics.json"
        statuses[read_metrics(path)["status"]] += 1
        hasher.update(f"{sha256_file(path)}  {key}\n".encode())
    return {"experiment": name, "cells": len(keys), "status": dict(sorted(statuses.items())), "digest": hasher.hexdigest()}
