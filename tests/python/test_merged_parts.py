# SPDX-License-Identifier: BSD-3-Clause
"""Pixels side by side, as downsampling layers put them: a permutation, also of normalized rows."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from helpers import DEVICE, TORCH, assert_same, define, on_both_machines, row_major
from nvfuse_direct import DataType, FusionDefinition, explain

ORDERS = {  # of the parts: (row, column) of each pixel
    "swin": [(0, 0), (1, 0), (0, 1), (1, 1)],
    "rows": [(0, 0), (0, 1), (1, 0), (1, 1)],
    "neither": [(0, 0), (1, 1), (0, 1), (1, 0)],
}


def every_second(
    fd: FusionDefinition, x: object, dim: int, first: int, sizes: Sequence[int]
) -> tuple[object, list[int]]:
    split = [*sizes[:dim], sizes[dim] // 2, 2, *sizes[dim + 1 :]]
    starts, stops = [0] * len(split), list(split)
    starts[dim + 1], stops[dim + 1] = first, first + 1
    part = fd.ops.slice(fd.ops.reshape(x, split), starts, stops)
    return fd.ops.squeeze(part, [dim + 1]), [*split[: dim + 1], *split[dim + 2 :]]


def pixels(fd: FusionDefinition, x: object, order: str, sizes: Sequence[int], dim: int) -> object:
    parts = []
    for row, column in ORDERS[order]:
        rows, rest = every_second(fd, x, 1, row, sizes)
        parts.append(every_second(fd, rows, 2, column, rest)[0])
    return fd.ops.cat(parts, dim)


def expected(x: torch.Tensor, order: str, dim: int) -> torch.Tensor:
    return torch.cat([x[:, row::2, column::2] for row, column in ORDERS[order]], dim)


@on_both_machines
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("dim", [0, 2, 3])
@pytest.mark.parametrize("dtype", ["Float", "BFloat16"])
def test_values(order: str, dim: int, dtype: str, machine: str) -> None:
    sizes = (3, 6, 8, 24)
    x = row_major(sizes).fill(TORCH[dtype], 1)

    def whole(fd: FusionDefinition) -> None:
        t = fd.from_pytorch(x, static_sizes=True)
        fd.add_output(pixels(fd, t, order, sizes, dim))
        fd.add_output(fd.ops.cast(pixels(fd, fd.ops.neg(t), order, sizes, dim), t.dtype()))

    results = define(whole).execute([x], device=DEVICE)
    assert_same(results[0], expected(x, order, dim))
    assert_same(results[1], -expected(x, order, dim))


@on_both_machines
@pytest.mark.parametrize("order", ORDERS)
def test_rows_of_them_are_normalized(order: str, machine: str) -> None:
    sizes = (3, 6, 8, 24)
    x = row_major(sizes).fill(torch.float, 2)

    def whole(fd: FusionDefinition) -> None:
        merged = pixels(fd, fd.from_pytorch(x, static_sizes=True), order, sizes, 3)
        total = fd.ops.broadcast(fd.ops.sum(merged, [3]), [False, False, False, True])
        fd.add_output(fd.ops.sub(merged, total))
        fd.add_output(merged)

    fd = define(whole)
    centered, merged = fd.execute([x], device=DEVICE)
    wanted = expected(x, order, 3)
    assert_same(merged, wanted)
    torch.testing.assert_close(centered, wanted - wanted.sum(3, keepdim=True), rtol=1e-5, atol=1e-5)
    assert len(explain(fd, [x], measure=False).segments) == 1
    # A concatenation chooses one of its parts for each element.
    assert ("?" in fd.fec.get_cuda_kernel([x])) == (order == "neither")


def placed(
    fd: FusionDefinition, part: object, dim: int, place: int, sizes: Sequence[int], dtype: DataType
) -> object:
    """A half of a dimension, zeros in the other one: the gradient of a slice."""
    zero = fd.ops.full(list(sizes), fd.define_scalar(0.0, dtype), dtype)
    return fd.ops.cat([zero, part] if place else [part, zero], dim)


@on_both_machines
@pytest.mark.parametrize("dtype", ["Float", "BFloat16"])
def test_gradients_of_quarters(dtype: str, machine: str) -> None:
    """The sum of four parts beside zeros is exact, and a zero has no sign."""
    parts = [row_major((3, 4, 5, 16)).fill(TORCH[dtype], seed) for seed in range(4)]
    for x in parts:
        x.view(-1)[:5] = torch.tensor([0.0, -0.0, float("inf"), float("-inf"), float("nan")])
    kind = getattr(DataType, dtype)

    def build(fd: FusionDefinition) -> None:
        total = None
        for (row, column), x in zip(ORDERS["swin"], parts, strict=True):
            part = fd.ops.neg(fd.from_pytorch(x, static_sizes=True))
            part = placed(fd, fd.ops.cast(part, kind), 2, column, [3, 4, 5, 16], kind)
            part = placed(fd, part, 1, row, [3, 4, 10, 16], kind)
            total = part if total is None else fd.ops.cast(fd.ops.add(total, part), kind)
        fd.add_output(total)

    fd = define(build)
    (out,) = fd.execute(parts, device=DEVICE)
    whole = torch.zeros(3, 8, 10, 16, dtype=TORCH[dtype], device=DEVICE)
    for (row, column), x in zip(ORDERS["swin"], parts, strict=True):
        whole[:, 4 * row : 4 * row + 4, 5 * column : 5 * column + 5] = -x + 0.0
    assert torch.equal(out.signbit() & (out == 0), whole.signbit() & (whole == 0))
    assert_same(out, whole)
    assert len(explain(fd, parts, measure=False).segments) == 1
