"""causality, audits: what every audit measured of every subject.

A control is known to be wrong and must be flagged: a control that passes is a violation of the audit itself.
"""

from __future__ import annotations

import pandas as pd

from overtone.audits.report import verdict
from overtone.reporting import formats
from overtone.reporting.collect import Results
from overtone.reporting.rows import each
from overtone.reporting.tables.table import Table, not_measured
from overtone.study import exhibit

COLUMNS = ["audit", "subject", "mode", "measure", "threshold", "passed", "control", "verdict", "detail"]
_HEADER = ["Audit", "Subject", "Mode", "Measure", "Threshold", "Verdict", "Detail"]
SHOWN = 60  # rows a reader is given; the CSV has all


def build(name: str, results: Results) -> Table:
    """Violations first, then controls, then everything that passed."""
    names = exhibit(name).audits
    found = {audit: results.audit(audit) for audit in names}
    known = {audit: content for audit, content in found.items() if content}
    if not known:
        return not_measured(f"study {results.study.name} has none of the audits {', '.join(names)}; run overtone audit {names[0]}.",
                            COLUMNS)
    data = pd.DataFrame(
        [{key: row.get(key) for key in COLUMNS} | {"audit": audit, "verdict": verdict(row["passed"], row["control"])}
         for audit, content in known.items() for row in content["rows"]], columns=COLUMNS,
    )
    data["rank"] = [{"FAIL": 0, "NOT FLAGGED": 0, "flagged": 1}.get(item, 2) for item in data["verdict"]]
    data = data.sort_values(["rank", "audit"], kind="stable").drop(columns="rank")
    shown = data.head(SHOWN)
    rows = [[row.audit, row.subject, row.mode, formats.significant(row.measure), formats.significant(row.threshold), row.verdict,
             formats.text(row.detail)] for row in each(shown)]
    violations = sum(int(content["violations"]) for content in known.values())
    controls = int(data["control"].astype(bool).sum())
    notes = [f"{audit}: {note}." for audit, content in known.items() for note in content.get("notes", [])]
    if len(data) > len(shown):
        notes.insert(0, f"{len(data) - len(shown)} more rows, all passed, are in the CSV.")
    words = "Causality and entropy floor" if name == "causality" else "Every audit"
    counts = ", ".join(f"{audit} {len(content['rows'])}" for audit, content in known.items())
    return Table(
        data, _HEADER, rows,
        f"{words}: {len(data)} rows ({counts}), {violations} violation{'' if violations == 1 else 's'}; {controls} of the rows are "
        "controls that must be flagged.", notes,
    )
