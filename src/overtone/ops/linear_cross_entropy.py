"""The LM head and its cross-entropy in one operator: logits exist for a few tokens at a time.

z = features W^T, loss_i = logsumexp(z_i) - z_i[target_i]. At 64K tokens and a vocabulary of 50K the logits are 13 GB a copy in
float32, and autograd would hold them, their log-softmax and its gradient; here one chunk of them lives at a time. When the loss
is a mean or a sum, the gradients are computed chunk by chunk together with the loss, so every logit is computed once; for losses
a token the backward pass computes the logits again, because it must know the incoming gradient first.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from overtone.ops.precision import autocast_dtype, without_autocast

_CHUNK_LOGITS = {"cpu": 1 << 19}  # logits a chunk: on a CPU they stay in its cache (2 MB)
_CHUNK_LOGITS_ELSEWHERE = 1 << 26  # elsewhere a chunk must fill the device
_CHUNK_TOKENS = 128  # at least: every chunk reads W and the gradient of W once
_NOTHING = torch.iinfo(torch.int64).min  # torch's cross_entropy ignores -100 unless told otherwise


def linear_cross_entropy(
    features: Tensor, weight: Tensor, targets: Tensor, *, reduction: str = "mean", chunk_tokens: int | None = None
) -> Tensor:
    """Cross-entropy in nats of `targets` under softmax(features @ weight.T).

    features (N, d), weight (V, d), targets (N,) integers in 0..V-1: every token counts. The products run in the autocast dtype
    where autocast is on, else in the dtype features and weight promote to; softmax and loss in float32 (float64 for float64).
    reduction     "mean" or "sum" (a scalar), "none" (N,).
    chunk_tokens  tokens a chunk; by default what suits the device. What fits in one default chunk takes the plain path.
    Errors: ValueError for shapes or a reduction that do not fit; a target outside 0..V-1 is torch's own index error.
    """
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"linear_cross_entropy: reduction must be mean, sum or none; found {reduction!r}.")
    if features.dim() != 2 or weight.dim() != 2 or features.shape[1] != weight.shape[1] or targets.shape != features.shape[:1]:
        raise ValueError("linear_cross_entropy: needs features (N, d), weight (V, d), targets (N,); found "
                         f"{tuple(features.shape)}, {tuple(weight.shape)}, {tuple(targets.shape)}.")
    device, tokens, targets = features.device.type, features.shape[0], targets.long()
    dtype = torch.promote_types(features.dtype, weight.dtype)
    if dtype != torch.float64:
        dtype = autocast_dtype(device) or dtype
    with without_autocast(device):
        if chunk_tokens is None:
            logits = _CHUNK_LOGITS.get(device, _CHUNK_LOGITS_ELSEWHERE)
            chunk_tokens = max(_CHUNK_TOKENS, logits // max(1, weight.shape[0]))
            if tokens <= chunk_tokens:
                scores = _scores(features.to(dtype), weight.to(dtype))
                return torch.nn.functional.cross_entropy(scores, targets, reduction=reduction, ignore_index=_NOTHING)
        if reduction == "none":
            return _TokenLosses.apply(features, weight, targets, dtype, chunk_tokens)
        keep = torch.is_grad_enabled()
        total = _TotalLoss.apply(features, weight, targets, dtype, chunk_tokens, keep)
        return total / tokens if reduction == "mean" else total


def _scores(x: Tensor, w: Tensor) -> Tensor:
    logits = x @ w.T
    return logits if logits.dtype == torch.float64 else logits.float()


def _chunk_loss(x: Tensor, w: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Losses (n,) and log-probabilities (n, V) of one chunk."""
    log_p = torch.log_softmax(_scores(x, w), dim=-1)
    return -log_p.gather(1, targets[:, None]).squeeze(1), log_p


class _Gradients:
    """Gradients for features and weight, gathered a chunk at a time; weight's in float32 at least, each only where wanted."""

    def __init__(self, features: Tensor, weight: Tensor, dtype: torch.dtype, wanted: tuple[bool, bool]) -> None:
        sums = torch.promote_types(dtype, torch.float32)
        self.features = torch.empty_like(features) if wanted[0] else None
        self.weight = torch.zeros(weight.shape, dtype=sums, device=weight.device) if wanted[1] else None

    def add(self, part: slice, x: Tensor, w: Tensor, log_p: Tensor, targets: Tensor, incoming: Tensor | None) -> None:
        """d loss / d z = softmax - onehot, times the incoming gradient (n,) of each token; overwrites log_p."""
        grad_z = log_p.exp_()
        grad_z.scatter_add_(1, targets[:, None], grad_z.new_full((len(targets), 1), -1.0))
        if incoming is not None:
            grad_z.mul_(incoming[:, None])
        grad_z = grad_z.to(x.dtype)
        if self.features is not None:
            self.features[part] = grad_z @ w
        if self.weight is not None and self.weight.dtype == x.dtype:
            self.weight.addmm_(grad_z.T, x)
        elif self.weight is not None:
            self.weight += grad_z.T @ x


class _TotalLoss(torch.autograd.Function):
    """Sum of the losses; the gradients are ready when the forward pass is done."""

    @staticmethod
    def forward(
        ctx: Any, features: Tensor, weight: Tensor, targets: Tensor, dtype: torch.dtype, chunk: int, keep: bool
    ) -> Tensor:
        wanted = ctx.needs_input_grad[:2] if keep else (False, False)
        gradients = _Gradients(features, weight, dtype, wanted)
        w = weight.to(dtype)
        total = torch.zeros((), dtype=torch.promote_types(dtype, torch.float32), device=features.device)
        for start in range(0, len(targets), chunk):
            part = slice(start, start + chunk)
            x = features[part].to(dtype)
            losses, log_p = _chunk_loss(x, w, targets[part])
            total += losses.sum()
            if any(wanted):
                gradients.add(part, x, w, log_p, targets[part], None)
        grad_w = gradients.weight
        ctx.save_for_backward(gradients.features, None if grad_w is None else grad_w.to(weight.dtype))
        return total

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, incoming: Tensor) -> tuple[Tensor | None, ...]:
        scaled = (None if grad is None else grad * incoming.to(grad.dtype) for grad in ctx.saved_tensors)
        return (*scaled, None, None, None, None)


class _TokenLosses(torch.autograd.Function):
    """Every token's loss; the backward pass computes the logits again."""

    @staticmethod
    def forward(ctx: Any, features: Tensor, weight: Tensor, targets: Tensor, dtype: torch.dtype, chunk: int) -> Tensor:
        ctx.save_for_backward(features, weight, targets)
        ctx.dtype, ctx.chunk = dtype, chunk
        w = weight.to(dtype)
        losses = torch.empty(len(targets), dtype=torch.promote_types(dtype, torch.float32), device=features.device)
        for start in range(0, len(targets), chunk):
            part = slice(start, start + chunk)
            losses[part] = _chunk_loss(features[part].to(dtype), w, targets[part])[0]
        return losses

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, incoming: Tensor) -> tuple[Tensor | None, ...]:
        features, weight, targets = ctx.saved_tensors
        gradients = _Gradients(features, weight, ctx.dtype, ctx.needs_input_grad[:2])
        w = weight.to(ctx.dtype)
        for start in range(0, len(targets), ctx.chunk):
            part = slice(start, start + ctx.chunk)
            x = features[part].to(ctx.dtype)
            gradients.add(part, x, w, _chunk_loss(x, w, targets[part])[1], targets[part], incoming[part])
        grad_w = gradients.weight
        return gradients.features, None if grad_w is None else grad_w.to(weight.dtype), None, None, None
