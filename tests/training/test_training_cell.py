"""A cell from token files to metrics.json: outcomes, accumulation, ranks, resuming; through the verb's own function."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from trainer_process import train_words

from overtone.cli import main
from overtone.errors import UserError
from overtone.files import sha256_file, write_json
from overtone.models import flops_per_token, load_checkpoint
from overtone.study.schema import check
from overtone.training.cell import train_cell
from overtone.training.interrupt import Interrupted, StopFlag
from overtone.training.progress import Progress
from overtone.training.run import RunState


@pytest.fixture
def train(tokens, tmp_path):
    def run(cell, name="cell", **options):
        return train_cell(cell, tokens, tmp_path / name / "metrics.json", tmp_path / "state", **options)

    return run


def test_an_ok_cell_has_everything_and_its_weights(make_cell, train, tmp_path):
    cell = make_cell("harmonic")
    metrics = train(cell)
    out = tmp_path / "cell" / "metrics.json"
    assert json.loads(out.read_text()) == metrics
    check("metrics", metrics, "metrics.json")
    assert metrics["status"] == "ok"
    assert (metrics["key"], metrics["hash"], metrics["config"]) == (cell.key, cell.hash, cell.config())
    assert metrics["tokens_seen"] == metrics["budget"] == 1024
    assert metrics["steps"] == len(metrics["curve"]) == 8
    assert metrics["plan"]["windows"] == metrics["plan"]["consumed"] == 16
    assert [point["step"] for point in metrics["validation_curve"]] == [4, 8]
    assert metrics["evaluation"]["validation"]["targets"] == 1099 // 128 * 128
    assert metrics["evaluation"]["test"]["bpt"] < 5.5
    assert metrics["measured"]["peak_bytes"] > 0
    assert metrics["environment"]["threads"] == torch.get_num_threads()
    assert set(metrics["diagnostics"]["before"]) == set(metrics["diagnostics"]["after"])
    weights = out.parent / metrics["weights"]["file"]
    assert sha256_file(weights) == metrics["weights"]["sha256"]
    model = load_checkpoint(weights.parent)
    assert model.name == "harmonic"
    assert metrics["training_flops"] == 3 * flops_per_token(model, cell.length) * 1024
    assert not (tmp_path / "state" / cell.hash).exists()
    assert not list(tmp_path.rglob("*.part"))


def test_a_trial_does_not_read_test(make_cell, train):
    whole, trial = train(make_cell(), "cell"), train(make_cell(), "trial", evaluated=["validation"])
    check("metrics", trial, "metrics.json")
    assert set(trial["evaluation"]) == {"validation"}
    assert trial["evaluation"]["validation"] == whole["evaluation"]["validation"]


def test_weights_that_cannot_be_written_leave_the_old_model(make_cell, train, tmp_path, monkeypatch):
    cell = make_cell(budget=256)
    train(cell)
    before = sha256_file(tmp_path / "cell/model/model.safetensors")

    def full(model, folder):
        (folder / "config.json").write_text("half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("overtone.training.cell.save_checkpoint", full)
    with pytest.raises(UserError, match=r"cell/model: cannot be written \(No space left on device\)"):
        train(cell)
    assert sha256_file(tmp_path / "cell/model/model.safetensors") == before
    assert sorted(path.name for path in (tmp_path / "cell").iterdir()) == ["metrics.json", "model"]


def test_a_cell_speaks_with_its_own_tokenizer(make_cell, train, tokens, tmp_path, capsys):
    """`overtone generate` and transformers need no more than the folder of the weights."""
    vocab = json.loads((tokens / "train.json").read_text())["vocab_size"]
    characters = [chr(code) for code in range(ord("a"), ord("a") + vocab - 1)]  # id 0 is unknown
    shutil.copytree(tokens, tmp_path / "tokens")
    write_json(tmp_path / "tokens/tokenizer.json",
               {"kind": "characters", "vocab_size": vocab, "characters": characters, "digest": "0" * 64})
    train_cell(make_cell("harmonic"), tmp_path / "tokens", tmp_path / "cell/metrics.json", tmp_path / "state")
    assert main(["generate", "--checkpoint", str(tmp_path / "cell/model"), "--prompt", "abc", "--max-tokens", "5"]) == 0
    assert set(capsys.readouterr().out.strip()) <= {*characters, "\ufffd"}


def test_no_head_of_a_resonator_grows_at_any_step(make_cell, train):
    """A rate that throws the weights about, and every one of its steps recorded."""
    metrics = train(make_cell("resonator", options={"heads": 2}, lr=0.5))
    assert [point["step"] for point in metrics["curve"]] == list(range(1, 9))
    moduli = [point["max_modulus"] for point in metrics["curve"]]
    assert len(set(moduli)) == 8
    assert all(0 < modulus < 1 for modulus in moduli)
    assert moduli[-1] == pytest.approx(metrics["diagnostics"]["after"]["max_modulus"], rel=1e-6)


def test_a_point_of_the_curve_keeps_the_largest_value_since_the_last():
    run = RunState("", 1)
    for value in [0.5, 0.9, 0.2, 0.1, 0.3, 0.2]:
        run.record_step(600, 1, 10, 20.0, 0.1, {"max_modulus": value})
    assert [point["max_modulus"] for point in run.curve] == [0.9, 0.3]


def test_training_learns(make_cell, train):
    """The corpus is a counter with steps 0, 1, 2: log2(3) = 1.58 bits a token once learned, 5 by guessing."""
    metrics = train(make_cell("harmonic", budget=40960, tokens_per_step=256, lr=0.02))
    assert 1.5 < metrics["evaluation"]["test"]["bpt"] < 1.85
    curve = [point["train_bpt"] for point in metrics["curve"]]
    assert curve[0] > 4.5 > 2 > curve[-1]


def test_the_plan_is_the_same_for_every_architecture_and_rate(make_cell, train):
    found = {train(make_cell(model, lr=lr), model)["plan"]["digest"] for model, lr in (("transformer", 0.1), ("harmonic", 0.01))}
    assert len(found) == 1


def test_accumulated_batches_give_the_same_result(make_cell, train):
    whole = train(make_cell("harmonic", tokens_per_step=256), "whole")
    parts = train(make_cell("harmonic", tokens_per_step=256, batch=1), "parts")
    assert whole["plan"]["digest"] == parts["plan"]["digest"]
    for one, other in zip(whole["curve"], parts["curve"], strict=True):
        assert other["train_bpt"] == pytest.approx(one["train_bpt"], rel=1e-4)
    assert parts["evaluation"]["test"]["bpt"] == pytest.approx(whole["evaluation"]["test"]["bpt"], rel=1e-4)


def test_two_ranks_give_the_single_process_result(make_cell, train, tokens, tmp_path):
    """torchrun starts two gloo ranks on the CPU; 25 windows in steps of 4, so that the last step leaves a rank without any."""
    cell = make_cell("harmonic", budget=25 * 64, tokens_per_step=256)
    single = train(cell, "single")
    out = tmp_path / "ranks" / "metrics.json"
    words = [*train_words(cell, tokens, tmp_path / "state", out), "--gpus", "2", "--device", "cpu"]
    done = subprocess.run([sys.executable, "-m", "overtone.cli", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    both = json.loads(out.read_text())
    assert both["environment"]["ranks"] == 2
    assert both["plan"] == single["plan"]
    for one, other in zip(single["curve"], both["curve"], strict=True):
        assert other["train_bpt"] == pytest.approx(one["train_bpt"], rel=1e-4)
    for key in ("bpt", "accuracy", "window_bpt"):
        assert both["evaluation"]["test"][key] == pytest.approx(single["evaluation"]["test"][key], rel=2e-3)
    assert not (tmp_path / "state" / cell.hash).exists()


def test_oom_is_an_outcome_with_the_size_tried_and_the_peak(make_cell, start_trainer, tmp_path):
    """In a process of its own, whose memory no earlier test has shaped."""
    cell = make_cell("transformer", length=1024, hidden=64, budget=4096, tokens_per_step=2048, memory_limit_gb=0.02,
                     evaluation_length=1024)
    out = tmp_path / "cell" / "metrics.json"
    start_trainer(cell, out).finish()
    metrics = json.loads(out.read_text())
    check("metrics", metrics, "metrics.json")
    assert metrics["status"] == "oom"
    failure = metrics["failure"]
    assert failure["step"] == 1
    assert "1 x 1024 tokens at once" in failure["message"]  # two at once were tried before
    assert failure["requested_bytes"] is None or failure["requested_bytes"] > 0
    assert 0 < failure["peak_bytes"] < 40e6
    assert (metrics["evaluation"], metrics["weights"], metrics["plan"]["consumed"]) == ({}, None, 0)
    assert not (tmp_path / "cell" / "model").exists()


def test_a_batch_that_does_not_fit_is_accumulated(make_cell, start_trainer, tmp_path):
    """In processes of their own, whose memory no earlier test has shaped."""
    rules = {"length": 512, "hidden": 64, "budget": 8192, "tokens_per_step": 4096, "evaluation_length": 512}
    found = {}
    for name, limit in (("free", {}), ("tight", {"memory_limit_gb": 0.08})):
        out = tmp_path / name / "metrics.json"
        said = start_trainer(make_cell("transformer", **rules, **limit), out).finish()
        assert ("out of memory; going on with" in said) == (name == "tight")
        found[name] = json.loads(out.read_text())
    free, tight = found["free"], found["tight"]
    assert tight["status"] == "ok", tight["failure"]
    assert free["measured"]["peak_bytes"] > 60e6
    assert tight["evaluation"]["test"]["bpt"] == pytest.approx(free["evaluation"]["test"]["bpt"], rel=1e-3)


def test_divergence_is_an_outcome_with_step_and_rate(make_cell, train):
    metrics = train(make_cell("transformer", lr=1e30, warmup=0.0))
    check("metrics", metrics, "metrics.json")
    assert metrics["status"] == "diverged"
    assert metrics["failure"]["step"] >= 2
    assert metrics["failure"]["lr"] > 1e28
    assert metrics["steps"] == metrics["failure"]["step"] - 1 == metrics["plan"]["consumed"] // 2
    assert metrics["evaluation"] == {}


def test_a_failed_cell_leaves_no_old_weights_behind(make_cell, train, tmp_path):
    train(make_cell("transformer"))
    assert (tmp_path / "cell" / "model").is_dir()
    train(make_cell("transformer", lr=1e30, warmup=0.0))
    assert not (tmp_path / "cell" / "model").exists()


def test_the_rate_of_a_swept_cell_comes_from_its_file(make_cell, tokens, tmp_path):
    cell = make_cell(lr="swept")
    words = train_words(cell, tokens, tmp_path / "state", tmp_path / "metrics.json")
    assert main(words) == 2
    (tmp_path / "chosen.json").write_text('{"chosen": 0.005}')
    assert main([*words, "--rate-file", str(tmp_path / "chosen.json")]) == 0
    assert json.loads((tmp_path / "metrics.json").read_text())["lr"] == 0.005
    (tmp_path / "chosen.json").write_text("{}")
    assert main([*words, "--rate-file", str(tmp_path / "chosen.json")]) == 2


def test_mistakes_are_one_line(make_cell, tokens, tmp_path, capsys):
    cell = make_cell()
    words = train_words(cell, tokens, tmp_path / "state", tmp_path / "metrics.json")
    assert main([*words[:2], "{broken", *words[3:]]) == 2
    assert "--cell: not valid JSON" in capsys.readouterr().err
    assert main([*words[:4], str(tmp_path / "nowhere"), *words[5:]]) == 2
    assert "nowhere" in capsys.readouterr().err
    assert main(train_words(make_cell(length=4096), tokens, tmp_path / "state", tmp_path / "metrics.json")) == 2
    assert "Raise the budget" in capsys.readouterr().err


def test_a_corrupt_token_file_is_named(make_cell, tokens, tmp_path):
    copy = tmp_path / "tokens"
    copy.mkdir()
    for path in tokens.iterdir():
        (copy / path.name).write_bytes(path.read_bytes())
    raw = bytearray((copy / "train.bin").read_bytes())
    raw[10] ^= 1
    (copy / "train.bin").write_bytes(raw)
    with pytest.raises(UserError, match=r"train\.bin"):
        train_cell(make_cell(), copy, tmp_path / "metrics.json", tmp_path / "state")


def test_stopped_while_validating_no_point_of_the_curve_is_lost(make_cell, train, monkeypatch):
    from overtone.training import cell as module

    undisturbed = train(make_cell(), "undisturbed")
    stop = StopFlag()
    real = module.score_region

    def interrupted(*args, **options):
        stop.signum = 15
        return real(*args, **options)

    monkeypatch.setattr(module, "score_region", interrupted)
    with pytest.raises(Interrupted):
        train(make_cell(), "stopped", stop=stop)
    monkeypatch.setattr(module, "score_region", real)
    again = train(make_cell(), "stopped")
    assert again["measured"]["train_s"] > 0
    for key in ("validation_curve", "curve", "evaluation", "weights"):
        assert again[key] == undisturbed[key]


def test_a_bar_shows_on_a_terminal_only(capsys, monkeypatch):
    run = RunState(chain="", micro=1, tokens=50)
    for terminal in (False, True):
        monkeypatch.setattr("sys.stderr.isatty", lambda terminal=terminal: terminal, raising=False)
        progress = Progress("a cell")
        progress.start(100)
        progress.step(run, 1.0, 0.1)
        progress.log("a line")
        progress.close()
        said = capsys.readouterr().err
        assert "a line" in said
        assert ("a cell:" in said) == terminal


def test_tensorboard_on_request(make_cell, train, tmp_path):
    pytest.importorskip("tensorboard")
    train(make_cell(), tensorboard=Path(tmp_path / "events"))
    assert list((tmp_path / "events").iterdir())
