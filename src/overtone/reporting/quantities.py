"""Measured quantities: what a claim may name, and nothing else.

A quantity is a Python function registered under its own name. It turns evidence (the study's results, or the papers' published
numbers) into a `Measurement`: one `Point` a length, size or task, and, where growth is claimed, a trend. A point carries no fixed
test: `point.at(null)` tests against any value, so that the rule of the claim chooses it.

A claim file names a quantity and its parameters; the name and the parameters are checked against the function before anything is
computed. Strings of a claim file are never evaluated.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from overtone.errors import UserError, unknown_name
from overtone.reporting.collect import Results
from overtone.reporting.statistics import Estimate

if TYPE_CHECKING:
    import pandas as pd

Test = Callable[[float], Estimate]


class NotMeasuredError(Exception):
    """The study has no such measurement; the message says what is missing."""


@dataclass(frozen=True)
class Evidence:
    """What quantities read: the results of a study (None: published numbers only) and `papers/reported.yaml`."""

    reported: Mapping[str, Any]
    results: Results | None = None
    _frames: dict[tuple[str, ...], pd.DataFrame] = field(default_factory=dict, repr=False, compare=False)

    def cells(self, experiments: Sequence[str]) -> pd.DataFrame:
        """The cells of those experiments that the study has, read once; NotMeasuredError where it has none of them."""
        known = self.measured.study.experiments
        if not any(name in known for name in experiments):
            raise NotMeasuredError(f"The study has no experiment {' or '.join(experiments)}.")
        key = tuple(sorted(experiments))
        if key not in self._frames:
            self._frames[key] = self.measured.cells(*key)
        return self._frames[key]

    @property
    def measured(self) -> Results:
        """The results, for a quantity that needs them."""
        if self.results is None:
            raise NotMeasuredError("No results were given.")
        return self.results


@dataclass(frozen=True)
class Point:
    """One number with its test. `x`: where it stands on the axis along which growth is measured.

    `seeds_matter`: the number describes trained models, so a single seed cannot decide it; False for a property of one given
    model, a time, a size, or a published number.
    `sources`: files under results/STUDY (or keys of the reported numbers) that it was computed from.
    `without`: of a trend, what it is with each place of the axis left out in turn; empty where fewer than three are there.
    """

    label: str
    at: Test
    x: float | None = None
    sources: tuple[str, ...] = ()
    seeds_matter: bool = True
    without: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True)
class Measurement:
    """A quantity's value: points, perhaps a trend over them, and remarks.

    `lost`: settings where the model that a claim speaks for failed while what it is compared with ended ok. With one, a rule about
    every point cannot hold.
    """

    unit: str
    points: tuple[Point, ...]
    trend: Point | None = None
    notes: tuple[str, ...] = field(default=())
    lost: tuple[str, ...] = field(default=())

    def __post_init__(self) -> None:
        if not self.points:
            told = "".join(f" {note}" for note in self.notes)
            raise NotMeasuredError(f"This study has no length, context or task at which it can be measured.{told}")


@dataclass(frozen=True)
class Quantity:
    """A registered function: `function(evidence, **parameters) -> Measurement`."""

    name: str
    function: Callable[..., Measurement]
    published: bool

    @property
    def summary(self) -> str:
        """First line of its docstring."""
        return (inspect.getdoc(self.function) or "").split("\n", 1)[0]

    def measure(self, evidence: Evidence, parameters: Mapping[str, Any]) -> Measurement:
        """Compute it; NotMeasuredError where the evidence lacks something."""
        return self.function(evidence, **parameters)


QUANTITIES: dict[str, Quantity] = {}


def quantity(function: Callable[..., Measurement]) -> Callable[..., Measurement]:
    """Register a quantity of the study's results under the function's name."""
    return _register(function, published=False)


def published(function: Callable[..., Measurement]) -> Callable[..., Measurement]:
    """Register a quantity of the papers' own numbers under the function's name."""
    return _register(function, published=True)


def _register(function: Callable[..., Measurement], *, published: bool) -> Callable[..., Measurement]:
    QUANTITIES[function.__name__] = Quantity(function.__name__, function, published)
    return function


# By the annotation of a quantity's parameter.
_KINDS: dict[str, tuple[Any, str]] = {"str": (str, "a word"), "int": (int, "a whole number"), "float": (int | float, "a number"),
                                      "list": (list, "a list"), "Sequence": (list, "a list")}


def find_quantity(name: str, parameters: Mapping[str, Any], where: str) -> Quantity:
    """Look a quantity up and check its parameters; UserError with the nearest valid name for either."""
    if name not in QUANTITIES:
        raise unknown_name(f"{where}: quantity", name, QUANTITIES)
    accepted = dict(list(inspect.signature(QUANTITIES[name].function).parameters.items())[1:])
    for given, value in parameters.items():
        if given not in accepted:
            raise unknown_name(f"{where}: parameter of {name}", given, accepted)
        kind = str(accepted[given].annotation).partition("[")[0].partition(" |")[0]
        if kind in _KINDS and not isinstance(value, _KINDS[kind][0]):
            raise UserError(f"{where}: parameter {given} of {name}: found {value!r}, expected {_KINDS[kind][1]}.")
    for needed, parameter in accepted.items():
        if parameter.default is parameter.empty and needed not in parameters:
            raise UserError(f"{where}: quantity {name} needs the parameter {needed!r}. Add it under 'with'.")
    return QUANTITIES[name]


def reported_value(reported: Mapping[str, Any], path: str) -> Any:
    """The published number or table at a dotted path of `papers/reported.yaml`; UserError with the nearest key."""
    value: Any = reported
    for key in path.split("."):
        known = {str(name): name for name in value} if isinstance(value, Mapping) else {}
        if key not in known:
            raise unknown_name(f"papers/reported.yaml: {path}: key", key, known)
        value = value[known[key]]
    return value


def exact(value: float) -> Test:
    """The test of a number without uncertainty (a count, a published value): it differs from every other number."""
    value = float(value)
    if not math.isfinite(value):
        raise NotMeasuredError(f"Not a finite number: {value}.")

    def at(null: float) -> Estimate:
        return Estimate(value, value, value, 0.95, null, 1.0 if value == null else 0.0, 0, 0, None, None, None)

    return at


def shifted(test: Test, constant: float) -> Test:
    """The test of a value plus a constant."""
    def at(null: float) -> Estimate:
        found = test(null - constant)
        low, high = (None if edge is None else edge + constant for edge in (found.low, found.high))
        return replace(found, value=found.value + constant, low=low, high=high, null=null)

    return at


def lognormal(value: float, log_sd: float | None, freedom: int) -> Test:
    """The test of a positive number (a ratio of times) whose logarithm has standard deviation `log_sd`, known from `freedom` + 1 repeats.

    `log_sd` is the spread of single repeats, not the error of their median: repeats of one process share the machine's load, so
    they do not average out. None: unknown, no interval.
    """
    from scipy.special import stdtr, stdtrit

    reach = float(stdtrit(freedom, 0.975)) * log_sd if log_sd is not None else 0.0

    def at(null: float) -> Estimate:
        if log_sd is None:
            return Estimate(value, None, None, 0.95, null, None, 0, 0, None, None, None)
        if null <= 0 or log_sd == 0:
            p = 1.0 if value == null else 0.0
        else:
            p = float(2 * stdtr(freedom, -abs(math.log(value / null)) / log_sd))
        return Estimate(value, value * math.exp(-reach), value * math.exp(reach), 0.95, null, p, 0, 0, None, None, None)

    return at
