"""Tokenizers: round trips over any text, fitting, honest bits, stored files."""

import hashlib
import json
import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from overtone.corpora.documents import Document, DocumentWriter
from overtone.corpora.tokenizers import KINDS, fit_tokenizer, load_tokenizer
from overtone.corpora.tokenizers.base import TrainingText
from overtone.corpora.tokenizers.subword import sample_lines
from overtone.errors import UserError
from overtone.files import write_json

TRAIN = ["The quick brown fox jumps over the lazy dog.\nIt  rains in Málaga, 1234567 times.\n",
         "the thing that the fox thinks of the dog\n" * 20,
         "[[Link|text]] &amp; '''bold''' == Heading ==\n\n* item ▁ ünïcödé 日本語\n" * 5]
ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from(" \n\t▁▅\0é日🎉�⁇"), max_size=60)


def make_splits(folder, train=TRAIN):
    folder.mkdir(exist_ok=True)
    with open(folder / "train.jsonl", "wb") as file:
        writer = DocumentWriter(file)
        for number, text in enumerate(train):
            writer.write(Document(str(number), "", text))
    write_json(folder / "splits.json", {"corpus": "c", "splits": {"train": writer.summary()}})
    return folder / "splits.json"


def fit(folder, **spec):
    return fit_tokenizer(make_splits(folder), json.dumps(spec), folder / "tokens" / "tokenizer.json")


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    return {kind: fit(tmp_path_factory.mktemp(kind), kind=kind, **more)
            for kind, more in (("bytes", {}), ("characters", {}), ("sentencepiece", {"vocab_size": 400}))}


@pytest.mark.parametrize("kind", ["bytes", "sentencepiece"])
@given(text=ANY_TEXT)
@example(text="▁ ▁▁\n\n  x▁y <0x0A> <unk> <s> \r\n ⁇")
def test_any_text_comes_back_exactly(fitted, kind, text):
    tokenizer = fitted[kind]
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert ids.dtype == np.uint16
    assert (ids < tokenizer.vocab_size).all()
    if kind == "sentencepiece":
        assert (ids != 0).all()  # byte fallback: nothing is ever unknown


@given(text=ANY_TEXT)
def test_known_characters_come_back_and_unknown_ones_are_counted(fitted, text):
    tokenizer = fitted["characters"]
    known = set("".join(TRAIN))
    ids = tokenizer.encode(text)
    assert len(ids) == len(text)
    assert tokenizer.decode(ids) == "".join(letter if letter in known else "\ufffd" for letter in text)
    assert np.count_nonzero(ids == tokenizer.unknown_id) == sum(letter not in known for letter in text)


@given(st.lists(st.integers(0, 255), max_size=30))
def test_any_bytes_decode(ids):
    assert KINDS["bytes"]().decode(ids) == bytes(ids).decode("utf-8", "replace")


def test_characters_keep_the_commonest(tmp_path):
    splits = make_splits(tmp_path, ["aaaa bbb cc d"])
    tokenizer = fit_tokenizer(splits, '{"kind": "characters", "max_vocab": 5}', tmp_path / "t" / "tokenizer.json")
    assert tokenizer.vocab_size == 5
    assert tokenizer.encode("abc d\n").tolist() == [1, 3, 4, 2, 0, 0]
    assert tokenizer.unknown_bits == pytest.approx(math.log2(1_112_064 - 4))


def test_sentencepiece_learns_from_the_text_and_uses_fewer_ids(fitted):
    text = TRAIN[1]
    assert len(fitted["sentencepiece"].encode(text)) < len(text.encode()) / 2
    assert fitted["sentencepiece"].vocab_size == 400


@pytest.mark.parametrize("spec", [{"kind": "bytes"}, {"kind": "characters", "max_vocab": 30},
                                  {"kind": "sentencepiece", "vocab_size": 400}])
def test_fitting_is_deterministic_and_loading_gives_the_same(tmp_path, spec):
    made = [fit(tmp_path / name, **spec) for name in "ab"]
    files = [{path.name: path.read_bytes() for path in (tmp_path / name / "tokens").iterdir()} for name in "ab"]
    assert files[0] == files[1]
    loaded = load_tokenizer(tmp_path / "a" / "tokens")
    assert (loaded.digest, loaded.vocab_size, loaded.name) == (made[0].digest, made[0].vocab_size, made[0].name)
    for text in TRAIN:
        np.testing.assert_array_equal(loaded.encode(text), made[0].encode(text))


