"""Replace attention in a pretrained Llama, in three steps.

  base      fetch or convert the Llama to start from: base/ and base.json
  train     one phase of one variant: model/ and phaseN.json
  evaluate  base, base with RoPE scaling and all variants side by side: evaluation.json
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from overtone.transplant.config import TransplantConfig


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The verb's options."""
    parser.add_argument("step", choices=("base", "train", "evaluate"))
    parser.add_argument("--study", required=True, help="results/STUDY/study.json, or a study file")
    parser.add_argument("--results", required=True, type=Path, help="results/STUDY")
    parser.add_argument("--name", required=True, help="the transplant's name in the study")
    parser.add_argument("--variant", help="train: the variant")
    parser.add_argument("--phase", type=int, choices=(1, 2), help="train: the phase")
    parser.add_argument("--out", required=True, type=Path, help="the JSON to write; models go beside it")


def run(args: argparse.Namespace) -> int:
    """Run one step."""
    from overtone.errors import UserError
    from overtone.study import load_study
    from overtone.transplant.config import load_transplant

    config = load_transplant(load_study(args.study), args.name)
    if args.step == "train" and (args.variant is None or args.phase is None):
        raise UserError("overtone transplant train: needs --variant and --phase. Add them.")
    return STEPS[args.step](config, args)


def _base(config: TransplantConfig, args: argparse.Namespace) -> int:
    from overtone.files import write_json
    from overtone.transplant.base import make_base

    write_json(args.out, make_base(config, args.results, _log))
    return 0


def _train(config: TransplantConfig, args: argparse.Namespace) -> int:
    from overtone.training.interrupt import Interrupted, stop_on_signals, stop_with_parents
    from overtone.transplant.train import train_phase

    with stop_on_signals() as stop:
        watch = stop_with_parents()
        try:
            train_phase(config, args.results, config.variant(args.variant), args.phase, args.out, stop, _log)
        except Interrupted as stopped:
            _log(f"overtone transplant train: {stopped}; run the same command to go on")
            return stopped.exit_code
        finally:
            if watch is not None:
                watch.set()
    return 0


def _evaluate(config: TransplantConfig, args: argparse.Namespace) -> int:
    from overtone.files import write_json
    from overtone.transplant.evaluate import evaluate

    write_json(args.out, evaluate(config, args.results, _log))
    return 0


STEPS = {"base": _base, "train": _train, "evaluate": _evaluate}


def _log(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
