"""Attention replaced in a pretrained Llama: base, phases, evaluation beside the base."""


def transplant_config(wildcards):
    """The transplant's section of the study: what decides its result."""
    return canonical_json(STUDY.transplants[wildcards.transplant])


def transplant_tokens(wildcards):
    """Token sidecars a transplant of a base trained in the study reads; a hub or package base brings its own tokenizer."""
    return [f"{RESULTS}/{path}" for path in used_tokens(STUDY, wildcards.transplant)]


def base_cell(wildcards):
    """The metrics of the base, where it is a cell of the study."""
    base = STUDY.transplants[wildcards.transplant]["base"]
    return metrics_of([CELLS["/".join(str(base[name]) for name in COORDINATES)]]) if base["kind"] == "cell" else []


def previous_phase(wildcards):
    """What a phase starts from: the base, the phase before, or the variant it continues."""
    folder = f"{RESULTS}/transplants/{wildcards.transplant}"
    variant = STUDY.transplants[wildcards.transplant]["variants"][wildcards.variant]
    if wildcards.phase == "2":
        return [f"{folder}/{wildcards.variant}/phase1.json"]
    return [f"{folder}/{variant['after']}/phase1.json"] if "after" in variant else [f"{folder}/base.json"]


def phases_of(transplant):
    """Every phase of every variant of a transplant."""
    return [
        f"{RESULTS}/transplants/{transplant}/{name}/{phase}.json"
        for name, variant in sorted(STUDY.transplants[transplant]["variants"].items())
        for phase in ("phase1", "phase2")
        if phase in variant
    ]


def all_phases(wildcards):
    """The same, from wildcards."""
    return phases_of(wildcards.transplant)


def evaluations():
    """Every transplant's evaluation."""
    return [f"{RESULTS}/transplants/{name}/evaluation.json" for name in sorted(STUDY.transplants)]


rule transplant_base:
    input:
        study=ancient(f"{RESULTS}/study.json"),
        cell=base_cell,
        tokens=transplant_tokens,
    output:
        f"{RESULTS}/transplants/{{transplant}}/base.json",
    log:
        f"{RESULTS}/logs/transplant_base/{{transplant}}.log",
    benchmark:
        f"{RESULTS}/logs/transplant_base/{{transplant}}.tsv"
    conda:
        "../../envs/train.yaml"
    params:
        config=transplant_config,
        results=results_of,
        sources=stage_sources("transplant"),
    shell:
        "{overtone} transplant base --study {input.study} --results {params.results:q}"
        " --name {wildcards.transplant} --out {output} 2> {log}"


rule transplant_train:
    input:
        study=ancient(f"{RESULTS}/study.json"),
        before=previous_phase,
        base=f"{RESULTS}/transplants/{{transplant}}/base.json",
    output:
        f"{RESULTS}/transplants/{{transplant}}/{{variant}}/phase{{phase}}.json",
    log:
        f"{RESULTS}/logs/transplant_train/{{transplant}}/{{variant}}/{{phase}}.log",
    benchmark:
        f"{RESULTS}/logs/transplant_train/{{transplant}}/{{variant}}/{{phase}}.tsv"
    conda:
        "../../envs/train.yaml"
    resources:
        gpu=1 if STUDY.data["device"] == "cuda" else 0,
        mem_mb=64000 if STUDY.data["device"] == "cuda" else 4000,
        runtime=1440 if STUDY.data["device"] == "cuda" else 60,
    params:
        config=transplant_config,
        results=results_of,
        sources=stage_sources("transplant"),
    shell:
        "{overtone} transplant train --study {input.study} --results {params.results:q} --name {wildcards.transplant}"
        " --variant {wildcards.variant} --phase {wildcards.phase} --out {output} 2> {log}"


rule transplant_evaluate:
    input:
        study=ancient(f"{RESULTS}/study.json"),
        base=f"{RESULTS}/transplants/{{transplant}}/base.json",
        phases=all_phases,
    output:
        f"{RESULTS}/transplants/{{transplant}}/evaluation.json",
    log:
        f"{RESULTS}/logs/transplant_evaluate/{{transplant}}.log",
    benchmark:
        f"{RESULTS}/logs/transplant_evaluate/{{transplant}}.tsv"
    conda:
        "../../envs/train.yaml"
    resources:
        gpu=1 if STUDY.data["device"] == "cuda" else 0,
        mem_mb=64000 if STUDY.data["device"] == "cuda" else 4000,
        runtime=240 if STUDY.data["device"] == "cuda" else 60,
    params:
        config=transplant_config,
        results=results_of,
        sources=stage_sources("transplant"),
    shell:
        "{overtone} transplant evaluate --study {input.study} --results {params.results:q}"
        " --name {wildcards.transplant} --out {output} 2> {log}"
