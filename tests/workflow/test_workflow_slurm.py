"""The smoke study on a real Slurm (private, on loopback) with profiles/slurm: what ran where, and what interruptions do.

Three runs at once, from the same tokens: a figure with all it needs, left alone; a cell whose job hangs past its time limit; and two cells
that lose Snakemake itself to SIGKILL and, started again, a job to scancel.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import pytest
import slurm_site
from checkout import Checkout
from slurm_run import Run

pytestmark = [
    pytest.mark.cluster, pytest.mark.xdist_group("cluster"), pytest.mark.timeout(1500),
    pytest.mark.skipif(bool(slurm_site.why_not()), reason=slurm_site.why_not()),
]

# 64 steps, a checkpoint after each: long enough to be stopped in the middle on a fast machine.
EDIT = "edit={protocols: {resonator: {budget: 32768, checkpoint_every_s: 0}}}"
CELLS = "results/smoke/cells/resonator/enwiki-mini/characters"
TRAINED = [f"{CELLS}/{architecture}/d32/128/1/metrics.json" for architecture in ("resonator", "transformer")]
FIGURE = "reports/smoke/figures/quality.svg"
TOKENS = [f"results/smoke/tokens/enwiki-mini/characters/{split}.json" for split in ("train", "validation", "test")]
GPU = ("--set-resources", "train:gpu=int(wildcards.protocol == 'resonator')")  # two cells: GPU jobs run one by one


class Cells(Run):
    """A run that trains the two cells, or the first."""

    def state(self) -> Path | None:
        """The state folder of a cell in training that holds a checkpoint."""
        ended = {json.loads(path.read_text())["hash"] for name in TRAINED if (path := self.folder / name).exists()}
        found = (path.parent for path in self.folder.glob("results/smoke/state/*/*.safetensors"))
        return next((folder for folder in found if folder.name not in ended), None)

    def deterministic(self) -> list[dict[str, object]]:
        """What does not depend on the machine's speed, of each trained cell."""
        metrics = [json.loads((self.folder / name).read_text()) for name in TRAINED if (self.folder / name).exists()]
        return [{key: value for key, value in item.items() if key not in ("measured", "environment")} for item in metrics]

    def log(self, name: str) -> str:
        """The log of the training job of one of TRAINED (its last attempt's)."""
        cell = name.removeprefix("results/smoke/cells/").removesuffix("/metrics.json")
        return (self.folder / f"results/smoke/logs/train/{cell}.log").read_text()


@pytest.fixture(scope="module")
def runs(slurm: slurm_site.Slurm, fresh: Checkout, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Cells]:
    """The three runs, ended."""
    base = tmp_path_factory.mktemp("runs")
    runs = {name: Cells(fresh, slurm, base / name) for name in ("alone", "limited", "disturbed")}
    runs["alone"].folder.mkdir()
    runs["alone"].finish(runs["alone"].start(*GPU, "--config", "study=smoke", EDIT, "--", *TOKENS, "results/smoke/preflight.json"))
    for name in ("limited", "disturbed"):
        shutil.copytree(runs["alone"].folder, runs[name].folder, ignore=shutil.ignore_patterns("slurm_logs", "out"))
    with ThreadPoolExecutor(3) as pool:
        done = [
            pool.submit(leave_alone, runs["alone"]),
            pool.submit(hang_past_the_limit, runs["limited"]),
            pool.submit(kill_and_cancel, runs["disturbed"]),
        ]
        for item in done:
            item.result()
    return runs


def leave_alone(run: Cells) -> None:
    run.finish(run.start(*GPU, "--config", "study=smoke", EDIT, "--", FIGURE))


def hang_past_the_limit(run: Cells) -> None:
    """The first attempt may take one minute and is stopped in mid-training: Slurm ends it; the second may take two."""
    process = run.start("--set-resources", "train:runtime=attempt", "--config", "study=smoke", EDIT, "--", TRAINED[0])
    state = run.wait_for(run.state, "a checkpoint", process)
    assert isinstance(state, Path)
    os.kill(int((state / "lock").read_text()), signal.SIGSTOP)
    run.finish(process)


