# SPDX-License-Identifier: BSD-3-Clause
"""Slices of what is computed: of groups that none of them begins with, and of slices."""

from __future__ import annotations

import pytest
import torch
from helpers import DEVICE, define
from nvfuse_direct import DataType, FusionDefinition

CHANNELS = 24
GROUPS = 4


@pytest.mark.parametrize("first", [8, 12, 13])
@pytest.mark.parametrize("dtype", [torch.float, torch.bfloat16])
def test_groups_are_rows_all_the_same(first: int, dtype: torch.dtype) -> None:
    """The gradient of the cat in front of a group norm."""
    generator = torch.Generator().manual_seed(first)
    x = torch.randn(3, CHANNELS, 16, generator=generator).to(DEVICE, dtype)

    def body(fd: FusionDefinition) -> None:
        ops = fd.ops
        wide = ops.cast(fd.from_pytorch(x, static_sizes=True), DataType.Float)
        rows = ops.reshape(wide, [3, GROUPS, CHANNELS // GROUPS * 16])
        centred = ops.sub(rows, ops.div(ops.sum(rows, [2], keepdim=True), 96.0))
        back = ops.reshape(centred, [3, CHANNELS, 16])
        fd.add_output(ops.slice(back, [0, 0, 0], [3, first, 16]))
        fd.add_output(ops.slice(back, [0, first, 0], [3, CHANNELS, 16]))

    fd = define(body)
    left, right = fd.execute([x])
    rows = x.double().reshape(3, GROUPS, -1)
    exact = (rows - rows.mean(2, keepdim=True)).reshape(3, CHANNELS, 16)
    torch.testing.assert_close(left.double(), exact[:, :first], atol=1e-4, rtol=0)
    torch.testing.assert_close(right.double(), exact[:, first:], atol=1e-4, rtol=0)
    # The sums of rows, and each slice, which is computed with them of the part of x that it needs.
    assert fd.fec.get_cuda_kernel([x]).count("NVF_KERNEL(") == 3


@pytest.mark.parametrize("open_sizes", [False, True])
def test_splines_are_one_kernel(open_sizes: bool) -> None:
    """Bases of splines by recursion: each order is computed of two slices of the one before, and of
    slices of knots that are counted."""
    x = (torch.rand(6, 10, device=DEVICE) * 2.4 - 1.2).float()
    count, order = 12, 3

    def body(fd: FusionDefinition) -> None:
        ops = fd.ops
        t = ops.broadcast(fd.from_pytorch(x, static_sizes=not open_sizes), [False, False, True])
        counted = ops.cast(ops.iota(count, -3, 1, DataType.Int), DataType.Float)
        knots = ops.sub(ops.mul(counted, 0.4), 1.0)
        knots = ops.expand(ops.broadcast(knots, [True, False]), [10, count])

        def part(first: int, last: int) -> object:
            return ops.broadcast(ops.slice(knots, [0, first], [10, last]), [True, False, False])

        def bases_part(bases: object, first: int, last: int) -> object:
            return ops.slice(bases, [0, 0, first], [6, 10, last])

        bases = ops.cast(
            ops.logical_and(ops.ge(t, part(0, count - 1)), ops.lt(t, part(1, count))),
            DataType.Float,
        )
        for k in range(1, order + 1):
            n = count - k
            rising = ops.div(
                ops.sub(t, part(0, n - 1)), ops.sub(part(k, count - 1), part(0, n - 1))
            )
            falling = ops.div(
                ops.sub(part(k + 1, count), t), ops.sub(part(k + 1, count), part(1, n))
            )
            bases = ops.add(
                ops.mul(rising, bases_part(bases, 0, n - 1)),
                ops.mul(falling, bases_part(bases, 1, n)),
            )
        fd.add_output(bases)

    grid = (torch.arange(-3, 9, device=DEVICE) * 0.4 - 1.0).double()
    v = x.double().unsqueeze(-1)
    exact = ((v >= grid[:-1]) & (v < grid[1:])).double()
    for k in range(1, order + 1):
        rising = (v - grid[: -(k + 1)]) / (grid[k:-1] - grid[: -(k + 1)])
        falling = (grid[k + 1 :] - v) / (grid[k + 1 :] - grid[1:-k])
        exact = rising * exact[..., :-1] + falling * exact[..., 1:]
    fd = define(body)
    for _ in range(2):
        (out,) = fd.execute([x], device=DEVICE)
        torch.testing.assert_close(out.double(), exact, atol=1e-4, rtol=0)
    assert fd.fec.get_cuda_kernel([x]).count("NVF_KERNEL(") == 1


@pytest.mark.parametrize("rows", [(0, 7), (5, 12)])
def test_rows_of_a_sum_of_a_stack(rows: tuple[int, int]) -> None:
    """Each part of the stack is sliced, not the sum."""
    generator = torch.Generator().manual_seed(rows[0])
    layers = [torch.randn(12, 8, generator=generator).to(DEVICE) for _ in range(3)]

    def body(fd: FusionDefinition) -> None:
        ops = fd.ops
        tables = [fd.from_pytorch(x, static_sizes=True) for x in layers]
        stacked = ops.reshape(ops.cat(tables, 1), [12, 3, 8])
        mean = ops.div(ops.sum(stacked, [1]), 3.0)
        fd.add_output(ops.exp(ops.slice(mean, [rows[0], 0], [rows[1], 8])))
        fd.add_output(ops.neg(ops.slice(mean, [0, 2], [12, 8])))

    fd = define(body)
    few, columns = fd.execute(layers, device=DEVICE)
    mean = sum(x.double() for x in layers) / 3.0
    torch.testing.assert_close(few.double(), mean[rows[0] : rows[1]].exp(), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(columns.double(), -mean[:, 2:], atol=1e-5, rtol=1e-5)
