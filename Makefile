# Every target works as the first command on a fresh clone: it needs Python 3.11 or newer and make, nothing else.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# What `make run` serves with; for example: make run ARGS="--config config/dragoman.yaml"
ARGS ?= --demo
PYTEST_ARGS ?= -q -n auto
# Real engines of the whole e2e run; vLLM takes 3.5 GB and five minutes to install.
ENGINES ?= llama.cpp vllm

# Every run's raw numbers are kept. BENCH_ARGS="--only small,burst" is a part of a run; --help tells the rest.
RAW = build/bench/$(shell date -u +%Y%m%dT%H%M%SZ).json
BENCH_ARGS ?=

# What the benchmark compares with has an environment of its own, outside the tree: it is large, and nothing else needs it.
LITELLM := 1.108.0
PEERS := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/dragoman-bench/litellm-$(LITELLM)

PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.DEFAULT_GOAL := help
.PHONY: help run test check bench bench-peers faults soak e2e e2e-quick image clean check-format check-lint check-types check-layers check-dead check-deps check-image

help:
	@echo "make run    serve the demo on 127.0.0.1:8080 (ARGS=... to serve something else)"
	@echo "make test   run the tests (PYTEST_ARGS=... to choose)"
	@echo "make check  format, lint, types, layers, dead code, dependencies"
	@echo "make bench  measure speed and memory (BENCH_ARGS=... to choose)"
	@echo "            make bench-peers does so beside LiteLLM's proxy, which it installs apart"
	@echo "make faults send 10,000 requests through broken connections (FAULTS_ARGS=\"--seed 1\" for the same again)"
	@echo "make soak   half an hour of load, in which nothing may grow (SOAK_ARGS=\"--minutes 5\")"
	@echo "make e2e    run real clients through a proxy (make e2e-quick: the most used ones)"
	@echo "make image  build the container image and run it (as root, with podman and mmdebstrap)"

run: $(VENV)/.run
	$(BIN)/dragoman serve $(ARGS)

test: $(VENV)/.dev
	$(BIN)/python -m pytest tests --ignore=tests/e2e/node --ignore=tests/image $(PYTEST_ARGS)

# The checks don't depend on each other; -k shows the mistakes of all, not only of the first that fails.
check: $(VENV)/.dev
	@$(MAKE) --no-print-directory -k -j --output-sync=target \
		check-format check-lint check-types check-layers check-dead check-deps check-image

check-format:
	@$(BIN)/ruff format --check --quiet --diff .

check-lint:
	@$(BIN)/ruff check --quiet .

check-types:
	@$(BIN)/mypy

check-layers:
	@$(BIN)/lint-imports --no-logo

check-dead:
	@$(BIN)/vulture

check-deps:
	@$(BIN)/deptry .

check-image:
	@$(BIN)/hadolint Dockerfile

bench: $(VENV)/.dev
	$(BIN)/python -m tests.bench --json $(RAW) $(BENCH_ARGS)
	$(BIN)/python -m tests.bench.translate
	$(BIN)/python -m tests.bench.policy
	$(BIN)/python -m tests.bench.telemetry
	$(BIN)/python -m tests.bench.state

bench-peers: $(VENV)/.dev $(PEERS)/.installed
	$(BIN)/python -m tests.bench --peers $(PEERS) --json $(RAW) $(BENCH_ARGS)

faults: $(VENV)/.dev
	$(BIN)/python -m tests.faults $(FAULTS_ARGS)

soak: $(VENV)/.dev
	$(BIN)/python -m tests.soak $(SOAK_ARGS)

# The clients are installed into a cache outside of the source tree, DRAGOMAN_E2E_CACHE or ~/.cache/dragoman-e2e.
e2e: $(VENV)/.dev
	$(BIN)/python -m pytest tests/e2e -q
	$(BIN)/python -m tests.e2e.engines $(ENGINES)
	$(BIN)/python -m tests.e2e.matrix

e2e-quick: $(VENV)/.dev
	$(BIN)/python -m pytest tests/e2e -q
	$(BIN)/python -m tests.e2e.engines
	$(BIN)/python -m tests.e2e.matrix --quick

image: $(VENV)/.dev
	$(BIN)/python -m tests.image.build
	$(BIN)/python -m pytest tests/image -q

clean:
	rm -rf build $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Dragoman needs Python 3.11 or newer")'
	$(PYTHON) -m venv $(VENV)

# Stamps: `run` needs only what the product needs, `dev` also what checks and tests it.
$(VENV)/.run: pyproject.toml | $(BIN)/python
	$(PIP) --editable .
	@touch $@

$(VENV)/.dev: pyproject.toml | $(BIN)/python
	$(PIP) --editable '.[dev]'
	@touch $(VENV)/.run $@

# Wheels only, so that nothing of it runs before it is started.
$(PEERS)/.installed:
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check --only-binary :all: 'litellm[proxy]==$(LITELLM)'
	@touch $@
