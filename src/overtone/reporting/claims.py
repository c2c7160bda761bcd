"""Verdicts: every claim measured, tested, and told apart from what the paper's own numbers say.

    reproduced          the rule holds in this study
    contradicted        the rule fails in this study
    inconclusive        the intervals leave both open
    not measured here   this study has no such measurement, or is too small to decide the claim
    self-inconsistent   the paper's own numbers contradict the claim; what this study measured stands beside it
    no verdict          the study decides nothing (`verdicts: false`)

A verdict is about the study's scale: `scope` says whether it decides the published claim or its direction at this scale.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from overtone.provenance import commit
from overtone.reporting import formats
from overtone.reporting.claims_file import Check, Claim, Question, load_claims
from overtone.reporting.collect import Results
from overtone.reporting.decide import FAILS, HOLDS, OPEN, Decision, Tested, borders, decide, rule_text
from overtone.reporting.quantities import Evidence, Measurement, NotMeasuredError
from overtone.reporting.reported import load_reported
from overtone.reporting.statistics import Estimate, power_note
from overtone.study import Study
from overtone.study.schema import check

REPRODUCED, CONTRADICTED, INCONCLUSIVE = "reproduced", "contradicted", "inconclusive"
NOT_MEASURED, SELF_INCONSISTENT, NO_VERDICT = "not measured here", "self-inconsistent", "no verdict"
VERDICTS = (REPRODUCED, CONTRADICTED, INCONCLUSIVE, NOT_MEASURED, SELF_INCONSISTENT, NO_VERDICT)
_TOO_SMALL = "This study is too small to decide the published claim."
_MEASURED = {HOLDS: REPRODUCED, FAILS: CONTRADICTED, OPEN: INCONCLUSIVE}


def decide_claims(results: Results, claims: Sequence[Claim] | None = None, reported: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The content of claims.json for a study that has been run."""
    study = results.study
    evidence = Evidence(load_reported() if reported is None else reported, results)
    chosen = load_claims(study.data["claims"]) if claims is None else claims
    content = {
        "schema": 1, "study": study.name, "verdicts": study.verdicts, "commit": commit(),
        "claims": [judge(claim, evidence, study) for claim in chosen],
    }
    checked: dict[str, Any] = check("verdicts", content, "claims.json")
    return checked


def judge(claim: Claim, evidence: Evidence, study: Study) -> dict[str, Any]:
    """One entry of claims.json."""
    entry, strength = claim.entry, claim.strength(study.name)
    checks = [run_check(item, evidence) for item in claim.checks]
    inconsistent = any(not item["holds"] for item in checks)
    # A study that decides nothing shows every number it has: that is what it is for.
    measured = _measure(claim.question, evidence) if strength or not study.verdicts else _absent(claim.question, _TOO_SMALL)
    found = measured.pop("state")
    own = _MEASURED.get(found, NOT_MEASURED)
    verdict = NO_VERDICT if not study.verdicts else SELF_INCONSISTENT if inconsistent else own
    return {
        "id": claim.id, "paper": claim.paper, "title": entry["title"], "statement": entry["statement"],
        "published": entry["published"]["text"], "reported": list(entry["published"]["reported"]), "source": entry["source"],
        "quantity": claim.question.text, "quantity_means": claim.question.quantity.summary, "note": entry.get("note"),
        "borders": borders(claim.question.rule), "verdict": verdict,
        "measured_verdict": own if study.verdicts else NO_VERDICT, "scope": strength,
        "wording": wording(verdict, own, strength), "checks": checks, "exhibits": list(entry["exhibits"]), "needs": entry["needs"],
        **measured,
    }


def wording(verdict: str, own: str, strength: str | None) -> str:
    """The verdict with what it is about: a direction is decided at this scale, not the published numbers."""
    if verdict in (NO_VERDICT, NOT_MEASURED):
        return verdict
    measured = own if own == NOT_MEASURED or strength == "claim" else f"{own} at this scale"
    return f"{verdict}; measurement: {measured}" if verdict == SELF_INCONSISTENT else measured


def run_check(item: Check, evidence: Evidence) -> dict[str, Any]:
    """A question to the paper's own numbers: whether its rule holds, with the numbers."""
    measurement = item.question.quantity.measure(evidence, item.question.parameters)
    decision = decide(item.question.rule, measurement)
    return {
        "title": item.title, "note": item.note or None, "holds": decision.state == HOLDS, "quantity": item.question.text,
        "quantity_means": item.question.quantity.summary, "rule": rule_text(item.question.rule, measurement.unit), "unit": measurement.unit,
        "points": [_point(tested) for tested in decision.tested], "notes": [*measurement.notes, *decision.notes],
    }


