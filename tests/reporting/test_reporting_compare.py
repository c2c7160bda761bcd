"""Two runs side by side: identical, within noise, beyond it, or not comparable."""

import copy
import shutil

import numpy as np
import pytest
from report_factory import small_study
from results_factory import write_results

from overtone.cli import main
from overtone.errors import UserError
from overtone.files import read_json, write_json
from overtone.reporting.compare import EXCEEDS, IDENTICAL, INCOMPARABLE, OUTCOME, WITHIN, compare_runs, comparison_text


def study(seeds=(1, 2, 3)):
    data = small_study()
    smaller = {"architectures": ["harmonic", "transformer"], "lengths": [128, 512], "seeds": list(seeds)}
    crossover = data["experiments"]["crossover"] | smaller
    return data | {"experiments": {"crossover": crossover}, "audits": {}}


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    return write_results(tmp_path_factory.mktemp("first"), study(), lambda cell: "ok")


@pytest.fixture
def second(first, tmp_path):
    """A copy, and a function that edits the metrics of some of its cells."""
    folder = tmp_path / "factory"
    shutil.copytree(first, folder)

    def edit(change, **where):
        for path in (folder / "cells").rglob("metrics.json"):
            metrics = read_json(path)
            if all(metrics["cell"][key] == value for key, value in where.items()):
                change(metrics)
                write_json(path, metrics)

    return folder, edit


def verdicts(a, b):
    return {item["group"].split("/")[3] + "/" + item["group"].split("/")[5]: item for item in compare_runs(a, b)["differences"]}


def shifted(amount, noise=0.0, stream=0):
    generator = np.random.default_rng(stream)

    def change(metrics):
        scores = metrics["evaluation"]["test"]
        scores["window_bpt"] = [value + amount + noise * generator.normal() for value in scores["window_bpt"]]
        scores["bpt"] = float(np.mean(scores["window_bpt"]))

    return change


def test_a_copy_is_identical(first, second):
    found = verdicts(first, second[0])
    assert len(found) == 4
    assert {item["verdict"] for item in found.values()} == {IDENTICAL}
    assert all(item["value"] == 0 and item["config"] == "same" for item in found.values())


def test_a_real_difference_exceeds_noise_and_noise_does_not(first, second):
    folder, edit = second
    edit(shifted(0.05, 0.01), architecture="harmonic", length=512)
    edit(shifted(0.0, 0.01, stream=1), architecture="transformer", length=512)
    found = verdicts(first, folder)
    assert found["harmonic/512"]["verdict"] == EXCEEDS
    assert found["harmonic/512"]["value"] == pytest.approx(0.05, abs=0.01)
    assert (found["harmonic/512"]["pairing"], found["harmonic/512"]["seeds"]) == ("windows and seeds", 3)
    assert found["transformer/512"]["verdict"] == WITHIN
    assert found["harmonic/128"]["verdict"] == IDENTICAL


def test_seeds_that_disagree_are_noise(first, second):
    """Every window of every seed moves, but not in one direction."""
    folder, edit = second
    for seed, amount in ((1, 0.05), (2, -0.04), (3, 0.01)):
        edit(shifted(amount, 0.001), architecture="harmonic", length=512, seed=seed)
    assert verdicts(first, folder)["harmonic/512"]["verdict"] == WITHIN


def test_other_plans_are_compared_by_their_seeds(first, second):
    folder, edit = second

    def replan(metrics):
        metrics["plan"]["digest"] = metrics["plan"]["digest"][::-1]

    edit(replan, architecture="harmonic", length=512)
    edit(shifted(2.0), architecture="harmonic", length=512)
    found = verdicts(first, folder)["harmonic/512"]
    assert found["pairing"] == "seeds"
    assert found["verdict"] == EXCEEDS
    cells = sorted(first.glob("cells/harmonic/*/*/harmonic/*/512/*/metrics.json"))
    reference = [read_json(path)["evaluation"]["test"]["bpt"] for path in cells]
    from scipy.stats import ttest_ind

    other = [value + 2.0 for value in reference]
    expected = ttest_ind(other, reference, equal_var=False)
    assert found["low"] == pytest.approx(expected.confidence_interval().low, rel=1e-6)


def test_one_seed_of_another_plan_cannot_be_compared(tmp_path):
    a = write_results(tmp_path / "a", study(seeds=(1,)), lambda cell: "ok")
    b = write_results(tmp_path / "b", study(seeds=(2,)), lambda cell: "ok")
    found = verdicts(a, b)
    assert {item["verdict"] for item in found.values()} == {INCOMPARABLE}
    assert "fewer than two seeds" in found["harmonic/512"]["detail"]


def test_a_lost_cell_is_a_difference_of_outcome(first, second):
    folder, edit = second

    def lose(metrics):
        metrics.update(status="oom", evaluation={})

    edit(lose, architecture="transformer", length=512)
    found = verdicts(first, folder)["transformer/512"]
    assert found["verdict"] == OUTCOME
    assert found["detail"] == "A ok, B oom"


def test_settings_machines_speed_and_memory_are_told(first, second):
    folder, edit = second

    def other_machine(metrics):
        metrics["environment"] |= {"device": "Another CPU", "commit": "1" * 40, "packages": {"torch": "9.9"}}
        metrics["measured"] |= {"train_tokens_per_s": 42_000.0, "peak_bytes": metrics["measured"]["peak_bytes"] // 2}

    edit(other_machine)
    data = copy.deepcopy(read_json(folder / "study.json"))
    data["protocols"]["harmonic"]["clip"] = 0.5
    write_json(folder / "study.json", data)
    content = compare_runs(first, folder)
    item = content["differences"][0]
    assert item["speed"] == pytest.approx(2.0)
    assert item["memory"] == pytest.approx(0.5, rel=1e-3)
    assert "training.clip 1.0 / 0.5" in item["config"]
    text = comparison_text(content)
    for part in ("Another CPU", "1" * 40, "9.9", "4 identical."):
        assert part in text


def test_many_groups_are_corrected_together(first, second):
    folder, edit = second
    edit(shifted(0.011, 0.014, stream=3), architecture="harmonic", length=512)
    alone = verdicts(first, folder)["harmonic/512"]
    edit(shifted(0.0, 0.01, stream=4), architecture="transformer")
    edit(shifted(0.0, 0.01, stream=5), architecture="harmonic", length=128)
    together = verdicts(first, folder)["harmonic/512"]
    assert together["p"] >= alone["p"]


def test_the_verb_prints_and_writes(first, second, tmp_path, capsys):
    assert main(["compare", str(first), str(second[0]), "--out", str(tmp_path / "c.json")]) == 0
    assert "4 identical." in capsys.readouterr().out
    assert len(read_json(tmp_path / "c.json")["differences"]) == 4
    assert main(["compare", str(first), str(tmp_path)]) == 2
    assert "no study.json" in capsys.readouterr().err


def test_runs_without_anything_in_common_are_told(first, tmp_path):
    data = study()
    data["experiments"]["crossover"]["lengths"] = [256]
    other = write_results(tmp_path, data, lambda cell: "ok")
    with pytest.raises(UserError, match="share no protocol"):
        compare_runs(first, other)
