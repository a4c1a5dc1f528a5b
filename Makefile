# Every target makes its own virtual environment in .venv and installs what it needs there.
#   make demo      fit the example images and leave a report to open in demo/
#   make test      lint, types, import direction, and every test that is not slow
#   make test-all  the same with the slow tests
#   make bench     the benchmarks that need no outside data
#   make docs      the documentation site, in site/
#   make format    put the code in the house format
#   make clean     remove what the targets above made
# A different interpreter: make test PYTHON=python3.12

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
BUILD := build

# What tests compile is kept in $(BUILD)/numba, one folder for each state of the kernels.
PYTEST = cache=$$($(BIN)/python tests/cache_key.py) && PYTHONDONTWRITEBYTECODE= NUMBA_CACHE_DIR="$$cache" \
         $(BIN)/pytest -n 2 --dist worksteal --durations=25

.PHONY: help demo test test-all lint bench docs format clean
.NOTPARALLEL:

help:
	@sed -n 's/^#   make /make /p' Makefile

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "thali needs Python 3.11 or newer; '$(PYTHON)' is missing or older." \
	       "Name another one: make PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv $(VENV)

# The stamps: one for the library alone, one with the tools for development, one for the docs.
$(VENV)/.installed: pyproject.toml | $(BIN)/python
	@echo "Installing thali and what it needs into $(VENV): about a minute."
	$(BIN)/python -m pip install --quiet --editable .
	@touch $@

$(VENV)/.installed-dev: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $@ $(VENV)/.installed

$(VENV)/.installed-docs: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable '.[docs]'
	@touch $@ $(VENV)/.installed

demo: $(VENV)/.installed
	$(BIN)/thali demo --out demo

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: lint
	$(PYTEST) -m "not slow"

test-all: lint
	$(PYTEST)

bench: $(VENV)/.installed
	$(BIN)/python benchmarks/imports.py
	$(BIN)/python benchmarks/collapsed_gibbs.py
	$(BIN)/python benchmarks/particle_filter.py
	$(BIN)/python benchmarks/quality.py
	$(BIN)/python benchmarks/mixing.py
	$(BIN)/python benchmarks/noisy_or.py
	$(BIN)/python benchmarks/uncollapsed_gibbs.py
	$(BIN)/python benchmarks/row_blocks.py
	$(BIN)/python benchmarks/variational.py
	$(BIN)/python benchmarks/maximization_expectation.py
	$(BIN)/python benchmarks/beam_search.py
	$(BIN)/python benchmarks/clusters.py
	$(BIN)/python benchmarks/variational_partition.py --quick
	$(BIN)/python benchmarks/cluster_quality.py
	$(BIN)/python benchmarks/flexible_partitions.py
	$(BIN)/python benchmarks/flexible_features.py
	$(BIN)/python benchmarks/hidden_entries.py --masks 1
	$(BIN)/python benchmarks/scale.py --quick

docs: $(VENV)/.installed-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

format: $(VENV)/.installed-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) $(BUILD) dist site demo .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
