# SPDX-License-Identifier: BSD-3-Clause
"""Fusions that have no kernel are evaluated op by op: without a C++ compiler, as the last resort of
the planner, and with the expr_eval scheduler."""

from __future__ import annotations

import textwrap
from pathlib import Path

import processes
import torch
from nvfuse_direct import DataType, FusionDefinition, KernelExecutor, SchedulerType


def run_script(body: str, **environment: str) -> str:
    """Runs the body in a process of its own; returns what it printed."""
    head = (
        "import warnings\n"
        "import torch\n"
        "from nvfuse_direct import *\n"
        "from nvfuse_direct import FusionDefinition\n"
    )
    result = processes.run_script(
        head + textwrap.dedent(body), env={"NVFUSER_DISABLE_CACHE": "1", **environment}
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout + result.stderr


def test_without_a_compiler_fusions_are_evaluated_with_one_warning():
    out = run_script(
        """
        with FusionDefinition() as fd:
            x = fd.define_tensor([-1, -1], contiguity=True, dtype=DataType.BFloat16)
            y = fd.define_tensor([-1, 1], contiguity=True, dtype=DataType.BFloat16)
            z = fd.ops.cast(fd.ops.relu(fd.ops.add(x, y)), DataType.BFloat16)
            fd.add_output(z)
            fd.add_output(fd.ops.permute(z, [1, 0]))
            fd.add_output(fd.ops.slice(x, [0, 1], [2, 3]))
        x, y = torch.randn(4, 5).bfloat16(), torch.randn(4, 1).bfloat16()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for _ in range(3):
                a, b, c = fd.execute([x, y])
        assert len(caught) == 1, caught
        assert "No C++ compiler was found" in str(caught[0].message)
        assert torch.equal(a, torch.relu(x + y))
        assert torch.equal(b, a.t()) and b.is_contiguous()
        assert torch.equal(c, x[0:2, 1:3])
        assert fd.fec.is_compiled([x, y])
        assert {r["scheduler"] for r in fd.fec._most_recent_segment_reports()} >= {"expr_eval"}
        print("evaluated")
        """,
        NVFUSER_HOST_CXX="none",
    )
    assert "evaluated" in out


def test_no_compiler_in_the_path():
    out = run_script(
        """
        with FusionDefinition() as fd:
            x = fd.define_tensor([-1], contiguity=True)
            fd.add_output(fd.ops.exp(x))
        x = torch.randn(7)
        (y,) = fd.execute([x])
        assert torch.allclose(y, x.exp())
        """,
        PATH="",
        CXX="",
        NVFUSER_HOST_CXX="",
    )
    assert "No C++ compiler was found" in out


def test_updates_in_place_read_everything_before_they_write():
    run_script(
        """
        with FusionDefinition() as fd:
            a = fd.define_tensor([-1, -1], contiguity=True)
            b = fd.define_tensor([-1, -1], contiguity=True)
            fd.add_output(fd.ops.set(b), a)
            fd.add_output(fd.ops.permute(a, [1, 0]), b)
            fd.add_output(fd.ops.add(a, b))
        a, b = torch.randn(3, 3), torch.randn(3, 3)
        old_a, old_b = a.clone(), b.clone()
        (total,) = fd.execute([a, b])
        assert torch.equal(a, old_b) and torch.equal(b, old_a.t())
        assert torch.equal(total, old_a + old_b)

        with FusionDefinition() as fd:
            a = fd.define_tensor([-1, -1], contiguity=True)
            fd.add_output(fd.ops.permute(a, [1, 0]), a)
        a = torch.randn(4, 4)
        expected = a.t().clone()
        fd.execute([a])
        assert torch.equal(a, expected)
        """,
        NVFUSER_HOST_CXX="none",
    )


def test_a_schedule_made_by_hand_is_evaluated_too():
    run_script(
        """
        with FusionDefinition() as fd:
            x = fd.define_tensor([-1, -1], contiguity=True)
            y = fd.ops.add(x, 1.0)
            z = fd.ops.exp(y)
            fd.add_output(fd.ops.neg(y), x)
            fd.add_output(z)
            y.split(1, 32)
            fd.sched.transform_like(y)
            y.axis(2).parallelize(ParallelType.block_x)
            fd.sched.parallelize_like(y)
            fd.sched.inline_most()
        x = torch.randn(3, 5)
        old = x.clone()
        (z,) = fd.manual_execute([x])
        assert torch.allclose(z, (old + 1.0).exp()) and torch.equal(x, -(old + 1.0))
        """,
        NVFUSER_HOST_CXX="none",
    )


_RANDOM = """
def draw():
    torch.manual_seed(11)
    with FusionDefinition() as fd:
        n = fd.define_scalar(DataType.Int)
        for dtype in (DataType.Float, DataType.Double, DataType.BFloat16, DataType.Half):
            a, b = fd.define_scalar(1.5), fd.define_scalar(2.5)
            fd.add_output(fd.ops.uniform(a, b, [n, 3], dtype=dtype))
            fd.add_output(fd.ops.normal(a, b, [n], dtype=dtype))
            seed, offset = fd.define_scalar(7), fd.define_scalar(5)
            fd.add_output(
                fd.ops.uniform(a, b, [n], rng_seed=seed, rng_offset=offset, dtype=dtype)
            )
    return fd.execute([37])
torch.save(draw(), path)
"""


def test_random_numbers_are_those_of_the_kernels(tmp_path: Path):
    for name, environment in (("kernel", {}), ("torch", {"NVFUSER_HOST_CXX": "none"})):
        run_script(f"path = {str(tmp_path / name)!r}\n" + _RANDOM, **environment)
    kernel, evaluated = (torch.load(tmp_path / name) for name in ("kernel", "torch"))
    for a, b in zip(kernel, evaluated, strict=True):
        assert a.dtype == b.dtype
        tolerance = {torch.float64: 1e-12, torch.float32: 1e-5}.get(a.dtype, 1e-2)
        assert torch.allclose(a.double(), b.double(), atol=tolerance, rtol=tolerance)


def test_kernels_that_the_compiler_refuses_are_evaluated_in_the_end(tmp_path: Path):
    broken = tmp_path / "broken.cu"
    broken.write_text("NVF_KERNEL(broken, ()) { this is no C++; }\n")
    run_script(
        """
        with FusionDefinition() as fd:
            x = fd.define_tensor([-1, -1], contiguity=True)
            fd.add_output(fd.ops.sin(x))
        x = torch.randn(8, 8)
        (y,) = fd.execute([x])
        assert torch.allclose(y, x.sin())
        assert fd.fec._num_fallbacks == 2
        (report,) = fd.fec._most_recent_segment_reports()
        assert report["scheduler"] == "expr_eval"
        assert "evaluated operation by operation" in report["note"], report["note"]
        """,
        NVFUSER_EXTERNAL_SRC=",".join([str(broken)] * 2),
    )


def test_a_refused_kernel_is_cut_before_anything_is_evaluated(tmp_path: Path):
    broken = tmp_path / "broken.cu"
    broken.write_text("NVF_KERNEL(broken, ()) { this is no C++; }\n")
    run_script(
        """
        with FusionDefinition() as fd:
            x = fd.define_tensor([-1, -1], contiguity=True)
            fd.add_output(fd.ops.cos(fd.ops.sin(x)))
        x = torch.randn(8, 8)
        (y,) = fd.execute([x])
        assert torch.allclose(y, x.sin().cos())
        assert fd.fec._num_fallbacks == 2
        reports = fd.fec._most_recent_segment_reports()
        assert [r["scheduler"] for r in reports] == ["pointwise", "pointwise"]
        """,
        NVFUSER_EXTERNAL_SRC=",".join([str(broken)] * 2),
    )


def test_the_expr_eval_scheduler_takes_what_no_kernel_is_made_of():
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], contiguity=True)
        y = fd.define_tensor([-1], contiguity=True)
        fd.add_output(fd.ops.mul(fd.ops.sin(x), 3.0))
        fd.add_output(fd.ops.relu(y))
    inputs = [torch.randn(3, 4), torch.randn(5)]
    assert not fd.sched.can_schedule(fd.fusion, SchedulerType.pointwise, inputs)[0]
    assert fd.sched.can_schedule(fd.fusion, SchedulerType.expr_eval, inputs) == (True, "")
    compatible = fd.sched.find_compatible_schedulers(fd.fusion, inputs)
    assert compatible == [SchedulerType.expr_eval]
    params = fd.sched.schedule(fd.fusion, SchedulerType.expr_eval, inputs)
    assert params.scheduler_type == SchedulerType.expr_eval
    assert params == fd.sched.compute_heuristics(fd.fusion, SchedulerType.expr_eval, inputs)
    a, b = fd.manual_execute(inputs, params)
    assert torch.equal(a, inputs[0].sin() * 3.0) and torch.equal(b, inputs[1].relu())
    assert "evaluated operation by operation" in fd.ke._kernel_text


