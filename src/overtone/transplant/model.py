"""A Llama whose attention layers are HarmonicBlocks: `save_pretrained`, `AutoModelForCausalLM`, `generate()` with a fixed-size state.

Importing this module registers model type `harmonic_llama` with transformers' Auto classes.
"""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import AutoConfig, AutoModel, AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM, LlamaModel
from transformers.models.llama.modeling_llama import LlamaDecoderLayer, LlamaPreTrainedModel

from overtone.errors import UserError
from overtone.transplant.block import BlockOptions, HarmonicBlock
from overtone.transplant.cache import HarmonicCache
from overtone.transplant.leaky import LeakyBlock

_CACHE = "cache" if "cache" in inspect.signature(LlamaModel.forward).parameters else "past_key_values"


class HarmonicLlamaConfig(LlamaConfig):
    """A LlamaConfig with `block`, the options of every HarmonicBlock (`BlockOptions.to_dict`)."""

    model_type = "harmonic_llama"
    block: dict[str, Any] | None = None

    def __post_init__(self, **kwargs: Any) -> None:
        self.block = BlockOptions.from_dict(self.block or {}).to_dict()
        super().__post_init__(**kwargs)


class _HarmonicInit(LlamaPreTrainedModel):
    config_class = HarmonicLlamaConfig
    _is_stateful = True  # a recurrent state cannot be rolled back: no assisted or contrastive generation
    _can_record_outputs = {"hidden_states": LlamaDecoderLayer}  # noqa: RUF012  (transformers' own form)


class HarmonicLlamaModel(_HarmonicInit, LlamaModel):
    """LlamaModel with a block in every layer; a padding mask goes to the blocks, and no attention mask is ever built."""

    def __init__(self, config: HarmonicLlamaConfig) -> None:
        super().__init__(config)
        kind = LeakyBlock if BlockOptions.from_dict(config.block or {}).kind == "leaky" else HarmonicBlock
        blocks = [kind(config, index) for index in range(config.num_hidden_layers)]
        for layer, block in zip(self.layers, blocks, strict=True):
            layer.self_attn = block
        self.post_init()
        for block in blocks:  # after post_init, which draws every nn.Linear anew
            block.reset_parameters()

    def forward(self, input_ids: Tensor | None = None, attention_mask: Tensor | None = None, inputs_embeds: Tensor | None = None,
                use_cache: bool | None = None, **kwargs: Any) -> Any:
        """As LlamaModel's. `attention_mask`: (B, tokens seen + L), 0 where padded; packed sequences are not told apart."""
        length = (input_ids if input_ids is not None else inputs_embeds).shape[1]  # type: ignore[union-attr]
        if use_cache is None:
            use_cache = self.config.use_cache
        if use_cache and kwargs.get(_CACHE) is None:
            kwargs[_CACHE] = HarmonicCache(self.config.num_hidden_layers)
        if attention_mask is not None:
            if attention_mask.ndim != 2:
                raise UserError(f"attention_mask: found {attention_mask.ndim} axes, expected 2 (batch, tokens): there is no attention "
                                "to mask.")
            attention_mask = attention_mask[:, -length:]
            kwargs["padding"] = None if bool(attention_mask.all()) else attention_mask
        return super().forward(input_ids=input_ids, inputs_embeds=inputs_embeds, use_cache=use_cache, **kwargs)


class HarmonicLlamaForCausalLM(_HarmonicInit, LlamaForCausalLM):
    """LlamaForCausalLM over `HarmonicLlamaModel`."""

    def __init__(self, config: HarmonicLlamaConfig) -> None:
        super().__init__(config)
        self.model = HarmonicLlamaModel(config)
        self.post_init()

    @property
    def blocks(self) -> list[HarmonicBlock]:
        """The block of each layer, first to last."""
        return [layer.self_attn for layer in self.model.layers]

    def _prepare_cache_for_generation(self, generation_config: Any, model_kwargs: dict[str, Any], *args: Any,  # type: ignore[override]
                                      **kwargs: Any) -> None:
        """`generate()` starts from a HarmonicCache unless the caller brings one."""
        if generation_config.use_cache is not False and model_kwargs.get(_CACHE) is None:
            model_kwargs[_CACHE] = HarmonicCache(self.config.num_hidden_layers)


class ContinuedLlama(LlamaForCausalLM):
    """The base with its attention, which goes on training where a transplant trains its blocks: a transplant has read more text than
    the base, and only this one has read as much."""

    @property
    def blocks(self) -> list[Any]:
        """The attention of each layer, first to last."""
        return [layer.self_attn for layer in self.model.layers]


Student = HarmonicLlamaForCausalLM | ContinuedLlama


def load_student(folder: Path, kind: str) -> Student:
    """The model that a phase saved, its blocks of `kind`, in float32."""
    which: Any = ContinuedLlama if kind == "attention" else HarmonicLlamaForCausalLM
    found: Student = which.from_pretrained(folder, dtype=torch.float32)
    return found


@torch.no_grad()
def transplant(base: LlamaForCausalLM, options: BlockOptions, seed: int) -> Student:
    """A copy of `base` with every attention layer replaced by a block that starts from its V and O; all else is equal.

    The gates' random parts are drawn from `seed`. Blocks of kind `attention` are the base's own.
    """
    if options.kind == "attention":
        same = ContinuedLlama(base.config)
        same.load_state_dict(base.state_dict())
        for weight in same.parameters():
            weight.data = weight.data.to(base.dtype)
        return same
    values = {key: value for key, value in base.config.to_dict().items()
              if key not in ("model_type", "architectures", "quantization_config", "transformers_version")}
    model = HarmonicLlamaForCausalLM(HarmonicLlamaConfig(**values, block=options.to_dict()))
    generator = torch.Generator().manual_seed(seed)
    for block, layer in zip(model.blocks, base.model.layers, strict=True):
        block.reset_parameters(generator)
        block.init_from(layer.self_attn)
    kept = {key: value for key, value in base.state_dict().items() if ".self_attn." not in key}
    wrong = model.load_state_dict(kept, strict=False)
    lacking = [key for key in wrong.missing_keys if ".self_attn." not in key and key != "lm_head.weight"]
    if wrong.unexpected_keys or lacking:
        raise UserError(f"the base is no plain Llama: its weights differ by {wrong.unexpected_keys[:3] or lacking[:3]}. Choose another.")
    for weight in model.parameters():
        weight.data = weight.data.to(base.dtype)
    return model


AutoConfig.register(HarmonicLlamaConfig.model_type, HarmonicLlamaConfig)
AutoModel.register(HarmonicLlamaConfig, HarmonicLlamaModel)
AutoModelForCausalLM.register(HarmonicLlamaConfig, HarmonicLlamaForCausalLM)
