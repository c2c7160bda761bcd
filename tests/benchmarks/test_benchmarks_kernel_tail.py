"""The kernel tail: five methods, one result; FLOPs and bytes that mean what they say."""

import json
from dataclasses import replace

import pytest
import torch

from overtone.benchmarks.kernel_tail import (
    METHODS,
    Settings,
    draw,
    measure,
    methods,
    quadratic_outputs,
    tail_outputs,
    work,
)
from overtone.ops import resonant_convolution

SMALL = Settings(lengths=(200, 256), heads=3, channels=5, batch=2, tail=4, block=32, repetitions=2)


@pytest.mark.parametrize("length", [4, 31, 32, 33, 200])
def test_every_method_ends_in_the_outputs_of_the_direct_sum(length):
    problem = draw(SMALL, length)
    direct = resonant_convolution(problem.u.double(), problem.alpha, problem.omega, problem.phi, backend="direct")
    for name, call in methods(problem, SMALL).items():
        y = call().double()
        count = min(y.shape[1], 1 if name == "state" else length)
        assert y.shape[1] == (1 if name == "state" else SMALL.tail if name == "tail" else length)
        assert (y[:, -count:] - direct[:, -count:]).abs().max() <= 1e-5 * direct.abs().max(), name


@pytest.mark.parametrize("block", [1, 7, 64, 1000])
def test_the_quadratic_reference_is_the_same_in_blocks_of_any_height(block):
    problem = draw(SMALL, 64)
    direct = resonant_convolution(problem.u.double(), problem.alpha, problem.omega, problem.phi, backend="direct")
    assert torch.allclose(quadratic_outputs(problem, block).double(), direct, atol=1e-5)


def test_the_quadratic_reference_never_holds_the_matrix():
    from overtone.benchmarks.footprint import peak_of_call

    problem = draw(replace(SMALL, heads=2, channels=4, batch=1), 4096)
    peak, _ = peak_of_call(lambda: quadratic_outputs(problem, 32), torch.device("cpu"))
    assert peak < 0.1 * 4 * 2 * 4096**2


def test_flops_count_the_products_of_the_sums():
    one = replace(SMALL, heads=1, channels=1, batch=1, tail=1, block=1)
    length = 100
    samples = 6 * length
    assert work("tail", length, one)[0] - samples == 2 * length
    assert work("quadratic", length, one)[0] - samples == length * (length + 1)  # a row of t + 1 products and sums each
    assert work("state", length, one)[0] == work("state", 10 * length, one)[0] == 10
    doubled = [work(name, 8192, SMALL)[0] / work(name, 4096, SMALL)[0] for name in METHODS]
    assert doubled == pytest.approx([2, 1, 4, 2 * 14 / 13, 2], rel=0.02)
    for name in METHODS:
        assert work(name, 4096, SMALL)[1] > 0


def test_rows_are_json_with_time_work_and_error(tmp_path):
    found = measure(SMALL)
    assert {(row["method"], row["length"]) for row in found["rows"]} == {(name, length) for name in METHODS for length in SMALL.lengths}
    for row in found["rows"]:
        assert row["ms"]["median"] > 0
        assert row["flops"] > 0
        assert row["error"] < 1e-4
    assert {row["outputs"] for row in found["rows"] if row["length"] == 256} == {4, 1, 256}
    assert "row blocks of 32" in found["protocol"]["quadratic"]
    assert json.loads(json.dumps(found, allow_nan=False))["rows"] == found["rows"]


def test_the_tail_is_as_wide_as_asked():
    problem = draw(SMALL, 50)
    assert tail_outputs(problem, 7).shape == (2, 7, 3, 5)
