"""What every audit returns: rows with a measure and its threshold, a table, and whether anything is violated."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from overtone.benchmarks.plain_table import aligned
from overtone.provenance import environment


@dataclass(frozen=True)
class Row:
    """One measurement of one subject.

    `passed` says whether the subject met the threshold. A `control` is a subject that is known to be wrong: it must not
    meet it, so a control that passed is a violation of the audit itself.
    """

    subject: str
    mode: str
    measure: float | None  # None: not a finite number; such a row never passes
    threshold: float | None
    passed: bool
    control: bool = False
    detail: str = ""

    @property
    def violated(self) -> bool:
        """An honest subject that failed, or a control that was not flagged."""
        return self.passed if self.control else not self.passed


def at_most(subject: str, mode: str, measure: float, threshold: float, *, control: bool = False, detail: str = "") -> Row:
    """A row that passes where measure <= threshold; a measure that is not finite fails."""
    return _row(subject, mode, measure, threshold, measure <= threshold, control, detail)


def at_least(subject: str, mode: str, measure: float, threshold: float, *, control: bool = False, detail: str = "") -> Row:
    """A row that passes where measure >= threshold; a measure that is not finite fails."""
    return _row(subject, mode, measure, threshold, measure >= threshold, control, detail)


def _row(subject: str, mode: str, measure: float, threshold: float, met: bool, control: bool, detail: str) -> Row:
    if not math.isfinite(measure):
        return Row(subject, mode, None, threshold, False, control, detail or "not a finite number")
    return Row(subject, mode, float(measure), float(threshold), bool(met), control, detail)


@dataclass
class AuditReport:
    """Rows of one audit, with remarks that are no violations (`notes`) and the settings it ran with."""

    audit: str
    rows: list[Row] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    settings: Mapping[str, Any] = field(default_factory=dict)
    device: str = "cpu"

    @property
    def violations(self) -> int:
        """Number of violated rows."""
        return sum(row.violated for row in self.rows)

    def to_dict(self) -> dict[str, Any]:
        """The content of audits/NAME.json."""
        return {
            "audit": self.audit,
            "rows": [asdict(row) for row in self.rows],
            "violations": self.violations,
            "notes": self.notes,
            "settings": dict(self.settings),
            "environment": environment(self.device),
        }

    def table(self) -> str:
        """The rows as text, violated ones marked, and a last line with the verdict."""
        head = ("subject", "mode", "measure", "threshold", "verdict", "detail")
        lines = [head] + [
            (row.subject, row.mode, number(row.measure), number(row.threshold), verdict(row.passed, row.control), row.detail)
            for row in self.rows
        ]
        text = [aligned(lines)]
        text += [f"note: {note}" for note in self.notes]
        total = f"{len(self.rows)} row{'' if len(self.rows) == 1 else 's'}"
        text.append(f"{self.audit}: {total}, {self.violations} violation{'' if self.violations == 1 else 's'}")
        return "\n".join(text)


def verdict(passed: bool, control: bool) -> str:
    """`pass` or `FAIL`; for a control `flagged` or `NOT FLAGGED`."""
    if control:
        return "NOT FLAGGED" if passed else "flagged"
    return "pass" if passed else "FAIL"


def number(value: float | None) -> str:
    """A number for the table: four significant digits, `-` for none."""
    return "-" if value is None else f"{value:.4g}" if abs(value) < 1e6 else f"{value:.3e}"
