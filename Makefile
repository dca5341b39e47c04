# Every target sets up what it needs: a virtual environment in .venv with this package and its tools.
PYTHON ?= python3
BIN := .venv/bin
UNTYPED := $(wildcard tests/*/test_transforms.py) tests/mechanisms/test_conformance.py
.DEFAULT_GOAL := help

help:  ## what there is to make
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

# torch first and alone: asked for by its exact version it is found as a CPU build where one lies ready
.venv/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check "$$(cat constraints.txt)"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	touch $@

.venv/.bench: .venv/.ready
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[bench]"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps d2l==1.0.3
	touch $@

.venv/.all: .venv/.ready
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[wandb,mlflow,trackio]"
	touch $@

setup: .venv/.ready  ## the virtual environment

demo: .venv/.ready  ## train on the shipped phrasebook, translate, score, draw
	$(BIN)/headwise demo

# what is compiled once serves every process of the tests
test test-all: export PYTHONDONTWRITEBYTECODE :=

# checked annotations take a quarter of the time: `make test-all` checks them, and runs without them, in processes of
# their own, what is compiled, as a compiler cannot trace them, and the certificates
test: export HEADWISE_TEST_ANNOTATIONS := none
test: .venv/.ready  ## the tests, on two processes
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow and not perf"

test-all: .venv/.all  ## all tests, those that take long too, all under checked annotations
	HEADWISE_TEST_ANNOTATIONS=all $(BIN)/python -m pytest -n 2 --dist worksteal -m "not perf"
	HEADWISE_TEST_ANNOTATIONS=none $(BIN)/python -m pytest -n 2 --dist worksteal $(UNTYPED)

acceptance: .venv/.ready  ## budgets of the explorer in Chromium, with their figures
	$(BIN)/python -m pytest -m perf -s tests/explorer

check: .venv/.ready  ## format, lint, types: Python, and where npm is there the scripts of the explorer
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	@if command -v npm > /dev/null; then $(MAKE) --no-print-directory check-scripts; \
	else echo "npm is not installed: the scripts of the explorer are not checked"; fi

check-scripts: node_modules/.ready  ## form, lint, types of the scripts of the explorer
	npm run --silent check

# for developers only: nothing of it is shipped, and nothing else needs node
node_modules/.ready: package-lock.json
	npm ci --silent --no-audit --no-fund
	touch $@

bench: .venv/.bench  ## speed against the peers, as ratios of one run; data sets from $$HEADWISE_DATA
	$(BIN)/python -m benchmarks.machine
	$(BIN)/python -m benchmarks.gradients
	$(BIN)/python -m benchmarks.copies
	$(BIN)/python -m benchmarks.training --shape tiny
	$(BIN)/python -m benchmarks.training --shape tiny-attention-kept
	$(BIN)/python -m benchmarks.training --shape base
	$(BIN)/python -m benchmarks.decoding --shape tiny
	$(BIN)/python -m benchmarks.decoding --shape base
	$(BIN)/python -m benchmarks.bahdanau
	$(BIN)/python -W ignore -m benchmarks.adoption

bench-kernels: .venv/.ready  ## attention kernels against the usual ways: time, memory, what looking costs, the planner
	$(BIN)/python -W ignore -m benchmarks.kernels
	$(BIN)/python -W ignore -m benchmarks.planner
	$(BIN)/python -W ignore -m benchmarks.recurrences
	$(BIN)/python -W ignore -m benchmarks.sparse

pictures: .venv/.ready  ## the pictures of README and the explorer, from a phrasebook trained in a minute
	$(BIN)/python -W ignore -m tools.pictures

wheel-check: .venv/.ready  ## the wheel, installed alone and without node, serves every page of the explorer
	$(BIN)/python -m tools.wheelcheck

mutants: .venv/.ready  ## show that the tests notice every fault of a long list
	$(BIN)/python tools/mutants.py

config-docs: .venv/.ready  ## docs/config.md, and what `headwise list` prints, from the code
	$(BIN)/python -m tools.config_docs
	$(BIN)/python -m tools.catalogue

mechanism-table: .venv/.ready  ## docs/mechanisms.md; FOLDER=... trains there what has no record yet
	$(BIN)/python -m tools.mechanism_table $(if $(FOLDER),--train $(FOLDER))

clean:  ## remove what the other targets made
	rm -rf .venv node_modules build dist runs figures .pytest_cache .mypy_cache .ruff_cache .hypothesis

.PHONY: help setup demo test test-all acceptance check bench bench-kernels wheel-check mutants config-docs clean
