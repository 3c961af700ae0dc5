# `make demo` and `make test` are all a newcomer needs; each sets itself up in .venv.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test lint docs dashboards screenshots clean

demo: $(VENV)/.run
	$(BIN)/sidecar demo

test: $(VENV)/.dev
	$(BIN)/python -m pytest

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: $(VENV)/.run
	$(BIN)/python -m sidecar.quirks.document > docs/quirks.md.new && mv docs/quirks.md.new docs/quirks.md
	$(BIN)/python -m sidecar.export.document > docs/metrics.md.new && mv docs/metrics.md.new docs/metrics.md
	$(BIN)/python -m sidecar.export.spans_document > docs/spans.md.new && mv docs/spans.md.new docs/spans.md
	$(BIN)/python -m sidecar.files.schema > docs/capture.schema.json.new && mv docs/capture.schema.json.new docs/capture.schema.json

dashboards: $(VENV)/.dev
	$(BIN)/python -m dashboards.generator

# Needs Prometheus, Chromium and Node.js; six minutes of the demo's traffic.
screenshots: $(VENV)/.dev dashboards/render/dist/page.js
	$(BIN)/python -m dashboards.render
	$(BIN)/python -m tests.live.page_pictures docs/images

dashboards/render/dist/page.js: dashboards/render/package-lock.json dashboards/render/build.mjs $(wildcard dashboards/render/src/*)
	npm ci --prefix dashboards/render --legacy-peer-deps --ignore-scripts --no-audit --no-fund --loglevel=error
	npm run --prefix dashboards/render --silent build

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 12))' || \
		{ echo "Python 3.12 or newer is needed; this is $$($(PYTHON) --version). Try: make PYTHON=python3.12 ..."; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --disable-pip-version-check --upgrade "pip>=25.1"

$(VENV)/.run: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install -q --disable-pip-version-check -e .
	@touch $@

$(VENV)/.dev: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install -q --disable-pip-version-check -e . --group dev
	@touch $@ $(VENV)/.run

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
