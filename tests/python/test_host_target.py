# SPDX-License-Identifier: BSD-3-Clause
"""The host target's own checks: the adversarial mode finds a missing barrier; the disk cache."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from helpers import ON_CUDA, run_python

pytestmark = pytest.mark.skipif(ON_CUDA, reason="the host target's own checks")

# A 32 x 32 transpose through shared memory, as in test_schedule.py, at sizes that do not divide.
PROGRAM = """
import torch
from helpers import *
from test_schedule import transpose_through_shared_memory

fd = transpose_through_shared_memory()
p = row_major((33, 65)).fill(torch.float)
try:
    (out,) = fd.manual_execute([p])
except RuntimeError as error:
    print("raised:", error)
else:
    print("equal" if torch.equal(out, p.abs().t()) else "different")
"""


def generated_kernel() -> str:
    done = run_python(PROGRAM, {"NVFUSER_DUMP": "cuda_kernel"})
    assert done.returncode == 0, done.stderr
    text = done.stdout + done.stderr
    match = re.search(r"^NVF_KERNEL\(.*?^\}", text, re.MULTILINE | re.DOTALL)
    assert match is not None, text
    return match[0]


@pytest.mark.parametrize("seed", ["1", "2", "3"])
def test_the_kernel_as_generated_passes(seed: str) -> None:
    done = run_python(PROGRAM, {"NVFUSER_HOST_ADVERSARIAL": seed})
    assert done.returncode == 0, done.stderr
    assert "equal" in done.stdout, done.stdout + done.stderr


@pytest.mark.machine("hopper")
def test_a_removed_barrier_is_caught(tmp_path: Path) -> None:
    text = generated_kernel()
    assert "nvf::syncBlock();" in text
    broken = tmp_path / "broken.cu"
    broken.write_text(text.replace("nvf::syncBlock();", ""))
    environment = {"NVFUSER_EXTERNAL_SRC": str(broken), "NVFUSER_HOST_ADVERSARIAL": "1"}
    done = run_python(PROGRAM, environment)
    assert done.returncode == 0, done.stderr
    assert "raised:" in done.stdout, done.stdout + done.stderr
    assert re.search("race", done.stdout), done.stdout


@pytest.mark.machine("hopper")
def test_external_sources_replace_the_kernel(tmp_path: Path) -> None:
    """The replacement itself works: an unchanged text gives the right result."""
    same = tmp_path / "same.cu"
    same.write_text(generated_kernel())
    done = run_python(PROGRAM, {"NVFUSER_EXTERNAL_SRC": str(same), "NVFUSER_HOST_ADVERSARIAL": "1"})
    assert "equal" in done.stdout, done.stdout + done.stderr


DETERMINISM = """
import torch
from helpers import *

x = tensor(129, 67)
def build(fd):
    t = fd.from_pytorch(x)
    fd.add_output(fd.ops.add(fd.ops.permute(fd.ops.sin(t), [1, 0]), 1.0))
    fd.add_output(fd.ops.pad(t, [1, 2]))
for out in run(build, [x]):
    print(out.double().sum().item(), out.flatten()[-5:].tolist())
"""


def test_results_do_not_depend_on_the_order_of_threads() -> None:
    printed = {
        run_python(DETERMINISM, {"NVFUSER_HOST_ADVERSARIAL": seed} if seed else {}).stdout
        for seed in ("", "1", "99")
    }
    assert len(printed) == 1
    assert printed.pop().strip()


def test_the_disk_cache_is_shared_and_survives_damage(tmp_path: Path) -> None:
    """A second process compiles nothing; a damaged entry is compiled again."""
    program = """
        import time, torch
        from helpers import *
        x = tensor(50)
        start = time.perf_counter()
        (out,) = run(lambda fd: fd.add_output(fd.ops.cosh(fd.from_pytorch(x))), [x])
        assert torch.allclose(out, torch.cosh(x))
        print(time.perf_counter() - start)
    """
    environment = {"NVFUSER_CACHE_DIR": str(tmp_path)}
    first = run_python(program, environment)
    assert first.returncode == 0, first.stderr
    files = [each for each in tmp_path.rglob("*") if each.is_file()]
    assert files, "NVFUSER_CACHE_DIR holds the compiled kernels"
    stamps = {each: each.stat().st_mtime_ns for each in files}
    second = run_python(program, environment)
    assert second.returncode == 0, second.stderr
    assert {each: each.stat().st_mtime_ns for each in files}.keys() == stamps.keys()
    for each in files:
        data = each.read_bytes()
        each.write_bytes(data[: len(data) // 2] + b"damage")
    third = run_python(program, environment)
    assert third.returncode == 0, third.stderr


# The definitions that a host kernel begins with, alone and in a whole translation unit.
REPLACED = """
import os, sys
from helpers import *

with FusionDefinition() as fd:
    x = fd.define_tensor([-1, -1], contiguity=True)
    fd.add_output(fd.ops.sum(fd.ops.mul(x, 3.0), [1]))
x = torch.ones(5, 640)
(out,) = fd.execute([x])
print("equal" if torch.equal(out, torch.full((5,), 1920.0 + OFFSET)) else f"different: {out}")
print(fd.fec.get_cuda_kernel([x], intrinsic_code=INTRINSIC))
"""


@pytest.mark.machine("host")
@pytest.mark.parametrize("intrinsic", [False, True], ids=["kernel", "library"])
@pytest.mark.parametrize("also", [False, True], ids=["alone", "behind_another"])
def test_a_replaced_kernel_keeps_its_settings(intrinsic: bool, also: bool, tmp_path: Path) -> None:
    """Without them a host kernel's block runs once for each of its threads."""
    program = REPLACED.replace("INTRINSIC", str(intrinsic))
    done = run_python(program.replace("OFFSET", "0"))
    assert "equal\n" in done.stdout, done.stdout + done.stderr
    text = done.stdout.split("equal\n")[1]
    assert text.count("#define NVF_THREADS_IN_LOOPS") == 1
    other = "#define NVF_COMPUTING_THREADS 64\nNVF_KERNEL(other, 1, ()) {\n}\n" if also else ""
    source = tmp_path / "changed.cu"
    source.write_text(other + text.replace("* 3.0f", "* 3.0f + 0.5f"))
    environment = {"NVFUSER_EXTERNAL_SRC": str(source)}
    done = run_python(program.replace("OFFSET", "320"), environment)
    assert "equal\n" in done.stdout, done.stdout + done.stderr
    kernel = done.stdout.split("equal\n")[1]
    assert kernel.count("#define NVF_THREADS_IN_LOOPS") == 1, kernel
    assert "NVF_COMPUTING_THREADS 64" not in kernel


CHANGES_ITS_MIND = """
import os
import torch
from nvfuse_direct import FusionDefinition

for seed in ("3", "0"):
    os.environ["NVFUSER_HOST_ADVERSARIAL"] = seed
    x = torch.randn(64, 1000 + int(seed))
    with FusionDefinition() as fd:
        t = fd.define_tensor(shape=[64, x.size(1)], contiguity=[True, True])
        fd.add_output(fd.ops.sum(t, [1]))
    torch.testing.assert_close(fd.execute([x])[0], x.sum(1), rtol=1e-4, atol=1e-4)
print("right")
"""


def test_adversarial_mode_that_ends_while_the_process_runs() -> None:
    """Kernels made afterwards loop over the threads of a block, and are launched so."""
    done = run_python(CHANGES_ITS_MIND, {"NVFUSER_MACHINE": "host"})
    assert done.stdout.strip() == "right", done.stderr
