"""Atomic files and JSON errors; the command line's own errors."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from overtone.cli import main
from overtone.errors import UserError
from overtone.files import atomic_path, canonical_json, digest_json, read_json, write_json


def test_a_failed_write_leaves_nothing(tmp_path):
    with pytest.raises(RuntimeError), atomic_path(tmp_path / "x.json") as temporary:
        temporary.write_text("half")
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []


def test_a_failed_write_keeps_the_old_file(tmp_path):
    write_json(tmp_path / "x.json", {"a": 1})
    with pytest.raises(ValueError):
        write_json(tmp_path / "x.json", {"a": float("nan")})
    assert read_json(tmp_path / "x.json") == {"a": 1}
    assert [path.name for path in tmp_path.iterdir()] == ["x.json"]


def test_a_full_disk_is_one_clear_line(tmp_path, monkeypatch):
    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UserError, match=r"x\.json.*No space left"):
        write_json(tmp_path / "x.json", [1])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text", ["", "{", "nonsense"])
def test_damaged_json_names_the_file(tmp_path, text):
    (tmp_path / "metrics.json").write_text(text)
    with pytest.raises(UserError, match=r"metrics\.json"):
        read_json(tmp_path / "metrics.json")


def test_missing_json_names_the_file(tmp_path):
    with pytest.raises(UserError, match=r"gone\.json"):
        read_json(tmp_path / "gone.json")


def test_equal_values_have_equal_digests_whatever_the_order():
    assert digest_json({"a": 1, "b": [1.0, 2]}) == digest_json({"b": [1.0, 2], "a": 1})
    assert canonical_json({"b": 1, "a": 2}) == '{"a":2,"b":1}'


def test_an_unknown_verb_names_the_nearest(capsys):
    assert main(["trian"]) == 2
    assert "Did you mean 'train'" in capsys.readouterr().err


def test_help_lists_every_verb_and_every_verb_has_help(capsys):
    from overtone.cli import VERBS

    assert main(["--help"]) == 0
    listed = capsys.readouterr().out
    for verb in VERBS:
        assert verb in listed
        with pytest.raises(SystemExit) as stopped:
            main([verb, "--help"])
        assert stopped.value.code == 0


TORCHLESS = ("fetch", "extract", "split", "tokenizer", "tokenize", "study", "table", "figure", "claims", "page", "compare", "verify")


@pytest.mark.parametrize("verb", TORCHLESS)
def test_verbs_that_need_no_torch_do_not_import_it(verb):
    code = f"import sys; from overtone.cli import _verb_parser; _verb_parser({verb!r}); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
