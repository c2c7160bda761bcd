"""The run as a Workflow Run RO-Crate: complete, linked from claim to cell, config, plan and commit, and valid."""

import io
import json
import os
from pathlib import Path

import pytest
from report_factory import small_study, write_report

from overtone.cli import main
from overtone.files import read_json, sha256_file


def tiny_study():
    data = small_study()
    crossover = data["experiments"]["crossover"] | {"architectures": ["harmonic", "transformer"], "lengths": [128, 512], "seeds": [1, 2]}
    return data | {"experiments": {"crossover": crossover}}


def one_diverged(cell):
    return "diverged" if (cell.architecture, cell.length, cell.seed) == ("transformer", 512, 2) else "ok"


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    root, reports = write_report(tmp_path_factory.mktemp("crate"), tiny_study(), statuses=one_diverged)
    (reports / "index.html").write_text("<!DOCTYPE html><title>a page</title>", encoding="utf-8")
    for path in root.rglob("*.json"):
        os.utime(path, (1_700_000_000, 1_700_000_000))
    return root, reports


def write(report, out):
    root, reports = report
    return main(["crate", "--study", str(root / "study.json"), "--results", str(root), "--reports", str(reports), "--out", str(out)])


@pytest.fixture(scope="module")
def crate(report):
    folder = report[1] / "crate"
    assert write(report, folder / "ro-crate-metadata.json") == 0
    return folder


@pytest.fixture(scope="module")
def entities(crate):
    return {item["@id"]: item for item in read_json(crate / "ro-crate-metadata.json")["@graph"]}


def refs(value):
    return [item["@id"] for item in (value if isinstance(value, list) else [value])]


def test_every_file_is_there_with_its_digest(crate, entities):
    files = [item for item in entities.values() if "File" in item["@type"]]
    assert len(files) > 40
    for item in files:
        if "identifier" in item:
            assert item["identifier"] == f"sha256:{sha256_file(crate / item['@id'])}"
        assert (crate / item["@id"]).is_file()
    on_disk = {str(path.relative_to(crate)) for path in crate.rglob("*") if path.is_file()}
    assert on_disk - {"ro-crate-metadata.json"} == {item["@id"] for item in files}


def test_from_a_claim_to_cell_config_plan_and_commit(report, entities):
    root, reports = report
    claim = entities["#claim-H1"]
    assert "Harmonic" in claim["description"]
    assert entities[refs(claim["about"])[0]]["value"] == next(
        item["wording"] for item in read_json(reports / "claims.json")["claims"] if item["id"] == "H1")
    sources = refs(claim["isBasedOn"])
    assert len(sources) == 8
    metrics = read_json(root / sources[0])
    action = next(item for item in entities.values() if item["@type"] == "CreateAction" and sources[0] in refs(item.get("result", [])) and
                  item["@id"] != "#run")
    assert action["name"] == metrics["key"]
    assert metrics["environment"]["commit"] in action["description"]
    named = {entities[ref].get("name"): entities[ref] for ref in refs(action["object"])}
    assert json.loads(named["config"]["value"]) == metrics["config"]
    assert named["plan digest"]["value"] == metrics["plan"]["digest"]
    assert named["study.json"]["@id"] == "study.json"


def test_cells_of_one_plan_share_it(entities):
    actions = [item for item in entities.values() if item["@type"] == "CreateAction"]
    plans = [ref for action in actions for ref in refs(action["object"]) if ref.startswith("#plan-")]
    assert (len(plans), len(set(plans))) == (8, 4)  # two lengths, two seeds; both architectures


def test_a_failed_cell_is_a_failed_action(entities):
    failed = [item for item in entities.values() if item.get("actionStatus") == "http://schema.org/FailedActionStatus"]
    assert [item["name"] for item in failed] == ["harmonic/enwiki-mini/bytes/transformer/d64/512/2"]
    assert failed[0]["error"].startswith("diverged: ")


def test_the_run_spans_its_cells(entities):
    run = entities["#run"]
    assert run["startTime"] == "2023-11-14T22:13:15+00:00"  # written at :20, 5.4 s of work
    assert refs(run["instrument"]) == ["Snakefile"]
    assert "claims.json" in refs(run["result"])
    assert "papers/harmonic/claims.yaml" in refs(run["object"])
    assert set(refs(entities["./"]["mentions"])) >= {"#run", "#claim-H1", "#claim-R1"}


