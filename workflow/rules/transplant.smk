"""Attention replaced in a pretrained Llama: base, phases, evaluation beside the base."""


rule transplant_base:
    input:
        study=f"{RESULTS}/settings/transplant-{{transplant}}.json",
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
    resources:
        mem_mb=growing(16000 if GPUS else 4000),
        runtime=growing(120),
    params:
        config=base_config,
        results=results_of_transplant,
        sources=stage_sources("transplant"),
    shell:
        "overtone transplant base --study {input.study} --results {params.results:q}"
        " --name {wildcards.transplant} --out {output} 2> {log}"


rule transplant_train:
    input:
        study=f"{RESULTS}/settings/variants/{{transplant}}/{{variant}}.json",
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
        gpu=min(GPUS, 1),
        mem_mb=growing(64000 if GPUS else 4000),
        runtime=growing(1440 if GPUS else 60),
    params:
        config=variant_config,
        results=results_of_transplant,
        sources=stage_sources("transplant"),
    shell:
        "overtone transplant train --study {input.study} --results {params.results:q} --name {wildcards.transplant}"
        " --variant {wildcards.variant} --phase {wildcards.phase} --out {output} 2> {log}"


rule transplant_evaluate:
    input:
        study=f"{RESULTS}/settings/evaluation-{{transplant}}.json",
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
        gpu=min(GPUS, 1),
        mem_mb=growing(64000 if GPUS else 4000),
        runtime=growing(240 if GPUS else 120),
    params:
        config=evaluation_config,
        results=results_of_transplant,
        sources=stage_sources("transplant_evaluate"),
    shell:
        "overtone transplant evaluate --study {input.study} --results {params.results:q}"
        " --name {wildcards.transplant} --out {output} 2> {log}"
