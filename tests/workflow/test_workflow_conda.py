"""Plumbing of --use-conda: a stand-in for conda (nothing is solved, no channel is asked) makes each environment.

What the environment files say is compared with requirements.lock in test_workflow_environments.py.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import conda_stand_in
import pytest
from checkout import Checkout, copy_repository

pytestmark = pytest.mark.xdist_group("workflow")  # one worker, one run of the study

FIGURE = "reports/smoke/figures/quality.svg"
VERBS = {
    "data": {"study", "fetch", "extract", "split", "tokenizer", "tokenize", "gather"},
    "train": {"preflight", "train"},
    "report": {"table", "figure"},
}


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """A checkout in which tokens, two cells, a table and a figure of smoke were made under --use-conda."""
    checkout = copy_repository(tmp_path_factory.mktemp("conda") / "overtone")
    programs = conda_stand_in.install(tmp_path_factory.mktemp("stand-in") / "conda")
    checkout.snakemake("--use-conda", "--config", "study=smoke", "--", FIGURE, PATH=f"{programs}:/usr/bin:/bin", PYTHONPATH="/nowhere")
    return checkout


def environments(checkout: Checkout) -> dict[str, list[dict[str, object]]]:
    """Environment name -> the Pythons that were started in it."""
    found = {}
    for path in (checkout.path / ".snakemake/conda").glob("*.runs"):
        definition = Path(str(path).removesuffix(".runs") + ".yaml").read_text()
        name = next(file.stem for file in (checkout.path / "envs").glob("*.yaml") if file.read_text() == definition)
        found[name] = [json.loads(line) for line in path.read_text().splitlines()]
    return found


def test_every_rule_ran_inside_its_own_environment(ran: Checkout) -> None:
    assert (ran.path / FIGURE).stat().st_size > 1000
    cells = [json.loads(path.read_text()) for path in (ran.path / "results").rglob("metrics.json")]
    assert [cell["status"] for cell in cells] == ["ok", "ok"]
    for name, verbs in VERBS.items():
        started = environments(ran)[name]
        assert len({run["prefix"] for run in started}) == 1
        called = re.findall(r"workflow/scripts/overtone\.py ([a-z-]+)", "\n".join(" ".join(run["argv"]) for run in started))  # type: ignore[arg-type]
        assert set(called) == verbs


def test_the_package_is_found_without_pythonpath_or_installation(ran: Checkout) -> None:
    for started in environments(ran).values():
        assert {run["PYTHONPATH"] for run in started} == {None}
    assert not list((ran.path / ".snakemake/conda").glob("*/lib/python*/site-packages/*overtone*"))
