"""A real trainer process is killed at ten random moments; what it ends with is bit-identical to an undisturbed run."""

import json
import os
import random
import signal
import subprocess
import sys
import time

import pytest
from trainer_process import train_words

FREE = ("measured", "environment")  # what may differ between two runs of one cell


def result(path):
    metrics = json.loads(path.read_text())
    return {key: value for key, value in metrics.items() if key not in FREE}


def steps_done(folder):
    names = [name for name in os.listdir(folder) if name.endswith(".safetensors")] if folder.is_dir() else []
    return max((int(name.split("-")[0]) for name in names), default=0)


@pytest.mark.parametrize(("model", "carry_state"), [("harmonic", True), ("transformer", False)])
def test_killed_at_ten_random_moments_the_cell_ends_bit_identical(make_cell, start_trainer, tmp_path, model, carry_state):
    steps = 120
    cell = make_cell(model, budget=64 * 2 * steps, carry_state=carry_state, checkpoint_every_s=0, validation_points=4)
    undisturbed = tmp_path / "undisturbed" / "metrics.json"
    start_trainer(cell, undisturbed, state=tmp_path / "other").finish()
    out, folder = tmp_path / "killed" / "metrics.json", tmp_path / "state" / cell.hash
    reached = 0
    for number, moment in enumerate(sorted(random.Random(20).sample(range(4, steps - 4), 10))):
        trainer = start_trainer(cell, out)
        trainer.wait_until(lambda moment=moment: steps_done(folder) >= moment)
        signum = signal.SIGTERM if number % 2 else signal.SIGKILL
        trainer.kill(signum)
        trainer.finish(143 if signum == signal.SIGTERM else -signal.SIGKILL)
        assert not out.exists()
        assert steps_done(folder) >= moment > reached
        reached = moment
    assert "resumed at step" in start_trainer(cell, out).finish()
    assert result(out) == result(undisturbed)
    assert result(out)["weights"]["sha256"]
    assert not folder.exists()


def test_killed_before_training_or_while_evaluating_it_still_ends_the_same(make_cell, start_trainer, tmp_path):
    cell = make_cell("transformer", checkpoint_every_s=0)
    undisturbed = tmp_path / "undisturbed" / "metrics.json"
    start_trainer(cell, undisturbed, state=tmp_path / "other").finish()
    out, folder = tmp_path / "metrics.json", tmp_path / "state" / cell.hash
    trainer = start_trainer(cell, out)
    trainer.wait_until((folder / "lock").exists)
    trainer.kill(signal.SIGKILL)
    trainer.finish(-signal.SIGKILL)
    trainer = start_trainer(cell, out)
    trainer.wait_until(lambda: steps_done(folder) == 8)  # the last step: evaluation comes next
    trainer.kill(signal.SIGKILL)
    trainer.finish(-signal.SIGKILL)
    start_trainer(cell, out).finish()
    assert result(out) == result(undisturbed)


def test_a_damaged_checkpoint_costs_a_step_and_nothing_else(make_cell, start_trainer, tmp_path):
    cell = make_cell("transformer", budget=64 * 2 * 60, checkpoint_every_s=0)
    undisturbed = tmp_path / "undisturbed" / "metrics.json"
    start_trainer(cell, undisturbed, state=tmp_path / "other").finish()
    out, folder = tmp_path / "metrics.json", tmp_path / "state" / cell.hash
    trainer = start_trainer(cell, out)
    trainer.wait_until(lambda: steps_done(folder) >= 20)
    trainer.kill(signal.SIGKILL)
    trainer.finish(-signal.SIGKILL)
    newest = max(folder.glob("*-*.safetensors"))
    newest.write_bytes(newest.read_bytes()[:-1000])
    said = start_trainer(cell, out).finish()
    assert "damaged" in said
    assert f"resumed at step {int(newest.name.split('-')[0]) - 1} " in said
    assert result(out) == result(undisturbed)


def test_a_changed_rate_never_resumes_the_old_run(make_cell, start_trainer, tmp_path):
    """A swept cell keeps its hash when the sweep chooses another rate."""
    cell = make_cell("transformer", lr="swept", budget=64 * 2 * 400, checkpoint_every_s=0)
    rate = tmp_path / "chosen.json"
    rate.write_text(json.dumps({"chosen": 0.01}))
    trainer = start_trainer(cell, tmp_path / "metrics.json", "--rate-file", str(rate))
    trainer.wait_until(lambda: steps_done(tmp_path / "state" / cell.hash) >= 3)
    trainer.kill(signal.SIGTERM)
    trainer.finish(143)
    rate.write_text(json.dumps({"chosen": 0.02}))
    trainer = start_trainer(cell, tmp_path / "metrics.json", "--rate-file", str(rate))
    trainer.wait_until(lambda: "another configuration" in trainer.said())
    trainer.kill(signal.SIGINT)
    assert "resumed" not in trainer.finish(130)


def test_two_trainers_on_one_cell_are_impossible(make_cell, start_trainer, tokens, tmp_path):
    """The first from the command line, as a rule starts it; the second is refused."""
    cell = make_cell("transformer", budget=64 * 2 * 4000, checkpoint_every_s=0)
    out = tmp_path / "metrics.json"
    command = [sys.executable, "-m", "overtone.cli", *train_words(cell, tokens, tmp_path / "state", out)]
    first = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        while not steps_done(tmp_path / "state" / cell.hash):
            assert first.poll() is None
            time.sleep(0.01)
        said = start_trainer(cell, out).finish(2)
        assert f"another trainer (process {first.pid}) is at work on this cell" in said
    finally:
        first.send_signal(signal.SIGINT)
        said = first.communicate(timeout=60)[0]
    assert first.returncode == 130
    assert "run the same command to go on" in said
    assert str(cell.key) in said
    assert "-m overtone.cli train" in said or "cli.py train" in said
    assert not out.exists()