def test_the_expr_eval_scheduler_leaves_the_rest_to_kernels():
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], contiguity=True)
        fd.add_output(fd.ops.sin(x))
    can, why = fd.sched.can_schedule(fd.fusion, SchedulerType.expr_eval, [torch.randn(3, 4)])
    assert not can
    assert why == (
        "Scheduler _expr_eval_ ***rejected*** because : "
        "the pointwise scheduler makes a kernel of it"
    )


def test_evaluated_values_of_all_dtypes_reach_the_outputs():
    dtypes = {
        DataType.Float8_e4m3fn: torch.float8_e4m3fn,
        DataType.Float8_e5m2: torch.float8_e5m2,
        DataType.ComplexFloat: torch.complex64,
        DataType.Bool: torch.bool,
        DataType.Int32: torch.int32,
    }
    for dtype, expected in dtypes.items():
        with FusionDefinition() as fd:
            x = fd.define_tensor([-1, -1], contiguity=True)
            fd.add_output(fd.ops.permute(fd.ops.cast(x, dtype), [1, 0]))
        x = torch.tensor([[0.0, 1.0, 2.0], [3.0, 4.0, 8.0]])
        executor = KernelExecutor()
        executor.compile(fd.fusion, [x], scheduler_type=SchedulerType.expr_eval)
        (y,) = executor.run([x])
        assert y.dtype == expected
        assert torch.equal(y.to(torch.complex64), x.to(expected).to(torch.complex64).t())