def test_writing_again_replaces_and_repeats(report, crate):
    first = (crate / "ro-crate-metadata.json").read_bytes()
    (crate / "left-over").write_text("x", encoding="utf-8")
    assert write(report, crate) == 0
    assert not (crate / "left-over").exists()
    assert (crate / "ro-crate-metadata.json").read_bytes() == first
    assert [path.name for path in crate.parent.iterdir() if path.name.startswith(".")] == []


def test_without_cells_there_is_no_crate(report, tmp_path, capsys):
    import shutil

    root = tmp_path / "factory"
    shutil.copytree(report[0], root, ignore=shutil.ignore_patterns("cells"))
    assert write((root, report[1]), tmp_path / "crate") == 2
    assert "no finished cell" in capsys.readouterr().err
    assert not (tmp_path / "crate").exists()


def serve_context(cache):
    """Put the RO-Crate 1.1 context where the validator looks instead of the network.

    The rocrate package carries a later version; the two bioschemas types are spelled here as in 1.1.
    """
    import requests_cache
    import rocrate
    import urllib3
    from requests.adapters import HTTPAdapter

    text = (Path(rocrate.__file__).parent / "data" / "ro-crate.jsonld").read_text(encoding="utf-8")
    for name in ("ComputationalWorkflow", "FormalParameter"):
        text = text.replace(f"https://bioschemas.org/terms/{name}", f"https://bioschemas.org/{name}")

    class Local(HTTPAdapter):
        def send(self, request, **_):
            body = urllib3.HTTPResponse(body=io.BytesIO(text.encode()), status=200, headers={"Content-Type": "application/ld+json"},
                                        preload_content=False)
            return self.build_response(request, body)

    with requests_cache.CachedSession(cache_name=str(cache), backend="sqlite", expire_after=-1) as session:
        session.mount("https://w3id.org/", Local())
        for headers in ({}, {"Accept": "application/ld+json, application/json, */*;q=0.1"}):
            session.get("https://w3id.org/ro/crate/1.1/context", headers=headers)


def test_the_validator_passes_it(crate, tmp_path):
    services = pytest.importorskip("rocrate_validator.services")
    pytest.importorskip("requests_cache")
    from rocrate_validator.models import Severity

    serve_context(tmp_path / "cache")

    def issues(folder):
        settings = services.ValidationSettings(
            rocrate_uri=str(folder), profile_identifier="workflow-run-crate", requirement_severity=Severity.REQUIRED, offline=True,
            cache_path=str(tmp_path / "cache"), cache_max_age=-1)
        return [(issue.check.identifier, issue.message) for issue in services.validate(settings).get_issues()]

    assert issues(crate) == []
    import shutil

    broken = tmp_path / "broken"
    shutil.copytree(crate, broken)
    metadata = read_json(broken / "ro-crate-metadata.json")
    run = next(item for item in metadata["@graph"] if item["@id"] == "#run")
    del run["instrument"]
    (broken / "ro-crate-metadata.json").write_text(json.dumps(metadata), encoding="utf-8")
    assert any("instrument" in message for _, message in issues(broken))


def test_a_folder_of_something_else_is_not_replaced(report, tmp_path, capsys):
    other = tmp_path / "work"
    other.mkdir()
    (other / "thesis.txt").write_text("years")
    assert write(report, other) == 2
    assert "'thesis.txt'" in capsys.readouterr().err
    assert [path.name for path in tmp_path.rglob("*")] == ["work", "thesis.txt"]
    crate = tmp_path / "crate"
    assert write(report, crate) == 0
    (crate / "ro-crate-metadata.json").unlink()  # as Snakemake does before it makes it again
    assert write(report, crate / "ro-crate-metadata.json") == 0
    assert main(["crate", "--study", "mini", "--results", str(report[0]), "--reports", str(report[1]), "--out", str(crate)]) == 2
    assert "results/STUDY/study.json" in capsys.readouterr().err
