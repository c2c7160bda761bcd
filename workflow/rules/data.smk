"""Corpus -> documents -> splits -> tokens."""


rule study_file:
    output:
        f"{RESULTS}/study.json",
    log:
        f"{RESULTS}/logs/study.log",
    benchmark:
        f"{RESULTS}/logs/study.tsv"
    conda:
        "../../envs/data.yaml"
    params:
        source=study_source(),
        edit=canonical_json(CONFIG["edit"]),
        digest=digest_json(STUDY.data),
    shell:
        "overtone study {params.source:q} --edit {params.edit:q} --out {output} 2> {log}"


rule study_part:
    # The study as of the last change to what concerns one part. study.json changes with any edit, and a job that runs again hides
    # every other reason of the jobs after it from Snakemake, ancient() or not: long stages must not stand behind it.
    output:
        f"{RESULTS}/settings/{{part}}.json",
    log:
        f"{RESULTS}/logs/settings/{{part}}.log",
    benchmark:
        f"{RESULTS}/logs/settings/{{part}}.tsv"
    conda:
        "../../envs/data.yaml"
    params:
        decides=part_decides,
        study=study_words,
    shell:
        "overtone study {params.study} --out {output} 2> {log}"


rule preflight:
    input:
        study=f"{RESULTS}/settings/preflight.json",
    output:
        f"{RESULTS}/preflight.json",
    log:
        f"{RESULTS}/logs/preflight.log",
    benchmark:
        f"{RESULTS}/logs/preflight.tsv"
    conda:
        "../../envs/train.yaml"
    resources:
        gpu=GPUS,
    shell:
        "overtone preflight --study {input.study} --out {output} 2> {log}"


rule fetch:
    output:
        f"{DOWNLOADS}/{{corpus}}/archive.json",
    log:
        f"{RESULTS}/logs/fetch/{{corpus}}.log",
    benchmark:
        f"{RESULTS}/logs/fetch/{{corpus}}.tsv"
    retries: 2
    conda:
        "../../envs/data.yaml"
    params:
        entry=corpus_entry,
    shell:
        "overtone fetch --corpus {wildcards.corpus} --out {output} 2> {log}"


rule extract:
    input:
        f"{DOWNLOADS}/{{corpus}}/archive.json",
    output:
        f"{RESULTS}/corpora/{{corpus}}/documents.json",
    log:
        f"{RESULTS}/logs/extract/{{corpus}}.log",
    benchmark:
        f"{RESULTS}/logs/extract/{{corpus}}.tsv"
    conda:
        "../../envs/data.yaml"
    params:
        sources=stage_sources("extract"),
    shell:
        "overtone extract --archive {input} --out {output} 2> {log}"


rule split:
    input:
        f"{RESULTS}/corpora/{{corpus}}/documents.json",
    output:
        f"{RESULTS}/corpora/{{corpus}}/splits/splits.json",
    log:
        f"{RESULTS}/logs/split/{{corpus}}.log",
    benchmark:
        f"{RESULTS}/logs/split/{{corpus}}.tsv"
    conda:
        "../../envs/data.yaml"
    params:
        validation=STUDY.data["split"]["validation"],
        test=STUDY.data["split"]["test"],
        seed=STUDY.data["split"]["seed"],
        sources=stage_sources("split"),
    shell:
        "overtone split --documents {input} --out {output}"
        " --validation {params.validation} --test {params.test} --seed {params.seed} 2> {log}"


rule tokenizer:
    input:
        f"{RESULTS}/corpora/{{corpus}}/splits/splits.json",
    output:
        f"{RESULTS}/tokens/{{corpus}}/{{tokenizer}}/tokenizer.json",
    log:
        f"{RESULTS}/logs/tokenizer/{{corpus}}/{{tokenizer}}.log",
    benchmark:
        f"{RESULTS}/logs/tokenizer/{{corpus}}/{{tokenizer}}.tsv"
    conda:
        "../../envs/data.yaml"
    params:
        spec=tokenizer_spec,
        sources=stage_sources("tokenizer"),
    shell:
        "overtone tokenizer --splits {input} --spec {params.spec:q} --out {output} 2> {log}"


rule tokenize:
    input:
        splits=f"{RESULTS}/corpora/{{corpus}}/splits/splits.json",
        tokenizer=f"{RESULTS}/tokens/{{corpus}}/{{tokenizer}}/tokenizer.json",
    output:
        f"{RESULTS}/tokens/{{corpus}}/{{tokenizer}}/{{split}}.json",
    log:
        f"{RESULTS}/logs/tokenize/{{corpus}}/{{tokenizer}}/{{split}}.log",
    benchmark:
        f"{RESULTS}/logs/tokenize/{{corpus}}/{{tokenizer}}/{{split}}.tsv"
    conda:
        "../../envs/data.yaml"
    params:
        sources=stage_sources("tokenize"),
    shell:
        "overtone tokenize --splits {input.splits} --tokenizer {input.tokenizer} --split {wildcards.split} --out {output} 2> {log}"
