"""Load a study: YAML -> edits -> schema -> names checked -> `Study`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import yaml

from overtone.errors import UserError, unknown_name
from overtone.files import parse_json
from overtone.study.cells import Experiment, experiment_cells, sweep_trials, transplant_bases
from overtone.study.schema import PROTOCOL, check, schema

ROOT = Path(__file__).resolve().parents[3]
BUILT_IN = ("harmonic", "llama", "mamba", "resonator", "transformer")
_LISTS = ("corpora", "tokenizers", "architectures", "sizes", "lengths", "seeds")


@dataclass(frozen=True)
class Study:
    """A validated study. `data` is the resolved YAML; the other fields are its sections."""

    name: str
    data: Mapping[str, Any]
    protocols: Mapping[str, Any]
    corpora: Mapping[str, Any]
    tokenizers: Mapping[str, Any]
    architectures: Mapping[str, Any]
    sizes: Mapping[str, Any]
    experiments: Mapping[str, Experiment]
    lr_sweep: Mapping[str, Any]
    transplants: Mapping[str, Any]
    benchmarks: Mapping[str, Any]
    audits: Mapping[str, Any]

    @property
    def verdicts(self) -> bool:
        """Whether this study may decide claims."""
        return bool(self.data["verdicts"])


def workflow_root() -> Path:
    """The repository root: where Snakefile, workflow/ and papers/ stand."""
    return ROOT


def study_names(root: Path | None = None) -> list[str]:
    """Names of the studies that ship with the workflow."""
    return sorted(path.stem for path in ((root or ROOT) / "workflow" / "studies").glob("*.yaml"))


def load_study(source: str | Path, edits: Mapping[str, Any] | None = None, root: Path | None = None) -> Study:
    """Load a study by name (workflow/studies/NAME.yaml), by YAML path, or from a resolved study.json.

    `edits` is merged over it key by key (a list or a scalar replaces). Every mistake is a UserError.
    """
    path = Path(source)
    if path.suffix not in (".yaml", ".yml", ".json"):
        path = (root or ROOT) / "workflow" / "studies" / f"{source}.yaml"
        if not path.is_file():
            raise unknown_name("config key 'study'", str(source), study_names(root))
    if not path.is_file():
        raise UserError(f"study file {path}: not found. Give the name of a study ({', '.join(study_names(root))}) or a file.")
    data = _read(path)
    return resolve_study(data, edits, where=path.name)


def _read(path: Path) -> Any:
    """A JSON or YAML file; one that is neither is a UserError."""
    try:
        text = path.read_text(encoding="utf-8")
        # JSON's 1e-05 is a string to YAML 1.1, so each format has its own reader. The copy finds a file that contains itself.
        return _plain(parse_json(text) if path.suffix == ".json" else yaml.load(text, UniqueKeyLoader))
    except (OSError, ValueError, yaml.YAMLError, RecursionError) as error:
        kind = "JSON" if path.suffix == ".json" else "YAML"
        raise UserError(f"{path}: not valid {kind} ({' '.join(str(error).split())}).") from None


class UniqueKeyLoader(yaml.SafeLoader):
    """YAML in which no key stands twice: of two architectures of one name the first would be lost without a word."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """The mapping of a node; a ConstructorError for a key that is a list, a mapping, or given twice."""
        seen = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise yaml.constructor.ConstructorError(None, None, "a key is a word or a number, not a list or a mapping", key.start_mark)
            if key.value in seen:
                raise yaml.constructor.ConstructorError(None, None, f"the key {key.value!r} is given twice, keep one", key.start_mark)
            seen.add(key.value)
        return super().construct_mapping(node, deep)


def resolve_study(data: Any, edits: Mapping[str, Any] | None = None, where: str = "study") -> Study:
    """Merge, fill in defaults, validate and check every name that the study refers to."""
    merged = _merge(_plain(data), _plain(edits or {})) if isinstance(data, dict) else data
    check_finite(merged, where)
    resolved = check("study", merged, where)
    experiments = {
        name: Experiment(name, item["protocol"], *(tuple(item[key]) for key in _LISTS))
        for name, item in sorted(resolved["experiments"].items())
    }
    registry = corpus_registry()
    for name in sorted({corpus for item in experiments.values() for corpus in item.corpora} | set(resolved["corpora"])):
        if name not in registry:
            raise unknown_name(f"{where}: corpus", name, registry)
        resolved["corpora"].setdefault(name, {})
    study = Study(
        name=resolved["study"], data=resolved, protocols=resolved["protocols"], corpora=resolved["corpora"],
        tokenizers=resolved["tokenizers"], architectures=resolved["architectures"], sizes=resolved["sizes"],
        experiments=experiments, lr_sweep=resolved["lr_sweep"], transplants=resolved["transplants"],
        benchmarks=resolved["benchmarks"], audits=resolved["audits"],
    )
    _check_names(study, where)
    return study


@cache
def model_names() -> tuple[str, ...]:
    """Registered architectures: ours and those of installed packages (entry points `overtone.architectures`)."""
    return tuple(sorted({*BUILT_IN, *(entry.name for entry in metadata.entry_points(group="overtone.architectures"))}))


def _check_names(study: Study, where: str) -> None:
    _check_models(study, where)
    for name in study.transplants:
        _check_transplant(study, name, where)
    for name in study.protocols:
        _check_protocol(study, name, where)
    for protocol in study.lr_sweep:
        _known(protocol, study.protocols, f"{where}: lr_sweep: protocol")
        list(sweep_trials(study, protocol))
    for name in study.experiments:
        for cell in experiment_cells(study, name):
            training = cell.config()["training"]
            if training["tokens_per_step"] % cell.length:
                raise UserError(
                    f"{where}: protocols.{cell.protocol}.tokens_per_step: {training['tokens_per_step']} is not a multiple of the length "
                    f"{cell.length} of experiment {name}. Choose a multiple, or set it under per_length.{cell.length}."
                )
    transplant_bases(study)


def _known(name: str, known: Iterable[str], place: str) -> None:
    if name not in known:
        raise unknown_name(place, name, known)


def _check_models(study: Study, where: str) -> None:
    models = model_names()
    for name, item in study.architectures.items():
        _known(item["model"], models, f"{where}: architectures.{name}.model")
        _known(item.get("rate_of", name), study.architectures, f"{where}: architectures.{name}.rate_of")
    for name, item in study.sizes.items():
        for architecture in item["per_architecture"]:
            _known(architecture, study.architectures, f"{where}: sizes.{name}.per_architecture")


def _check_transplant(study: Study, name: str, where: str) -> None:
    place = f"{where}: transplants.{name}"
    item = check("transplant", study.transplants[name], place)
    evaluation = item["evaluation"]
    passages = (evaluation["lambada"] or {}).get("corpus")
    for corpus in (item["corpus"], *evaluation["corpora"], *([passages] if passages else [])):
        _known(corpus, study.corpora, f"{place}: corpus")


def _check_protocol(study: Study, name: str, where: str) -> None:
    rules, place = study.protocols[name], f"{where}: protocols.{name}"
    if (rules["lr"] == "swept") != (name in study.lr_sweep):
        raise UserError(f"{place}.lr: {rules['lr']!r}, but lr_sweep has {sorted(study.lr_sweep) or 'no protocol'}. "
                        f"Write lr: swept and an entry lr_sweep.{name}, or a number and none.")
    for architecture in rules["lr"] if isinstance(rules["lr"], dict) else ():
        _known(architecture, study.architectures, f"{place}.lr")
    for architecture, reference in rules["match"].items():
        _known(architecture, study.architectures, f"{place}.match")
        _known(reference, model_names(), f"{place}.match.{architecture}")
    allowed = set(schema("study", *PROTOCOL)["properties"]) - {"per_length", "match"}
    for length, changes in rules["per_length"].items():
        if not length.isdigit():
            raise UserError(f"{place}.per_length: {length!r} found, a length in tokens expected, such as 32768.")
        for key in changes:
            _known(key, allowed, f"{place}.per_length.{length}: key")
        check("study", {**rules, **changes}, f"{place}.per_length.{length}", PROTOCOL)


@cache
def _corpora(path: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = _read(path)
    return loaded


def corpus_registry(root: Path | None = None) -> dict[str, Any]:
    """workflow/corpora.yaml: where each corpus comes from, with digests and revisions."""
    return _corpora((root or ROOT) / "workflow" / "corpora.yaml")


def _merge(base: dict[str, Any], edits: Mapping[str, Any]) -> dict[str, Any]:
    for key, value in edits.items():
        if isinstance(value, Mapping) and isinstance(base.get(key), dict):
            _merge(base[key], value)
        else:
            base[key] = value
    return base


def check_finite(value: Any, place: str) -> None:
    """A UserError for NaN and infinity: YAML knows them, and a rate or a price of those passes every comparison with a limit."""
    if isinstance(value, float) and not math.isfinite(value):
        raise UserError(f"{place}: {value} found, a finite number expected.")
    for key, item in value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ():
        check_finite(item, f"{place}.{key}" if ": " in place else f"{place}: {key}")


def _plain(value: Any) -> Any:
    """A copy as JSON would give it back: YAML reads the key of `per_length: {512: ...}` as a number."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


def used_tokens(study: Study, transplant: str) -> list[str]:
    """What a transplant's base reads, relative to the results folder: token sidecars of the study for a base trained in it,
    else the split documents, which the base reads with its own tokenizer."""
    item = study.transplants[transplant]
    base = item["base"]
    evaluation = item.get("evaluation", {})
    passages = (evaluation.get("lambada") or {}).get("corpus")
    corpora = dict.fromkeys([item.get("corpus", base.get("corpus")), *evaluation.get("corpora", [])])
    if base["kind"] != "cell":
        return [f"corpora/{corpus}/splits/splits.json" for corpus in dict.fromkeys([*corpora, *([passages] if passages else [])])]
    return [f"tokens/{corpus}/{base['tokenizer']}/{split}.json" for corpus in corpora for split in ("train", "validation", "test")]
