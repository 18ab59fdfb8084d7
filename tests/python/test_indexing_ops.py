# SPDX-License-Identifier: BSD-3-Clause
"""Scans and the gather family against torch: dtypes, layouts, empty dimensions, bounds."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch
from helpers import DEVICE, assert_all_same, define, run
from nvfuse_direct import DataType, FusionDefinition
from nvfuse_direct.reference import evaluate

Tensor = torch.Tensor
Ops = Callable[..., Sequence[object]]

DTYPES = [
    torch.float,
    torch.double,
    torch.half,
    torch.bfloat16,
    torch.int64,
    torch.int32,
    torch.bool,
    torch.complex64,
]


def values(sizes: Sequence[int], dtype: torch.dtype, seed: int = 0) -> Tensor:
    """Small integers: sums and products of a few are exact in every dtype."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randint(-2, 3, tuple(sizes), generator=generator)
    return x.to(dtype).to(DEVICE)


def positions(sizes: Sequence[int], bound: int, seed: int = 0, dtype=torch.int64) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, max(bound, 1), tuple(sizes), generator=generator).to(dtype).to(DEVICE)


def execute(ops: Ops, inputs: Sequence[Tensor]) -> list[Tensor]:
    def definition(fd: FusionDefinition) -> None:
        for out in ops(fd, *(fd.from_pytorch(x) for x in inputs)):
            fd.add_output(out)

    return run(definition, inputs)


def check(ops: Ops, inputs: Sequence[Tensor], expected: Sequence[Tensor]) -> None:
    assert_all_same(execute(ops, inputs), expected)


def layouts(x: Tensor) -> list[Tensor]:
    """The same values, contiguous, permuted, strided."""
    padded = torch.zeros([n + 1 for n in x.shape], dtype=x.dtype, device=x.device)
    padded[tuple(slice(0, n) for n in x.shape)] = x
    return [x, x.mT.contiguous().mT, padded[tuple(slice(0, n) for n in x.shape)]]


def test_lookups_of_every_dtype() -> None:
    for dtype in DTYPES:
        x = values([3, 4, 5], dtype)
        i = positions([6], 4)
        i3 = positions([2, 6, 3], 4, dtype=torch.int32)
        exact = positions([3, 2, 5], 4)
        scalar = positions([], 3)
        rows = positions([2, 3], 5)

        def ops(fd, t, i, i3, exact, scalar, rows, table):
            o = fd.ops
            return (
                o.index_select(t, i, 1),
                o.gather(t, i3, 1),
                o.take_along_axis(t, exact, -2),
                o.select(t, scalar, 0),
                o.select(t, -1, 2),
                o.embedding_fwd(rows, table),
            )

        table = values([5, 4], dtype, seed=1)
        check(
            ops,
            [x, i, i3, exact, scalar, rows, table],
            [
                x.index_select(1, i),
                x.gather(1, i3.long()),
                torch.take_along_dim(x, exact, 1),
                x[int(scalar)],
                x[..., -1],
                table[rows],
            ],
        )


def test_lookups_in_other_memory_orders() -> None:
    x = values([4, 6], torch.float)
    i = positions([5], 6)
    i2 = positions([3, 6], 4)
    for t in layouts(x):
        for index in layouts(i2):
            check(
                lambda fd, t, i, i2: (fd.ops.index_select(t, i, 1), fd.ops.gather(t, i2, 0)),
                [t, i, index],
                [x.index_select(1, i), x.gather(0, i2)],
            )


def test_lookups_of_expanded_and_broadcast_tensors() -> None:
    row = values([1, 5], torch.float).expand(4, 5)
    column = values([4, 1], torch.float)
    index = positions([4, 3], 4)
    across = positions([1, 3], 4)
    check(
        lambda fd, r, c, i, j: (
            fd.ops.gather(r, i, 0),
            fd.ops.take_along_axis(c, i, 0),
            fd.ops.take_along_axis(r, j, 1),
            fd.ops.index_select(c, fd.ops.select(i, 1, 0), 0),
        ),
        [row, column, index, across],
        [
            row.gather(0, index),
            column.expand(4, 3).gather(0, index),
            row.gather(1, across.expand(4, 3)),
            column.index_select(0, index[1]),
        ],
    )


