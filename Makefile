SHELL := /bin/bash
PYTHON ?= python3
ARGS ?=

BIN := $(CURDIR)/.venv/bin
STAMP := .venv/.demur-setup
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
TORCH := $(shell grep '^torch==' constraints.txt)

# The small policy has use for two threads and no more.
export OMP_NUM_THREADS ?= 2

# accelerate takes its defaults from $HF_HOME/accelerate/default_config.yaml. Giving it ours keeps the commands below
# exact, free of "defaults used instead" warnings, and the same on every machine. Hub cache and token stay in place.
HF_BASE := $(or $(HF_HOME),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/huggingface)
LAUNCH_ENV := PATH="$(BIN):$$PATH" HF_HOME="$(CURDIR)/.venv/huggingface" \
	HF_HUB_CACHE="$(or $(HF_HUB_CACHE),$(HF_BASE)/hub)" HF_TOKEN_PATH="$(or $(HF_TOKEN_PATH),$(HF_BASE)/token)"

# A second `make quickstart` starts anew, unless it says what to do with the run that is there.
AGAIN := $(if $(wildcard runs/quickstart/config.yaml),$(if $(filter --resume --run --overwrite,$(ARGS)),,--overwrite))

.PHONY: help setup quickstart tiny-policy bench-quickstart test lint format

help:  ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-18s%s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo "Pass options with ARGS, such as: make quickstart ARGS='--max_steps 5'"

setup: $(STAMP)  ## Make .venv with everything pinned in constraints.txt (a few minutes; a repeat is instant)

# torch goes first and alone: resolved together with the rest, pip may download gigabytes of CUDA packages.
$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "demur needs Python 3.11 or newer: make setup PYTHON=python3.11")'
	@echo "setup 1/3: virtual environment in .venv ($$($(PYTHON) --version))"
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@echo "setup 2/3: $(TORCH)"
	@$(PIP) install $(TORCH) setuptools -c constraints.txt
	@echo "setup 3/3: demur, editable, with its train and dev extras"
	@$(PIP) install --no-build-isolation -e '.[train,dev]' -c constraints.txt
	@mkdir -p .venv/huggingface/accelerate
	@ln -sf $(CURDIR)/configs/accelerate/one_process.yaml .venv/huggingface/accelerate/default_config.yaml
	@touch $@

quickstart: setup  ## Train the tiny policy with GRPO on a CPU and evaluate it before and after
	@echo "accelerate launch train/grpo.py --config configs/quickstart.yaml $(AGAIN) $(ARGS)"
	@$(LAUNCH_ENV) accelerate launch train/grpo.py --config configs/quickstart.yaml $(AGAIN) $(ARGS)

tiny-policy: setup  ## Make the tiny policy again that the quickstart starts from
	$(BIN)/python train/sft.py --config configs/tiny_policy.yaml $(ARGS)

bench-quickstart: setup  ## Time the quickstart and print its gains
	@$(LAUNCH_ENV) python benchmarks/quickstart.py $(ARGS)

test: setup  ## Run every test, the slow ones too
	$(BIN)/python -m pytest $(ARGS)

lint: setup  ## Check style, formatting and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: setup  ## Fix style and formatting
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
