"""The tables and figures of the report: their names, captions and what each is computed from.

An exhibit NAME is rendered as reports/STUDY/tables/NAME.{csv,md,tex} and, where it has a figure,
reports/STUDY/figures/NAME.{pdf,svg,png}. The figure is drawn from the table's CSV alone.
"""

from __future__ import annotations

from dataclasses import dataclass

from overtone.errors import unknown_name


@dataclass(frozen=True)
class Exhibit:
    """A table, with or without a figure.

    `experiments` names experiments of the study whose cells it reads ("*": every cell);
    `benchmarks`, `audits`: the measurements by name; `transplants`, `diagnostics`, `sweeps`, `claims`: whether it reads those.
    """

    name: str
    paper: str  # harmonic | resonatorlm | both
    title: str
    experiments: tuple[str, ...] = ()
    benchmarks: tuple[str, ...] = ()
    audits: tuple[str, ...] = ()
    transplants: bool = False
    diagnostics: bool = False
    sweeps: bool = False
    claims: bool = False
    figure: bool = True


_ALL = (
    Exhibit("crossover", "harmonic", "Bits per token by training length, and the gap to the Transformer",
            ("crossover", "carry_state", "extra")),
    Exhibit("crossover_wikitext103", "harmonic", "The crossover on a second corpus or tokenizer", ("crossover_wikitext103",)),
    Exhibit("memory_wall", "harmonic", "Peak training memory by length, and the longest length that trains", ("crossover",), ("memory",)),
    Exhibit("scaling", "harmonic", "The gap to the Transformer by model size", ("scaling", "crossover")),
    Exhibit("ablations", "harmonic", "Harmonic without its timescale hierarchy or its prediction errors", ("ablations",)),
    Exhibit("seeds", "harmonic", "Spread between seeds, alone and paired", ("seeds",)),
    Exhibit("training_curves", "harmonic", "Validation loss by tokens seen", ("crossover",)),
    Exhibit("throughput", "harmonic", "Training tokens per second, synchronised", (), ("throughput",)),
    Exhibit("loss_by_position", "harmonic", "Loss by position in the window", ("crossover",)),
    Exhibit("timescales", "harmonic", "Time constants of each level before and after training", ("crossover", "ablations")),
    Exhibit("hallamonic", "harmonic", "Transplanted Llama beside its untouched base, by length", transplants=True),
    Exhibit("hallamonic_positions", "harmonic", "Loss by position past the trained context", transplants=True),
    Exhibit("hallamonic_cost", "harmonic", "Tokens, hours and dollars of a transplant", transplants=True),
    Exhibit("quality", "resonatorlm", "Test perplexity and accuracy at equal size", ("quality",)),
    Exhibit("breadth", "resonatorlm", "Resonator against Transformer over tokenizers, corpora and contexts", ("breadth",)),
    Exhibit("resonator_ablations", "resonatorlm", "ResonatorLM without coupling, local path, learned kernels", ("resonator_ablations",)),
    Exhibit("training_throughput", "resonatorlm", "Training throughput, ResonatorLM against Transformer", (), ("throughput",)),
    Exhibit("decode", "resonatorlm", "Decode time per token by context", (), ("decode",)),
    Exhibit("decode_memory", "resonatorlm", "Decode state and memory by context", (), ("decode",)),
    Exhibit("kernel_tail", "resonatorlm", "The mixer alone: last outputs against the quadratic reference", (), ("kernel_tail",)),
    Exhibit("impulse_responses", "resonatorlm", "Impulse response of every head against its formula", diagnostics=True),
    Exhibit("half_lives", "resonatorlm", "Half-lives before and after training", diagnostics=True),
    Exhibit("spectrum", "resonatorlm", "Spectrum of every kernel", diagnostics=True),
    Exhibit("energy", "resonatorlm", "Energy of white input through every head, and the slowest head at every step", diagnostics=True),
    Exhibit("causality", "resonatorlm", "Causality of every checkpoint and of the leaky control", audits=("causality", "entropy")),
    Exhibit("zoo", "both", "Every architecture under every protocol", ("*",)),
    Exhibit("claims", "both", "The verdict on every claim", claims=True),
    Exhibit("audits", "both", "Every audit", audits=("causality", "entropy", "budget", "timing", "baseline"), figure=False),
    Exhibit("cost", "both", "What the study cost: tokens, FLOPs, time", ("*",), transplants=True, sweeps=True),
    Exhibit("lr_sweep", "both", "Validation loss by learning rate", sweeps=True),
)
EXHIBITS: dict[str, Exhibit] = {item.name: item for item in _ALL}


def exhibit(name: str) -> Exhibit:
    """Look a table or figure up by name; an unknown name is a UserError with the nearest valid one."""
    if name not in EXHIBITS:
        raise unknown_name("table or figure", name, EXHIBITS)
    return EXHIBITS[name]
