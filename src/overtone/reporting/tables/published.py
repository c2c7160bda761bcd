"""What the papers report for a table, from papers/reported.yaml, and on what they measured it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from overtone.reporting.reported import load_reported

# What a table of the paper was measured on: corpora, tokenizers, and in words.
SETTINGS: dict[str, tuple[set[str], set[str], str]] = {
    "crossover": ({"enwik8"}, {"gpt2"}, "enwik8, GPT-2 BPE, 28M parameters, one H100"),
    "crossover_wikitext103": ({"wikitext-103"}, {"gpt2"}, "WikiText-103, GPT-2 BPE, 28M parameters, one H100"),
    "memory_wall": ({"enwik8"}, {"gpt2"}, "enwik8, GPT-2 BPE, 28M parameters, one 80 GB H100"),
    "scaling": ({"enwik8"}, {"gpt2"}, "enwik8, GPT-2 BPE, 13M to 106M parameters, one H100"),
    "ablations": ({"wikitext-2"}, {"gpt2"}, "WikiText-2, GPT-2 BPE, length 8192, one H100"),
    "seeds": ({"enwik8"}, {"gpt2"}, "enwik8, GPT-2 BPE, 28M parameters, length 8192, one H100"),
    "training_curves": ({"enwik8"}, {"gpt2"}, "enwik8, GPT-2 BPE, 28M parameters, one H100"),
    "loss_by_position": ({"enwik8"}, {"gpt2"}, "enwik8, GPT-2 BPE, 28M parameters, one H100"),
    "timescales": ({"enwik8"}, {"gpt2"}, "enwik8, GPT-2 BPE, 28M parameters, one H100"),
    "quality": ({"wikitext-2"}, {"characters"}, "WikiText-2 characters, 6M parameters"),
    "breadth": ({"wikitext-2", "wikitext-103", "tinystories"}, {"characters", "bytes"},
                "WikiText-2, WikiText-103 and TinyStories, characters and bytes, 6M parameters"),
    "resonator_ablations": ({"wikitext-2"}, {"characters"}, "WikiText-2 characters, 6M parameters"),
}


def crossover(section: str) -> Iterator[dict[str, Any]]:
    """Rows {architecture, length, status, bpt, gap_pct} of `crossover_enwik8_28M` or `crossover_wikitext103_28M`."""
    table = load_reported()["harmonic"][section]
    for index, length in enumerate(table["lengths"]):
        transformer = table["transformer"][index]
        for architecture in ("harmonic", "transformer", "mamba"):
            value = table[architecture][index]
            row = {"architecture": architecture, "length": length, "status": "ok", "bpt": value, "gap_pct": None}
            if value == "oom":
                row |= {"status": "oom", "bpt": None}
            elif architecture != "transformer" and transformer != "oom":
                row["gap_pct"] = 100 * (transformer - value) / transformer
            yield row


def scaling() -> Iterator[dict[str, Any]]:
    """Rows {size, length, architecture, bpt, gap_pct}: gaps recomputed with one denominator, bpt of the Transformer."""
    for item in load_reported()["harmonic"]["scaling_enwik8"]:
        if "hidden" in item:
            gap = 100 * (item["transformer"] - item["harmonic"]) / item["transformer"]
            for architecture in ("harmonic", "transformer"):
                yield {"size": f"d{item['hidden']}", "length": item["length"], "architecture": architecture,
                       "bpt": item[architecture], "gap_pct": gap if architecture == "harmonic" else None}


def ablations() -> dict[str, float]:
    """Architecture -> bpt of the ablation table."""
    table = load_reported()["harmonic"]["ablations_wikitext2_8192"]
    names = {"full": "harmonic", "flat_timescales": "harmonic-flat", "raw_hidden_states": "harmonic-raw",
             "mamba": "mamba", "transformer": "transformer"}
    return {name: table[key] for key, name in names.items()}


def seeds() -> Iterator[dict[str, Any]]:
    """Rows {architecture, seed, bpt}."""
    table = load_reported()["harmonic"]["seeds_enwik8_8192"]
    for architecture in ("harmonic", "mamba", "transformer"):
        for seed, value in table[architecture].items():
            yield {"architecture": architecture, "seed": seed, "bpt": value}


def quality() -> dict[str, dict[str, float]]:
    """Architecture -> {test_ppl, test_accuracy_pct, train_tokens_per_s}."""
    table: dict[str, dict[str, float]] = {
        name: value for name, value in load_reported()["resonatorlm"]["main_wikitext2_char_6M"].items() if isinstance(value, dict)
    }
    return table


def throughput() -> Iterator[dict[str, Any]]:
    """Rows {architecture, length, tokens_per_s, synchronised} of the Harmonic logs."""
    table = load_reported()["harmonic"]["throughput_tokens_per_s"]
    for key, value in table["unsynchronised_28M"].items():
        architecture, length = key.rsplit("_", 1)
        yield {"architecture": architecture, "length": int(length), "tokens_per_s": value, "synchronised": False}
    for length in (8192, 16384):
        for architecture, value in table[f"synchronised_28M_{length}"].items():
            yield {"architecture": architecture, "length": length, "tokens_per_s": value, "synchronised": True}


def memory() -> Iterator[dict[str, Any]]:
    """Rows {architecture, length, peak_bytes}: the forward profile in the logs, batch 2, bfloat16, flash attention."""
    table = load_reported()["harmonic"]["memory_profile_batch2_bf16_GB"]
    for architecture in ("harmonic", "transformer"):
        for length, gigabytes in zip(table["lengths"], table[architecture], strict=True):
            yield {"architecture": architecture, "length": length, "peak_bytes": gigabytes * 1e9}


def hallamonic() -> Iterator[dict[str, Any]]:
    """Rows {model, corpus, length, bpt, random_tokens_bpt, entropy_floor_bpt}; model: transplanted | base."""
    section = load_reported()["harmonic"]["hallamonic"]
    random = section["red_flags"]["uniform_random_tokens_bpt"]
    for corpus, table in section["eval_bpt"].items():
        for model, name in (("hallamonic", "transplanted"), ("tinyllama", "base")):
            for length, value in zip((1024, 4096, 8192), table[model], strict=True):
                yield {"model": name, "corpus": corpus, "length": length, "bpt": value, "random_tokens_bpt": random[model],
                       "entropy_floor_bpt": random["entropy_floor"]}


def decode() -> list[dict[str, Any]]:
    """Rows {architecture, context, ms_per_token}."""
    table = load_reported()["resonatorlm"]["decode"]["at_32768"]
    return [{"architecture": name, "context": 32768, "ms_per_token": table[f"{name}_ms_per_token"]}
            for name in ("resonator", "transformer")]


def kernel_tail() -> dict[int, float]:
    """Length -> published speed-up over the quadratic causal reference."""
    table: dict[int, float] = load_reported()["resonatorlm"]["kernel_tail_speedup_vs_quadratic_causal_reference"]
    return table
