# `make demo` and `make test` do everything on a fresh machine with Python 3.11 or newer, Node.js 20 or newer and npm.
PYTHON ?= python3
CHROMIUM ?= /usr/bin/chromium
BIN := .venv/bin
SUDO := $(if $(filter 0,$(shell id -u)),,sudo)

PYTHON_TESTS := --ignore=tests/lab --ignore=tests/packaging
UNOPTIMISED := --xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true

FRONT_END := build/front-end
FRONT_END_SOURCES := package.json js/install.json $(wildcard js/*.mjs) $(shell find js/src -type f)

# An editable install would build the front end once more, in an environment of its own.
export JAXMAGIC_SKIP_JS := 1
export JAX_PLATFORMS ?= cpu

.PHONY: demo test lint python-tests identity-tests core-tests shell-tests browser-tests packaging-tests test-oldest test-newest bench screenshots front-end clean

demo: .venv/installed
	$(BIN)/python examples/demo.py

test: lint python-tests browser-tests packaging-tests

lint: .venv/installed
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	npx pyright --pythonpath $(BIN)/python
	npm run --silent lint
	npm run --silent types
	npm test --silent

python-tests: identity-tests core-tests shell-tests

# That a tap changes no result is shown of machine code as LLVM optimises it. All else is about JAX's Python, and a
# quarter faster without.
identity-tests: .venv/installed
	$(BIN)/python -m pytest tests/core/test_identity.py

core-tests: .venv/installed
	XLA_FLAGS='$(UNOPTIMISED)' $(BIN)/python -m pytest tests/core --ignore=tests/core/test_identity.py

shell-tests: .venv/installed
	XLA_FLAGS='$(UNOPTIMISED)' $(BIN)/python -m pytest $(PYTHON_TESTS) --ignore=tests/core

browser-tests: .venv/installed $(CHROMIUM)
	$(BIN)/python -m pytest tests/lab

packaging-tests: .venv/installed
	$(BIN)/python -m pytest tests/packaging

# The browser and the packaging tests don't depend on the pair of Python and JAX, nor do those marked `one_pair`. Of a
# test with several cases each of the two pairs runs every second, all on `python-tests`: XLA compiles for minutes.
test-oldest: CASES := first
test-newest: CASES := second
test-oldest test-newest: test-%: .venv-%/installed
	XLA_FLAGS='$(UNOPTIMISED)' .venv-$*/bin/python -m pytest $(PYTHON_TESTS) -m 'not one_pair' --half=$(CASES)

bench: .venv/installed
	$(BIN)/python benchmarks

screenshots: .venv/installed $(CHROMIUM)
	PYTHONPATH=tests/lab $(BIN)/python docs/screenshots.py

front-end: $(FRONT_END)

$(FRONT_END): node_modules/.package-lock.json $(FRONT_END_SOURCES)
	npm run --silent build
	@mkdir -p $(@D) && touch $@

# npm writes this file last.
node_modules/.package-lock.json: package-lock.json
	npm ci --silent
	@touch $@

.venv/installed: INTERPRETER = $(PYTHON)
.venv/installed: PACKAGES = -e '.[dev]'
.venv-oldest/installed: INTERPRETER = $$(.ci/python 3.11)
.venv-oldest/installed: PACKAGES = -e '.[test]' jax==0.8.3
.venv-newest/installed: INTERPRETER = $$(.ci/python newest)
.venv-newest/installed: PACKAGES = -e '.[test]'

# The front end comes first: installing copies the JupyterLab extension into the environment.
%/installed: pyproject.toml $(FRONT_END)
	test -x $*/bin/python || $(INTERPRETER) -m venv $*
	$*/bin/python -m pip install -qq $(PACKAGES)
	@touch $@

/usr/bin/chromium:
	$(SUDO) apt-get update -qq
	$(SUDO) apt-get install -qq --no-install-recommends chromium fonts-dejavu-core

clean:
	rm -rf .venv .venv-oldest .venv-newest build dist node_modules jaxmagic/static jaxmagic/labextension
