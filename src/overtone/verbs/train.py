"""Train and evaluate one cell; writes metrics.json last and the weights (model/) beside it before.

The cell resumes from its last checkpoint under STATE/HASH. On SIGTERM and SIGINT the step is finished, a
checkpoint written, and the exit code is 143 or 130. Out of memory and divergence are results: metrics.json tells them, the code is 0.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

from overtone.errors import UserError
from overtone.files import read_json
from overtone.provenance import PACKAGE


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `overtone train`."""
    parser.add_argument(
        "--cell", required=True, metavar="JSON", help="the cell's configuration, or a file that holds it"
    )
    parser.add_argument(
        "--tokens", required=True, metavar="DIR", help="folder of train, validation and test token files"
    )
    parser.add_argument("--state", required=True, metavar="DIR", help="where checkpoints lie; removed on success")
    parser.add_argument("--out", required=True, metavar="FILE", help="metrics.json to write")
    parser.add_argument(
        "--rate-file", metavar="FILE", help="chosen.json of the sweep, where the learning rate is swept"
    )
    parser.add_argument(
        "--device", default="cpu", choices=("cpu", "cuda", "auto"), help="where to train (default: cpu)"
    )
    parser.add_argument(
        "--gpus", type=int, default=1, metavar="N", help="data-parallel processes, one GPU each (0 or 1: none)"
    )
    parser.add_argument(
        "--evaluate",
        nargs="+",
        default=["validation", "test"],
        choices=("validation", "test"),
        metavar="SPLIT",
        help="splits to read after training (default: both; a trial of a sweep reads validation alone)",
    )
    parser.add_argument("--tensorboard", metavar="DIR", help="also write TensorBoard events there")


def run(args: argparse.Namespace) -> int:
    """Train, or start one process a GPU that does."""
    if args.gpus < 0:
        raise UserError(f"--gpus: {args.gpus} found, at least 0 expected.")
    if args.gpus > 1 and "LOCAL_RANK" not in os.environ:
        return start_ranks(args.gpus)
    from overtone.training.interrupt import Interrupted, stop_on_signals, stop_with_parents

    with stop_on_signals() as stop:
        watch = stop_with_parents()
        try:
            cell = read_cell(args.cell)
            rate = chosen_rate(args.rate_file) if args.rate_file else None
            from overtone.ops.allocator import keep_freed_memory
            from overtone.training.cell import train_cell

            if cell.config()["training"].get("memory_limit_gb") is None:
                keep_freed_memory()
            stop.check()
            train_cell(
                cell,
                args.tokens,
                args.out,
                args.state,
                rate=rate,
                device=args.device,
                stop=stop,
                tensorboard=Path(args.tensorboard) if args.tensorboard else None,
                evaluated=list(dict.fromkeys(args.evaluate)),
            )
        except Interrupted as error:
            print(f"overtone train: {error}; run the same command to go on", file=sys.stderr)
            return error.exit_code
        finally:
            if watch is not None:
                watch.set()
    return 0


def start_ranks(count: int) -> int:
    """Replace this process by torchrun, which starts `count` of them and passes signals on."""
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node",
        str(count),
        "-m",
        "overtone.cli",
        *sys.argv[1:],
    ]
    # The ranks import these very sources, installed or not.
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(PACKAGE.parent), os.environ.get("PYTHONPATH")]))
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, command)


def read_cell(text: str) -> Any:
    """The cell in JSON text or in a file."""
    from overtone.study import Cell

    if not text.lstrip().startswith("{"):
        return Cell.from_config(read_json(text))
    try:
        return Cell.from_config(json.loads(text))
    except ValueError as error:
        raise UserError(f"--cell: not valid JSON ({error}). Expected the output of Cell.config().") from None


def chosen_rate(path: str) -> float:
    """The rate that a sweep chose."""
    chosen = read_json(path)
    try:
        return float(chosen["chosen"])
    except (KeyError, TypeError, ValueError):
        raise UserError(
            f"{path}: holds no rate under 'chosen'. Delete it and run `overtone choose-rate` again."
        ) from None
