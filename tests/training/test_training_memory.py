"""Out of memory: what counts as it, and the search for the longest length that trains."""

import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from overtone.benchmarks.candidates import candidates
from overtone.benchmarks.child import in_child
from overtone.benchmarks.memory import Settings, Subject, extrapolate, longest, measure_subject, subjects, training_step
from overtone.training.memory import MemoryMeter, OutOfMemory, as_out_of_memory


class Card:
    """A GPU's allocator as torch.cuda tells of it."""

    def __init__(self):
        self.allocated = self.peak = 0

    @contextmanager
    def holding(self, size):
        self.allocated += size
        self.peak = max(self.peak, self.allocated)
        yield
        self.allocated -= size

    def reset(self, device=None):
        self.peak = self.allocated


@pytest.fixture
def card(monkeypatch):
    made = Card()
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda device=None: made.peak)
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", made.reset)
    return made


@pytest.mark.parametrize(("error", "requested"), [
    (MemoryError(), None),
    (RuntimeError("[enforce fail at alloc_cpu.cpp:124] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to "
                  "allocate 4096 bytes. Error code 12 (Cannot allocate memory)"), 4096),
    (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of 79 GiB"), int(2.5 * 2**30)),
    (RuntimeError("std::bad_alloc"), None),
    (RuntimeError("could not create a primitive"), None),
    (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"), None),
    (RuntimeError("cuFFT error: CUFFT_ALLOC_FAILED"), None),
    (RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"), None),
    (RuntimeError("cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED"), None),
    (OutOfMemory("own", 7), 7),
])
def test_errors_that_mean_out_of_memory(error, requested):
    found = as_out_of_memory(error)
    assert isinstance(found, OutOfMemory)
    assert found.requested == requested
    assert "\n" not in str(found)
    assert str(found)


@pytest.mark.parametrize("error", [RuntimeError("shapes do not match"), RuntimeError("cuFFT error: CUFFT_EXEC_FAILED"),
                                   ValueError("out of memory"), KeyError("allocate memory")])
def test_other_errors_are_not_taken_for_it(error):
    assert as_out_of_memory(error) is None


def test_a_real_failed_allocation_is_recognised():
    with pytest.raises(RuntimeError) as told:
        torch.empty(1 << 50, dtype=torch.uint8)
    assert as_out_of_memory(told.value).requested == 1 << 50


@pytest.mark.skipif(not find_spec("triton"), reason="triton is not installed")
def test_what_a_kernel_takes_while_it_is_tuned_is_not_in_the_peak(card, monkeypatch):
    """Through Triton's own tuner; the card's allocator and the timing are made up, because there may be none."""
    import triton.testing

    from overtone.ops.linear_scan import triton as kernels

    def timing(launch, quantiles):
        with card.holding(256 << 20):
            return [1.0] * len(quantiles)

    monkeypatch.setattr(triton.testing, "do_bench", timing)
    device = torch.device("cuda")
    with card.holding(1000):
        pass
    meter = MemoryMeter(torch.nn.Linear(2, 2), device)
    with card.holding(500):
        kernels.scan_fwd_kernel.nargs = {}
        for configuration in kernels.scan_fwd_kernel.configs:
            assert kernels.scan_fwd_kernel._bench(config=configuration) == [1.0] * 3
        assert meter.peak() == 500
        with card.holding(100):
            pass
    assert meter.peak() == 600
    assert MemoryMeter(torch.nn.Linear(2, 2), device).peak() == 0


@given(wall=st.integers(0, 5000), start=st.integers(1, 300), resolution=st.floats(0.0, 0.5))
def test_the_longest_length_is_found_within_its_resolution(wall, start, resolution):
    tried = []

    def fits(length):
        tried.append(length)
        return length <= wall

    found = longest(fits, start, 4096, resolution)
    assert found <= min(wall, 4096)
    assert max(tried) <= 4096
    assert found == min(wall, 4096) or min(wall, 4096) - found <= max(1, resolution * found)


def test_extrapolation_recovers_a_parabola():
    points = [(length, 1000 + 30 * length + 2 * length**2) for length in (64, 128, 256, 512)]
    found = extrapolate(points, 1000 + 30 * 10_000 + 2 * 10_000**2)
    assert found["length"] == pytest.approx(10_000, abs=1)
    assert found["bytes_per_token"] == pytest.approx(30, rel=1e-6)
    assert found["bytes_per_token_squared"] == pytest.approx(2, rel=1e-6)
    line = extrapolate([(length, 5000 + 40 * length) for length in (64, 128, 256)], 9000)
    assert line["length"] == pytest.approx(100, abs=1)
    assert line["bytes_per_token_squared"] == pytest.approx(0, abs=1e-6)


def test_attention_models_are_measured_once_a_form():
    models = candidates(("transformer", "harmonic"), hidden=32, vocab_size=64, match="")
    assert [subject.attention for subject in subjects(models, ("sdpa", "quadratic"))] == ["sdpa", "quadratic", None]


def test_a_child_answers_raises_or_dies_without_harm():
    assert in_child(lambda: {"pid": os.getpid()})["pid"] != os.getpid()
    with pytest.raises(RuntimeError, match="raised"):
        in_child(lambda: 1 / 0)
    with pytest.raises(RuntimeError, match="SIGKILL"):
        in_child(lambda: os.kill(os.getpid(), signal.SIGKILL))


@pytest.mark.filterwarnings("ignore:CUDA is not available")
def test_a_step_on_a_card_is_rehearsed_then_limited_then_measured(card, monkeypatch):
    """On a CPU with torch.cuda's own checks; what would call the driver is made up."""
    told = []
    card.peak = 1_000_000
    monkeypatch.setattr(torch.cuda.memory, "_lazy_init", lambda: None)
    monkeypatch.setattr(torch._C, "_cuda_setMemoryFraction", lambda share, number: told.append(("share", share, number)), raising=False)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: SimpleNamespace(total_memory=4_000_000_000))
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda device: told.append(("reset", device)))
    candidate = candidates(("harmonic",), hidden=16, vocab_size=32, match="")[0]
    model = candidate.build(0)
    model.to = lambda device: model
    loss = model.loss

    def watched(ids, targets):
        told.append(("step", ids.shape[1]))
        if ids.shape[1] == 64 and ("share", 0.25, 0) not in told:
            raise torch.OutOfMemoryError("CUDA out of memory")  # only the rehearsal: the tuner's doing
        return loss(ids, targets)

    model.loss = watched
    subject = Subject(SimpleNamespace(name="harmonic", build=lambda seed: model), None)
    rows, best, _ = measure_subject(subject, Settings(device="cuda", lengths=(64, 128), max_length=128, limit_gb=1.0))
    assert [row["status"] for row in rows] == ["ok", "ok"]
    assert best["length"] == 128
    assert told == [
        event for length in (64, 128)
        for event in (("step", length), ("share", 0.25, 0), ("step", 8), ("reset", 0), ("step", length), ("share", 1.0, 0))
    ]


def test_steps_on_two_threads_end(tmp_path):
    """Wide enough that torch shares the work; it is forked, and threads are not."""
    words = ["bench", "memory", "--architectures", "transformer", "harmonic", "--match", "", "--hidden", "128", "--vocab-size", "64",
             "--lengths", "64", "512", "--max-length", "512", "--limit-gb", "0.4", "--threads", "2", "--out", str(tmp_path / "memory.json")]
    environment = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    process = subprocess.Popen([sys.executable, "-m", "overtone.cli", *words], env=environment, start_new_session=True)
    try:
        assert process.wait(timeout=120) == 0
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # a step that waits for ever outlives its parent
    found = json.loads((tmp_path / "memory.json").read_text())
    assert {row["status"] for row in found["rows"]} == {"ok"}
    assert found["environment"]["threads"] == 2


def test_quadratic_attention_meets_the_wall_and_fused_attention_does_not(tmp_path):
    """In a process of its own, whose memory no earlier test has shaped."""
    words = ["bench", "memory", "--architectures", "transformer", "harmonic", "--match", "", "--hidden", "32", "--vocab-size", "64",
             "--lengths", "256", "512", "--limit-gb", "0.03", "--max-length", "2048", "--resolution", "0.25"]
    subprocess.run([sys.executable, "-m", "overtone.cli", *words, "--out", str(tmp_path / "memory.json")], check=True)
    found = json.loads((tmp_path / "memory.json").read_text())
    reached = {(row["architecture"], row["attention"]): row["length"] for row in found["longest"]}
    assert reached["transformer", "quadratic"] < 0.7 * reached["transformer", "sdpa"]
    assert reached["transformer", "quadratic"] < 0.7 * reached["harmonic", None]
    failed = [row for row in found["rows"] if row["status"] == "oom"]
    assert {(row["architecture"], row["attention"]) for row in failed} >= {("transformer", "quadratic")}
    peaks = [row["peak_bytes"] for row in found["rows"] if (row["attention"], row["status"]) == ("quadratic", "ok")]
    assert peaks == sorted(peaks)
    assert peaks[0] > 0
    modelled = {(row["architecture"], row["attention"]): row for row in found["modelled"]}
    assert modelled["transformer", "quadratic"]["length"] < 0.2 * modelled["transformer", "sdpa"]["length"]
    assert {row["limit_bytes"] for row in found["modelled"]} == {80_000_000_000}


def test_a_step_whose_peak_lies_above_the_limit_did_not_fit(monkeypatch):
    """What is resident may be more than what was asked for: the longest length has to be within the limit that is printed beside it."""
    model = candidates(("transformer",), hidden=16, vocab_size=11, match="")[0].build(0)
    over = 1 << 30
    monkeypatch.setattr(MemoryMeter, "peak", lambda meter: over + 1)
    found = [training_step(model, torch.device("cpu"), 1, 8, limit, 0) for limit in (over, over + 1)]
    assert [step["status"] for step in found] == ["oom", "ok"]
