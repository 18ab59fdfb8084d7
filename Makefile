# SPDX-License-Identifier: BSD-3-Clause
# Targets (make help shows this list):
#
#   demo            build, install into .venv, run one fusion and show what became of it
#   test            build, install into .venv, run the C++ and the Python tests
#   test-cpp        the C++ tests
#   test-python     the Python tests; on a GPU: make test-python DEVICE=cuda
#   test-host       the C++ and the Python tests on the schedules of the host itself; test runs those of GPUs
#   test-sanitized  the C++ tests in a build of their own with sanitizers: SANITIZE=thread or address,undefined
#   test-sanitized-kernels  the Python tests, kernels of the host built with sanitizers: the same SANITIZE
#   bench           ours, eager torch and torch.compile in one run, on the GPU or the CPU (benchmarks/README.md)
#   wheel           a wheel in dist/ for PYTHON, which needs no torch
#   stubs           write python/nvfuse_direct/_C_DIRECT/*.pyi anew, after a change of the bindings
#   lint            ruff, clang-format and mypy, in the versions of tools/lint_requirements.txt; changes nothing
#   tidy            clang-tidy over csrc/, which takes minutes
#   format          format all C++ and Python files
#   clean           remove build/, dist/ and .venv/
#   help            this text
#
# Variables: PYTHON (interpreter to use; its torch is used if it is >= 2.10), TORCH (what to install otherwise),
# JOBS (parallel compiles), PYTEST_ARGS, GTEST_ARGS, DEVICE (cpu or cuda: where the Python tests run),
# INSTALL_PACKAGES=0 (never install a missing g++ or GoogleTest with apt, which root does after saying so).

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

export INSTALL_PACKAGES ?= 1
export CMAKE_BUILD_PARALLEL_LEVEL := $(JOBS)
export PYTHONUNBUFFERED := 1

.PHONY: demo test test-cpp test-python test-host test-sanitized test-sanitized-kernels wheel bench stubs lint tidy format clean help FORCE
.DEFAULT_GOAL := help

help:
	@sed -n '/^# Targets/,/^$$/s/^# \{0,1\}//p' Makefile

demo: $(INSTALLED)
	@$(VENV_PYTHON) examples/demo.py

# Both suites run even if the first fails; pytest's summary closes the output.
test: $(INSTALLED) $(BUILD)/nvfuser_tests
	@status=0; \
	$(MAKE) --no-print-directory test-cpp || status=1; \
	$(MAKE) --no-print-directory test-python || status=1; \
	exit $$status

# The C++ tests use the NVRTC of the environment's package. Processes run small shares of them, which
# take different times.
GTEST_SHARES = $(shell echo $$((4 * $(JOBS))))
NVRTC_DIR = $(shell $(VENV_PYTHON) -c 'from nvfuse_direct._toolchain import nvrtc_directory; print(nvrtc_directory() or "")')
test-cpp: $(BUILD)/nvfuser_tests
	@echo "C++ tests"
	@seq 0 $$(($(GTEST_SHARES) - 1)) | NVFUSER_NVRTC_DIR="$(NVRTC_DIR)" GTEST_TOTAL_SHARDS=$(GTEST_SHARES) \
	xargs -P $(JOBS) -I{} env GTEST_SHARD_INDEX={} $(BUILD)/nvfuser_tests $(GTEST_ARGS)

# Threads of torch that wait leave their core to other workers and to compilers.
test-python: export OMP_WAIT_POLICY = passive
test-python: $(INSTALLED)
	@echo "Python tests"
	@$(WITH_TOOLS) $(VENV_PYTHON) -m pytest --device=$(DEVICE) -n $(JOBS) --dist worksteal $(PYTEST_ARGS)

# Tests that name a machine are the same as in `test`.
test-host: export NVFUSER_MACHINE = host
test-host: $(INSTALLED) $(BUILD)/nvfuser_tests
	@status=0; \
	$(MAKE) --no-print-directory test-cpp || status=1; \
	$(MAKE) --no-print-directory test-python PYTEST_ARGS='-m "not machine" $(PYTEST_ARGS)' || status=1; \
	exit $$status

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

SANITIZE ?= address,undefined
test-sanitized:
	@tools/need_packages.sh compiler gtest
	cmake -S . -B build/sanitized -DNVFUSER_SANITIZE=$(SANITIZE) -DNVFUSER_BUILD_TESTS=ON -DNVFUSER_BUILD_PYTHON=OFF \
	  -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON
	cmake --build build/sanitized
	build/sanitized/nvfuser_tests $(GTEST_ARGS)

test-sanitized-kernels: $(INSTALLED)
	@$(WITH_TOOLS) $(VENV_PYTHON) tests/python/run_sanitized.py $(SANITIZE) -n $(JOBS) $(PYTEST_ARGS)

wheel:
	$(PYTHON) -m pip wheel . --no-deps --wheel-dir dist --config-settings=build-dir=build/wheel

bench: $(INSTALLED)
	@if $(VENV_PYTHON) -c 'import sys, torch; sys.exit(not torch.cuda.is_available())'; \
	then $(VENV_PYTHON) benchmarks/run.py; else $(VENV_PYTHON) benchmarks/cpu.py; fi

stubs: $(INSTALLED)
	@$(VENV_PYTHON) tools/generate_stubs.py nvfuse_direct._C_DIRECT -o python/nvfuse_direct

# The tools are installed once, and again when their versions change.
LINT_READY := $(VENV)/lint.stamp
$(LINT_READY): tools/lint_requirements.txt | $(VENV_READY)
	@$(VENV_PYTHON) -m pip install -q --disable-pip-version-check -r $<
	@touch $@

CXX_FILES = git ls-files '*.h' '*.cpp' '*.cuh'
lint: $(LINT_READY)
	@$(VENV)/bin/ruff check -q . && $(VENV)/bin/ruff format -q --check .
	@$(CXX_FILES) | xargs -P $(JOBS) -n 50 $(VENV)/bin/clang-format --dry-run --Werror
	@$(VENV)/bin/mypy --python-executable $(VENV_PYTHON) --cache-dir build/mypy python/nvfuse_direct examples tools

tidy: $(INSTALLED) $(LINT_READY)
	@git ls-files 'csrc/*.cpp' | xargs -P $(JOBS) -n 4 $(VENV)/bin/clang-tidy -p $(BUILD) --quiet

format: $(LINT_READY)
	@$(VENV)/bin/ruff check --fix-only -q . && $(VENV)/bin/ruff format .
	@$(CXX_FILES) | xargs -P $(JOBS) -n 50 $(VENV)/bin/clang-format -i

clean:
	rm -rf build dist $(VENV)
