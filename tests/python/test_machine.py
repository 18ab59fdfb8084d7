# SPDX-License-Identifier: BSD-3-Clause
"""NVFUSER_MACHINE: which machine kernels for CPU tensors are scheduled for."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from helpers import run_python
from nvfuse_direct import _C_DIRECT as extension
from nvfuse_direct import FusionDefinition, SchedulerType

# On 4 SMs a block takes many of these rows; on 132 SMs there are not so many rows.
ROWS, COLUMNS = 256, 64


def definition(x: torch.Tensor) -> FusionDefinition:
    with FusionDefinition() as fd:
        fd.add_output(fd.ops.sum(fd.from_pytorch(x), [1]))
    return fd


def rows_of_a_block(fd: FusionDefinition, x: torch.Tensor) -> int:
    params = fd.sched.compute_heuristics(fd.fusion, SchedulerType.reduction, [x])
    return params.lparams.bdimy


@pytest.mark.machine("hopper")
def test_heuristics_of_the_machine() -> None:
    x = torch.randn(ROWS, COLUMNS)
    fd = definition(x)
    on_hopper = rows_of_a_block(fd, x)
    with extension._ScheduledFor("h200"):
        on_h200 = rows_of_a_block(fd, x)
        with extension._ScheduledFor("hopper"):
            assert rows_of_a_block(fd, x) == on_hopper
        assert rows_of_a_block(fd, x) == on_h200
    assert on_h200 < on_hopper == rows_of_a_block(fd, x)


def test_each_machine_has_plans_of_its_own() -> None:
    x = torch.randn(ROWS, COLUMNS)
    fd = definition(x)

    def launch() -> str:
        (out,) = fd.execute([x])
        torch.testing.assert_close(out, x.sum(1))
        (report,) = fd.fec._most_recent_segment_reports()
        return report["launch"]

    on_hopper = launch()
    with extension._ScheduledFor("h200"):
        on_h200 = launch()
    assert on_h200 != on_hopper
    assert launch() == on_hopper


def test_the_environment_switches_a_process() -> None:
    program = f"""
    import torch
    from nvfuse_direct import FusionDefinition, SchedulerType
    x = torch.randn({ROWS}, {COLUMNS})
    with FusionDefinition() as fd:
        fd.add_output(fd.ops.sum(fd.from_pytorch(x), [1]))
    for _ in range(2):
        torch.testing.assert_close(fd.execute([x])[0], x.sum(1))
    print(fd.fec._segment_reports([x])[0]["launch"])
    """
    # One after the other, with one folder of kernels and plans.
    launches = []
    for machine in ("hopper", "h200", "hopper"):
        result = run_python(program, {"NVFUSER_MACHINE": machine})
        assert result.returncode == 0, result.stderr
        launches.append(result.stdout)
    assert launches[0] == launches[2] != launches[1]


TWO_TESTS = """
import pytest, torch
from nvfuse_direct import FusionDefinition

def kernel():
    x = torch.randn(3)
    with FusionDefinition() as fd:
        fd.add_output(fd.ops.neg(fd.from_pytorch(x)))
    fd.execute([x])
    return fd.fec.get_cuda_kernel([x])

@pytest.mark.machine("host")
def test_first():
    assert "NVF_THREADS_IN_LOOPS" in kernel()

def test_second():
    assert "NVF_THREADS_IN_LOOPS" not in kernel()
"""


def test_the_machine_of_a_process_is_not_that_of_its_first_test(tmp_path: Path) -> None:
    (tmp_path / "test_two.py").write_text(TWO_TESTS)
    options = ["-p", "conftest", "-q", f"--rootdir={tmp_path}", str(tmp_path)]
    program = f"import pytest, sys; sys.exit(pytest.main({options}))"
    result = run_python(program, {"NVFUSER_MACHINE": "hopper"})
    assert result.returncode == 0 and "2 passed" in result.stdout, result.stdout + result.stderr


def test_unknown_machines() -> None:
    with pytest.raises(
        RuntimeError, match='NVFUSER_MACHINE must be hopper, h200 or host, got "gb200"'
    ):
        extension._ScheduledFor("gb200")


@pytest.mark.parametrize("machine", ["hopper", "h200", "host"])
@pytest.mark.parametrize("sizes", [(3, 1000), (300, 64), (2, 20000)])
def test_schedules_of_every_machine_run_on_the_host(machine: str, sizes: tuple[int, int]) -> None:
    x = torch.randn(sizes)
    with FusionDefinition() as fd:
        a = fd.from_pytorch(x)
        e = fd.ops.exp(fd.ops.sub(a, fd.ops.max(a, [1], keepdim=True)))
        fd.add_output(fd.ops.div(e, fd.ops.sum(e, [1], keepdim=True)))
        fd.add_output(fd.ops.sum(a, [0]))
        fd.add_output(fd.ops.permute(a, [1, 0]))
    with extension._ScheduledFor(machine):
        softmax, columns, transposed = fd.execute([x])
    torch.testing.assert_close(softmax, torch.softmax(x, 1))
    torch.testing.assert_close(columns, x.sum(0), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(transposed, x.t())


@pytest.mark.machine("h200")
@pytest.mark.parametrize("width", [770, 1000, 1540, 2050, 5002, 12345])
def test_blocks_that_sum_columns_run_at_once(width: int) -> None:
    """Whatever the width: of 132 SMs with 2048 threads, half of them keep memory busy."""
    x = torch.empty((1 << 25) // width, width, dtype=torch.bfloat16)
    with FusionDefinition() as fd:
        fd.add_output(fd.ops.sum(fd.from_pytorch(x), [0]))
    params = fd.sched.compute_heuristics(fd.fusion, SchedulerType.reduction, [x])
    launch = params.lparams
    of_block = launch.bdimx * params.unroll_factor_iter_dom
    threads = -(-width // of_block) * launch.gdimy * launch.bdimx * launch.bdimy
    assert 0.8 * 132 * 1024 <= threads <= 132 * 2048, launch
    if threads > 132 * 1024:  # narrow accesses
        assert params.unroll_factor_outer_reduction * params.unroll_factor_iter_dom <= 16
