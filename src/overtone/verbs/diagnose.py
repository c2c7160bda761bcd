"""Measure a trained ResonatorLM: impulse responses, half-lives, spectra, head by head loss, energy, causality.

Takes the first cell (by seed) of the study's experiment `quality` whose architecture is a resonator and that ended ok.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from overtone.errors import UserError
from overtone.files import read_json, write_json
from overtone.provenance import environment
from overtone.study import Cell, Study, diagnosed_cells, load_study


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Study, results, output; how many tokens the ablation of heads reads."""
    parser.add_argument("--study", type=Path, required=True, help="results/STUDY/study.json, or a study's name")
    parser.add_argument("--results", type=Path, required=True, help="results/STUDY")
    parser.add_argument("--out", type=Path, required=True, help="JSON file to write")
    parser.add_argument("--tokens", type=int, default=8192, help="validation tokens for the loss by head (default: 8192)")


def run(args: argparse.Namespace) -> int:
    """Diagnose and write."""
    cell, metrics = trained_resonator(load_study(args.study), args.results)
    write_json(args.out, diagnose(cell, metrics, args.results, args.tokens))
    return 0


def trained_resonator(study: Study, results: Path) -> tuple[Cell, Mapping[str, Any]]:
    """The cell to diagnose and its metrics; UserError where the study has none that ended ok."""
    wanted = sorted(diagnosed_cells(study), key=lambda cell: cell.seed)
    if not wanted:
        raise UserError(f"study {study.name}: its experiment 'quality' has no resonator. Add the architecture resonator to it.")
    for cell in wanted:
        metrics = read_json(results / "cells" / cell.key / "metrics.json")
        if metrics["status"] == "ok":
            return cell, metrics
    raise UserError(f"study {study.name}: none of its {len(wanted)} resonator cells ended ok. See their metrics.json.")


def diagnose(cell: Cell, metrics: Mapping[str, Any], results: Path, tokens: int) -> dict[str, Any]:
    """The content of diagnostics/resonator.json."""
    import numpy as np
    import torch

    from overtone.audits.causality import audit_causality
    from overtone.audits.subjects import own_subject
    from overtone.benchmarks import resonator
    from overtone.corpora.tokenfile import TokenFile
    from overtone.models import load_checkpoint

    torch.set_num_threads(1)
    model: Any = load_checkpoint(results / "cells" / cell.key / "model").eval()
    file = TokenFile.open(results / "tokens" / cell.corpus / cell.tokenizer / "validation.json")
    length = min(cell.length, len(file.ids) - 1)
    if tokens < 1:
        raise UserError(f"--tokens: {tokens} found, at least 1 expected.")
    count = max(1, min(tokens, len(file.ids) - 1) // length)
    starts = np.linspace(0, len(file.ids) - 1 - length, count).astype(np.int64)
    windows = torch.from_numpy(np.stack([file.ids[start : start + length + 1] for start in starts]).astype(np.int64))
    bpt_on, head_loss = resonator.head_losses(model, windows[:, :-1], windows[:, 1:])
    before, after = metrics["diagnostics"]["before"], metrics["diagnostics"]["after"]
    energy = {
        "heads": resonator.energy_rows(model),
        "max_modulus": {"before": before["max_modulus"], "after": after["max_modulus"]},
        "curve": [{"step": point["step"], "max_modulus": point["max_modulus"]} for point in metrics["curve"]],
    }
    impulse, spectrum = resonator.impulse_rows(model), resonator.spectrum_rows(model)
    causality = audit_causality(own_subject(cell.key, model))
    return {
        "key": cell.key,
        "impulse": impulse,
        "half_lives": {"before": before["half_life"], "after": after["half_life"]},
        "spectrum": spectrum,
        "head_loss": head_loss,
        "bpt_on": bpt_on,
        "windows": {"count": count, "length": length},
        "energy": energy,
        "causality": [{"mode": row.mode, "measure": row.measure, "threshold": row.threshold, "passed": row.passed} for row in causality],
        "environment": environment("cpu", 1),
    }
