"""Measure the data stages on a synthetic corpus: MB of text a second of CPU time, and peak memory, a stage.

    python benchmarks/data_stages.py --megabytes 1000 [--spec JSON ...] [--text documents.jsonl] [--out FILE.json]

Every stage is a process of its own, run through the verb a user calls: the peak is what the operating system counted,
and start-up (about 0.5 s) is included. The text is drawn from a fixed seed, 20,000 made-up words by Zipf's law in
documents of 2 to 200 KB; `--text` repeats the documents of a real corpus instead.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path

import numpy as np

from overtone.corpora.documents import read_documents
from overtone.files import write_json
from overtone.provenance import environment

SPECS = ('{"kind":"bytes"}', '{"kind":"characters","max_vocab":256}', '{"kind":"sentencepiece","vocab_size":8192}')


def synthetic_texts(seed: int = 0) -> Iterator[str]:
    """Endless documents of made-up words."""
    draw = np.random.default_rng(seed)
    letters = np.array(list("etaoinshrdlcumwfgypbvkjxqzéü"))
    lengths = draw.integers(1, 12, 20_000)
    words = np.array(["".join(draw.choice(letters, size, p=_falling(len(letters), 0.7))) for size in lengths], object)
    chances = _falling(len(words), 1.0)
    while True:
        drawn = draw.choice(words, int(draw.integers(300, 30_000)), p=chances)
        ends = draw.integers(8, 60, len(drawn) // 8).cumsum()
        drawn[ends[ends < len(drawn)]] += ".\n"
        yield " ".join(drawn)


def _falling(count: int, power: float) -> np.ndarray:
    weights = 1.0 / np.arange(1, count + 1) ** power
    return weights / weights.sum()


def write_archive(folder: Path, size: int, text: Path | None) -> int:
    """An archive of JSON lines with at least `size` bytes of text; returns its bytes of text."""
    texts = synthetic_texts() if text is None else cycle([document.text for document in read_documents(text)])
    written = 0
    with open(folder / "archive", "w", encoding="utf-8") as file:
        for number, body in enumerate(texts):
            document = f"{number}\n{body}"  # no two documents are equal
            file.write(json.dumps({"text": document}, ensure_ascii=False) + "\n")
            written += len(document.encode())
            if written >= size:
                break
    content = {"form": "rows", "packing": "none"}
    write_json(folder / "archive.json", {"name": "synthetic", "sha256": "", "content": content})
    return written


def measure(*words: str) -> dict[str, float]:
    """Run a verb; wall and CPU seconds, peak resident bytes."""
    start = time.perf_counter()
    quiet = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
    process = os.posix_spawn(sys.executable, [sys.executable, "-m", "overtone.cli", *words], os.environ, file_actions=quiet)
    _, status, usage = os.wait4(process, 0)
    if status:
        sys.exit(f"overtone {' '.join(words)}: failed")
    cpu = usage.ru_utime + usage.ru_stime
    return {"wall_s": time.perf_counter() - start, "cpu_s": cpu, "peak_bytes": usage.ru_maxrss * 1024}


def main() -> None:
    """Measure every stage and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=float, default=100.0, help="text of the corpus, 10^6 bytes (default: 100)")
    parser.add_argument("--spec", action="append", help=f"a tokenizer to measure (default: {' '.join(SPECS)})")
    parser.add_argument("--text", type=Path, help="documents.jsonl whose documents are repeated (default: synthetic)")
    parser.add_argument("--out", type=Path, help="write the rows as JSON")
    args = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        size = write_archive(folder, int(args.megabytes * 1e6), args.text)

        def stage(label: str, *words: str) -> None:
            found = measure(*words)
            rate = size / found["cpu_s"] / 1e6
            rows.append({"stage": label, "bytes": size, "mb_per_cpu_s": rate, **found})
            print(f"| {label} | {found['cpu_s']:.1f} | {rate:.1f} | {found['peak_bytes'] / 1e6:.0f} |", flush=True)

        print(f"{size / 1e6:.0f} MB of text\n\n| stage | CPU s | MB/s a core | peak MB |\n|---|---|---|---|")
        stage("extract", "extract", "--archive", f"{folder}/archive.json", "--out", f"{folder}/documents.json")
        os.remove(folder / "archive")
        # everything in train, so that the rates below are over the whole text
        stage("split", "split", "--documents", f"{folder}/documents.json", "--out", f"{folder}/splits.json",
              "--validation", "0", "--test", "0")
        os.remove(folder / "documents.jsonl")
        for spec in args.spec or SPECS:
            kind = json.loads(spec)["kind"]
            stage(f"tokenizer {kind}", "tokenizer", "--splits", f"{folder}/splits.json", "--spec", spec,
                  "--out", f"{folder}/{kind}/tokenizer.json")
            stage(f"tokenize {kind}", "tokenize", "--splits", f"{folder}/splits.json", "--split", "train",
                  "--tokenizer", f"{folder}/{kind}/tokenizer.json", "--out", f"{folder}/{kind}/train.json")
            os.remove(folder / kind / "train.bin")
    if args.out:
        write_json(args.out, {"rows": rows, "environment": environment(threads=1)})


if __name__ == "__main__":
    main()
