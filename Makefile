# Covenant. `make` alone says what there is. Everything runs from the clone; nothing is global.
PYTHON ?= python3.11
S ?=
BIN := .venv/bin
MANAGE := $(BIN)/python manage.py

.DEFAULT_GOAL := help
.PHONY: help demo test up down status logs shell check format doctor setup setup-dev lock

help: ## What there is to make
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: up ## From a fresh clone: set up, start, and take a real model from upload to rollback
	@$(MANAGE) seed_demo

test: setup-dev ## From a fresh clone: lint, types and all tests on real parts
	@$(MAKE) --no-print-directory check
	@# Real processes share the machine with the tests: one that is late is tried again, and listed.
	@$(BIN)/pytest -n 2 --dist loadgroup --reruns 2

up: setup ## Start the embedded stack; returns when every service is ready
	@$(MANAGE) up

down: ## Stop the embedded stack; data are kept
	@$(MANAGE) down

status: ## Show the services: state, ports, memory
	@$(MANAGE) status

logs: ## Follow one service's log: make logs S=web
	@$(MANAGE) logs $(S)

shell: ## A Django shell
	@$(MANAGE) shell

check: setup-dev ## Lint and types only
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/djlint --lint --quiet templates
	$(BIN)/djade --check --target-version 5.2 $$(git ls-files 'templates/*.html')
	$(BIN)/pytest -q tests/structure/test_no_missing_migrations.py
	COVENANT_BASE_URL=https://covenant.example.com $(MANAGE) check --deploy --fail-level WARNING

format: setup-dev ## Format code and templates
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .
	@# Its exit code says that it changed something.
	-@$(BIN)/djade --target-version 5.2 $$(git ls-files 'templates/*.html')

doctor: ## Check each thing that Covenant depends on, and how to mend it
	@$(MANAGE) doctor

setup: ## Virtual environments and packages (again: nothing to do)
	@$(PYTHON) deploy/setup.py

setup-dev:
	@$(PYTHON) deploy/setup.py --dev

lock: setup-dev ## Resolve the requirement files anew into the lock files
	@$(PYTHON) deploy/setup.py --dev --lock
