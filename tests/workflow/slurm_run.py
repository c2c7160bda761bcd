"""A Snakemake run on a private Slurm with profiles/slurm, and what it left there."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import slurm_site
from checkout import Checkout, clean_environment

# What a small site without accounting changes, and shorter waits than a large queue should be asked at.
SITE = (
    "--slurm-status-command", "squeue", "--slurm-no-account", "--slurm-keep-successful-logs", "--latency-wait", "10",
    "--slurm-init-seconds-before-status-checks", "2", "--seconds-between-status-checks", "2",
)
PATIENCE_S = 1200


@dataclass(frozen=True)
class Run:
    """One Snakemake on the cluster, in its own folder."""

    checkout: Checkout
    slurm: slurm_site.Slurm
    folder: Path

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        """Start Snakemake with the Slurm profile; its output goes to FOLDER/out."""
        command = [
            sys.executable, "-m", "snakemake", "--snakefile", str(self.checkout.path / "Snakefile"),
            "--profile", str(self.checkout.path / "profiles/slurm"), *SITE, *words,
        ]
        with (self.folder / "out").open("ab") as out:
            return subprocess.Popen(
                command, cwd=self.folder, env=clean_environment() | self.slurm.environment, stdout=out, stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL, start_new_session=True,
            )

    def finish(self, process: subprocess.Popen[bytes]) -> None:
        """Wait for Snakemake; it must have succeeded."""
        code = process.wait(PATIENCE_S)
        assert code == 0, self.output[-6000:]

    def wait_for(self, condition: Callable[[], object], what: str, process: subprocess.Popen[bytes]) -> object:
        """Poll until the condition holds while Snakemake is alive."""
        until = time.monotonic() + PATIENCE_S
        while not (found := condition()):
            assert process.poll() is None, f"the run ended before {what}:\n{self.output[-4000:]}"
            assert time.monotonic() < until, f"{what} never came:\n{self.output[-4000:]}"
            time.sleep(0.05)
        return found

    @property
    def output(self) -> str:
        """What Snakemake printed."""
        return (self.folder / "out").read_text(errors="replace")

    @property
    def jobs(self) -> list[dict[str, str]]:
        """What Slurm says of every job submitted from here."""
        return self.slurm.jobs(self.folder)

    def running(self) -> set[str]:
        """Ids of the GPU jobs that run now."""
        return {job["JobId"] for job in self.jobs if job["JobState"] == "RUNNING" and "gpu" in job.get("TresPerJob", "")}

    def rules_in_slurm(self) -> Counter[str]:
        """Rule -> jobs of it that ran inside submissions, from the submissions' own logs."""
        logs = "\n".join(path.read_text(errors="replace") for path in (self.folder / ".snakemake/slurm_logs").rglob("*.log"))
        # A submission's log tells a job twice: the step and the job in it.
        told = set(re.findall(r"^rule (\w+):\n(?:    input: .*\n)?    output: (.*)$", logs, re.M))
        return Counter(rule for rule, _ in told)

    def check_all_ran_in_slurm(self, planned: dict[str, int]) -> None:
        """Every planned job ran in a submission that ended well, none where Snakemake itself runs."""
        submitted = re.findall(r"has been submitted with SLURM jobid (\d+)", self.output)
        assert sorted(submitted) == sorted(job["JobId"] for job in self.jobs)
        assert {job["JobState"] for job in self.jobs} == {"COMPLETED"}
        assert self.rules_in_slurm() == planned
        assert set(re.findall(r"^localrule (\w+)", self.output, re.M)) <= {"all"}  # which has no command
