"""A study's tokenizer and its Hugging Face form give the same ids and the same text."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import ByteLevelBPETokenizer
from transformers import AutoTokenizer

import overtone.models.hf  # noqa: F401  registers the tokenizer class
from overtone.corpora.tokenizers import KINDS, Tokenizer, load_tokenizer
from overtone.corpora.tokenizers.base import TrainingText
from overtone.errors import UserError
from overtone.files import write_json
from overtone.models.tokenizer_files import save_hf_tokenizer

TEXT = "The quick brown fox, the lazy dog and the 12 quick cats.\n  Über façade: naïve 漢字 and 🙂 the end.\n" * 30
CHOICES = {"bytes": {}, "characters": {"max_vocab": 30}, "sentencepiece": {"vocab_size": 330}}


@pytest.fixture(scope="module", params=CHOICES)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Tokenizer, object]:
    """(ours, the Hugging Face one) of a kind."""
    tokens, folder = tmp_path_factory.mktemp("tokens"), tmp_path_factory.mktemp("model")
    (tokens / "train.jsonl").write_text(json.dumps({"id": "1", "title": "t", "text": TEXT}) + "\n")
    kind = KINDS[request.param]
    ours = kind.fit(TrainingText(tokens / "train.jsonl", None, len(TEXT.encode())), tokens, kind.check(CHOICES[request.param]))
    described = {"kind": request.param, "vocab_size": ours.vocab_size, "digest": ours.digest, "name": ours.name}
    write_json(tokens / "tokenizer.json", described | ours.stored())
    save_hf_tokenizer(tokens, folder)
    return load_tokenizer(tokens), AutoTokenizer.from_pretrained(folder)


ODD = ["", "\n", " ", "a\n\nb", "▁ ▁▁a", "<0x0A><unk>\ufffd", "\x00\t\r\n", "the quick", "🙂é漢", TEXT[:300]]


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(st.one_of(st.sampled_from(ODD), st.text(max_size=60), st.lists(st.sampled_from(TEXT.split(" ")), max_size=12).map(" ".join)))
def test_ids_and_text_agree(pair: tuple[Tokenizer, object], text: str) -> None:
    ours, theirs = pair
    ids = ours.encode(text).tolist()
    assert theirs(text)["input_ids"] == ids  # type: ignore[operator]
    assert theirs.decode(ids) == theirs.decode(ids, skip_special_tokens=True) == ours.decode(ids)  # type: ignore[attr-defined]


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(st.data())
def test_any_ids_are_shown_alike(pair: tuple[Tokenizer, object], data: st.DataObject) -> None:
    ours, theirs = pair
    ids = data.draw(st.lists(st.integers(0, ours.vocab_size - 1), max_size=20))
    shown = theirs.decode(ids)  # type: ignore[attr-defined]
    if ours.name.startswith("sentencepiece"):  # it writes one U+FFFD a byte, Python one a broken character; its unknown id is " \u2047 "
        shown, expected = (text.replace("\ufffd", "") for text in (shown.replace("<unk>", " \u2047 "), ours.decode(ids)))
        assert shown == expected
    else:
        assert shown == ours.decode(ids)


def test_no_id_lies_outside_the_models_vocabulary(pair: tuple[Tokenizer, object]) -> None:
    ours, theirs = pair
    assert len(theirs) == ours.vocab_size  # type: ignore[arg-type]
    assert theirs.eos_token_id == ours.encode("\n").tolist()[0]  # type: ignore[attr-defined]


@pytest.mark.parametrize("kind", sorted(set(KINDS) - set(CHOICES)))
def test_a_tokenizer_of_the_hub_goes_along_as_it_is(tmp_path: Path, kind: str) -> None:
    published = ByteLevelBPETokenizer()
    published.train_from_iterator([TEXT], vocab_size=300, show_progress=False)
    published.save(str(tmp_path / "tokenizer.hub.json"))
    ours = KINDS[kind](tmp_path / "tokenizer.hub.json", "a/b")  # type: ignore[call-arg]
    described = {"kind": kind, "options": {"repo": "a/b"}, "vocab_size": ours.vocab_size, "digest": ours.digest}
    write_json(tmp_path / "tokenizer.json", described)
    save_hf_tokenizer(tmp_path, tmp_path / "model")
    theirs = AutoTokenizer.from_pretrained(tmp_path / "model")
    ids = load_tokenizer(tmp_path).encode(TEXT).tolist()
    assert theirs(TEXT)["input_ids"] == ids
    assert theirs.decode(ids) == TEXT


def test_a_vocabulary_that_does_not_fit_is_told(tmp_path: Path) -> None:
    write_json(tmp_path / "tokenizer.json", {"kind": "bytes", "vocab_size": 300})
    with pytest.raises(UserError, match="says 300 ids, its model has 256"):
        save_hf_tokenizer(tmp_path, tmp_path / "model")
    write_json(tmp_path / "tokenizer.json", {"kind": "byte", "vocab_size": 256})
    with pytest.raises(UserError, match="Did you mean 'bytes'"):
        save_hf_tokenizer(tmp_path, tmp_path / "model")
