"""The smoke study, run for real: what it leaves, and what a second run, an edit or a new seed plans."""

from __future__ import annotations

import json
import os
import re
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from overtone.study import EXHIBITS
from overtone.study.schema import check

pytestmark = pytest.mark.xdist_group("workflow")  # one worker, one run of the study

PLANNED_TRAINING = {"train", "trial", "choose_rate", "transplant_base", "transplant_train", "transplant_evaluate"}
DATA = {"fetch", "extract", "split", "tokenizer", "tokenize"}


@contextmanager
def edited(path: Path, before: str, after: str):
    """The file with one piece of text replaced, put back afterwards."""
    text = path.read_text(encoding="utf-8")
    assert before in text
    path.write_text(text.replace(before, after, 1), encoding="utf-8")
    try:
        yield
    finally:
        path.write_text(text, encoding="utf-8")


def plan(smoke, *edits: str, **env: str) -> dict[str, int]:
    return smoke.plan("--config", "study=smoke", *edits, **env)


def test_a_second_run_plans_nothing(smoke):
    assert plan(smoke) == {}


def test_the_report_is_whole(smoke):
    report = smoke.where / "reports/smoke"
    for name, item in EXHIBITS.items():
        for suffix in ("csv", "md", "tex", "meta.json"):
            assert (report / f"tables/{name}.{suffix}").stat().st_size > 0
        for suffix in ("pdf", "svg", "png") if item.figure else ():
            assert (report / f"figures/{name}.{suffix}").stat().st_size > 1000
    page = (report / "index.html").read_text(encoding="utf-8")
    assert "smoke" in page
    assert 'src="http' not in page


def test_every_cell_is_whole_and_valid(smoke):
    found = sorted((smoke.where / "results/smoke/cells").rglob("metrics.json"))
    assert len(found) == 8
    for path in found:
        metrics = json.loads(path.read_text())
        check("metrics", metrics, path.name)
        assert metrics["status"] == "ok"
        assert metrics["tokens_seen"] == metrics["budget"]
    assert smoke.overtone("verify", "--results", "results/smoke").code == 0


def test_the_same_plan_reached_every_architecture(smoke):
    digests: dict[tuple, set] = {}
    for path in (smoke.where / "results/smoke/cells").rglob("metrics.json"):
        metrics = json.loads(path.read_text())
        cell = metrics["cell"]
        key = tuple(cell[name] for name in ("protocol", "corpus", "tokenizer", "length", "seed"))
        digests.setdefault(key, set()).add(metrics["plan"]["digest"])
    assert len(digests) > 1
    assert all(len(found) == 1 for found in digests.values())


def test_no_state_is_left_behind(smoke):
    state = smoke.where / "results/smoke/state"
    assert not state.exists() or not list(state.rglob("*.safetensors"))


def test_smoke_never_yields_a_verdict(smoke):
    claims = json.loads((smoke.where / "reports/smoke/claims.json").read_text())["claims"]
    assert len(claims) >= 20
    assert not {claim["verdict"] for claim in claims} & {"reproduced", "contradicted", "inconclusive"}


def test_the_leaky_control_is_flagged_and_nothing_else(smoke):
    audit = json.loads((smoke.where / "results/smoke/audits/causality.json").read_text())
    assert audit["violations"] == 0
    flagged = [row for row in audit["rows"] if not row["passed"]]
    assert flagged
    assert all(row["control"] for row in flagged)


def test_touching_every_file_plans_nothing(smoke):
    later = time.time() + 5
    for folder, folders, names in os.walk(smoke.where):
        folders[:] = [name for name in folders if name not in (".snakemake", "logs")]
        for name in names:
            os.utime(Path(folder) / name, (later, later))
    assert plan(smoke) == {}


@pytest.mark.parametrize(
    ("file", "before", "after", "expected"),
    [
        ("README.md", "# Overtone", "# Overtone!", set()),
        ("src/overtone/reporting/style.py", "from __future__", "# a plot\nfrom __future__", {"figure"}),
        ("src/overtone/reporting/tables/crossover.py", "from __future__", "# a table\nfrom __future__", {"table", "figure"}),
        ("workflow/report/figure.rst", "Figure", "Plot", set()),
    ],
)
def test_editing_what_only_shows_results_plans_no_training(smoke, file, before, after, expected):
    with edited(smoke.path / file, before, after):
        jobs = plan(smoke)
    assert not set(jobs) & (PLANNED_TRAINING | DATA | {"bench", "audit"})
    assert expected <= set(jobs)
    if not expected:
        assert jobs == {}


def test_editing_one_plot_plans_its_figures_and_the_page(smoke):
    with edited(smoke.path / "src/overtone/reporting/figures/decode.py", "from __future__", "# a plot\nfrom __future__"):
        jobs = plan(smoke)
    assert jobs == {"all": 1, "figure": 2, "page": 1, "crate": 1}  # decode and decode_memory


def test_editing_one_table_plans_it_and_its_figure(smoke):
    with edited(smoke.path / "src/overtone/reporting/tables/kernel_tail.py", "from __future__", "# a table\nfrom __future__"):
        jobs = plan(smoke)
    assert jobs == {"all": 1, "table": 1, "figure": 1, "page": 1, "crate": 1}


def test_editing_an_architecture_replans_its_cells_only(smoke):
    with edited(smoke.path / "src/overtone/models/resonator.py", "from __future__", "# an edit\nfrom __future__"):
        text = smoke.snakemake("--dry-run", "--config", "study=smoke").text
    trained = [line for line in text.splitlines() if line.strip().startswith("output: results/smoke/cells/")]
    assert trained
    assert all("/characters/" in line for line in trained)  # the resonator and the Transformer that is sized to it


