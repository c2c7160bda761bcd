"""What Snakemake plans before anything has run."""

from __future__ import annotations

import json
import re
from collections import Counter

import pytest
from checkout import ROOT, Ran

from overtone.study import EXHIBITS, experiment_cells, load_study, study_cells

pytestmark = pytest.mark.xdist_group("workflow")  # one worker, one run of the study

ALL_RULES = {
    re.match(r"rule (\w+):", line)[1]
    for path in [ROOT / "Snakefile", *(ROOT / "workflow/rules").glob("*.smk")]
    for line in path.read_text().splitlines()
    if re.match(r"rule (\w+):", line)
}


@pytest.mark.parametrize("study", ["smoke", "mini"])
def test_a_bare_dry_run_plans_every_rule(fresh, study):
    assert set(fresh.plan("--config", f"study={study}")) == ALL_RULES


def test_the_default_study_is_mini(fresh):
    assert fresh.plan() == fresh.plan("--config", "study=mini")


def test_the_paper_study_plans_its_whole_grid(fresh):
    jobs = fresh.plan("--config", "study=paper")
    assert jobs["train"] > 300
    assert jobs["tokenize"] == jobs["tokenizer"] * 3
    assert set(jobs) == ALL_RULES


def test_a_large_study_plans_every_cell_once_and_names_it_once_an_experiment(fresh):
    """A thousand cells. Edges grow with cells, not with cells times tables: what an experiment measured is one file."""
    edit = {"experiments": {"crossover": {"seeds": list(range(1, 91))}}}
    text = fresh.snakemake("--dry-run", "--quiet", "host", "--config", f"edit={json.dumps(edit)}").text
    study = load_study("mini", edit)
    cells, names = study_cells(study), list(study.experiments)
    assert len(cells) > 1000
    trained = re.findall(r"^    output: results/mini/cells/(.*)/metrics.json$", text, re.M)
    assert sorted(trained) == [cell.key for cell in cells]
    jobs = Ran(0, text).jobs
    assert set(jobs) == ALL_RULES
    assert (jobs["train"], jobs["gather"], jobs["table"]) == (len(cells), len(names), len(EXHIBITS))
    named = Counter(re.findall(r"results/mini/cells/(\S+)/metrics.json", "\n".join(re.findall(r"^    input: .*$", text, re.M))))
    expected = Counter(cell.key for name in names for cell in experiment_cells(study, name))
    expected.update(cell.key for cell in experiment_cells(study, "quality") if cell.model == "resonator")  # diagnose reads them
    assert {key: count for key, count in named.items() if not key.startswith("transplant/")} == expected


def test_a_study_of_transplants_alone_plans_what_it_can_measure(fresh):
    """No cell to compare, time or diagnose: two audits of models, no benchmark; and the page."""
    jobs = fresh.plan("--config", "study=smollm2")
    assert (jobs["audit"], jobs["transplant_evaluate"], jobs["page"]) == (2, 1, 1)
    assert not {"bench", "diagnose", "train", "trial"} & set(jobs)


def test_one_figure_plans_only_its_ancestors(fresh):
    jobs = fresh.plan("reports/mini/figures/crossover.pdf")
    assert jobs["figure"] == jobs["table"] == jobs["gather"] == 1
    assert jobs["train"] == 36  # 4 architectures, 3 lengths, 3 seeds
    assert not {"audit", "bench", "claims", "page", "transplant_train", "diagnose"} & set(jobs)


def test_the_plan_does_not_depend_on_the_hash_seed(fresh):
    plans = [fresh.snakemake("--dry-run", "--quiet", "host", PYTHONHASHSEED=seed).text for seed in "012"]
    jobs = [sorted(re.findall(r"^    (?:output|wildcards): .*$", text, re.M)) for text in plans]
    assert jobs[0]
    assert jobs[0] == jobs[1] == jobs[2]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["study=mimi"], ["study", "'mimi'", "Did you mean 'mini'"]),
        (["studdy=mini"], ["'studdy'", "Did you mean 'study'"]),
        (["edit={protocols: {harmonic: {budgett: 5}}}"], ["protocols.harmonic", "'budgett'", "Did you mean 'budget'"]),
        (["edit={protocols: {harmonic: {budget: -5}}}"], ["protocols.harmonic.budget", "-5", "at least 1"]),
        (["edit={protocols: {harmonic: {clip: big}}}"], ["protocols.harmonic.clip", '"big"', "number"]),
        (["edit={architectures: {harmonic: {model: harmonica}}}"], ["architectures.harmonic.model", "Did you mean 'harmonic'"]),
        (["edit={experiments: {crossover: {corpora: [enwiki-mimi]}}}"], ["'enwiki-mimi'", "Did you mean 'enwiki-mini'"]),
        (["edit={experiments: {crossover: {architectures: [transfomer]}}}"], ["'transfomer'", "Did you mean 'transformer'"]),
        (["edit={experiments: {crossover: {lengths: [100]}}}"], ["tokens_per_step", "100"]),
        (["edit={experiments: {crossover: {sizes: []}}}"], ["experiments.crossover.sizes"]),
        (["edit={tokenizers: {bytes: {kind: byte}}}"], ["tokenizers.bytes.kind", "'byte'", "Did you mean 'bytes'"]),
        (["edit={lr_sweep: {harmonic: {rates: [0.1]}}}"], ["lr_sweep.harmonic.rates"]),
    ],
)
def test_a_config_error_names_key_value_and_the_nearest_name(fresh, words, told):
    ran = fresh.snakemake("--dry-run", "--config", *words, check=False)
    assert ran.code != 0
    assert "Traceback" not in ran.text
    for part in told:
        assert part in ran.text
    assert not (fresh.path / "results").exists()


def test_an_unknown_target_is_refused(fresh):
    ran = fresh.snakemake("--dry-run", "reports/mini/figures/crosover.pdf", check=False)
    assert ran.code != 0
    assert "crosover" in ran.text


def test_a_cell_outside_the_study_is_refused_with_what_to_do(fresh):
    target = "results/mini/cells/harmonic/enwiki-mini/bytes/harmonic/d64/512/77/metrics.json"
    ran = fresh.snakemake("--dry-run", target, check=False)
    assert ran.code != 0
    assert "not a cell of study mini" in ran.text
