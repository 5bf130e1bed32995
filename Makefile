# Every target sets up what it needs by itself. `make` alone lists the targets.
# Kept to the features of GNU make 3.81, the version that macOS ships.

VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
LIGHT := $(VENV)/.ready-light
SOURCES := pyproject.toml constraints.txt scripts/set_up.sh hatch_build.py src/eqrm/distributions/kde/native.c src/eqrm/distributions/kde/kernels.h src/eqrm/distributions/kde/ranks.h
DOCS_READY := $(VENV)/.ready-docs
COMPILED := $(VENV)/.compiled
EXTRAS := dev,plots
WORKERS ?= 2
MINUTES ?= 30
BENCHMARKS := benchmarks/quantile.py benchmarks/many_domains.py \
	benchmarks/evaluate_large.py benchmarks/linear_speed.py \
	benchmarks/coloured_digits.py benchmarks/boosting.py \
	benchmarks/estimator_speed.py benchmarks/training_step.py \
	benchmarks/many_domains_training.py benchmarks/recalibrate_large.py \
	benchmarks/control_large.py \
	benchmarks/sweep_tables.py benchmarks/sweep_overhead.py

# Test workers share the cores: one thread each is faster than all threads each.
ONE_THREAD := OMP_NUM_THREADS=1 MKL_NUM_THREADS=1

# Each worker would prepare all assertions for their details, in seconds: those that failed suffice.
DETAILS := echo "==> what failed, with details"; \
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup --last-failed --last-failed-no-failures=none

# uv installs sources only. Where bytecode may not be written, every start of Python would
# compile all of torch again (9 s); it is written into $(VENV), so nothing else is touched.
unexport PYTHONDONTWRITEBYTECODE

# The tests import most of what is installed: each of their processes would compile it by itself.
# Some packages have templates that look like Python and are not.
COMPILE := $(BIN)/python -m compileall -qq -j $(WORKERS) -x "/tests/" $(VENV)/lib

.PHONY: help setup demo test check types rules coverage record record-check size cluster-test verify fuzz bench docs pages clean
.DEFAULT_GOAL := help

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

# For demo: what tables need, without torch. What is there already stays.
$(LIGHT): $(SOURCES)
	@VENV="$(VENV)" EXTRAS=plots sh scripts/set_up.sh
	@touch $(LIGHT)

$(READY): $(SOURCES)
	@VENV="$(VENV)" EXTRAS="$(EXTRAS)" sh scripts/set_up.sh
	@touch $(LIGHT) $(READY)

$(COMPILED): $(READY)
	@echo "==> compiling the installed packages for the tests (once, a minute)"
	@$(COMPILE) || true
	@touch $(COMPILED)

# Sphinx and its theme, for the site alone.
$(DOCS_READY): $(READY)
	@VENV="$(VENV)" EXTRAS="$(EXTRAS),docs" sh scripts/set_up.sh
	@touch $(DOCS_READY)

setup: $(COMPILED) ## make .venv with everything that demo and tests need
	@echo "==> $(VENV) is ready"

demo: $(LIGHT) ## which model for the next domain? Coloured digits, then real flights; a minute
	@echo "==> eqrm train coloured-digits (semi-synthetic: real digits, generated colours)"
	@$(BIN)/eqrm train coloured-digits --output demo-output/coloured-digits
	@echo
	@echo "==> eqrm train flights --weather --order day (real; judged on later days)"
	@$(BIN)/eqrm train flights --weather --order day --output demo-output/flights

check: $(COMPILED) ## lint, format, types, import rules, doctests, reference pages, sizes
	@$(MAKE) --no-print-directory -j 2 types rules

types: $(COMPILED)  # one process here and one in the rules, for two cores
	@echo "==> mypy --strict"
	@$(BIN)/mypy --strict src studies examples/typed_calls.py

rules: $(COMPILED)
	@echo "==> ruff: lint"
	@$(BIN)/ruff check --quiet .
	@echo "==> ruff: format"
	@$(BIN)/ruff format --quiet --check . || { echo "run '$(BIN)/ruff format .' to fix this"; exit 1; }
	@echo "==> spelling"
	@$(BIN)/codespell $$(git ls-files | sed 's,/.*,,; s,^,./,' | sort -u)  # not what commands wrote here
	@echo "==> import rules"
	@$(BIN)/lint-imports --no-logo --cache-dir .import_linter_cache
	@echo "==> reference pages"
	@$(BIN)/python scripts/build_reference.py --check
	@$(BIN)/python scripts/build_promises.py --check
	@echo "==> sizes"
	@$(BIN)/python scripts/size.py --check
	@echo "==> doctests"
	@$(ONE_THREAD) $(BIN)/python -m pytest --quiet --doctest-modules --doctest-glob='*.md' --ignore-glob='**/triton_*.py' src studies README.md

test: check coverage ## check, then the tests with coverage (what continuous integration runs)

coverage: $(COMPILED) ## the tests, and how much of the code they run: 93% at least
	@echo "==> tests"
	@$(ONE_THREAD) $(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup --assert=plain --cov --cov-report= || \
		{ $(BIN)/coverage html --quiet --directory coverage-output; $(DETAILS); exit 1; }

record-check: $(COMPILED) ## commands and studies give what tests/record holds; minutes
	@echo "==> record"
	@$(BIN)/python scripts/record/recording.py --check --workers $(WORKERS) $(NAMES)

record: $(COMPILED) ## write tests/record anew, to accept a change; NAMES="train plan" for some of it
	@echo "==> record"
	@$(BIN)/python scripts/record/recording.py --workers $(WORKERS) $(NAMES)

size: $(READY) ## lines of Python, files and Markdown, beside their budgets
	@$(BIN)/python scripts/size.py

cluster-test: $(READY) ## sweeps on SLURM and Ray, two nodes each on this machine (as root, with apt)
	@sh scripts/install_slurm.sh
	@VENV="$(VENV)" EXTRAS="$(EXTRAS),ray" sh scripts/set_up.sh || echo "==> Ray could not be installed: its tests will be skipped"
	@echo "==> cluster tests"
	@$(ONE_THREAD) $(BIN)/python -m pytest -m cluster -rs --durations=0 tests/sweeps/engines

verify: $(DOCS_READY) ## every promise at full size, a line each; RESUME=1 goes on with an interrupted run
	@echo "==> verify"
	@$(BIN)/python verify/run.py --clean-clone $(if $(RESUME),--resume)

fuzz: $(READY) ## more fuzzed risk vectors than verify tries, for MINUTES (30)
	@EQRM_FUZZ_MINUTES=$(MINUTES) $(BIN)/python verify/run.py --only adversarial.risk-vectors

bench: $(READY) ## speed, side by side with named alternatives
	@for benchmark in $(BENCHMARKS); do \
		echo "==> $$benchmark"; \
		PYTHONPATH=. $(BIN)/python $$benchmark || exit 1; \
	done

docs: $(DOCS_READY) ## build the documentation site in site/: runs its tutorials, checks its links
	@$(ONE_THREAD) $(BIN)/python scripts/website/build_site.py

pages: $(READY) ## write what pages take from the code: the reference, ranges, figures of promises
	@echo "==> docs/reference.md, docs/reference/, the ranges of docs/training.md"
	@$(BIN)/python scripts/build_reference.py
	@echo "==> docs/promises.md"
	@$(BIN)/python scripts/build_promises.py

clean: ## remove the environment, caches and outputs
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache demo-output coverage-output site .coverage src/eqrm/distributions/kde/libeqrm.so
	find src studies tests scripts -name __pycache__ -type d -prune -exec rm -rf {} +
