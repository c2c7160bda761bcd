"""Call a function in a process of its own, forked from this one: its memory starts from here and ends with it."""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from collections.abc import Callable
from typing import Any


def in_child(call: Callable[[], Any]) -> Any:
    """The JSON-able result of `call`, run in a forked child; nothing it does reaches this process.

    Torch must not have started threads or CUDA here: a child that needs OpenMP's would wait for ever, and one whose parent has taken a
    backward pass may be refused its own. A child that raises or dies is a RuntimeError with what it said.
    """
    reader, writer = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.close(reader)
            with os.fdopen(writer, "w") as answer:
                json.dump(call(), answer)
            code = 0
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
        finally:
            os._exit(code)  # no clean-up: it belongs to the parent
    os.close(writer)
    with os.fdopen(reader) as answer:
        text = answer.read()
    _, status = os.waitpid(pid, 0)
    if status:
        code = os.waitstatus_to_exitcode(status)
        said = f"was ended by {signal.Signals(-code).name}" if code < 0 else "raised (see above)"
        raise RuntimeError(f"the child process {said}")
    return json.loads(text)