def test_a_new_seed_plans_one_cell_a_row(smoke):
    jobs = plan(smoke, "edit={experiments: {ablations: {seeds: [1, 2]}}}")
    assert jobs["train"] == 2  # harmonic and its ablation
    assert not set(jobs) & (DATA | {"trial", "choose_rate", "transplant_train", "bench"})


def test_a_cell_that_changed_renders_its_own_tables_again(smoke):
    """Only what reads its experiment, and what reads every cell."""
    path = next((smoke.where / "results/smoke/cells/resonator").rglob("metrics.json"))
    with edited(path, '"measured"', ' "measured"'):
        ran = smoke.snakemake("--dry-run", "--config", "study=smoke")
    assert ran.jobs["gather"] == 1
    assert not set(ran.jobs) & (PLANNED_TRAINING | DATA | {"bench"})
    tables = set(re.findall(r"^    output: reports/smoke/tables/(\w+)\.csv,", ran.text, re.M))
    assert {"quality", "zoo", "cost"} <= tables
    assert not {"crossover", "ablations", "training_curves", "decode"} & tables


@pytest.mark.parametrize(
    ("edit", "expected"),
    [
        ("{protocols: {harmonic: {warmup: 0.2}}}", {"train": 5, "trial": 4, "choose_rate": 2}),
        ("{protocols: {transplant: {warmup: 0.2}}}", {"train": 1, "transplant_base": 1, "transplant_train": 3, "transplant_evaluate": 1}),
        ("{lr_sweep: {harmonic: {rates: [0.002, 0.004]}}}", {"train": 5, "trial": 2, "choose_rate": 2}),
        ("{benchmarks: {decode: {repetitions: 4}}}", {"bench": 1}),
        ("{transplants: {tiny: {evaluation: {windows: 8}}}}", {"transplant_evaluate": 1}),
        ("{transplants: {tiny: {variants: {align: {phase2: {lr: 0.0007}}}}}}", {"transplant_train": 2, "transplant_evaluate": 1}),
        ("{description: another}", {}),
        ("{price_per_hour: 0.2}", {}),
    ],
)
def test_an_edit_of_the_study_runs_what_it_concerns_at_once(smoke, edit, expected):
    """In the same plan, not in the next one: study.json is written anew too, and must not hide other reasons."""
    jobs = plan(smoke, f"edit={edit}")
    assert {name: count for name, count in jobs.items() if name in PLANNED_TRAINING | DATA | {"bench"}} == expected
    assert {"study_file", "table", "page", "crate"} <= set(jobs)
    assert "preflight" not in jobs


def test_an_option_of_an_architecture_is_an_option_of_what_benchmarks_build(smoke):
    jobs = plan(smoke, "edit={architectures: {harmonic: {options: {flat_timescales: true}}}}")
    assert jobs["bench"] == 4


def test_another_device_runs_every_measurement_again(smoke):
    jobs = plan(smoke, "edit={device: auto}")
    assert (jobs["preflight"], jobs["train"], jobs["trial"], jobs["bench"]) == (1, 8, 4, 4)
    assert not set(jobs) & DATA


def test_an_edit_of_the_page_makes_the_crate_again(smoke):
    with edited(smoke.path / "src/overtone/reporting/page.py", "from __future__", "# an edit\nfrom __future__"):
        assert set(plan(smoke)) == {"page", "crate", "all"}


def test_a_second_study_shares_the_download_and_nothing_else(smoke):
    jobs = smoke.plan("--config", "study=mini")
    assert "fetch" not in jobs
    assert jobs["train"] > 100
    assert plan(smoke) == {}


def test_a_damaged_metrics_file_is_one_clear_line(smoke):
    path = next((smoke.where / "results/smoke/cells").rglob("metrics.json"))
    text = path.read_text()
    try:
        path.write_text(text[: len(text) // 2])
        ran = smoke.overtone("table", "crossover", "--study", "results/smoke/study.json", "--results", "results/smoke",
                             "--out", "elsewhere", check=False)
    finally:
        path.write_text(text)
    assert ran.code == 2
    assert "metrics.json" in ran.text
    assert "Traceback" not in ran.text
    assert not (smoke.where / "elsewhere").exists() or not list((smoke.where / "elsewhere").iterdir())


def test_snakemakes_own_report_is_made(smoke):
    smoke.snakemake("--config", "study=smoke", "--report", "bundle.zip")
    assert (smoke.where / "bundle.zip").stat().st_size > 10_000


def test_failed_cells_are_results_that_every_table_prints(smoke):
    """One protocol runs out of memory, another diverges: the workflow still ends with every table."""
    override = smoke.where / "failing.yaml"
    study = (smoke.path / "workflow/studies/smoke.yaml").read_text()
    study = study.replace("study: smoke\n", "study: failing\n").replace("lr: swept", "lr: 1.0e+30")
    start = study.index("lr_sweep:")
    study = study[:start] + study[study.index("architectures:\n"):]
    rules = "    lr: 0.004\n    match: {transformer: resonator"
    study = study.replace(rules, rules.replace("match", "memory_limit_gb: 0.001\n    match"))
    override.write_text(study)
    targets = [f"reports/failing/tables/{name}.md" for name in ("crossover", "quality", "ablations", "zoo", "cost", "training_curves")]
    targets += ["reports/failing/figures/crossover.svg", "reports/failing/figures/quality.svg"]
    smoke.snakemake("--config", "study=failing.yaml", "--", *targets)
    statuses = {
        json.loads(path.read_text())["status"] for path in (smoke.where / "results/failing/cells").rglob("metrics.json")
    }
    assert {"oom", "diverged"} <= statuses
    assert "diverged" in (smoke.where / "reports/failing/tables/crossover.md").read_text()
    assert "oom" in (smoke.where / "reports/failing/tables/quality.md").read_text().lower()
