"""Benchmarks, each alone on the machine, and what a trained ResonatorLM shows of itself."""


rule bench:
    input:
        study=f"{RESULTS}/settings/bench-{{bench}}.json",
        preflight=f"{RESULTS}/preflight.json",
    output:
        f"{RESULTS}/benchmarks/{{bench}}.json",
    log:
        f"{RESULTS}/logs/bench/{{bench}}.log",
    benchmark:
        f"{RESULTS}/logs/bench/{{bench}}.tsv"
    wildcard_constraints:
        bench=one_of(BENCHMARKS),
    conda:
        "../../envs/train.yaml"
    threads: EXCLUSIVE
    resources:
        gpu=min(GPUS, 1),
        mem_mb=growing(4000),
        runtime=growing(60),
    params:
        settings=benchmark_settings,
        sources=stage_sources("bench"),
    shell:
        "overtone bench $(echo {wildcards.bench} | tr _ -) --study {input.study} --out {output} > {log} 2>&1"


rule diagnose:
    input:
        study=f"{RESULTS}/study.json",
        cells=diagnosed,
    output:
        f"{RESULTS}/diagnostics/resonator.json",
    log:
        f"{RESULTS}/logs/diagnose.log",
    benchmark:
        f"{RESULTS}/logs/diagnose.tsv"
    conda:
        "../../envs/train.yaml"
    resources:
        mem_mb=growing(4000),
        runtime=growing(60),
    params:
        results=results_of,
        sources=stage_sources("diagnose"),
    shell:
        "overtone diagnose --study {input.study} --results {params.results:q} --out {output} > {log} 2>&1"
