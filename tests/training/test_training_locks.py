"""Locks and GPU slots, held and released by real processes; the ids are made up."""

import os
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest

from overtone.errors import UserError
from overtone.training import devices
from overtone.training.locks import cell_lock, try_lock

HOLD = (
    "import sys, time; from pathlib import Path; from overtone.training.locks import try_lock;"
    "print(try_lock(Path(sys.argv[1])) is not None, flush=True); time.sleep(60)"
)


def holder(path):
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "True\n"
    return process


def test_a_second_trainer_is_refused_until_the_first_is_gone_however_it_went(tmp_path):
    process = holder(tmp_path / "lock")
    try:
        with pytest.raises(UserError, match=f"process {process.pid}"), cell_lock(tmp_path):
            pass
    finally:
        process.kill()
        process.wait()
    with cell_lock(tmp_path):
        pass


def test_a_lock_file_removed_by_its_holder_is_not_taken_for_the_new_one(tmp_path):
    path = tmp_path / "lock"
    first = try_lock(path)
    path.unlink()
    second = try_lock(path)
    assert second is not None
    assert os.fstat(second).st_ino == path.stat().st_ino
    os.close(first)
    os.close(second)


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Three GPUs that are not there, and no scheduler."""
    for name in ("CUDA_VISIBLE_DEVICES", "SLURM_STEP_GPUS", "SLURM_JOB_GPUS", "SLURM_JOB_ID", "SLURM_STEP_ID", "LOCAL_RANK",
                 "LOCAL_WORLD_SIZE"):
        monkeypatch.setenv(name, "x")  # so that monkeypatch takes back what choose_device sets
        monkeypatch.delenv(name)
    monkeypatch.setenv("OVERTONE_GPUS", "0,1,5")
    monkeypatch.setenv("OVERTONE_GPU_SLOTS", str(tmp_path / "slots"))
    monkeypatch.setattr(devices, "_held", [])
    yield tmp_path / "slots"
    for handle in devices._held:
        os.close(handle)


TAKE = (
    "import os, sys, time; from overtone.training.devices import choose_device;"
    "print(choose_device('cuda'), os.environ['CUDA_VISIBLE_DEVICES'], flush=True); time.sleep(60)"
)


@contextmanager
def takers(*environments):
    """A process for each environment (what it adds to ours), and what they took, sorted: [device, CUDA_VISIBLE_DEVICES]."""
    processes = [subprocess.Popen([sys.executable, "-c", TAKE], stdout=subprocess.PIPE, text=True, env=os.environ | more)
                 for more in environments]
    try:
        yield processes, sorted(process.stdout.readline().split() for process in processes)
    finally:
        for process in processes:
            process.kill()
            process.wait()


def test_each_process_gets_a_gpu_of_its_own_and_gives_it_back_by_dying(machine):
    with takers({}, {}, {}) as (processes, told):
        assert told == [["cuda:0", "0"], ["cuda:0", "1"], ["cuda:0", "5"]]
        with pytest.raises(UserError, match="still taken"):
            devices.take_slot(["0", "1", "5"], lambda line: None, wait_s=0.0)
        processes[1].kill()
        processes[1].wait()
        began = time.monotonic()
        assert devices.take_slot(["0", "1", "5"], lambda line: None, wait_s=5.0, poll_s=0.02) in ("0", "1", "5")
        assert time.monotonic() - began < 5


def test_one_gpu_that_is_set_already_is_honoured(machine, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    assert devices.choose_device("auto") == "cuda:0"
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "3"
    assert not machine.exists()


def test_of_several_assigned_gpus_each_process_takes_a_free_one(machine):
    with takers(*[{"CUDA_VISIBLE_DEVICES": "3,4,GPU-5/1"}] * 3) as (_, told):
        assert told == [["cuda:0", "3"], ["cuda:0", "4"], ["cuda:0", "GPU-5/1"]]


def test_a_process_that_chose_keeps_its_gpu_when_it_asks_again(machine, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,4")
    assert [devices.choose_device("cuda") for _ in range(2)] == ["cuda:0"] * 2
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "3"
    assert len(devices._held) == 1


@pytest.mark.parametrize("size", [None, "2"])
def test_ranks_divide_the_gpus_that_are_theirs(machine, monkeypatch, size):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,4")
    monkeypatch.setenv("LOCAL_RANK", "1")
    if size:
        monkeypatch.setenv("LOCAL_WORLD_SIZE", size)
    assert devices.choose_device("cuda") == "cuda:1"
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "3,4"
    assert not machine.exists()


def test_ranks_of_two_runs_on_four_gpus_do_not_meet(machine):
    four = {"CUDA_VISIBLE_DEVICES": "0,1,2,3", "LOCAL_WORLD_SIZE": "2"}
    with takers(*(four | {"LOCAL_RANK": rank} for rank in "0101")) as (_, told):
        assert [visible for _, visible in told] == ["0", "1", "2", "3"]


def test_slurms_choice_is_honoured(machine, monkeypatch):
    monkeypatch.setenv("SLURM_JOB_GPUS", "2")
    assert devices.choose_device("cuda") == "cuda:0"
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "2"
    assert not machine.exists()


def test_two_slurm_jobs_that_both_count_from_0_do_not_wait_for_each_other(machine, monkeypatch):
    for job in ("71", "72"):
        monkeypatch.setenv("SLURM_JOB_ID", job)
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
        assert devices.choose_device("cuda") == "cuda:0"
        assert os.environ["CUDA_VISIBLE_DEVICES"] == "0"


def test_slurm_jobs_that_nobody_gave_a_gpu_share_those_of_the_machine(machine, monkeypatch):
    taken = []
    for job in ("71", "72"):
        monkeypatch.setenv("SLURM_JOB_ID", job)
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        devices.choose_device("cuda")
        taken.append(os.environ["CUDA_VISIBLE_DEVICES"])
    assert taken == ["0", "1"]


def test_cpu_only_when_asked_and_when_hidden(machine, monkeypatch):
    assert devices.choose_device("cpu") == "cpu"
    assert "CUDA_VISIBLE_DEVICES" not in os.environ
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert devices.choose_device("auto") == "cpu"
    with pytest.raises(UserError, match="shows none"):
        devices.choose_device("cuda")


def test_a_missing_gpu_is_an_error_for_cuda_and_the_cpu_for_auto(machine, monkeypatch):
    monkeypatch.setenv("OVERTONE_GPUS", "")
    assert devices.choose_device("auto") == "cpu"
    with pytest.raises(UserError, match="device: cpu"):
        devices.choose_device("cuda")
    with pytest.raises(UserError, match="cuda"):
        devices.choose_device("gpu")


def test_threads_come_from_the_environment(monkeypatch):
    monkeypatch.delenv("OVERTONE_THREADS", raising=False)
    assert devices.threads() == 1
    monkeypatch.setenv("OVERTONE_THREADS", "3")
    assert devices.threads() == 3
    monkeypatch.setenv("OVERTONE_THREADS", "many")
    with pytest.raises(UserError, match="OVERTONE_THREADS"):
        devices.threads()
