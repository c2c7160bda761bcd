"""Token files: what is written is what is read; damage is told; memory does not grow with the corpus."""

import json
import tracemalloc

import numpy as np
import pytest

from overtone.corpora import TokenFile
from overtone.corpora.documents import Document, DocumentWriter
from overtone.corpora.split import split
from overtone.corpora.tokenize import tokenize, write_token_file
from overtone.corpora.tokenizers import fit_tokenizer
from overtone.errors import UserError
from overtone.files import write_json

TEXTS = ["ends with a newline\n", "does not", "", "é日🎉", "two\nlines"]


def make_splits(folder, texts):
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "train.jsonl", "wb") as file:
        writer = DocumentWriter(file)
        for number, text in enumerate(texts):
            writer.write(Document(str(number), "", text))
    write_json(folder / "splits.json", {"corpus": "c", "splits": {"train": writer.summary()}})
    return folder / "splits.json"


def make(folder, texts=TEXTS, spec='{"kind": "bytes"}'):
    splits = make_splits(folder, texts)
    fit_tokenizer(splits, spec, folder / "tokens" / "tokenizer.json")
    tokenize(splits, folder / "tokens" / "tokenizer.json", "train", folder / "tokens" / "train.json")
    return folder / "tokens" / "train.json"


def test_ids_starts_and_sidecar_say_the_same(tmp_path):
    sidecar = make(tmp_path)
    file = TokenFile.open(sidecar, verify=True)
    joined = "ends with a newline\ndoes not\n\né日🎉\ntwo\nlines\n"
    assert bytes(file.ids.astype(np.uint8)).decode() == joined
    assert file.document_starts.tolist() == [0, 20, 29, 30, 40]
    assert file.tokens == file.bytes == len(joined.encode())
    assert (file.documents, file.vocab_size) == (5, 256)
    assert file.bytes_per_token == 1.0
    assert file.unknown_bits_per_byte == 0.0
    assert file.dtype == "uint16"
    assert sidecar.with_suffix(".bin").read_bytes() == np.frombuffer(joined.encode(), np.uint8).astype("<u2").tobytes()
    with pytest.raises(ValueError, match="read-only"):
        file.ids[0] = 1


def test_unknown_characters_cost_their_bits(tmp_path):
    file = TokenFile.open(make(tmp_path, ["aab€"], '{"kind": "characters", "max_vocab": 3}'))  # b and € share id 0
    known = json.loads((tmp_path / "tokens" / "tokenizer.json").read_text())["characters"]
    assert sorted(known) == ["\n", "a"]
    assert file.unknown == 2
    assert file.unknown_bits == pytest.approx(2 * np.log2(1_112_064 - 2))
    assert file.unknown_bits_per_byte == pytest.approx(file.unknown_bits / len("aab€\n".encode()))
    assert file.bytes_per_token == pytest.approx(7 / 5)


def test_a_large_vocabulary_takes_four_bytes(tmp_path):
    def encode(text):
        return [70_000 + ord(letter) for letter in text]

    write_token_file(tmp_path / "train.json", [Document("0", "", "abc")], encode, vocab_size=100_000, tokenizer="t")
    file = TokenFile.open(tmp_path / "train.json", verify=True)
    assert file.dtype == "uint32"
    assert file.ids.tolist() == [70_097, 70_098, 70_099, 70_010]


def test_an_empty_split_is_an_empty_file(tmp_path):
    file = TokenFile.open(make(tmp_path, []), verify=True)
    assert (file.ids.shape, file.document_starts.shape, file.bytes_per_token) == ((0,), (0,), 0.0)


@pytest.mark.parametrize("suffix", [".bin", ".starts"])
def test_damaged_token_files_are_user_errors(tmp_path, suffix):
    sidecar = make(tmp_path)
    part = sidecar.with_suffix(suffix)
    whole = part.read_bytes()
    part.write_bytes(whole[:-1])
    message = rf"train\{suffix}: expected {len(whole)} bytes, found {len(whole) - 1} bytes. Delete"
    with pytest.raises(UserError, match=message):
        TokenFile.open(sidecar)
    part.write_bytes(bytes([whole[0] ^ 1]) + whole[1:])
    TokenFile.open(sidecar)
    with pytest.raises(UserError, match=rf"train\{suffix}: expected sha256 .*, found sha256 "):
        TokenFile.open(sidecar, verify=True)
    part.unlink()
    with pytest.raises(UserError, match=rf"train\{suffix}: expected .*, found no file"):
        TokenFile.open(sidecar)


@pytest.mark.parametrize("text", ["", "{}", "[]", "3", "null", "{", '{"dtype": "float16"}'])
def test_damaged_sidecars_are_user_errors(tmp_path, text):
    sidecar = make(tmp_path)
    sidecar.write_text(text)
    with pytest.raises(UserError, match=r"train\.json"):
        TokenFile.open(sidecar)


def test_a_missing_token_file_says_what_makes_it(tmp_path):
    with pytest.raises(UserError, match="Run the stage that makes it"):
        TokenFile.open(tmp_path / "train.json")


def test_a_damaged_split_leaves_no_token_file(tmp_path):
    sidecar = make(tmp_path)
    sidecar.unlink()
    sidecar.with_suffix(".bin").unlink()
    path = tmp_path / "train.jsonl"
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(UserError, match=r"train\.jsonl: line 5"):
        tokenize(tmp_path / "splits.json", sidecar.with_name("tokenizer.json"), "train", sidecar)
    assert sorted(entry.name for entry in sidecar.parent.iterdir()) == ["tokenizer.json", "train.starts"]


@pytest.mark.parametrize("spec", [{"kind": "bytes"}, {"kind": "characters"},
                                  {"kind": "sentencepiece", "vocab_size": 300, "sample_bytes": 20_000}])
def test_memory_does_not_grow_with_the_corpus(tmp_path, spec):
    def peak(count):
        folder = tmp_path / str(count)
        folder.mkdir()
        with open(folder / "documents.jsonl", "wb") as file:
            writer = DocumentWriter(file)
            for number in range(count):
                writer.write(Document(str(number), "", f"document {number} says hello to document {number + 1}\n" * 10))
        write_json(folder / "documents.json", {"corpus": "c", **writer.summary()})
        tracemalloc.start()
        split(folder / "documents.json", folder / "splits.json", validation=0.1, test=0.1, seed=0)
        fit_tokenizer(folder / "splits.json", json.dumps(spec), folder / "tokenizer.json")
        tokenize(folder / "splits.json", folder / "tokenizer.json", "train", folder / "train.json")
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most

    peak(30)  # imports
    assert peak(1000) < 1.2 * peak(100) + 50_000
