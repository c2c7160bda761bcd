"""Run one phase of one variant: base or phase before -> blocks learn -> model folder and phaseN.json."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from overtone.errors import UserError
from overtone.files import atomic_folder, digest_json, read_json, write_json
from overtone.provenance import environment, sources_digest
from overtone.study.sources import STAGES
from overtone.training.devices import torch_device
from overtone.training.interrupt import StopFlag
from overtone.training.locks import cell_lock
from overtone.training.plan import Plan
from overtone.training.stream import Region
from overtone.transplant.base import load_base
from overtone.transplant.block import BlockOptions
from overtone.transplant.config import Phase, TransplantConfig, Variant
from overtone.transplant.memory import base_shape, check_fits
from overtone.transplant.model import HarmonicLlamaForCausalLM, Student, load_student, transplant
from overtone.transplant.phase import PhaseTrainer
from overtone.transplant.scoring import autocast_of, bpt, parameter_count, whole_targets
from overtone.transplant.text import base_folder, held_out_split, open_tokens

_EVALUATION_TOKENS = 4096  # in one forward pass of the curve's held-out text


def model_folder(config: TransplantConfig, results: Path, variant: Variant, number: int) -> Path:
    """Where a phase leaves its model: VARIANT/model for a variant's last phase, VARIANT/phase1/model for one before it."""
    folder = results / "transplants" / config.name / variant.name
    return folder / "model" if number == variant.phases[-1].number else folder / f"phase{number}" / "model"


def train_phase(config: TransplantConfig, results: Path, variant: Variant, number: int, out: Path, stop: StopFlag,
                log: Callable[[str], None]) -> dict[str, Any]:
    """Train, save the model, write phaseN.json to `out`. Goes on from its own checkpoint; raises Interrupted after writing one."""
    phase = config.phase(variant.name, number)
    device = torch_device(config.device, log)
    tokens = open_tokens(config, results, config.corpus, "train")
    held_out = open_tokens(config, results, config.corpus, held_out_split(results, config.corpus, "validation"))
    region, validation = Region.of(tokens), Region.of(held_out)
    plan = Plan(tokens.digest, region.size, config.length, phase.budget, phase.tokens_per_step, config.seed)
    if device.type == "cuda":
        _check_card(config, results, variant, phase, device)
    started_from, student, teacher = _models(config, results, variant, phase, device)
    fingerprint = digest_json({
        "config": {key: config.data[key] for key in ("base", "corpus", "length", "seed", "dtype")}, "block": dict(variant.block),
        "phase": phase.__dict__, "from": started_from, "tokens": tokens.digest, "sources": sources_digest(*STAGES["transplant"]),
    })
    folder = results / "state" / f"transplant-{fingerprint[:16]}"
    dtype = config.data["dtype"]
    bos = read_json(results / "transplants" / config.name / "base.json")["bos"]
    options = {"batch_tokens": _EVALUATION_TOKENS, "autocast": autocast_of(dtype, device), "bos": bos}
    targets = whole_targets(validation, config.length, config.data["validation_windows"])
    with cell_lock(folder):
        trainer = PhaseTrainer(
            student, teacher, phase, region, plan, folder=folder, fingerprint=fingerprint, stop=stop, dtype=dtype,
            checkpointing=config.data["gradient_checkpointing"], every_s=config.data["checkpoint_every_s"], bos=bos, log=log,
        )
        progress = trainer.train(lambda: bpt(student, validation, targets, config.length, **options))
        _save(student, model_folder(config, results, variant, number), base_folder(config, results))
    total = parameter_count(student)
    new = sum(weight.numel() for block in student.blocks for weight in block.parameters())
    trainable = sum(weight.numel() for weight in student.parameters() if weight.requires_grad)
    report = {
        "transplant": config.name, "variant": variant.name, "phase": number, "objective": phase.objective, "train": phase.train,
        "control": variant.control, "block": BlockOptions.from_dict(variant.block).to_dict(), "settings": dict(phase.__dict__),
        "started_from": started_from, "plan": plan.digest, "length": config.length, "tokens": progress.tokens, "steps": progress.step,
        "seconds": progress.seconds, "tokens_per_s": progress.tokens / progress.seconds if progress.seconds else 0.0,
        "peak_bytes": progress.peak_bytes, "parameters": {"new": new, "frozen": total - trainable, "trainable": trainable, "total": total},
        "curve": progress.curve, "bpt": progress.curve[-1]["bpt"], "validation_targets": targets,
        "model": str(model_folder(config, results, variant, number).relative_to(results)),
        "time_constants": _time_constants(student),
        "environment": environment(str(device), torch.get_num_threads()),
    }
    write_json(out, report)
    shutil.rmtree(folder, ignore_errors=True)
    return report


