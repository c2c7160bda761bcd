"""The models a benchmark compares: named as in the study, sized to one reference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from overtone.errors import UserError, unknown_name
from overtone.models import architecture_names, build_model, matched_dimensions
from overtone.study import Study

if TYPE_CHECKING:
    from overtone.models import LanguageModel


@dataclass(frozen=True)
class Candidate:
    """One architecture under its name in the study, with what builds it."""

    name: str
    model: str  # registered name
    hidden: int
    vocab_size: int
    options: dict[str, Any]

    def build(self, seed: int = 0) -> LanguageModel:
        """A new model with random weights."""
        return build_model(self.model, vocab_size=self.vocab_size, hidden=self.hidden, seed=seed, **self.options)


def candidates(
    names: tuple[str, ...], *, hidden: int, vocab_size: int, match: str, size: str = "", study: Study | None = None
) -> list[Candidate]:
    """Each name, sized to the parameter count of `match` (a registered architecture; "" for none) at `hidden`.

    A name is an architecture of the study or, failing that, a registered one. `size` names a size of the study, which then gives
    hidden and options.
    """
    dimensions: dict[str, Any] = {"hidden": hidden}
    if size:
        if study is None or size not in study.sizes:
            raise unknown_name("benchmark size", size, study.sizes if study else ())
        dimensions = dict(study.sizes[size])
    found = []
    for name in names:
        entry = _entry(name, study)
        own = {key: value for key, value in dimensions.items() if key != "per_architecture"}
        own |= (dimensions.get("per_architecture") or {}).get(name, {})
        width = own.pop("hidden")
        options = (entry.get("options") or {}) | own
        if match and match != entry["model"]:
            width, options = matched_dimensions(entry["model"], reference=match, vocab_size=vocab_size, hidden=width, options=options)
        found.append(Candidate(name, entry["model"], width, vocab_size, options))
    if not found:
        raise UserError("benchmark architectures: none given. Name at least one.")
    return found


def candidates_of(settings: Any, study: Study | None) -> list[Candidate]:
    """`candidates` as the settings of a benchmark name them."""
    return candidates(settings.architectures, hidden=settings.hidden, vocab_size=settings.vocab_size, match=settings.match,
                      size=settings.size, study=study)


def _entry(name: str, study: Study | None) -> dict[str, Any]:
    if study is not None and name in study.architectures:
        return dict(study.architectures[name])
    if name not in architecture_names():
        raise unknown_name("benchmark architecture", name, [*architecture_names(), *(study.architectures if study else ())])
    return {"model": name}
