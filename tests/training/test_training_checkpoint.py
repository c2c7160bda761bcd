import json
import resource

import pytest
import torch

from overtone.errors import UserError
from overtone.training.checkpoint import Checkpoint, checkpoint_files, load_checkpoint, save_checkpoint


def at(step):
    return Checkpoint({"model/w": torch.full((3, 2), float(step)), "random/cpu": torch.arange(5, dtype=torch.uint8)}, {"step": step})


def newest(folder, fits=lambda state: True):
    warnings = []
    return load_checkpoint(folder, fits, warnings.append), warnings


def test_round_trip_and_only_the_last_two_are_kept(tmp_path):
    assert newest(tmp_path) == (None, [])
    for step in (1, 2, 10):
        save_checkpoint(tmp_path, step, at(step))
    assert [int(path.name.split("-")[0]) for path in checkpoint_files(tmp_path)] == [10, 2]
    found, warnings = newest(tmp_path)
    assert found.state == {"step": 10}
    assert torch.equal(found.tensors["model/w"], torch.full((3, 2), 10.0))
    assert found.tensors["random/cpu"].dtype == torch.uint8
    assert not warnings


@pytest.mark.parametrize("damage", [lambda raw: raw[:-7], lambda raw: raw[:-1] + bytes([raw[-1] ^ 1]), lambda raw: b""])
def test_a_damaged_one_is_detected_and_the_one_before_it_used(tmp_path, damage):
    save_checkpoint(tmp_path, 1, at(1))
    path = save_checkpoint(tmp_path, 2, at(2))
    path.write_bytes(damage(path.read_bytes()))
    found, warnings = newest(tmp_path)
    assert found.state == {"step": 1}
    assert "damaged" in warnings[0]


def test_those_of_another_configuration_are_removed_and_do_not_push_new_ones_out(tmp_path):
    """Theirs may be the higher steps, and only the highest steps are kept."""
    for step in (400, 500):
        save_checkpoint(tmp_path, step, at(step))
    found, warnings = newest(tmp_path, fits=lambda state: state["step"] < 100)
    assert found is None
    assert len(warnings) == 2
    assert all("another configuration" in words for words in warnings)
    assert save_checkpoint(tmp_path, 10, at(10)).exists()
    assert newest(tmp_path, fits=lambda state: state["step"] < 100)[0].state == {"step": 10}


def test_damaged_ones_do_not_push_new_ones_out(tmp_path):
    for step in (400, 500):
        path = save_checkpoint(tmp_path, step, at(step))
        path.write_bytes(path.read_bytes()[:-1])
    assert newest(tmp_path)[0] is None
    assert save_checkpoint(tmp_path, 10, at(10)).exists()
    assert newest(tmp_path)[0].state == {"step": 10}


def test_a_half_written_file_is_never_read(tmp_path):
    save_checkpoint(tmp_path, 1, at(1))
    (tmp_path / "checkpoint.part").write_bytes(b"half")
    assert newest(tmp_path)[0].state == {"step": 1}


def test_no_space_is_one_clear_line_and_keeps_the_last_good_one(tmp_path):
    """A file-size limit makes the kernel refuse the write, as a full disk does."""
    save_checkpoint(tmp_path, 1, at(1))
    large = Checkpoint({"model/w": torch.zeros(1 << 18)}, {"step": 2})
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, hard))
    try:
        with pytest.raises(UserError, match="checkpoint of step 2 cannot be written") as told:
            save_checkpoint(tmp_path, 2, large)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert "\n" not in str(told.value)
    assert [path.name.split("-")[0] for path in checkpoint_files(tmp_path)] == ["000000001"]
    assert not (tmp_path / "checkpoint.part").exists()
    assert newest(tmp_path)[0].state == {"step": 1}


def test_nothing_is_pickled(tmp_path):
    raw = save_checkpoint(tmp_path, 3, at(3)).read_bytes()
    header = json.loads(raw[8 : 8 + int.from_bytes(raw[:8], "little")])
    assert set(header) == {"__metadata__", "model/w", "random/cpu"}
    assert json.loads(header["__metadata__"]["state"]) == {"step": 3}
