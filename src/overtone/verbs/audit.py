"""Check what a result could otherwise get away with: causality, entropy, budget, timing, baseline.

causality  no logit may change when later tokens do, in the parallel mode, in prefill and step by step
entropy    on uniformly random tokens no causal model averages below log2(V) bits a token
budget     every architecture of a study saw the same tokens in the same order
timing     throughputs are synchronised and below the device's peak
baseline   the Transformer is the strong one and was tuned like the others

With --study and --results every model or measurement of a study is audited, its leaky control included. With --hf PATH causality
and entropy take any Hugging Face causal language model: a folder, or a GGUF file. Prints a table, writes JSON with --out, exits 1
on a violation (0 with --report-only).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from overtone.audits.report import AuditReport, Row
from overtone.audits.settings import AUDITS, audit_settings
from overtone.errors import UserError
from overtone.files import write_json
from overtone.study import Study, load_study
from overtone.study.measurements import MODEL_AUDITS
from overtone.training.devices import usable


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What is audited and where the report goes."""
    parser.add_argument("audit", choices=AUDITS, metavar="NAME", help=", ".join(AUDITS))
    parser.add_argument("--study", type=Path, help="results/STUDY/study.json, or a study's name")
    parser.add_argument("--results", type=Path, help="results/STUDY")
    parser.add_argument("--hf", metavar="PATH", help="a Hugging Face model folder or a GGUF file, in place of a study")
    parser.add_argument("--out", type=Path, help="JSON file to write")
    parser.add_argument("--report-only", action="store_true", help="exit 0 even where something is violated")
    parser.add_argument("--seed", type=int, help="of the random tokens and cuts (default: 0)")
    parser.add_argument("--length", type=int, help="tokens a window (default: 160 for causality, 256 for entropy)")
    parser.add_argument("--device", default="cpu", help="where a model runs (default: cpu)")
    parser.add_argument("--dtype", default="", choices=["", "float64", "float32", "bfloat16", "float16"],
                        help="weights (default: float64 for models of this package, float32 for others)")
    parser.add_argument("--trust-remote-code", action="store_true", help="run code that comes with the model of --hf")


def run(args: argparse.Namespace) -> int:
    """Audit, print, write, judge."""
    if args.audit in MODEL_AUDITS:
        usable(args.device)
    report = audit_hf(args) if args.hf else audit_study(args)
    if not report.rows:
        raise UserError(f"audit {args.audit}: nothing to audit. {' '.join(report.notes)}".strip())
    print(report.table())
    if args.out:
        write_json(args.out, report.to_dict())
    return int(report.violations > 0 and not args.report_only)


def audit_hf(args: argparse.Namespace) -> AuditReport:
    """Causality or entropy of one model of anybody's."""
    from overtone.audits.subjects import open_subject

    if args.audit not in MODEL_AUDITS:
        raise UserError(
            f"audit {args.audit} --hf: a model alone has no {args.audit} to audit. --hf goes with {' and '.join(MODEL_AUDITS)}."
        )
    if args.study or args.results:
        raise UserError("audit: give either --hf or --study and --results.")
    subject = open_subject(args.hf, dtype=args.dtype, device=args.device, trust_remote_code=args.trust_remote_code)
    check, settings = _model_audit(args, {})
    return AuditReport(args.audit, check(subject, **settings), [], settings, args.device)


def audit_study(args: argparse.Namespace) -> AuditReport:
    """One audit of everything a study has."""
    from overtone.audits.results import checkpoints, finished_cells

    if not args.study or not args.results:
        raise UserError(f"audit {args.audit}: give --study results/STUDY/study.json and --results results/STUDY"
                        + (", or --hf PATH." if args.audit in MODEL_AUDITS else "."))
    study = load_study(args.study)
    given = dict(study.audits.get(args.audit) or {})
    if args.audit in MODEL_AUDITS:
        found, notes = checkpoints(study, args.results)
        check, settings = _model_audit(args, given)
        return AuditReport(args.audit, list(_models(args, found, check, settings)), notes, settings, args.device)
    cells, notes = finished_cells(study, args.results)
    rows, remarks, settings = _measurements(args.audit, study, cells, args.results, given)
    return AuditReport(args.audit, rows, notes + remarks, settings)


def _models(args: argparse.Namespace, found: Iterable[Any], check: Callable[..., list[Row]], settings: dict[str, Any]) -> Iterable[Row]:
    import torch

    from overtone.audits.subjects import open_subject

    torch.set_num_threads(1)
    for item in found:
        subject = open_subject(item.folder, name=item.subject, dtype=args.dtype, device=args.device, control=item.control)
        yield from check(subject, **settings)


def _model_audit(args: argparse.Namespace, given: dict[str, Any]) -> tuple[Callable[..., list[Row]], dict[str, Any]]:
    """The audit's function and its settings: defaults, over them the study's, over them the flags."""
    flags = {key: getattr(args, key) for key in ("seed", "length") if getattr(args, key) is not None}
    return AUDITS[args.audit], audit_settings(args.audit, given | flags)


def _measurements(
    audit: str, study: Study, cells: list[Any], results: Path, given: dict[str, Any]
) -> tuple[list[Row], list[str], dict[str, Any]]:
    settings = audit_settings(audit, given)
    found = {"budget": (cells,), "timing": (cells, results), "baseline": (study, cells, results)}[audit]
    return *AUDITS[audit](*found, **settings), settings
