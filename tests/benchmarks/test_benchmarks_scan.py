"""`overtone bench scan`: what it writes, and what it refuses. How fast anything is, is not tested."""

import pytest

from overtone.benchmarks.scan import Settings, measure, parse_shape, table
from overtone.cli import main
from overtone.errors import UserError
from overtone.files import read_json


def test_one_row_for_each_shape_dtype_threads_and_allocator(tmp_path, capsys):
    out = tmp_path / "scan.json"
    flags = ["--shapes", "2x64x32", "1x7x5", "--threads", "1", "--memory", "default", "--repetitions", "2"]
    assert main(["bench", "scan", *flags, "--out", str(out)]) == 0
    result = read_json(out)
    assert [row["shape"] for row in result["rows"]] == [[2, 64, 32], [1, 7, 5]]
    settings = {(row["method"], row["dtype"], row["threads"], row["memory"]) for row in result["rows"]}
    assert settings == {("linear_scan", "float32", 1, "default")}
    for row in result["rows"]:
        floor = min(row["samples_ms"]["floor"])
        for run, passes in (("forward", 3), ("training", 8)):
            assert len(row["samples_ms"][run]) == 2
            assert row[run]["ms"] == min(row["samples_ms"][run])
            assert row[run]["ratio"] == pytest.approx(row[run]["ms"] / (floor * passes / 8))
    assert result["environment"]["processor"]
    printed = capsys.readouterr().out
    assert printed.strip() == table(result["rows"]).strip()
    assert len(printed.splitlines()) == 3


@pytest.mark.parametrize("shape", ["4x8192", "4x0x3", "axbxc", "4x8192x-1", ""])
def test_a_shape_that_is_none(shape):
    with pytest.raises(UserError, match="expected BATCHxLENGTHxDIM"):
        parse_shape(shape)


@pytest.mark.parametrize("wrong", [{"dtypes": ("float8",)}, {"memory": ("much",)}, {"device": "tpu"}])
def test_unknown_settings(wrong):
    with pytest.raises(UserError, match="expected one of"):
        measure(Settings(**wrong))
