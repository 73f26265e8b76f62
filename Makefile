SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.ONESHELL:
.DEFAULT_GOAL := help
PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3 python; do $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)
VENV := .venv
GEN_VENV := .venv-gen
BIN := $(VENV)/bin
ARGS ?=
.PHONY: help setup demo demo-code demo-polyglot test test-fast check check-all contract conformance lint format type proto-check baseline gen gen-check bench dist clean

help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sort | awk -F ':.*## ' '{printf "  make %-13s %s\n", $$1, $$2}'

# make_venv DIR: a virtual environment; on Debian and Ubuntu the module for it may have to come first.
define make_venv
	test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed; set PYTHON=/path/to/python" >&2; exit 1; }
	if ! $(PYTHON) -m venv $(1) >/dev/null 2>&1; then
		rm -rf $(1)
		as_root=; test "$$(id -u)" = 0 || as_root="sudo -n"
		version=$$($(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])')
		echo "Installing the venv module of Python $$version"
		$$as_root apt-get update -qq >/dev/null && { $$as_root apt-get install -y -qq python$$version-venv || $$as_root apt-get install -y -qq python3-venv; } >/dev/null \
			|| { echo "Python cannot make a virtual environment here; install its venv module and try again" >&2; exit 1; }
		$(PYTHON) -m venv $(1)
	fi
endef

$(VENV)/.ready: pyproject.toml
	@echo "Setting up $(VENV) (once)"
	$(call make_venv,$(VENV))
	$(BIN)/python -m pip install -q --disable-pip-version-check -e '.[dev]'
	touch $@

$(GEN_VENV)/.ready: gen/tools/versions.toml
	@echo "Setting up $(GEN_VENV) (once)"
	$(call make_venv,$(GEN_VENV))
	$(GEN_VENV)/bin/python -m pip install -q --disable-pip-version-check $$($(GEN_VENV)/bin/python gen/tools/generate.py requirements)
	touch $@

setup: $(VENV)/.ready ## Set up the virtual environment

demo: $(VENV)/.ready ## Run the vacation demo; ARGS="--to Santorini --nights 5 --guests 2", "--yes" approves without asking, "--trace out.jsonl" shows the trace
	@$(BIN)/python -m examples.vacation.demo $(ARGS)

demo-code: $(VENV)/.ready ## Run the code assistant on a project with failing tests; ARGS="--yes" approves its changes without asking
	@$(BIN)/python -m examples.code_assistant.demo $(ARGS)

demo-polyglot: $(VENV)/.ready ## Run the demo with a weather agent written in Go; takes the same ARGS
	@command -v go >/dev/null || { echo "demo-polyglot needs Go, which is not installed; make demo does not" >&2; exit 2; }
	echo "Building the weather agent with $$(go version | cut -d ' ' -f 3)"
	(cd clients/go && go mod download && go build -o bin/vacation-weather ./examples/vacation-weather)
	$(BIN)/python -m examples.vacation.demo --program weather=clients/go/bin/vacation-weather $(ARGS)

# Three workers on the two cores of CI: about a quarter of the tests' time is waiting for processes and timeouts.
test: $(VENV)/.ready ## Run all tests; ARGS="-k name" narrows
	@$(BIN)/python -m pytest -n 3 --dist loadfile $(ARGS)

test-fast: $(VENV)/.ready ## Run the unit and contract tests with few generated examples; ARGS="-k name" narrows
	@HYPOTHESIS_PROFILE=fast $(BIN)/python -m pytest tests/unit tests/contract -n 2 --dist loadfile $(ARGS)

check: proto-check lint type contract ## Check protos, style, layers, types, and pinned names

check-all: gen-check check ## Run check and gen-check, which must pass before a merge

contract: $(VENV)/.ready ## Compare public names and tables with the pinned ones
	$(BIN)/python -m pytest tests/contract -p no:cacheprovider

lint: $(VENV)/.ready ## Check style, imports and layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	PYTHONPATH=. $(BIN)/lint-imports --no-cache

format: $(VENV)/.ready ## Format the sources
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .
	$(BIN)/buf format -w

type: $(VENV)/.ready ## Check types with mypy, strict
	$(BIN)/mypy

proto-check: $(VENV)/.ready ## Lint the protos; forbid breaks against the committed baseline
	$(BIN)/buf lint
	$(BIN)/buf format -d --exit-code
	$(BIN)/buf breaking --against proto/baseline.binpb

baseline: $(VENV)/.ready ## Make the current protos the baseline (at a release only)
	$(BIN)/buf build -o proto/baseline.binpb --exclude-source-info

gen: $(GEN_VENV)/.ready ## Rebuild gen/ from proto/, the only way to change gen/; ARGS="go ts" narrows
	@$(GEN_VENV)/bin/python gen/tools/generate.py write $(ARGS)

gen-check: $(GEN_VENV)/.ready ## Fail when gen/ is not what proto/ generates; changes nothing
	@$(GEN_VENV)/bin/python gen/tools/generate.py check $(ARGS)

conformance: $(VENV)/.ready ## Test the clients of all languages with the scripted agent; ARGS="go rust" narrows
	@$(BIN)/python tests/polyglot/run_conformance.py $(ARGS)

bench: $(VENV)/.ready ## Measure against the bare gRPC floor; prints a table, writes bench/results/latest.json
	@$(BIN)/python -m bench.run $(ARGS)

dist: $(VENV)/.ready ## Build the two wheels: the package, and the stubs in other languages
	$(BIN)/python -m hatchling build --target wheel --directory dist
	cd gen && ../$(BIN)/python -m hatchling build --target wheel --directory ../dist

clean: ## Remove generated files
	rm -rf $(VENV) $(GEN_VENV) .tools bench/.tmp .pytest_cache .mypy_cache .ruff_cache .demo build dist
