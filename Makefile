# Two commands for a new machine with python3 >= 3.11, pip, venv and make: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
OUT ?= out
# Tests run side by side; each worker keeps to one core's worth of threads.
WORKERS ?= 2

.PHONY: demo test check lint validate bench docs notebooks bugs mutants clean

demo: $(VENV)/.demo
	$(BIN)/isotherm reproduce gaussian --quick --out $(OUT)/gaussian

# Types and shapes at run time are checked in the fast tests alone: it takes a third of the time.
test: check
	$(BIN)/python -m pytest -o addopts="-q --import-mode=importlib --strict-markers --strict-config" -m slow -n $(WORKERS)
	$(BIN)/isotherm validate --quick --out $(OUT)/validation

check: lint
	$(BIN)/python -m pytest -m "not slow" -n $(WORKERS)

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyrefly check
	$(BIN)/lint-imports

# Every sampler on posteriors known exactly, in full: about half an hour.
validate: $(VENV)/.dev
	$(BIN)/isotherm validate --out $(OUT)/validation

# What a step costs, and what it buys; what the driver costs; the untuned default beside NUTS, HMCECS and Laplace.
bench: $(VENV)/.dev
	$(BIN)/isotherm bench --out $(OUT)/bench
	$(BIN)/python benchmarks/driver.py --out $(OUT)/bench
	$(BIN)/python benchmarks/tall --out $(OUT)/tall

# The documentation site; a warning is an error. Its code blocks are run by `make test`.
docs: $(VENV)/.dev
	$(BIN)/sphinx-build -W --keep-going -q -b html docs docs/_build
	@echo "open docs/_build/index.html"

# Runs the notebooks of the documentation and stores their outputs in them.
notebooks: $(VENV)/.dev
	$(BIN)/python docs/notebooks/run.py

# Plants known mistakes one by one and shows which test notices each: docs/planted-bugs.md.
bugs: $(VENV)/.dev
	cd tests && ../$(BIN)/python -m planted --jobs $(WORKERS)

# Changes 150 random places one by one and shows which test notices each: docs/mutants.md. Takes hours.
mutants: $(VENV)/.dev
	cd tests && ../$(BIN)/python -m mutants --jobs $(WORKERS) --out ../$(OUT)/mutants.json --resume --page

$(VENV)/.created:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "isotherm needs Python 3.11 or newer; set PYTHON=/path/to/python3."; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.demo: pyproject.toml constraints.txt | $(VENV)/.created
	$(PIP) -e '.[all]'
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(VENV)/.created
	$(PIP) -e '.[all,dev]'
	@touch $@ $(VENV)/.demo

clean:
	rm -rf $(VENV) $(OUT)
