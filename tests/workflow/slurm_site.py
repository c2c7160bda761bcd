"""A private Slurm on loopback: munged, slurmctld and slurmd in one folder, ended by their process ids."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "squeue", "scontrol", "scancel", "sinfo")
# More slots than this machine has cores: jobs spend much of their time starting and waiting.
CPUS = 4
MEMORY_MB = 16_000


def why_not() -> str:
    """Why no private Slurm can be started here; "" where it can."""
    missing = [name for name in PROGRAMS if shutil.which(name, path=search_path()) is None]
    if missing:
        return f"{', '.join(missing)} missing: apt-get install slurm-wlm munge"
    if os.geteuid() != 0:
        return "slurmd needs root"
    return ""


def search_path() -> str:
    """PATH with the folders of daemons, which a user's own may lack."""
    return os.environ["PATH"] + ":/usr/local/sbin:/usr/sbin:/sbin"


def free_ports(count: int) -> list[int]:
    """Ports of this machine that nobody listens on."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for item in sockets:
            item.bind(("127.0.0.1", 0))
        return [item.getsockname()[1] for item in sockets]
    finally:
        for item in sockets:
            item.close()


@dataclass
class Slurm:
    """One running cluster of one node with one declared GPU."""

    folder: Path
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def environment(self) -> dict[str, str]:
        """What a user's shell needs to reach this cluster."""
        return {"SLURM_CONF": str(self.folder / "slurm.conf"), "PATH": f"{self.folder}/bin:{search_path()}"}

    def start(self) -> None:
        """Start the three daemons and wait until the node takes jobs."""
        self._write_configuration()
        socket_path = self.folder / "munge.sock"
        self._daemon(
            "munged", "--force", "--foreground", "--key-file", "munge.key", "--socket", str(socket_path), "--pid-file", "munged.pid",
            "--log-file", "munged.log", "--seed-file", "munge.seed",
        )
        self._wait(socket_path.exists, "munged")
        self._daemon("slurmctld", "-D", "-c", "-f", str(self.folder / "slurm.conf"))
        self._daemon("slurmd", "-D", "-c", "-f", str(self.folder / "slurm.conf"))
        self._wait(lambda: self.ask("sinfo", "--noheader", "--format", "%T").strip() == "idle", "slurmctld and slurmd")

    def stop(self) -> None:
        """End jobs, then daemons, the last started first."""
        if len(self.processes) == 3:
            self.ask("scancel", "--full", "--signal", "KILL", "--state", "RUNNING", "--user", "root")
            self.ask("scancel", "--user", "root")
        for process in reversed(self.processes):
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def ask(self, *command: str) -> str:
        """What one of Slurm's commands prints; "" where it fails."""
        done = subprocess.run(command, env=os.environ | self.environment, capture_output=True, text=True, timeout=60)
        return done.stdout

    def jobs(self, folder: Path) -> list[dict[str, str]]:
        """Every job submitted from this folder, ended ones included: the fields of `scontrol show job`."""
        blocks = self.ask("scontrol", "--details", "show", "job").split("\n\n")
        jobs = [dict(re.findall(r"(?:^|\s)([A-Za-z:/]+)=(.*?)(?=\s+[A-Za-z:/]+=|\s*$)", block.replace("\n", " "))) for block in blocks]
        return [job for job in jobs if job.get("WorkDir") == str(folder)]

    def _daemon(self, *command: str) -> None:
        log = (self.folder / f"{command[0]}.out").open("wb")
        with log:
            self.processes.append(
                subprocess.Popen(
                    [shutil.which(command[0], path=search_path()) or command[0], *command[1:]], cwd=self.folder, stdout=log,
                    stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, env=os.environ | self.environment, start_new_session=True,
                )
            )

    def _wait(self, ready: object, what: str) -> None:
        until = time.monotonic() + 60
        while not ready():  # type: ignore[operator]
            dead = [process.args for process in self.processes if process.poll() is not None]
            if dead or time.monotonic() > until:
                logs = "\n".join(f"{path.name}:\n{path.read_text(errors='replace')[-1500:]}" for path in self.folder.glob("*.out"))
                raise AssertionError(f"{what}: not up (ended: {dead})\n{logs}")
            time.sleep(0.3)

    def _write_configuration(self) -> None:
        key = self.folder / "munge.key"
        key.touch(mode=0o600)
        key.write_bytes(os.urandom(128))
        (self.folder / "gpu0").touch()
        for name in ("state", "spool"):
            (self.folder / name).mkdir()
        # The plugin drops SLURM_CONF before it calls srun inside a job; a cluster has its configuration in /etc.
        srun = self.folder / "bin/srun"
        srun.parent.mkdir()
        srun.write_text(f'#!/bin/sh\nSLURM_CONF={self.folder}/slurm.conf exec {shutil.which("srun", path=search_path())} "$@"\n')
        srun.chmod(0o755)
        host = socket.gethostname().split(".")[0]
        controller, node = free_ports(2)
        (self.folder / "gres.conf").write_text(f"NodeName={host} Name=gpu File={self.folder}/gpu0\n")
        (self.folder / "slurm.conf").write_text(
            f"""ClusterName=lab
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmdPort={node}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={self.folder}/munge.sock
StateSaveLocation={self.folder}/state
SlurmdSpoolDir={self.folder}/spool
SlurmctldPidFile={self.folder}/slurmctld.pid
SlurmdPidFile={self.folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SlurmdParameters=config_overrides
ReturnToService=2
SchedulerParameters=sched_interval=2,bf_interval=2
MinJobAge=3600
KillWait=2
GresTypes=gpu
NodeName={host} NodeAddr=127.0.0.1 CPUs={CPUS} Boards=1 SocketsPerBoard=1 CoresPerSocket={CPUS} ThreadsPerCore=1 \
RealMemory={MEMORY_MB} Gres=gpu:1 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES State=UP
"""
        )
