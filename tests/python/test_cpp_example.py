# SPDX-License-Identifier: BSD-3-Clause
"""examples/cpp_pointwise configures, builds and runs against the installed package."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from nvfuse_direct._toolchain import nvrtc_directory
from nvfuse_direct.utils import cmake_prefix_path

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "cpp_pointwise"
DEVICE = os.environ.get("NVFUSER_TEST_DEVICE", "cpu")


def command(*arguments: str | Path) -> str:
    environment = dict(os.environ, NVFUSER_NVRTC_DIR=nvrtc_directory() or "")
    result = subprocess.run(
        list(map(str, arguments)),
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert result.returncode == 0, f"{result.args}\n{result.stdout}\n{result.stderr}"
    return result.stdout


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not (shutil.which("cmake") and shutil.which("c++")):
        pytest.skip("needs cmake and a C++ compiler")
    build = tmp_path_factory.mktemp("cpp_pointwise")
    command("cmake", "-S", EXAMPLE, "-B", build, f"-DCMAKE_PREFIX_PATH={cmake_prefix_path}")
    command("cmake", "--build", build)
    return build / "cpp_pointwise"


def test_runs_and_its_result_is_right(program: Path) -> None:
    output = command(program, DEVICE)
    assert "1961 elements, 0 wrong" in output


def test_prints_one_kernel_over_blocks_and_threads(program: Path) -> None:
    output = command(program, DEVICE)
    assert output.count("NVF_KERNEL(") == 1
    kernel = output[output.index("NVF_KERNEL(") :]
    for index in ("blockIdx.x", "threadIdx.x"):
        assert index in kernel, kernel
