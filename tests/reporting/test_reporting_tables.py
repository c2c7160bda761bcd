"""Every table on a full, a failed and an empty study; what the numbers and the files say."""

import json
import re

import numpy as np
import pandas as pd
import pytest
import results_factory as factory

from overtone.cli import main
from overtone.errors import UserError
from overtone.files import read_json, write_json
from overtone.reporting import formats
from overtone.reporting.collect import Results
from overtone.reporting.modules import TABLES
from overtone.reporting.rows import select
from overtone.reporting.statistics import gap
from overtone.reporting.tables import caption
from overtone.reporting.tables.build import build_table
from overtone.reporting.tables.table import write_table
from overtone.study import EXHIBITS

EMPTY = {"experiments": {}, "transplants": {}, "lr_sweep": {}, "benchmarks": {},
         "protocols": {"harmonic": {"budget": 8192, "tokens_per_step": 2048, "lr": 0.001}}}


def results_of(folder, **options):
    root = factory.write_results(folder, **options)
    write_json(root / "claims.json", factory.claims_json())
    return Results.open(root / "study.json", root)


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    return results_of(tmp_path_factory.mktemp("full"))


@pytest.fixture(scope="module")
def failed(tmp_path_factory):
    return results_of(tmp_path_factory.mktemp("failed"), statuses=lambda cell: "oom" if cell.seed % 2 else "diverged")


@pytest.fixture(scope="module")
def empty(tmp_path_factory):
    return results_of(tmp_path_factory.mktemp("empty"), data=factory.study_data(**EMPTY))


def build(name, results):
    return build_table(name, results, results.root / "claims.json")


def test_the_price_of_an_hour_is_the_studys_of_today(tmp_path):
    """A price edited after the transplant ran is in its dollars; a transplant may have its own."""
    results = results_of(tmp_path)
    before = build("hallamonic_cost", results).data
    results.study.data["price_per_hour"] *= 3
    assert build("hallamonic_cost", results).data["dollars"].dropna().to_numpy() == pytest.approx(3 * before["dollars"].dropna().to_numpy())
    results.study.transplants["tiny"]["price_per_hour"] = 0.0
    assert (build("hallamonic_cost", results).data["dollars"].dropna() == 0).all()


def test_every_exhibit_has_a_builder():
    assert set(TABLES) == set(EXHIBITS)


@pytest.mark.parametrize("name", EXHIBITS)
def test_every_table_of_a_full_study(full, tmp_path, name):
    table = build(name, full)
    write_table(name, table, full, tmp_path)
    assert table.measured
    assert len(table.rows)
    assert {len(row) for row in table.rows} == {len(table.header)}
    assert all(isinstance(cell, str) and cell not in ("nan", "None", "") for row in table.rows for cell in row[:1])
    assert not [cell for row in table.rows for cell in row if re.search(r"\bnan\b|\bNone\b", cell) and "loss is nan" not in cell]
    assert table.caption.endswith(".")
    assert len(pd.read_csv(tmp_path / f"{name}.csv")) == len(table.data)
    meta = json.loads((tmp_path / f"{name}.meta.json").read_text())
    assert meta["measured"]
    assert meta["title"] == EXHIBITS[name].title
    assert meta["sources"] or name == "claims"
    first = (tmp_path / f"{name}.md").read_text().splitlines()[0]
    assert table.caption[:20] in first
    assert r"\toprule" in (tmp_path / f"{name}.tex").read_text()


@pytest.mark.parametrize("name", EXHIBITS)
def test_every_table_where_nothing_ended_ok(failed, tmp_path, name):
    write_table(name, build(name, failed), failed, tmp_path)
    text = (tmp_path / f"{name}.md").read_text()
    if EXHIBITS[name].experiments and name not in ("timescales", "cost"):
        assert "oom" in text
        assert "| nan" not in text


@pytest.mark.parametrize("name", EXHIBITS)
def test_every_table_of_an_empty_study(empty, tmp_path, name):
    table = build(name, empty)
    write_table(name, table, empty, tmp_path)
    item = EXHIBITS[name]
    trained = item.experiments or item.transplants or item.diagnostics or item.sweeps
    if trained and name != "memory_wall":  # the memory benchmark trains nothing that a study names
        assert not table.measured
        assert "ot measured in this study" in (tmp_path / f"{name}.md").read_text()
        assert "add" in table.needs
        assert list(pd.read_csv(tmp_path / f"{name}.csv").columns)


