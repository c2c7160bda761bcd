"""The training loop of one cell: steps, outcomes, checkpoints. Everything it does is decided by plan and protocol."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch

from overtone.training.batches import StatefulSteps, StatelessSteps
from overtone.training.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from overtone.training.interrupt import StopFlag
from overtone.training.memory import MemoryMeter, OutOfMemory, as_out_of_memory
from overtone.training.optimizer import AdamW
from overtone.training.parallel import Ranks
from overtone.training.plan import Plan, consume
from overtone.training.protocol import TrainingProtocol
from overtone.training.run import RunState
from overtone.training.stream import Region


class CellFailed(Exception):
    """An outcome that is a result: `oom` or `diverged`, with what metrics.json tells of it."""

    def __init__(self, status: str, failure: dict[str, Any]) -> None:
        super().__init__(failure["message"])
        self.status = status
        self.failure = failure


class Trainer:
    """Trains one model by a plan. `fingerprint` names the run: only its own checkpoints are resumed."""

    def __init__(
        self,
        model: Any,
        plan: Plan,
        protocol: TrainingProtocol,
        rate: float,
        region: Region,
        *,
        folder: Path,
        fingerprint: str,
        stop: StopFlag,
        ranks: Ranks,
        memory: MemoryMeter,
        log: Callable[[str], None],
        on_step: Callable[[RunState, float], None] = lambda run, rate: None,
    ) -> None:
        self.model = model
        self.plan = plan
        self.protocol = protocol
        self.rate = rate
        self.folder = folder
        self.fingerprint = fingerprint
        self.stop = stop
        self.ranks = ranks
        self.log = log
        self.on_step = on_step
        self.device = model.head_weight.device
        self.optimizer = AdamW(model, protocol)
        kind = StatefulSteps if protocol.carry_state else StatelessSteps
        self.batches = kind(model, region, plan.length, self.autocast)
        self.memory = memory
        micro = min(protocol.batch or plan.windows_per_step, plan.windows_per_step)
        self.run = RunState(chain=plan.origin, micro=micro, diagnostics_before=model.diagnostics())
        self.saved_at = time.monotonic()

    def autocast(self) -> Any:
        """bfloat16 autocast on a GPU unless the protocol says float32; a CPU computes in float32 always."""
        wanted = self.device.type == "cuda" and self.protocol.dtype != "float32"
        return torch.autocast(self.device.type, dtype=torch.bfloat16) if wanted else nullcontext()

    def train(self, validate: Callable[[], float]) -> None:
        """Take every step of the plan that is left. `validate` gives bpt for the validation curve.

        Raises CellFailed (oom, diverged) and Interrupted (after a checkpoint).
        """
        self.resume()
        self.model.train()
        points = validation_steps(self.plan.steps, self.protocol.validation_points)
        resumed_at = self.run.step
        while True:
            self.validate_where_due(points, validate)
            if self.run.step > resumed_at:
                self.survive()
            if self.run.step == self.plan.steps:
                break
            started = time.perf_counter()
            self.take_step()
            took = time.perf_counter() - started
            self.run.train_s += took
            if self.run.step > resumed_at + 1:  # the first step of a process warms up
                self.run.timed_s += took
                self.run.timed_tokens += len(self.plan.step_starts(self.run.step - 1)) * self.plan.length
        if self.run.chain != self.plan.digest:
            raise AssertionError("the windows consumed are not those of the plan")

    def validate_where_due(self, points: set[int], validate: Callable[[], float]) -> None:
        """Record the validation curve's point of this step, unless it is there already (a run resumed at it)."""
        curve = self.run.validation_curve
        if self.run.step not in points or (curve and curve[-1]["step"] == self.run.step):
            return
        bpt = validate()
        if not math.isfinite(bpt):
            raise self.diverged("validation loss", bpt)
        curve.append({"step": self.run.step, "tokens": self.run.tokens, "bpt": bpt})

    def take_step(self) -> None:
        """One optimizer step: gradients of the step's windows, clipped, AdamW at the scheduled rate."""
        starts = self.plan.step_starts(self.run.step)
        tokens = len(starts) * self.plan.length
        rate = self.protocol.rate_at(self.run.step, self.plan.steps, self.rate)
        nats = float(self.ranks.sum(self.gradients(starts, tokens)).item())
        if not math.isfinite(nats):
            raise self.diverged("training loss", nats)
        self.ranks.sum_gradients(self.model)
        torch.nn.utils.clip_grad_norm_(list(self.optimizer.parameters.values()), self.protocol.clip)
        try:
            with self.memory.limited():
                self.optimizer.step(rate)
        except Exception as error:
            if (memory := as_out_of_memory(error)) is None:
                raise
            raise self.out_of_memory(memory) from error
        self.optimizer.zero_grad()
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        self.run.chain = consume(self.run.chain, starts)
        self.run.record_step(self.plan.steps, len(starts), tokens, nats, rate, self.model.watched())
        self.on_step(self.run, nats / tokens)

    def gradients(self, starts: np.ndarray, tokens: int) -> torch.Tensor:
        """Gradients of this rank's windows; on out-of-memory again with half as many windows at once, down to one."""
        while True:
            self.optimizer.zero_grad()
            memory: OutOfMemory | None = None
            nats = torch.zeros((), device=self.device)
            try:
                with self.memory.limited():
                    nats = self.batches.backward(self.ranks.share(starts), tokens, self.run.micro)
            except Exception as error:
                if (memory := as_out_of_memory(error)) is None:
                    raise
            if not self.ranks.worst(int(memory is not None), self.device):
                return nats
            self.optimizer.zero_grad()
            if self.device.type == "cuda":
                torch.cuda.empty_cache()
            if self.run.micro == 1 or self.protocol.carry_state:
                raise self.out_of_memory(memory or OutOfMemory("another rank ran out of memory", None))
            self.run.micro = -(-self.run.micro // 2)
            self.log(f"step {self.run.step + 1}: out of memory; going on with {self.run.micro} windows at once")

    def out_of_memory(self, memory: OutOfMemory) -> CellFailed:
        """The outcome `oom` at the step in progress."""
        return CellFailed(
            "oom",
            {
                "step": self.run.step + 1,
                "lr": self.protocol.rate_at(min(self.run.step, self.plan.steps - 1), self.plan.steps, self.rate),
                "message": f"{self.run.micro} x {self.plan.length} tokens at once: {memory}",
                "requested_bytes": memory.requested,
                "peak_bytes": max(self.run.peak_bytes, self.memory.peak()),
            },
        )

    def diverged(self, what: str, value: float) -> CellFailed:
        """The outcome `diverged`: `what` was not finite."""
        step = min(self.run.step, self.plan.steps - 1)
        return CellFailed(
            "diverged",
            {
                "step": step + 1,
                "lr": self.protocol.rate_at(step, self.plan.steps, self.rate),
                "message": f"{what} is {value}",
                "requested_bytes": None,
                "peak_bytes": None,
            },
        )

    def survive(self) -> None:
        """Write a checkpoint where one is due or the process was asked to stop; then stop if it was."""
        signum = self.ranks.worst(self.stop.signum or 0, self.device)
        due = time.monotonic() - self.saved_at >= self.protocol.checkpoint_every_s
        # Rank 0 alone writes, so its clock alone decides.
        if (due or signum) and self.ranks.rank == 0:
            self.save()
        if signum:
            self.stop.signum = signum
            self.stop.check()

    def save(self) -> None:
        """Write a checkpoint of the run as it stands."""
        self.run.peak_bytes = max(self.run.peak_bytes, self.memory.peak())
        tensors = {f"model/{name}": value for name, value in model_tensors(self.model).items()}
        tensors |= {f"optimizer/{name}": value for name, value in self.optimizer.tensors().items()}
        tensors |= {f"carried/{name}": value for name, value in self.batches.tensors().items()}
        tensors["random/cpu"] = torch.get_rng_state()
        if self.device.type == "cuda":
            tensors["random/cuda"] = torch.cuda.get_rng_state(self.device)
        save_checkpoint(
            self.folder,
            self.run.step,
            Checkpoint(tensors, {"fingerprint": self.fingerprint, "run": self.run.to_dict()}),
        )
        self.saved_at = time.monotonic()

    def resume(self) -> None:
        """Go on from the newest whole checkpoint of this run, if there is one."""
        found = load_checkpoint(self.folder, lambda state: state["fingerprint"] == self.fingerprint, self.log)
        if found is None:
            return
        parts: dict[str, dict[str, torch.Tensor]] = {"model": {}, "optimizer": {}, "carried": {}, "random": {}}
        for name, value in found.tensors.items():
            part, _, rest = name.partition("/")
            parts[part][rest] = value
        with torch.no_grad():
            for name, value in model_tensors(self.model).items():
                value.copy_(parts["model"][name])
        self.optimizer.load(parts["optimizer"])
        self.batches.load(parts["carried"])
        torch.set_rng_state(parts["random"]["cpu"])
        if "cuda" in parts["random"]:
            torch.cuda.set_rng_state(parts["random"]["cuda"], self.device)
        self.run = RunState(**found.state["run"])
        self.log(f"resumed at step {self.run.step} of {self.plan.steps}")


def model_tensors(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Parameters and buffers by name, each storage once (tied weights under their first name)."""
    saved = model.state_dict(keep_vars=True)
    tensors: dict[str, torch.Tensor] = {}
    seen: set[int] = set()
    for name, value in saved.items():
        if value.data_ptr() not in seen or value.numel() == 0:
            seen.add(value.data_ptr())
            tensors[name] = value
    return tensors


def validation_steps(steps: int, points: int) -> set[int]:
    """After which steps the validation curve has a point: evenly spaced, the last step included."""
    return {round(steps * k / points) for k in range(1, points + 1)} - {0}
