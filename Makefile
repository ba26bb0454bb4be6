PYTHON ?= python3
PYTHON310 ?= python3.10
BIN    := .venv/bin
STAMP  := .venv/.installed
PIP    := $(BIN)/python -m pip --disable-pip-version-check -qq

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-all test-lowest check-results lint bench docs docs-serve pictures clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP)  ## make .venv and install riskmatch with its tools

# One install, under the constraints, so that torch is resolved once and to the pinned build.
$(STAMP): pyproject.toml constraints.txt
	@echo "installing into .venv (a minute or two the first time)"
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(PIP) install -c constraints.txt -e '.[dev]'
	@touch $@

demo: $(STAMP)  ## ERM against RDM on coloured digits, in about a minute
	@$(BIN)/riskmatch demo --out out/demo

test: lint  ## lint, then the tests and the doctests; see test-all and check-results for the others
	@echo "skipping tests/integration: it takes minutes and needs Ray, ONNX, Lightning, …; make test-all runs it"
	@OMP_NUM_THREADS=1 $(BIN)/pytest -q -n 2 --dist worksteal -rs --ignore tests/integration --ignore tests/results

check-results: $(STAMP)  ## compare the committed results, and what pages say of them, with their records
	@OMP_NUM_THREADS=1 $(BIN)/pytest -q -n 2 --dist worksteal -rs tests/results

test-all: $(STAMP)-all  ## install the heavy frameworks and run tests/integration
	@OMP_NUM_THREADS=1 $(BIN)/pytest -q tests/integration -rs

$(STAMP)-all: $(STAMP)
	@echo "installing the frameworks of the extra integration"
	@$(PIP) install -c constraints.txt -e '.[dev,integration]'
	@touch $@

test-lowest: $(STAMP)  ## the demo, tables, images and a report under the lowest versions declared
	@OMP_NUM_THREADS=1 $(BIN)/python tests/lowest.py $(PYTHON310)

lint: $(STAMP)  ## style, types and layers
	@$(BIN)/ruff check -q .
	@$(BIN)/ruff format -q --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo

bench: $(STAMP)  ## time the core, the methods and the loader of images
	@$(BIN)/python benchmarks/core.py
	@$(BIN)/python benchmarks/methods.py
	@$(BIN)/python benchmarks/accumulate.py
	@$(BIN)/python benchmarks/colored_mnist.py
	@$(BIN)/python benchmarks/images.py

docs: $(STAMP)-docs  ## build the site into site/; warnings are errors
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build
	@echo "open site/index.html"

docs-serve: $(STAMP)-docs  ## show the site at http://127.0.0.1:8000 and follow changes
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve

pictures: $(STAMP)  ## make the pictures of the site again: gallery, screenshot of a report
	@OMP_NUM_THREADS=1 $(BIN)/python docs/pictures.py

$(STAMP)-docs: $(STAMP)
	@$(PIP) install -c constraints.txt -e '.[dev,docs]'
	@touch $@

clean:  ## remove .venv, caches and outputs
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis dist out site
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
