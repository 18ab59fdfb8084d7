"""Kernels for the host under the sanitizers of g++: memory, undefined behaviour, threads.

More seeds: `python -m program_generator --sanitize address` and the same of `graph_generator`.
"""

from __future__ import annotations

from pathlib import Path

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

x = torch.randn(1 << 20)
with FusionDefinition() as fd:
    fd.add_output(fd.ops.add(fd.from_pytorch(x), 1.0))
for _ in range(20):
    (out,) = fd.execute([x])
print("equal" if torch.equal(out, x + 1) else "different")
print(fd.fec.get_cuda_kernel([x]))
"""

# What stands at the beginning of the kernel, and what is said to that.
MISTAKES = {
    "address": ("T1[1 << 20] = 0.0f;", "heap-buffer-overflow"),
    "undefined": ("volatile int far = 40; T1[0] = 1 << far;", "shift exponent 40 is too large"),
    "thread": ("T1[0] = blockIdx.x;", "data race"),
}


@pytest.mark.parametrize("sanitizer", SANITIZERS)
def test_mistakes_are_found(sanitizer: str, tmp_path: Path) -> None:
    mistake, message = MISTAKES[sanitizer]
    clean, edited = tmp_path / "clean", tmp_path / "edited"
    for folder in (clean, edited):
        folder.mkdir()
    with fixed_addresses():
        done = run_python(PROGRAM, environment_of(sanitizer, clean))
        assert done.returncode == 0 and reports(clean) == "", done.stderr + reports(clean)
        verdict, text = done.stdout.split("\n", 1)
        assert verdict == "equal"
        source = edited / "kernel.cu"
        source.write_text(text.replace(")) {\n", f")) {{\n  {mistake}\n", 1))
        assert mistake in source.read_text()
        variables = {**environment_of(sanitizer, edited), "NVFUSER_EXTERNAL_SRC": str(source)}
        done = run_python(PROGRAM, variables)
    assert done.returncode != 0 and message in reports(edited), done.stdout + done.stderr


@pytest.mark.parametrize("sanitizer", SANITIZERS)
def test_random_programs_and_graphs(sanitizer: str, tmp_path: Path) -> None:
    count = 100 if LONG else 2
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
