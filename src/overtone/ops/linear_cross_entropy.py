"""The LM head and its cross-entropy in one operator: logits exist for a few tokens at a time.

z = features W^T, loss_i = logsumexp(z_i) - z_i[target_i]. At 64K tokens and a vocabulary of 50K, (N, V) logits in float32 are
13 GB a copy, and autograd holds them, their gradient and more; here one chunk of them lives at a time. When the loss is a mean or
a sum, the gradients are computed chunk by chunk together with the loss, so every logit is computed once; for per-token
losses the backward pass computes the logits again, because it needs the incoming gradient first.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

_CHUNK_LOGITS = 1 << 22  # logits in one chunk: 16 MB in float32


def linear_cross_entropy(
    features: Tensor, weight: Tensor, targets: Tensor, *, reduction: str = "mean", chunk_tokens: int | None = None
) -> Tensor:
    """Cross-entropy in nats of targets under softmax(features @ weight.T).

    features (N, d), weight (V, d), targets (N,) integers in 0..V-1 (every token counts). Products run in the autocast dtype where
    autocast is on, else in the dtype features and weight promote to; softmax and loss in float32 (float64 for float64).
    reduction     "mean", "sum" (scalars) or "none" (N,).
    chunk_tokens  tokens a chunk; by default as many as keep a chunk at 4M logits.
    Errors: ValueError for shapes or a reduction that do not fit; a target outside 0..V-1 is torch's own index error.
    """
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"linear_cross_entropy: reduction must be mean, sum or none; found {reduction!r}.")
    if features.dim() != 2 or weight.dim() != 2 or features.shape[1] != weight.shape[1] or targets.shape != features.shape[:1]:
        raise ValueError("linear_cross_entropy: needs features (N, d), weight (V, d), targets (N,); found "
                         f"{tuple(features.shape)}, {tuple(weight.shape)}, {tuple(targets.shape)}.")
    device = features.device.type
    dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else torch.promote_types(features.dtype, weight.dtype)
    chunk = chunk_tokens or max(1, _CHUNK_LOGITS // max(1, weight.shape[0]))
    with torch.autocast(device, enabled=False):
        if reduction == "none":
            return _PerToken.apply(features, weight, targets.long(), dtype, chunk)
        total = _Summed.apply(features, weight, targets.long(), dtype, chunk)
        return total / features.shape[0] if reduction == "mean" else total


def _chunk_loss(x: Tensor, w: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Losses (n,) and log-probabilities (n, V) of one chunk."""
    logits = x @ w.T
    log_p = torch.log_softmax(logits if logits.dtype == torch.float64 else logits.float(), dim=-1)
    return -log_p.gather(1, target[:, None]).squeeze(1), log_p


def _chunk_gradient(log_p: Tensor, target: Tensor, scale: Tensor | None) -> Tensor:
    """d loss / d logits (n, V) = softmax - onehot, times the incoming gradient (n,); overwrites log_p."""
    p = log_p.exp_()
    p.scatter_add_(1, target[:, None], p.new_full((len(target), 1), -1.0))
    return p if scale is None else p.mul_(scale[:, None])


class _Summed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, features: Tensor, weight: Tensor, targets: Tensor, dtype: torch.dtype, chunk: int) -> Tensor:
        accumulate = torch.promote_types(dtype, torch.float32)
        wants_x, wants_w = ctx.needs_input_grad[:2]
        grad_x = torch.empty_like(features) if wants_x else None
        grad_w = torch.zeros(weight.shape, dtype=accumulate, device=weight.device) if wants_w else None
        w = weight.to(dtype)
        total = torch.zeros((), dtype=accumulate, device=features.device)
        for start in range(0, len(targets), chunk):
            part = slice(start, start + chunk)
            x = features[part].to(dtype)
            losses, log_p = _chunk_loss(x, w, targets[part])
            total += losses.sum()
            if wants_x or wants_w:
                grad_z = _chunk_gradient(log_p, targets[part], None).to(dtype)
                if grad_x is not None:
                    grad_x[part] = grad_z @ w
                if grad_w is not None:
                    grad_w += grad_z.T @ x
        ctx.save_for_backward(grad_x, None if grad_w is None else grad_w.to(weight.dtype))
        return total

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        grad_x, grad_w = ctx.saved_tensors
        return (None if grad_x is None else grad_x * grad.to(grad_x.dtype), None if grad_w is None else grad_w * grad.to(grad_w.dtype),
                None, None, None)


class _PerToken(torch.autograd.Function):
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
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        features, weight, targets = ctx.saved_tensors
        wants_x, wants_w = ctx.needs_input_grad[:2]
        grad_x = torch.empty_like(features) if wants_x else None
        grad_w = torch.zeros(weight.shape, dtype=grad.dtype, device=weight.device) if wants_w else None
        w = weight.to(ctx.dtype)
        for start in range(0, len(targets), ctx.chunk):
            part = slice(start, start + ctx.chunk)
            x = features[part].to(ctx.dtype)
            grad_z = _chunk_gradient(_chunk_loss(x, w, targets[part])[1], targets[part], grad[part]).to(ctx.dtype)
            if grad_x is not None:
                grad_x[part] = grad_z @ w
            if grad_w is not None:
                grad_w += grad_z.T @ x
        return grad_x, None if grad_w is None else grad_w.to(weight.dtype), None, None, None
