# `make demo` and `make test` need Python 3.10 or newer with venv, and a package registry; they set up the rest in .venv.

PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python -m
# An environment knows the folder it was made for: in a copied checkout it is made anew.
HERE := $(shell printf %s "$(CURDIR)" | cksum | cut -d' ' -f1)
READY := $(VENV)/ready-$(HERE)
# The demo needs the package alone: some MB, not the hundreds of the tests.
PACKAGE := $(VENV)/package-$(HERE)

# One after the other, whatever MAKEFLAGS say: the tests come last.
.NOTPARALLEL:

.PHONY: bench healthy help demo test browser torch torch-where-it-is lint types package skill docs cluster unit format readme clean test-oldest audit bundle fuzz

help:
	@echo "make demo     find the NaN in the example dump (examples/dp2-tp2)"
	@echo "make test     all checks: lint, types, package, skill, docs, tests"
	@echo "make unit     the tests alone, but for those on a Ray cluster"
	@echo "make torch    the tests that need torch, in .venv-torch"
	@echo "make cluster  the tests on a Ray cluster"
	@echo "make skill    dist/nan-overflow-detection: the skill for machines with Python alone"
	@echo "make bundle   archives for machines without a network (docs/offline-install.md)"
	@echo "make test-oldest   tests with the oldest and the newest dependencies"
	@echo "make audit    known vulnerabilities of the dependencies"
	@echo "make fuzz     broken inputs for FUZZ_SECONDS (60), at random or led by coverage"
	@echo "make bench    how time and memory grow with ranks, steps, records; fails where it is more than in proportion"
	@echo "make healthy  models and parallel code under MSProbe: clean where healthy (a Python with torch, TORCH_PYTHON)"
	@echo "make format   format the code"
	@echo "make docs     the documentation as a site: build/site/index.html"
	@echo "make readme   renew the program output shown in the README files and in docs/"
	@echo "make clean    remove what make has made"

demo: $(PACKAGE)
	@echo '$$ firstnan analyze examples/dp2-tp2'
	@$(RUN) firstnan analyze examples/dp2-tp2 || test $$? -eq 1  # 1: an anomaly was found, as it should be

test: browser lint types package skill docs cluster torch-where-it-is unit

# Headless Chromium for the tests of HTML reports, on CI machines that have apt.
browser:
	@if [ "$(CI)" = true ] && [ -x tools/install_chromium.sh ] && command -v apt-get >/dev/null; then \
		tools/install_chromium.sh; fi

lint: $(READY)
	$(RUN) ruff check
	$(RUN) ruff format --check
	$(VENV)/bin/lint-imports

types: $(READY)
	$(RUN) mypy

package: $(READY)
	$(VENV)/bin/python tools/check_package.py

skill: $(PACKAGE)
	$(VENV)/bin/python tools/build_skill.py

docs: $(READY)
	NO_MKDOCS_2_WARNING=1 $(RUN) mkdocs --quiet build --strict --clean

# In a process of their own: Ray ends the process that uses it when one of its nodes is lost.
cluster: $(READY)
	$(VENV)/bin/python tools/check_ray.py

# In an environment of their own, so that those of the core stay light.
TORCH := .venv-torch
TORCH_READY := $(TORCH)/ready-$(HERE)
torch: $(TORCH_READY)
	$(TORCH)/bin/python -m pytest -m torch tests/recording tests/replaying

# On CI machines, where they have torch; elsewhere these tests are skipped, and `make torch` runs them.
torch-where-it-is:
	@if [ "$(CI)" != true ]; then echo "tests that need torch: skipped here, make torch runs them"; \
	elif $(MAKE) --no-print-directory $(TORCH_READY) >/dev/null 2>&1; then $(MAKE) --no-print-directory torch; \
	else echo "tests that need torch: skipped, it cannot be installed here"; fi

$(TORCH_READY): pyproject.toml
	$(CHECK_PYTHON)
	$(PYTHON) -m venv --clear $(TORCH)
	$(TORCH)/bin/python -m pip install --quiet --upgrade pip
	$(TORCH)/bin/python -m pip install --quiet --group torch --editable .
	@touch $@

# Last in `test`, so that the count of tests is the closing line.
unit: export FIRSTNAN_SCREENSHOTS := $(or $(FIRSTNAN_SCREENSHOTS),$(CURDIR)/build/screenshots)
unit: $(READY)
	@mkdir -p "$$FIRSTNAN_SCREENSHOTS"
	$(RUN) pytest --ignore=tests/test_ray_engine.py

# These need a package registry (fuzz does not), take longer, and are no part of `test`.
test-oldest: $(READY)
	$(VENV)/bin/python tools/check_dependency_range.py

audit: $(READY)
	$(VENV)/bin/python tools/audit_dependencies.py

bundle: $(READY)
	$(VENV)/bin/python tools/make_offline_bundle.py --check

FUZZ_SECONDS ?= 60
fuzz: $(READY)
	$(VENV)/bin/python fuzz/run.py --seconds $(FUZZ_SECONDS)

bench: $(READY)
	$(VENV)/bin/python benchmarks/scale.py

# Torch, transformers and mindstudio-probe are too much for every environment: the Python that has them is named.
TORCH_PYTHON ?= python3
healthy:
	PYTHONPATH=src OMP_NUM_THREADS=1 $(TORCH_PYTHON) benchmarks/healthy.py
	PYTHONPATH=src OMP_NUM_THREADS=1 $(TORCH_PYTHON) benchmarks/parallel.py

format: $(READY)
	$(RUN) ruff check --fix
	$(RUN) ruff format

readme: $(READY)
	$(VENV)/bin/python tools/mechanism_pages.py
	$(VENV)/bin/python tools/command_pages.py
	$(VENV)/bin/python tools/readme_output.py
	$(VENV)/bin/python tools/docs_output.py

clean:
	rm -rf $(VENV) $(TORCH) dist build .mypy_cache .pytest_cache .ruff_cache .hypothesis

define CHECK_PYTHON
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "Python 3.10 or newer is needed, this is " + sys.version.split()[0] + ": make PYTHON=python3.x ...")'
endef

$(PACKAGE): pyproject.toml
	$(CHECK_PYTHON)
	@echo "Setting up $(VENV) ..."
	test -f $(READY) || { $(PYTHON) -m venv --clear $(VENV) && $(RUN) pip install --quiet --editable .; }
	@touch $@

$(READY): pyproject.toml
	$(CHECK_PYTHON)
	@echo "Setting up $(VENV): several minutes, several hundred MB ..."
	$(PYTHON) -m venv --clear $(VENV)
	$(RUN) pip install --quiet --upgrade pip
	$(RUN) pip install --quiet --group dev --group browser --group docs --editable .
	-$(RUN) pip install --quiet --group remote --editable .  # without it, tests of remote stores are skipped
	@touch $@
