"""Rows as documents, and WikiText's lines as articles."""

import io
import json

import pytest

from overtone.corpora.rows import article_documents, read_rows, row_documents
from overtone.errors import UserError


def rows(*texts, split="train"):
    lines = (json.dumps({"text": text, "split": split}) for text in texts)
    return read_rows(io.BytesIO("\n".join(lines).encode()), "archive")


def test_rows_are_documents_and_blank_ones_are_not():
    first, second = row_documents(rows("one", " \n", "two"))
    assert (first.id, first.text, first.split) == ("train-0", "one", "train")
    assert (second.id, second.text, second.split) == ("train-2", "two", "train")


def test_an_article_begins_at_a_title_between_blank_lines():
    lines = ["", " = Robert Boulter = \n", "", " He is an actor . \n", " = 5 = is a line of text \n", " = x = \n",
             " = = Career = = \n", "", " More . \n", "", " = E = mc² = \n", "", " Physics . \n"]
    first, second = article_documents(rows(*lines))
    assert (first.title, second.title) == ("Robert Boulter", "E = mc²")
    assert second.text == " = E = mc² = \n \n Physics . \n"
    assert first.text + second.text == "".join(line or " \n" for line in lines)


def test_splits_end_articles():
    both = [*rows("", " = A = \n", "", " a \n", split="validation"),
            *rows(" still a line \n", "", " = B = \n", "", split="test")]
    assert [(item.split, item.title, item.text.split()[-1]) for item in article_documents(iter(both))] == [
        ("validation", "A", "a"), ("test", "", "line"), ("test", "B", "=")]


def test_no_rows_no_articles():
    assert list(article_documents(rows())) == []
    assert list(article_documents(rows("", ""))) == []


@pytest.mark.parametrize("line", [b"{", b"[]", b"1", b'{"text": 3}', b'{"other": "x"}', b"\xff"])
def test_what_is_no_row_names_the_line(line):
    with pytest.raises(UserError, match="archive: line 2"):
        list(read_rows(io.BytesIO(b'{"text": "a"}\n' + line), "archive"))
