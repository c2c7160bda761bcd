"""Downloads against a server on loopback that truncates, fails, ignores ranges or serves other bytes."""

import hashlib
import resource
import shutil
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from overtone.cli import main
from overtone.corpora import download as module
from overtone.corpora.download import download
from overtone.errors import UserError

BODY = bytes(range(256)) * 3000  # 768,000 bytes
DIGEST = hashlib.sha256(BODY).hexdigest()


class Server:
    """Answers each request with the next of `answers`; the last one stays."""

    def __init__(self):
        self.answers = ["whole"]
        self.ranges = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                outer.ranges.append(self.headers.get("Range"))
                answer = outer.answers.pop(0) if len(outer.answers) > 1 else outer.answers[0]
                if isinstance(answer, int):
                    self.send_error(answer)
                    return
                start = int((self.headers.get("Range") or "bytes=0-")[6:-1])
                start = 0 if answer == "no ranges" else start
                body = {"other": bytes(len(BODY)), "longer": BODY + b"x"}.get(answer, BODY)[start:]
                self.send_response(206 if start else 200)
                if start:
                    self.send_header("Content-Range", f"bytes {start}-{len(BODY) - 1}/{len(BODY)}")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body[: len(body) // 2] if answer == "half" else body)

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/corpus.zip"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    server = Server()
    yield server
    server.server.shutdown()
    server.server.server_close()


def fetch(server, out, tries=3, **changes):
    given = {"size": len(BODY), "sha256": DIGEST, "pauses": (0.0,) * (tries - 1), "timeout": 5.0}
    download(server.url, out, **given | changes)


def test_whole_file_arrives_and_is_not_fetched_again(server, tmp_path):
    fetch(server, tmp_path / "archive")
    fetch(server, tmp_path / "archive")
    assert (tmp_path / "archive").read_bytes() == BODY
    assert server.ranges == [None]
    assert [path.name for path in tmp_path.iterdir()] == ["archive"]


def test_failures_then_truncations_are_retried_and_resumed(server, tmp_path):
    server.answers = [503, "half", "half", "whole"]
    fetch(server, tmp_path / "archive", tries=4)
    assert (tmp_path / "archive").read_bytes() == BODY
    assert server.ranges == [None, None, f"bytes={len(BODY) // 2}-", f"bytes={len(BODY) // 4 * 3}-"]


def test_a_run_that_gave_up_is_continued_by_the_next(server, tmp_path):
    server.answers = ["half"]
    with pytest.raises(UserError, match=r"truncated; 384,000 of 768,000 bytes came.*run again: it continues"):
        fetch(server, tmp_path / "archive", tries=1)
    assert not (tmp_path / "archive").exists()
    server.answers = ["whole"]
    fetch(server, tmp_path / "archive", tries=1)
    assert (tmp_path / "archive").read_bytes() == BODY
    assert server.ranges[-1] == f"bytes={len(BODY) // 2}-"


def test_a_server_without_ranges_starts_over(server, tmp_path):
    server.answers = ["half", "no ranges"]
    fetch(server, tmp_path / "archive")
    assert (tmp_path / "archive").read_bytes() == BODY


def test_wrong_digest_names_file_expected_and_found_and_leaves_nothing(server, tmp_path):
    server.answers = ["other"]
    found = hashlib.sha256(bytes(len(BODY))).hexdigest()
    with pytest.raises(UserError, match=rf"archive: expected sha256 {DIGEST}, found {found}"):
        fetch(server, tmp_path / "archive")
    assert not list(tmp_path.iterdir())


def test_more_bytes_than_published_is_an_error(server, tmp_path):
    server.answers = ["longer"]
    with pytest.raises(UserError, match="expected 768,000 bytes, more came"):
        fetch(server, tmp_path / "archive")
    assert not list(tmp_path.iterdir())


def test_not_found_is_not_retried(server, tmp_path):
    server.answers = [404]
    with pytest.raises(UserError, match="the server answers 404"):
        fetch(server, tmp_path / "archive")
    assert len(server.ranges) == 1


def test_no_network_is_one_line(tmp_path):
    with pytest.raises(UserError, match=r"no connection \(.*0 of 9 bytes came") as caught:
        download("http://127.0.0.1:9/x", tmp_path / "archive", size=9, sha256=DIGEST, pauses=(0.0,), timeout=2.0)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "archive").exists()


def test_no_space_is_told_before_anything_is_fetched(server, tmp_path, monkeypatch):
    monkeypatch.setattr(module.shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10, 9, 1))
    with pytest.raises(UserError, match="needs 768,000 bytes, 1 are free"):
        fetch(server, tmp_path / "archive")
    assert server.ranges == []


def test_a_disk_that_fills_up_is_one_line_and_the_next_run_continues(server, tmp_path):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        with pytest.raises(UserError, match=r"archive: cannot be written \(File too large\)"):
            fetch(server, tmp_path / "archive")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not (tmp_path / "archive").exists()
    fetch(server, tmp_path / "archive")
    assert server.ranges == [None, "bytes=100000-"]
    assert (tmp_path / "archive").read_bytes() == BODY


def test_the_verb_prints_one_line_and_exits_2(server, tmp_path, monkeypatch, capsys):
    from overtone.corpora import fetch as fetching
    from overtone.corpora.registry import Corpus

    source = {"kind": "http", "url": server.url, "bytes": len(BODY), "sha256": "0" * 64}
    monkeypatch.setattr(fetching, "corpus", lambda _: Corpus("x", "none", source, {"form": "rows", "packing": "none"}))
    assert main(["fetch", "--corpus", "x", "--out", str(tmp_path / "archive.json")]) == 2
    error = capsys.readouterr().err
    assert error.startswith("overtone: ")
    assert error.count("\n") == 1
    assert not list(tmp_path.iterdir())
