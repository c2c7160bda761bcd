"""Which of our files can change the result of which stage: a rule passes their digest as a parameter.

Editing a plot then plans no training, and editing one architecture replans only that architecture's cells.
"""

from __future__ import annotations

from overtone.provenance import sources_digest
from overtone.study.cells import Cell

# Files and folders of the package, as glob patterns; a test holds that each of them exists.
_SCAN = ("ops/linear_scan", "ops/precision.py")
_MODEL = {
    "harmonic": ("models/harmonic.py", *_SCAN),
    "transformer": ("models/transformer.py", "models/attention.py"),
    "llama": ("models/llama.py", "models/attention.py"),
    "mamba": ("models/mamba.py", "models/selective_scan*.py", *_SCAN),
    "resonator": ("models/resonator.py", "ops/resonant_convolution"),
}
_TRAIN = (
    *(f"training/{name}.py" for name in ("batches", "cell", "evaluate", "loop", "metrics")),
    *(f"training/{name}.py" for name in ("optimizer", "plan", "protocol", "run", "stream")),
    *(f"models/{name}.py" for name in ("base", "counts", "matching", "unfilled")),
    "ops/linear_cross_entropy.py",
)
_TRANSPLANT = (  # base and phases
    *(f"transplant/{name}.py" for name in ("base", "block", "cache", "config", "gguf_llama", "leaky", "memory")),
    *(f"transplant/{name}.py" for name in ("model", "objectives", "phase", "scoring", "text", "train")),
    *("ops/linear_cross_entropy.py", *_SCAN),
    *(f"training/{name}.py" for name in ("batches", "evaluate", "loop", "optimizer", "plan", "protocol", "stream")),
    *("corpora/tokenize.py", "corpora/documents.py"),
)
STAGES: dict[str, tuple[str, ...]] = {
    "extract": ("corpora/extract.py", "corpora/archive.py", "corpora/mediawiki.py", "corpora/rows.py", "corpora/documents.py"),
    "split": ("corpora/split.py", "corpora/documents.py"),
    "tokenizer": ("corpora/tokenizers", "corpora/documents.py"),
    "tokenize": ("corpora/tokenize.py", "corpora/tokenizers", "corpora/documents.py"),
    "choose_rate": ("training/sweep.py",),
    "gather": ("study/outcome.py",),
    "transplant": _TRANSPLANT,
    "transplant_evaluate": ("transplant", *_TRANSPLANT),
    "bench": ("benchmarks", "models", "ops", *(f"training/{name}.py" for name in ("memory", "optimizer", "protocol"))),
    "diagnose": ("benchmarks/resonator.py", "verbs/diagnose.py", "audits/causality.py"),
    "audit": ("audits",),
    "claims": (
        *("reporting/claims*.py", "reporting/quantities*.py", "reporting/decide.py"),
        *(f"reporting/{name}.py" for name in ("collect", "formats", "reported", "rows", "statistics")),
        *("audits/entropy.py", "audits/peak.py"),
    ),
    "page": ("reporting/page", "reporting/*.py", *(f"audits/{name}.py" for name in ("entropy", "peak", "report", "results", "settings"))),
    "crate": ("reporting/crate.py", "audits/results.py"),
    **{f"model {name}": parts for name, parts in _MODEL.items()},
    "train": _TRAIN,
}


def stage_sources(stage: str) -> str:
    """Digest of the sources that decide a stage's result."""
    return sources_digest(*STAGES[stage])


def train_sources(cell: Cell) -> str:
    """Digest of the sources that decide a cell: the protocol's, the architecture's, and those of the model it is sized to."""
    return sources_digest(*_TRAIN, *_MODEL.get(cell.model, ()), *_MODEL.get(cell.match or "", ()))
