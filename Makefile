# Every target works on a machine that has only Python 3.11 or newer: it makes .venv, installs what it
# needs at the versions of requirements.lock, and installs again only when pyproject.toml or the lock change.

PYTHON  ?= python3
WORKERS ?= $(shell getconf _NPROCESSORS_ONLN)
THREADS := 1

VENV := .venv
BIN  := $(VENV)/bin
PIP  := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint requirements.lock

# One thread a worker (oversubscribed cores slow small tensors down tenfold), no display, and a fresh
# numba cache (it does not see changes in functions imported from other files).
PYTEST = cache=$$(mktemp -d) && trap 'rm -rf "$$cache"' EXIT && \
	OMP_NUM_THREADS=$(THREADS) MKL_NUM_THREADS=$(THREADS) OPENBLAS_NUM_THREADS=$(THREADS) MPLBACKEND=Agg NUMBA_CACHE_DIR="$$cache" \
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal
QUICK  = -m "not slow and not gpu" $(TESTS)

# Other arithmetics, as other processors have them: (a) the narrowest vectors of every library, (b) half of the widest.
PORTABLE_a = ATEN_CPU_CAPABILITY=default OPENBLAS_CORETYPE=Haswell MKL_ENABLE_INSTRUCTIONS=AVX2 \
	ONEDNN_MAX_CPU_ISA=AVX2 NUMBA_CPU_NAME=generic
PORTABLE_b = ATEN_CPU_CAPABILITY=avx2 $(if $(shell grep -m1 -o avx512f /proc/cpuinfo 2>/dev/null),OPENBLAS_CORETYPE=SkylakeX)
# (c) Two threads and another order; half as many workers, so that the cores are not oversubscribed.
ORDER := $(or $(ORDER),$(shell od -An -N2 -tu2 /dev/urandom | tr -d ' '))
ONLY  ?= a b c

.PHONY: help demo test test-all test-portable test-margins lint format docs bench clean
.DELETE_ON_ERROR:

help:
	@echo "make demo      compare seven models on digits and write report.html"
	@echo "make test      the tests that take seconds"
	@echo "               SHIFT=k gives every seed another value, TESTS=... names files or folders"
	@echo "make test-all  all tests but those that need a GPU"
	@echo "make test-portable  make test thrice, as on other processors and in another order; ONLY=a, b or c runs one"
	@echo "make test-margins   how far each limit in the tests stands from what is measured, over seeds and arithmetics"
	@echo "make lint      ruff, mypy, import-linter"
	@echo "make format    let ruff rewrite what it can"
	@echo "make docs      build docs/_build/html; warnings are errors"
	@echo "make bench     ours beside the peers, printed as ratios"
	@echo "make clean     remove what the other targets made, but not .venv or runs"

demo: $(VENV)/.installed
	$(BIN)/benthic demo

test: $(VENV)/.installed-dev
	@export SHIFT=$(SHIFT); $(PYTEST) $(QUICK)

test-all: $(VENV)/.installed-dev
	@$(PYTEST) -m "not gpu" $(TESTS)

test-portable: $(patsubst %,test-portable-%,$(ONLY))

test-portable-a test-portable-b: test-portable-%: $(VENV)/.installed-dev
	@echo 'test-portable $*: $(PORTABLE_$*)'
	@export $(PORTABLE_$*); $(PYTEST) $(QUICK)

test-portable-c: THREADS := 2
test-portable-c: $(VENV)/.installed-dev
	@echo 'test-portable c: two threads, ORDER=$(ORDER)'
	@$(PYTEST) -n $$(( ($(WORKERS) + 1) / 2 )) --random-order --random-order-seed=$(ORDER) $(QUICK)

test-margins: $(VENV)/.installed-dev
	@$(BIN)/python -m tests.margins $(TESTS)

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.installed-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)/.installed-docs
	MPLBACKEND=Agg $(BIN)/python -m sphinx -W --keep-going -b html docs docs/_build/html
	@echo "open docs/_build/html/index.html"

bench: $(VENV)/.installed-bench
	$(BIN)/python -m benchmarks

clean:
	rm -rf docs/_build docs/auto_examples docs/api docs/sg_execution_times.rst
	rm -rf build *.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis report.html
	find benthic tests benchmarks docs examples -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Benthic needs Python 3.11 or newer; set PYTHON=...")'
	$(PYTHON) -m venv $(VENV)

# The pinned torch goes first and alone, so that no later step may choose another build of it.
$(VENV)/.installed: pyproject.toml requirements.lock | $(BIN)/python
	$(PIP) torch==2.13.0
	$(PIP) --editable .
	@touch $@

# torch-fidelity asks for torchvision, which its formulas do not need.
$(VENV)/.installed-bench: $(VENV)/.installed
	$(PIP) --editable '.[bench]'
	$(PIP) --no-deps torch-fidelity
	@touch $@

$(VENV)/.installed-%: $(VENV)/.installed
	$(PIP) --editable '.[$*]'
	@touch $@
