# Needs only make and Python >= 3.11. Everything else is fetched into .venv, locked and hashed.
.DEFAULT_GOAL := help
SHELL := /bin/bash

VENV := .venv
BIN := $(VENV)/bin
# Compiled while installing: else the first kernel does it, or, where nothing may be written beside the code, every one.
UV := $(BIN)/uv pip install --quiet --compile-bytecode --python $(BIN)/python
BUILT := cookbook/charts/vega_bundle.js cookbook/charts/specs.json
SETTINGS := $(VENV)/share/jupyter/lab/settings/overrides.json
NOTEBOOKS ?=
APP ?=
PYTHON ?= $(shell for name in python3.11 python3.12 python3.13 python3.14 python3 python; do \
	$$name -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$name && break; done)

.PHONY: help lab app test test-more test-all test-processor notebooks lint lock bench browser-figures peers site student release binder-links binder-image validate-data data-readme refresh-prices calibrate validate clean

# Thousands of small solves in two processes: threads of the linear algebra would only wait for one another.
test test-more notebooks calibrate validate: export OMP_NUM_THREADS := 1

help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /make \1\t/' | expand -t 20

lab: $(VENV)/lab.stamp $(VENV)/package.stamp ## Set up and open JupyterLab on the first notebook (LAB=… for its options)
	$(BIN)/jupyter lab --LabApp.default_url=/lab/tree/notebooks/00-start-here.ipynb \
		$(if $(filter 0,$(shell id -u)),--allow-root) $(LAB)

app: $(VENV)/lab.stamp $(VENV)/package.stamp ## Serve all panels to this machine's browser (APP="--bind 0.0.0.0" for a room, with a token)
	$(BIN)/python -m cookbook app $(APP)

test: $(VENV)/test.stamp $(VENV)/package.stamp ## Set up and run the tests of a change
	@status=0; set -x; \
	$(BIN)/python -m pytest -n 2 --dist loadgroup -m "not browser and not alone and not all" --benchmark-disable || status=1; \
	$(BIN)/python -m pytest tests/browser -n 2 --dist loadgroup -m "not all" || status=1; \
	$(BIN)/python -m pytest tests/benchmarks -m "not all" --benchmark-disable || status=1; \
	exit $$status

test-more: $(VENV)/test.stamp $(VENV)/package.stamp ## Run what takes longer: types, sets of parameters, long tables, every control and example
	@status=0; set -x; export COOKBOOK_EXAMPLES=all; \
	$(BIN)/python -m pytest -n 2 --dist loadgroup -m "(all or hypothesis) and not alone and not browser" --benchmark-disable || status=1; \
	$(BIN)/python -m pytest tests/browser -n 2 --dist loadgroup -m all || status=1; \
	$(BIN)/python -m pytest tests/benchmarks -m all --benchmark-disable || status=1; \
	exit $$status

KERNELS ?= Prescott
DISABLED ?= X86_V3 X86_V4 AVX512_ICL AVX512_SPR
THREADS ?= 1
test-processor: export OPENBLAS_CORETYPE := $(KERNELS)
test-processor: export NPY_DISABLE_CPU_FEATURES := $(DISABLED)
test-processor: export OMP_NUM_THREADS := $(THREADS)
test-processor: $(VENV)/test.stamp $(VENV)/package.stamp ## Test, all recipes too, as on another processor (KERNELS=, DISABLED=, THREADS=)
	$(BIN)/python tests/processor.py
	@status=0; set -x; \
	$(BIN)/python -m pytest -n 2 --dist loadgroup -m "not browser and not alone and not all" --benchmark-disable || status=1; \
	$(BIN)/python -m pytest -n 2 tests/notebooks/test_crawl.py tests/calibration/test_kernels.py tests/topics/serving \
		-m all -k "running_again_changes_nothing or refitting or simulat" || status=1; \
	exit $$status

test-all: ## Run every test: test, then test-more
	@status=0; $(MAKE) test || status=1; $(MAKE) test-more || status=1; exit $$status

notebooks: $(VENV)/test.stamp $(VENV)/package.stamp ## Run the notebooks again and store them normalised (NOTEBOOKS=… for some)
	$(BIN)/python -m cookbook dev notebooks $(NOTEBOOKS)
	$(BIN)/python -m cookbook dev lint-notebooks $(NOTEBOOKS)

lint: $(VENV)/test.stamp $(VENV)/package.stamp ## Check style, notebooks included, and types
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/python -m cookbook dev lint-notebooks

bench: $(VENV)/test.stamp $(VENV)/package.stamp ## Measure import, prediction and notebook times
	$(BIN)/python -m pytest tests/benchmarks --benchmark-only --benchmark-columns=min,median,max,rounds

browser-figures: $(VENV)/test.stamp $(VENV)/package.stamp ## Time first charts and key presses in a browser, into build/browser-figures
	COOKBOOK_PRESSES=40 COOKBOOK_PICTURES=yes $(BIN)/python -m pytest -m browser -k "test_recipe and every"

peers: $(VENV)/test.stamp $(VENV)/package.stamp ## Ask other tools the questions of docs/peers.md, and score them (needs the network; PEERS="llmfit mlsysim")
	$(BIN)/python tests/benchmarks/peers/peer_run.py $(PEERS)