def test_sizes_zero_and_one() -> None:
    x = values([1, 3], torch.float)
    none = values([0, 3], torch.float)
    empty = positions([0], 1)
    one = positions([1], 1)
    scalar = positions([], 1)
    check(
        lambda fd, x, none, empty, one, scalar: (
            fd.ops.index_select(x, empty, 0),
            fd.ops.index_select(x, one, 0),
            fd.ops.index_select(x, scalar, 1),
            fd.ops.index_select(none, empty, 0),
        ),
        [x, none, empty, one, scalar],
        [x.index_select(0, empty), x, x[:, :1], none],
    )


def test_positions_out_of_range_read_nothing() -> None:
    """torch raises; here the element is 0 and nothing outside of the tensor is read."""
    x = values([4, 3], torch.float) + 10
    index = torch.tensor([0, -1, 4, 3, 2**40, -(2**40)], device=DEVICE)
    grid = index.reshape(6, 1).expand(6, 3).contiguous()
    none = torch.empty(0, 3, device=DEVICE)

    def ops(fd, x, index, grid, none):
        o = fd.ops
        return (
            o.index_select(x, index, 0),
            o.gather(x, grid, 0),
            o.embedding_fwd(index, x),
            o.index_select(none, index, 0),
        )

    zero = torch.zeros(3, device=DEVICE)
    expected = torch.stack([x[0], zero, zero, x[3], zero, zero])
    check(ops, [x, index, grid, none], [expected, expected, expected, torch.zeros_like(expected)])


def test_positions_out_of_range_of_a_computed_table() -> None:
    """The element is 0 there too, whatever is computed from a 0 of what the table is made of."""
    x = values([4, 3], torch.float)
    index = torch.tensor([[0, 3, -1], [4, 1, 2**40]], device=DEVICE)

    def ops(fd, x, index):
        o = fd.ops
        table = o.add(o.mul(x, 2.0), 1.0)
        return o.gather(table, index, 0), o.take_along_axis(o.sub(1.0, x), index, 0), table

    inside = (index >= 0) & (index < 4)
    near = index.clamp(0, 3)
    table = x * 2 + 1

    def expected(table: torch.Tensor) -> torch.Tensor:
        return table.gather(0, near).where(inside, 0.0)

    check(ops, [x, index], [expected(table), expected(1 - x), table])


def test_an_index_of_which_the_table_is_computed() -> None:
    x = values([2, 3, 4], torch.float)
    index = positions([2, 3, 4], 4)
    check(
        lambda fd, x, index: (fd.ops.take_along_axis(fd.ops.mul(x, index), index, 2),),
        [x, index],
        [(x * index).gather(2, index)],
    )


def test_lookup_of_a_computed_tensor_and_with_a_computed_index() -> None:
    x = values([5, 4], torch.float)
    index = positions([3], 4)

    def ops(fd, x, index):
        o = fd.ops
        twice = o.mul(x, 2.0)
        rows = o.index_select(twice, o.add(index, 1), 0)
        return (o.add(rows, o.index_select(rows, index, 0)), o.index_select(o.sum(x, 1), index, 0))

    index = index % 3
    rows = 2 * x[index + 1]
    check(ops, [x, index], [rows + rows[index], x.sum(1)[index]])


def test_cross_entropy_idiom() -> None:
    """The index is a Float, as where(bool, int tensor, 0.0) makes it."""
    logits = values([6, 9], torch.float)
    labels = positions([6], 9)

    def ops(fd, logits, labels):
        o = fd.ops
        chosen = o.where(o.ge(labels, 0), labels, 0.0)
        column = o.broadcast_in_dim(chosen, [6, 1], [0])
        return (o.neg(o.squeeze(o.take_along_axis(logits, column, 1), [1])),)

    check(ops, [logits, labels], [-logits.gather(1, labels[:, None])[:, 0]])


def test_gather_checks_sizes() -> None:
    x, index = values([2, 3], torch.float), positions([3, 3], 3)
    with pytest.raises(RuntimeError, match=r"gather: dimension 0 of input 1.* has size 3"):
        execute(lambda fd, x, i: (fd.ops.gather(x, i, 1),), [x, index])
    with pytest.raises(RuntimeError, match="Sizes do not agree"):
        execute(lambda fd, x, i: (fd.ops.take_along_axis(x, i, 1),), [x, index])


