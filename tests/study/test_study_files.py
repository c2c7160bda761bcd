"""Atomic files and JSON errors; the command line's own errors."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from overtone.cli import main
from overtone.errors import UserError
from overtone.files import atomic_folder, atomic_path, canonical_json, digest_json, read_json, write_json


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


def write_model(folder, text):
    with atomic_folder(folder) as part:
        (part / "config.json").write_text(text)
        (part / text).write_text("x")


def test_a_folder_is_replaced_whole(tmp_path):
    write_model(tmp_path / "cell" / "model", "one")
    write_model(tmp_path / "cell" / "model", "two")
    assert sorted(path.name for path in (tmp_path / "cell" / "model").iterdir()) == ["config.json", "two"]
    assert [path.name for path in (tmp_path / "cell").iterdir()] == ["model"]


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), RuntimeError("other"), KeyboardInterrupt()])
def test_a_failed_folder_leaves_nothing_and_keeps_the_old_one(tmp_path, error):
    told = UserError if isinstance(error, OSError) else type(error)
    for expected in ([], ["model"]):
        with pytest.raises(told) as raised, atomic_folder(tmp_path / "model") as part:
            (part / "half").write_text("x")
            raise error
        assert [path.name for path in tmp_path.iterdir()] == expected
        write_model(tmp_path / "model", "one")
    assert (tmp_path / "model" / "one").is_file()
    if told is UserError:
        assert "model: cannot be written (No space left on device). Free space" in str(raised.value)


def test_a_full_disk_in_the_words_of_safetensors_is_one_line(tmp_path):
    from safetensors import SafetensorError

    with pytest.raises(UserError, match="model: cannot be written") as told, atomic_folder(tmp_path / "model"):
        raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")
    assert "\n" not in str(told.value)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_take_its_place_leaves_the_old_one(tmp_path, monkeypatch):
    write_model(tmp_path / "model", "one")
    real = Path.replace

    def replace(path, target):
        if path.name == ".model.part":
            raise OSError(5, "Input/output error")
        return real(path, target)

    monkeypatch.setattr(Path, "replace", replace)
    with pytest.raises(UserError, match="Input/output error"):
        write_model(tmp_path / "model", "two")
    assert (tmp_path / "model" / "one").is_file()
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_what_a_killed_writer_left_is_cleared_up(tmp_path):
    write_model(tmp_path / ".model.part", "half")
    write_model(tmp_path / ".model.old", "one")  # killed between the two renames
    with pytest.raises(RuntimeError), atomic_folder(tmp_path / "model") as part:
        assert list(part.iterdir()) == []
        raise RuntimeError
    assert (tmp_path / "model" / "one").is_file()
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


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
