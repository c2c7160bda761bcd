"""Claim files: what they may say, and what the papers' own numbers say about them."""

import copy

import pytest

from overtone.errors import UserError
from overtone.reporting.claims import run_check
from overtone.reporting.claims_file import load_claims, parse_claims
from overtone.reporting.quantities import Evidence
from overtone.reporting.reported import load_reported, read_yaml

PAPERS = ("harmonic", "resonatorlm")
CLAIM = {
    "id": "H1", "title": "t", "statement": "s", "published": {"text": "1%"}, "source": "logs", "needs": "a GPU", "exhibits": ["crossover"],
    "quantity": {"name": "gap", "with": {"experiments": ["crossover"], "model": "harmonic", "baseline": "transformer"}},
    "rule": {"kind": "ordering", "side": "above", "threshold": 0}, "decides": {"mini": "direction"},
}


def file(**changes):
    return {"paper": "harmonic", "title": "a paper", "claims": [CLAIM | changes]}


def test_both_papers_claims_load_with_unique_ids():
    claims = load_claims(PAPERS)
    assert sum(claim.paper == "harmonic" for claim in claims) >= 16
    assert sum(claim.paper == "resonatorlm" for claim in claims) >= 10
    assert len({claim.id for claim in claims}) == len(claims)
    assert [claim.id for claim in claims if claim.paper == "harmonic"] == [f"H{n}" for n in range(1, 28)]


def test_paper_decides_every_claim_and_mini_no_published_number():
    for claim in load_claims(PAPERS):
        assert claim.strength("paper") == "claim", claim.id
        rule = claim.question.rule
        if rule["kind"] in ("equality", "range", "crossing") and claim.strength("mini") == "claim":
            # properties of the code (linear memory, equal budget, causality), not sizes of an effect
            assert claim.id in ("H17", "R13", "R15"), claim.id
    assert load_claims(["harmonic"])[2].strength("mini") is None  # the published gaps belong to 28M parameters


def test_a_study_of_ones_own_decides_what_mini_would():
    claim = load_claims(["harmonic"])[0]
    assert claim.strength("my-study") == claim.strength("mini") == "direction"
    assert claim.strength("smoke") is None


@pytest.mark.parametrize(("changes", "message"), [
    ({"quantity": {"name": "gpa", "with": {}}}, r"H1: quantity: 'gpa' is not known. Did you mean 'gap'"),
    ({"quantity": {"name": "__import__('os').getpid()", "with": {}}}, "is not known"),
    ({"quantity": {"name": "gap", "with": {"experiments": [], "modle": "x", "baseline": "y"}}}, "parameter of gap: 'modle'.*'model'"),
    ({"quantity": {"name": "gap", "with": {"experiments": [], "model": "x"}}}, "needs the parameter 'baseline'"),
    ({"quantity": {"name": "published_degradation", "with": {"table": "x", "model": "y"}}},
     "quantity measured in a study: 'published_degradation'"),
    ({"quantity": {"name": "gap", "with": {"experiments": "crossover", "model": "x", "baseline": "y"}}},
     "found 'crossover', expected a list"),
    ({"quantity": {"name": "gap", "with": {"experiments": [], "model": 3, "baseline": "y"}}}, "model of gap: found 3, expected a word"),
    ({"exhibits": ["crossovr"]}, "Did you mean 'crossover'"),
    ({"decides": {"mimi": "direction"}}, "study: 'mimi' is not known. Did you mean 'mini'"),
    ({"decides": {"mini": "truth"}}, "decides.mini"),
    ({"rule": {"kind": "ordering", "side": "above"}}, "threshold"),
    ({"rule": {"kind": "ordering", "side": "above", "threshold": 0, "target": 3}}, "rule ordering: key: 'target' is not known"),
    ({"rule": {"kind": "orderin", "side": "above", "threshold": 0}}, "Did you mean 'ordering'"),
    ({"rule": {"kind": "range", "low": 2, "high": 1}}, "low is 2, high is 1"),
    ({"rule": {"kind": "crossing", "level": 1, "between": [8, 4]}}, "smaller number first"),
    ({"published": {"text": "x", "reported": ["harmonic.crossover_enwik8"]}}, "Did you mean 'crossover_enwik8_28M'"),
    ({"statemnt": "x"}, "Did you mean 'statement'"),
    ({"checks": [{"title": "t", "quantity": {"name": "gap", "with": CLAIM["quantity"]["with"]}, "rule": CLAIM["rule"]}]},
     "of the papers' own numbers: 'gap'"),
])
def test_a_mistake_in_a_claim_is_told_before_anything_is_computed(changes, message):
    with pytest.raises(UserError, match=message):
        parse_claims(file(**changes), "test.yaml")


def test_a_missing_key_and_a_doubled_id_are_told(tmp_path):
    content = file()
    del content["claims"][0]["needs"]
    with pytest.raises(UserError, match="'needs' is missing"):
        parse_claims(content, "test.yaml")
    import yaml

    for paper in PAPERS:
        (tmp_path / paper).mkdir()
        (tmp_path / paper / "claims.yaml").write_text(yaml.safe_dump(file() | {"paper": paper}), encoding="utf-8")
    with pytest.raises(UserError, match="'H1' stands for two claims"):
        load_claims(PAPERS, tmp_path)
    with pytest.raises(UserError, match="not found"):
        load_claims(PAPERS, tmp_path / "nowhere")


