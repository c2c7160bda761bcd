"""A report around synthetic results: tables and verdicts for real, drawings by hand. For tests of page and crate."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from results_factory import study_data, write_results

from overtone.files import write_json, write_text
from overtone.reporting.claims import claims_markdown, decide_claims
from overtone.reporting.collect import Results
from overtone.reporting.tables.build import build_table
from overtone.reporting.tables.table import write_table
from overtone.study import EXHIBITS

DRAWING = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 320 120" width="320" height="120">'
    '<defs><clipPath id="a"><rect width="9" height="9"/></clipPath></defs>'
    '<script>parent.document.title = "taken over"</script><rect width="320" height="120" fill="#eee"/>'
    '<text x="20" y="60">{name}</text></svg>'
)


def small_study(**changes: Any) -> dict[str, Any]:
    """The factory's study with the crossover and the ResonatorLM quality experiment alone: 45 cells."""
    data = study_data()
    kept = {name: data["experiments"][name] for name in ("crossover", "quality")}
    return data | {"experiments": kept, "transplants": {}, "lr_sweep": {}, "protocols": {
        name: rules | {"lr": 0.004} for name, rules in data["protocols"].items()}} | changes


def write_report(folder: Path, data: dict[str, Any] | None = None, **options: Any) -> tuple[Path, Path]:
    """(results/STUDY, reports/STUDY) under the folder: every table, claims.json and claims.md, a drawing a figure."""
    root = write_results(folder / "results", data or small_study(), **options)
    reports = folder / "reports" / root.name
    results = Results.open(root / "study.json", root)
    content = decide_claims(results)
    write_json(reports / "claims.json", content)
    write_text(reports / "claims.md", claims_markdown(content))
    for name, item in EXHIBITS.items():
        results.sources.clear()
        write_table(name, build_table(name, results, reports / "claims.json"), results, reports / "tables")
        if item.figure:
            write_text(reports / "figures" / f"{name}.svg", DRAWING.format(name=name))
            write_text(reports / "figures" / f"{name}.pdf", "%PDF-1.4 drawn by hand")
    return root, reports
