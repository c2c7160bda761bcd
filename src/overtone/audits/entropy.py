"""The entropy floor: on uniformly random tokens no causal model can average below log2(V) bits a token.

A causal model names a distribution p_t before it sees token t, and the token is drawn uniformly from V whatever it named,
so V * p_t(token) has mean 1 and the product over all N tokens is a martingale with mean 1. By Markov's inequality a causal model
therefore saves k bits in total against log2(V) with probability at most 2^-k: the threshold log2(V) - k/N needs no estimate of a
variance and holds for every model. Falling below it means that the model has seen the tokens it predicts.
"""

from __future__ import annotations

import math

from overtone.audits.report import Row, at_least
from overtone.audits.subjects import Subject, draw_tokens, named_generator

BITS = 20.0  # an honest model falls below the threshold once in 2^20 audits
_ELEMENTS = 1 << 26


def audit_entropy(subject: Subject, *, windows: int = 4, length: int = 256, bits: float = BITS, seed: int = 0) -> list[Row]:
    """One row: mean bits a token over `windows` windows of `length` random tokens, and the floor less its sampling error.

    A model that takes fewer positions gets shorter windows and more of them.
    """
    import torch

    if subject.positions is not None and subject.positions < length:
        windows, length = -(-windows * length // subject.positions), subject.positions

    ids = draw_tokens((windows, length), subject.vocab_size, named_generator("audit entropy", seed))
    rows = max(1, _ELEMENTS // (length * subject.vocab_size))
    total, squares, count = 0.0, 0.0, 0
    with torch.inference_mode():
        for start in range(0, windows, rows):
            part = ids[start : start + rows].to(subject.device)
            logits = subject.forward(part)[:, :-1].double()
            chosen = logits.gather(-1, part[:, 1:, None])[..., 0]
            surprise = (logits.logsumexp(-1) - chosen) / math.log(2)  # bits, (rows, length - 1)
            total += float(surprise.sum())
            squares += float(surprise.square().sum())
            count += surprise.numel()
    mean = total / count
    floor = math.log2(subject.vocab_size)
    deviation = math.sqrt(max(0.0, squares / count - mean * mean) / count) if math.isfinite(squares) else float("nan")
    detail = f"floor {floor:.4f} = log2({subject.vocab_size}), {count} tokens, standard error {deviation:.4f}"
    return [at_least(subject.name, "parallel", mean, floor - bits / count, control=subject.control, detail=detail)]
