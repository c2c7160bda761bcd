"""A study: one YAML that names everything to be run; its cells, tables and figures. Imports no torch."""

from overtone.study.cells import Cell, Experiment, experiment_cells, study_cells, sweep_trials
from overtone.study.exhibits import EXHIBITS, Exhibit, exhibit
from overtone.study.load import Study, load_study, resolve_study, study_names
from overtone.study.measurements import diagnosed_cells, measured_audits, measured_benchmarks

__all__ = [
    "EXHIBITS",
    "Cell",
    "Exhibit",
    "Experiment",
    "Study",
    "diagnosed_cells",
    "exhibit",
    "experiment_cells",
    "load_study",
    "measured_audits",
    "measured_benchmarks",
    "resolve_study",
    "study_cells",
    "study_names",
    "sweep_trials",
]
