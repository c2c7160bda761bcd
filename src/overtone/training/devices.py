"""Which device a process trains on, and a GPU of its own for each process of a machine. Imports no torch by itself.

Snakemake counts GPUs but gives nobody an id. A slot is a file per GPU, locked for the life of the process that has it. A
CUDA_VISIBLE_DEVICES that is set already, or Slurm's own choice, says which GPUs there are: one of them is taken as it is, of several a
free one.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from overtone.errors import UserError, unknown_name
from overtone.training.locks import try_lock

if TYPE_CHECKING:
    import torch

KINDS = ("auto", "cpu", "cuda")
_held: list[int] = []  # lock handles, open until the process ends


def gpu_ids() -> list[str]:
    """The ids of this machine's GPUs: OVERTONE_GPUS (comma-separated) where set, else what the driver lists."""
    if (named := os.environ.get("OVERTONE_GPUS")) is not None:
        return [name.strip() for name in named.split(",") if name.strip()]
    try:
        listing = subprocess.run(
            ["nvidia-smi", "--query-gpu=index", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return []
    return [line.strip() for line in listing.splitlines() if line.strip()]


def assigned_gpus() -> list[str] | None:
    """GPUs that somebody else chose for this process (CUDA_VISIBLE_DEVICES, Slurm); None where nobody did."""
    for name in ("CUDA_VISIBLE_DEVICES", "SLURM_STEP_GPUS", "SLURM_JOB_GPUS"):
        if (value := os.environ.get(name)) is not None:
            return [
                part.strip() for part in value.split(",") if part.strip() and part.strip() not in ("-1", "NoDevFiles")
            ]
    return None


def slots_folder() -> Path:
    """Where the slots of this user's processes lie: one folder a machine."""
    return Path(os.environ.get("OVERTONE_GPU_SLOTS") or Path(tempfile.gettempdir()) / f"overtone-gpus-{os.getuid()}")


def slurm_step() -> list[str]:
    """Job and step of this process. What Slurm assigns to a step may be numbered from 0 for each of them."""
    return [os.environ[key] for key in ("SLURM_JOB_ID", "SLURM_STEP_ID") if os.environ.get(key)]


def take_slot(
    ids: list[str],
    log: Callable[[str], None],
    wait_s: float | None = None,
    poll_s: float = 1.0,
    scope: Sequence[str] = (),
) -> str:
    """Lock the first free of these GPUs for this process's life and return its id; waits while all are taken.

    scope: who numbers the GPUs, where that is not the machine: equal ids of two scopes may be two GPUs.
    """
    began = time.monotonic()
    told = False
    while True:
        for name in ids:
            handle = try_lock(slots_folder() / f"{'-'.join(['gpu', *scope, name.replace('/', '_')])}.lock")
            if handle is not None:
                _held.append(handle)
                return name
        if not told:
            log(f"all of GPU {', '.join(ids)} are taken; waiting for one")
            told = True
        if wait_s is not None and time.monotonic() - began >= wait_s:
            raise UserError(
                f"GPU: all of {', '.join(ids)} are still taken after {wait_s:g} s. Lower `--resources gpu`."
            )
        time.sleep(poll_s)


def choose_device(request: str, log: Callable[[str], None] = lambda line: None) -> str:
    """Settle this process's device before CUDA starts: "cpu" or "cuda:N" as torch will number it.

    request: cpu, cuda (a missing GPU is a UserError) or auto (a GPU where there is one).
    """
    if request not in KINDS:
        raise unknown_name("device", request, KINDS)
    if request == "cpu":
        return "cpu"
    assigned = assigned_gpus()
    if assigned is None:
        ids = gpu_ids()
        if ids:
            os.environ["CUDA_VISIBLE_DEVICES"] = take_slot(ids, log)
            return "cuda:0"
    elif len(assigned) > _local_processes(len(assigned)):  # others may have been given the same ones
        os.environ["CUDA_VISIBLE_DEVICES"] = take_slot(assigned, log, scope=slurm_step())
        return "cuda:0"
    elif assigned:
        os.environ.setdefault("CUDA_VISIBLE_DEVICES", ",".join(assigned))
        return f"cuda:{int(os.environ.get('LOCAL_RANK', '0')) % len(assigned)}"
    if request == "cuda":
        raise UserError(
            "device: a GPU is wanted (cuda) and this machine shows none. "
            "Run on a GPU node, or set `device: cpu` in the study."
        )
    return "cpu"


def _local_processes(assigned: int) -> int:
    """Processes of this run on this machine, which share the GPUs assigned to it by rank; a launcher that does not tell has one a GPU."""
    return int(os.environ.get("LOCAL_WORLD_SIZE", assigned)) if "LOCAL_RANK" in os.environ else 1


def usable(name: str) -> str:
    """A device as torch names it (cpu, cuda, cuda:1, mps); a UserError where this machine or this torch has none such."""
    import torch

    try:
        torch.zeros(1, device=name).item()  # a meta device has no values
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = " ".join(str(error).split())
        raise UserError(f"--device: {name!r} cannot be used ({reason[:120]}). Use --device cpu, or a machine that has it.") from None
    return name


def torch_device(request: str, log: Callable[[str], None] = lambda line: None) -> torch.device:
    """As `choose_device`, as a torch device that works; a CPU gets OVERTONE_THREADS threads (default 1)."""
    name = choose_device(request, log)
    import torch

    if name != "cpu" and not torch.cuda.is_available():
        if request == "cuda":
            raise UserError(
                f"device: a GPU is here, but torch {torch.__version__} cannot use it. Install a CUDA build of torch."
            )
        name = "cpu"
    if name == "cpu":
        torch.set_num_threads(threads())
    return torch.device(name)


def threads() -> int:
    """CPU threads of one process: OVERTONE_THREADS, default 1 (cells run side by side instead)."""
    value = os.environ.get("OVERTONE_THREADS", "1")
    if not value.isdigit() or int(value) < 1:
        raise UserError(f"OVERTONE_THREADS: found {value!r}, expected a whole number from 1 up.")
    return int(value)
