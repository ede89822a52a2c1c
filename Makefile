# Two commands do everything, each in a virtual environment of the project's own:
#   make demo    train on generated data, print the guarantee, write the privacy statement
#   make test    lint, types, tests
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.PHONY: help check demo test lint types unit floors pythons bench audit lenskit docs clean

help:  ## this list
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

KERNELS := hatch_build.py $(wildcard src/discreet/kernels/*.[ch])

$(VENV)/.core: pyproject.toml $(KERNELS) | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable .
	@touch $@

$(VENV)/.dev: pyproject.toml $(KERNELS) | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $@ $(VENV)/.core

demo: $(VENV)/.core  ## train a private recommender on generated data: its accuracy, its guarantee, its statement
	$(BIN)/discreet demo

test: lint types unit  ## lint, types and tests

# For the edit loop, in about a minute: what breaks first when something is wrong.
QUICK := tests/privacy/test_statistics.py tests/privacy/test_entries.py tests/privacy/test_exact_sums.py \
    tests/privacy/test_guarantee.py tests/privacy/test_ledger.py tests/models/test_fold_in.py tests/models/test_baselines.py \
    tests/models/test_unknown_cases.py tests/data/test_interactions.py tests/recommend tests/test_package.py
check: lint types  ## lint, types and the quick tests, for the edit loop
	$(BIN)/python -m pytest -q -m 'not slow' -n auto --dist worksteal $(QUICK)

lint: $(VENV)/.dev  ## style, and which package imports which
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-cache
	$(BIN)/vulture

types: $(VENV)/.dev  ## mypy --strict
	$(BIN)/mypy

# The trust base is covered by its own tests, every line and branch; the others run without being traced, in less time.
GATED  := tests/privacy
PYTEST := $(BIN)/python -m pytest -m 'not slow' -n auto --dist worksteal

unit: $(VENV)/.dev  ## the tests alone
	scripts/install-system postgresql java chromium
	$(PYTEST) $(GATED) --cov --cov-report=
	$(BIN)/python -m coverage report --fail-under=100 --show-missing
	$(PYTEST) $(GATED:%=--ignore=%)

# The lowest versions that pyproject.toml allows of everything that users install. The tools
# of the tests are the newest that go with them. An old library that warns of a newer one works all the same, so warnings
# are not errors here.
FLOORS := .venv-floors
EXTRAS := plot spark serve postgres ann tune excel
comma  := ,
TOOLS  := pytest pytest-xdist hypothesis mpmath prv-accountant pandas polars zstandard xlwt httpx2 pyyaml
FLOOR_TESTS := tests/privacy tests/data tests/models/test_conformance.py \
    tests/models/als/test_model.py tests/models/test_storage.py tests/cli/test_every_command.py tests/cli/test_train.py \
    tests/cli/test_evaluate.py tests/recommend tests/evaluate/test_curves.py tests/tune/test_no_budget.py tests/kernels

$(FLOORS)/.lowest: pyproject.toml
	$(PYTHON) -m venv --clear $(FLOORS)
	$(FLOORS)/bin/python -m pip install --quiet uv
	$(FLOORS)/bin/uv pip compile --quiet --python $(FLOORS)/bin/python --resolution lowest-direct \
	    $(EXTRAS:%=--extra %) --output-file $(FLOORS)/lowest.txt pyproject.toml
	$(FLOORS)/bin/uv pip install --quiet --python $(FLOORS)/bin/python -r $(FLOORS)/lowest.txt $(TOOLS)
	$(FLOORS)/bin/uv pip install --quiet --python $(FLOORS)/bin/python --no-deps --editable .
	@touch $@

floors: $(FLOORS)/.lowest  ## tests with the lowest versions allowed; PYTHON=python3.10 chooses the interpreter
	PYSPARK_PYTHON=$(CURDIR)/$(FLOORS)/bin/python $(FLOORS)/bin/python -m pytest -m 'not slow' -n auto --dist worksteal \
	    -W default $(FLOOR_TESTS)

# The newest versions, with every Python from 3.10 on that is installed here; the ones that are not are named.
PYTHONS ?= python3.10 python3.11 python3.12 python3.13 python3.14
pythons: pyproject.toml  ## the tests of `floors` with the newest versions, for each Python that there is
	@for python in $(PYTHONS); do \
	    if ! $$python --version >/dev/null 2>&1; then echo "$$python: not installed here, so not tested" >&2; continue; fi; \
	    home=.venv-$$python; [ -e $$home/bin/pytest ] || { $$python -m venv --clear $$home && \
	        $$home/bin/python -m pip install --quiet --editable '.[$(subst $() ,$(comma),$(EXTRAS))]' $(TOOLS); } || exit 1; \
	    echo "$$python: $$($$home/bin/python --version)"; \
	    PYSPARK_PYTHON=$(CURDIR)/$$home/bin/python $$home/bin/python -m pytest -q -m 'not slow' -n auto --dist worksteal \
	        -W default $(FLOOR_TESTS) || exit 1; \
	done

$(VENV)/.bench: pyproject.toml $(VENV)/.dev
	$(BIN)/python -m pip install --quiet --editable '.[dev,bench]'
	@touch $@

bench: $(VENV)/.bench  ## speed, as ratios measured side by side
	for script in benchmarks/*.py; do $(BIN)/python $$script || exit 1; done

$(VENV)/.audit: pyproject.toml $(VENV)/.dev
	$(BIN)/python -m pip install --quiet --editable '.[dev,audit]' || \
	    echo "jax-privacy could not be installed: our auditor is not compared with it" >&2
	@touch $@

audit: $(VENV)/.audit  ## the slow statistical tests of the guarantee, and an audit of every model: audit.html
	scripts/install-system java
	$(BIN)/python -m pytest -m slow
	$(BIN)/python -m pytest tests/audit/test_distinguishing.py -k the_same
	$(BIN)/discreet audit --all --full --zoo --attack --report audit.html

# LensKit brings PyTorch and older pandas, so it has an environment of its own.
LENSKIT := .venv-lenskit
$(LENSKIT)/.done: pyproject.toml $(KERNELS)
	$(PYTHON) -m venv --clear $(LENSKIT)
	$(LENSKIT)/bin/python -m pip install --quiet --editable '.[lenskit]' pytest pytest-xdist hypothesis
	@touch $@

lenskit: $(LENSKIT)/.done  ## LensKit's own tests of scorers, passed by ours
	$(LENSKIT)/bin/python -m pytest -n auto -W default tests/test_lenskit.py

docs: $(VENV)/.dev  ## the site: site/index.html; every link and every snippet is checked
	$(BIN)/python scripts/reference.py docs/guide/reference.md
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	$(BIN)/python -m pytest tests/docs

clean:  ## remove the virtual environments and caches
	rm -rf $(VENV) $(VENV)-* site .pytest_cache .mypy_cache .ruff_cache .hypothesis
