"""Probes beside bits per token: recall of a stretch read before, and the last word of a passage.

Recall is what purely recurrent students lose first: a stretch of held-out text is followed by itself, so from its second token on the
copy is predictable from the first reading, and from nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from overtone.errors import UserError
from overtone.training.run import LN2
from overtone.training.stream import Region
from overtone.transplant.scoring import with_bos


@torch.no_grad()
def recall(model: Any, region: Region, distance: int, windows: int, seed: int, batch_tokens: int,
           bos: int | None = None) -> dict[str, Any]:
    """Bits and accuracy on tokens 2.. of a stretch of `distance` tokens, read for the first and for the second time.

    `windows` stretches at starts drawn from `seed`; both readings score the same targets.
    """
    if region.size < distance + 1:
        raise UserError(f"recall: the held-out region has {region.size} tokens, a stretch of {distance} does not fit. Shorten "
                        "evaluation.recall.")
    starts = np.random.default_rng([seed, distance]).integers(0, region.size - distance, windows)
    ids = torch.stack([region.ids_at(int(start), distance) for start in starts])
    ids = torch.cat([ids, ids], dim=1).to(next(model.parameters()).device)  # (windows, 2 distance)
    rows = max(1, batch_tokens // (2 * distance))
    bits, hits = [], []
    for part in ids.split(rows):
        logits = model(input_ids=with_bos(part, bos), use_cache=False).logits[:, :-1].float()
        bits.append(F.cross_entropy(logits.transpose(1, 2), part[:, 1:], reduction="none") / LN2)
        hits.append((logits.argmax(-1) == part[:, 1:]).float())
    bit, hit = torch.cat(bits), torch.cat(hits)
    first, again = slice(0, distance - 1), slice(distance, 2 * distance - 1)
    return {
        "distance": distance, "windows": windows, "targets": windows * (distance - 1),
        "bpt_first": float(bit[:, first].mean()), "bpt_again": float(bit[:, again].mean()),
        "accuracy_first": float(hit[:, first].mean()), "accuracy_again": float(hit[:, again].mean()),
    }


def last_word(passage: str) -> tuple[str, str]:
    """(context, last word with the space before it). A passage of fewer than two words is a UserError."""
    context, space, word = passage.rstrip().rpartition(" ")
    if not context.strip() or not word:
        raise UserError(f"LAMBADA: passage {passage[:40]!r} has fewer than two words. Remove it.")
    return context, space + word


@torch.no_grad()
def last_word_accuracy(model: Any, encode: Any, passages: Sequence[str], context: int = 512) -> dict[str, Any]:
    """LAMBADA as a task: the share of passages whose last word, all of its tokens, is the likeliest continuation.

    `encode(text)` gives token ids. The word's tokens are those after the context's own when the passage is encoded whole. The last
    `context` tokens are read. bits_per_word: -log2 of the probability of the word.
    """
    device = next(model.parameters()).device
    right, bits = 0, 0.0
    for passage in passages:
        prompt, _ = last_word(passage)
        whole, start = list(map(int, encode(passage.rstrip()))), len(encode(prompt))
        cut = max(0, len(whole) - context)
        ids = torch.tensor([whole[cut:]], device=device)
        start = min(max(1, start - cut), ids.shape[1] - 1)
        logits = model(input_ids=ids, use_cache=False).logits[0, start - 1 : -1].float()  # (tokens of the word, V)
        wanted = ids[0, start:]
        right += bool((logits.argmax(-1) == wanted).all())
        bits += float(F.cross_entropy(logits, wanted, reduction="sum")) / LN2
    return {"passages": len(passages), "accuracy": right / len(passages), "bits_per_word": bits / len(passages)}
