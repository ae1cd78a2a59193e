PYTHON_IN_VENV := .venv/bin/python
CHECKED := agent_dev tui tests benchmarks

.PHONY: help setup demo test check bench clean

help: ## Say what there is to make
	@sed -n 's/^\([a-z]*\):.*## /make \1\t/p' $(MAKEFILE_LIST) | expand -t 14

setup: ## Install what is missing, and agent-dev into .venv
	@.ci/setup

demo: ## Set up, then show the main job in a throw-away repository
	@.ci/setup
	@.ci/demo

test: ## Set up, then run every test
	@.ci/setup --tests
	$(PYTHON_IN_VENV) -m pytest -q -n auto --dist loadfile

check: ## Run the linters, the type check and the import contracts
	@.ci/setup
	.venv/bin/ruff check $(CHECKED)
	.venv/bin/ruff format --check $(CHECKED)
	.venv/bin/mypy $(CHECKED)
	.venv/bin/lint-imports

bench: ## Measure, as ratios against plain bwrap and the bare command
	@.ci/setup --tests
	$(PYTHON_IN_VENV) -m benchmarks

clean: ## Remove what was built, .venv and the fetched tools too
	rm -rf .venv .tools build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
