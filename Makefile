# Each target sets up what it needs in .venv. PYTHON may name another interpreter (3.11 or later).
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test lint bench clean

demo: $(VENV)/installed
	$(BIN)/june run examples/stdlib_report.py --input top=20

test: $(VENV)/test lint
	$(BIN)/python -m pytest -q

lint: $(VENV)/test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/bench
	$(BIN)/python -m benchmarks

$(VENV)/installed: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	    { echo "June needs Python 3.11 or later; say make PYTHON=python3.12, for instance"; exit 1; }
	rm -rf $(VENV)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --disable-pip-version-check -e .
	touch $@

$(VENV)/test: $(VENV)/installed
	$(BIN)/python -m pip install -q --disable-pip-version-check -e ".[test]"
	touch $@

$(VENV)/bench: $(VENV)/installed
	$(BIN)/python -m pip install -q --disable-pip-version-check -e ".[bench]"
	touch $@

clean:
	rm -rf $(VENV)
