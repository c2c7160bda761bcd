"""What jobs ask for, file by file: inputs, parameters, resources."""

# data.smk


def part_decides(wildcards):
    """What of the study concerns one part, and where jobs run."""
    return canonical_json([STUDY.data["device"], STUDY.data["gpus_per_cell"], *PARTS[wildcards.part]])


def study_words(wildcards, output):
    """The study and its edits as words of a command. Snakemake does not compare a parameter that is derived from the output: what makes
    a part's job run again is `decides` alone."""
    return f"{shlex.quote(study_source())} --edit {shlex.quote(canonical_json(CONFIG['edit']))}"


def corpus_entry(wildcards):
    """The corpus' entry in workflow/corpora.yaml: another version or digest is fetched anew."""
    return canonical_json(corpus_registry()[wildcards.corpus])


def tokenizer_spec(wildcards):
    """The tokenizer's entry in the study, as canonical JSON."""
    return canonical_json(STUDY.tokenizers[wildcards.tokenizer])


# cells.smk


@kept_signature
def cell_tokens(wildcards):
    """Token sidecars of a cell."""
    return tokens_of(cell_of(wildcards))


@kept_signature
def trial_tokens(wildcards):
    """Token sidecars of a trial."""
    return tokens_of(trial_of(wildcards))


@kept_signature
def cell_rate(wildcards):
    """The chosen rate of a cell, where there is a sweep."""
    return rate_of(cell_of(wildcards))


@kept_signature
def cell_sources(wildcards):
    """Digest of the sources that decide a cell's result."""
    return train_sources(cell_of(wildcards))


@kept_signature
def trial_sources(wildcards):
    """The same for a trial."""
    return train_sources(trial_of(wildcards))


@kept_signature
def cell_memory(wildcards, attempt):
    """Megabytes of a cell."""
    return resource("mem_mb", cell_of(wildcards), attempt)


@kept_signature
def cell_runtime(wildcards, attempt):
    """Minutes of a cell."""
    return resource("runtime", cell_of(wildcards), attempt)


@kept_signature
def trial_memory(wildcards, attempt):
    """Megabytes of a trial."""
    return resource("mem_mb", trial_of(wildcards), attempt)


@kept_signature
def trial_runtime(wildcards, attempt):
    """Minutes of a trial."""
    return resource("runtime", trial_of(wildcards), attempt)


def trials_of(wildcards):
    """All trials of one architecture's sweep."""
    start = f"{wildcards.protocol}/{wildcards.architecture}/"
    return [f"{RESULTS}/lr_sweep/{key}/metrics.json" for key in sorted(TRIALS) if key.startswith(start)]


def experiment_metrics(wildcards):
    """Metrics of every cell of an experiment."""
    return metrics_of(experiment_cells(STUDY, wildcards.experiment))


def gathered(names):
    """What stands for the cells of these experiments, of those that the study has."""
    return [f"{RESULTS}/experiments/{name}.json" for name in names if name in STUDY.experiments]


def every_cell():
    """What stands for every cell of the study: its experiments, and the bases of transplants."""
    return gathered(STUDY.experiments) + metrics_of(transplant_bases(STUDY))


# transplant.smk


def base_config(wildcards):
    """What of the study decides a transplant's base."""
    return canonical_json(PARTS[f"transplant-{wildcards.transplant}"])


def variant_config(wildcards):
    """What of the study decides the training of a variant."""
    return canonical_json(PARTS[f"variants/{wildcards.transplant}/{wildcards.variant}"])


def evaluation_config(wildcards):
    """What of the study decides a transplant's evaluation."""
    return canonical_json(PARTS[f"evaluation-{wildcards.transplant}"])


def transplant_tokens(wildcards):
    """Token sidecars a transplant of a base trained in the study reads; a hub or package base brings its own tokenizer."""
    return [f"{RESULTS}/{path}" for path in used_tokens(STUDY, wildcards.transplant)]


def results_of_transplant(wildcards, output):
    """The results folder, from what a transplant writes."""
    return parent(output[0], "transplants")


def base_cell(wildcards):
    """The metrics of the base, where it is a cell of the study."""
    base = STUDY.transplants[wildcards.transplant]["base"]
    if base["kind"] != "cell":
        return []
    key = "/".join(str(base[name]) for name in COORDINATES)
    return metrics_of([CELLS[key]])


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


# benchmarks.smk


def benchmark_settings(wildcards):
    """The benchmark's section of the study."""
    return canonical_json(STUDY.benchmarks.get(wildcards.bench, {}))


def diagnosed(wildcards):
    """Metrics of the trained ResonatorLM cells of the quality experiment."""
    return metrics_of(diagnosed_cells(STUDY))


# audits.smk


def audit_inputs(wildcards):
    """Everything an audit looks at: all cells, and transplants, sweeps or benchmarks where it reads those."""
    files = every_cell()
    if wildcards.audit in ("causality", "entropy"):
        files += [path for name in sorted(STUDY.transplants) for path in phases_of(name)]
    if wildcards.audit == "baseline":
        files += chosen_rates()
    if wildcards.audit == "timing" and "throughput" in BENCHMARKS:
        files += [f"{RESULTS}/benchmarks/throughput.json"]
    return files


def chosen_rates():
    """The outcome of every learning-rate sweep."""
    return sorted({f"{RESULTS}/lr_sweep/{os.path.dirname(key)}/chosen.json" for key in TRIALS})


def audit_settings(wildcards):
    """The audit's section of the study."""
    return canonical_json(STUDY.audits.get(wildcards.audit, {}))


# report.smk


def table_inputs(wildcards):
    """What a table is computed from, as overtone.study.exhibits says."""
    item = exhibit(wildcards.table)
    files = every_cell() if item.experiments == ("*",) else gathered(item.experiments)
    files += [f"{RESULTS}/benchmarks/{name}.json" for name in item.benchmarks if name in BENCHMARKS]
    files += [f"{RESULTS}/audits/{name}.json" for name in item.audits if name in AUDITS]
    if item.transplants:
        files += evaluations()
        files += [path for name in sorted(STUDY.transplants) for path in phases_of(name)]
    if item.diagnostics:
        files += DIAGNOSTICS
    if item.sweeps:
        files += chosen_rates()
    if item.claims:
        files += [f"{REPORT}/claims.json"]
    return files


def claims_option(wildcards, input):
    """`--claims FILE` for the table of verdicts."""
    found = [path for path in input.measured if Path(path).name == "claims.json"]
    return f"--claims {shlex.quote(str(found[0]))}" if found else ""


def tables_folder(wildcards, input):
    """The folder a figure reads its CSV from."""
    return str(Path(input.csv).parent)


def sources_of_table(wildcards):
    """The function and the digest of the sources that decide a table."""
    return table_sources(wildcards.table)


def sources_of_figure(wildcards):
    """The function and the digest of the sources that decide a figure beside its table's."""
    return figure_sources(wildcards.figure)
