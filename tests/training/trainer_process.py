"""`overtone train` in a process of its own, forked from a server that has imported torch: a start takes no seconds."""

import multiprocessing
import os
import sys
import time
from pathlib import Path

from overtone.files import canonical_json

# The server does not inherit sys.path, and passes over a module that it cannot import.
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(Path(__file__).parent), os.environ.get("PYTHONPATH")]))
_SERVER = multiprocessing.get_context("forkserver")
_SERVER.set_forkserver_preload(["trainer_server"])


def _call(words: list[str], log: str) -> None:
    from overtone.cli import main

    handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(handle, 1)
    os.dup2(handle, 2)
    code = main(words)
    sys.stderr.flush()
    os._exit(code)


def train_words(cell, tokens: Path, state: Path, out: Path) -> list[str]:
    """The command line of a cell, without the program."""
    return ["train", "--cell", canonical_json(cell.config()), "--tokens", str(tokens), "--state", str(state), "--out", str(out)]


class TrainerProcess:
    """A running trainer: its pid, its end and what it said."""

    def __init__(self, words: list[str], log: Path):
        self.log = log
        self.process = _SERVER.Process(target=_call, args=(words, str(log)))
        self.process.start()
        self.pid = self.process.pid

    def kill(self, signum: int) -> None:
        os.kill(self.pid, signum)

    def finish(self, code: int = 0) -> str:
        """Wait for the end, which must have this exit code (negative: a signal); returns the log."""
        self.process.join(300)
        assert self.process.exitcode == code, f"ended with {self.process.exitcode}: {self.said()}"
        return self.said()

    def said(self) -> str:
        """The log so far."""
        return self.log.read_text() if self.log.exists() else ""

    def wait_until(self, condition) -> None:
        """Wait while the trainer lives until the condition holds."""
        while not condition():
            assert self.process.exitcode is None, f"ended with {self.process.exitcode}: {self.said()}"
            time.sleep(0.001)
