"""The workflow as a part of other people's: a module of another workflow, and runs from elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest
from checkout import Checkout

pytestmark = pytest.mark.xdist_group("workflow")  # one worker, one run of the study

TOKENS = "tokens/enwiki-mini/bytes/train.json"


@pytest.fixture(scope="module")
def other(fresh: Checkout, tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """Another workflow, in its own folder, that uses overtone as a module: its own config, a prefix, a rule on top."""
    folder = tmp_path_factory.mktemp("other")
    (folder / "Snakefile").write_text(
        f"""
module overtone:
    snakefile:
        "{fresh.path}/Snakefile"
    config:
        {{"study": "smoke", "edit": {{"experiments": {{"ablations": {{"seeds": [1, 2]}}}}}}}}
    prefix:
        "borrowed"


use rule * from overtone as overtone_*


rule everything:
    default_target: True
    input:
        "borrowed/reports/smoke/index.html",
        "borrowed/reports/smoke/crate/ro-crate-metadata.json",


rule count:
    input:
        "borrowed/results/smoke/{TOKENS}",
    output:
        "count.txt",
    shell:
        "grep -c . {{input}} > {{output}}"
"""
    )
    return Checkout(folder, folder)


def test_a_module_plans_the_whole_study_under_its_prefix(other: Checkout, fresh: Checkout) -> None:
    jobs = {name.removeprefix("overtone_"): count for name, count in other.plan().items()}
    assert jobs.pop("everything") == 1
    expected = fresh.plan("--config", "study=smoke", "edit={experiments: {ablations: {seeds: [1, 2]}}}")
    expected.pop("all")
    assert jobs == expected
    outputs = [line.split(": ", 1)[1] for line in other.snakemake("--dry-run").text.splitlines() if line.startswith("    output: ")]
    assert outputs
    assert all(path.startswith("borrowed/") for line in outputs for path in line.split(", "))


def test_a_module_runs_and_another_rule_uses_what_it_made(other: Checkout) -> None:
    other.snakemake("count.txt")
    assert int((other.path / "count.txt").read_text()) > 0
    assert (other.path / "borrowed/results/smoke" / TOKENS).exists()
    assert {path.name for path in other.path.iterdir()} <= {"Snakefile", "borrowed", "count.txt", ".snakemake"}
    assert other.plan("count.txt") == {}


def test_a_run_from_another_directory_leaves_the_checkout_alone(fresh: Checkout, tmp_path: Path) -> None:
    target = "results/smoke/corpora/enwiki-mini/splits/splits.json"
    before = {path.name for path in fresh.path.iterdir()}
    fresh.snakemake("--directory", str(tmp_path / "elsewhere"), "--config", "study=smoke", "--", target, "results/smoke/study.json")
    assert (tmp_path / "elsewhere" / target).exists()
    assert {path.name for path in fresh.path.iterdir()} - before <= {".snakemake"}
    assert not (fresh.path / "results").exists()


def test_a_study_of_ones_own_in_another_directory(fresh: Checkout, tmp_path: Path) -> None:
    """A relative path to a study is seen from the directory of the run."""
    text = (fresh.path / "workflow/studies/smoke.yaml").read_text().replace("study: smoke\n", "study: mine\n", 1)
    (tmp_path / "mine.yaml").write_text(text)
    fresh.snakemake("--directory", str(tmp_path), "--config", "study=mine.yaml", "--", "results/mine/study.json")
    assert (tmp_path / "results/mine/study.json").exists()
