# SPDX-License-Identifier: BSD-3-Clause
"""Kernels for the host under the sanitizers of g++: memory, undefined behaviour, threads.

More seeds: `python -m program_generator --sanitize address` and the same of `graph_generator`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from graph_generator import run_seeds as run_graphs
from helpers import LONG, ON_CUDA, run_python
from program_generator.workers import run_seeds as run_programs
from sanitizers import SANITIZERS, environment_of, fixed_addresses, reports, runtime_libraries

pytestmark = [
    pytest.mark.skipif(ON_CUDA, reason="kernels of CPU tensors"),
    pytest.mark.skipif(not runtime_libraries("address"), reason="needs g++ and its sanitizers"),
]

# Blocks for both threads.
PROGRAM = """
import torch
from nvfuse_direct import FusionDefinition

x = torch.randn(1000000)
with FusionDefinition() as fd:
    fd.add_output(fd.ops.add(fd.from_pytorch(x), 1.0))
"""
RUN = """
for _ in range(20):
    fd.execute([x])
"""

# What stands at the beginning of the kernel, and what is said to that.
MISTAKES = {
    "address": ("T1[1000000] = 0.0f;", "use-after-poison"),
    "undefined": ("volatile int far = 40; T1[0] = 1 << far;", "shift exponent 40 is too large"),
    "thread": ("T1[0] = blockIdx.x;", "data race"),
}


@pytest.mark.machine("host")
@pytest.mark.parametrize("sanitizer", SANITIZERS)
def test_mistakes_are_found(sanitizer: str, tmp_path: Path) -> None:
    mistake, message = MISTAKES[sanitizer]
    scope: dict[str, Any] = {}
    exec(PROGRAM + "fd.execute([x])", scope)
    text = scope["fd"].fec.get_cuda_kernel([scope["x"]])
    source = tmp_path / "kernel.cu"
    source.write_text(text.replace(")) {\n", f")) {{\n  {mistake}\n", 1))
    assert mistake in source.read_text()
    variables = {**environment_of(sanitizer, tmp_path), "NVFUSER_EXTERNAL_SRC": str(source)}
    with fixed_addresses():
        done = run_python(PROGRAM + RUN, variables)
    assert done.returncode != 0 and message in reports(tmp_path), done.stdout + done.stderr


@pytest.mark.parametrize("sanitizer", SANITIZERS)
def test_random_programs_and_graphs(sanitizer: str, tmp_path: Path) -> None:
    count = 100 if LONG else 1
    first = 30_000
    with fixed_addresses():
        programs = run_programs(
            range(first, first + count), 1, "cpu", environment_of(sanitizer, tmp_path)
        )
        graphs = run_graphs(
            range(first, first + count), 1, "cpu", 0.0, environment_of(sanitizer, tmp_path),
            mix="reduction",
        )  # fmt: skip
    findings = [str(each) for each in programs if "finding" in each] + graphs.failures
    assert not findings, "\n\n".join([*findings[:5], reports(tmp_path)])
    assert reports(tmp_path) == ""
