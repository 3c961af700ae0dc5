# `make demo` and `make test` are all a newcomer needs; each sets itself up in .venv.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test lint docs dashboards screenshots bench bench-full bench-report bench-litellm clean

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

# What it costs: tables on standard output, results in bench/results/. The short form takes about ten minutes; LiteLLM and
# nginx are left out where they are not installed. `make bench-report` puts the results into docs/performance.md.
bench: $(VENV)/.dev
	$(BIN)/python -m bench.analyzer
	$(BIN)/python -m bench.ticks
	$(BIN)/python -m bench.analyzer_load
	$(BIN)/python -m bench.growth
	$(BIN)/python -m bench.accuracy
	$(BIN)/python -m bench.path
	$(BIN)/python -m bench.proxy

# An hour, on a machine that does nothing else.
bench-full: $(VENV)/.dev .venv-litellm/.installed
	$(BIN)/python -m bench.analyzer
	$(BIN)/python -m bench.ticks
	$(BIN)/python -m bench.analyzer_load --seconds 20 --streams 20000
	$(BIN)/python -m bench.growth --rounds 15
	$(BIN)/python -m bench.accuracy --seconds 60
	$(BIN)/python -m bench.path --seconds 15 --rounds 3
	$(BIN)/python -m bench.proxy --seconds 20 --rounds 5

bench-report: $(VENV)/.dev
	$(BIN)/python -m bench.report

bench-litellm: .venv-litellm/.installed

.venv-litellm/.installed: bench/litellm.txt
	$(PYTHON) -m venv .venv-litellm
	.venv-litellm/bin/python -m pip install -q --disable-pip-version-check -r bench/litellm.txt
	@touch $@

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
