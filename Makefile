# Every target sets itself up: virtual environment in .venv, pinned dependencies by hash (scripts/setup.sh).
# Options are passed on with ARGS, e.g. `make demo ARGS="--requests 500"` or `make test ARGS="-k race"`.

PY := .venv/bin/python
ARGS ?=
DATA ?=
# Test files at once: most of what they do is wait. In the order of their folders, so that the long ones start first.
WORKERS ?= 2
# Some images set it; hundreds of processes would then compile hedgerow each for itself.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test check lint fmt docs bench bench-quick bench-wire bench-library bench-planner eval e2e-llm lock clean setup-run setup-dev

help: ## list the targets
	@grep -E '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9-]+):.*## /\1\t/' | \
		while IFS="$$(printf '\t')" read -r name text; do printf '  make %-12s %s\n' "$$name" "$$text"; done

setup-run:
	@bash scripts/setup.sh run

setup-dev:
	@bash scripts/setup.sh dev

demo: setup-run ## see the p99 fall: two simulated providers, with and without hedging (ARGS="--help" lists options)
	@HEDGEROW_CALLED_AS='make demo ARGS="{}"' .venv/bin/hedgerow demo $(ARGS)

test: setup-dev ## all tests, two files at once (ARGS goes to pytest, e.g. ARGS="tests/unit -k race"; WORKERS=0: one by one)
	@bash scripts/need.sh git curl redis-server postgresql prometheus
	@$(PY) -m pytest -p xdist --numprocesses=$(WORKERS) --dist=loadfile --no-loadscope-reorder $(ARGS)

check: setup-dev ## what CI runs: format, lint, types, floors, then all tests
	@$(MAKE) --no-print-directory lint
	@$(MAKE) --no-print-directory test

lint: setup-dev ## format check, ruff, mypy, pyright on the public API, import contracts, shell syntax
	$(PY) -m ruff format --check .
	$(PY) -m ruff check .
	$(PY) -m mypy
	.venv/bin/basedpyright
	.venv/bin/lint-imports
	@for script in .ci/run $$(git ls-files '*.sh' 2>/dev/null); do bash -n "$$script" || exit 1; done

fmt: setup-dev ## format, and mend what ruff can mend
	$(PY) -m ruff format .
	$(PY) -m ruff check --fix .

docs: setup-dev ## regenerate the generated pages, then run the docs' examples and check their links
	$(PY) -m hedgerow.config docs
	$(PY) -m hedgerow.cli.reference docs
	$(PY) scripts/library_reference.py docs
	$(PY) -m hedgerow.planner.schema docs
	$(PY) -m pytest -q tests/test_docs.py

bench: setup-dev ## the gateway against nginx, Envoy and other gateways on this machine (long)
	@$(PY) -m bench $(ARGS)

bench-quick: setup-dev ## the same with short runs and only the peers that install in seconds
	@$(PY) -m bench --quick $(ARGS)

bench-wire: setup-dev ## cost of scanning a stream, per chunk
	@$(PY) -m bench.wire $(ARGS)

bench-library: setup-dev ## hedging in process beside other Python packages: cost, tails, what is left behind (5 minutes)
	@$(PY) -m bench.library $(ARGS)

bench-planner: setup-dev ## the planner beside what is promised: its engine by policy, a long log, a first report (ARGS="--million")
	@$(PY) -m bench.planner $(ARGS)

eval: setup-dev ## replay recorded latencies through the gateway, its decisions and its planner: make eval DATA=folder (ARGS="--help")
	@test -n "$(DATA)" || { echo 'usage: make eval DATA=folder-with-latency-logs (ARGS="--help" lists options)' >&2; exit 2; }
	@$(PY) -m bench.eval "$(DATA)" $(ARGS)

e2e-llm: setup-dev ## the gateway in front of two real llama.cpp servers (compiles about 10 minutes; not in CI)
	@bash tests/e2e_llm/run.sh $(ARGS)

lock: setup-dev ## regenerate requirements/*.txt from pyproject.toml (ARGS="--upgrade" takes newer versions)
	@bash scripts/lock.sh $(ARGS)

clean: ## remove everything the other targets made, .venv included
	rm -rf .venv .mypy_cache .ruff_cache .import_linter_cache .hypothesis .pytest_cache build dist bench/.work bench/.peers .e2e-llm .e2e-npm .e2e-older-sdks
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
