# SPDX-License-Identifier: BSD-3-Clause
"""Dimensions that are one loop, which lowering did not see and refused the kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from helpers import DEVICE, assert_all_same, define, on_device
from nvfuse_direct import FusionDefinition

Tensor = torch.Tensor
Definition = Callable[[FusionDefinition], None]


def symbolic(fd: FusionDefinition, *inputs: Tensor) -> list[Any]:
    """Contiguous tensors of any sizes."""
    return [fd.define_tensor([-1] * x.dim(), [True] * x.dim()) for x in inputs]


def check(definition: Definition, calls: list[tuple[list[Tensor], list[Tensor]]]) -> None:
    """One definition with inputs and expected outputs; no kernel took the place of another one."""
    fd = define(definition)
    for inputs, expected in calls:
        outputs = fd.execute([on_device(x) for x in inputs], device=DEVICE)
        assert fd.fec._num_fallbacks == 0, "a kernel that could not be made was replaced by others"
        assert_all_same(outputs, expected, rtol=1e-5, atol=1e-5)


# ---------------------------------------------- a dimension that is squeezed and has iterations too


@pytest.mark.parametrize("sizes", [(1, 1), (4, 6), (33, 20), (2, 3000)])
def test_a_column_that_is_squeezed_beside_its_product(sizes: tuple[int, int]) -> None:
    """The column stands in the loop of rows and columns together, which the squeezed one has."""
    column, x = torch.randn(sizes[0], 1), torch.randn(sizes)

    def definition(fd: FusionDefinition) -> None:
        o = fd.ops
        a = fd.define_tensor([-1, 1], [True, None])
        (b,) = symbolic(fd, x)
        again = o.broadcast(o.squeeze(a, [1]), [False, True])
        fd.add_output(o.min(o.maximum(o.mul(a, b), again), [0, 1]))

    check(definition, [([column, x], [torch.maximum(column * x, column).min()])])


@pytest.mark.parametrize("sizes", [(2, 3, 5), (1, 1, 1), (3, 3, 300)])
def test_a_squeezed_value_for_each_row_of_a_softmax(sizes: tuple[int, int, int]) -> None:
    x, y = torch.randn(sizes), torch.randn(sizes[0])

    def definition(fd: FusionDefinition) -> None:
        o = fd.ops
        a, b = symbolic(fd, x, y)
        wide = o.broadcast(b, [False, True])
        square = o.broadcast(o.squeeze(o.mul(wide, wide), [1]), [False, True])
        total = o.add(a, o.broadcast(o.mul(wide, o.add(square, 1.0)), [False, False, True]))
        high = o.broadcast(o.max(total, [2]), [False, False, True])
        e = o.exp(o.sub(total, high))
        fd.add_output(o.div(e, o.broadcast(o.sum(e, [2]), [False, False, True])))

    expected = (x + (y * (y * y + 1))[:, None, None]).softmax(2)
    check(definition, [([x, y], [expected])])


# ----------------------------------------------------------------------- a value along several axes


@pytest.mark.parametrize("before", [True, False])
def test_an_outer_product_and_its_squeezed_copy(before: bool) -> None:
    """One value is read along two axes, by the tensor and by what the squeezed one is made of."""
    x = torch.randn(1, 1)

    def definition(fd: FusionDefinition) -> None:
        o = fd.ops
        a = fd.define_tensor([1, 1], [None, None])
        pair = o.cat([a, o.neg(a)], 1)
        square = o.mul(
            o.broadcast(pair, [False, False, True]), o.broadcast(pair, [True, False, False])
        )
        outputs = [square, o.squeeze(square, [0])]
        for tv in outputs if before else outputs[::-1]:
            fd.add_output(tv)

    pair = torch.cat([x, -x], 1)
    outputs = [pair[:, :, None] * pair[None], (pair[:, :, None] * pair[None])[0]]
    check(definition, [([x], outputs if before else outputs[::-1])])


@pytest.mark.parametrize("rows", [1, 3, 64])
def test_rows_of_a_reshape_against_themselves(rows: int) -> None:
    """Rows and their columns are a merge of what the reshape took apart, and parts of it."""
    x = torch.randn(4 * rows)

    def definition(fd: FusionDefinition) -> None:
        o = fd.ops
        (a,) = symbolic(fd, x)
        parts = o.reshape(a, [o.div(fd.ops.size(a, 0), 4), 4])
        across = o.set(o.broadcast(parts, [False, True, False]))
        fd.add_output(o.maximum(across, o.broadcast(parts, [False, False, True])))

    parts = x.reshape(-1, 4)
    check(definition, [([x], [torch.maximum(parts[:, None], parts[:, :, None])])])


@pytest.mark.parametrize("n", [1, 3, 20])
def test_a_reshape_by_values_that_are_cut_out_too(n: int) -> None:
    """The last dimension of the reshape is a part of the one that it was split from."""
    x, y = torch.randn(n, n, 2), torch.rand(n) + 1

    def definition(fd: FusionDefinition) -> None:
        o = fd.ops
        a, b = symbolic(fd, x, y)
        fd.add_output(o.div(o.reshape(a, [2, n, n]), o.broadcast(b, [True, True, False])))
        again = o.slice(o.cat([b, b], 0), [n], [2 * n])
        fd.add_output(o.mul(b, again))

    check(definition, [([x, y], [x.reshape(2, n, n) / y, y * y])])


@pytest.mark.parametrize("sizes", [(2, 3, 4), (3, 2, 40), (5, 1, 1), (700, 8, 12)])
def test_two_scans_of_one_value_for_all_batches(sizes: tuple[int, int, int]) -> None:
    """Nothing but what is broadcast along the batch relates the two."""
    x = torch.randn(1, *sizes[1:]).expand(sizes)
    y, z = torch.randn(sizes), torch.randn(sizes)

    def definition(fd: FusionDefinition) -> None:
        o = fd.ops
        a = fd.define_tensor([-1, -1, -1], [None, True, True])
        b, c = (fd.define_tensor(list(sizes), [True] * 3) for _ in range(2))
        shared = o.neg(a)
        fd.add_output(o.cumsum(o.mul(b, shared), 2))
        fd.add_output(o.cumsum(o.add(c, shared), 2))
        fd.add_output(shared)

    check(definition, [([x, y, z], [(y * -x).cumsum(2), (z - x).cumsum(2), -x])])


# ----------------------------------------------------------------- rows beside what is looked up


@pytest.mark.parametrize("sizes", [(2, 2), (1, 1), (40, 64), (3000, 64), (64, 3000)])
def test_columns_against_one_of_them(sizes: tuple[int, int]) -> None:
    """A tensor's rows come from what is looked up, its columns from the reduction."""
    x = torch.randn(sizes)

    def definition(fd: FusionDefinition) -> None:
        o = fd.ops
        (a,) = symbolic(fd, x)
        column = o.broadcast(o.select(a, 0, dim=1), [False, True])
        highest = o.broadcast(o.max(a, [0]), [True, False])
        fd.add_output(o.minimum(column, highest))

    check(definition, [([x], [torch.minimum(x[:, :1], x.amax(0, keepdim=True))])])