def kill_and_cancel(run: Cells) -> None:
    """SIGKILL Snakemake in mid-training, leaving its jobs to Slurm; start again, and scancel a training job of the new run."""
    words = (*GPU, "--config", "study=smoke", EDIT, "--", *TRAINED)
    killed = run.start(*words)
    run.wait_for(lambda: run.state() and run.running(), "a checkpoint", killed)
    os.killpg(killed.pid, signal.SIGKILL)
    killed.wait()
    left = {job["JobId"] for job in run.jobs}
    run.finish(run.start("--unlock", *words))
    again = run.start(*words)
    cancelled = run.wait_for(lambda: run.state() and run.running() - left, "a checkpoint of the new run", again)
    assert isinstance(cancelled, set)
    run.slurm.ask("scancel", *cancelled)
    run.finish(again)


def test_every_job_of_the_plan_ran_in_slurm(runs, fresh):
    run = runs["alone"]
    run.check_all_ran_in_slurm(fresh.plan("--config", "study=smoke", EDIT, "--", FIGURE))
    assert (run.folder / FIGURE).stat().st_size > 1000


def test_short_jobs_share_a_submission(runs, fresh):
    """The study's files, a corpus, a table with its figure: hardly more than half as many submissions as jobs."""
    assert 3 * len(runs["alone"].jobs) < 2 * sum(fresh.plan("--config", "study=smoke", EDIT, "--", FIGURE).values())


def test_gpu_jobs_never_share_a_gpu_and_the_queue_holds_several(runs):
    jobs = [job for run in runs.values() for job in run.jobs if "gres:gpu:1" in job.get("TresPerJob", "") and job["StartTime"] != "Unknown"]
    spans = sorted((job["StartTime"], job["EndTime"]) for job in jobs)
    assert len(spans) >= 5  # two cells alone, the same two with a kill and a cancellation
    assert all(earlier[1] <= later[0] for earlier, later in pairwise(spans)), spans
    queued = sorted((job["SubmitTime"], job["EndTime"]) for job in runs["alone"].jobs if "gpu" in job.get("TresPerJob", ""))
    assert any(later[0] < earlier[1] for earlier, later in pairwise(queued)), "GPU jobs were held back instead of queued"


def test_a_job_over_its_time_limit_comes_back_with_more_and_resumes(runs):
    run = runs["limited"]
    attempts = sorted((int(job["JobId"]), job["TimeLimit"], job["JobState"]) for job in run.jobs)
    assert [limit for _, limit, _ in attempts[:2]] == ["00:01:00", "00:02:00"]
    assert attempts[0][2] == "TIMEOUT"
    assert attempts[-1][2] == "COMPLETED"
    assert re.search(r"resumed at step \d+ of 64", run.log(TRAINED[0]))


def test_a_cancelled_job_resumes_from_its_checkpoint(runs):
    run = runs["disturbed"]
    assert [job["JobState"] for job in run.jobs].count("CANCELLED") == 1
    assert any(re.search(r"resumed at step \d+ of 64", run.log(name)) for name in TRAINED)


def test_interrupted_runs_end_with_the_results_of_the_undisturbed_one(runs):
    alone = runs["alone"].deterministic()
    assert len(alone) == 2
    assert runs["disturbed"].deterministic() == alone
    assert runs["limited"].deterministic() == alone[:1]


def test_a_second_run_after_all_that_plans_nothing(runs):
    for name, targets in (("alone", [FIGURE]), ("disturbed", TRAINED)):
        run = runs[name]
        ran = run.checkout.snakemake("--dry-run", "--config", "study=smoke", EDIT, "--", *targets, cwd=run.folder)
        assert ran.jobs == {}, name
