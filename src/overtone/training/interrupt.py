"""Being told to stop, and noticing that nobody waits any more. Imports no torch.

SIGTERM (Slurm's preemption, a cluster's grace period) and SIGINT set a flag; the loop finishes its step, writes a
checkpoint and leaves. A signal that comes later than GRACE_S after the first ends the process at once: the last
checkpoint on disk is whole anyway. Before that it is the same wish told twice, by a process group and by torchrun.

A trainer whose workflow was killed must not train on unseen. PR_SET_PDEATHSIG covers only the direct parent, which is
often a shell that outlives Snakemake, so the ancestors up to the first one that is no shell are watched instead. A
process that ignores SIGHUP (nohup) is meant to outlive its parents, and does.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

SHELLS = {"sh", "bash", "dash", "zsh", "ksh", "ash", "busybox"}
POLL_S = 0.5
GRACE_S = 2.0


class Interrupted(Exception):
    """Asked to stop by a signal; the work so far is in a checkpoint."""

    def __init__(self, signum: int) -> None:
        super().__init__(f"interrupted by {signal.Signals(signum).name}")
        self.signum = signum

    @property
    def exit_code(self) -> int:
        """128 + signal: 130 for SIGINT, 143 for SIGTERM."""
        return 128 + self.signum


class StopFlag:
    """Which signal asked to stop, if any."""

    def __init__(self) -> None:
        self.signum: int | None = None
        self.since = 0.0

    def check(self) -> None:
        """Raise Interrupted where a signal came."""
        if self.signum is not None:
            raise Interrupted(self.signum)


@contextmanager
def stop_on_signals() -> Iterator[StopFlag]:
    """A flag that SIGTERM and SIGINT set while the block runs; then the old handlers are back. Main thread only."""
    flag = StopFlag()

    def handle(signum: int, frame: FrameType | None) -> None:
        if flag.signum is None:
            flag.signum, flag.since = signum, time.monotonic()
        elif time.monotonic() - flag.since > GRACE_S:
            signal.signal(signum, signal.SIG_DFL)
            os.kill(os.getpid(), signum)

    before = {number: signal.signal(number, handle) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield flag
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def parent_of(pid: int) -> int:
    """The parent's process id; 0 where the process is gone."""
    try:
        # The name in parentheses may hold anything, so the fields are read behind its end.
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, ValueError, IndexError):
        return 0


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def watched_ancestors(pid: int | None = None) -> list[tuple[int, int]]:
    """(process, its parent) from this process up to the first ancestor that is no shell; init is never watched."""
    child = pid or os.getpid()
    links = []
    while (parent := parent_of(child)) > 1:
        links.append((child, parent))
        if _name(parent) not in SHELLS:
            break
        child = parent
    return links


def stop_with_parents() -> threading.Event | None:
    """Start a thread that sends this process SIGTERM once one of its watched ancestors is gone.

    Returns the event that ends the thread; None where nothing is to be watched.
    """
    links = watched_ancestors()
    if not links or signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
        return None
    done = threading.Event()

    def watch() -> None:
        while not done.wait(POLL_S):
            if any(parent_of(child) != parent for child, parent in links):
                os.kill(os.getpid(), signal.SIGTERM)
                return

    threading.Thread(target=watch, name="overtone-parents", daemon=True).start()
    return done
