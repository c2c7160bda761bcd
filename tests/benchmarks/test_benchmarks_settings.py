"""Settings of benchmarks: where they come from, and what is told of a wrong one before anything is measured."""

import argparse
import re
from dataclasses import dataclass

import pytest
import torch
from toy_study import toy_study

from overtone.benchmarks import settings as module
from overtone.benchmarks.settings import add_settings, check_benchmarks, resolve_settings, setting
from overtone.cli import main
from overtone.errors import UserError
from overtone.files import write_json
from overtone.study import load_study


@dataclass(frozen=True)
class Settings:
    contexts: tuple[int, ...] = setting((1, 2), "c")
    hidden: int = setting(64, "h")
    limit_s: float = setting(1.5, "l")
    match: str = setting("", "m")
    dtype: str = setting("float32", "d")
    seed: int = setting(0, "s")
    window: int = setting(8, "w", least=2)
    compile: bool = setting(False, "b")


def resolve(tmp_path, words, section):
    parser = argparse.ArgumentParser()
    add_settings(parser, Settings)
    parser.add_argument("--study")
    if section is not None:
        write_json(tmp_path / "study.json", dict(toy_study(benchmarks={"decode": section}).data))
        words = [*words, "--study", str(tmp_path / "study.json")]
    return resolve_settings(parser.parse_args(words), "decode", Settings)


def test_flags_go_over_the_study_and_the_study_over_defaults(tmp_path):
    settings, study = resolve(tmp_path, ["--hidden", "8", "--contexts", "5", "6", "--compile"], {"hidden": 16, "limit_s": 3})
    assert settings == Settings(contexts=(5, 6), hidden=8, limit_s=3.0, compile=True)
    assert study.name == "toy"
    assert resolve(tmp_path, [], None) == (Settings(), None)


def test_a_benchmark_runs_where_the_cells_do(tmp_path, monkeypatch):
    from overtone.benchmarks.throughput import Settings as Throughput

    asked = []
    monkeypatch.setattr(module, "usable", asked.append)
    for device, section, words, expected in (("cuda", {}, [], "cuda"), ("cuda", {"device": "cpu"}, [], "cpu"),
                                             ("cpu", {}, ["--device", "cuda"], "cuda"),
                                             ("auto", {}, [], "cuda" if torch.cuda.is_available() else "cpu")):
        write_json(tmp_path / "study.json", dict(toy_study(device=device, benchmarks={"throughput": section}).data))
        parser = argparse.ArgumentParser()
        add_settings(parser, Throughput)
        parser.add_argument("--study")
        args = parser.parse_args([*words, "--study", str(tmp_path / "study.json")])
        assert resolve_settings(args, "throughput", Throughput)[0].device == expected
        assert asked.pop() == expected


@pytest.mark.parametrize(
    ("section", "told"),
    [
        ({"hiden": 3}, "Did you mean 'hidden'"),
        ({"hidden": "x"}, "expected int"),
        ({"contexts": []}, "expected a list of int"),
        ({"contexts": [1.5]}, "list of int"),
        ({"compile": 1}, "expected bool"),
        ({"hidden": -1}, "hidden: found -1, expected at least 1"),
        ({"hidden": True}, "expected int"),
        ({"hidden": None}, "found None, expected int"),
        ({"contexts": [4, 0]}, "expected at least 1"),
        ({"window": 1}, "expected at least 2"),
        ({"seed": -1}, "expected at least 0"),
        ({"limit_s": -0.5}, "expected at least 0"),
        ({"dtype": "floaty"}, "'floaty' is not known"),
    ],
)
def test_mistakes_in_a_study_name_the_key(tmp_path, section, told):
    with pytest.raises(UserError, match=told) as error:
        resolve(tmp_path, [], section)
    assert "benchmarks.decode" in str(error.value)

def test_a_seed_and_a_limit_may_be_0(tmp_path):
    found, _ = resolve(tmp_path, ["--seed", "0"], {"limit_s": 0})
    assert (found.seed, found.limit_s) == (0, 0.0)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["kernel-tail", "--lengths", "1"], "--lengths: found [1], expected at least 2"),
        (["kernel-tail", "--lengths", "16", "--tail", "32"], "tail: found 32, expected at most"),
        (["throughput", "--repetitions", "0"], "--repetitions: found 0, expected at least 1"),
        (["memory", "--batch", "0"], "--batch: found 0"),
        (["memory", "--lengths", "64", "32"], "expected rising lengths"),
        (["decode", "--batches", "0"], "--batches: found [0], expected at least 1"),
        (["decode", "--dtype", "floaty"], "--dtype: 'floaty' is not known"),
        (["scan", "--repetitions", "0"], "--repetitions: found 0"),
        *([[name, "--device", "tpu"], "'tpu' cannot be used"] for name in ("decode", "kernel-tail", "memory", "scan", "throughput")),
        (["throughput", "--device", "meta"], "'meta' cannot be used"),
    ],
)
def test_a_wrong_flag_is_one_line(words, told, capsys, tmp_path):
    assert main(["bench", *words, "--out", str(tmp_path / "x.json")]) == 2
    said = capsys.readouterr().err
    assert told in said
    assert len(said.strip().splitlines()) == 1
    assert not (tmp_path / "x.json").exists()


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU is here")
@pytest.mark.parametrize("name", ["decode", "kernel-tail", "memory", "scan", "throughput"])
def test_a_missing_gpu_is_one_line(name, capsys, tmp_path):
    assert main(["bench", name, "--device", "cuda", "--out", str(tmp_path / "x.json")]) == 2
    said = capsys.readouterr().err
    assert "--device: 'cuda' cannot be used" in said
    assert len(said.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("section", "told"),
    [
        ({"decode": {"contxts": [8]}}, "benchmarks.decode: key: 'contxts' is not known. Did you mean 'contexts'"),
        ({"memory": {"limit_gb": "much"}}, "benchmarks.memory.limit_gb: found 'much', expected float"),
        ({"kernel_tail": {"heads": 0}}, "benchmarks.kernel_tail.heads: found 0, expected at least 1"),
        ({"throughput": {"architectures": ["harmonik"]}}, "Did you mean 'harmonic'"),
        ({"throughput": {"size": "d17"}}, "benchmark size: 'd17' is not known. Did you mean 'd16'"),
    ],
)
def test_a_study_is_checked_before_anything_is_measured(section, told):
    with pytest.raises(UserError, match=re.escape(told)):
        check_benchmarks(toy_study(benchmarks=section))


@pytest.mark.parametrize("name", ["smoke", "mini", "paper"])
def test_the_studies_that_ship_have_settings_that_their_benchmarks_take(name):
    check_benchmarks(load_study(name))