@pytest.mark.parametrize(
    ("op", "message"),
    [
        (lambda o, t, i: o.gather(t, i, 0), "Tensor arguments have dimension 2 and 1"),
        (lambda o, t, i: o.take_along_axis(t, i, 0), "Tensor arguments have dimension"),
        (lambda o, t, i: o.scatter(t, i, 1.0, 0), "Tensor arguments have dimension"),
        (lambda o, t, i: o.index_select(t, t, 0), "must be of rank 1 or 0"),
        (lambda o, t, i: o.index_select(t, i, 2), "out of boundary index"),
        (lambda o, t, i: o.index_select(t, o.eq(i, 0), 0), "must hold integers"),
        (lambda o, t, i: o.select(t, 1.5, 0), "must be an integer"),
        (lambda o, t, i: o.select(t, 4, 0), "out of range"),
        (lambda o, t, i: o.select(t, i, 0), "rank 0"),
        (lambda o, t, i: o.embedding_fwd(i, i), "weight must be of rank 2"),
        (lambda o, t, i: o.embedding_fwd(o.select(i, 0, 0), t), "rank 1 or more"),
        (lambda o, t, i: o.embedding_fwd(t, t), "must hold integers"),
    ],
)
def test_errors(op: Callable, message: str) -> None:
    def definition(fd: FusionDefinition) -> None:
        t = fd.define_tensor(shape=[4, 5], contiguity=True)
        i = fd.define_tensor(shape=[3], contiguity=True, dtype=DataType.Int)
        fd.add_output(op(fd.ops, t, i))

    with pytest.raises(RuntimeError, match=message):
        define(definition)


def test_embedding_with_a_maximal_norm() -> None:
    table = values([5, 8], torch.float) + 0.5
    rows = positions([2, 3], 5)
    expected = torch.nn.functional.embedding(rows.cpu(), table.cpu().clone(), max_norm=2.0)

    def definition(fd: FusionDefinition) -> None:
        i, t = fd.from_pytorch(rows), fd.from_pytorch(table)
        fd.add_output(fd.ops.embedding_fwd(i, t, fd.define_scalar(1), 2.0, 2.0, False, False))

    (out,) = evaluate(define(definition).fusion, [rows, table])
    assert torch.allclose(out.cpu(), expected, rtol=1e-5)


# ---- scans


def cum(name: str, x: Tensor, dim: int) -> Tensor:
    """torch's scan with the dtype of the input kept."""
    if name in ("cummin", "cummax"):
        if x.dtype == torch.bool:
            return getattr(torch, name)(x.to(torch.int32), dim).values.bool()
        return getattr(torch, name)(x, dim).values
    wide = x.long() if x.dtype == torch.bool else x
    return getattr(torch, name)(wide, dim, dtype=wide.dtype).to(x.dtype)


def test_scans_of_every_dtype_and_axis() -> None:
    for dtype in DTYPES:
        names = ["cumsum", "cumprod"]
        if not dtype.is_complex:
            names += ["cummin", "cummax"]
        x = values([3, 4, 6], dtype)
        for dim in range(3):
            check(
                lambda fd, t, names=names, dim=dim: [getattr(fd.ops, n)(t, dim) for n in names],
                [x],
                [cum(name, x, dim) for name in names],
            )


def test_scans_in_other_memory_orders_and_shapes() -> None:
    x = values([5, 7], torch.float)
    for t in layouts(x):
        check(
            lambda fd, t: (fd.ops.cumsum(t, 0), fd.ops.cummax(fd.ops.neg(t), 1)),
            [t],
            [x.cumsum(0), (-x).cummax(1).values],
        )
    row = values([1, 7], torch.float).expand(5, 7)
    check(lambda fd, t: (fd.ops.cumsum(t, 1),), [row], [row.cumsum(1)])
    for sizes in ([0, 3], [3, 0], [1, 4], [4, 1], [300], [1], [257, 3]):
        x = values(sizes, torch.int64)
        check(
            lambda fd, t, sizes=sizes: [fd.ops.cumsum(t, d) for d, _ in enumerate(sizes)],
            [x],
            [x.cumsum(d) for d, _ in enumerate(sizes)],
        )


