"""The page: reports/STUDY/index.html, one file that needs no network and nothing beside it.

Text reaches the template as text and is escaped by Jinja2. A content security policy names the digests of the page's own script and
style and allows nothing else, so that even markup that slipped through could neither run nor load anything.
"""

from __future__ import annotations

import base64
import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from overtone.audits.report import verdict
from overtone.audits.settings import AUDITS
from overtone.errors import UserError
from overtone.files import canonical_json, read_json
from overtone.reporting import formats
from overtone.reporting.claims import SELF_INCONSISTENT, VERDICTS, measured_text, points_text, value_text
from overtone.reporting.claims_file import load_paper_titles
from overtone.reporting.page_exhibits import Shown, show_exhibits
from overtone.reporting.page_plot import IntervalPlot, interval_plot
from overtone.reporting.page_run import cell_rows, describe_run
from overtone.study import Study, load_study, measured_audits
from overtone.study.schema import check

TEMPLATES = Path(__file__).parent / "page"
_PASSED_SHOWN = 8  # rows of an audit that passed; the table of the exhibit has more, its CSV all


def render(study_file: Path, results: Path, reports: Path, out: Path) -> str:
    """The page's HTML."""
    import jinja2

    study = load_study(str(study_file))
    claims = check("verdicts", read_json(reports / "claims.json"), str(reports / "claims.json"))
    if claims["study"] != study.name:
        raise UserError(f"{reports / 'claims.json'}: of study {claims['study']!r}, expected {study.name!r}. Run overtone claims again.")
    exhibits = show_exhibits(reports, out)
    cells = cell_rows(study, results, out)
    style, script = ((TEMPLATES / name).read_text(encoding="utf-8") for name in ("style.css", "script.js"))
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES), autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True,
    )
    environment.filters |= {"value": value_text, "p": formats.p_value, "significant": formats.significant, "slug": _slug}
    return environment.get_template("page.html.jinja").render(
        study=study, description=study.data["description"], claims=[_claim(item, exhibits) for item in claims["claims"]],
        decides=claims["verdicts"], decided_at=claims["commit"], titles=load_paper_titles(study.data["claims"]), verdicts=VERDICTS,
        counts={verdict: sum(item["verdict"] == verdict for item in claims["claims"]) for verdict in VERDICTS},
        measured=Counter(item["measured_verdict"] for item in claims["claims"] if item["verdict"] == SELF_INCONSISTENT), exhibits=exhibits,
        audits=_audits(study, results), cells=cells, run=describe_run(study, results / "logs", list(cells.values())),
        config=canonical_json(study.data), style=style, script=script, style_digest=_digest(style), script_digest=_digest(script),
    )


@dataclass(frozen=True)
class ShownClaim:
    """A claim with what the page adds to its entry in claims.json."""

    entry: Mapping[str, Any]
    aside: str  # what the one word of the verdict leaves out
    measured: str
    exhibits: Sequence[Shown]
    plot: IntervalPlot | None
    checks: Sequence[tuple[Mapping[str, Any], str]]


def _claim(entry: Mapping[str, Any], exhibits: Sequence[Shown]) -> ShownClaim:
    by_name = {item.name: item for item in exhibits}
    shown = [by_name[name] for name in entry["exhibits"] if name in by_name]
    checks = [(item, points_text(item)) for item in entry["checks"]]
    aside = entry["wording"].removeprefix(entry["verdict"]).removeprefix(";").strip()
    return ShownClaim(entry, aside, measured_text(entry), shown, interval_plot(entry), checks)


@dataclass(frozen=True)
class ShownAudit:
    """One audit: violations and controls in full, the first of what passed."""

    name: str
    violations: int
    total: int
    rows: Sequence[tuple[Mapping[str, Any], str]]
    left_out: int
    notes: Sequence[str]


def _audits(study: Study, results: Path) -> list[ShownAudit]:
    shown = []
    for name in AUDITS:
        path = results / "audits" / f"{name}.json"
        if name not in measured_audits(study) or not path.is_file():
            continue
        content = read_json(path)
        judged = [(row, verdict(row["passed"], row["control"])) for row in content["rows"]]
        first = [item for item in judged if item[1] != "pass"]
        passed = [item for item in judged if item[1] == "pass"]
        shown.append(ShownAudit(name, content["violations"], len(judged), first + passed[:_PASSED_SHOWN],
                                max(0, len(passed) - _PASSED_SHOWN), content.get("notes") or []))
    return shown


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _slug(verdict: str) -> str:
    return verdict.replace(" ", "-")
