"""What a run shows while it works: log lines, a bar on a terminal, TensorBoard where asked."""

from __future__ import annotations

import math
import os
import shlex
import sys
import time
from pathlib import Path
from typing import Any

from overtone.errors import UserError
from overtone.training.run import RunState


class Progress:
    """Reports one run on stderr. The bar shows only on a terminal; lines go to the rule's log either way.

    Of several ranks the first one speaks.
    """

    def __init__(self, title: str, tensorboard: Path | None = None) -> None:
        self.title = title
        self.bar: Any = None
        self.speaks = os.environ.get("RANK", "0") == "0"
        self.writer = _tensorboard_writer(tensorboard) if tensorboard and self.speaks else None
        self.interactive = self.speaks and sys.stderr.isatty()

    def log(self, line: str) -> None:
        """One line with the time of day, above the bar where there is one."""
        text = f"{time.strftime('%H:%M:%S')} {line}"
        if self.bar is not None:
            self.bar.write(text, file=sys.stderr)
        elif self.speaks:
            print(text, file=sys.stderr, flush=True)

    def start(self, tokens: int) -> None:
        """Open the bar of a run of so many tokens."""
        if self.interactive:
            from tqdm import tqdm

            self.bar = tqdm(total=tokens, unit="tok", unit_scale=True, desc=self.title, file=sys.stderr, leave=False)

    def step(self, run: RunState, nats_per_token: float, rate: float) -> None:
        """One optimizer step was taken."""
        bpt = nats_per_token / math.log(2)
        if self.bar is not None:
            self.bar.n = run.tokens
            self.bar.set_postfix(bpt=f"{bpt:.3f}", refresh=False)
            self.bar.refresh() if run.tokens >= self.bar.total else self.bar.update(0)
        if self.writer is not None:
            self.writer.add_scalar("train/bpt", bpt, run.tokens)
            self.writer.add_scalar("train/lr", rate, run.tokens)
            for point in run.validation_curve[-1:]:
                self.writer.add_scalar("validation/bpt", point["bpt"], point["tokens"])

    def close(self) -> None:
        """Close bar and writer."""
        if self.bar is not None:
            self.bar.close()
            self.bar = None
        if self.writer is not None:
            self.writer.close()


def command_line() -> str:
    """The command of this process, for the log."""
    return shlex.join(sys.argv)


def _tensorboard_writer(folder: Path) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise UserError(
            "--tensorboard: the package tensorboard is missing. Install it (pip install tensorboard) or leave "
            "the option out."
        ) from None
    return SummaryWriter(str(folder))
