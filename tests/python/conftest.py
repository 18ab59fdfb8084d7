"""Options of the Python tests: where they run (`--device`), how long (`--long`)."""

from __future__ import annotations

import os

import pytest

# On a CPU most tests are of what GPUs run: schedules, barriers, shared memory. Those of kernels for
# the host itself say so (test_host_schedules.py).
os.environ.setdefault("NVFUSER_MACHINE", "hopper")


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
    config.addinivalue_line("markers", "cuda: needs a CUDA device")


@pytest.fixture
def long_mode(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--long"))
