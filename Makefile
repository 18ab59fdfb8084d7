# make demo    build, install into .venv, run one fusion and show what became of it
# make test    build, install into .venv, run the C++ and the Python tests
#
# Variables: PYTHON (interpreter to use; its torch is used if it is >= 2.10), TORCH (what to install otherwise),
# JOBS (parallel compiles), PYTEST_ARGS, GTEST_ARGS, DEVICE (cpu or cuda: where the Python tests run).

PYTHON ?= python3
TORCH ?= torch==2.13.0
JOBS ?= $(shell nproc)
PYTEST_ARGS ?=
GTEST_ARGS ?= --gtest_brief=1
DEVICE ?= cpu

VENV := .venv
VENV_READY := $(VENV)/setup.json
VENV_PYTHON := $(VENV)/bin/python
BUILD := build/dev
INSTALLED := $(VENV)/installed.stamp
# cmake and ninja come from the environment where the system has none.
WITH_TOOLS := PATH="$(PATH):$(CURDIR)/$(VENV)/bin"
SOURCES := $(shell find csrc python cmake -type f -not -name '*.pyc') CMakeLists.txt pyproject.toml README.md LICENSE

export CMAKE_BUILD_PARALLEL_LEVEL := $(JOBS)
export PYTHONUNBUFFERED := 1

.PHONY: demo test test-cpp test-python test-sanitized wheel bench stubs lint format clean help FORCE
.DEFAULT_GOAL := help

help:
	@sed -n '/^# make/p; /^# Variables/,/^$$/p' Makefile

demo: $(INSTALLED)
	@$(VENV_PYTHON) examples/demo.py

# Both suites run even if the first fails; pytest's summary closes the output.
test: $(INSTALLED) $(BUILD)/nvfuser_tests
	@status=0; \
	$(MAKE) --no-print-directory test-cpp || status=1; \
	$(MAKE) --no-print-directory test-python || status=1; \
	exit $$status

# The C++ tests use the NVRTC of the environment's package.
NVRTC_DIR = $(shell $(VENV_PYTHON) -c 'from nvfuse_direct._toolchain import nvrtc_directory; print(nvrtc_directory() or "")')
test-cpp: $(BUILD)/nvfuser_tests
	@echo "C++ tests"
	@NVFUSER_NVRTC_DIR="$(NVRTC_DIR)" $(BUILD)/nvfuser_tests $(GTEST_ARGS)

test-python: $(INSTALLED)
	@echo "Python tests"
	@$(WITH_TOOLS) $(VENV_PYTHON) -m pytest --device=$(DEVICE) -n $(JOBS) $(PYTEST_ARGS)

# Runs always, and touches the file only when the environment changed.
$(VENV_READY): FORCE
	@tools/need_packages.sh compiler
	@$(PYTHON) tools/setup_venv.py $(VENV) --torch '$(TORCH)'

$(INSTALLED): $(VENV_READY) $(SOURCES)
	@$(WITH_TOOLS) $(VENV_PYTHON) tools/install_package.py --build-dir $(BUILD)
	@touch $@

# The tests share the build tree of the installed package: its objects are not compiled twice.
$(BUILD)/nvfuser_tests: $(INSTALLED) $(wildcard tests/cpp/*)
	@tools/need_packages.sh gtest
	@$(WITH_TOOLS) cmake -S . -B $(BUILD) -DNVFUSER_BUILD_TESTS=ON >$(BUILD)/configure.log || { cat $(BUILD)/configure.log; exit 1; }
	@$(WITH_TOOLS) cmake --build $(BUILD) --target nvfuser_tests
	@touch $@

# The C++ tests in a build of their own with sanitizers: make test-sanitized SANITIZE=thread
SANITIZE ?= address,undefined
test-sanitized:
	@tools/need_packages.sh compiler gtest
	cmake -S . -B build/sanitized -DNVFUSER_SANITIZE=$(SANITIZE) -DNVFUSER_BUILD_TESTS=ON -DNVFUSER_BUILD_PYTHON=OFF
	cmake --build build/sanitized
	build/sanitized/nvfuser_tests $(GTEST_ARGS)

# A wheel for PYTHON, which needs no torch: make wheel PYTHON=python3.12
wheel:
	$(PYTHON) -m pip wheel . --no-deps --wheel-dir dist --config-settings=build-dir=build/wheel

bench: $(INSTALLED)
	@$(VENV_PYTHON) benchmarks/run.py

stubs: $(INSTALLED)
	@$(VENV_PYTHON) tools/generate_stubs.py nvfuse_direct._C_DIRECT -o python/nvfuse_direct

lint: $(VENV_READY)
	@$(VENV_PYTHON) -m pip install -q ruff clang-format clang-tidy
	@$(VENV)/bin/ruff check . && $(VENV)/bin/ruff format --check .
	@git ls-files '*.h' '*.cpp' '*.cuh' | xargs $(VENV)/bin/clang-format --dry-run --Werror
	@git ls-files 'csrc/*.cpp' | xargs -P $(JOBS) -n 4 $(VENV)/bin/clang-tidy -p $(BUILD) --quiet

format: $(VENV_READY)
	@$(VENV_PYTHON) -m pip install -q ruff clang-format
	@$(VENV)/bin/ruff check --fix-only -q . && $(VENV)/bin/ruff format .
	@git ls-files '*.h' '*.cpp' '*.cuh' | xargs $(VENV)/bin/clang-format -i

clean:
	rm -rf build dist $(VENV)
