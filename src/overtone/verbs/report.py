"""Render the whole report from finished measurements: tables, figures, verdicts, page, crate. The same files as the workflow's last rules.

    overtone report --study results/mini/study.json --results results/mini --out reports/mini

For results without their workflow, and for who changes many tables at once: one process a core, instead of one a table and a figure.
Nothing is skipped; `snakemake` renders only what changed.
"""

from __future__ import annotations

import argparse
import os
import signal
from pathlib import Path
from types import FrameType
from typing import NoReturn


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of `overtone report`."""
    parser.add_argument("--study", required=True, metavar="FILE", help="results/STUDY/study.json")
    parser.add_argument("--results", required=True, metavar="DIR", help="results/STUDY")
    parser.add_argument("--out", required=True, metavar="DIR", help="reports/STUDY")
    parser.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)), metavar="N",
                        help="at most (default: one a core that this process may use)")


def run(args: argparse.Namespace) -> int:
    """Verdicts beside the tables that do not show them, then those that do, then page and crate."""
    from concurrent.futures import ProcessPoolExecutor
    from concurrent.futures.process import BrokenProcessPool

    from overtone.errors import UserError
    from overtone.study import EXHIBITS
    from overtone.verbs import claims, crate, page

    if args.processes < 1:
        raise UserError(f"--processes: {args.processes} found, at least 1 expected.")
    if not args.out:
        raise UserError("--out: empty. Name the folder of the report.")
    out = Path(args.out)

    def words(name: str) -> argparse.Namespace:
        return argparse.Namespace(study=args.study, results=args.results, reports=args.out, out=str(out / name))

    before = signal.signal(signal.SIGTERM, _leave)
    pool = ProcessPoolExecutor(args.processes, initializer=_begin)
    try:
        decided = pool.submit(claims.run, words("claims.json"))
        early = [name for name, item in EXHIBITS.items() if not item.claims]
        jobs = [pool.submit(render_exhibit, name, args.study, args.results, out) for name in early]
        decided.result()
        jobs += [pool.submit(render_exhibit, name, args.study, args.results, out) for name in EXHIBITS if name not in early]
        for job in jobs:
            job.result()
    except BrokenProcessPool:
        raise UserError(f"{out}: a process that rendered was killed (out of memory?). Run it again, with fewer --processes.") from None
    finally:
        pool.shutdown(cancel_futures=True)  # after a mistake nothing more is begun
        signal.signal(signal.SIGTERM, before)
    page.run(words("index.html"))
    crate.run(words("crate"))
    print(out / "index.html")
    return 0


def _leave(signum: int, frame: FrameType | None) -> NoReturn:
    raise SystemExit(128 + signum)  # through every `finally`: nothing half-written stays


def _begin() -> None:
    """A process ends when it is told to, and when nobody waits for it any more."""
    from overtone.training.interrupt import stop_with_parents

    signal.signal(signal.SIGTERM, _leave)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent's to tell
    stop_with_parents()


def render_exhibit(name: str, study: str, results: str, out: Path) -> None:
    """One table, and its figure."""
    from overtone.study import EXHIBITS
    from overtone.verbs import figure, table

    table.run(argparse.Namespace(name=name, study=study, results=results, claims=out / "claims.json", out=out / "tables"))
    if EXHIBITS[name].figure:
        figure.run(argparse.Namespace(name=name, tables=out / "tables", out=out / "figures"))
