# make demo        set up what it needs, then run the paper's Iris experiment beside a private one
# make setup       set everything up in .venv and nothing else
# make test        lint, types, and all tests but the long ones
# make test-long   the long tests, and a small version of all of the paper's tables and figures
# make test-deploy the tests of running systems, with a real broker; installs Debian packages where it may
# make test-lowest the quickest tests on the lowest versions that pyproject.toml allows, and on the newest
# make check       lint, types and the quickest tests, while you edit
# make format      format the code, and mend what ruff can mend
# make coverage    how much of the code the quickest tests run
# make soak        three minutes of small random scenarios; MINUTES=60 takes longer, SOAK="--help" lists what else
# make docs        build the documentation site in build/site, and run its examples; warnings are errors
# make bench       measure the CPU rows of docs/performance.md on two cores, and write them there
# make bench-gpu   the same for the rows of a GPU
# make browser     try to install Chromium, in which the explorer is tested; without it those tests are skipped
# make mutants     change COUNT lines of the privacy code, drawn by SEED, and see which changes the tests of a room notice
# make slow-list   time all tests but the long ones, and note which are too slow for make check
# They need Python 3.11 or newer and nothing else; the second call does no set-up again. JOBS=8 uses eight processes.

PYTHON ?= python3
JOBS ?= 2
MINUTES ?= 3
VENV := .venv
BIN := $(VENV)/bin
RUNS := $(VENV)/.runs
READY := $(VENV)/.ready
INSTALL := $(BIN)/python tools/install.py -c constraints.txt
PYTEST := OMP_NUM_THREADS=1 $(BIN)/pytest -n $(JOBS) --dist worksteal
LOG := $(VENV)/setup.log
DEBIAN := mosquitto gcc-arm-none-eabi libnewlib-arm-none-eabi qemu-system-arm gnuradio python3-soapysdr

.PHONY: demo test test-long test-lowest test-deploy soak check lint format coverage docs bench bench-gpu mutants slow-list reproduce-quick browser setup clean
.DEFAULT_GOAL := demo

setup: $(READY)

define install
	@{ $(1); } >$(LOG) 2>&1 || { cat $(LOG); echo "make: the set-up failed; $(LOG) holds the lines above"; exit 1; }
endef

# Byte code that every process would make again where Python may not write it, and uv has not.
COMPILE := PYTHONDONTWRITEBYTECODE= $(BIN)/python -c
OFTEN := 'import torch, sklearn.datasets, scipy.stats, matplotlib.pyplot, typer, rich.progress, randomgen'
OFTEN_IN_TESTS := 'import pytest, xdist, hypothesis.strategies, dp_accounting.pld, cryptography.x509, paho.mqtt.client, zmq'

# What airmix needs; the last line builds caches that the first command would wait for.
$(RUNS): pyproject.toml constraints.txt tools/install.py src/airmixml/version.py
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "make: $(PYTHON) is older than Python 3.11; call make PYTHON=python3.11"; exit 2; }
	@echo "Setting up $(VENV): a minute or two, once."
	@mkdir -p $(VENV)
	$(call install,$(PYTHON) -m venv $(VENV) && $(INSTALL) -e . \
	  && $(BIN)/python -m compileall -q src \
	  && $(COMPILE) $(OFTEN))
	@touch $@

# What tests and documentation need besides. The tests check our bounds against the auditor of jax-privacy, a file that
# needs none of its dependencies (JAX).
$(READY): $(RUNS)
	@echo "Setting up what the tests need: a minute or two, once."
	$(call install,$(INSTALL) -e '.[dev]' && $(INSTALL) --no-deps jax-privacy \
	  && $(COMPILE) $(OFTEN_IN_TESTS))
	@touch $@

demo: $(RUNS)
	@$(BIN)/airmix demo

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: lint
	$(PYTEST) -m "not long and not deploy"

test-long: $(READY)
	$(PYTEST) -m "long and not deploy"
	rm -rf runs/reproduce-quick
	$(MAKE) reproduce-quick

# Each in an environment of its own; the installed versions are printed before the tests.
test-lowest: build/lowest/.ready build/newest/.ready
	$(call quickest,lowest)
	$(call quickest,newest)

build/%/.ready: pyproject.toml constraints.txt tools/install.py tools/bounds.py src/airmixml/version.py
	@echo "Setting up build/$*: a minute or two, once."
	@mkdir -p $(VENV) build/$*
	$(call install,$(PYTHON) -m venv build/$* && build/$*/bin/python tools/bounds.py $* >build/$*/versions.txt \
	  && build/$*/bin/python tools/install.py -c build/$*/versions.txt -e '.[dev]' \
	  && build/$*/bin/python tools/install.py -c build/$*/versions.txt --no-deps jax-privacy \
	  && PYTHONDONTWRITEBYTECODE= build/$*/bin/python -c $(OFTEN))
	@touch $@

define quickest
	@echo "$(1) versions; torch is the build that was asked for, not the $(1):"
	@build/$(1)/bin/python -m pip --disable-pip-version-check freeze --exclude-editable | grep -iE \
	  '^(torch|numpy|scipy|scikit-learn|matplotlib|pillow|typer|rich|filelock|randomgen|pandas)==' | paste -sd ' '
	OMP_NUM_THREADS=1 build/$(1)/bin/pytest -n $(JOBS) --dist worksteal -m "not long and not slow and not deploy"
endef

# What needs Debian packages, and the kill matrix, which needs none and runs without them too.
test-deploy: $(READY)
	@dpkg -s $(DEBIAN) >/dev/null 2>&1 || { apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
	  apt-get install -y -qq --no-install-recommends $(DEBIAN) >$(LOG) 2>&1; } || { echo "make: ***"; \
	  echo "make: *** COULD NOT INSTALL $(DEBIAN)"; echo "make: *** tests that need them are SKIPPED"; echo "make: ***"; }
	$(PYTEST) -m deploy tests/deploy

soak: $(RUNS)
	OMP_NUM_THREADS=1 $(BIN)/python tools/soak.py --minutes $(MINUTES) --jobs $(JOBS) $(SOAK)

check: lint
	$(PYTEST) -m "not long and not slow and not deploy"

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

coverage: $(READY)
	$(PYTEST) -m "not long and not slow and not deploy" --cov --cov-report=
	@echo "coverage of the quickest tests: $$($(BIN)/coverage report --format=total) %"

docs: $(READY)
	@mkdir -p build
	$(BIN)/sphinx-build -W -n --keep-going -q -j $(JOBS) -d build/doctrees docs build/site
	@echo "site: build/site/index.html"

bench: $(READY)
	$(BIN)/python benchmarks/bench.py --device cpu --save

bench-gpu: $(READY)
	$(BIN)/python benchmarks/bench.py --device cuda --save

browser:
	@command -v chromium >/dev/null && command -v chromedriver >/dev/null \
	  || { apt-get update -qq && apt-get install -y -qq chromium chromium-driver; }

SEED ?= 1
COUNT ?= 60
mutants: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python tools/mutants.py --seed $(SEED) --count $(COUNT)

slow-list: $(READY)
	$(PYTEST) -m "not long and not deploy" --write-slow

reproduce-quick: $(READY)
	$(BIN)/airmix reproduce all --quick

clean:
	rm -rf $(VENV) runs build dist docs/generated docs/sg_execution_times.rst *.egg-info src/*.egg-info
