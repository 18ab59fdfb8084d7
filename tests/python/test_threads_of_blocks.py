# SPDX-License-Identifier: BSD-3-Clause
"""What the threads of a block have on an H200, from its parameters; nothing runs here."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from nvfuse_direct import DataType, FusionDefinition, SchedulerType

pytestmark = pytest.mark.machine("h200")


def params_of(scheduler: SchedulerType, inputs: list[torch.Tensor], define: Any) -> Any:
    with FusionDefinition() as fd:
        tensors = [fd.ops.cast(fd.from_pytorch(x), DataType.Float) for x in inputs]
        fd.add_output(define(fd, *tensors))
    return fd.sched.compute_heuristics(fd.fusion, scheduler, inputs)


def empty(*sizes: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    return torch.empty(sizes, dtype=dtype)


@pytest.mark.parametrize(
    ("dtype", "columns", "inputs", "threads"),
    [
        (torch.bfloat16, 32, 1, 2),
        (torch.bfloat16, 48, 1, 4),
        (torch.bfloat16, 64, 1, 4),
        (torch.bfloat16, 64, 2, 4),
        (torch.bfloat16, 256, 1, 8),
        (torch.float32, 24, 1, 4),
        (torch.float32, 32, 1, 4),
        (torch.float32, 256, 2, 32),
    ],
)
def test_threads_of_short_rows(dtype: torch.dtype, columns: int, inputs: int, threads: int) -> None:
    """Those with which sums of 128 MB took least time, of 1 to 32 (schedule_constants.md): few
    have enough to do, and many read whole lines at once."""
    x = empty((1 << 27) // dtype.itemsize // columns, columns, dtype=dtype)

    def define(fd: FusionDefinition, a: Any, *others: Any) -> Any:
        return fd.ops.sum(fd.ops.mul(a, others[0]) if others else a, [1])

    assert params_of(SchedulerType.reduction, [x] * inputs, define).lparams.bdimx == threads


@pytest.mark.parametrize(("columns", "threads"), [(8, 256), (64, 128), (513, 128)])
def test_blocks_of_tiny_rows_are_larger(columns: int, threads: int) -> None:
    """As small ones do not start as fast as memory brings their rows. In those of 513 elements
    several warps wait for each other."""
    x = empty((1 << 26) // columns, columns)

    def define(fd: FusionDefinition, a: Any) -> Any:
        return fd.ops.sum(a, [1])

    lparams = params_of(SchedulerType.reduction, [x], define).lparams
    assert lparams.bdimx * lparams.bdimy == threads


def with_rows(fd: FusionDefinition, x: Any, of_row: Any) -> Any:
    return fd.ops.cast(fd.ops.exp(fd.ops.sub(x, of_row)), DataType.BFloat16)


@pytest.mark.parametrize(("sizes", "rows"), [((8192, 1), 2), ((1, 32000), 4)])
def test_rows_that_share_nothing_have_no_more_of_them_for_a_thread(
    sizes: tuple[int, int], rows: int
) -> None:
    """What is read along a row is loaded once for several rows, what differs by row is not."""
    inputs = [empty(8192, 32000), empty(*sizes)]
    params = params_of(SchedulerType.pointwise, inputs, with_rows)
    assert params.unroll_factor_outer == rows
    # As many registers as leave room for all threads, where as many as possible are counted on.
    assert ("wanted_registers: 32" in str(params)) == (rows == 2)


@pytest.mark.parametrize(("columns", "threads"), [(999, 256), (4096, 128)])
def test_blocks_that_have_little_to_do_are_larger(columns: int, threads: int) -> None:
    """Rows of an odd length are accessed element by element."""
    inputs = [empty((1 << 25) // columns, columns), empty((1 << 25) // columns, 1)]
    params = params_of(SchedulerType.pointwise, inputs, with_rows)
    assert params.lparams.bdimx == threads
