"""The Hugging Face face: a PreTrainedModel for every registered architecture, known to AutoModelForCausalLM.

`save_pretrained`, `from_pretrained` (safetensors only), `generate()` with the model's state as cache: greedy, sampling, beam
search; left and right padding are identity steps. Assisted and contrastive decoding need a state that can be taken back, so
transformers refuses them.
"""

from __future__ import annotations

import inspect
from functools import cache
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.generation import GenerationMixin
from transformers.modeling_outputs import CausalLMOutputWithPast
from transformers.modeling_utils import PreTrainedModel

from overtone.models.base import LanguageModel, State
from overtone.models.checkpoint import config_dict
from overtone.models.checkpoint_names import class_stem
from overtone.models.hf_cache import StateCache, spans
from overtone.models.hf_config import OvertoneConfig, config_class, register_configs
from overtone.models.hf_tokenizer import OvertoneTokenizer
from overtone.models.registry import architecture_names, build_model
from overtone.models.tokenizer_files import save_hf_tokenizer

__all__ = ["OvertoneForCausalLM", "model_class", "register_auto_classes", "save_hf_tokenizer"]

# Earlier transformers 5 call the argument and the output that carry the cache past_key_values.
CACHE_ARGUMENT = "cache" if "cache" in inspect.signature(GenerationMixin.prepare_inputs_for_generation).parameters else "past_key_values"


