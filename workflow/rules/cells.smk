"""Learning-rate sweeps, then every cell: train and evaluate; then one file an experiment."""


rule train:
    input:
        tokens=cell_tokens,
        rate=cell_rate,
        preflight=f"{RESULTS}/preflight.json",
    output:
        f"{RESULTS}/cells/{{protocol}}/{{corpus}}/{{tokenizer}}/{{architecture}}/{{size}}/{{length}}/{{seed}}/metrics.json",
    log:
        f"{RESULTS}/logs/train/{{protocol}}/{{corpus}}/{{tokenizer}}/{{architecture}}/{{size}}/{{length}}/{{seed}}.log",
    benchmark:
        f"{RESULTS}/logs/train/{{protocol}}/{{corpus}}/{{tokenizer}}/{{architecture}}/{{size}}/{{length}}/{{seed}}.tsv"
    conda:
        "../../envs/train.yaml"
    resources:
        gpu=GPUS,
        mem_mb=cell_memory,
        runtime=cell_runtime,
    params:
        cell=cell_json,
        tokens=tokens_folder,
        rate=rate_option,
        state=state_of,
        sources=cell_sources,
        device=STUDY.data["device"],
    shell:
        "overtone train --cell {params.cell:q} --tokens {params.tokens:q} --state {params.state:q} {params.rate}"
        " --device {params.device} --gpus {resources.gpu} --out {output} 2> {log}"


rule trial:
    input:
        tokens=trial_tokens,
        preflight=f"{RESULTS}/preflight.json",
    output:
        f"{RESULTS}/lr_sweep/{{protocol}}/{{architecture}}/{{rate}}/metrics.json",
    log:
        f"{RESULTS}/logs/trial/{{protocol}}/{{architecture}}/{{rate}}.log",
    benchmark:
        f"{RESULTS}/logs/trial/{{protocol}}/{{architecture}}/{{rate}}.tsv"
    conda:
        "../../envs/train.yaml"
    resources:
        gpu=GPUS,
        mem_mb=trial_memory,
        runtime=trial_runtime,
    params:
        cell=trial_json,
        tokens=tokens_folder,
        state=state_of,
        sources=trial_sources,
        device=STUDY.data["device"],
    shell:
        "overtone train --cell {params.cell:q} --tokens {params.tokens:q} --state {params.state:q}"
        " --device {params.device} --gpus {resources.gpu} --evaluate validation --out {output} 2> {log}"


rule choose_rate:
    input:
        trials_of,
    output:
        f"{RESULTS}/lr_sweep/{{protocol}}/{{architecture}}/chosen.json",
    log:
        f"{RESULTS}/logs/choose_rate/{{protocol}}/{{architecture}}.log",
    benchmark:
        f"{RESULTS}/logs/choose_rate/{{protocol}}/{{architecture}}.tsv"
    conda:
        "../../envs/train.yaml"
    params:
        sources=stage_sources("choose_rate"),
    shell:
        "overtone choose-rate --trials {input} --out {output} 2> {log}"


rule gather:
    input:
        study=f"{RESULTS}/study.json",
        cells=experiment_metrics,
    output:
        f"{RESULTS}/experiments/{{experiment}}.json",
    log:
        f"{RESULTS}/logs/gather/{{experiment}}.log",
    benchmark:
        f"{RESULTS}/logs/gather/{{experiment}}.tsv"
    conda:
        "../../envs/data.yaml"
    params:
        results=results_of,
        sources=stage_sources("gather"),
    shell:
        "overtone gather {wildcards.experiment} --study {input.study} --results {params.results:q} --out {output} 2> {log}"
