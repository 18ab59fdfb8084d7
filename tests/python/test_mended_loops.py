# SPDX-License-Identifier: BSD-3-Clause
"""Programs for which a kernel was refused: loops that tensors share, and what each thread has."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from helpers import DEVICE, assert_all_same, define
from nvfuse_direct import DataType, FusionDefinition

Tensor = torch.Tensor
Definition = Callable[[FusionDefinition], None]


def check(definition: Definition, inputs: list[Tensor], expected: list[Tensor]) -> None:
    """The values, by kernels none of which took the place of another one."""
    fd = define(definition)
    outputs = fd.execute([x.to(DEVICE) for x in inputs], device=DEVICE)
    assert fd.fec._num_fallbacks == 0, "a kernel that could not be made was replaced by others"
    assert_all_same(outputs, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("rows", [4, 5000])
def test_a_single_element_that_is_squeezed_and_read_over_rows(rows: int) -> None:
    """A loop that runs once, in all threads, is not joined with one that threads share."""
    x, y = torch.randn(rows), torch.randn(1)

    def definition(fd: FusionDefinition) -> None:
        o = fd.ops
        a = fd.define_tensor(shape=[-1], contiguity=True)
        b = fd.define_tensor(shape=[1], contiguity=True)
        copy = o.exp(b)
        square = o.mul(o.sub(copy, o.broadcast(o.squeeze(copy, [0]), [True])), 2.0)
        fd.add_output(o.broadcast(o.squeeze(square, [0]), [True]))
        fd.add_output(o.ne(a, b))
        fd.add_output(square)

    check(definition, [x, y], [torch.zeros(1), x != y, torch.zeros(1)])


def test_a_broadcast_of_one_sum_along_either_axis() -> None:
    """What is read along both axes, squeezed again, and in a loop over a row that is updated."""
    x, y = torch.randn(32), torch.randn(1)

    def definition(fd: FusionDefinition) -> None:
        o = fd.ops
        a = fd.define_tensor(shape=[32], contiguity=True)
        b = fd.define_tensor(sizes=[32], strides=[0], dtype=DataType.Float, static_sizes=True)
        deviation = o.sub(b, o.mul(o.sum(b, [0], keepdim=True), 0.03125))
        total = o.sum(deviation, [0], keepdim=True)
        variance = o.var_mean(o.broadcast(total, [False, True]), [0, 1], 0, True)[0]
        fd.add_output(o.add(o.broadcast(total, [True, False]), o.sin(variance)))
        fd.add_output(o.mul(deviation, total), a)

    fd = define(definition)
    target = x.clone().to(DEVICE)
    outputs = fd.execute([target, y.to(DEVICE).expand(32)], device=DEVICE)
    assert fd.fec._num_fallbacks == 0
    assert_all_same([*outputs, target], [torch.zeros(1, 1), torch.zeros(32)], atol=1e-4)


@pytest.mark.parametrize("rows", [8, 700])
def test_one_element_padded_by_as_much_twice(rows: int) -> None:
    """Two pads of one value by as much are the same loop: nothing keeps the value out of it."""
    x = torch.randn(rows, 1).half()

    def definition(fd: FusionDefinition) -> None:
        o = fd.ops
        a = fd.define_tensor(shape=[rows, 1], contiguity=True, dtype=DataType.Half)
        lower = o.triu(a, -1)
        fd.add_output(o.pad(o.relu(lower), [2, 0]))
        fd.add_output(o.cat([lower, a, lower], 1))

    lower = x.triu(-1)
    padded = torch.nn.functional.pad(lower.relu(), [2, 0])
    check(definition, [x], [padded, torch.cat([lower, x, lower], 1)])


def test_one_row_padded_and_expanded_before_a_pad_by_as_much() -> None:
    """The same pad makes 6 rows of one and 10 of five: they are not in one loop."""
    x = torch.randn(1, 32)

    def definition(fd: FusionDefinition) -> None:
        o = fd.ops
        a = fd.define_tensor(shape=[1, -1], contiguity=True)
        five = o.expand(a, [5, 32])
        fd.add_output(o.cat([five, a], 0))
        fd.add_output(o.cat([five, five], 0))

    check(definition, [x], [x.expand(6, 32), x.expand(10, 32)])


def test_a_normalized_row_with_the_greatest_of_each_column() -> None:
    x = torch.randn(7, 4).bfloat16().float()

    def definition(fd: FusionDefinition) -> None:
        o = fd.ops
        a = fd.define_tensor(shape=[-1, -1], contiguity=True)
        deviation = o.sub(a, o.mul(o.sum(a, [1], keepdim=True), 0.25))
        square = o.mul(deviation, deviation)
        total = o.sum(square, [1], keepdim=True)
        fd.add_output(o.max(o.add(total, square), [0]))
        fd.add_output(o.index_select(o.mul(deviation, total), o.iota(1, 3, -1), 1))

    deviation = x - x.mean(1, keepdim=True)
    square = deviation * deviation
    total = square.sum(1, keepdim=True)
    check(definition, [x], [(total + square).max(0).values, (deviation * total)[:, 3:]])


@pytest.mark.parametrize("columns", [27, 54])
def test_a_row_beside_a_reshape_of_the_whole(columns: int) -> None:
    """The row alone is split where the reshape splits the whole: vectors end there too."""
    x = torch.randn(18, 6, dtype=torch.double)

    def definition(fd: FusionDefinition) -> None:
        o = fd.ops
        a = fd.define_tensor(shape=[-1, -1], contiguity=True, dtype=DataType.Double)
        fd.add_output(o.neg(o.select(a, -12, 0)))
        fd.add_output(o.neg(o.reshape(a, [108 // columns, columns])))

    check(definition, [x], [-x[6], -x.reshape(-1, columns)])


@pytest.mark.parametrize("sizes", [(2, 16, 14), (4, 8, 14), (8, 32, 100)])
def test_a_reshape_and_its_permutation(sizes: tuple[int, int, int]) -> None:
    """A tile ends where one of the dimensions that are merged for it ends."""
    x = torch.randn(sizes[2] // 2, 2 * sizes[0] * sizes[1])

    def definition(fd: FusionDefinition) -> None:
        o = fd.ops
        a = fd.define_tensor(shape=[-1, -1], contiguity=True)
        parts = o.reshape(o.neg(a), list(sizes))
        fd.add_output(o.permute(parts, [2, 0, 1]))
        fd.add_output(parts)

    parts = -x.reshape(sizes)
    check(definition, [x], [parts.permute(2, 0, 1), parts])


@pytest.mark.parametrize("sizes", [(1, 1), (3, 3), (4, 7), (33, 300)])
def test_a_value_that_is_kept_and_squeezed_and_doubled(sizes: tuple[int, int]) -> None:
    """Loops over the value and over twice as much are one, though no tensor connects their rows."""
    x, y = torch.randn(sizes[0], 1, sizes[1]), torch.randn(sizes[1])

    def definition(fd: FusionDefinition) -> None:
        o = fd.ops
        a = fd.define_tensor(shape=[-1, 1, -1], contiguity=[True, None, True])
        b = fd.define_tensor(shape=[-1], contiguity=True)
        low = o.minimum(o.broadcast(b, [True, True, False]), a)
        fd.add_output(low)
        fd.add_output(o.squeeze(low, [1]))
        fd.add_output(o.cat([low, low], 1))

    low = torch.minimum(x, y)
    check(definition, [x, y], [low, low.squeeze(1), torch.cat([low, low], 1)])


def test_one_row_in_squares_of_equal_sides_of_which_one_is_doubled() -> None:
    """Either side of the one is as large as either of the other: they are one in their order."""
    x, y = torch.randn(5, 5, 1, 6), torch.randn(6)

    def definition(fd: FusionDefinition) -> None:
        o = fd.ops
        a = fd.define_tensor(shape=[5, 5, 1, 6], contiguity=[True, True, None, True])
        b = fd.define_tensor(shape=[6], contiguity=True)
        low = o.minimum(o.broadcast(b, [True, True, True, False]), a)
        fd.add_output(o.squeeze(low, [2]))
        fd.add_output(o.cat([low, low], 2))

    low = torch.minimum(x, y)
    check(definition, [x, y], [low.squeeze(2), torch.cat([low, low], 2)])


@pytest.mark.parametrize("along", [[0, 1], [1, 2]])
@pytest.mark.parametrize("size", [2, 40])
def test_part_of_a_row_before_and_after_its_smallest_value(along: list[int], size: int) -> None:
    """What lacks one of the reduced dimensions is computed where it is read, on both sides."""
    x = torch.randn(size, 3, 7)
    y = torch.randn(3, 7) if along == [0, 1] else torch.randn(size, 3)
    y[0] = x[0, 0] if along == [0, 1] else x[0, :, 0]  # some are equal

    def definition(fd: FusionDefinition) -> None:
        o = fd.ops
        a = fd.define_tensor(shape=[-1, 3, -1], contiguity=True)
        if along == [0, 1]:
            b = o.broadcast(fd.define_tensor(shape=[3, -1], contiguity=True), [True, False, False])
        else:
            b = o.broadcast(fd.define_tensor(shape=[-1, 3], contiguity=True), [False, False, True])
        total = o.add(b, a)
        least = o.broadcast(o.min(total, along), [i in along for i in range(3)])
        fd.add_output(o.where(o.eq(a, b), total, least))

    wide = y if along == [0, 1] else y.unsqueeze(2)
    least = (x + wide).amin(along, keepdim=True)
    check(definition, [x, y], [torch.where(x == wide, x + wide, least)])
