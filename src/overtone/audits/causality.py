"""Causality: change every token from a cut on; no logit before the cut may change.

parallel   forward(ids) against forward(changed)
prefill    the same with the call that starts a generation
step       prefill of a part and one token at a time, against forward(ids): a step has never seen what comes later, so a
           parallel mode that has disagrees with it

The measure is the largest change, in units of the logits' root mean square. Both runs have the same shapes, so that every
kernel makes the same choices and a causal model changes by 0 or by rounding. Cuts come in neighbouring pairs
(c, c + 1): a leak inside blocks of k tokens (pooling, strides) is invisible at a cut on a block's border, and two
neighbours are never both on one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from overtone.audits.report import Row, at_most
from overtone.audits.subjects import Subject, draw_tokens, named_generator

if TYPE_CHECKING:
    import torch
    from torch import Tensor

# Largest change of a logit, in units of the logits' rms, that rounding explains; an FFT moves past outputs by that much.
TOLERANCE = {"float64": 1e-8, "float32": 1e-4, "float16": 2e-2, "bfloat16": 1e-1}
STEP_FACTOR = 10.0  # step and parallel mode are different sums of the same terms
_ELEMENTS = 1 << 26  # logits held at once


def audit_causality(subject: Subject, *, length: int = 160, cuts: int = 4, prompt: int = 24, steps: int = 8, seed: int = 0) -> list[Row]:
    """Rows for one model: parallel and, where it keeps a state, prefill and step.

    length: tokens a window; cuts: windows, each with its own cut (pairs of neighbours); prompt, steps: tokens prefilled
    and then fed one at a time; seed: of tokens and cuts.
    """
    import torch

    length = min(length, subject.positions or length)
    prompt = min(prompt, length * 3 // 4)
    generator = named_generator("audit causality", seed)
    ids = draw_tokens((cuts, length), subject.vocab_size, generator)
    first = torch.randint(1, length - 2, ((cuts + 1) // 2,), generator=generator)
    positions = torch.stack([first, first + 1], 1).flatten()[:cuts]
    changed = change_from(ids, positions, subject.vocab_size, generator)
    with torch.inference_mode():
        rows = [_unchanged(subject, "parallel", subject.forward, ids, changed, positions)]
        if subject.prefill is not None and subject.step is not None:
            prefill = subject.prefill
            rows.append(_unchanged(subject, "prefill", lambda tokens: prefill(tokens)[0], ids, changed, positions))
            rows.append(_agreement(subject, ids[: max(1, cuts // 2), : prompt + steps], prompt))
    return rows


def change_from(ids: Tensor, cuts: Tensor, vocab_size: int, generator: torch.Generator) -> Tensor:
    """A copy of ids (B, L) in which row b differs at every position from cuts[b] on, and nowhere before."""
    import torch

    shift = torch.randint(1, max(2, vocab_size), ids.shape, generator=generator)
    late = torch.arange(ids.shape[1])[None, :] >= cuts[:, None]
    return torch.where(late, (ids + shift) % vocab_size, ids)


def _unchanged(
    subject: Subject, mode: str, logits_of: Callable[[Tensor], Tensor], ids: Tensor, changed: Tensor, cuts: Tensor
) -> Row:
    import torch

    tolerance = TOLERANCE[subject.dtype]
    rows = max(1, _ELEMENTS // (ids.shape[1] * subject.vocab_size))
    worst, squares, count = 0.0, 0.0, 0
    seen: list[tuple[int, Tensor]] = []
    for start in range(0, len(ids), rows):
        part = slice(start, start + rows)
        before = logits_of(ids[part].to(subject.device)).double()
        after = logits_of(changed[part].to(subject.device)).double()
        squares += float(before.square().sum())
        count += before.numel()
        for row, cut in enumerate(cuts[part].tolist()):
            change = (after[row, :cut] - before[row, :cut]).abs().amax(-1)  # (cut,)
            worst = max(worst, float(change.max())) if bool(torch.isfinite(change).all()) else float("inf")
            seen.append((cut, change.cpu()))
    scale = (squares / count) ** 0.5
    detail = f"{len(cuts)} cuts in windows of {ids.shape[1]} tokens, {subject.dtype}"
    leaks = [(int((change > tolerance * scale).nonzero()[0]), cut) for cut, change in seen if bool((change > tolerance * scale).any())]
    if leaks:
        position, cut = leaks[0]
        detail += f"; {len(leaks)} cuts leak: logits at position {position} change with the tokens from {cut} on"
    return at_most(subject.name, mode, worst / scale if scale else worst, tolerance, control=subject.control, detail=detail)


def _agreement(subject: Subject, ids: Tensor, prompt: int) -> Row:
    import torch

    assert subject.prefill is not None
    assert subject.step is not None
    ids = ids.to(subject.device)
    whole = subject.forward(ids).double()
    logits, state = subject.prefill(ids[:, :prompt])
    pieces = [logits.double()]
    for position in range(prompt, ids.shape[1]):
        logits, state = subject.step(ids[:, position], state)
        pieces.append(logits.double()[:, None])
    apart = (torch.cat(pieces, 1) - whole).abs().max() / whole.square().mean().sqrt()
    detail = f"prompt of {prompt}, then {ids.shape[1] - prompt} single tokens, against one pass; {subject.dtype}"
    return at_most(subject.name, "step", float(apart), STEP_FACTOR * TOLERANCE[subject.dtype], control=subject.control, detail=detail)
