"""A subject: any causal language model as three callables, whoever wrote it.

forward(ids (B, L)) -> logits (B, L, V)                 the parallel mode
prefill(ids (B, L)) -> (logits (B, L, V), state)        the same with a state (a cache) to go on from
step(ids (B,), state) -> (logits (B, V), state)         one more token
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from overtone.errors import UserError
from overtone.files import digest_json, read_json

if TYPE_CHECKING:
    import torch
    from torch import Tensor


_CACHES = ("cache", "past_key_values", "cache_params", "state")


@dataclass(frozen=True)
class Subject:
    """A model under audit. `prefill` and `step` are None where the model keeps no state; `positions`: the most it takes, None: any."""

    name: str
    vocab_size: int
    forward: Callable[[Tensor], Tensor]
    prefill: Callable[[Tensor], tuple[Tensor, Any]] | None = None
    step: Callable[[Tensor, Any], tuple[Tensor, Any]] | None = None
    dtype: str = "float32"
    device: str = "cpu"
    control: bool = False
    positions: int | None = None


def own_subject(name: str, model: Any, *, dtype: str = "float64", device: str = "cpu", control: bool = False) -> Subject:
    """One of our language models; float64 by default, so that only a real dependence can move a logit."""
    import torch

    model = model.to(device=device, dtype=getattr(torch, dtype)).eval()
    return Subject(name, model.vocab_size, model.forward, model.prefill, model.step, dtype, device, control)


def hf_subject(name: str, model: Any, *, control: bool = False) -> Subject:
    """Any `transformers` causal language model, as it is (dtype, device). Left in evaluation mode.

    The state is whatever cache the model returns; a model that returns none is audited in the parallel mode alone.
    """
    model.eval()
    device = str(next(model.parameters()).device)
    dtype = str(next(model.parameters()).dtype).removeprefix("torch.")
    vocab_size = int(model.get_input_embeddings().weight.shape[0])

    def forward(ids: Tensor) -> Tensor:
        return _logits(model(input_ids=ids, use_cache=False))

    def prefill(ids: Tensor) -> tuple[Tensor, Any]:
        out = model(input_ids=ids, use_cache=True)
        return _logits(out), _cache(out)

    def step(ids: Tensor, state: Any) -> tuple[Tensor, Any]:
        key, cache = state
        out = model(input_ids=ids[:, None], **{key: cache}, use_cache=True)
        return _logits(out)[:, -1], _cache(out) or state

    keeps_state = _keeps_state(model, device)
    positions = getattr(model.config, "max_position_embeddings", None)
    return Subject(name, vocab_size, forward, prefill if keeps_state else None, step if keeps_state else None, dtype, device, control,
                   positions)


def _logits(out: Any) -> Tensor:
    logits: Tensor | None = getattr(out, "logits", None)
    if logits is None:
        raise UserError(f"{type(out).__name__}: the model returns no logits. Give a causal language model.")
    return logits


def _cache(out: Any) -> tuple[str, Any] | None:
    found = [key for key in out.keys() if key in _CACHES and out[key] is not None]  # noqa: SIM118
    return (found[0], out[found[0]]) if found else None


def _keeps_state(model: Any, device: str) -> bool:
    import torch

    with torch.inference_mode():
        try:
            return _cache(model(input_ids=torch.zeros(1, 2, dtype=torch.long, device=device), use_cache=True)) is not None
        except (TypeError, NotImplementedError):
            return False


def open_subject(path: str | Path, *, name: str = "", dtype: str = "", device: str = "cpu", control: bool = False,
                 trust_remote_code: bool = False) -> Subject:
    """The model of a folder or GGUF file as a subject: ours in float64, any other in float32, unless `dtype` says otherwise."""
    folder = Path(path)
    config = read_json(folder / "config.json") if (folder / "config.json").is_file() else {}
    kind = str(config.get("model_type", "")) if isinstance(config, dict) else ""
    if kind.startswith("overtone_"):
        from overtone.models import load_checkpoint

        return own_subject(name or folder.name, load_checkpoint(folder), dtype=dtype or "float64", device=device, control=control)
    if kind == "harmonic_llama":
        import overtone.transplant  # noqa: F401  (registers the class)
    model = load_hf(folder, dtype=dtype or "float32", device=device, trust_remote_code=trust_remote_code)
    return hf_subject(name or folder.name, model, control=control)


def load_hf(path: str | Path, *, dtype: str = "float32", device: str = "cpu", trust_remote_code: bool = False) -> Any:
    """Load a causal language model from a folder of Hugging Face files, a folder with one GGUF file, or a GGUF file.

    Raises UserError where there is no model, or `transformers` cannot read it. Code that comes with a model runs only
    with `trust_remote_code`.
    """
    import torch
    from safetensors import SafetensorError
    from transformers import AutoModelForCausalLM

    target = Path(path)
    if target.is_dir() and not (target / "config.json").is_file():
        files = sorted(target.glob("*.gguf"))
        if len(files) != 1:
            raise UserError(f"{target}: found {len(files)} GGUF files and no config.json, expected one model. Name the folder of a "
                            "Hugging Face model or one GGUF file.")
        target = files[0]
    if not target.is_dir() and not (target.is_file() and target.suffix == ".gguf"):
        raise UserError(f"{path}: no such model folder. Name a folder with config.json and weights, or a GGUF file.")
    try:
        if target.is_file():
            from overtone.audits.gguf import load_gguf

            model = load_gguf(target, getattr(torch, dtype))
        else:
            model = AutoModelForCausalLM.from_pretrained(target, dtype=getattr(torch, dtype), trust_remote_code=trust_remote_code)
    except (OSError, ValueError, KeyError, ImportError, SafetensorError) as error:
        raise UserError(f"{path}: transformers cannot load it ({' '.join(str(error).split())[:200]}). Check the folder; a model "
                        "with its own code needs --trust-remote-code.") from error
    return cast(Any, model).to(device)


def draw_tokens(shape: tuple[int, ...], vocab_size: int, generator: torch.Generator) -> Tensor:
    """Uniformly random token ids (on the CPU, so that every device sees the same)."""
    import torch

    return torch.randint(vocab_size, shape, generator=generator)


def named_generator(name: str, seed: int) -> torch.Generator:
    """A generator of its own for one purpose: the seed is the digest of (name, seed)."""
    import torch

    return torch.Generator().manual_seed(int(digest_json([name, seed])[:15], 16))
