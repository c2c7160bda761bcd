"""Names, options, seeds, third parties, matching."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from overtone.errors import UserError
from overtone.files import canonical_json
from overtone.models import architecture_names, build_for_cell, build_model, matched_dimensions, parameter_counts
from overtone.study import Cell


def test_the_five_architectures_are_registered() -> None:
    assert {"harmonic", "transformer", "llama", "mamba", "resonator"} <= set(architecture_names())


def test_unknown_names_offer_the_nearest() -> None:
    with pytest.raises(UserError, match=r"'harmonik' is not known. Did you mean 'harmonic'"):
        build_model("harmonik", vocab_size=5, hidden=4)
    with pytest.raises(UserError, match=r"option: 'flat_timescale' is not known. Did you mean 'flat_timescales'"):
        build_model("harmonic", vocab_size=5, hidden=4, flat_timescale=True)
    with pytest.raises(UserError, match="hidden: 0 found"):
        build_model("harmonic", vocab_size=5, hidden=0)


@pytest.mark.parametrize("name", ["harmonic", "transformer", "llama", "mamba", "resonator"])
def test_the_seed_alone_decides_the_weights(name: str) -> None:
    torch.manual_seed(1)
    first = build_model(name, vocab_size=11, hidden=16, seed=7)
    torch.manual_seed(2)
    after = torch.get_rng_state()
    second, other = build_model(name, vocab_size=11, hidden=16, seed=7), build_model(name, vocab_size=11, hidden=16, seed=8)
    assert torch.equal(after, torch.get_rng_state())  # the global generator is left alone
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))
    assert not torch.equal(first.embedding.weight, other.embedding.weight)


PACKAGE = '''
from dataclasses import dataclass
from overtone.models.harmonic import Harmonic, HarmonicConfig

class Mine(Harmonic):
    name = "mine"
'''
METADATA = "Metadata-Version: 2.1\nName: overtone-mine\nVersion: 1.0\n"


def third_party(folder: Path, entry_points: str, code: str) -> subprocess.CompletedProcess[str]:
    """Run `code` where a package with these entry points is installed."""
    information = folder / "overtone_mine-1.0.dist-info"
    information.mkdir(parents=True)
    (folder / "overtone_mine.py").write_text(PACKAGE)
    (information / "METADATA").write_text(METADATA)
    (information / "entry_points.txt").write_text(f"[overtone.architectures]\n{entry_points}\n")
    program = f"import sys; sys.path.insert(0, {str(folder)!r})\n{code}"
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)


def test_third_parties_add_architectures_by_entry_points(tmp_path: Path) -> None:
    done = third_party(tmp_path, "mine = overtone_mine:Mine\ngone = overtone_absent:Gone\nyours = overtone_mine:Mine", """
from overtone.errors import UserError
from overtone.models import *
print(architecture_names(), build_model("mine", vocab_size=5, hidden=4, tied=True).name)
for broken in ("gone", "yours"):  # told only when it is used
    try:
        build_model(broken, vocab_size=5, hidden=4)
    except UserError as error:
        print(error)
""")
    names, gone, yours = done.stdout.strip().splitlines()
    assert names == "['gone', 'harmonic', 'llama', 'mamba', 'mine', 'resonator', 'transformer', 'yours'] mine", done.stderr
    assert gone.startswith("architecture 'gone': overtone_absent:Gone cannot be imported")
    assert yours == "architecture 'yours': overtone_mine:Mine has name 'mine'; both must be the same."


def total(name: str, hidden: int, options: dict, vocab_size: int = 256) -> int:
    with torch.device("meta"):
        return int(parameter_counts(build_model(name, vocab_size=vocab_size, hidden=hidden, **options))["total"])


@pytest.mark.parametrize("reference", ["harmonic", "resonator", "transformer"])
@pytest.mark.parametrize("name", ["harmonic", "transformer", "llama", "mamba", "resonator"])
@pytest.mark.parametrize(("hidden", "vocab_size"), [(32, 256), (64, 256), (128, 1024)])
def test_matched_models_have_the_references_parameters(name: str, reference: str, hidden: int, vocab_size: int) -> None:
    size, options = matched_dimensions(name, reference=reference, vocab_size=vocab_size, hidden=hidden, options={})
    tolerance = 0.02 if name == "mamba" else 0.01
    assert total(name, size, options, vocab_size) == pytest.approx(total(reference, hidden, {}, vocab_size), rel=tolerance)


def test_matching_at_the_papers_sizes() -> None:
    assert matched_dimensions("mamba", reference="harmonic", vocab_size=50257, hidden=256, options={}) == (256, {"layers": 5})
    hidden, options = matched_dimensions("llama", reference="resonator", vocab_size=1013, hidden=256, options={"layers": 4})
    assert hidden == 256
    assert options["layers"] == 4
    assert total("llama", 256, options, 1013) == pytest.approx(total("resonator", 256, {}, 1013), rel=0.001)


def test_matching_keeps_set_options_and_tied_embeddings() -> None:
    fixed = {"tied": True, "kv_heads": 1}
    hidden, options = matched_dimensions("llama", reference="harmonic", vocab_size=256, hidden=64, options=fixed)
    assert options["tied"] is True
    assert options["kv_heads"] == 1
    assert total("llama", hidden, options) == pytest.approx(total("harmonic", 64, {"tied": True}), rel=0.01)


def test_what_cannot_match_is_told() -> None:
    with pytest.raises(UserError, match="no size comes within 1% of harmonic"):
        matched_dimensions("llama", reference="harmonic", vocab_size=256, hidden=64, options={"layers": 60})


@pytest.mark.parametrize(
    ("name", "option", "value", "told"),
    [
        ("transformer", "ffn", -3, "transformer: ffn: -3 found, at least 1 expected"),
        ("llama", "layers", 0, "llama: layers: 0 found, at least 1 expected"),
        ("mamba", "layers", -1, "mamba: layers: -1 found, at least 1 expected"),
        ("mamba", "d_conv", 0, "mamba: d_conv: 0 found, at least 1 expected"),
        ("harmonic", "levels", 0, "harmonic: levels: 0 found, at least 1 expected"),
        ("resonator", "intermediate", 0, "resonator: intermediate: 0 found, at least 1 expected"),
        ("resonator", "kernel_backend", "ftt", "resonator: kernel_backend: 'ftt' is not known. Did you mean 'fft'"),
    ],
)
def test_a_size_that_makes_no_model_is_told(name: str, option: str, value: object, told: str) -> None:
    with pytest.raises(UserError, match=told):
        build_model(name, vocab_size=5, hidden=64, **{option: value})


def cell(**changes: object) -> Cell:
    values = {"protocol": "p", "corpus": "c", "tokenizer": "t", "architecture": "llama", "size": "s", "length": 8, "seed": 4,
              "model": "llama", "hidden": 64, "options": canonical_json({"heads": 2}), "match": "harmonic", "training": canonical_json({})}
    return Cell(**(values | changes))  # type: ignore[arg-type]


def test_a_cells_model_is_matched_and_seeded() -> None:
    model = build_for_cell(cell(), 256)
    assert model.config.heads == 2  # type: ignore[attr-defined]
    assert parameter_counts(model)["total"] == pytest.approx(total("harmonic", 64, {}), rel=0.01)
    again, other = build_for_cell(cell(), 256), build_for_cell(cell(seed=5), 256)
    assert torch.equal(model.embedding.weight, again.embedding.weight)
    assert not torch.equal(model.embedding.weight, other.embedding.weight)
    assert build_for_cell(cell(match=None), 256).config == build_model("llama", vocab_size=256, hidden=64, heads=2).config
