"""Splits: shares, duplicates, published splits, determinism."""

import hashlib
import json
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from overtone.corpora.documents import Document, DocumentWriter, read_documents
from overtone.corpora.split import bucket, cut, split
from overtone.errors import UserError
from overtone.files import write_json

SPLITS = ("train", "validation", "test")


def documents(folder, items):
    folder.mkdir(exist_ok=True)
    with open(folder / "documents.jsonl", "wb") as file:
        writer = DocumentWriter(file)
        for item in items:
            writer.write(item)
    write_json(folder / "documents.json", {"corpus": "c", **writer.summary()})
    return folder / "documents.json"


def texts(folder, name):
    return [item.text for item in read_documents(folder / "splits" / f"{name}.jsonl")]


def make(tmp_path, items, validation=0.1, test=0.2, seed=0):
    made = documents(tmp_path, items)
    return split(made, tmp_path / "splits" / "splits.json", validation=validation, test=test, seed=seed)


def numbered(count, size=100):
    return [Document(str(number), "", f"{number} " + "x" * size) for number in range(count)]


def test_every_document_goes_to_one_split_near_its_share(tmp_path):
    items = numbered(2000)
    summary = make(tmp_path, items)
    found = {name: texts(tmp_path, name) for name in SPLITS}
    assert sorted(text for part in found.values() for text in part) == sorted(item.text for item in items)
    for name, share in (("validation", 0.1), ("test", 0.2), ("train", 0.7)):
        part = summary["splits"][name]
        assert part["documents"] == len(found[name])
        assert part["bytes"] == sum(map(len, found[name]))
        assert part["digest"] == hashlib.sha256((tmp_path / "splits" / f"{name}.jsonl").read_bytes()).hexdigest()
        assert part["bytes"] / sum(len(item.text) for item in items) == pytest.approx(share, abs=0.002)


def test_equal_texts_share_a_split(tmp_path):
    items = [Document(str(number), str(number), f"text {number % 50}") for number in range(500)]
    make(tmp_path, items)
    found = [set(texts(tmp_path, name)) for name in SPLITS]
    assert all(found)
    assert sum(map(len, found)) == len(set().union(*found)) == 50


def test_another_seed_is_another_draw_and_the_same_seed_the_same(tmp_path):
    digests = [make(tmp_path, numbered(300), seed=seed)["splits"]["test"]["digest"] for seed in (0, 1, 0)]
    assert digests[0] == digests[2] != digests[1]


def test_hash_seed_changes_nothing(tmp_path):
    made = documents(tmp_path, numbered(200))
    command = [sys.executable, "-m", "overtone.cli", "split", "--documents", str(made), "--out"]
    for seed in ("0", "1", "2"):
        changed = {**os.environ, "PYTHONHASHSEED": seed}
        subprocess.run([*command, str(tmp_path / seed / "splits.json")], check=True, env=changed)
    for name in ("train.jsonl", "validation.jsonl", "test.jsonl", "splits.json"):
        assert len({(tmp_path / seed / name).read_bytes() for seed in ("0", "1", "2")}) == 1


SHARE = st.floats(0.001, 0.49)


@given(st.lists(st.integers(1, 10**9), min_size=3, max_size=200), SHARE, SHARE, st.integers(0, 99))
def test_cuts_leave_no_split_empty_and_are_the_nearest(sizes, validation, test, seed):
    buckets = np.zeros(1 << 16, np.int64)
    places = np.sort(np.random.default_rng(seed).choice(1 << 16, len(sizes), replace=False))
    buckets[places] = sizes
    first, second = cut(buckets, validation, test)
    parts = [buckets[:first], buckets[first:second], buckets[second:]]
    assert all(part.any() for part in parts)
    total = sum(sizes)
    reachable = np.cumsum(sizes)[: len(sizes) - 2]
    assert abs(parts[0].sum() - validation * total) == pytest.approx(np.abs(reachable - validation * total).min())


def test_published_splits_are_kept_and_their_texts_leave_train(tmp_path):
    published = [("a", "train"), ("b", "train"), ("c", "train"), ("a", "test"), ("e", "test"), ("d", "validation"),
                 ("a", "validation")]
    summary = make(tmp_path, [Document("", "", text, name) for text, name in published])
    assert texts(tmp_path, "train") == ["b", "c"]
    assert texts(tmp_path, "validation") == ["d"]
    assert texts(tmp_path, "test") == ["a", "e"]
    assert summary["published"] == ["train", "validation", "test"]
    assert summary["dropped"] == {"train": 1, "validation": 1, "test": 0}


def test_a_split_that_is_not_published_is_drawn_from_train(tmp_path):
    items = [Document(str(number), "", f"t{number}", "train") for number in range(1000)]
    summary = make(tmp_path, [*items, Document("v", "", "t5 v", "validation")], validation=0.3, test=0.1)
    assert texts(tmp_path, "validation") == ["t5 v"]
    assert summary["splits"]["test"]["documents"] == pytest.approx(100, abs=5)
    assert set(texts(tmp_path, "test")) < {item.text for item in items}


def test_a_corpus_for_evaluation_has_an_empty_train(tmp_path):
    summary = make(tmp_path, [Document("1", "", "only", "test")])
    assert [summary["splits"][name]["documents"] for name in SPLITS] == [0, 0, 1]


def test_mistakes_are_user_errors(tmp_path):
    with pytest.raises(UserError, match="2 distinct documents cannot fill 3 splits"):
        make(tmp_path, [*numbered(2), *numbered(2)])
    for validation, test in ((-0.1, 0.1), (0.6, 0.4), (0.1, 1.0)):
        with pytest.raises(UserError, match="expected numbers of at least 0"):
            make(tmp_path, numbered(9), validation, test)
    with pytest.raises(UserError, match=r"published split: 'valid' is not known. Did you mean 'validation'"):
        make(tmp_path, [Document("1", "", "x", "valid")])


def test_damaged_documents_leave_no_split(tmp_path):
    made = documents(tmp_path, numbered(100))
    lines = (tmp_path / "documents.jsonl").read_bytes().splitlines(keepends=True)
    cases = ((lines[:-1], "expected sha256"), ([*lines[:50], b'{"id": 3'], "line 51 is not JSON with id"))
    for damaged, message in cases:
        (tmp_path / "documents.jsonl").write_bytes(b"".join(damaged))
        with pytest.raises(UserError, match=message):
            split(made, tmp_path / "out" / "splits.json", validation=0.1, test=0.1, seed=0)
    (tmp_path / "documents.jsonl").unlink()
    with pytest.raises(UserError, match=r"documents.jsonl: not found"):
        split(made, tmp_path / "out" / "splits.json", validation=0.1, test=0.1, seed=0)
    assert not (tmp_path / "out").exists() or not list((tmp_path / "out").iterdir())


def test_buckets_are_the_same_on_every_machine():
    assert [bucket("Anarchism", seed) for seed in (0, 1)] == [
        int(hashlib.sha256(f"{seed}\0Anarchism".encode()).hexdigest()[:4], 16) for seed in (0, 1)]
    assert json.dumps(bucket("é🎉", 0)).isdigit()