def test_gap_follows_its_definition(full):
    data = select(build("crossover", full).data, source="measured", architecture="harmonic", length=512).iloc[0]
    cells = select(full.cells("crossover"), length=512)
    means = {name: select(cells, architecture=name)["test_bpt"].astype(float).mean() for name in ("transformer", "harmonic")}
    assert data["gap_pct"] == pytest.approx(gap(means["transformer"], means["harmonic"]))
    assert data["gap_pct_low"] < data["gap_pct"] < data["gap_pct_high"]
    assert data["gap_pct_p"] <= data["gap_pct_p_holm"]
    assert data["seeds"] == 3
    assert data["blocks"] == factory.BLOCKS


def test_published_rows_stand_in_the_csv(full):
    data = build("crossover", full).data
    published = select(data, source="published")
    row = select(published, architecture="harmonic", length=32768).iloc[0]
    assert row["gap_pct"] == pytest.approx(11.4, abs=0.05)
    assert select(published, architecture="transformer", length=65536)["status"].tolist() == ["oom"]


def test_failures_print_as_such(full):
    table = build("crossover", full)
    printed = next(row for row in table.rows if row[1] == "Transformer" and row[0] == "2K")
    assert printed[3] == "oom"
    assert printed[-2] == "0/3"
    assert any("2.10 GB" in note for note in table.notes)
    assert any("mamba at 512" in note and "1 of 3" in note for note in table.notes)


def test_a_way_of_decoding_that_was_refused_is_told(tmp_path):
    results = results_of(tmp_path)
    path = results.root / "benchmarks/decode.json"
    content = read_json(path)
    place = {"architecture": "harmonic", "context": 2048, "batch": 1, "path": "cuda_graph"}
    content.setdefault("protocol", {})["failures"] = [place | {"status": "rejected", "message": "logits are 0.2 of the largest"},
                                                      place | {"status": "unavailable", "message": "no graph here"}]
    write_json(path, content)
    notes = [note for note in build("decode", results).notes if "not timed" in note]
    assert notes == ["Harmonic at 2K, batch 1: not timed as a CUDA graph, logits are 0.2 of the largest."]


def test_captions_say_seeds_corpus_device_and_substitution(full):
    table = build("crossover_wikitext103", full)
    for word in ("enwiki-mini", "bpe-512", "2 seeds", "12 blocks", "Synthetic CPU"):
        assert word in table.caption
    assert any("WikiText-103" in note and "instead" in note for note in table.notes)


def test_a_study_on_the_papers_corpus_needs_no_substitution(full):
    from overtone.reporting.tables import caption

    cells = full.cells("crossover").assign(corpus="enwik8", tokenizer="gpt2")
    assert caption.substitution("crossover", cells) == []


def test_one_seed_is_said_not_to_cover_seeds(full):
    assert any("not other seeds" in note for note in build("scaling", full).notes)
    assert not any("not other seeds" in note for note in build("ablations", full).notes)


def test_scaling_takes_seeds_of_the_crossover(full):
    data = select(build("scaling", full).data, source="measured", size="d64", length=128, architecture="harmonic").iloc[0]
    assert data["seeds"] == 3


def test_ablations_are_paired_with_the_full_model(full):
    data = select(build("ablations", full).data, length=512)
    flat = select(data, architecture="harmonic-flat").iloc[0]
    assert flat["delta_bpt"] == pytest.approx(flat["bpt"] - select(data, architecture="harmonic")["bpt"].iloc[0])
    assert flat["delta_bpt_low"] > 0
    assert flat["published_delta_bpt"] == pytest.approx(0.501)


def test_seeds_show_the_shared_spread(full):
    data = build("seeds", full).data
    published = select(data, source="published", kind="summary", architecture="harmonic").iloc[0]
    assert published["bpt"] == pytest.approx(6.515, abs=5e-4)
    assert published["bpt_sd"] == pytest.approx(0.163, abs=5e-4)
    assert published["gap_pct_sd"] < 0.5
    assert select(data, source="measured", kind="summary", architecture="mamba")["seeds"].tolist() == [4]


def test_share_of_the_budget_interpolates(full):
    rows = {(row[0], row[1]): row[4] for row in build("training_curves", full).rows}
    assert rows["512", "Transformer"] == "100"
    assert 0 < float(rows["512", "Harmonic"]) < 100
    assert rows["2K", "Harmonic"] == formats.ABSENT


