# SPDX-License-Identifier: BSD-3-Clause
"""tv.rfactor(axes): reductions in two steps, scheduled by hand, against torch in float64."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from helpers import DEVICE, LONG
from nvfuse_direct import DataType, FusionDefinition, MemoryType, ParallelType

P = ParallelType
Schedule = Callable[[FusionDefinition, Any, Any], object]

OPS: dict[str, Callable[[torch.Tensor, list[int]], torch.Tensor]] = {
    "sum": lambda x, dims: x.sum(dims),
    "max": lambda x, dims: x.amax(dims),
    "min": lambda x, dims: x.amin(dims),
}


def reduced(
    schedule: Schedule,
    shape: list[int],
    dims: list[int],
    op: str = "sum",
    dtype: DataType = DataType.Float,
    static: bool = True,
) -> FusionDefinition:
    """op(x * 2) over dims, scheduled by `schedule(fd, x, out)`, and checked."""
    with FusionDefinition() as fd:
        extents = shape if static else [-1] * len(shape)
        x = fd.define_tensor(extents, [True] * len(shape), dtype)
        doubled = fd.ops.mul(fd.ops.cast(x, DataType.Float), 2.0)
        out = getattr(fd.ops, op)(doubled, dims)
        fd.add_output(out)
        schedule(fd, x, out)
    torch_dtype = torch.bfloat16 if dtype == DataType.BFloat16 else torch.float
    torch.manual_seed(sum(shape))
    value = torch.randn(shape, device=DEVICE).to(torch_dtype)
    (actual,) = fd.manual_execute([value])
    expected = OPS[op](value.double() * 2.0, dims)
    torch.testing.assert_close(actual.double(), expected, rtol=1e-5, atol=1e-4)
    return fd


def bind(fd: FusionDefinition, tv: Any, **types: ParallelType) -> None:
    fd.sched.transform_like(tv)
    for name, kind in types.items():
        tv.axis(int(name.removeprefix("axis").replace("_", "-"))).parallelize(kind)
    fd.sched.parallelize_like(tv)
    fd.sched.inline_most()


def serial(fd: FusionDefinition, x: Any, out: Any) -> None:
    out.split(1, 8)
    bind(fd, out.rfactor([2]))


def serial_outer_first(fd: FusionDefinition, x: Any, out: Any) -> None:
    out.split(1, 8)
    bind(fd, out.rfactor([1]))


def threads(fd: FusionDefinition, x: Any, out: Any) -> None:
    out.split(1, 64)
    partial = out.rfactor([1])
    bind(fd, partial, axis0=P.grid_x, axis_1=P.block_x)


def threads_outer(fd: FusionDefinition, x: Any, out: Any) -> None:
    out.split(1, 64, inner_split=False)
    partial = out.rfactor([2])
    bind(fd, partial, axis0=P.grid_x, axis1=P.block_x)


def threads_reduce_first(fd: FusionDefinition, x: Any, out: Any) -> None:
    out.split(1, 64)
    partial = out.rfactor([2])
    bind(fd, partial, axis0=P.grid_x, axis2=P.block_x)


def warps(fd: FusionDefinition, x: Any, out: Any) -> None:
    out.split(1, 32)
    out.split(1, 4)
    partial = out.rfactor([1])  # [i, r, i4, i32] and [i, r4, r32]
    bind(fd, partial, axis0=P.grid_x, axis2=P.block_y, axis3=P.block_x)


def blocks(fd: FusionDefinition, x: Any, out: Any) -> None:
    out.split(1, 50)
    partial = out.rfactor([2])
    bind(fd, partial, axis0=P.grid_y, axis1=P.grid_x)


def blocks_and_threads(fd: FusionDefinition, x: Any, out: Any) -> None:
    out.split(1, 32)
    out.split(1, 4, inner_split=False)
    partial = out.rfactor([2])  # [i, i4, r, i32]
    bind(fd, partial, axis0=P.grid_y, axis1=P.grid_x, axis3=P.block_x)


def twice(fd: FusionDefinition, x: Any, out: Any) -> None:
    out.split(1, 32)
    out.split(1, 3)
    first = out.rfactor([2])  # [i, i, r3, i32], out [i, r, r32]
    out.rfactor([1])  # [i, r, i32], out [i, r32]
    bind(fd, first, axis0=P.grid_x, axis3=P.block_x)


def shared(fd: FusionDefinition, x: Any, out: Any) -> None:
    out.split(1, 64)
    partial = out.rfactor([1])
    partial.set_memory_type(MemoryType.shared)
    bind(fd, partial, axis0=P.grid_x, axis2=P.block_x)
    out.axis(1).parallelize(P.serial)


def from_cache(fd: FusionDefinition, x: Any, out: Any) -> None:
    cache = x.cache_after()
    out.split(1, 4)
    out.split(1, 32)
    partial = out.rfactor([1, 3])  # [i, r, i32, r4]
    bind(fd, partial, axis0=P.grid_x, axis2=P.block_x)
    assert len(cache.get_loop_domain()) == 4


SCHEDULES = [
    serial,
    serial_outer_first,
    threads,
    threads_outer,
    threads_reduce_first,
    warps,
    blocks,
    blocks_and_threads,
    twice,
    shared,
    from_cache,
]


@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda f: f.__name__)
@pytest.mark.parametrize("extent", [2, 7, 128, 1000])
def test_schedules(schedule: Schedule, extent: int) -> None:
    reduced(schedule, [5, extent], [1])


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("schedule", [threads, blocks_and_threads], ids=lambda f: f.__name__)
def test_padding_is_the_identity(schedule: Schedule, op: str) -> None:
    reduced(schedule, [3, 77], [1], op)


@pytest.mark.parametrize("schedule", [threads, blocks], ids=lambda f: f.__name__)
@pytest.mark.parametrize("extent", [1, 500])
def test_symbolic_extents_and_casts(schedule: Schedule, extent: int) -> None:
    reduced(schedule, [3, extent], [1], dtype=DataType.BFloat16, static=False)


def test_nothing_to_reduce() -> None:
    reduced(threads, [3, 0], [1], static=False)


def test_several_reduction_axes() -> None:
    def whole_axis(fd: FusionDefinition, x: Any, out: Any) -> None:
        partial = out.rfactor([0])
        bind(fd, partial, axis1=P.grid_x, axis2=P.block_x)

    def merged(fd: FusionDefinition, x: Any, out: Any) -> None:
        out.reorder({0: 1, 1: 0})  # [i, r, r]
        out.merge(1, 2)
        out.split(1, 32)
        partial = out.rfactor([1])
        bind(fd, partial, axis0=P.grid_x, axis2=P.block_x)

    def both_split(fd: FusionDefinition, x: Any, out: Any) -> None:
        out.split(2, 4)
        out.split(0, 3)  # [r, r3, i, r, r4]
        partial = out.rfactor([1, 4])
        bind(fd, partial, axis0=P.block_y, axis2=P.grid_x, axis3=P.block_x)

    for schedule in (whole_axis, merged, both_split):
        reduced(schedule, [10, 6, 37], [0, 2])


def test_result_is_used_further() -> None:
    """A softmax whose two reductions are both factored."""
    with FusionDefinition() as fd:
        x = fd.define_tensor([6, 300], [True, True], DataType.Float)
        top = fd.ops.max(x, [1])
        e = fd.ops.exp(fd.ops.sub(x, fd.ops.broadcast(top, [False, True])))
        total = fd.ops.sum(e, [1])
        y = fd.ops.div(e, fd.ops.broadcast(total, [False, True]))
        fd.add_output(y)
        y.split(1, 64)
        fd.sched.transform_like(y)
        for tv in (top, total):
            tv.rfactor([1])
        y.axis(0).parallelize(P.grid_x)
        y.axis(2).parallelize(P.block_x)
        fd.sched.parallelize_like(y)
        fd.sched.inline_at(y, 1, best_effort=True)
    value = torch.randn(6, 300, device=DEVICE)
    (actual,) = fd.manual_execute([value])
    torch.testing.assert_close(actual.double(), value.double().softmax(1))


@pytest.mark.parametrize("kept", [P.block_x, P.grid_x, P.serial])
@pytest.mark.parametrize("extent", [40, 333])
def test_welford(kept: ParallelType, extent: int) -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([4, extent], [True, True], DataType.Float)
        mean, m2, n = fd.ops.welford(x, [1])
        variance = fd.ops.div(m2, fd.ops.cast(n, DataType.Float))
        for tv in (mean, variance):
            fd.add_output(tv)
        mean.split(1, 32)
        partial = mean.rfactor([1])
        partial.axis(0).parallelize(P.grid_y)
        partial.axis(2).parallelize(kept)
        fd.sched.parallelize_like(partial)
        fd.sched.inline_most()
    assert "welfordCombine" in fd.fusion.print_kernel()
    value = torch.randn(4, extent, device=DEVICE) + 100.0
    actual = fd.manual_execute([value])
    expected = [value.double().mean(1), value.double().var(1, correction=0)]
    torch.testing.assert_close([t.double() for t in actual], expected, rtol=1e-4, atol=1e-4)


def test_print_marks_the_products() -> None:
    fd = reduced(threads, [5, 128], [1])
    text = fd.fusion.print_math()
    assert "blockIdx.x" in text and "}rf" in text


@pytest.mark.parametrize("seed", range(150 if LONG else 30))
def test_random_factoring(seed: int) -> None:
    pick = random.Random(seed)
    rank = pick.choice([1, 2, 3])
    shape = [pick.choice([2, 3, 5, 16, 33]) for _ in range(rank)]
    dims = sorted(pick.sample(range(rank), pick.randrange(1, rank + 1)))
    log: list[str] = [f"seed {seed}, {shape} over {dims}"]

    def schedule(fd: FusionDefinition, x: Any, out: Any) -> None:
        for _ in range(pick.randrange(1, 4)):
            axes = len(out.get_loop_domain())
            axis, factor, inner = (
                pick.randrange(axes),
                pick.choice([1, 2, 3, 4, 8]),
                pick.random() < 0.5,
            )
            out.split(axis, factor, inner_split=inner)
            log.append(f"split({axis}, {factor}, {inner})")
        reductions = [i for i, id in enumerate(out.get_loop_domain()) if id.is_reduction()]
        if len(reductions) > 1 and pick.random() < 0.5 and reductions[1] == reductions[0] + 1:
            out.merge(reductions[0])
            log.append(f"merge({reductions[0]})")
            reductions = [i for i, id in enumerate(out.get_loop_domain()) if id.is_reduction()]
        if len(reductions) == 1:
            out.split(reductions[0], 4)
            reductions = [reductions[0], reductions[0] + 1]
            log.append(f"split({reductions[0]}, 4)")
        listed = sorted(pick.sample(reductions, pick.randrange(1, len(reductions))))
        partial = out.rfactor(listed)
        log.append(f"rfactor({listed})")
        fd.sched.transform_like(partial)
        kinds = [P.grid_x, P.grid_y, P.block_x, P.block_y]
        pick.shuffle(kinds)
        for i, id in enumerate(partial.get_loop_domain()):
            if not kinds or pick.random() < 0.3:
                continue
            kind = kinds.pop()
            grid = kind in (P.grid_x, P.grid_y)
            if i in listed and grid:
                continue  # its result would be complete in one block only
            id.parallelize(kind)
            log.append(f"{i}: {kind}")
        fd.sched.parallelize_like(partial)
        fd.sched.inline_most()

    try:
        reduced(schedule, shape, dims)
    except Exception as error:
        if "is reduced over blocks inside of the loop" in str(error):
            return  # what reads a result that only the last block has stands in another loop
        if "threads in a block" in str(error):
            return
        raise AssertionError(f"{log}: {error}") from error
