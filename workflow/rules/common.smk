"""The study, its paths and the functions that rules share. Nothing here runs a stage."""

import inspect
import os
import re
import shlex
import sys

from snakemake.exceptions import WorkflowError

if str(BASE / "src") not in sys.path:
    sys.path.insert(0, str(BASE / "src"))

from overtone.errors import UserError
from overtone.files import canonical_json, digest_json
from overtone.reporting.modules import figure_sources, table_sources
from overtone.study.cells import COORDINATES, rate_owner, transplant_bases
from overtone.study import EXHIBITS, exhibit, experiment_cells, study_cells, sweep_trials
from overtone.study import diagnosed_cells, measured_audits, measured_benchmarks
from overtone.study.config import load_config
from overtone.study.load import corpus_registry, used_tokens
from overtone.study.resources import cell_resources
from overtone.study.sources import stage_sources, train_sources

try:
    CONFIG, STUDY = load_config(config, BASE)
    CELLS = {cell.key: cell for cell in study_cells(STUDY)}
    TRIALS = {
        f"{protocol}/{architecture}/{rate}": cell
        for protocol in STUDY.lr_sweep
        for architecture, rate, cell in sweep_trials(STUDY, protocol)
    }
except UserError as error:
    raise WorkflowError(str(error)) from None

gpus, limit = STUDY.data["gpus_per_cell"], workflow.global_resources.get("gpu")
if STUDY.data["device"] == "cuda" and limit is not None and gpus > limit.value:
    # Snakemake would cut the request down without a word.
    raise WorkflowError(f"{STUDY.name}: gpus_per_cell is {gpus}, and a job may have {limit.value} here. Add --resources gpu={gpus}.")

DOWNLOADS = f"{CONFIG['results']}/downloads"
RESULTS = f"{CONFIG['results']}/{STUDY.name}"
REPORT = f"{CONFIG['reports']}/{STUDY.name}"
BENCHMARKS = measured_benchmarks(STUDY)
AUDITS = measured_audits(STUDY)
DIAGNOSTICS = [f"{RESULTS}/diagnostics/resonator.json"] if diagnosed_cells(STUDY) else []
FIGURES = [name for name, item in EXHIBITS.items() if item.figure]


def benchmarked(settings):
    """Architectures that a benchmark may build: those it names, and all that are no ablation."""
    names = settings.get("architectures", [])
    return {name: item for name, item in STUDY.architectures.items() if name in names or "rate_of" not in item}


def parts():
    """What of the study concerns each part that has a settings file of its own. Not the price of an hour: tables multiply with it."""
    found = {"preflight": []}
    for name in BENCHMARKS:
        settings = STUDY.benchmarks.get(name, {})
        found[f"bench-{name}"] = [settings, benchmarked(settings), STUDY.sizes if "size" in settings else {}]
    bases = [cell.config() for cell in transplant_bases(STUDY)]
    for name, item in STUDY.transplants.items():
        own = {key: value for key, value in item.items() if key not in ("variants", "evaluation", "price_per_hour")}
        evaluation = item.get("evaluation", {})
        # A base that brings its tokenizer writes the text that is evaluated on, too.
        text = {} if item["base"]["kind"] == "cell" else {key: evaluation.get(key) for key in ("corpora", "split", "lambada")}
        shared = [own, text, bases, STUDY.tokenizers, STUDY.corpora, STUDY.data["split"]]
        found[f"transplant-{name}"] = shared
        found[f"evaluation-{name}"] = [*shared, item["variants"], evaluation]
        found |= {f"variants/{name}/{variant}": [*shared, entry] for variant, entry in item["variants"].items()}
    return found


PARTS = parts()


def study_source():
    """The study as the config names it; a path becomes absolute, since a job may run elsewhere."""
    name = str(CONFIG["study"])
    return str(Path(name).resolve()) if Path(name).suffix in (".yaml", ".yml") else name


def one_of(names):
    """A wildcard constraint: exactly one of these names ($^, which matches nothing, for none)."""
    return "|".join(re.escape(str(name)) for name in sorted(set(names), key=str)) or "$^"


def put_on_path():
    """Make `overtone` in a shell command this checkout's, under the interpreter of the rule's own environment or else this one."""
    by_conda = "conda" in {str(method) for method in workflow.deployment_settings.deployment_method}
    os.environ.update(
        PATH=os.pathsep.join([str(BASE / "workflow" / "scripts"), os.environ.get("PATH", os.defpath)]),
        OVERTONE_PYTHON="" if by_conda else sys.executable,
    )


