"""Audits: every checkpoint, every measurement. A violation is reported on the page; the verb alone exits 1."""


rule audit:
    input:
        study=f"{RESULTS}/study.json",
        measured=audit_inputs,
    output:
        f"{RESULTS}/audits/{{audit}}.json",
    log:
        f"{RESULTS}/logs/audit/{{audit}}.log",
    benchmark:
        f"{RESULTS}/logs/audit/{{audit}}.tsv"
    conda:
        "../../envs/train.yaml"
    resources:
        mem_mb=growing(4000),
        runtime=growing(60),
    params:
        settings=audit_settings,
        results=results_of,
        sources=stage_sources("audit"),
    shell:
        "overtone audit {wildcards.audit} --study {input.study} --results {params.results:q} --out {output} --report-only > {log} 2>&1"
