# make demo   set everything up and run the paper's Iris experiment
# make test   set everything up, lint, type-check and run all tests
# make reproduce-quick   run a small version of all of the paper's tables and figures
# They need Python 3.11 or newer and nothing else; the second call does no set-up again.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo test reproduce-quick setup clean
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

test: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2
	rm -rf runs/reproduce-quick
	$(MAKE) reproduce-quick

reproduce-quick: $(READY)
	$(BIN)/airmix reproduce all --quick --seeds 2

clean:
	rm -rf $(VENV) runs build *.egg-info src/*.egg-info
