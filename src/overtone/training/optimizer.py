"""One optimizer rule for every architecture: AdamW in one fused kernel, weight decay on matrices only.

With gradient g, step t, rate r, decay w (Loshchilov & Hutter, "Decoupled weight decay regularization", 2019):

    p <- p (1 - r w)
    m <- b1 m + (1 - b1) g          v <- b2 v + (1 - b2) g^2
    p <- p - r (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps)

The kernel is the one behind torch.optim.AdamW(fused=True), called without it: making any torch.optim optimizer
imports torch._dynamo, which takes as long as importing torch, and a study starts a process a cell.
"""

from __future__ import annotations

import torch

from overtone.training.protocol import TrainingProtocol

EPS = 1e-8


def decays(parameter: torch.nn.Parameter, embeddings: set[int]) -> bool:
    """Whether weight decay applies: two or more dimensions, no embedding table, not exempted by its model.

    Vectors (biases, norms, time constants) and embeddings (whose rows mostly get no gradient) are left alone. A model
    exempts a matrix that is no linear map, such as Mamba's A_log, by setting `_no_weight_decay` on the parameter.
    """
    return parameter.ndim >= 2 and id(parameter) not in embeddings and not getattr(parameter, "_no_weight_decay", False)


class AdamW:
    """AdamW over a model's trainable parameters; the moments are made at a parameter's first gradient."""

    def __init__(self, model: torch.nn.Module, protocol: TrainingProtocol) -> None:
        embeddings = {id(part.weight) for part in model.modules() if isinstance(part, torch.nn.Embedding)}
        self.parameters = {name: value for name, value in model.named_parameters() if value.requires_grad}
        self.decay = {
            name: protocol.weight_decay * decays(value, embeddings) for name, value in self.parameters.items()
        }
        self.betas = protocol.betas
        self.moments: dict[str, tuple[torch.Tensor, torch.Tensor, torch.Tensor]] = {}  # name -> (m, v, t)

    def zero_grad(self) -> None:
        """Drop every gradient."""
        for parameter in self.parameters.values():
            parameter.grad = None

    @torch.no_grad()
    def step(self, rate: float) -> None:
        """One update at learning rate `rate`; a parameter without a gradient stays as it is."""
        for decay in sorted(set(self.decay.values())):
            values: list[torch.Tensor] = []
            gradients: list[torch.Tensor] = []
            moments = []
            for name, value in self.parameters.items():
                if self.decay[name] != decay or value.grad is None:
                    continue
                if name not in self.moments:
                    count = torch.zeros((), dtype=torch.float32, device=value.device)
                    self.moments[name] = (torch.zeros_like(value), torch.zeros_like(value), count)
                values.append(value)
                gradients.append(value.grad)
                moments.append(self.moments[name])
            if not values:
                continue
            first, second, counts = (list(part) for part in zip(*moments, strict=True))
            torch._foreach_add_(counts, 1)
            torch._fused_adamw_(
                values, gradients, first, second, [], counts, lr=rate, beta1=self.betas[0], beta2=self.betas[1],
                weight_decay=decay, eps=EPS, amsgrad=False, maximize=False,
            )

    def tensors(self) -> dict[str, torch.Tensor]:
        """What a checkpoint has to hold: NAME/m, NAME/v, NAME/t."""
        return {
            f"{name}/{slot}": value
            for name, held in self.moments.items()
            for slot, value in zip("mvt", held, strict=True)
        }

    def load(self, tensors: dict[str, torch.Tensor]) -> None:
        """Inverse of `tensors`."""
        names = {key.rpartition("/")[0] for key in tensors}
        self.moments = {}
        for name in names:
            device = self.parameters[name].device
            m, v, t = (tensors[f"{name}/{slot}"].to(device) for slot in "mvt")
            self.moments[name] = (m, v, t)
