# SPDX-License-Identifier: BSD-3-Clause
"""What is said where there is no NVRTC, or one that does not work."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import nvfuse_direct
import pytest

extension = pytest.importorskip("nvfuse_direct._C_DIRECT")

KERNEL = "NVF_KERNEL(k, 32, (Tensor<float, 1, 1> T0)) { T0[threadIdx.x] = 1.0f; }"
# Compiles for sm_90 with the NVRTC of the folder argv[1]; prints where it is from and the error.
PROGRAM = f"""
import sys
from nvfuse_direct import _C_DIRECT as extension
extension._interop.set_nvrtc_path(sys.argv[1])
print(extension._interop.toolchain()["nvrtc"] or "none")
try:
    extension._compile_cubin({KERNEL!r}, 90, False)
    print("compiled")
except Exception as error:
    print(error)
"""
# An NVRTC with all functions; compiling gives STATUS.
FAKE = """
#include <stddef.h>
#include <string.h>
int nvrtcVersion(int* major, int* minor) { *major = 12; *minor = 8; return 0; }
const char* nvrtcGetErrorString(int result) {
  return result == 6 ? "NVRTC_ERROR_COMPILATION" : "NVRTC_ERROR";
}
int nvrtcGetNumSupportedArchs(int* n) { *n = 1; return 0; }
int nvrtcGetSupportedArchs(int* archs) { archs[0] = 90; return 0; }
int nvrtcCreateProgram(void** p, const char* t, const char* n, int c, void* h, void* i) {
  return CREATED;
}
int nvrtcDestroyProgram(void** p) { return 0; }
int nvrtcCompileProgram(void* p, int n, void* options) { return STATUS; }
int nvrtcGetCUBINSize(void* p, size_t* size) { return 1; }
int nvrtcGetCUBIN(void* p, char* c) { return 1; }
int nvrtcGetPTXSize(void* p, size_t* size) { return 1; }
int nvrtcGetPTX(void* p, char* c) { return 1; }
int nvrtcGetProgramLogSize(void* p, size_t* size) { *size = 10; return 0; }
int nvrtcGetProgramLog(void* p, char* log) { strcpy(log, "too warm!"); return 0; }
"""


def outcome(directory: Path) -> str:
    """The error, where no other NVRTC was found."""
    package = str(Path(nvfuse_direct.__file__).resolve().parent.parent)
    paths = [str(Path(extension.__file__).parent.parent), package, os.environ.get("PYTHONPATH", "")]
    nowhere = str(directory / "nowhere")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    env |= {"NVFUSER_NVRTC_DIR": "", "CUDA_HOME": nowhere, "CUDA_PATH": nowhere}
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(directory)],
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    found, _, error = result.stdout.partition("\n")
    if found != "none" and not found.startswith(str(directory.resolve())):
        pytest.skip(f"this process finds NVRTC elsewhere: {found}")
    assert error.strip() != "compiled"
    return error


def fake(directory: Path, text: str, status: int = 0, created: int = 0) -> None:
    compiler = extension._interop.toolchain()["host_compiler"]
    if not compiler:
        pytest.skip("no C++ compiler")
    source = directory / "fake.cpp"
    source.write_text('extern "C" {\n' + text + "}\n")
    library = str(directory / "libnvrtc.so.12")
    flags = [f"-DSTATUS={status}", f"-DCREATED={created}", "-shared", "-fPIC", "-o", library]
    subprocess.run([compiler, *flags, str(source)], check=True)


def test_no_nvrtc(tmp_path: Path) -> None:
    error = outcome(tmp_path)
    assert "Kernels for CUDA cannot be compiled: NVRTC" in error
    assert f"was not found in: {tmp_path}" in error
    assert "pip install nvidia-cuda-nvrtc" in error
    assert "Compiler error" not in error


def test_a_library_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "libnvrtc.so.12").write_text("not a library")
    error = outcome(tmp_path)
    assert f"{tmp_path} (which can not be opened: " in error
    assert "Compiler error" not in error


def test_a_library_that_lacks_functions(tmp_path: Path) -> None:
    fake(tmp_path, "int nvrtcVersion(int*, int*) { return 0; }\n")
    error = outcome(tmp_path)
    assert "NVRTC is too old, it lacks: nvrtcGetErrorString" in error
    assert "Compiler error" not in error


@pytest.mark.parametrize(
    ("status", "created", "message"),
    [
        (7, 0, "NVRTC cannot compile for --gpu-architecture=sm_90a: NVRTC_ERROR"),
        (0, 3, "NVRTC: creating a program failed: NVRTC_ERROR"),
        (0, 0, "NVRTC: getting the result failed"),
    ],
)
def test_a_library_that_fails(tmp_path: Path, status: int, created: int, message: str) -> None:
    fake(tmp_path, FAKE, status, created)
    error = outcome(tmp_path)
    assert message in error
    assert "Compiler error" not in error


def test_a_kernel_that_is_refused(tmp_path: Path) -> None:
    """Our kernel is to blame: the text and the log are shown."""
    fake(tmp_path, FAKE, status=6)
    error = outcome(tmp_path)
    assert "NVRTC did not accept kernel" in error
    assert "NVRTC_ERROR_COMPILATION" in error
    assert "too warm" in error
    assert "T0[threadIdx.x] = 1.0f" in error
