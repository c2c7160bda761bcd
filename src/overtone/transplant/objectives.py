"""What the blocks learn from: their attention layers' outputs, the text, or the teacher's predictions.

Each objective does the backward pass of one batch and returns the mean loss as a float. `weight` scales the gradient (a batch that is a
share of a step).

align           mean over layers of |block(x_l) - y_l|^2 / |y_l|^2, x_l and y_l the teacher's own input and output of
                attention layer l: every layer learns by itself, from one teacher pass without a head
cross_entropy   nats a token of the transplanted model on the text (the paper's)
distill         KL(teacher || student) in nats a token, over the whole vocabulary
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from overtone.ops import linear_cross_entropy
from overtone.transplant.model import Student

_HEAD_BYTES = 256 << 20  # logits of either model held at once by `distill`


def attention_records(teacher: Any, ids: Tensor) -> list[tuple[Tensor, Tensor]]:
    """(input, output) of every attention layer of the teacher on ids (B, L), each (B, L, d); nothing is kept for backward."""
    records: list[tuple[Tensor, Tensor]] = []

    def keep(module: Any, args: Any, kwargs: dict[str, Any], output: Any) -> None:
        records.append((kwargs["hidden_states"] if "hidden_states" in kwargs else args[0], output[0]))

    hooks = [layer.self_attn.register_forward_hook(keep, with_kwargs=True) for layer in teacher.model.layers]
    try:
        with torch.no_grad():
            teacher.model(input_ids=ids, use_cache=False)
    finally:
        for hook in hooks:
            hook.remove()
    return records


def align(student: Student, teacher: Any, ids: Tensor, targets: Tensor, weight: float) -> float:
    """Layer-wise alignment; a layer's graph is freed before the next one is built."""
    blocks = student.blocks
    total = 0.0
    for block, (x, y) in zip(blocks, attention_records(teacher, ids), strict=True):
        out, _ = block(x)
        loss = F.mse_loss(out.float(), y.float()) / y.float().square().mean().clamp_min(1e-12)
        (loss * weight).backward()
        total += float(loss.detach())
    return total / len(blocks)


def cross_entropy(student: Student, teacher: Any, ids: Tensor, targets: Tensor, weight: float) -> float:
    """Cross-entropy of the text."""
    features = student.model(input_ids=ids, use_cache=False).last_hidden_state
    loss = linear_cross_entropy(features.flatten(0, 1), student.lm_head.weight, targets.flatten())
    (loss * weight).backward()
    return float(loss.detach())


def distill(student: Student, teacher: Any, ids: Tensor, targets: Tensor, weight: float) -> float:
    """KL of the teacher's distribution against the student's; logits exist for a slice of the tokens at a time."""
    with torch.no_grad():
        wanted = teacher.model(input_ids=ids, use_cache=False).last_hidden_state.flatten(0, 1)
    features = student.model(input_ids=ids, use_cache=False).last_hidden_state.flatten(0, 1)
    rows = max(1, _HEAD_BYTES // (4 * student.lm_head.weight.shape[0]))
    pieces = [
        checkpoint(_divergence, part, student.lm_head.weight, target, teacher.lm_head.weight, use_reentrant=False)
        for part, target in zip(features.split(rows), wanted.split(rows), strict=True)
    ]
    loss = torch.stack(pieces).sum() / len(features)
    (loss * weight).backward()
    return float(loss.detach())


def _divergence(features: Tensor, head: Tensor, wanted: Tensor, teacher_head: Tensor) -> Tensor:
    student = F.log_softmax(F.linear(features, head).float(), dim=-1)
    teacher = F.log_softmax(F.linear(wanted, teacher_head).float(), dim=-1)
    return F.kl_div(student, teacher, reduction="sum", log_target=True)


OBJECTIVES = {"align": align, "cross_entropy": cross_entropy, "distill": distill}
