# SPDX-License-Identifier: BSD-3-Clause
"""Tensors without an element between others: no kernel computes or reads them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from helpers import DEVICE, assert_all_same, define
from nvfuse_direct import DataType, FusionDefinition

Tensor = torch.Tensor
Definition = Callable[[FusionDefinition], None]


def check(definition: Definition, inputs: list[Tensor], expected: list[Tensor]) -> None:
    fd = define(definition)
    outputs = fd.execute([x.to(DEVICE) for x in inputs], device=DEVICE)
    assert fd.fec._num_fallbacks == 0, "a kernel that could not be made was replaced by others"
    assert_all_same(outputs, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("size", [0, 1, 3])
def test_positions_that_are_cut_to_nothing(size: int) -> None:
    """The kernel that scatters gets the positions of another one: a slice of an expanded tensor."""
    x, index = torch.randn(size), torch.zeros(1, dtype=torch.int64)

    def definition(fd: FusionDefinition) -> None:
        o = fd.ops
        a = fd.define_tensor([-1], [True])
        i = fd.define_tensor([1], [None], dtype=DataType.Int)
        n = o.size(a, 0)
        some = o.slice(o.expand(i, [n]), [o.minimum(1, n)], [n])
        fd.add_output(o.scatter(a, some, 1.0, dim=0))

    expected = x.clone()
    if size > 1:
        expected[0] = 1.0
    check(definition, [x, index], [expected])


@pytest.mark.parametrize("size", [0, 2])
def test_sums_of_what_was_expanded_to_nothing(size: int) -> None:
    x, y = torch.randn(1, size, size), torch.randn(size, size, size)

    def definition(fd: FusionDefinition) -> None:
        o = fd.ops
        a = fd.define_tensor([1, -1, -1], [None, True, True])
        b = fd.define_tensor([-1, -1, -1], [True] * 3)
        wide = o.expand(a, [o.size(b, 0), -1, -1])
        total = o.broadcast(o.sum(wide, [1, 2]), [False, True, True])
        fd.add_output(o.sum(o.sub(o.mul(wide, total), b), [0, 1, 2]))

    wide = x.expand(size, -1, -1)
    expected = (wide * wide.sum((1, 2), keepdim=True) - y).sum()
    check(definition, [x, y], [expected])


@pytest.mark.parametrize("rows", [0, 3])
def test_statistics_of_no_rows_pass_between_kernels(rows: int) -> None:
    """Maxima and sums of the columns have elements, the quotients of the same kernel have none."""
    x, y = torch.randn(rows, 4), torch.randn(2, 4)

    def definition(fd: FusionDefinition) -> None:
        o = fd.ops
        a = fd.define_tensor([-1, 4], [True, True])
        b = fd.define_tensor([2, 4], [True, True])
        power = o.exp(o.sub(a, o.max(a, [0], keepdim=True)))
        share = o.div(power, o.sum(power, [0], keepdim=True))
        running = o.cumsum(share, 0)
        fd.add_output(o.cat([running, b], 0))
        fd.add_output(o.sum(o.div(running, o.add(o.abs(share), 0.5)), [0]))

    share = x.softmax(0)
    running = share.cumsum(0)
    expected = [torch.cat([running, y]), (running / (share.abs() + 0.5)).sum(0)]
    check(definition, [x, y], expected)


@pytest.mark.parametrize("sizes", [(1, 0), (0, 3), (2, 3)])
def test_a_value_passes_between_kernels_beside_nothing(sizes: tuple[int, int]) -> None:
    """The broadcast value has an element, what is computed of it in the same loops has none."""
    x, y = torch.randn(sizes), torch.tensor(0.5)

    def definition(fd: FusionDefinition) -> None:
        o = fd.ops
        a, b = fd.define_tensor([-1, -1], [True, True]), fd.define_tensor([], [])
        running = o.cumsum(a, 0)
        value = o.broadcast(b, [True, True])
        total = o.sum(o.sub(running, value), [0, 1])
        fd.add_output(o.broadcast(o.sum(o.welford(running, [1])[1], [0]), [True]))
        fd.add_output(o.add(total, o.squeeze(value, [0, 1])))

    running = x.cumsum(0)
    spread = running.var(1, correction=0) * sizes[1] if sizes[1] else torch.zeros(sizes[0])
    check(definition, [x, y], [spread.sum(0, keepdim=True), (running - y).sum() + y])


def test_product_of_empty_matrices() -> None:
    def definition(fd: FusionDefinition) -> None:
        o = fd.ops
        row = o.cast(o.broadcast(o.full([0], 0, DataType.Int), [True, False]), DataType.Float)
        fd.add_output(o.matmul(row, o.permute(row, [1, 0])))

    check(definition, [], [torch.zeros(1, 1)])


def test_sizes_are_checked_where_nothing_is_computed() -> None:
    def definition(fd: FusionDefinition) -> None:
        o = fd.ops
        a, b = (fd.define_tensor([-1, -1], [True, True]) for _ in range(2))
        fd.add_output(o.sum(o.cumsum(o.add(a, b), 1), [0]))

    fd = define(definition)
    with pytest.raises(RuntimeError, match="Sizes do not agree"):
        fd.execute([torch.empty(0, 3, device=DEVICE), torch.empty(0, 4, device=DEVICE)])


@pytest.mark.parametrize("size", [0, 1, 3])
@pytest.mark.parametrize(("start", "stop"), [(0, 5), (1, 4), (2, 3)])
def test_a_slice_of_a_pad_of_what_is_expanded_beside_nothing(
    size: int, start: int, stop: int
) -> None:
    """The expanded dimension has the size of the slice, also where the operand has no element."""
    x = torch.randn(1, size)

    def definition(fd: FusionDefinition) -> None:
        o = fd.ops
        a = fd.define_tensor([1, -1], [None, True])
        wide = o.pad(o.expand(a, [5, -1]), [2, 0, 0, 0], 0.5)
        part = o.slice(wide, [start, 0], [stop, 2])
        fd.add_output(o.broadcast(part, [False, True, False]))
        fd.add_output(o.sum(part, [0]))

    wide = torch.nn.functional.pad(x.expand(5, -1), [2, 0], value=0.5)
    part = wide[start:stop, :2]
    check(definition, [x], [part.unsqueeze(1), part.sum(0)])
