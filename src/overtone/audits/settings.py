"""What a study may set of an audit: the keyword arguments of its function. Imports no torch."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from overtone.audits.baseline import audit_baseline
from overtone.audits.budget import audit_budget
from overtone.audits.causality import audit_causality
from overtone.audits.entropy import audit_entropy
from overtone.audits.timing import audit_timing
from overtone.errors import UserError, unknown_name
from overtone.study import Study

AUDITS: Mapping[str, Callable[..., Any]] = {
    "causality": audit_causality, "entropy": audit_entropy, "budget": audit_budget, "timing": audit_timing, "baseline": audit_baseline,
}
LEAST = {"length": 4, "cuts": 1, "prompt": 1, "windows": 1}  # two neighbouring cuts need four tokens; others: 0


def audit_settings(audit: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """`given` over the audit's defaults; an unknown key, a value of another type or one that is too small is a UserError."""
    parameters = inspect.signature(AUDITS[audit]).parameters
    defaults = {name: item.default for name, item in parameters.items() if item.kind is item.KEYWORD_ONLY}
    for key, value in given.items():
        if key not in defaults:
            raise unknown_name(f"audits.{audit}: key", key, defaults)
        least = LEAST.get(key, 0)
        if isinstance(value, bool) or not isinstance(value, int if isinstance(defaults[key], int) else int | float) or value < least:
            kind = "a whole number" if isinstance(defaults[key], int) else "a number"
            raise UserError(f"audits.{audit}: {key}: found {value!r}, expected {kind} of at least {least}.")
    return defaults | dict(given)


def check_audits(study: Study) -> None:
    """The study's settings of every audit, before anything has run; the first mistake is a UserError."""
    for audit, given in study.audits.items():
        audit_settings(audit, given)
