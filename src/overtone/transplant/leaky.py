"""LeakyBlock: the control that an honest audit must flag. Not a model to use.

The published block ran its slower levels on a mean-pooled sequence (`compress: 4`, so 4 and 16 tokens) and spread the result back
to every token of the pooled group. Without a shift, the first token of a group is told about the other 3 (15), which come after it.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from overtone.ops import linear_scan
from overtone.transplant.block import HarmonicBlock


class LeakyBlock(HarmonicBlock):
    """HarmonicBlock whose levels 2 and 3 are pooled over 4 and 16 tokens and spread back unshifted: not causal."""

    def _recur(self, level: int, z: Tensor, drive: Tensor, initial: Tensor | None, padding: Tensor | None) -> tuple[Tensor, Tensor]:
        if level == 0:
            return super()._recur(level, z, drive, initial, padding)
        stride = self.options.compress**level
        keep = torch.exp(stride * F.logsigmoid(_pool(z, stride)))  # a pooled step is `stride` tokens long
        h, final = linear_scan(keep, (1 - keep) * _pool(drive, stride), initial, return_final=True)
        return h.repeat_interleave(stride, dim=1)[:, : z.shape[1]], final


def _pool(x: Tensor, stride: int) -> Tensor:
    """Means over groups of `stride` tokens, the last one possibly shorter: (B, L, n) -> (B, ceil(L / stride), n)."""
    return F.avg_pool1d(x.transpose(1, 2), stride, ceil_mode=True).transpose(1, 2)
