"""Memory and minutes a job asks for follow its cell."""

from dataclasses import replace

from overtone.study import load_study, study_cells
from overtone.study.resources import cell_resources


def asked(study, **changes):
    cell = next(cell for cell in study_cells(study) if cell.model == cell.protocol == "harmonic")
    return cell_resources(study, replace(cell, **changes))


def test_requests_grow_with_size_and_for_attention_with_length():
    for study in (load_study("mini", {"protocols": {"harmonic": {"budget": 20_000_000}}}), load_study("paper")):
        assert asked(study, hidden=2048)["runtime"] > asked(study, hidden=256)["runtime"]
        assert asked(study, model="transformer", length=65536)["runtime"] > 1.5 * asked(study, model="transformer", length=1024)["runtime"]
        assert asked(study, model="harmonic", length=65536)["runtime"] == asked(study, model="harmonic", length=1024)["runtime"]


def test_requests_know_the_architecture():
    study = load_study("mini", {"protocols": {"harmonic": {"budget": 20_000_000}}})
    asking = {name: asked(study, model=name) for name in ("harmonic", "resonator", "transformer", "mamba", "somebody-elses")}
    assert asking["harmonic"]["runtime"] < asking["resonator"]["runtime"] < asking["transformer"]["runtime"]
    assert asking["harmonic"]["mem_mb"] < asking["mamba"]["mem_mb"]
    assert asking["somebody-elses"]["runtime"] >= asking["mamba"]["runtime"]
    assert asking["somebody-elses"]["mem_mb"] >= asking["mamba"]["mem_mb"]


def test_small_cells_ask_for_little():
    """On whatever device the study is told to run."""
    for device in ("cpu", "auto", "cuda"):
        study = load_study("mini", {"device": device})
        assert all(10 <= cell_resources(study, cell)["runtime"] <= 30 for cell in study_cells(study))
