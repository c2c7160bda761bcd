"""One training phase: which parameters learn, the steps, the curve, checkpoints to go on from.

The windows are `overtone.training`'s plan: a function of corpus, length and seed, so that all variants read the same tokens in the
same order. The gradient is clipped layer by layer: with one global norm the first layer would leave nothing for the others.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from overtone.errors import UserError
from overtone.training.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from overtone.training.interrupt import StopFlag
from overtone.training.loop import validation_steps
from overtone.training.memory import MemoryMeter
from overtone.training.optimizer import AdamW
from overtone.training.plan import Plan
from overtone.training.protocol import TrainingProtocol
from overtone.training.stream import Region
from overtone.transplant.config import Phase
from overtone.transplant.model import Student
from overtone.transplant.objectives import OBJECTIVES
from overtone.transplant.scoring import autocast_of, with_bos

CURVE_POINTS = 100


@dataclass
class Progress:
    """Where a phase stands; everything but weights and optimizer."""

    step: int = 0
    tokens: int = 0
    seconds: float = 0.0
    peak_bytes: int = 0
    curve: list[dict[str, Any]] = field(default_factory=list)  # step, tokens, objective, loss, bpt (null between validations)
    pending: list[float] = field(default_factory=list)  # losses since the last point


def choose_trainable(model: Student, train: str) -> list[list[torch.nn.Parameter]]:
    """Freeze all but what `train` names; returns the trainable parameters of each layer, then the rest, for clipping.

    blocks_only: the new blocks. blocks: and every norm. all: everything.
    """
    model.requires_grad_(train == "all")
    for block in model.blocks:
        block.requires_grad_(True)
    if train == "blocks":
        for module in model.modules():
            if "Norm" in type(module).__name__:
                module.requires_grad_(True)
    groups = [[weight for weight in layer.parameters() if weight.requires_grad] for layer in model.model.layers]
    layered = {id(weight) for group in groups for weight in group}
    rest = [weight for weight in model.parameters() if weight.requires_grad and id(weight) not in layered]
    return [group for group in (*groups, rest) if group]


def recompute_activations(model: Any) -> None:
    """Recompute each decoder layer in the backward pass (transformers renamed the switch in 5.2x)."""
    options = {"use_reentrant": False}
    if hasattr(model, "activation_checkpointing_enable"):
        model.activation_checkpointing_enable(activation_checkpointing_kwargs=options)
    else:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs=options)


class PhaseTrainer:
    """Trains the blocks of `student` by one phase. `fingerprint` names the run: only its own checkpoints are resumed."""

    def __init__(self, student: Student, teacher: Any, phase: Phase, region: Region, plan: Plan, *, folder: Path,
                 fingerprint: str, stop: StopFlag, dtype: str, checkpointing: bool, every_s: float, bos: int | None = None,
                 log: Callable[[str], None] = lambda line: None) -> None:
        self.student = student
        self.teacher = None if teacher is None else teacher.requires_grad_(False).eval()
        self.bos = bos
        self.phase = phase
        self.region = region
        self.plan = plan
        self.folder = folder
        self.fingerprint = fingerprint
        self.stop = stop
        self.every_s = every_s
        self.log = log
        self.device = next(student.parameters()).device
        self.autocast = autocast_of(dtype, self.device)
        self.groups = choose_trainable(student, phase.train)
        # No weight decay: the weights start from a trained model, and decay would pull them away from it.
        self.protocol = TrainingProtocol(budget=phase.budget, tokens_per_step=phase.tokens_per_step, evaluation_length=plan.length,
                                         lr=phase.lr, warmup=phase.warmup, final_lr=phase.final_lr, weight_decay=0.0)
        self.optimizer = AdamW(student, self.protocol)
        self.aligned = round(plan.steps * phase.align_share) if phase.objective == "distill" else 0
        self.progress = Progress()
        self.meter = MemoryMeter(student, self.device)
        student.train()
        if checkpointing:
            recompute_activations(student)

    def objective(self, step: int) -> str:
        """The objective of a step: distillation begins with alignment."""
        return "align" if step < self.aligned else self.phase.objective

    def train(self, validate: Callable[[], float]) -> Progress:
        """Take every step that is left; `validate` gives held-out bpt. Raises Interrupted, after a checkpoint, when told to stop."""
        self._resume()
        points = validation_steps(self.plan.steps, self.phase.validation_points)
        if not self.progress.curve:
            self.progress.curve.append({"step": 0, "tokens": 0, "objective": None, "loss": None, "bpt": validate()})
        every = -(-self.plan.steps // CURVE_POINTS)
        saved = time.monotonic()
        while self.progress.step < self.plan.steps:
            began = time.perf_counter()
            objective = self.objective(self.progress.step)
            loss = self._step(objective)
            self.progress.seconds += time.perf_counter() - began
            self.progress.pending.append(loss)
            step = self.progress.step
            if step % every == 0 or step in points:
                bpt = validate() if step in points else None
                mean = sum(self.progress.pending) / len(self.progress.pending)
                self.progress.curve.append({"step": step, "tokens": self.progress.tokens, "objective": objective, "loss": mean, "bpt": bpt})
                self.progress.pending = []
                if bpt is not None:
                    self.log(f"step {step} of {self.plan.steps}: {objective} loss {mean:.4f}, held-out bpt {bpt:.4f}")
            if self.stop.signum is not None or time.monotonic() - saved >= self.every_s:
                self._save()
                saved = time.monotonic()
                self.stop.check()
        self.progress.peak_bytes = max(self.progress.peak_bytes, self.meter.peak())
        return self.progress

    def _step(self, objective: str) -> float:
        starts = self.plan.step_starts(self.progress.step)
        micro = self.phase.batch or len(starts)
        total = 0.0
        for first in range(0, len(starts), micro):
            part = starts[first : first + micro]
            ids, targets = self._batch(first, part)
            with self.autocast():
                share = len(part) / len(starts)
                total += share * OBJECTIVES[objective](self.student, self.teacher, ids, targets, share)
        if not math.isfinite(total):
            raise UserError(f"phase {self.phase.number}: the {objective} loss is {total} at step {self.progress.step + 1}. Lower lr "
                            f"({self.phase.lr}) in the study.")
        for group in self.groups:
            torch.nn.utils.clip_grad_norm_(group, self.phase.clip)
        self.optimizer.step(self.protocol.rate_at(self.progress.step, self.plan.steps, self.phase.lr))
        self.optimizer.zero_grad()
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        self.progress.step += 1
        self.progress.tokens += len(starts) * self.plan.length
        return total

    def _batch(self, first: int, starts: Any) -> tuple[Tensor, Tensor]:
        """Inputs and targets (windows, length); a `random_share` of the windows is random tokens, drawn from (seed, step, window)."""
        ids, targets = self.region.windows(starts, self.plan.length)
        if self.phase.random_share:
            noise = [self._noise(first + index) for index in range(len(starts))]
            drawn, picked = torch.stack([tokens for tokens, _ in noise]), torch.stack([random for _, random in noise])
            ids, targets = torch.where(picked, drawn[:, :-1], ids), torch.where(picked, drawn[:, 1:], targets)
        return with_bos(ids, self.bos).to(self.device), targets.to(self.device)

    def _noise(self, window: int) -> tuple[Tensor, Tensor]:
        """Random tokens (length + 1,) for a window of this step, and whether (1,) it is one of the random ones."""
        generator = torch.Generator().manual_seed((self.plan.seed * 1_000_003 + self.progress.step) * 4096 + window)
        picked = torch.rand(1, generator=generator) < self.phase.random_share
        return torch.randint(self.student.config.vocab_size, (self.plan.length + 1,), generator=generator), picked

    def _trainable(self) -> dict[str, Tensor]:
        return {name: weight for name, weight in self.student.named_parameters() if weight.requires_grad}

    def _save(self) -> None:
        self.progress.peak_bytes = max(self.progress.peak_bytes, self.meter.peak())
        tensors = {f"model/{name}": weight for name, weight in self._trainable().items()}
        tensors |= {f"optimizer/{name}": value for name, value in self.optimizer.tensors().items()}
        state = {"fingerprint": self.fingerprint, "progress": asdict(self.progress)}
        save_checkpoint(self.folder, self.progress.step, Checkpoint(tensors, state))

    def _resume(self) -> None:
        found = load_checkpoint(self.folder, lambda state: state["fingerprint"] == self.fingerprint, self.log)
        if found is None:
            return
        with torch.no_grad():
            for name, weight in self._trainable().items():
                weight.copy_(found.tensors[f"model/{name}"])
        prefix = "optimizer/"
        self.optimizer.load({name.removeprefix(prefix): value for name, value in found.tensors.items() if name.startswith(prefix)})
        self.progress = Progress(**found.state["progress"])
        self.log(f"resumed at step {self.progress.step} of {self.plan.steps}")