def test_all_published_numbers_are_numbers():
    """YAML 1.1 reads 6.45e6 as text: such a number would silently drop out."""
    def walk(value, path):
        if isinstance(value, dict):
            for key, item in value.items():
                walk(item, f"{path}.{key}")
        elif isinstance(value, list):
            for item in value:
                walk(item, path)
        elif isinstance(value, str):
            with pytest.raises(ValueError, match="could not convert"):
                float(value)

    walk(load_reported(), "")


@pytest.mark.parametrize(("text", "message"), [
    ("a: 1\na: 2\n", "'a' is given twice"), ("a: {b: .nan}\n", r"a\.b: nan found"), ("a: [.inf]\n", r"a\.0: inf found"),
    ("a: &x [*x]\n", "not valid YAML"),
])
def test_what_a_file_of_papers_cannot_hold(tmp_path, text, message):
    (tmp_path / "claims.yaml").write_text(text)
    with pytest.raises(UserError, match=message):
        read_yaml(tmp_path / "claims.yaml")


def outcomes(reported):
    """claim id -> whether all questions to the paper's own numbers hold."""
    evidence = Evidence(reported)
    return {claim.id: all(run_check(item, evidence)["holds"] for item in claim.checks) for claim in load_claims(PAPERS) if claim.checks}


def test_the_papers_own_numbers_contradict_these_claims_and_no_others():
    failed = {name for name, holds in outcomes(load_reported()).items() if not holds}
    assert failed == {
        "H7",  # the flash Transformer's memory is linear
        "H10", "H12",  # 7M to 112M meets no way of counting; the scaling gaps mix denominators
        "H17",  # the budget doubles at 32K
        "H21",  # unsynchronised 6.45M tokens/s against 0.33M, more arithmetic than the device has
        "H22",  # 1024 times is the window's growth, not a token's
        "H27",  # 9.4 to 10.5 bpt is the distance from Hallamonic, not TinyLlama's degradation
        "H25",  # 3.83 bpt on random tokens, where the floor is 14.97
        "R14",  # 440 and 576 times grow with exponent 0.19, L² against L log L with nearly 1
    }


@pytest.mark.parametrize(("claim", "edit"), [
    ("H7", lambda r: r["harmonic"]["memory_profile_batch2_bf16_GB"].update(transformer=[0.3, 0.6, 1.8, 6.6, 25.8, 102.6])),
    ("H12", lambda r: [row.update(gap_pct=100 * (row["transformer"] - row["harmonic"]) / row["transformer"])
                       for row in r["harmonic"]["scaling_enwik8"] if "hidden" in row and "gap_pct" in row]),
    ("H17", lambda r: r["harmonic"]["training"].update(tokens_per_step=65536)),
    ("H22", lambda r: r["harmonic"]["memory_profile_batch2_bf16_GB"].update(lengths=[32, 2048, 4096, 8192, 16384, 32768])),
    ("H25", lambda r: r["harmonic"]["hallamonic"]["red_flags"]["uniform_random_tokens_bpt"].update(hallamonic=15.2)),
])
def test_an_inconsistency_is_computed_not_written(claim, edit):
    """Numbers that would agree with the claim make it consistent."""
    reported = copy.deepcopy(load_reported())
    edit(reported)
    assert not outcomes(load_reported())[claim]
    assert outcomes(reported)[claim]


def test_a_consistent_claim_becomes_inconsistent_with_other_numbers():
    reported = copy.deepcopy(load_reported())
    reported["harmonic"]["crossover_enwik8_28M"]["harmonic"][2] = 7.2  # behind the Transformer at 4K
    reported["resonatorlm"]["main_wikitext2_char_6M"]["relative_ppl_reduction_pct"] = 18.5
    reported["resonatorlm"]["main_wikitext2_char_6M"]["resonator"]["test_ppl"] = 3.9
    found = outcomes(reported)
    assert not found["H1"]
    assert not found["H3"]
    assert not found["R2"]


def test_published_values_of_the_checks():
    """The numbers that the page shows, against the figures of the papers' logs."""
    evidence = Evidence(load_reported())
    claims = {claim.id: claim for claim in load_claims(PAPERS)}

    def values(name, index=0):
        return [point["value"] for point in run_check(claims[name].checks[index], evidence)["points"]]

    assert values("H1") == pytest.approx([1.4, 3.5, 5.1, 6.7, 9.9, 11.4], abs=0.06)
    assert values("H17") == [1, 1, 1, 1, 1, 2, 4]
    assert values("H21")[0] == pytest.approx(6.45 / 0.33)
    assert values("H21", 1)[1] > 1
    assert values("H22") == [32]
    assert values("H25") == pytest.approx([3.8263 - 14.9658], abs=1e-4)
    assert values("R14") == pytest.approx([0.1936], abs=1e-4)


def test_the_documentation_names_every_quantity_with_its_parameters():
    import inspect

    from overtone.reporting.claims_file import load_quantities
    from overtone.study.load import workflow_root

    text = (workflow_root() / "docs" / "claims.md").read_text(encoding="utf-8")
    for name, item in load_quantities().items():
        row = next((line for line in text.splitlines() if line.startswith(f"| `{name}` |")), "")
        for parameter in list(inspect.signature(item.function).parameters)[1:]:
            assert parameter in row, (name, parameter)
    used = {claim.question.quantity.name for claim in load_claims(PAPERS)} | {
        check.question.quantity.name for claim in load_claims(PAPERS) for check in claim.checks}
    assert used == set(load_quantities()), "a quantity that no claim asks for"