def _measure(question: Question, evidence: Evidence) -> dict[str, Any]:
    try:
        measurement = question.quantity.measure(evidence, question.parameters)
        decision = decide(question.rule, measurement)
    except NotMeasuredError as missing:
        return _absent(question, str(missing))
    estimate = decision.decisive.estimate
    unit = _unit(question.rule, measurement, decision)
    return {
        "state": decision.state, "missing": None, "rule": rule_text(question.rule, unit),
        "value": estimate.value, "interval": None if estimate.low is None else [estimate.low, estimate.high], "unit": unit,
        "at": decision.decisive.point.label, "p": decision.decisive.p, "effect": estimate.effect, "power": power(decision),
        "seeds": _least(decision.tested, "seeds"), "windows": _least(decision.tested, "windows"),
        "points": [_point(tested) for tested in _shown(question.rule, measurement, decision)], "points_unit": measurement.unit,
        "trend": _point(decision.decisive) if question.rule["kind"] == "growth" else None, "notes": [*measurement.notes, *decision.notes],
        "sources": sorted({source for tested in decision.tested for source in tested.point.sources}),
    }


def _absent(question: Question, reason: str) -> dict[str, Any]:
    unknown = ("state", "value", "interval", "at", "p", "effect", "power", "seeds", "windows", "trend")
    return dict.fromkeys(unknown) | {"missing": reason, "rule": rule_text(question.rule), "unit": "", "points_unit": "", "points": [],
                                     "notes": [], "sources": []}


def _shown(rule: Mapping[str, Any], measurement: Measurement, decision: Decision) -> Sequence[Tested]:
    if rule["kind"] != "growth":
        return decision.tested
    return [Tested(point, point.at(0.0), None, True) for point in measurement.points]  # the rule tests the trend, not them


def _unit(rule: Mapping[str, Any], measurement: Measurement, decision: Decision) -> str:
    if rule["kind"] != "growth":
        return measurement.unit
    return decision.decisive.point.label if measurement.unit in ("", "×") else f"{measurement.unit} {decision.decisive.point.label}"


def _least(tested: Sequence[Tested], name: str) -> int | None:
    return min((getattr(item.estimate, name) for item in tested), default=0) or None


def _point(tested: Tested) -> dict[str, Any]:
    estimate = tested.estimate
    return {
        "label": tested.point.label, "x": tested.point.x, "value": estimate.value, "low": estimate.low, "high": estimate.high,
        "p": tested.p, "meets": tested.meets, "sure": tested.sure, "seeds": estimate.seeds or None, "windows": estimate.windows or None,
        "effect": estimate.effect, "sources": list(tested.point.sources),
    }


def power(decision: Decision) -> str:
    """What more seeds would bring, where the verdict is open; else with how many it was decided."""
    if decision.notes:
        return "Not a matter of seeds: more lengths, sizes or tasks would tell a trend from a step."
    item = decision.decisive
    estimate: Estimate = item.estimate
    if not item.point.seeds_matter:
        if decision.state != OPEN:
            return "Not a matter of seeds."
        return "Not a matter of seeds: more repeats, lengths or text would narrow it." if estimate.low is not None else \
            "No interval: it takes at least three repeats, or four lengths for an exponent."
    if decision.state == OPEN:
        return power_note(estimate)
    return f"Decided with {estimate.seeds} seed{'' if estimate.seeds == 1 else 's'} at its point of most doubt."


def claims_markdown(content: Mapping[str, Any]) -> str:
    """claims.md: a table of verdicts, then what the papers' own numbers say."""
    rows = [
        [claim["id"], claim["title"], claim["published"], measured_text(claim), claim["wording"]] for claim in content["claims"]
    ]
    table = formats.markdown_table(["Claim", "What is claimed", "Published", "Measured [95% interval]", "Verdict"], rows)
    checks = [[claim["id"], item["title"], points_text(item), "holds" if item["holds"] else "fails"]
              for claim in content["claims"] for item in claim["checks"]]
    own = formats.markdown_table(["Claim", "What the paper's own numbers should show", "They show", "Outcome"], checks)
    note = "" if content["verdicts"] else "\nThis study decides nothing: it is too small, and says so in its file.\n"
    return f"# Claims in study {formats.escape_markdown(content['study'])}\n{note}\n{table}\n\n## The papers' own numbers\n\n{own}\n"


def measured_text(claim: Mapping[str, Any]) -> str:
    """`value [low, high] unit, at LABEL`, or why there is none."""
    if claim["value"] is None:
        return str(claim["missing"])
    low, high = claim["interval"] or (None, None)
    return f"{value_text(claim['value'], low, high)} {claim['unit']}".strip() + ("" if claim["trend"] else f" ({claim['at']})")


def value_text(value: float, low: float | None, high: float | None) -> str:
    """Three significant digits; with an interval as many decimals for all three numbers."""
    if low is None or high is None or low == high:
        return f"{value:.0f}" if value == int(value) and abs(value) < 1e6 else formats.significant(value)
    size = max(abs(value), abs(low), abs(high))
    digits = 0 if size >= 1000 else 1 if size >= 100 else 2 if size >= 1 else 3 if size >= 0.1 else 4
    return formats.interval(value, low, high, digits)


def points_text(item: Mapping[str, Any]) -> str:
    """All points of a check."""
    told = "; ".join(f"{point['label']}: {value_text(point['value'], None, None)}" for point in item["points"])
    return f"{told} {item['unit']}".rstrip()