def _time_constants(student: Student) -> list[list[float]]:
    """Least, median and greatest time constant of each level of the first block; attention has none."""
    if not isinstance(student, HarmonicLlamaForCausalLM):
        return []
    return [[float(level.min()), float(level.median()), float(level.max())] for level in student.blocks[0].time_constants()]


def _check_card(config: TransplantConfig, results: Path, variant: Variant, phase: Phase, device: torch.device) -> None:
    block = BlockOptions.from_dict(variant.block)
    check_fits(base_shape(base_folder(config, results)), phase, config.length, block=block.to_dict(),
               recompute=config.data["gradient_checkpointing"], card=torch.cuda.get_device_properties(device).total_memory)


def _models(config: TransplantConfig, results: Path, variant: Variant, phase: Phase,
            device: torch.device) -> tuple[str, Any, Any]:
    """(digest of what it starts from, student, teacher or None where the objective asks for none)."""
    teacher: Any = load_base(config, results)
    before = _before(config, results, variant, phase)
    if before is None:
        student: Any = transplant(teacher, BlockOptions.from_dict(variant.block), config.seed)
        origin = read_json(results / "transplants" / config.name / "base.json")["sha256"]
    else:
        folder, origin = before
        options = BlockOptions.from_dict(variant.block)
        student = load_student(folder, options.kind)
        if isinstance(student, HarmonicLlamaForCausalLM) and student.config.block != options.to_dict():
            raise UserError(f"{folder}: its blocks are not those of variant {variant.name}. Run its phase 1 again.")
    if phase.objective == "cross_entropy":
        return origin, student.to(device), None
    return origin, student.to(device), teacher.to(device, teacher_dtype(config.data["dtype"], device))


def teacher_dtype(dtype: str, device: torch.device) -> torch.dtype:
    """bfloat16 where the student's forward pass runs in it on a GPU: half the memory of weights that nobody trains. Else float32."""
    return torch.bfloat16 if device.type == "cuda" and dtype != "float32" else torch.float32


def _before(config: TransplantConfig, results: Path, variant: Variant, phase: Phase) -> tuple[Path, str] | None:
    """The model folder a phase continues and the digest of its report; None: the base itself."""
    if phase.number == 2:
        source = variant
    elif variant.after is not None:
        source = config.variant(variant.after)
    else:
        return None
    report = read_json(results / "transplants" / config.name / source.name / "phase1.json")
    folder = results / report["model"]
    if not (folder / "config.json").is_file():
        raise UserError(f"{folder}: no model. Run phase 1 of variant {source.name} again.")
    return folder, digest_json([report["plan"], report["settings"], report["started_from"], report["block"]])


def _save(student: Student, folder: Path, base: Path) -> None:
    """The model as `save_pretrained` writes it, with the base's tokenizer; whole or not at all."""
    with atomic_folder(folder) as part:
        student.save_pretrained(part)
        for file in sorted(base.iterdir()):
            if "token" in file.name or file.name in ("vocab.json", "merges.txt", "chat_template.jinja"):
                shutil.copyfile(file, part / file.name)
