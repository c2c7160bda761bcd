"""Continue a prompt with a trained model; the text is printed as it comes.

DIR is a cell's folder or its model/ folder, or any causal language model that transformers loads (a transplant's, say).
Example: overtone generate --checkpoint results/mini/cells/.../model --prompt "Anarchism is" --max-tokens 200 --temperature 0.8
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from overtone.errors import UserError
from overtone.files import read_json
from overtone.training.devices import usable

_LONGEST_CHARACTER = 4  # bytes of UTF-8: byte ids that make no text after so many never will


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Model, prompt, sampling."""
    parser.add_argument("--checkpoint", required=True, type=Path, metavar="DIR", help="a saved model")
    parser.add_argument("--prompt", required=True, metavar="TEXT", help="what to continue; - reads it from standard input")
    parser.add_argument("--max-tokens", type=int, default=100, metavar="N", help="tokens to add (default: 100)")
    parser.add_argument("--temperature", type=float, default=0.0, metavar="T",
                        help="0 is greedy (default); 1 draws from the model's distribution")
    parser.add_argument("--top-k", type=int, metavar="K", help="draw among the K likeliest tokens only")
    parser.add_argument("--top-p", type=float, metavar="P", help="draw among the smallest set of tokens with probability P only")
    parser.add_argument("--seed", type=int, default=0, help="of the draws (default: 0)")
    parser.add_argument("--tokens", type=Path, metavar="DIR", help="the study's tokens folder, where the model folder has no tokenizer")
    parser.add_argument("--device", default="cpu", help="cpu (default) or cuda")


def run(args: argparse.Namespace) -> int:
    """Load, generate, print."""
    if args.max_tokens < 1:
        raise UserError(f"--max-tokens: {args.max_tokens} found, at least 1 expected.")
    if not 0 <= args.seed < 2**63:
        raise UserError(f"--seed: {args.seed} found, a whole number from 0 to 2^63 - 1 expected.")
    prompt = sys.stdin.read() if args.prompt == "-" else args.prompt
    folder = args.checkpoint / "model" if (args.checkpoint / "model" / "config.json").is_file() else args.checkpoint
    if not (folder / "config.json").is_file():
        raise UserError(f"--checkpoint {args.checkpoint}: no model folder (config.json). Give a cell's folder or its model/, or a folder "
                        "that transformers wrote.")
    try:
        prompt.encode()
    except UnicodeEncodeError:
        raise UserError("--prompt: not UTF-8. Convert the text first.") from None
    usable(args.device)
    described = read_json(folder / "config.json")
    kind = str(described.get("model_type", "")) if isinstance(described, dict) else ""
    for text in (_ours if kind.startswith("overtone_") else _transformers)(folder, prompt, args):
        sys.stdout.write(text)
        sys.stdout.flush()
    sys.stdout.write("\n")
    return 0


def _ours(folder: Path, prompt: str, args: argparse.Namespace) -> Iterator[str]:
    import torch

    from overtone.models import generate, load_checkpoint

    encode, decode = _tokenizer(folder, args.tokens)
    ids = torch.tensor([encode(prompt)], dtype=torch.long, device=args.device)
    model = load_checkpoint(folder).to(args.device).eval()
    produced = generate(model, ids, args.max_tokens, temperature=args.temperature, top_k=args.top_k, top_p=args.top_p, seed=args.seed)
    yield from stream_text((int(token) for token in produced), decode)


def _tokenizer(folder: Path, tokens: Path | None) -> tuple[Callable[[str], Sequence[int]], Callable[[Sequence[int]], str]]:
    if tokens is not None:
        from overtone.corpora.tokenizers import load_tokenizer

        study = load_tokenizer(tokens)
        return lambda text: study.encode(text).tolist(), study.decode
    if not (folder / "tokenizer.json").is_file():
        raise UserError(f"{folder}: no tokenizer.json beside the model. Name the study's tokens folder with --tokens.")
    from tokenizers import Tokenizer

    from overtone.models.byte_pieces import join_pieces

    try:
        fast = Tokenizer.from_file(str(folder / "tokenizer.json"))
    except Exception as error:  # that library raises nothing narrower
        raise UserError(f"{folder / 'tokenizer.json'}: not a tokenizer ({error}). Train the cell again, or name --tokens.") from None
    if read_json(folder / "tokenizer_config.json").get("tokenizer_class") != "OvertoneTokenizer":
        return lambda text: fast.encode(text).ids, lambda ids: str(fast.decode(list(ids)))
    return lambda text: fast.encode(text).ids, lambda ids: join_pieces(str(fast.id_to_token(token)) for token in ids)


def stream_text(ids: Iterable[int], decode: Callable[[Sequence[int]], str]) -> Iterator[str]:
    """Text as soon as it is whole: ids that end within a character wait for the next one."""
    waiting: list[int] = []
    for token in ids:
        waiting.append(token)
        text = decode(waiting)
        if not text.endswith("\ufffd") or len(waiting) >= _LONGEST_CHARACTER:
            yield text
            waiting = []
    if waiting:
        yield decode(waiting)


def _transformers(folder: Path, prompt: str, args: argparse.Namespace) -> Iterator[str]:
    from threading import Thread

    import torch
    from safetensors import SafetensorError
    from transformers import AutoModelForCausalLM, AutoTokenizer, TextIteratorStreamer

    from overtone.models.generation import check_sampling

    check_sampling(args.temperature, args.top_k, args.top_p)
    if args.tokens is not None:
        raise UserError("--tokens: is for models trained here; this one has its own tokenizer. Leave it out.")
    try:
        model = AutoModelForCausalLM.from_pretrained(folder, local_files_only=True, use_safetensors=True).to(args.device).eval()
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    except (OSError, ValueError, SafetensorError) as error:
        raise UserError(f"{folder}: transformers cannot load it ({' '.join(str(error).split())[:200]}). Save the model again.") from error
    inputs = tokenizer(prompt, return_tensors="pt").to(args.device)
    if not inputs["input_ids"].shape[1]:
        raise UserError("--prompt: no token in it. Give at least one word.")
    sampling: dict[str, Any] = {"do_sample": args.temperature > 0}
    if args.temperature > 0:
        sampling |= {"temperature": args.temperature, "top_k": args.top_k or 0, "top_p": args.top_p or 1.0}
    streamer = TextIteratorStreamer(tokenizer, skip_prompt=True)
    torch.manual_seed(args.seed)
    failed: list[BaseException] = []

    def work() -> None:
        try:
            model.generate(**inputs, **sampling, max_new_tokens=args.max_tokens, streamer=streamer)
        except BaseException as error:  # the reader would wait for ever for what never comes
            failed.append(error)
            streamer.end()

    worker = Thread(target=work)
    worker.start()
    yield from streamer
    worker.join()
    if failed:
        raise failed[0]
