# One word per task. Everything happens in .venv, which is made on first use and brought up to date when pyproject.toml changes.
#
#   make run ARGS='--brokers 1 --port 0'     make test ARGS='--only types'     make run PYTHON=python3.12

.POSIX:
.SUFFIXES:

PYTHON = python3
VENV = .venv
PIP = $(VENV)/bin/python -m pip --disable-pip-version-check --quiet
ARGS =

.PHONY: help run site handouts demo dev test check nightly mutants conformance random stage recipes bench bench-quick release-check journeys

help:
	@echo 'make run          start a cluster of three brokers on ports 9092.. and its HTTP control port'
	@echo 'make demo         watch a transaction hang, be found and be repaired'
	@echo 'make site         write the documents as a web site with search, the simulator within, to public/ (Node.js)'
	@echo 'make handouts     write sheets, answers, slides and a notebook for a class to handouts/ (PDF with Chromium)'
	@echo 'make dev          install into .venv what the tests need; then: .venv/bin/python -m pytest PATH'
	@echo 'make test         the whole check: format, lint, types, layers, all tests, real Python clients'
	@echo 'make check        the same without slow tests and clients'
	@echo 'make nightly      ask what the gate (.ci/run) leaves out, two hours and more (Java 17, Maven, Go, Node.js, Rust)'
	@echo 'make mutants      break rules and cores line by line, and list what no test notices, hours (--minutes M ends earlier)'
	@echo 'make conformance  ask a real Apache Kafka again and compare with the answers that are kept (Java 17, Maven)'
	@echo 'make random       play 10,000 random operations per level to a real Apache Kafka and to us (the same)'
	@echo 'make stage        play every story on real brokers of five releases, an hour or more; --missing goes on (the same)'
	@echo 'make recipes      play the recipes of docs/recipes: frameworks and their tests (Node.js, Java 17, Maven)'
	@echo 'make bench        measure against a real Apache Kafka (needs Java 17 and Maven)'
	@echo 'make bench-quick  measure the cost of a transaction under load beside kfake, two minutes (needs Go)'
	@echo 'make release-check  build all that is published, install it elsewhere and try it (Node.js, Go, Java 17, Maven)'
	@echo 'make journeys     play the first hour of new users from the built wheel and the image, and time it (the same)'
	@echo
	@echo "Pass options with ARGS, an interpreter with PYTHON: make run ARGS='--port 0' PYTHON=python3.12"

run: $(VENV)/installed-run
	@exec $(VENV)/bin/txnsim serve --ui $(ARGS)

site: $(VENV)/installed-docs
	@exec $(VENV)/bin/python -m tests.docs_site public $(ARGS)

handouts: $(VENV)/installed-docs
	@exec $(VENV)/bin/python -m tests.handouts handouts $(ARGS)

demo: $(VENV)/installed-run
	@exec $(VENV)/bin/txnsim lesson demo

dev: $(VENV)/installed-dev
	@echo 'Everything is in $(VENV): source $(VENV)/bin/activate; then make check, or txnsim --help'

test: $(VENV)/installed-dev
	@exec $(VENV)/bin/python -m tests.check $(ARGS)

check: $(VENV)/installed-dev
	@exec $(VENV)/bin/python -m tests.check --quick $(ARGS)

nightly: $(VENV)/installed-dev
	@exec $(PYTHON) -m tests.ci.run --nightly $(ARGS)

mutants: $(VENV)/installed-dev
	@exec $(VENV)/bin/python -m tests.mutants both $(ARGS)

conformance: $(VENV)/installed-dev
	@$(VENV)/bin/python -m tests.conformance.record --check; stories=$$?; \
	$(VENV)/bin/python -m tests.conformance.record_cases --check; cases=$$?; \
	$(VENV)/bin/python -m tests.conformance.record_security --check; exit $$((stories | cases | $$?))

random: $(VENV)/installed-dev
	@exec $(VENV)/bin/python -m tests.conformance.random_play --level 0,1,2 --operations 10000 $(ARGS)

stage: $(VENV)/installed-dev
	@$(VENV)/bin/python -m tests.real.leaderless; leaderless=$$?; \
	$(VENV)/bin/python -m tests.real.stage $(ARGS); exit $$((leaderless | $$?))

recipes: $(VENV)/installed-dev
	@exec $(VENV)/bin/python -m tests.recipes.run $(ARGS)

bench: $(VENV)/installed-dev
	@exec $(VENV)/bin/python -m benchmarks.run $(ARGS)

bench-quick: $(VENV)/installed-dev
	@exec $(VENV)/bin/python -m benchmarks.quick $(ARGS)

release-check: $(VENV)/installed-dev
	@exec $(VENV)/bin/python -m tests.release.check $(ARGS)

journeys: $(VENV)/installed-dev
	@exec $(VENV)/bin/python -m tests.release.journeys $(ARGS)

# Stamps: a target is as new as its last successful installation.

$(VENV)/made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "txnsim needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) --version 2>&1 | head -n 1)." >&2; \
	  echo "Name another one: make PYTHON=python3.12 ..." >&2; exit 1; }
	@echo 'Making $(VENV) ...'
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) install --upgrade 'pip>=25.1'
	@touch $@

$(VENV)/installed-run: $(VENV)/made pyproject.toml
	@echo 'Installing txnsim ...'
	@$(PIP) install --editable '.[http,demo,security]'
	@touch $@

$(VENV)/installed-docs: $(VENV)/made pyproject.toml
	@echo 'Installing txnsim and what its pages are made with ...'
	@$(PIP) install --editable '.[http,demo,security]' --group docs
	@touch $@ $(VENV)/installed-run

# PySpark comes as source: its wheel is made beside the other downloads. Modules are compiled when
# they are imported, as most of them never are.
$(VENV)/installed-dev: $(VENV)/made pyproject.toml
	@echo '1 of 2: installing txnsim and what its tests need ...'
	@$(PIP) wheel --no-deps --wheel-dir $(VENV)/wheels --group pyspark & \
	$(PIP) install --no-compile --editable '.[http,demo,security]' --group dev --group clients; wait
	@echo '2 of 2: installing Apache Spark ...'
	@$(PIP) install --no-compile --find-links $(VENV)/wheels --editable '.[http,demo,security,spark]' --group pyspark
	@rm -rf $(VENV)/wheels
	@touch $@ $(VENV)/installed-run $(VENV)/installed-docs
