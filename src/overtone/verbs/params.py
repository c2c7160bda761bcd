"""Count an architecture's parameters by part, before anything is trained.

Example: overtone params --arch harmonic --hidden 256 --vocab 50257 --option tied=true
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from typing import Any

import yaml

from overtone.errors import UserError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Architecture, size, options."""
    parser.add_argument("--arch", required=True, metavar="NAME", help="a registered architecture")
    parser.add_argument("--hidden", required=True, type=int, metavar="D", help="hidden size d")
    parser.add_argument("--vocab", required=True, type=int, metavar="V", help="vocabulary size")
    parser.add_argument("--option", action="append", default=[], metavar="KEY=VALUE", help="an option of the architecture; may be repeated")
    parser.add_argument("--match", metavar="NAME", help="size it to this architecture's parameter count at D, as a study's match does")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    """Build on the meta device, count, print."""
    import torch

    from overtone.models import build_model, matched_dimensions, parameter_counts

    hidden, options = args.hidden, parse_options(args.option)
    if args.match is not None:
        hidden, options = matched_dimensions(args.arch, reference=args.match, vocab_size=args.vocab, hidden=hidden, options=options)
    try:
        with torch.device("meta"):
            model = build_model(args.arch, vocab_size=args.vocab, hidden=hidden, **options)
    except RuntimeError as error:
        raise UserError(f"--hidden {hidden}, --vocab {args.vocab}: no such model can be built ({str(error).splitlines()[0]}).") from None
    counts = parameter_counts(model)
    if args.json:
        print(json.dumps({"architecture": args.arch, "config": model.config.to_dict()} | counts, indent=1))
        return 0
    rows = [*counts["parts"].items(), ("body", counts["body"]), ("embedding", counts["embedding"]), ("total", counts["total"])]
    width, digits = max(len(name) for name, _ in rows), len(f"{counts['total']:,}")
    if args.match is not None:
        print(", ".join(f"{key} {value}" for key, value in {"hidden": hidden, **options}.items()))
    for name, count in rows:
        if name == "body":
            print("-" * (width + 2 + digits))
        print(f"{name:<{width}}  {count:>{digits},}")
    return 0


def parse_options(words: Sequence[str]) -> dict[str, Any]:
    """KEY=VALUE words as a mapping; a value is read as YAML: true, 4, 0.5, [4, 32, 128], sdpa."""
    options = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not key or not equals:
            raise UserError(f"--option: {word!r} found, KEY=VALUE expected, such as tied=true.")
        try:
            options[key] = yaml.safe_load(value)
        except yaml.YAMLError:
            raise UserError(f"--option {key}: {value!r} is not a value. Write true, 4, 0.5 or [4, 32, 128].") from None
    return options
