"""A GGUF file as a transformers model with plain weights.

`from_pretrained(gguf_file=...)` would want the package accelerate and leave a model that calls itself quantised; reading the
tensors into a model made from the file's own configuration needs neither.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from overtone.errors import UserError


def load_gguf(file: Path, dtype: torch.dtype = torch.float32) -> Any:
    """The model of a GGUF file, dequantised. UserError where the file leaves a weight unset or brings one too many."""
    from transformers import AutoConfig, AutoModelForCausalLM
    from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

    config = AutoConfig.from_pretrained(file.parent, gguf_file=file.name)
    model: Any = AutoModelForCausalLM.from_config(config, dtype=dtype)
    tensors = load_gguf_checkpoint(str(file), return_tensors=True, model_to_load=model)["tensors"]
    missing, unexpected = model.load_state_dict(tensors, strict=False)
    model.tie_weights()
    state = model.state_dict()
    loaded = {state[name].data_ptr() for name in tensors if name in state}
    unset = [name for name in missing if state[name].data_ptr() not in loaded]  # a tied head is stored once
    if unset or unexpected:
        raise UserError(f"{file}: its tensors do not fit a {type(model).__name__}; first at {[*unset, *unexpected][0]!r}. Convert it with "
                        "another version of transformers or gguf.")
    return model
