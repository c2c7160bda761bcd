"""Data parallel over the processes of one job (torchrun): every rank takes its share of a step's windows.

Gradients are summed over ranks, each already divided by the targets of the whole step, so the update is that of a
single process up to the order of additions. Evaluation windows are shared out too. Rank 0 alone writes.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np
import torch


@dataclass(frozen=True)
class Ranks:
    """This process among those of its job; rank 0 of 1 without torchrun."""

    rank: int = 0
    world: int = 1

    @classmethod
    def join(cls, device: torch.device) -> Ranks:
        """Join the group that torchrun's environment names (nccl on GPUs, gloo on CPUs)."""
        world = int(os.environ.get("WORLD_SIZE", "1"))
        if world == 1:
            return cls()
        import torch.distributed as dist

        if not dist.is_initialized():
            dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
        return cls(dist.get_rank(), dist.get_world_size())

    def share(self, items: np.ndarray) -> np.ndarray:
        """This rank's part: every world-th item."""
        return items[self.rank :: self.world]

    def worst(self, code: int, device: torch.device) -> int:
        """The largest code of any rank: all learn of a stop or a failure before they wait for gradients."""
        if self.world == 1:
            return code
        import torch.distributed as dist

        value = torch.tensor([code], device=device)
        dist.all_reduce(value, dist.ReduceOp.MAX)
        return int(value.item())

    def sum_gradients(self, model: torch.nn.Module) -> None:
        """Sum every gradient over the ranks, in one message; a rank without windows adds zeros."""
        if self.world == 1:
            return
        parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        flat = torch.cat(
            [
                (torch.zeros_like(parameter) if parameter.grad is None else parameter.grad).reshape(-1)
                for parameter in parameters
            ]
        )
        self.sum(flat)
        for parameter, piece in zip(
            parameters, flat.split([parameter.numel() for parameter in parameters]), strict=True
        ):
            parameter.grad = piece.view_as(parameter)

    def sum(self, tensor: torch.Tensor) -> torch.Tensor:
        """Sum a tensor over the ranks, in place."""
        if self.world > 1:
            import torch.distributed as dist

            dist.all_reduce(tensor)
        return tensor

    def leave(self) -> None:
        """Leave the group."""
        if self.world > 1:
            import torch.distributed as dist

            dist.destroy_process_group()
