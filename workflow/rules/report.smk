"""Tables -> figures -> claims -> page."""


rule table:
    input:
        study=f"{RESULTS}/study.json",
        measured=table_inputs,
        reported=BASE / "papers" / "reported.yaml",
    output:
        csv=f"{REPORT}/tables/{{table}}.csv",
        md=f"{REPORT}/tables/{{table}}.md",
        tex=f"{REPORT}/tables/{{table}}.tex",
        meta=f"{REPORT}/tables/{{table}}.meta.json",
    log:
        f"{RESULTS}/logs/table/{{table}}.log",
    benchmark:
        f"{RESULTS}/logs/table/{{table}}.tsv"
    conda:
        "../../envs/report.yaml"
    params:
        results=results_of,
        folder=folder_of,
        claims=claims_option,
        sources=sources_of_table,
    shell:
        "overtone table {wildcards.table} --study {input.study} --results {params.results:q} {params.claims}"
        " --out {params.folder:q} 2> {log}"


rule figure:
    input:
        csv=f"{REPORT}/tables/{{figure}}.csv",
        meta=f"{REPORT}/tables/{{figure}}.meta.json",
    output:
        pdf=f"{REPORT}/figures/{{figure}}.pdf",
        svg=f"{REPORT}/figures/{{figure}}.svg",
        png=report(
            f"{REPORT}/figures/{{figure}}.png",
            category="Figures",
            labels={"figure": "{figure}"},
            caption="../report/figure.rst",
        ),
    log:
        f"{RESULTS}/logs/figure/{{figure}}.log",
    benchmark:
        f"{RESULTS}/logs/figure/{{figure}}.tsv"
    conda:
        "../../envs/report.yaml"
    params:
        tables=tables_folder,
        folder=folder_of,
        sources=sources_of_figure,
    shell:
        "overtone figure {wildcards.figure} --tables {params.tables:q} --out {params.folder:q} 2> {log}"


rule claims:
    input:
        study=f"{RESULTS}/study.json",
        cells=every_cell(),
        benchmarks=[f"{RESULTS}/benchmarks/{name}.json" for name in BENCHMARKS],
        audits=[f"{RESULTS}/audits/{name}.json" for name in AUDITS],
        diagnostics=DIAGNOSTICS,
        transplants=evaluations(),
        claims=[BASE / "papers" / paper / "claims.yaml" for paper in STUDY.data["claims"]],
        reported=BASE / "papers" / "reported.yaml",
    output:
        json=f"{REPORT}/claims.json",
        md=report(
            f"{REPORT}/claims.md",
            category="Verdicts",
            caption="../report/claims.rst",
        ),
    log:
        f"{RESULTS}/logs/claims.log",
    benchmark:
        f"{RESULTS}/logs/claims.tsv"
    conda:
        "../../envs/report.yaml"
    params:
        results=results_of,
        sources=stage_sources("claims"),
    shell:
        "overtone claims --study {input.study} --results {params.results:q} --out {output.json} 2> {log}"


TABLES_SHOWN = expand(f"{REPORT}/tables/{{table}}.{{suffix}}", table=sorted(EXHIBITS), suffix=["csv", "meta.json"])
FIGURES_SHOWN = expand(f"{REPORT}/figures/{{figure}}.svg", figure=sorted(FIGURES))


rule page:
    input:
        study=f"{RESULTS}/study.json",
        claims=f"{REPORT}/claims.json",
        tables=TABLES_SHOWN,
        figures=FIGURES_SHOWN,
    output:
        report(f"{REPORT}/index.html", category="Verdicts", caption="../report/page.rst"),
    log:
        f"{RESULTS}/logs/page.log",
    benchmark:
        f"{RESULTS}/logs/page.tsv"
    conda:
        "../../envs/report.yaml"
    params:
        results=results_of,
        folder=folder_of,
        sources=stage_sources("page"),
    shell:
        "overtone page --study {input.study} --results {params.results:q} --reports {params.folder:q} --out {output} 2> {log}"


rule crate:
    input:
        study=f"{RESULTS}/study.json",
        claims=f"{REPORT}/claims.json",
        tables=TABLES_SHOWN,
        figures=FIGURES_SHOWN,
        page=f"{REPORT}/index.html",
    output:
        f"{REPORT}/crate/ro-crate-metadata.json",
    log:
        f"{RESULTS}/logs/crate.log",
    benchmark:
        f"{RESULTS}/logs/crate.tsv"
    conda:
        "../../envs/report.yaml"
    params:
        results=results_of,
        sources=stage_sources("crate"),
    shell:
        "overtone crate --study {input.study} --results {params.results:q} --reports $(dirname {input.page:q}) --out {output} 2> {log}"
