# SPDX-License-Identifier: BSD-3-Clause
"""Scatters of long lines: a copy, and a kernel that writes elements into it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from helpers import DEVICE, assert_all_same, define, run
from nvfuse_direct import DataType, FusionDefinition, explain

Tensor = torch.Tensor
Ops = Callable[..., Sequence[Any]]

# Along the scattered dimension: enough for all machines, with few lines.
LONG = 20000


def numbers(*sizes: int, dtype: torch.dtype = torch.float, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-50, 50, sizes, generator=generator).to(dtype).to(DEVICE)


def different(*sizes: int, dim: int, bound: int, seed: int = 0) -> Tensor:
    """Positions that differ along a dimension."""
    generator = torch.Generator().manual_seed(seed)
    whole = list(sizes)
    whole[dim] = bound
    order = torch.rand(whole, generator=generator).argsort(dim)
    return order.narrow(dim, 0, sizes[dim]).contiguous().to(DEVICE)


def defined(ops: Ops, inputs: Sequence[Tensor], static: bool = False) -> FusionDefinition:
    def definition(fd: FusionDefinition) -> None:
        for out in ops(fd, *(fd.from_pytorch(x, static_sizes=static) for x in inputs)):
            fd.add_output(out)

    return define(definition)


def check(ops: Ops, inputs: Sequence[Tensor], expected: Sequence[Tensor]) -> FusionDefinition:
    """Twice, the second time with a plan; the inputs stay what they are."""
    before = [x.clone() for x in inputs]
    for static in (True, False):
        fd = defined(ops, inputs, static)
        for _ in range(2):
            assert_all_same(fd.execute(inputs), expected)
    assert_all_same(list(inputs), before)
    return fd


def kernels(fd: FusionDefinition, inputs: Sequence[Tensor]) -> list[str]:
    report = explain(fd, inputs, measure=False)
    return [segment.scheduler for segment in report.segments]


@pytest.mark.parametrize(
    "dtype",
    [torch.float, torch.bfloat16, torch.double, torch.bool, torch.int32, torch.complex64],
)
def test_long_lines_take_no_thread_of_their_own(dtype: torch.dtype) -> None:
    x, src = numbers(4, LONG, dtype=dtype), numbers(4, 60, dtype=dtype, seed=1)
    index = different(4, 60, dim=1, bound=LONG)
    fd = check(
        lambda fd, x, i, s: (fd.ops.scatter(x, i, s, 1),),
        [x, index, src],
        [x.scatter(1, index, src)],
    )
    assert kernels(fd, [x, index, src]) == ["pointwise", "pointwise"]


def test_short_lines_take_one_kernel() -> None:
    x, index, src = numbers(400, 8), different(400, 3, dim=1, bound=8), numbers(400, 3)
    fd = check(
        lambda fd, x, i, s: (fd.ops.scatter(x, i, s, 1),),
        [x, index, src],
        [x.scatter(1, index, src)],
    )
    assert kernels(fd, [x, index, src]) == ["greedy"]


def test_operands_that_a_kernel_has_to_compute() -> None:
    """A thread for each line would read them from memory, written by a kernel more."""
    x, index, src = numbers(400, 8), different(400, 3, dim=1, bound=8), numbers(400, 3)
    fd = check(
        lambda fd, x, i, s: (fd.ops.scatter(x, fd.ops.sub(7, i), fd.ops.neg(s), 1),),
        [x, index, src],
        [x.scatter(1, 7 - index, -src)],
    )
    assert kernels(fd, [x, index, src]) == ["pointwise", "pointwise"]


def test_fewer_positions_than_lines_and_longer_sources() -> None:
    x = numbers(5, LONG, 3)
    index = different(4, 50, 2, dim=1, bound=LONG)
    src = numbers(6, 51, 4, seed=1)
    check(
        lambda fd, x, i, s: (fd.ops.scatter(x, i, s, 1), fd.ops.scatter(x, i, 7.0, -2)),
        [x, index, src],
        [x.scatter(1, index, src), x.scatter(1, index, 7.0)],
    )


def test_layouts() -> None:
    x, src = numbers(4, LONG, 4), numbers(4, 30, 4, seed=1)
    index = different(4, 30, 4, dim=1, bound=LONG)
    expected = x.scatter(1, index, src)
    for of_x in ((0, 1, 2), (2, 0, 1), (1, 2, 0)):
        for of_others in ((0, 1, 2), (2, 1, 0)):
            back = [of_x.index(d) for d in range(3)]
            back_others = [of_others.index(d) for d in range(3)]
            permuted = [
                x.permute(of_x).contiguous().permute(back),
                index.permute(of_others).contiguous().permute(back_others),
                src.permute(of_others).contiguous().permute(back_others),
            ]
            check(lambda fd, x, i, s: (fd.ops.scatter(x, i, s, 1),), permuted, [expected])
    wide = numbers(4, LONG, 5)
    check(
        lambda fd, x, i, s: (fd.ops.scatter(x, i, s, 1),),
        [wide[:, :, 1:], index, src],
        [wide[:, :, 1:].scatter(1, index, src)],
    )


def test_positions_outside_are_left_out() -> None:
    x = numbers(2, LONG)
    index = torch.tensor([[-1, 3, LONG], [2**40, 5, -LONG]], device=DEVICE)
    expected = x.clone()
    expected[0, 3] = expected[1, 5] = 9.0
    check(lambda fd, x, i: (fd.ops.scatter(x, i, 9.0, 1),), [x, index], [expected])


def test_of_equal_positions_one_wins() -> None:
    x, src = numbers(2, LONG), torch.arange(1000.0, 1600.0, device=DEVICE).view(2, 300)
    index = torch.full((2, 300), 17, device=DEVICE)
    (out,) = run(
        lambda fd: fd.add_output(
            fd.ops.scatter(fd.from_pytorch(x), fd.from_pytorch(index), fd.from_pytorch(src), 1)
        ),
        [x, index, src],
    )
    for row in range(2):
        assert out[row, 17] in src[row]
    out[:, 17] = x[:, 17]
    assert_all_same([out], [x])


def test_rows_of_vectors() -> None:
    """All elements of a vector go to one position: what is written is whole vectors."""
    cache, keys = numbers(2, 4, 4096, 64, dtype=torch.bfloat16), numbers(2, 4, 96, 64, seed=1)
    places = different(96, dim=0, bound=4096)

    def ops(fd: FusionDefinition, cache: Any, keys: Any, places: Any) -> list[Any]:
        o = fd.ops
        rows = o.expand(o.broadcast(places, [True, True, False, True]), [2, 4, 96, 64])
        return [o.scatter(cache, rows, o.cast(keys, DataType.BFloat16), 2)]

    fd = check(ops, [cache, keys, places], [cache.index_copy(2, places, keys.bfloat16())])
    assert kernels(fd, [cache, keys, places]) == ["pointwise", "pointwise"]


@pytest.mark.machine("h200")
def test_text_of_rows_of_vectors() -> None:
    cache, keys = numbers(2, 4096, 64, dtype=torch.bfloat16), numbers(2, 96, 64)
    keys = keys.bfloat16()
    places = different(96, dim=0, bound=4096)

    def ops(fd: FusionDefinition, cache: Any, keys: Any, places: Any) -> list[Any]:
        rows = fd.ops.expand(fd.ops.broadcast(places, [True, False, True]), [2, 96, 64])
        return [fd.ops.scatter(cache, rows, keys, 1)]

    fd = defined(ops, [cache, keys, places], static=True)
    fd.execute([cache, keys, places])
    text = fd.fec.get_cuda_kernel([cache, keys, places])
    assert "nvf::storeGlobal<__bfloat, 8>" in text


def test_what_is_computed_before_and_after() -> None:
    x, index = numbers(3, LONG), different(3, 40, dim=1, bound=LONG)

    def ops(fd: FusionDefinition, x: Any, i: Any) -> list[Any]:
        o = fd.ops
        score = o.gather(x, i, 1)
        score = o.where(o.lt(score, 0.0), o.mul(score, 2.0), o.div(score, 2.0))
        out = o.scatter(x, i, score, 1)
        last = o.scatter(o.neg(out), o.sub(LONG - 1, i), o.mul(score, 3.0), 1)
        return [out, o.add(out, x), o.max(out, [1]), last, score]

    score = x.gather(1, index)
    score = torch.where(score < 0, score * 2, score / 2)
    out = x.scatter(1, index, score)
    last = (-out).scatter(1, LONG - 1 - index, score * 3)
    check(ops, [x, index], [out, out + x, out.amax(1), last, score])


def test_several_scatters_of_one_tensor() -> None:
    x, index, src = numbers(2, LONG), different(2, 40, dim=1, bound=LONG), numbers(2, 40, seed=1)

    def ops(fd: FusionDefinition, x: Any, i: Any, s: Any) -> list[Any]:
        o = fd.ops
        negated = o.neg(x)
        first = o.scatter(negated, i, s, 1)
        second = o.scatter(negated, i, 1.0, 1)
        third = o.scatter(first, o.sub(LONG - 1, i), s, 1)
        fourth = o.scatter(o.scatter(x, i, s, 1), o.sub(LONG - 1, i), 3.0, 1)
        return [negated, first, second, third, fourth]

    first = (-x).scatter(1, index, src)
    other = LONG - 1 - index
    check(
        ops,
        [x, index, src],
        [
            -x,
            first,
            (-x).scatter(1, index, 1.0),
            first.scatter(1, other, src),
            x.scatter(1, index, src).scatter(1, other, 3.0),
        ],
    )


def test_constant_tensors_are_written_once() -> None:
    index = different(4, 40, dim=1, bound=LONG)

    def ops(fd: FusionDefinition, i: Any) -> list[Any]:
        zeros = fd.ops.full([4, LONG], 0.0, DataType.Float)
        return [fd.ops.scatter(zeros, i, 1.0, 1)]

    fd = check(ops, [index], [torch.zeros(4, LONG, device=DEVICE).scatter(1, index, 1.0)])
    assert kernels(fd, [index]) == ["pointwise", "pointwise"]


def test_no_positions() -> None:
    x = numbers(2, LONG)
    for sizes in ((2, 0), (0, 3)):
        index = torch.zeros(sizes, dtype=torch.int64, device=DEVICE)
        src = numbers(2, 3)
        check(
            lambda fd, x, i, s: (fd.ops.scatter(x, i, s, 1), fd.ops.scatter(x, i, 2.0, 1)),
            [x, index, src],
            [x, x],
        )


def test_sizes_decide_call_by_call() -> None:
    """One definition, with lines of all lengths and numbers, positions and sources."""
    fd = defined(
        lambda fd, x, i, s: (fd.ops.mul(fd.ops.scatter(x, i, s, 1), 2.0),),
        [numbers(2, 3), different(2, 2, dim=1, bound=3), numbers(2, 2)],
    )
    for lines, line, of_index, of_src in (
        (2, LONG, (2, 50), (2, 50)),
        (1, LONG, (1, 1), (1, 50)),
        (3, 7, (3, 2), (3, 4)),
        (40, 5000, (1, 64), (40, 64)),
        (1, 1, (1, 1), (1, 1)),
        (3, LONG + 1, (2, 33), (3, 64)),
    ):
        x, src = numbers(lines, line), numbers(*of_src, seed=1)
        index = different(*of_index, dim=1, bound=line)
        for _ in range(2):
            assert_all_same(fd.execute([x, index, src]), [2 * x.scatter(1, index, src)])


@pytest.mark.parametrize("reads_before", [False, True])
@pytest.mark.parametrize("gap", [0, 1])
def test_an_input_that_the_result_is_written_into(reads_before: bool, gap: int) -> None:
    """It is updated where it is; whoever reads it does it before."""
    index, src = different(3, 40, dim=1, bound=LONG), numbers(3, 40, seed=1)

    def definition(fd: FusionDefinition) -> None:
        x, i, s = (fd.from_pytorch(t) for t in (storage[:, gap:], index, src))
        if reads_before:
            s = fd.ops.add(s, fd.ops.gather(x, fd.ops.sub(LONG - 1, i), 1))
        out = fd.ops.scatter(x, i, s, 1)
        fd.add_output(out, alias_input=x)
        fd.add_output(fd.ops.neg(out))
        if reads_before:
            fd.add_output(fd.ops.add(x, 1.0))

    storage = numbers(3, LONG + gap)
    fd = define(definition)
    for seed in range(3):
        storage = numbers(3, LONG + gap, seed=seed)
        x = storage[:, gap:]
        before = x.clone()
        put = src + before.gather(1, LONG - 1 - index) if reads_before else src
        expected = before.scatter(1, index, put)
        results = fd.execute([x, index, src])
        assert_all_same([x], [expected])
        assert_all_same(results, [-expected] + ([before + 1] if reads_before else []))


def test_an_updated_input_is_not_copied() -> None:
    x, index, src = numbers(3, LONG), different(3, 40, dim=1, bound=LONG), numbers(3, 40, seed=1)

    def definition(fd: FusionDefinition) -> None:
        t, i, s = (fd.from_pytorch(v) for v in (x, index, src))
        fd.add_output(fd.ops.scatter(t, i, s, 1), alias_input=t)

    fd = define(definition)
    expected = x.scatter(1, index, src)
    assert kernels(fd, [x.clone(), index, src]) == ["pointwise"]
    fd.execute([x, index, src])
    assert_all_same([x], [expected])


def test_an_updated_input_that_another_argument_shows() -> None:
    x, index = numbers(3, LONG), different(3, 40, dim=1, bound=LONG)

    def definition(fd: FusionDefinition) -> None:
        t, i, s = (fd.from_pytorch(v) for v in (x, index, x))
        fd.add_output(fd.ops.scatter(t, i, s, 1), alias_input=t)
        fd.add_output(fd.ops.add(s, 1.0))

    fd = define(definition)
    before = x.clone()
    (more,) = fd.execute([x, index, x])
    assert_all_same([x, more], [before.scatter(1, index, before), before + 1])


def test_results_written_into_other_inputs() -> None:
    x, index = numbers(3, LONG), different(3, 40, dim=1, bound=LONG)
    src, other = numbers(3, 40, seed=1), torch.zeros(3, LONG, device=DEVICE)

    def definition(fd: FusionDefinition) -> None:
        t, i, s, o = (fd.from_pytorch(v) for v in (x, index, src, other))
        fd.add_output(fd.ops.scatter(t, i, s, 1), alias_input=o)
        again = fd.ops.scatter(fd.ops.scatter(t, i, s, 1), fd.ops.sub(LONG - 1, i), 2.0, 1)
        fd.add_output(again, alias_input=t)

    fd = define(definition)
    first = x.scatter(1, index, src)
    fd.execute([x, index, src, other])
    assert_all_same([other, x], [first, first.scatter(1, LONG - 1 - index, 2.0)])


@pytest.mark.parametrize("source", ["an input", "computed", "the tensor itself", "a number"])
@pytest.mark.parametrize("index_is_computed", [False, True])
@pytest.mark.parametrize(
    "sizes, positions, dim",
    [
        ((4, 5), (1, 3), 0),
        ((4, 5), (2, 3), 0),
        ((3, 4, 5), (2, 1, 3), 1),
        ((2, 9, 4, 8), (2, 1, 3, 8), 1),
    ],
)
def test_one_position_of_fewer_lines(
    sizes: tuple[int, ...],
    positions: tuple[int, ...],
    dim: int,
    index_is_computed: bool,
    source: str,
) -> None:
    """Lines are as far apart as those of the tensor, also if one element of each is written."""
    table, values = numbers(*sizes), numbers(*positions, seed=1)
    index = different(*positions, dim=dim, bound=sizes[dim])

    def ops(fd: FusionDefinition, t: Any, i: Any, v: Any) -> list[Any]:
        i = fd.ops.sub(fd.ops.add(i, 1), 1) if index_is_computed else i
        src = {"an input": v, "the tensor itself": t, "a number": None}.get(source)
        if source == "computed":
            src = fd.ops.neg(v)
        return [fd.ops.scatter(t, i, 7.0 if source == "a number" else src, dim)]

    start = tuple(slice(0, n) for n in positions)
    src = {"an input": values, "computed": -values, "the tensor itself": table[start]}.get(source)
    written = torch.full_like(values, 7) if src is None else src
    inputs = [table, index, values]
    check(ops, inputs, [table.scatter(dim, index, written)])
