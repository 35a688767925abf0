# Every target makes .venv by itself; PYTHON picks the interpreter (3.11 or newer).
PYTHON ?= python3
BIN := .venv/bin
VENV := .venv/.installed

.PHONY: coverage test check bench clean

coverage: $(VENV)  ## judge every dump in testdata/ and print its tables
	$(BIN)/pytest -v -k TestInterfaceUse

test: $(VENV)  ## run every test that needs no server
	$(BIN)/pytest -m "not integration"

check: $(VENV)  ## lint, format and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)  ## time the suite against json.load; takes some minutes
	$(BIN)/python -m benchmarks.bench

clean:  ## remove what the other targets made
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(VENV): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and f"Python 3.11 or newer is needed, {sys.executable} is {sys.version.split()[0]}: make PYTHON=/path/to/python3.11 ...")'
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@
