"""Signals and vanished parents, with real processes that import no torch."""

import os
import signal
import subprocess
import sys
import time

import pytest

from overtone.training.interrupt import Interrupted, parent_of, stop_on_signals, watched_ancestors

TRAINER = (
    "import sys, time; from pathlib import Path;"
    "from overtone.training.interrupt import stop_on_signals, stop_with_parents\n"
    "__import__('signal').signal(1, 0)\n"  # under nohup, which these tests may run under, a trainer outlives its parents on purpose
    "with stop_on_signals() as stop:\n"
    "    stop_with_parents()\n"
    "    Path(sys.argv[1]).write_text(str(__import__('os').getpid()))\n"
    "    for _ in range(600):\n"
    "        time.sleep(0.05)\n"
    "        if stop.signum: Path(sys.argv[1] + '.stopped').write_text(str(stop.signum)); break\n"
)


def wait_for(condition, seconds=60.0):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return False


def ended(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_a_signal_sets_the_flag_and_a_later_one_ends_the_process():
    with stop_on_signals() as stop:
        stop.check()
        os.kill(os.getpid(), signal.SIGTERM)
        assert wait_for(lambda: stop.signum == signal.SIGTERM, 2)
        with pytest.raises(Interrupted) as told:
            stop.check()
    assert told.value.exit_code == 143
    code = (
        "import os, signal, time; from overtone.training import interrupt\n"
        "interrupt.GRACE_S = 0.05\n"
        "with interrupt.stop_on_signals():\n"
        "    os.kill(os.getpid(), signal.SIGINT); os.kill(os.getpid(), signal.SIGTERM); print('told twice', flush=True)\n"
        "    time.sleep(0.1); os.kill(os.getpid(), signal.SIGINT); print('alive')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGINT
    assert done.stdout == "told twice\n"


def test_parents_are_watched_through_shells():
    code = "from overtone.training.interrupt import watched_ancestors; print(len(watched_ancestors()))"
    direct = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    shelled = subprocess.run(["bash", "-c", f'{sys.executable} -c "{code}"; true'], capture_output=True, text=True, check=True)
    assert (direct.stdout, shelled.stdout) == ("1\n", "2\n")
    assert watched_ancestors()[0] == (os.getpid(), os.getppid())
    assert parent_of(os.getpid()) == os.getppid()


@pytest.mark.parametrize("shell", [False, True])
def test_a_trainer_stops_when_its_workflow_was_killed(tmp_path, shell):
    """The workflow dies by SIGKILL; with a shell between them the trainer's own parent lives on."""
    script, note = tmp_path / "trainer.py", tmp_path / "pid"
    script.write_text(TRAINER)
    command = ["bash", "-c", f"{sys.executable} {script} {note}; true"] if shell else [sys.executable, str(script), str(note)]
    workflow = subprocess.Popen([sys.executable, "-c", f"import subprocess; subprocess.run({command!r})"])
    assert wait_for(lambda: note.exists() and note.read_text())
    trainer = int(note.read_text())
    workflow.kill()
    workflow.wait()
    assert wait_for(lambda: (tmp_path / "pid.stopped").exists()), "the trainer trained on"
    assert int((tmp_path / "pid.stopped").read_text()) == signal.SIGTERM
    assert wait_for(lambda: ended(trainer))


def test_nohup_outlives_its_parents(tmp_path):
    script, note = tmp_path / "trainer.py", tmp_path / "pid"
    script.write_text(TRAINER)
    command = ["nohup", sys.executable, str(script), str(note)]
    workflow = subprocess.Popen(
        [sys.executable, "-c", f"import subprocess; subprocess.run({command!r})"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    assert wait_for(lambda: note.exists() and note.read_text())
    trainer = int(note.read_text())
    workflow.kill()
    workflow.wait()
    time.sleep(1.5)
    try:
        assert not ended(trainer)
    finally:
        os.kill(trainer, signal.SIGKILL)
