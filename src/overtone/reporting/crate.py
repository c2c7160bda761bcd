"""The run as a Workflow Run RO-Crate: workflow, study, every cell and every verdict, linked from claim to cell, config, plan, commit.

Profile: Workflow Run Crate 0.5 (https://w3id.org/ro/wfrun/workflow/0.5). The crate is a folder of its own with copies of the small files it
describes; weights and token files are named by digest in the cells' metrics. Times: a cell ended when its metrics were written and took
its measured wall time; the run spans its cells and ends with the page.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from overtone import __version__
from overtone.audits.results import FinishedCell, finished_cells
from overtone.errors import UserError
from overtone.files import atomic_folder, canonical_json, read_json, sha256_file
from overtone.study import Study, load_study
from overtone.study.load import workflow_root

if TYPE_CHECKING:
    from rocrate.rocrate import ROCrate

METADATA = "ro-crate-metadata.json"
PROFILES = {
    "https://w3id.org/ro/wfrun/process/0.5": "Process Run Crate",
    "https://w3id.org/ro/wfrun/workflow/0.5": "Workflow Run Crate",
    "https://w3id.org/workflowhub/workflow-ro-crate/1.0": "Workflow RO-Crate",
}
_LICENSE = "https://spdx.org/licenses/Apache-2.0"
_FORMATS = {".json": "application/json", ".html": "text/html", ".csv": "text/csv", ".md": "text/markdown", ".yaml": "application/yaml",
            ".svg": "image/svg+xml"}


def write_crate(study_file: Path, results: Path, reports: Path, out: Path) -> None:
    """Build the crate beside its place, then put it there; `out` is a folder, or the metadata file in it.

    A folder that holds something else than a crate is refused: the crate takes the place of all that is in it.
    """
    folder = out.parent if out.name == METADATA else out
    if not study_file.is_file():
        raise UserError(f"--study {study_file}: not found. Give results/STUDY/study.json of a study that has been run.")
    study = load_study(str(study_file))
    cells, _ = finished_cells(study, results)
    crate = build(study, study_file, results, reports, cells)
    with atomic_folder(folder) as part:
        crate.write(part)
        if folder.exists() and not (folder / METADATA).is_file():  # Snakemake removes an old METADATA before it runs this
            others = {path.name for path in folder.iterdir()} - {path.name for path in part.iterdir()} if folder.is_dir() else {folder.name}
            if others:
                raise UserError(f"--out {folder}: holds {min(others)!r}, which is not of a crate, and a crate takes the whole folder's "
                                "place. Name a folder of its own, such as reports/STUDY/crate.")


def _span(item: FinishedCell) -> tuple[datetime, datetime]:
    """When a cell ran: it ended when its metrics were written and took its measured wall time."""
    end = datetime.fromtimestamp(int((item.folder / "metrics.json").stat().st_mtime), UTC)
    return end - timedelta(seconds=round(item.metrics["measured"].get("wall_s") or 0)), end


def build(study: Study, study_file: Path, results: Path, reports: Path, cells: list[FinishedCell]) -> ROCrate:
    """The crate, not yet written."""
    from rocrate.model import ContextEntity
    from rocrate.rocrate import ROCrate

    crate = ROCrate(version="1.1")
    page = reports / "index.html"
    spans = [_span(item) for item in cells]
    end = max([end for _, end in spans] + ([datetime.fromtimestamp(int(page.stat().st_mtime), UTC)] if page.is_file() else []))
    crate.name, crate.description = f"Overtone: study {study.name}", str(study.data["description"])
    crate.datePublished = end
    crate.add(ContextEntity(crate, _LICENSE, {"@type": "CreativeWork", "name": "Apache License 2.0"}))
    crate.root_dataset["license"] = {"@id": _LICENSE}
    for identifier, name in PROFILES.items():
        crate.add(ContextEntity(crate, identifier, {"@type": "CreativeWork", "name": name, "version": identifier.rsplit("/", 1)[1]}))
    crate.root_dataset["conformsTo"] = [{"@id": identifier} for identifier in PROFILES]
    workflow = _add_workflow(crate, cells)
    software = _add_software(crate, cells)
    inputs = [_add_file(crate, study_file, "study.json", "the study, resolved")]
    inputs += [_add_file(crate, path, str(path.relative_to(workflow_root())), "what the papers claim and report")
               for path in sorted((workflow_root() / "papers").rglob("*.yaml"))]
    places = [f"cells/{item.cell.key}/metrics.json" for item in cells]
    measured = {place: _add_file(crate, results / place, place, "metrics of a cell") for place in places}
    for path in sorted(file for name in ("benchmarks", "audits", "diagnostics", "transplants") for file in (results / name).rglob("*.json")
                       if "model" not in file.relative_to(results).parts):
        relative = str(path.relative_to(results))
        measured[relative] = _add_file(crate, path, relative, f"measurement: {relative.split('/', 1)[0]}")
    outputs = [_add_file(crate, path, str(path.relative_to(reports)), "report") for path in _report_files(reports)]
    run = ContextEntity(crate, "#run", {
        "@type": "CreateAction", "name": f"run of study {study.name}",
        "description": "corpus, cells, audits, tables, figures, claims, page",
        "startTime": min(start for start, _ in spans).isoformat(), "endTime": end.isoformat(),
        "actionStatus": "http://schema.org/CompletedActionStatus",
    })
    crate.add(run)
    run["instrument"], run["object"], run["result"] = workflow, inputs, [*outputs, *measured.values()]
    actions = [run, *(_add_cell(crate, item, software, inputs[0], measured[place]) for item, place in zip(cells, places, strict=True))]
    claims = _add_claims(crate, reports / "claims.json", measured)
    crate.root_dataset["mentions"] = [*actions, *claims]
    return crate


def _add_file(crate: ROCrate, source: Path, place: str, description: str) -> Any:
    """A copy of a file, with its digest."""
    properties = {"name": Path(place).name, "description": description, "identifier": f"sha256:{sha256_file(source)}",
                  "contentSize": str(source.stat().st_size), "encodingFormat": _FORMATS.get(source.suffix, "text/plain")}
    return crate.add_file(source, place, properties=properties)


def _report_files(reports: Path) -> list[Path]:
    """The page, the verdicts, the tables' data and the figures as drawings."""
    named = [reports / name for name in ("index.html", "claims.json", "claims.md")]
    found = [*named, *sorted((reports / "tables").glob("*.csv")), *sorted((reports / "figures").glob("*.svg"))]
    return [path for path in found if path.is_file()]


