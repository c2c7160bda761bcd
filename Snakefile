"""Overtone: corpus -> tokens -> cells -> audits -> tables -> figures -> claims -> report.

snakemake --cores all                                         the study that config.yaml names
snakemake --cores all reports/mini/figures/crossover.pdf      one figure and what it needs
snakemake --cores all --config study=paper                    another study
"""

from pathlib import Path

from snakemake.utils import min_version

min_version("9.20")

BASE = Path(workflow.current_basedir.get_path_or_uri(secret_free=True))


configfile: BASE / "config.yaml"


report: "workflow/report/workflow.rst"


include: "workflow/rules/common.smk"
include: "workflow/rules/jobs.smk"
include: "workflow/rules/data.smk"
include: "workflow/rules/cells.smk"
include: "workflow/rules/transplant.smk"
include: "workflow/rules/benchmarks.smk"
include: "workflow/rules/audits.smk"
include: "workflow/rules/report.smk"


rule all:
    default_target: True
    input:
        f"{REPORT}/index.html",
        f"{REPORT}/crate/ro-crate-metadata.json",