put_on_path()


wildcard_constraints:
    corpus=one_of([*STUDY.corpora]),
    tokenizer=one_of([*STUDY.tokenizers]),
    protocol=one_of([*STUDY.protocols]),
    architecture=one_of([*STUDY.architectures]),
    size=one_of([*STUDY.sizes]),
    length=r"\d+",
    seed=r"\d+",
    rate=r"[0-9.e+-]+",
    split="train|validation|test",
    transplant=one_of([*STUDY.transplants]),
    variant=one_of([name for item in STUDY.transplants.values() for name in item["variants"]]),
    phase="1|2",
    experiment=one_of(STUDY.experiments),
    part=one_of(PARTS),
    audit=one_of(AUDITS),
    table=one_of(EXHIBITS),
    figure=one_of(FIGURES),


def tokens_of(cell):
    """The token sidecars a cell trains and evaluates on."""
    return [f"{RESULTS}/tokens/{cell.corpus}/{cell.tokenizer}/{split}.json" for split in ("train", "validation", "test")]


def metrics_of(cells):
    """The metrics files of these cells."""
    return [f"{RESULTS}/cells/{cell.key}/metrics.json" for cell in cells]


def rate_of(cell):
    """The swept rate a cell needs, as a list of inputs: none where the study fixes it."""
    if cell.config()["training"]["lr"] != "swept":
        return []
    return [f"{RESULTS}/lr_sweep/{cell.protocol}/{rate_owner(STUDY, cell.architecture)}/chosen.json"]


def cell_of(wildcards):
    """The cell that the wildcards of a training job name; a cell outside the study is an error."""
    keys = ("protocol", "corpus", "tokenizer", "architecture", "size", "length", "seed")
    key = "/".join(wildcards[name] for name in keys)
    if key not in CELLS:
        raise WorkflowError(f"{key}: not a cell of study {STUDY.name}. Add it to an experiment, or pick one of `overtone plan`.")
    return CELLS[key]


def trial_of(wildcards):
    """The trial of a learning-rate sweep that the wildcards name."""
    key = f"{wildcards.protocol}/{wildcards.architecture}/{wildcards.rate}"
    if key not in TRIALS:
        raise WorkflowError(f"{key}: not a trial of the sweep of study {STUDY.name}.")
    return TRIALS[key]


def kept_signature(function):
    """Work a function's signature out once: Snakemake asks three times for each function of each job, a tenth of a large plan."""
    function.__signature__ = inspect.signature(function)
    return function


def parent(path, name):
    """The part of a path before the folder `name`, so that paths follow a module's prefix."""
    return str(path).rsplit(f"/{name}/", 1)[0]


@kept_signature
def state_of(wildcards, output):
    """Where a job's checkpoints lie: RESULTS/state, undeclared."""
    for folder in ("cells", "lr_sweep", "transplants"):
        if f"/{folder}/" in str(output[0]):
            return f"{parent(output[0], folder)}/state"


@kept_signature
def tokens_folder(wildcards, input):
    """The folder of the token files a cell reads."""
    return str(Path(input.tokens[0]).parent)


@kept_signature
def rate_option(wildcards, input):
    """`--rate-file FILE` where the cell's rate comes from a sweep."""
    return f"--rate-file {shlex.quote(str(input.rate[0]))}" if len(input.rate) else ""


@kept_signature
def cell_json(wildcards):
    """The cell's whole configuration: changing it is what makes the cell run again."""
    return canonical_json(cell_of(wildcards).config())


@kept_signature
def trial_json(wildcards):
    """The same for a trial."""
    return canonical_json(trial_of(wildcards).config())


def resource(name, cell, attempt):
    """One resource of a training job, from its cell; memory and time grow with each attempt."""
    return cell_resources(STUDY, cell)[name] * attempt


def growing(value):
    """A resource that every attempt asks for as much of again."""

    def resource(wildcards, attempt):
        return value * attempt

    return resource


def folder_of(wildcards, output):
    """The folder of a job's first output."""
    return str(Path(output[0]).parent)


def results_of(wildcards, input):
    """The results folder, from where study.json lies."""
    return str(Path(input.study).parent)


GPUS = STUDY.data["gpus_per_cell"] if STUDY.data["device"] == "cuda" else 0  # of a training job
EXCLUSIVE = workflow.cores or 1  # a benchmark has the machine to itself