def test_sweep_marks_one_rate_an_architecture(full):
    table = build("lr_sweep", full)
    chosen = table.data[table.data["chosen"]]
    assert chosen["architecture"].tolist() == ["harmonic", "llama", "mamba", "transformer"]
    assert set(chosen["lr"]) == {0.004}
    assert any(row[3] == "diverged" for row in table.rows)


def test_a_sweep_whose_trials_all_failed_marks_the_rate_that_its_cells_get(tmp_path):
    results = results_of(tmp_path)
    for path in (results.root / "lr_sweep").glob("*/mamba/*/metrics.json"):
        write_json(path, read_json(path) | {"status": "diverged", "evaluation": {}})
    data = build("lr_sweep", results).data
    assert select(data, architecture="mamba", chosen=True)["lr"].tolist() == [0.001]
    assert len(select(data, chosen=True)) == 4


def test_perplexity_interval_is_that_of_bpt(full):
    row = select(build("quality", full).data, source="measured", architecture="resonator").iloc[0]
    assert row["perplexity"] == pytest.approx(2 ** row["bpt"])
    assert row["perplexity_low"] == pytest.approx(2 ** row["bpt_low"])
    published = select(build("quality", full).data, source="published", architecture="resonator").iloc[0]
    assert published["reduction_pct"] == pytest.approx(18.5, abs=0.05)


def test_decode_finds_where_the_curves_cross(full):
    table = build("decode", full)
    notes = [note for note in table.notes if "batch 1, static" in note]
    crossing = float(re.search(r"about ([\d,]+) tokens", notes[0]).group(1).replace(",", ""))
    data = select(table.data, source="measured", batch=1, variant="static")
    times = {name: select(data, architecture=name).set_index("context")["ms_per_token"] for name in ("resonator", "transformer")}
    faster = times["resonator"] < times["transformer"]
    assert faster[~faster].index.max() <= crossing <= faster[faster].index.min()
    published = select(table.data, source="published", architecture="resonator").iloc[0]
    assert published["speedup_to_transformer"] == pytest.approx(6.47, abs=0.005)
    assert any(note.startswith("Static steps ran as TorchScript: Llama; compiled to machine code: Harmonic,") for note in table.notes)


def test_kernel_tail_ratio_stands_beside_its_flops(full):
    data = build("kernel_tail", full).data
    row = select(data, source="measured", method="tail", length=65536).iloc[0]
    quadratic = select(data, source="measured", method="quadratic", length=65536).iloc[0]
    assert row["speedup_to_quadratic"] == pytest.approx(quadratic["ms"] / row["ms"])
    assert row["flops_ratio_to_quadratic"] == pytest.approx(quadratic["flops"] / row["flops"])
    assert select(data, source="published", length=8192)["speedup_to_quadratic"].tolist() == [440.29]


def test_transplant_controls_are_named_and_floors_printed(full):
    table = build("hallamonic", full)
    assert set(table.data.loc[table.data["control"].astype(bool), "model"]) == {"leaky"}
    assert any("(control)" in row[1] for row in table.rows)
    base = select(table.data, source="measured", model="base", length=512).iloc[0]
    align = select(table.data, source="measured", model="align", length=512).iloc[0]
    assert align["to_base_bpt"] == pytest.approx(align["bpt"] - base["bpt"])
    published = select(table.data, source="published", model="transplanted")
    assert (published["random_tokens_bpt"] < published["entropy_floor_bpt"]).all()


def test_positions_past_the_limit(full):
    rows = {row[0]: (float(row[3]), float(row[4])) for row in build("hallamonic_positions", full).rows}
    assert rows["base"][1] > rows["base"][0] + 2
    assert rows["align"][1] < rows["align"][0]


def test_audits_show_violations_first_and_controls_next(full):
    table = build("audits", full)
    assert [row[5] for row in table.rows[:3]] == ["FAIL", "flagged", "flagged"]
    assert len(table.data) > len(table.rows)
    assert "1 violation;" in table.caption


def test_zoo_takes_the_place_with_most_architectures(full):
    data = build("zoo", full).data
    assert set(data["protocol"]) == {"harmonic", "resonator"}
    assert data.groupby("protocol")["architecture"].nunique().to_dict() == {"harmonic": 6, "resonator": 11}
    assert np.allclose(data["bpb_high"] / data["bpb"], data["bpt_high"] / data["bpt"])