site: $(VENV)/test.stamp $(VENV)/package.stamp ## Build the documentation, slides of the courses too, into build/site; it opens without a network
	$(BIN)/sphinx-build -q -W --keep-going -c docs -d build/doctrees . build/site
	$(BIN)/python -m cookbook dev answers

student: $(VENV)/test.stamp $(VENV)/package.stamp ## Write copies without solutions to build/student
	$(BIN)/python -m cookbook dev student

release: $(VENV)/test.stamp $(VENV)/package.stamp ## Build wheel and source archive in build/release, and ask the wheel a question in a fresh environment
	rm -rf build/release
	$(BIN)/uv build --quiet --no-build-isolation --python $(BIN)/python --out-dir build/release
	$(BIN)/uv tool run --isolated --python $(BIN)/python --from build/release/*.whl cookbook what-runs --on rtx-4090

binder-links: $(VENV)/test.stamp $(VENV)/package.stamp ## Write launch links into README: REPO=owner/name TAG=v1.0.0
	$(BIN)/python -m cookbook dev binder-links "$(REPO)" "$(TAG)"

binder-image: $(VENV)/test.stamp ## Build the image that Binder builds, and import the package in it (needs Docker)
	$(BIN)/jupyter-repo2docker --no-run --user-id 1000 --user-name jovyan --image-name dl-cookbook-binder .
	docker run --rm dl-cookbook-binder python -c "import cookbook as cb; cb.models()"

validate-data: $(VENV)/lab.stamp $(VENV)/package.stamp ## Check every table of data/ against its schema
	$(BIN)/python -m cookbook dev check-data

refresh-prices: $(VENV)/lab.stamp $(VENV)/package.stamp ## Read public price catalogues into data/ (needs the network; CATALOGUES="azure aws")
	$(BIN)/python -m cookbook dev refresh-prices $(CATALOGUES)
	$(BIN)/python -m cookbook dev check-data

calibrate: $(VENV)/lab.stamp $(VENV)/package.stamp ## Fit the constants and intervals of training predictions anew
	$(BIN)/python -m cookbook dev calibrate
	$(BIN)/python -m cookbook dev data-readme

validate: $(VENV)/lab.stamp $(VENV)/package.stamp ## Judge predictions by measurements left out (BASELINE=--baseline: also what tests compare with)
	$(BIN)/python -m cookbook dev validate --write $(BASELINE) --markdown build/validation.md --json build/validation.json
	$(BIN)/python -m cookbook dev judge-storage --write
	$(BIN)/python tests/published/canonical.py
	$(BIN)/python tests/benchmarks/peers/peer_run.py --score
	$(BIN)/python -m cookbook dev data-readme

data-readme: $(VENV)/lab.stamp $(VENV)/package.stamp ## Count the rows of data/, write data/README.md from the schemas
	$(BIN)/python -m cookbook dev data-readme

COMPILE := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-annotate --custom-compile-command "make lock"
# From 4.25 on, with what JupyterLab asks for beside it, jsonschema builds a grammar at each import, which takes 0.9 s.
HELD_BACK := jsonschema<4.25
lock: $(VENV)/uv.stamp ## Write the locked requirements anew (UPGRADE=--upgrade for newer versions)
	$(COMPILE) $(UPGRADE) --extra lab -c <(echo "$(HELD_BACK)") pyproject.toml -o binder/requirements.txt
	$(COMPILE) $(UPGRADE) --extra test -c binder/requirements.txt pyproject.toml -o tests/requirements.txt
	echo uv | $(COMPILE) $(UPGRADE) -c tests/requirements.txt - -o tests/installer.txt

clean: ## Remove the environment and everything built
	rm -rf $(VENV) build docs/generated $(BUILT) .pytest_cache .ruff_cache .mypy_cache .hypothesis .benchmarks

# --- set-up; a stamp is newer than what it was made from, so a second call does nothing -----------------------
$(VENV)/uv.stamp: tests/installer.txt
	@test -n "$(PYTHON)" || { echo "No Python >= 3.11 with venv was found. Install one (Debian: python3-venv) or say PYTHON=/path/to/python." >&2; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r tests/installer.txt
	touch $@

$(VENV)/lab.stamp: $(VENV)/uv.stamp binder/requirements.txt binder/overrides.json
	$(UV) --require-hashes -r binder/requirements.txt
	mkdir -p $(dir $(SETTINGS)) && cp binder/overrides.json $(SETTINGS)
	touch $@

$(VENV)/test.stamp: $(VENV)/lab.stamp tests/requirements.txt
	$(UV) --require-hashes -r tests/requirements.txt
	touch $@

# Modules of charts and panels too: the build writes the specs of their charts.
$(VENV)/package.stamp: $(VENV)/uv.stamp pyproject.toml hatch_build.py $(wildcard cookbook/charts/*.py cookbook/panels/*.py cookbook/topics/*/charts.py cookbook/topics/*/*panel.py) $(if $(filter-out $(wildcard $(BUILT)),$(BUILT)),missing-built)
	$(UV) --no-deps -e .
	touch $@

.PHONY: missing-built
missing-built:
