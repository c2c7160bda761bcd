# make reproduce            set up, run the study, say where the report is      (STUDY=smoke make reproduce: another study)
# make test                 set up, run the whole test suite
# make test-slow            what takes minutes more: the whole smoke study through a Slurm on this machine
# make lint                 ruff, mypy, snakefmt, snakemake --lint
PYTHON ?= python3
STUDY ?= mini
CORES ?= all
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: setup reproduce test test-slow lint clean
.DEFAULT_GOAL := reproduce

setup: $(READY)

$(READY): requirements.lock requirements-triton.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed; '$(PYTHON)' is older. Set PYTHON=..." >&2; exit 2; }
	@$(PYTHON) -m venv $(VENV) || { echo "No venv module: apt-get install python3-venv" >&2; exit 2; }
	$(BIN)/pip install --quiet --disable-pip-version-check -r requirements.lock
	@$(BIN)/python -c 'import triton' 2>/dev/null || $(BIN)/pip install --quiet --disable-pip-version-check -r requirements-triton.lock
	$(BIN)/pip install --quiet --disable-pip-version-check setuptools wheel
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

# Snakemake 9.27 adds a timer of this timespan with every job it finishes, and looks at all ready jobs whenever one expires: with its
# default of one second that takes a fifth of a core by the hundredth job.
reproduce: $(READY)
	$(BIN)/snakemake --cores $(CORES) --max-jobs-per-timespan 1000/10s --config study=$(STUDY)
	@echo "The report: $$(pwd)/reports/$(STUDY)/index.html"

test: $(READY)
	$(BIN)/python -m pytest -n 2 --dist loadgroup $(PYTEST_ARGS)

test-slow: $(READY)
	$(BIN)/python -m pytest -m slow $(PYTEST_ARGS)

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/snakefmt --check Snakefile workflow/rules
	$(BIN)/snakemake --lint

clean:
	rm -rf results reports .snakemake
