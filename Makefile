PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed

.PHONY: install demo test clean

install: $(STAMP)

# torch comes first and pinned, so that a CPU build at hand is used and nothing later replaces it.
$(STAMP): pyproject.toml constraints.txt Makefile
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[dev]"
	touch $(STAMP)

demo: install
	$(BIN)/whymask explain "$$($(BIN)/python -c 'from skimage.data import data_dir; print(data_dir)')/camera.png"

test: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest

clean:
	rm -rf .venv

# A sample of these is in the suite.
.PHONY: test-hostile
test-hostile: install
	WHYMASK_HOSTILE=full $(BIN)/python -m pytest tests/hostile
