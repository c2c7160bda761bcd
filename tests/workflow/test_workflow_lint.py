"""Snakemake's own linter and formatter have nothing to say."""

from __future__ import annotations

import re
import subprocess
import sys

from checkout import ROOT, Checkout


def test_snakemake_lint_is_clean(fresh: Checkout) -> None:
    assert "Congratulations" in fresh.snakemake("--lint").text


def test_snakefmt_changes_nothing() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "snakefmt", "--check", "Snakefile", "workflow/rules"], cwd=ROOT, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr


def test_every_rule_has_log_and_benchmark() -> None:
    for path in (ROOT / "workflow/rules").glob("*.smk"):
        rules = re.split(r"^rule (?=\w+:)", path.read_text(), flags=re.M)[1:]
        for text in rules:
            assert "    log:\n" in text, text.split(":")[0]
            assert "    benchmark:\n" in text, text.split(":")[0]


def test_rules_name_no_partition_account_or_gres() -> None:
    for path in [ROOT / "Snakefile", *(ROOT / "workflow/rules").glob("*.smk")]:
        assert not re.search(r"partition|account|gres|slurm", path.read_text())
