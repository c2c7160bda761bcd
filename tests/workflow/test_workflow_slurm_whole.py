"""The whole smoke study through a real Slurm, from the download to the page. Minutes: `make test-slow` runs it, `make test` does not."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
import slurm_site
from slurm_run import Run

pytestmark = [
    pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(1500),
    pytest.mark.skipif(bool(slurm_site.why_not()), reason=slurm_site.why_not()),
]

STUDY = ("--config", "study=smoke")


@pytest.fixture(scope="module")
def run(slurm, fresh, tmp_path_factory) -> Run:
    """The study, run to its end."""
    run = Run(fresh, slurm, tmp_path_factory.mktemp("whole"))
    run.finish(run.start("--set-resources", "train:gpu=1", *STUDY))
    return run


def test_every_job_of_the_study_ran_in_slurm(run, fresh):
    planned = fresh.plan(*STUDY)
    assert planned.pop("all") == 1
    run.check_all_ran_in_slurm(planned)


def test_a_third_as_many_submissions_as_jobs(run, fresh):
    assert 3 * len(run.jobs) <= sum(fresh.plan(*STUDY).values())


def test_every_cell_had_the_gpu_to_itself(run):
    spans = sorted((job["StartTime"], job["EndTime"]) for job in run.jobs if "gres:gpu:1" in job.get("TresPerJob", ""))
    assert len(spans) == len(list((run.folder / "results/smoke/cells").rglob("metrics.json"))) == 8
    assert all(earlier[1] <= later[0] for earlier, later in pairwise(spans)), spans


def test_the_report_is_whole_and_a_second_run_plans_nothing(run, fresh):
    assert (run.folder / "reports/smoke/index.html").stat().st_size > 100_000
    assert json.loads((run.folder / "reports/smoke/claims.json").read_text())["claims"]
    assert fresh.snakemake("--dry-run", *STUDY, cwd=run.folder).jobs == {}
