"""Data sets as resumable streams, on local files in place of the hub's."""

import json

import pandas as pd
import pytest

from overtone.corpora import hub
from overtone.corpora.hub import fetch_rows, resolve_revision
from overtone.errors import UserError

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def source(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    for number in range(3):
        texts = [f"shard {number} row {row} é" for row in range(400)]
        pd.DataFrame({"text": texts, "other": range(400)}).to_parquet(folder / f"train-{number}.parquet")
    pd.DataFrame({"text": ["held out", "\u2028 odd"]}).to_parquet(folder / "test-0.parquet")
    return {"format": "parquet", "revision": COMMIT, "column": "text",
            "files": {"train": str(folder / "train-*.parquet"), "test": str(folder / "test-*.parquet")}}


def lines(path):
    return [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]


def test_all_rows_arrive_in_order_with_their_split(source, tmp_path):
    assert fetch_rows(source, tmp_path / "archive") == COMMIT
    expected = [{"split": "train", "text": f"shard {number} row {row} é"} for number in range(3) for row in range(400)]
    expected += [{"split": "test", "text": "held out"}, {"split": "test", "text": "\u2028 odd"}]
    assert lines(tmp_path / "archive") == expected


def test_a_stream_that_breaks_continues_to_the_same_bytes(source, tmp_path, monkeypatch):
    fetch_rows(source, tmp_path / "whole")
    monkeypatch.setattr(hub, "_SAVE_EVERY", 2000)
    real, rows_read = hub._rows, []

    def breaking(after):
        def rows(*arguments):
            for number, row in enumerate(real(*arguments)):
                if number == after:
                    raise ConnectionError("Server disconnected")
                rows_read.append(row)
                yield row
        return rows

    for after in (0, 500, 130, 390):
        monkeypatch.setattr(hub, "_rows", breaking(after))
        message = r"streaming stopped \(ConnectionError: Server disconnected\).*run again: it continues"
        with pytest.raises(UserError, match=message) as caught:
            fetch_rows(source, tmp_path / "archive")
        assert "\n" not in str(caught.value)
        assert not (tmp_path / "archive").exists()
    monkeypatch.setattr(hub, "_rows", breaking(-1))
    fetch_rows(source, tmp_path / "archive")
    assert (tmp_path / "archive").read_bytes() == (tmp_path / "whole").read_bytes()
    assert len(rows_read) < 1202 + 4 * 60  # continued from the last position saved, not from the start


def test_a_finished_archive_is_not_streamed_again(source, tmp_path, monkeypatch):
    fetch_rows(source, tmp_path / "archive")
    monkeypatch.setattr(hub, "_stream", lambda *_: pytest.fail("streamed again"))
    assert fetch_rows(source, tmp_path / "archive") == COMMIT


def test_a_damaged_or_outdated_archive_is_streamed_again(source, tmp_path):
    fetch_rows(source, tmp_path / "archive")
    whole = (tmp_path / "archive").read_bytes()
    (tmp_path / "archive").write_bytes(whole[:-5])
    fetch_rows(source, tmp_path / "archive")
    assert (tmp_path / "archive").read_bytes() == whole
    fetch_rows(source | {"files": {"all": source["files"]["test"]}}, tmp_path / "archive")
    assert lines(tmp_path / "archive") == [{"text": "held out"}, {"text": "\u2028 odd"}]


def test_a_limit_stops_each_split(source, tmp_path):
    fetch_rows(source | {"limit_bytes": 100}, tmp_path / "archive")
    found = [item["text"] for item in lines(tmp_path / "archive") if item["split"] == "train"]
    assert len("".join(found[:-1]).encode()) < 100 <= len("".join(found).encode())


def test_json_lines_are_read_too(tmp_path):
    (tmp_path / "rows.jsonl").write_text('{"text": "a"}\n{"text": "c"}\n')
    source = {"format": "json", "revision": COMMIT, "column": "text", "files": {"test": str(tmp_path / "rows.jsonl")}}
    fetch_rows(source, tmp_path / "archive")
    assert lines(tmp_path / "archive") == [{"split": "test", "text": "a"}, {"split": "test", "text": "c"}]


def test_missing_files_and_columns_are_one_line(source, tmp_path):
    for wrong in (source | {"files": {"train": str(tmp_path / "absent-*.parquet")}}, source | {"column": "content"}):
        with pytest.raises(UserError, match="streaming stopped") as caught:
            fetch_rows(wrong, tmp_path / "archive")
        assert "\n" not in str(caught.value)
        assert not (tmp_path / "archive").exists()


def test_a_branch_is_resolved_to_its_commit(monkeypatch):
    import huggingface_hub

    class Api:
        def dataset_info(self, repo, revision):
            assert (repo, revision) == ("owner/data", "main")
            return type("Info", (), {"sha": COMMIT})()

    monkeypatch.setattr(huggingface_hub, "HfApi", Api)
    assert resolve_revision({"repo": "owner/data", "revision": "main"}) == COMMIT
    assert resolve_revision({"repo": "owner/data", "revision": "f" * 40}) == "f" * 40


def test_no_network_is_one_line(tmp_path):
    source = {"repo": "owner/data", "revision": "main", "format": "parquet", "column": "text",
              "files": {"all": "x.parquet"}}
    with pytest.raises(UserError, match=r"owner/data: streaming stopped") as caught:
        fetch_rows(source, tmp_path / "archive")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "archive").exists()
