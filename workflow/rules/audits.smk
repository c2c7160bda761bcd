"""Audits: every checkpoint, every measurement. A violation is reported on the page; the verb alone exits 1."""


def audit_inputs(wildcards):
    """Everything an audit looks at: all cells, and transplants, sweeps or benchmarks where it reads those."""
    files = metrics_of(CELLS.values())
    if wildcards.audit in ("causality", "entropy"):
        files += [path for name in sorted(STUDY.transplants) for path in phases_of(name)]
    if wildcards.audit == "baseline":
        files += chosen_rates()
    if wildcards.audit == "timing":
        files += [f"{RESULTS}/benchmarks/throughput.json"]
    return files


def chosen_rates():
    """The outcome of every learning-rate sweep."""
    return sorted({f"{RESULTS}/lr_sweep/{'/'.join(key.split('/')[:2])}/chosen.json" for key in TRIALS})


def audit_settings(wildcards):
    """The audit's section of the study."""
    return canonical_json(STUDY.audits.get(wildcards.audit, {}))


rule audit:
    input:
        study=ancient(f"{RESULTS}/study.json"),
        measured=audit_inputs,
    output:
        f"{RESULTS}/audits/{{audit}}.json",
    log:
        f"{RESULTS}/logs/audit/{{audit}}.log",
    benchmark:
        f"{RESULTS}/logs/audit/{{audit}}.tsv"
    conda:
        "../../envs/train.yaml"
    params:
        settings=audit_settings,
        results=results_of,
        sources=stage_sources("audit"),
    shell:
        "{overtone} audit {wildcards.audit} --study {input.study} --results {params.results:q}" " --out {output} --report-only > {log} 2>&1"