class OvertoneForCausalLM(PreTrainedModel, GenerationMixin):
    """One of our language models behind transformers' interface; `self.model` is the LanguageModel."""

    config_class = OvertoneConfig
    base_model_prefix = "model"
    main_input_name = "input_ids"
    supports_gradient_checkpointing = False
    _is_stateful = True
    config: OvertoneConfig

    def __init__(self, config: OvertoneConfig):
        super().__init__(config)
        self.model = build_model(config.architecture, vocab_size=config.vocab_size, hidden=config.hidden_size, **config.options)
        config.options = config_dict(self.model)["options"]  # defaults written out
        self.post_init()

    @classmethod
    def from_pretrained(cls, *args: Any, **kwargs: Any) -> Any:
        """As everywhere in transformers, from safetensors files only: a pickle can run code."""
        return super().from_pretrained(*args, **(kwargs | {"use_safetensors": True}))

    @classmethod
    def wrap(cls, model: LanguageModel) -> OvertoneForCausalLM:
        """The Hugging Face model around an existing one; they share their weights."""
        fields = config_dict(model)
        with torch.device("meta"):
            config = config_class(model.name)(**{key: fields[key] for key in ("vocab_size", "hidden_size", "options")})
            shell = model_class(model.name)(config)
        shell.model = model
        return shell

    def _init_weights(self, module: nn.Module) -> None:
        """The constructor has drawn the weights. A file that lacks some is refused instead of filled with random numbers."""
        loaded = [getattr(parameter, "_is_hf_initialized", False) for parameter in module.parameters(recurse=False)]
        if not all(loaded) and any(getattr(parameter, "_is_hf_initialized", False) for parameter in self.parameters()):
            raise ValueError(f"{self.name_or_path}: the weights do not fit config.json ({type(module).__name__} has none). "
                             "Save the model again.")

    def get_input_embeddings(self) -> nn.Embedding:
        """The token embedding."""
        return self.model.embedding

    def get_output_embeddings(self) -> nn.Linear | None:
        """The head; None where it is the embedding."""
        return self.model.head

    def forward(self, input_ids: Tensor | None = None, attention_mask: Tensor | None = None, cache: StateCache | None = None,
                past_key_values: StateCache | None = None, labels: Tensor | None = None, use_cache: bool | None = None,
                logits_to_keep: int = 0, inputs_embeds: Tensor | None = None, return_dict: bool | None = None, **kwargs: Any) -> Any:
        """Logits of input_ids (B, L), given what the cache has seen; labels (B, L) are shifted here, as everywhere in transformers."""
        asked = [name for name in ("output_hidden_states", "output_attentions") if kwargs.get(name)]
        if input_ids is None or inputs_embeds is not None or asked:
            raise ValueError(f"{type(self).__name__} takes input_ids and gives logits; not offered: inputs_embeds, hidden "
                             "states, attentions.")
        cache = cache if cache is not None else past_key_values
        use_cache = use_cache if use_cache is not None else not self.training and labels is None
        if use_cache and cache is None:
            cache = StateCache()
        logits = self._read(input_ids, attention_mask, cache, logits_to_keep)
        loss = None
        if labels is not None:
            loss = F.cross_entropy(logits[:, :-1].flatten(0, 1).float(), labels[:, 1:].flatten(), ignore_index=-100)
        carried: dict[str, Any] = {CACHE_ARGUMENT: cache} if use_cache else {}
        output = CausalLMOutputWithPast(loss=loss, logits=cast(torch.FloatTensor, logits), **carried)
        return output if return_dict in (None, True) else output.to_tuple()

    def _read(self, ids: Tensor, mask: Tensor | None, cache: StateCache | None, keep: int) -> Tensor:
        """Logits of the last `keep` positions (0: all); masked ones are 0. The cache moves on."""
        batch, length = ids.shape
        groups = cache.groups if cache is not None and cache.groups else [(torch.arange(batch, device=ids.device), None)]
        kept = min(keep, length) if keep else length
        whole = mask is None or bool(mask[:, -length:].all())
        if whole and len(groups) == 1:
            logits, state = self._advance(ids, groups[0][1], cache, kept)
            after = [(groups[0][0], state)]
        else:
            by_span = {(0, length): torch.arange(batch, device=ids.device)} if whole else spans(cast(Tensor, mask)[:, -length:])
            logits = torch.zeros(batch, kept, self.config.vocab_size, dtype=self.dtype, device=ids.device)
            after = []
            for rows, state in groups:
                for (start, end), members in by_span.items():
                    inside = torch.isin(rows, members).nonzero().squeeze(1)
                    if len(inside) == 0:
                        continue
                    chosen = rows[inside]
                    before = state if state is None or len(inside) == len(rows) else state.select(inside)
                    if end == start:
                        after.append((chosen, before or self.model.init_state(len(chosen), device=ids.device)))
                        continue
                    seen = max(0, end - max(start, length - kept))  # kept positions that this span covers
                    part, reached = self._advance(ids[chosen, start:end], before, cache, max(seen, 1))
                    if seen:
                        logits[chosen, kept - (length - end) - seen : kept - (length - end)] = part.to(logits.dtype)
                    after.append((chosen, reached))
        if cache is not None:
            cache.groups, cache.seen = cast(list[tuple[Tensor, State]], after), cache.seen + length
        return logits

    def _advance(self, ids: Tensor, state: State | None, cache: StateCache | None, kept: int) -> tuple[Tensor, State | None]:
        """Logits of the last `kept` of ids (B, L) and the state after them; no state where there is no cache."""
        if cache is None:
            return F.linear(self.model.features(ids)[:, -kept:], self.model.head_weight), None
        if state is None:
            state = self.model.init_state(ids.shape[0], max_length=cache.max_length, device=ids.device)
        if ids.shape[1] == 1:
            logits, after = self.model.step(ids[:, 0], state)
            return logits.unsqueeze(1), after
        features, after = self.model.features(ids, state, return_state=True)
        return F.linear(features[:, -kept:], self.model.head_weight), after

    def _prepare_cache_for_generation(  # type: ignore[override]
        self, generation_config: Any, model_kwargs: dict[str, Any], generation_mode: Any, batch_size: int, max_cache_length: int
    ) -> None:
        if generation_config.use_cache is not False and model_kwargs.get(CACHE_ARGUMENT) is None:
            model_kwargs[CACHE_ARGUMENT] = StateCache(max_cache_length)


@cache
def model_class(name: str) -> type[OvertoneForCausalLM]:
    """The Hugging Face class of an architecture, e.g. OvertoneHarmonicForCausalLM."""
    return type(f"{class_stem(name)}ForCausalLM", (OvertoneForCausalLM,), {
        "__module__": __name__, "config_class": config_class(name), "__doc__": f"{name} behind transformers' interface."})


def register_auto_classes() -> None:
    """Make every registered architecture and the tokenizer known to the Auto classes."""
    register_configs()
    for name in architecture_names():
        found = model_class(name)
        globals()[found.__name__] = found
        AutoModelForCausalLM.register(config_class(name), found, exist_ok=True)
        AutoTokenizer.register(config_class(name), fast_tokenizer_class=OvertoneTokenizer, exist_ok=True)


register_auto_classes()
