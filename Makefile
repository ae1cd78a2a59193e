PYTHON_IN_VENV := .venv/bin/python
CHECKED := agent_dev tui tests benchmarks

# Permissions do not apply to root: run root's tests as an ordinary user, in a copy of this checkout.
AS_USER := $(if $(filter 0,$(shell id -u)),.ci/as-user)
# Tests wait for processes, terminals and the disk half of the time.
export PYTEST_XDIST_AUTO_NUM_WORKERS ?= $(shell expr $$(nproc) \* 2)
PYTEST := .ci/in-memory $(AS_USER) $(PYTHON_IN_VENV) -m pytest -q -n auto --dist loadfile

# These fork pytest thousands of times, which takes twice as long in a process that has collected all tests: run them alone.
FORKING_TESTS := tests/disk tests/faults tests/histories

REAL_AGENTS := tests/sandbox/agents/test_real_agents.py tests/sandbox/agents/test_agents_network.py

.PHONY: help setup demo test test-all test-agents check bench clean

help: ## List the targets
	@sed -n 's/^\([a-z-]*\):.*## /make \1\t/p' $(MAKEFILE_LIST) | expand -t 14

setup: ## Install missing packages, and agent-dev into .venv
	@.ci/setup

demo: ## Set up, then show the main use in a throw-away repository
	@.ci/setup
	@.ci/demo

test: ## Set up, then run a share of the tests as an ordinary user (see CONTRIBUTING.md)
	@.ci/setup --tests
	AGENT_DEV_TEST_SCALE=$${AGENT_DEV_TEST_SCALE:-5} $(PYTEST)

test-all: ## Set up, then run every test as an ordinary user
	@.ci/setup --tests
	$(PYTEST) $(FORKING_TESTS)
	$(PYTEST) $(addprefix --ignore=,$(FORKING_TESTS))

test-agents: ## Set up, then install all sixteen agents, let each do a task, and report which passed (see CONTRIBUTING.md)
	@.ci/setup --tests
	AGENT_DEV_TEST_AGENTS=$${AGENT_DEV_TEST_AGENTS:-all} $(AS_USER) $(PYTHON_IN_VENV) -m pytest -q -n $(shell expr $$(nproc) \* 2) $(REAL_AGENTS) $(if $(ONLY),-k '$(ONLY)')

check: ## Run the linters, the type check and the import contracts
	@.ci/setup
	.venv/bin/ruff check $(CHECKED)
	.venv/bin/ruff format --check $(CHECKED)
	.venv/bin/mypy $(CHECKED)
	.venv/bin/lint-imports

bench: ## Run all benchmarks and write docs/benchmarks.md
	@.ci/setup --tests
	$(PYTHON_IN_VENV) -m benchmarks

clean: ## Remove build results, .venv and downloaded tools
	rm -rf .venv .tools build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
