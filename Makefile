# make demo   set everything up, then run the paper's Iris experiment beside a private one (under 20 seconds)
# make setup  set everything up in .venv and nothing else
# make test   set everything up, lint, type-check and run all tests
# make reproduce-quick   run a small version of all of the paper's tables and figures
# They need Python 3.11 or newer and nothing else; the second call does no set-up again.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
LOG := $(VENV)/setup.log

.PHONY: demo test reproduce-quick setup clean
.DEFAULT_GOAL := demo

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "make: $(PYTHON) is older than Python 3.11; call make PYTHON=python3.11"; exit 2; }
	@echo "Setting up $(VENV): a few minutes, once."
	@# The tests check our bounds against the auditor of jax-privacy, a file that needs none of its dependencies (JAX).
	@mkdir -p $(VENV)
	@{ $(PYTHON) -m venv $(VENV) \
	  && $(BIN)/python -m pip install --disable-pip-version-check -c constraints.txt -e '.[dev]' \
	  && $(BIN)/python -m pip install --disable-pip-version-check -c constraints.txt --no-deps jax-privacy; } \
	  >$(LOG) 2>&1 || { cat $(LOG); echo "make: the set-up failed; $(LOG) holds the lines above"; exit 1; }
	@touch $@

demo: $(READY)
	@$(BIN)/airmix demo

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
	rm -rf $(VENV) runs build dist *.egg-info src/*.egg-info