def test_scans_with_neighbours() -> None:
    x = values([6, 5], torch.float)
    y = values([5], torch.float, seed=1)

    def ops(fd, x, y):
        o = fd.ops
        first = o.cumsum(o.mul(x, 2.0), 1, init=1.0)
        return (o.add(first, y), first, o.cumsum(first, 0), o.sum(first, [1]))

    first = (2 * x).cumsum(1) + 1
    check(ops, [x, y], [first + y, first, first.cumsum(0), first.sum(1)])


def test_nan_in_scans() -> None:
    x = torch.tensor([[1.0, float("nan"), 3.0, -2.0]], device=DEVICE).repeat(2, 1)
    check(
        lambda fd, t: (fd.ops.cummax(t, 1), fd.ops.cumsum(t, 1)),
        [x],
        [x.cummax(1).values, x.cumsum(1)],
    )


# ---- scatter


def test_scatter() -> None:
    for dtype in DTYPES:
        x = values([4, 5], dtype)
        src = values([4, 6], dtype, seed=1)
        index = torch.argsort(torch.rand(3, 5, device=DEVICE), 1)[:, :4].contiguous()

        def ops(fd, x, index, src, dtype=dtype):
            o = fd.ops
            negated = x if dtype == torch.bool else o.cast(o.neg(x), fd.fusion.inputs()[0].dtype())
            return (
                o.scatter(x, index, src, 1),
                o.scatter(x, index, 1, -1),
                o.scatter(negated, index, src, 1),
            )

        scalar = torch.ones((), dtype=dtype, device=DEVICE)
        negated = x if dtype == torch.bool else -x
        check(
            ops,
            [x, index, src],
            [
                x.scatter(1, index, src),
                x.scatter(1, index, scalar.expand(3, 4)),
                negated.scatter(1, index, src),
            ],
        )


def test_scatter_layouts_bounds_and_repeats() -> None:
    x = values([5, 4], torch.float)
    src = values([3, 4], torch.float, seed=1)
    index = torch.tensor([[0, 1, 2, 3], [4, 0, 4, 0], [2, 2, 0, 1]], device=DEVICE)
    for t in layouts(x):
        for i in layouts(index):
            check(
                lambda fd, t, i, s: (fd.ops.mul(fd.ops.scatter(t, i, s, 0), 2.0),),
                [t, i, src],
                [2 * x.scatter(0, index, src)],
            )
    repeated = torch.zeros(2, 3, dtype=torch.int64, device=DEVICE)
    outside = torch.tensor([[-1, 5, 2**40]], device=DEVICE)
    s = torch.arange(6.0, device=DEVICE).reshape(2, 3)
    last = x.clone()
    last[0, :3] = s[1]
    check(
        lambda fd, t, r, o, s: (fd.ops.scatter(t, r, s, 0), fd.ops.scatter(t, o, s, 0)),
        [x, repeated, outside, s],
        [last, x],
    )
    with pytest.raises(RuntimeError, match=r"scatter: dimension 1 of input 1.* has size 5"):
        execute(
            lambda fd, t, i: (fd.ops.scatter(t, i, 1.0, 0),),
            [x, torch.zeros(1, 5, dtype=torch.int64, device=DEVICE)],
        )


def test_a_lookup_in_what_has_no_elements_is_no_error() -> None:
    """Its schedule has loops without iterations, though one output has an element."""
    with FusionDefinition() as fd:
        x = fd.define_tensor(shape=[-1, -1, 1], contiguity=True, dtype=DataType.Float)
        zero = fd.ops.iota(1, 0, 1)
        total = fd.ops.sum(fd.ops.index_select(x, zero, 1), [1, 2])
        fd.add_output(fd.ops.take_along_axis(total, zero, 0))
    (full,) = fd.execute([torch.full((2, 3, 1), 5.0, device=DEVICE)])
    assert full.tolist() == [5.0]
    (none,) = fd.execute([torch.empty((0, 0, 1), device=DEVICE)])
    assert none.tolist() == [0.0]