# ------------------------------------------------------------------------------ rows of any length


def test_rows_of_any_length_that_are_read_of_several_inputs() -> None:
    """Each input has a number of its own for the length; what is known of one is known of all."""

    def definition(fd: FusionDefinition) -> None:
        o = fd.ops
        a = fd.define_tensor([-1], [False])
        b = fd.define_tensor([-1], [None])
        b = o.reshape(b, [o.size(b, 0)])
        lower = o.sub(a, -1.5)
        norm = o.add(o.sqrt(o.broadcast(o.sum(o.mul(b, b), [0]), [True])), 1.0)
        fd.add_output(lower)
        fd.add_output(o.sum(o.sub(o.div(b, norm), lower), [0]))

    calls = []
    for n in [6, 11, 7, 257, 300]:
        x, y = torch.randn(2 * n)[::2], torch.randn(1).expand(n)
        total = (y / ((y * y).sum().sqrt() + 1) - (x + 1.5)).sum()
        calls.append(([x, y], [x + 1.5, total]))
    check(definition, calls)


def test_rows_of_any_length_that_are_looked_up() -> None:
    def definition(fd: FusionDefinition) -> None:
        o = fd.ops
        a = fd.define_tensor([-1, 1], [True, None])
        magnitude = o.abs(o.select(a, 0, dim=1))
        centred = o.sub(magnitude, o.broadcast(o.sum(magnitude, [0]), [True]))
        spread = o.broadcast(o.sum(o.mul(centred, centred), [0]), [True])
        fd.add_output(o.sum(a, [0]))
        fd.add_output(o.div(centred, o.add(spread, 1.0)))

    calls = []
    for n in [4, 37, 1, 511, 300, 700]:
        x = torch.randn(n, 1)
        centred = x[:, 0].abs() - x.abs().sum()
        expected = [x.sum(0), centred / (1 + (centred * centred).sum())]
        calls.append(([x], expected))
    check(definition, calls)


# ------------------------------------------------- dimensions that come from inputs one by one


@pytest.mark.parametrize("again", [True, False])
@pytest.mark.parametrize("sizes", [(2, 2), (1, 1), (3, 5), (33, 64), (200, 100)])
def test_an_outer_difference_against_its_total(sizes: tuple[int, int], again: bool) -> None:
    """Behind the sum no tensor but those computed again of the inputs has both dimensions."""
    # Quarters, of which sums are exact: the total may cancel what it is taken from.
    x, y = (torch.randint(-8, 9, (n,)) / 4 for n in (sizes[1], sizes[0]))

    def definition(fd: FusionDefinition) -> None:
        o = fd.ops
        a, b = symbolic(fd, x, y)
        column, row = o.broadcast(b, [False, True]), o.broadcast(a, [True, False])
        first = o.sub(column, row)
        second = first if again else o.mul(column, row)
        total = o.broadcast(o.sum(first, [0, 1]), [True, True])
        fd.add_output(o.sub(second, total))

    first = y[:, None] - x
    second = first if again else y[:, None] * x
    check(definition, [([x, y], [second - first.double().sum().float()])])


@pytest.mark.parametrize("starts", [(0, 1), (1, 0), (2, 3), (0, 0)])
@pytest.mark.parametrize("ends", [(0, 0), (1, 0), (0, 1)])
def test_slices_of_what_is_expanded_keep_its_size(
    starts: tuple[int, int], ends: tuple[int, int]
) -> None:
    """Along a dimension that is expanded to any size, after a call with another one."""

    def expanded(rows: int, columns: int) -> torch.Tensor:
        return torch.randn(1, columns, device=DEVICE).expand(rows, columns)

    with FusionDefinition() as fd:
        x, y = (fd.from_pytorch(expanded(4, 12)) for _ in range(2))
        z = fd.ops.sub(x, y)
        stops = [fd.ops.sub(z.size(d), ends[d]) if ends[d] else z.size(d) for d in (0, 1)]
        fd.add_output(fd.ops.slice(z, list(starts), stops))
    for sizes in ((4, 12), (7, 12), (13, 127), (4, 12)):
        a, b = expanded(*sizes), expanded(*sizes)
        (got,) = fd.execute([a, b])
        rows, columns = (slice(starts[d], sizes[d] - ends[d]) for d in (0, 1))
        torch.testing.assert_close(got, (a - b)[rows, columns], rtol=0, atol=0)
