# SPDX-License-Identifier: BSD-3-Clause
"""Options of the Python tests: where they run (`--device`), how long (`--long`), and the machine
that kernels for CPU tensors are scheduled for."""

from __future__ import annotations

import os
from collections.abc import Generator

import pytest
from nvfuse_direct import _C_DIRECT as extension

# On a CPU the tests run what GPUs do: barriers, shared memory. With NVFUSER_MACHINE=host (make
# test-host) they run on the schedules of the host itself, but for those of one machine, which say
# so: @pytest.mark.machine("hopper").
os.environ.setdefault("NVFUSER_MACHINE", "hopper")

# Kernels in the shape of a GPU's are compiled in half the time without optimization, and compiling
# is most of what the tests do. Those of the host itself are tested as its compiler makes them fast.
OPT_LEVEL = "NVFUSER_HOST_OPT_LEVEL"

# The IR is verified after each pass. What goes wrong is an InternalError, and so a failed test.
options = [os.environ.get("NVFUSER_ENABLE"), "verify_ir"]
os.environ["NVFUSER_ENABLE"] = ",".join(filter(None, options))


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("nvfuse")
    group.addoption(
        "--device",
        default=os.environ.get("NVFUSER_TEST_DEVICE", "cpu"),
        help="device of every tensor in the tests: cpu or cuda (also NVFUSER_TEST_DEVICE)",
    )
    group.addoption(
        "--long",
        action="store_true",
        default=bool(os.environ.get("NVFUSER_TEST_LONG")),
        help="long mode: thousands of random graphs instead of a couple of hundred",
    )


def pytest_configure(config: pytest.Config) -> None:
    # The test modules read the device while they are collected, so it travels by environment;
    # tests that start a process of their own hand it on in the same way.
    os.environ["NVFUSER_TEST_DEVICE"] = config.getoption("--device")
    if config.getoption("--long"):
        os.environ["NVFUSER_TEST_LONG"] = "1"
    plain = not (config.getoption("--long") or os.environ.get("NVFUSER_HOST_SANITIZE"))
    if plain and os.environ["NVFUSER_MACHINE"] != "host":
        os.environ.setdefault(OPT_LEVEL, "0")
    config.addinivalue_line("markers", "cuda: needs a CUDA device")
    config.addinivalue_line("markers", "machine(name): about the schedules of hopper, h200 or host")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """The machine of the test, its fixtures and the processes that it starts."""
    marker = item.get_closest_marker("machine")
    if marker is None or marker.args == (os.environ["NVFUSER_MACHINE"],):
        return (yield)
    (machine,) = marker.args
    # In this order: the process reads the variable when it first asks for the machine.
    with extension._ScheduledFor(machine), pytest.MonkeyPatch.context() as environment:
        environment.setenv("NVFUSER_MACHINE", machine)
        if machine == "host":
            environment.delenv(OPT_LEVEL, raising=False)
        return (yield)


@pytest.fixture
def long_mode(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--long"))
