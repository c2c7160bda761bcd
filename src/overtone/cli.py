"""`overtone`: one verb a stage. A verb's module is imported only when the verb is called.

A verb lives in `overtone.verbs.<name>` and has `add_arguments(parser)` and `run(args) -> int`.
Exit codes: 0 done; 1 an audit found a violation; 2 a user error, told in one line; 130/143 interrupted.
"""

from __future__ import annotations

import argparse
import importlib
import signal
import sys
from collections.abc import Sequence

from overtone import __version__
from overtone.errors import UserError, unknown_name

VERBS: dict[str, str] = {
    "fetch": "download a corpus archive and verify its digest",
    "extract": "turn an archive into documents",
    "split": "assign documents to train, validation and test",
    "tokenizer": "fit a tokenizer on the training documents",
    "tokenize": "write memory-mapped token files",
    "preflight": "check that the study's devices, space and packages are here",
    "train": "train and evaluate one cell",
    "choose-rate": "pick an architecture's learning rate from its sweep",
    "transplant": "replace attention in a pretrained Llama, align, train, evaluate",
    "diagnose": "measure a trained ResonatorLM's kernels, heads and energy",
    "bench": "measure decode, kernel tail, scan, memory or throughput",
    "gather": "note how the cells of an experiment ended",
    "audit": "check causality, entropy floor, budget, timing or baseline",
    "table": "write one table from finished measurements",
    "figure": "draw one figure from its table",
    "claims": "decide every claim",
    "page": "render the report page",
    "crate": "write the run's Workflow Run RO-Crate",
    "report": "render tables, figures, verdicts, page and crate at once",
    "study": "resolve a study and print it as JSON",
    "plan": "print cells, tokens, FLOPs, memory, hours and dollars before anything starts",
    "params": "count an architecture's parameters by part",
    "generate": "continue a prompt with a trained model",
    "verify": "check results against their manifests",
    "compare": "put two runs side by side",
}


def _verb_parser(verb: str) -> tuple[argparse.ArgumentParser, object]:
    module = importlib.import_module(f"overtone.verbs.{verb.replace('-', '_')}")
    parser = argparse.ArgumentParser(prog=f"overtone {verb}", description=module.__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    module.add_arguments(parser)
    return parser, module


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb; returns the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    if not words or words[0] in ("-h", "--help"):
        width = max(map(len, VERBS))
        print("usage: overtone VERB [options]      (overtone VERB --help tells a verb's options)\n")
        print("\n".join(f"  {name:<{width}}  {text}" for name, text in VERBS.items()))
        return 0
    if words[0] == "--version":
        print(f"overtone {__version__}")
        return 0
    try:
        if words[0] not in VERBS:
            raise unknown_name("verb", words[0], VERBS)
        parser, module = _verb_parser(words[0])
        return int(module.run(parser.parse_args(words[1:])) or 0)  # type: ignore[attr-defined]
    except UserError as error:
        print(f"overtone: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        return 0
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


if __name__ == "__main__":
    sys.exit(main())
