# SPDX-License-Identifier: BSD-3-Clause
"""Loops over the functions of the host's device library, compiled as kernels are.

What the tests of the host's functions and the measurement of them share
(docs/measurements/host_vector_math.md).
"""

from __future__ import annotations

import ctypes
import os
import pathlib
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

import torch

ROOT = pathlib.Path(__file__).parents[2]
DEVICE = ROOT / "csrc" / "device"
COMPILER = os.environ.get("CXX") or shutil.which("g++") or shutil.which("clang++")

CPP = {
    torch.float32: "float",
    torch.float64: "double",
    torch.int8: "int8_t",
    torch.uint8: "uint8_t",
    torch.int16: "int16_t",
    torch.int32: "int",
    torch.int64: "int64_t",
    torch.uint64: "uint64_t",
    torch.bool: "bool",
    torch.float16: "__half",
    torch.bfloat16: "__bfloat",
    torch.float8_e4m3fn: "__e4m3",
    torch.float8_e5m2: "__e5m2",
    torch.float8_e8m0fnu: "__e8m0",
    torch.complex64: "nvf::complex<float>",
    torch.complex128: "nvf::complex<double>",
}


def library_text(target: str) -> str:
    """Every piece of a target, in the order of embed.cmake."""
    order = re.findall(
        rf"^    ((?:common|{target})/\w+\.h)", (DEVICE / "embed.cmake").read_text(), re.M
    )
    parts = ["using nvfuser_index_t = int;\n"]
    for name in order:
        lines = (DEVICE / name).read_text().splitlines()
        parts.extend(x for x in lines if not x.startswith(("#pragma once", "#include")))
    text = "\n".join(parts)
    return text if target == "cuda" else text.replace("#pragma unroll\n", "#pragma GCC unroll 16\n")


def kernel_flags() -> list[str]:
    """What csrc/host/compiler.cpp compiles kernels with, for the compiler that is there."""
    text = (ROOT / "csrc" / "host" / "compiler.cpp").read_text()
    body = text[text.index("hostCompilerFlags() {") : text.index("struct CompilerRun")]
    flags = re.findall(r'"(-(?:std|w|f|m)[^"]*)"', body)
    unwanted = ("-fsanitize", "-fno-omit", "-fno-sanitize", "-ffast-math", "-ffp-contract=off")
    flags = [x for x in flags if not x.startswith((*unwanted, "-mcpu"))]
    if is_clang():
        flags = [x for x in flags if x not in ("-ftree-vectorize", "-fno-gnu-unique")]
        flags = [x for x in flags if not x.startswith("-fvect-cost-model")]
    return ["-O2", *flags, *sanitizer_flags()]


def sanitizer_flags() -> list[str]:
    """The library is checked as kernels are: NVFUSER_HOST_SANITIZE."""
    sanitizer = os.environ.get("NVFUSER_HOST_SANITIZE")
    return [f"-fsanitize={sanitizer}", "-fno-sanitize-recover", "-g"] if sanitizer else []


def is_clang() -> bool:
    return COMPILER is not None and "clang" in COMPILER


def compiler_major() -> int:
    """Of its version; 0: it does not say."""
    command = [*(COMPILER or "false").split(), "-dumpversion"]
    said = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    return int(said.split(".")[0]) if said[:1].isdigit() else 0


@dataclass(frozen=True)
class Loop:
    """`out[i] = expression` for operands a, b, c."""

    name: str
    operands: tuple[torch.dtype, ...]
    result: torch.dtype
    expression: str

    def source(self) -> str:
        parameters = "".join(
            f"const {CPP[t]}* __restrict {n}, " for t, n in zip(self.operands, "abc", strict=False)
        )
        return (
            f'extern "C" __attribute__((noinline)) void {self.name}({parameters}'
            f"{CPP[self.result]}* __restrict out, long n) {{\n"
            f"  for (long i = 0; i < n; ++i) out[i] = {self.expression};\n}}\n"
        )


def unary(name: str, operand: torch.dtype, result: torch.dtype | None = None) -> Loop:
    short = str(operand).removeprefix("torch.")
    identifier = re.sub(r"\W+", "_", f"{name}_{short}")
    return Loop(identifier, (operand,), result or operand, f"nvf::{name}(a[i])")


def compile_loops(
    loops: Sequence[Loop], folder: pathlib.Path, flags: Sequence[str] | None = None
) -> tuple[ctypes.CDLL, str]:
    """The loops in one shared object, and what the compiler says about vectorization."""
    text = library_text("host") + "\n" + "".join(x.source() for x in loops)
    return compile_text(text, folder, flags)


def compile_text(
    text: str, folder: pathlib.Path, flags: Sequence[str] | None = None
) -> tuple[ctypes.CDLL, str]:
    """A text that has the library before it, as compile_loops."""
    source = folder / "loops.cpp"
    source.write_text(text)
    target = folder / "loops.so"
    assert COMPILER is not None
    command = [
        COMPILER, *(kernel_flags() if flags is None else flags), "-fPIC", "-shared",
        "-o", str(target), str(source), "-lm",
    ]  # fmt: skip
    if not is_clang():
        command.append("-fopt-info-vec-optimized")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:10000]
    return ctypes.CDLL(str(target)), done.stderr


def run_loop(library: ctypes.CDLL, loop: Loop, *inputs: torch.Tensor) -> torch.Tensor:
    out = torch.empty(inputs[0].numel(), dtype=loop.result)
    pointers = [ctypes.c_void_p(t.data_ptr()) for t in (*inputs, out)]
    getattr(library, loop.name)(*pointers, ctypes.c_long(out.numel()))
    return out
