"""One optimizer rule for every architecture: AdamW, weight decay on matrices only."""

from __future__ import annotations

from typing import Any

import torch

from overtone.training.protocol import TrainingProtocol


def decays(name: str, parameter: torch.nn.Parameter, embeddings: set[int]) -> bool:
    """Whether weight decay applies: two or more dimensions, no embedding table, not exempted by its model.

    Vectors (biases, norms, time constants) and embeddings (whose rows mostly get no gradient) are left alone. A model
    exempts a matrix that is no linear map, such as Mamba's A_log, by setting `_no_weight_decay` on the parameter.
    """
    return parameter.ndim >= 2 and id(parameter) not in embeddings and not getattr(parameter, "_no_weight_decay", False)


def build_optimizer(model: torch.nn.Module, protocol: TrainingProtocol, rate: float) -> torch.optim.AdamW:
    """AdamW over the trainable parameters, in two groups; fused (one kernel an update) on CPU and GPU alike."""
    embeddings = {id(part.weight) for part in model.modules() if isinstance(part, torch.nn.Embedding)}
    decayed: list[torch.nn.Parameter] = []
    plain: list[torch.nn.Parameter] = []
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            (decayed if decays(name, parameter, embeddings) else plain).append(parameter)
    groups: list[dict[str, Any]] = [
        {"params": decayed, "weight_decay": protocol.weight_decay},
        {"params": plain, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(
        [group for group in groups if group["params"]], lr=rate, betas=protocol.betas, eps=1e-8, fused=True
    )


def set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Set every group's learning rate."""
    for group in optimizer.param_groups:
        group["lr"] = rate


def optimizer_tensors(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, torch.Tensor]:
    """The optimizer's state by parameter name: `NAME/exp_avg`, `NAME/exp_avg_sq`, `NAME/step`."""
    return {
        f"{name}/{key}": value
        for name, parameter in model.named_parameters()
        for key, value in optimizer.state.get(parameter, {}).items()
    }


def load_optimizer_tensors(
    model: torch.nn.Module, optimizer: torch.optim.Optimizer, tensors: dict[str, torch.Tensor]
) -> None:
    """Inverse of `optimizer_tensors`."""
    parameters = dict(model.named_parameters())
    for key, value in tensors.items():
        name, _, slot = key.rpartition("/")
        parameter = parameters[name]
        # The step counter stays where the fused kernel wants it: beside the parameter.
        optimizer.state[parameter][slot] = value.to(parameter.device)
