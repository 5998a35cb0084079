# make demo        set everything up and run the paper's Iris experiment
# make test        lint, types, and all tests but the long ones
# make test-long   the long tests, and a small version of all of the paper's tables and figures
# make check       lint, types and the quickest tests, while you edit
# make format      format the code, and mend what ruff can mend
# make coverage    test and test-long, and how much of the code they run
# make slow-list   time all tests but the long ones, and note which are too slow for make check
# They need Python 3.11 or newer and nothing else; the second call does no set-up again. JOBS=8 uses eight processes.

PYTHON ?= python3
JOBS ?= 2
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PYTEST := OMP_NUM_THREADS=1 $(BIN)/pytest -n $(JOBS) --dist worksteal $(if $(COVERAGE),--cov --cov-append --cov-report=)

.PHONY: demo test test-long check lint format coverage slow-list reproduce-quick setup clean
.DEFAULT_GOAL := demo

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "make: $(PYTHON) is older than Python 3.11; call make PYTHON=python3.11"; exit 2; }
	@echo "Setting up $(VENV): a few minutes, once."
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	# The tests check our bounds against its auditor, a file that needs none of its dependencies (JAX).
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt --no-deps jax-privacy
	@touch $@

demo: $(READY)
	$(BIN)/airmix run --preset paper-iris

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: lint
	$(if $(COVERAGE),$(BIN)/coverage erase)
	$(PYTEST) -m "not long"

test-long: $(READY)
	$(PYTEST) -m long
	$(if $(COVERAGE),@echo "coverage of test and test-long: $$($(BIN)/coverage report --format=total) %")
	rm -rf runs/reproduce-quick
	$(MAKE) reproduce-quick

check: lint
	$(PYTEST) -m "not long and not slow"

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

coverage:
	$(MAKE) test test-long COVERAGE=1

slow-list: $(READY)
	$(PYTEST) -m "not long" --write-slow

reproduce-quick: $(READY)
	$(BIN)/airmix reproduce all --quick --seeds 2

clean:
	rm -rf $(VENV) runs build *.egg-info src/*.egg-info