def test_cost_counts_a_shared_cell_once(full):
    data = build("cost", full).data
    cells = full.cells("*")
    runs = data[~data["what"].str.startswith(("lr_sweep", "transplant t"))]
    assert runs["cells"].sum() == len(cells)
    assert runs["hours"].sum() == pytest.approx(cells["wall_s"].astype(float).sum() / 3600)
    assert runs["flops"].sum() == pytest.approx(cells["training_flops"].sum())
    assert data["failed"].sum() == (cells["status"] != "ok").sum() + 1  # one trial diverged


def test_claims_need_their_file(full):
    with pytest.raises(UserError, match="--claims"):
        build_table("claims", full)


def test_tables_are_deterministic(full, tmp_path):
    for folder in ("a", "b"):
        write_table("crossover", build("crossover", Results.open(full.root / "study.json", full.root)), full, tmp_path / folder)
    assert (tmp_path / "a/crossover.csv").read_bytes() == (tmp_path / "b/crossover.csv").read_bytes()


def test_the_verb(full, tmp_path, capsys):
    words = ["--study", str(full.root / "study.json"), "--results", str(full.root), "--out", str(tmp_path)]
    assert main(["table", "seeds", *words]) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["seeds.csv", "seeds.md", "seeds.meta.json", "seeds.tex"]
    assert main(["table", "claims", *words, "--claims", str(full.root / "claims.json")]) == 0
    assert main(["table", "crosover", *words]) == 2
    assert "Did you mean 'crossover'?" in capsys.readouterr().err


def test_text_is_escaped(full, tmp_path):
    write_table("claims", build("claims", full), full, tmp_path)
    markdown, latex = ((tmp_path / f"claims.{kind}").read_text() for kind in ("md", "tex"))
    assert "<script>" not in markdown
    assert "&lt;script&gt;" in markdown
    assert r"\& 100\% of it" in latex
    assert formats.markdown_table(["a|b"], [["c|d\ne"]]).splitlines()[2] == r"| c\|d e |"
    assert formats.escape_latex("a_b^c~{d}\\") == r"a\_b\textasciicircum{}c\textasciitilde{}\{d\}\textbackslash{}"


def test_numbers_as_people_read_them():
    assert [formats.length(value) for value in (512, 1024, 65536, 1 << 21, 1500)] == ["512", "1K", "64K", "2M", "1500"]
    assert [formats.count(value) for value in (850, 12_340, 27_965_952, 1.1e9)] == ["850", "12.3K", "28.0M", "1.10G"]
    assert [formats.size(value) for value in (900, 1200, 80e9, None)] == ["900 B", "1.20 kB", "80.0 GB", formats.ABSENT]
    assert formats.interval(1.234, 1.1, 1.35, 2, sign=True) == "+1.23 [+1.10, +1.35]"
    assert formats.interval(1.234, None, None) == "1.234"
    assert formats.number(-0.0001, 2) == "0.00"
    assert formats.significant(123456.0) == "123,456"
    assert formats.p_value(0.0002) == "<0.001"
    assert formats.duration(3 * 3600) == "3.0 h"
    assert formats.architecture("my-model") == "my-model"


def test_another_protocol_stands_in_its_own_rows(tmp_path):
    data = factory.study_data(transplants={})
    data["protocols"]["doubled"] = {**data["protocols"]["harmonic"], "lr": 0.002, "per_length": {"512": {"budget": 131072}}}
    data["experiments"] = {"crossover": data["experiments"]["crossover"],
                           "extra": {**data["experiments"]["crossover"], "protocol": "doubled", "lengths": [128, 512], "seeds": [1]}}
    table = build("crossover", results_of(tmp_path, data=data))
    assert table.header[0] == "Protocol"
    assert {row[0] for row in table.rows} == {"harmonic", "doubled"}
    assert any("doubled: the token budget differs between lengths (128: 65.5K, 512: 131K)" in note for note in table.notes)
    assert any("harmonic: every cell trained on 65.5K tokens" in note for note in table.notes)


def test_a_median_stands_with_its_quartiles_where_it_has_them():
    assert formats.quartiles(1.2345, 1.1, 1.4) == "1.23 [1.10, 1.40]"
    assert formats.quartiles(1.2345, None, None) == "1.23"
    assert formats.quartiles(None, None, None) == formats.ABSENT


def test_where_a_benchmark_ran_is_told_or_said_to_be_unknown():
    assert caption.machine({"device": "NVIDIA H100", "processor": "EPYC", "threads": 2}) == "NVIDIA H100 (EPYC, threads: 2)"
    assert caption.machine({}).startswith("an unnamed device (unknown processor")