def test_sentencepiece_samples_whole_documents_evenly(tmp_path):
    documents = [f"{number} {'x' if number % 10 else 'sampled '}" * 9 for number in range(100)]
    size = sum(map(len, documents))
    text = TrainingText(make_splits(tmp_path, documents).with_name("train.jsonl"), None, size)
    assert list(sample_lines(text, size)) == documents
    assert list(sample_lines(text, -(-size // 10))) == documents[::10]


@pytest.mark.parametrize(("spec", "message"), [
    ("{", "expected JSON with a kind"),
    ("[]", "expected JSON with a kind"),
    ('{"vocab_size": 9}', "expected JSON with a kind"),
    ('{"kind": "byte"}', "'byte' is not known. Did you mean 'bytes'"),
    ('{"kind": "characters", "max_vocabulary": 9}', "'max_vocabulary' is not known. Did you mean 'max_vocab'"),
    ('{"kind": "characters", "max_vocab": 1}', "found 1, expected an integer of at least 2"),
    ('{"kind": "sentencepiece", "vocab_size": true}', "found True, expected an integer"),
    ('{"kind": "sentencepiece", "vocab_size": 260}', "cannot be fitted"),
    ('{"kind": "sentencepiece", "vocab_size": 90000}', "cannot be fitted"),
    ('{"kind": "bytes", "vocab_size": 9}', "Allowed: none"),
    ('{"kind": "gpt2", "revision": "main"}', "'revision' is not known"),
    ('{"kind": "pretrained", "repo": "a/b", "revision": "main"}', "a commit, 40 hex digits"),
])
def test_mistakes_in_a_spec_are_one_line_and_leave_nothing(tmp_path, spec, message):
    with pytest.raises(UserError, match=message) as caught:
        fit_tokenizer(make_splits(tmp_path), spec, tmp_path / "t" / "tokenizer.json")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "t" / "tokenizer.json").exists()


@pytest.mark.parametrize("damage", ["missing", "truncated", "other", "no characters", "kind"])
def test_damaged_tokenizers_are_user_errors(tmp_path, damage):
    kind = "characters" if damage == "no characters" else "sentencepiece"
    fit(tmp_path, kind=kind, **({"vocab_size": 400} if kind == "sentencepiece" else {}))
    folder = tmp_path / "tokens"
    described = json.loads((folder / "tokenizer.json").read_text())
    if damage == "missing":
        (folder / "tokenizer.model").unlink()
    elif damage == "truncated":
        (folder / "tokenizer.model").write_bytes((folder / "tokenizer.model").read_bytes()[:1000])
    elif damage == "other":
        described["digest"] = "0" * 64
    elif damage == "no characters":
        del described["characters"]
    else:
        described["kind"] = "sentencpiece"
    (folder / "tokenizer.json").write_text(json.dumps(described))
    with pytest.raises(UserError, match="tokenizer"):
        load_tokenizer(folder)


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A hub that serves one byte-level BPE, as GPT-2's is."""
    import huggingface_hub
    import tokenizers

    bpe = tokenizers.ByteLevelBPETokenizer()
    bpe.train_from_iterator(TRAIN, vocab_size=300, show_progress=False)
    bpe.save(str(tmp_path / "served.json"))
    asked = []

    def serve(repo, name, revision):
        asked.append((repo, name, revision))
        return str(tmp_path / "served.json")

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", serve)
    return asked


@pytest.mark.parametrize("spec", [{"kind": "gpt2"}, {"kind": "pretrained", "repo": "a/b", "revision": "ab" * 20}])
def test_published_tokenizers_are_pinned_and_kept_beside(tmp_path, hub, spec):
    tokenizer = fit(tmp_path, **spec)
    repo = spec.get("repo", "openai-community/gpt2")
    assert hub == [(repo, "tokenizer.json", spec.get("revision", "607a30d783dfa663caf39e06633721c8d4cfcd7e"))]
    assert tokenizer.digest == hashlib.sha256((tmp_path / "served.json").read_bytes()).hexdigest()
    loaded = load_tokenizer(tmp_path / "tokens")
    for text in [*TRAIN, "🎉 ▁ never seen \0"]:
        assert loaded.decode(loaded.encode(text)) == text
    assert loaded.vocab_size == 300
    assert len(hub) == 1  # loading asks the hub for nothing


def test_no_hub_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HOME", str(tmp_path / "cache"))
    with pytest.raises(UserError, match=r"tokenizer openai-community/gpt2: cannot be had from the hub") as caught:
        fit(tmp_path, kind="gpt2")
    assert "\n" not in str(caught.value)
