import json

import pytest

from overtone.cli import main
from overtone.errors import UserError
from overtone.study.schema import schema
from overtone.training.sweep import best_rate, choose_rate


def trial(rate, bpt, status="ok", architecture="harmonic", budget=100):
    evaluation = {"validation": {"bpt": bpt}} if status == "ok" else {}
    return {"status": status, "lr": rate, "budget": budget, "evaluation": evaluation,
            "cell": {"architecture": architecture, "protocol": "p"}}


def test_the_lowest_validation_loss_wins():
    found = choose_rate([trial(0.01, 3.0), trial(0.001, 2.5), trial(0.0001, 2.8)])
    assert found["chosen"] == 0.001
    assert found["edge"] is False
    assert [row["rate"] for row in found["trials"]] == [0.0001, 0.001, 0.01]
    assert (found["architecture"], found["protocol"]) == ("harmonic", "p")


@pytest.mark.parametrize("best", [0.0001, 0.01])
def test_the_edge_of_the_grid_is_told(best):
    found = choose_rate([trial(rate, 2.0 if rate == best else 3.0) for rate in (0.0001, 0.001, 0.01)])
    assert (found["chosen"], found["edge"]) == (best, True)


def test_a_tie_goes_to_the_lower_rate():
    assert choose_rate([trial(0.01, 2.0), trial(0.001, 2.0), trial(0.1, 5.0)])["chosen"] == 0.001


def test_failed_trials_are_listed_and_never_chosen():
    found = choose_rate([trial(0.1, 0.0, "diverged"), trial(0.01, 2.0), trial(0.001, 0.0, "oom")])
    assert found["chosen"] == 0.01
    assert [(row["status"], row["validation_bpt"]) for row in found["trials"]] == [("oom", None), ("ok", 2.0), ("diverged", None)]


def test_where_every_trial_failed_the_lowest_rate_is_left():
    found = choose_rate([trial(0.1, 0.0, "diverged"), trial(0.01, 0.0, "diverged")])
    assert (found["chosen"], found["edge"]) == (0.01, True)


@pytest.mark.parametrize(("trials", "said"), [
    ([], "no trials"),
    ([trial(0.1, 1.0), trial(0.1, 1.0)], "twice"),
    ([trial(0.1, 1.0), trial(0.2, 1.0, architecture="llama")], "more than one architecture"),
    ([trial(0.1, 1.0), trial(0.2, 1.0, budget=7)], "different budgets"),
])
def test_what_cannot_be_compared_is_refused(trials, said):
    with pytest.raises(UserError, match=said):
        choose_rate(trials)


def test_the_verb_writes_what_was_chosen(tmp_path):
    for name, value in (("a", trial(0.01, 3.0)), ("b", trial(0.001, 2.5))):
        (tmp_path / name).write_text(json.dumps(dict.fromkeys(schema("metrics")["required"]) | value))
    assert main(["choose-rate", "--trials", str(tmp_path / "a"), str(tmp_path / "b"), "--out", str(tmp_path / "chosen.json")]) == 0
    assert json.loads((tmp_path / "chosen.json").read_text())["chosen"] == 0.001


def test_the_best_rate_of_trials_that_all_failed_is_the_lowest():
    assert best_rate([(0.1, None), (0.01, None)]) == 0.01
    assert best_rate([(0.1, 3.0), (0.01, None)]) == 0.1