def _add_workflow(crate: ROCrate, cells: Iterable[FinishedCell]) -> Any:
    """The Snakemake workflow as the crate's main entity, its rules and schemas as parts."""
    root = workflow_root()
    versions = _values(cells, "commit")
    workflow = crate.add_workflow(root / "Snakefile", "Snakefile", main=True, lang="snakemake", properties={
        "name": "Overtone", "version": ", ".join(versions) or "unknown", "license": {"@id": _LICENSE},
        "description": "A Snakemake workflow that puts two language-model papers to the test, claim by claim.",
        "encodingFormat": "text/plain",
    })
    parts = [root / "config.yaml", *sorted((root / "workflow").rglob("*.smk")), *sorted((root / "workflow" / "schemas").glob("*.json")),
             root / "workflow" / "corpora.yaml", root / "requirements.lock"]
    workflow["hasPart"] = [_add_file(crate, path, str(path.relative_to(root)), "part of the workflow") for path in parts if path.is_file()]
    return workflow


def _add_software(crate: ROCrate, cells: Iterable[FinishedCell]) -> Any:
    """The program that trains and evaluates, with the packages and the machines that the cells name."""
    from rocrate.model import ContextEntity

    packages: dict[str, set[str]] = {}
    for cell in cells:
        for name, version in cell.metrics["environment"].get("packages", {}).items():
            packages.setdefault(name, set()).add(version)
    needed = []
    for name, versions in sorted(packages.items()):
        identifier = f"https://pypi.org/project/{name}/"
        needed.append(crate.add(ContextEntity(crate, identifier, {
            "@type": "SoftwareApplication", "name": name, "url": identifier, "softwareVersion": ", ".join(sorted(versions))})))
    software = ContextEntity(crate, "#overtone", {
        "@type": "SoftwareApplication", "name": "overtone train", "softwareVersion": __version__,
        "description": f"Commits: {', '.join(_values(cells, 'commit'))}. Devices: {', '.join(_values(cells, 'device'))}. "
                       f"Python: {', '.join(_values(cells, 'python'))}.",
    })
    crate.add(software)
    if needed:
        software["softwareRequirements"] = needed
    return software


def _values(cells: Iterable[FinishedCell], key: str) -> list[str]:
    return sorted({str(cell.metrics["environment"][key]) for cell in cells if cell.metrics["environment"].get(key) is not None})


def _add_cell(crate: ROCrate, cell: FinishedCell, software: Any, study: Any, metrics: Any) -> Any:
    """One training run: config and plan by digest in, metrics out; oom and diverged are failed actions with their message."""
    from rocrate.model import ContextEntity

    content, (start, end) = cell.metrics, _span(cell)
    plan = str((content.get("plan") or {}).get("digest") or "none")
    config = _property(crate, f"#config-{content['hash']}", "config", canonical_json(content["config"]))
    windows = _property(crate, f"#plan-{plan}", "plan digest", plan)
    commit = str(content["environment"].get("commit", "unknown"))
    action = ContextEntity(crate, f"#cell-{content['hash']}", {
        "@type": "CreateAction", "name": content["key"],
        "description": f"Training and evaluation, outcome {content['status']}, commit {commit}.",
        "startTime": start.isoformat(), "endTime": end.isoformat(),
        "actionStatus": f"http://schema.org/{'Completed' if cell.ok else 'Failed'}ActionStatus",
    })
    crate.add(action)
    if not cell.ok:
        action["error"] = f"{content['status']}: {(content.get('failure') or {}).get('message', 'no message')}"
    action["instrument"], action["object"], action["result"] = software, [study, config, windows], metrics
    return action


def _property(crate: ROCrate, identifier: str, name: str, value: str) -> Any:
    from rocrate.model import ContextEntity

    found = crate.get(identifier)
    return found or crate.add(ContextEntity(crate, identifier, {"@type": "PropertyValue", "name": name, "value": value}))


def _add_claims(crate: ROCrate, path: Path, measured: Mapping[str, Any]) -> list[Any]:
    """Every claim with its verdict, based on the files that its number was computed from."""
    from rocrate.model import ContextEntity

    claims = []
    for entry in read_json(path)["claims"] if path.is_file() else []:
        verdict = _property(crate, f"#verdict-{entry['id']}", "verdict", entry["wording"])
        claim = ContextEntity(crate, f"#claim-{entry['id']}", {"@type": "Claim", "name": entry["title"], "description": entry["statement"],
                                                              "identifier": entry["id"]})
        crate.add(claim)
        claim["about"] = verdict
        sources = [measured[source] for source in entry["sources"] if source in measured]
        if sources:
            claim["isBasedOn"] = sources if len(sources) > 1 else sources[0]
        claims.append(claim)
    return claims
