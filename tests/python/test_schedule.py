# SPDX-License-Identifier: BSD-3-Clause
"""Schedule primitives through Python (section 4): each schedule computes what torch computes."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import Any

import nvfuse_direct
import pytest
import torch
from helpers import DEVICE, LONG, TORCH, assert_same, data_type, row_major, run_python, tensor
from nvfuse_direct import (
    CacheOp,
    DataType,
    FusionDefinition,
    LoadStoreOpType,
    MemoryType,
    ParallelType,
    PointwiseParams,
    SchedulerType,
)

P = ParallelType
SHAPES = [(1, 1), (3, 5), (128, 128), (129, 257), (1, 1000), (0, 4)]


def chain(
    schedule: Callable[..., object],
    shape: tuple[int, int] = (129, 257),
    dtype: str = "Float",
    static: bool = False,
) -> FusionDefinition:
    """z = (|x| + y) * 2 over rank 2, scheduled by `schedule(fd, x, y, a, b, z)`, checked, returned.

    Static extents, where a schedule keeps whole intermediates in registers.
    """
    with FusionDefinition() as fd:
        extents = list(shape) if static else [-1, -1]
        x, y = (fd.define_tensor(extents, True, data_type(dtype)) for _ in range(2))
        a = fd.ops.abs(x)
        b = fd.ops.add(a, y)
        z = fd.ops.mul(b, 2.0)
        fd.add_output(z)
        schedule(fd, x, y, a, b, z)
    check_chain(fd, shape, dtype)
    return fd


def check_chain(fd: FusionDefinition, shape: tuple[int, int], dtype: str = "Float") -> None:
    p, q = (row_major(shape).fill(TORCH[dtype], seed) for seed in (1, 2))
    (actual,) = fd.manual_execute([p, q])
    assert_same(actual, (p.abs() + q) * 2.0)


def kernel(fd: FusionDefinition) -> str:
    return fd.fusion.print_kernel()


def test_no_schedule_at_all() -> None:
    """Plain loop nests run by one thread."""
    for shape in SHAPES[:2]:
        chain(lambda *_: None, shape, static=True)


@pytest.mark.parametrize("shape", SHAPES)
def test_split_merge_parallelize_inline(shape: tuple[int, int]) -> None:
    """The schedule of the C++ example."""

    def schedule(fd, x, y, a, b, z):
        z.merge(0, 1)
        z.split(0, 128)
        z.split(0, 4)
        fd.sched.transform_like(z)
        fd.sched.inline_most()
        z.axis(0).parallelize(P.grid_x)
        z.axis(1).parallelize(P.unroll)
        z.axis(2).parallelize(P.block_x)
        fd.sched.parallelize_like(z)

    chain(schedule, shape)


def test_one_compiled_schedule_serves_other_shapes() -> None:
    def schedule(fd, x, y, a, b, z):
        z.merge(0, 1).split(0, 64)
        fd.sched.transform_like(z)
        fd.sched.inline_most()
        z.axis(0).parallelize(P.grid_x)
        z.axis(1).parallelize(P.block_x)
        fd.sched.parallelize_like(z)

    fd = chain(schedule, SHAPES[0])
    for shape in SHAPES[1:]:
        check_chain(fd, shape)


def test_every_inline_position() -> None:
    """Producers computed at each depth of a four-deep nest, shared out over threads."""
    for position in range(5):

        def schedule(fd, x, y, a, b, z, position=position):
            z.split(0, 4)
            z.split(2, 8)
            z.reorder({0: 1, 1: 0, 2: 2, 3: 3})
            fd.sched.transform_like(z)
            fd.sched.inline_at(z, position)

        chain(schedule, (10, 19), static=True)


def test_inline_selected() -> None:
    def schedule(fd, x, y, a, b, z):
        z.split(1, 16)
        fd.sched.transform_like(z)
        fd.sched.inline_at(z, 1, selected_tensors=[b])
        fd.sched.inline_most([a])

    chain(schedule, (12, 33), static=True)


def test_inline_best_effort() -> None:
    def schedule(fd, x, y, a, b, z):
        z.split(1, 16)
        fd.sched.inline_at(z, 2, best_effort=True)

    chain(schedule, (12, 33), static=True)


def test_inlining_shows_in_positions_and_text() -> None:
    def schedule(fd, x, y, a, b, z):
        fd.sched.inline_most()
        assert "ca_pos( 2 )" in str(a)
        assert "produce_pos( 2 )" in str(z)

    chain(schedule, (4, 5))


@pytest.mark.parametrize("inner", [True, False])
@pytest.mark.parametrize("factor", [1, 2, 3, 7, 128, 1000])
def test_split_factors(factor: int, inner: bool) -> None:
    def schedule(fd, x, y, a, b, z):
        z.split(1, factor, inner_split=inner)
        z.split(0, 5, inner_split=not inner)
        assert len(z.get_loop_domain()) == 4
        fd.sched.transform_like(z)
        fd.sched.inline_most()
        z.axis(0).parallelize(P.grid_x)
        fd.sched.parallelize_like(z)

    chain(schedule, (17, 130))


def test_inner_and_outer_split_forms() -> None:
    def schedule(fd, x, y, a, b, z):
        z.inner_split(0, 4)
        assert str(z.axis(1).extent()) == "4"
        z.outer_split(-1, 8)
        assert str(z.axis(2).extent()) == "8"
        assert isinstance(z.axis(2).definition(), nvfuse_direct.Split)
        split = z.axis(2).definition()
        assert split.outer() == z.axis(2)
        assert split.inner() == z.axis(3)

    chain(schedule, (6, 20), static=True)


def test_split_of_split_wraps_padding() -> None:
    """Nothing divides anything: three nested non-divisible splits of a merged domain."""

    def schedule(fd, x, y, a, b, z):
        z.merge(0, 1)
        z.split(0, 7)
        z.split(0, 5)
        z.split(2, 3)
        z.split(0, 2)
        fd.sched.transform_like(z)
        fd.sched.inline_most()

    for shape in ((3, 5), (11, 13), (1, 2)):
        chain(schedule, shape)


def test_padding_that_wraps_into_valid_indices() -> None:
    """Split, then merge the padded inner part with another dimension."""

    def schedule(fd, x, y, a, b, z):
        z.split(0, 4)  # [ceil(i0/4), 4, i1]
        z.merge(1, 2)  # [ceil(i0/4), 4*i1]
        z.split(1, 6)
        z.merge(0, 1)
        fd.sched.transform_like(z)
        fd.sched.inline_most()
        z.axis(0).parallelize(P.grid_x)
        z.axis(1).parallelize(P.block_x)
        fd.sched.parallelize_like(z)

    for shape in ((5, 7), (9, 5), (6, 6)):
        chain(schedule, shape)


def test_merge_of_distant_axes_and_reorder() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1] * 4, True)
        z = fd.ops.neg(fd.ops.abs(x))
        fd.add_output(z)
        z.merge(1, 3)
        assert len(z.get_loop_domain()) == 3
        z.reorder({0: -1})
        z.split(0, 4)
        fd.sched.transform_like(z)
        fd.sched.inline_most()
        z.axis(0).parallelize(P.grid_x)
        z.axis(1).parallelize(P.block_y)
        z.axis(-1).parallelize(P.block_x)
        fd.sched.parallelize_like(z)
    p = tensor(3, 5, 2, 7)
    assert_same(fd.manual_execute([p])[0], -p.abs())


@pytest.mark.parametrize(
    "binding",
    [
        (P.grid_x, P.block_x),
        (P.grid_y, P.block_y),
        (P.grid_z, P.block_z),
        (P.block_x, P.grid_x),
        (P.block_y, P.serial),
        (P.serial, P.block_x),
        (P.grid_x, P.unroll),
        (P.grid_x, P.unswitch),
    ],
    ids=str,
)
def test_parallel_types(binding: tuple[ParallelType, ParallelType]) -> None:
    def schedule(fd, x, y, a, b, z):
        z.split(1, 8)
        z.merge(0, 1)
        fd.sched.transform_like(z)
        fd.sched.inline_most()
        z.axis(0).parallelize(binding[0])
        z.axis(1).parallelize(binding[1])
        fd.sched.parallelize_like(z)

    chain(schedule, (6, 21))


def test_all_six_indices() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1] * 6, True)
        z = fd.ops.neg(x)
        fd.add_output(z)
        for axis, kind in enumerate(
            (P.grid_z, P.grid_y, P.grid_x, P.block_z, P.block_y, P.block_x)
        ):
            z.axis(axis).parallelize(kind)
    p = tensor(2, 3, 2, 3, 4, 5)
    assert_same(fd.manual_execute([p])[0], -p)


@pytest.mark.parametrize(
    ("dtype", "width"),
    [("Float", 2), ("Float", 4), ("Double", 2), ("Half", 2), ("Half", 8), ("Int32", 4)],
)
def test_vectorize(dtype: str, width: int) -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], True, data_type(dtype))
        z = fd.ops.relu(x)
        fd.add_output(z)
        x_cache = x.cache_after()
        z_cache = z.cache_before()
        z.merge(0, 1)
        z.split(0, width)
        z.split(0, 32)
        fd.sched.transform_like(z)
        z.axis(0).parallelize(P.grid_x)
        z.axis(1).parallelize(P.block_x)
        fd.sched.parallelize_like(z)
        x_cache.axis(-1).parallelize(P.vectorize)
        z.axis(-1).parallelize(P.vectorize)
        fd.sched.inline_most()
        assert z_cache.ndim == 2
    for shape in ((64, 64), (4, 4), (128, 40)):
        p = row_major(shape).fill(TORCH[dtype], low=-9, high=9)
        assert_same(fd.manual_execute([p])[0], torch.relu(p))


def test_vectorize_refuses_what_does_not_divide() -> None:
    """The promise that vectorization makes is checked when the kernel is launched."""
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1], True)
        z = fd.ops.set(x)
        fd.add_output(z)
        z.split(0, 4)
        z.axis(0).parallelize(P.grid_x)
        z.axis(1).parallelize(P.vectorize)
    p = tensor(64)
    assert_same(fd.manual_execute([p])[0], p)
    for bad in (tensor(63), tensor(65)[1:]):
        with pytest.raises(RuntimeError) as info:
            fd.manual_execute([bad])
        assert not re.search("internal|assert", str(info.value), re.IGNORECASE)
    assert_same(fd.manual_execute([p])[0], p)


def vectorized_copy(fd: FusionDefinition, contiguity: list[bool], merge: bool, split: int) -> None:
    """x[i, j] + 1, its reads of 4 elements along the merge of both, or along j."""
    x = fd.define_tensor([-1, -1], contiguity=contiguity)
    z = fd.ops.add(x, 1.0)
    fd.add_output(z)
    cache = x.cache_after()
    if merge:
        z.merge(0, 1)
    if split:
        z.split(-1, split)
    z.split(-1, 4)
    fd.sched.transform_like(z)
    cache.axis(-1).parallelize(P.vectorize)
    fd.sched.inline_most()


def test_vector_over_merged_dimensions_goes_from_row_to_row_only_in_contiguous_memory() -> None:
    whole = torch.randn(4, 16)
    for contiguity, x in (([True, True], torch.randn(4, 6)), ([False, True], whole[:, :8])):
        with FusionDefinition() as fd:
            vectorized_copy(fd, contiguity, merge=True, split=0)
        assert torch.equal(fd.manual_execute([x])[0], x + 1.0)
    # 24 elements are divisible by 4, but a vector would begin in one row and end in the next.
    with FusionDefinition() as fd:
        vectorized_copy(fd, [False, True], merge=True, split=0)
    with pytest.raises(RuntimeError, match="divisible by 4, but got 6"):
        fd.manual_execute([whole[:, :6]])


def test_vector_over_merged_dimensions_of_which_memory_has_one() -> None:
    for columns in (8, 6):
        with FusionDefinition() as fd:
            x = fd.define_tensor([1, -1], contiguity=[None, True])
            y = fd.define_tensor([-1, -1], contiguity=True)
            z = fd.ops.add(x, y)
            fd.add_output(z)
            cache = x.cache_after()
            z.merge(0, 1)
            z.split(0, 4)
            fd.sched.transform_like(z)
            cache.axis(-1).parallelize(P.vectorize)
            fd.sched.inline_most()
        x, y = torch.randn(1, columns), torch.randn(4, columns)
        if columns == 8:
            assert torch.equal(fd.manual_execute([x, y])[0], x + y)
        else:
            with pytest.raises(RuntimeError, match="divisible by 4, but got 6"):
                fd.manual_execute([x, y])


def test_vector_within_a_tile_that_does_not_divide_the_whole() -> None:
    for columns in (12, 10):
        with FusionDefinition() as fd:
            vectorized_copy(fd, [False, True], merge=False, split=8)
        x = torch.randn(3, 16)[:, :columns]
        if columns == 12:
            assert torch.equal(fd.manual_execute([x])[0], x + 1.0)
        else:
            with pytest.raises(RuntimeError, match="divisible by 4, but got 10"):
                fd.manual_execute([x])


def test_manual_kernel_that_writes_an_input_reads_it_before() -> None:
    def run(define: Callable[..., None], *inputs: torch.Tensor) -> list[torch.Tensor]:
        with FusionDefinition() as fd:
            define(fd, *[fd.define_tensor([-1, -1], contiguity=True) for _ in inputs])
        return fd.manual_execute(list(inputs))

    x = torch.randn(4, 4)
    expected = torch.relu(x + x)
    run(lambda fd, a: fd.add_output(fd.ops.relu(fd.ops.add(a, a)), a), x)
    assert torch.equal(x, expected)

    def moved(fd: FusionDefinition, a: Any) -> None:
        fd.add_output(fd.ops.permute(a, [1, 0]), a)

    def read_elsewhere(fd: FusionDefinition, a: Any) -> None:
        fd.add_output(fd.ops.neg(a), a)
        fd.add_output(fd.ops.exp(a))

    x = torch.randn(4, 4)
    old = x.clone()
    run(moved, x)
    assert torch.equal(x, old.t())
    x = old.clone()
    torch.testing.assert_close(run(read_elsewhere, x), [old.exp()])
    assert torch.equal(x, -old)
    x = torch.randn(4, 4)
    expected = x[:3] + x[1:]
    run(lambda fd, a, b: fd.add_output(fd.ops.add(a, b), a), x[:3], x[1:])
    assert torch.equal(x[:3], expected)


def flat(fd: FusionDefinition, z: Any) -> None:
    z.merge(0, 1)
    z.split(0, 32)
    fd.sched.transform_like(z)
    z.axis(0).parallelize(P.grid_x)
    z.axis(1).parallelize(P.block_x)
    fd.sched.parallelize_like(z)
    fd.sched.inline_most()


def bound(fd: FusionDefinition, z: Any) -> None:
    z.axis(0).parallelize(P.grid_x)
    z.axis(1).parallelize(P.block_x)
    fd.sched.parallelize_like(z)
    fd.sched.inline_most()


def unscheduled(fd: FusionDefinition, z: Any) -> None:
    pass


@pytest.mark.parametrize("schedule", [unscheduled, flat, bound])
def test_extents_must_agree_in_a_manual_schedule_too(schedule: Callable[..., None]) -> None:
    with FusionDefinition() as fd:
        x, y = (fd.define_tensor([-1, -1], contiguity=True) for _ in range(2))
        z = fd.ops.add(fd.ops.neg(x), y)
        fd.add_output(z)
        schedule(fd, z)
    for sizes in ((4, 5), (1, 5), (4, 1), (0, 5), (4, 0), (1, 1), (0, 0)):
        p, q = tensor(*sizes), tensor(*sizes)
        assert_same(fd.manual_execute([p, q])[0], q - p)
    for a, b in (((1, 5), (4, 5)), ((4, 5), (4, 1)), ((0, 5), (1, 5)), ((4, 5), (3, 5))):
        with pytest.raises(RuntimeError, match="Sizes do not agree"):
            fd.manual_execute([tensor(*a), tensor(*b)])


@pytest.mark.parametrize("binding", [None, P.block_x, P.grid_x])
def test_manual_reduction_of_nothing_and_of_one(binding: ParallelType | None) -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], contiguity=True)
        z = fd.ops.max(x, [1])
        fd.add_output(z)
        x.cache_after()
        if binding is not None:
            z.axis(0).parallelize(P.grid_x if binding == P.block_x else P.block_x)
            z.axis(1).parallelize(binding)
            fd.sched.parallelize_like(z)
        fd.sched.inline_most()
    for sizes in ((4, 70), (4, 1), (1, 1), (0, 5), (0, 0)):
        p = tensor(*sizes)
        assert_same(fd.manual_execute([p])[0], p.sum(1) if 0 in sizes else p.amax(1))
    empty = tensor(4, 0)
    if binding is None:
        assert_same(fd.manual_execute([empty])[0], torch.full((4,), -torch.inf, device=DEVICE))
    else:
        with pytest.raises(RuntimeError, match="binds a loop without iterations"):
            fd.manual_execute([empty])


def test_padding_and_slicing_of_nothing_by_hand() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], contiguity=True)
        z = fd.ops.neg(fd.ops.pad(x, [1, 2, 0, 0]))
        fd.add_output(z)
        flat(fd, z)
    for sizes in ((3, 4), (0, 4), (3, 0), (3, 1)):
        p = tensor(*sizes)
        assert_same(fd.manual_execute([p])[0], -torch.nn.functional.pad(p, [1, 2]))
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], contiguity=True)
        fd.add_output(fd.ops.neg(fd.ops.slice(x, [0, 1], [2, 3])))
    for sizes in ((3, 4), (0, 4), (3, 0), (1, 2), (1, 1)):
        p = tensor(*sizes)
        assert_same(fd.manual_execute([p])[0], -p[:2, 1:3])


def softmax_without_maximum(fd: FusionDefinition, extents: list[int]) -> None:
    e = fd.ops.exp(fd.define_tensor(extents, contiguity=True))
    fd.add_output(fd.ops.div(e, fd.ops.sum(e, [1], keepdim=True)))


def test_a_sum_is_complete_before_it_is_read() -> None:
    p = torch.randn(4, 7, device=DEVICE)
    for inline in (False, True):
        with FusionDefinition() as fd:
            softmax_without_maximum(fd, [4, 7])
            if inline:
                fd.sched.inline_most()
        assert_same(fd.manual_execute([p])[0], torch.softmax(p, 1), rtol=1e-5)
    with FusionDefinition() as fd:
        softmax_without_maximum(fd, [-1, -1])
    with pytest.raises(RuntimeError, match="lives in registers"):
        fd.manual_execute([p])


def test_unswitch_and_unroll_tails() -> None:
    def schedule(fd, x, y, a, b, z):
        z.merge(0, 1)
        z.split(0, 4)
        z.split(0, 32)
        z.split(0, 1)
        z.reorder({-1: 1})  # [o, 4, 1, 32] in mixed order
        fd.sched.transform_like(z)
        z.axis(0).parallelize(P.grid_x)
        z.axis(-1).parallelize(P.block_x)
        z.axis(2).parallelize(P.unswitch)
        fd.sched.parallelize_like(z)
        fd.sched.inline_most()

    for shape in ((1, 1), (16, 16), (127, 1), (11, 47)):
        chain(schedule, shape)


def test_unroll_inside_unswitch_with_caches() -> None:
    def schedule(fd, x, y, a, b, z):
        caches = [x.cache_after(), y.cache_after()]
        z.cache_before()
        z.merge(0, 1)
        z.split(0, 32)
        z.split(0, 4)
        z.split(0, 1)  # [grid, unswitch 1, unroll 4, block 32]
        fd.sched.transform_like(z)
        z.axis(0).parallelize(P.grid_x)
        z.axis(1).parallelize(P.unswitch)
        z.axis(3).parallelize(P.block_x)
        fd.sched.parallelize_like(z)
        fd.sched.inline_at(z, 2)
        for each in (z, *caches):
            each.axis(2).parallelize(P.unroll)

    for shape in ((1, 1), (16, 16), (11, 47)):
        chain(schedule, shape)


@pytest.mark.parametrize("where", ["input", "middle", "output"])
def test_shared_memory_staging(where: str) -> None:
    def schedule(fd, x, y, a, b, z):
        staged = {
            "input": lambda: x.cache_after(),
            "middle": lambda: b,
            "output": lambda: z.cache_before(),
        }[where]()
        staged.set_memory_type(MemoryType.shared)
        z.merge(0, 1)
        z.split(0, 64)
        fd.sched.transform_like(z)
        z.axis(0).parallelize(P.grid_x)
        z.axis(1).parallelize(P.block_x)
        fd.sched.parallelize_like(z)
        fd.sched.inline_at(z, 1)

    for shape in ((5, 5), (64, 64), (9, 111)):
        chain(schedule, shape)


def transpose_through_shared_memory() -> FusionDefinition:
    """A 32 x 32 tile is written along rows and read along columns: a barrier must stand between."""
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], True)
        a = fd.ops.abs(x)
        z = fd.ops.permute(a, [1, 0])
        fd.add_output(z)
        tile = x.cache_after()
        tile.set_memory_type(MemoryType.shared)
        z.split(1, 32)
        z.split(0, 32)
        z.reorder({1: 2, 2: 1})  # [columns/32, rows/32, 32 columns, 32 rows]
        z.merge(0, 1)
        fd.sched.transform_like(z)
        z.axis(0).parallelize(P.grid_x)
        fd.sched.parallelize_like(z)
        z.axis(2).parallelize(P.block_x)
        fd.sched.parallelize_like(z, selected_tensors=[a])
        tile.axis(1).parallelize(P.block_x)
        fd.sched.inline_at(z, 1)
        fd.sched.inline_most([a])
    return fd


def test_transpose_through_shared_memory() -> None:
    fd = transpose_through_shared_memory()
    assert "syncBlock" in kernel(fd)
    for shape in ((32, 32), (64, 96), (33, 65), (1, 40)):
        p = row_major(shape).fill(torch.float)
        assert_same(fd.manual_execute([p])[0], p.abs().t())


def test_shared_memory_buffer_reused_in_a_loop_is_guarded() -> None:
    """One block takes all rows; the tile of a row may not be overwritten before it was read."""
    with FusionDefinition() as fd:
        x = fd.define_tensor([5, 256], True)
        a = fd.ops.abs(x)
        z = fd.ops.reshape(a, [5, 16, 16])
        fd.add_output(z)
        tile = x.cache_after()
        tile.set_memory_type(MemoryType.shared)
        for tv in (a, tile):
            tv.split(1, 16)
        z.axis(2).parallelize(P.block_x)
        a.axis(2).parallelize(P.block_x)
        tile.axis(1).parallelize(P.block_x)
        fd.sched.inline_at(z, 1)
        fd.sched.inline_most([a])
    p = tensor(5, 256)
    assert_same(fd.manual_execute([p])[0], p.abs().reshape(5, 16, 16))
    assert kernel(fd).count("syncBlock") >= 2


SHARED_BROADCAST = """
import torch
from helpers import DEVICE
from nvfuse_direct import DataType, FusionDefinition, MemoryType, ParallelType as P

def run(flags, schedule, position, types):
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1], True)
        y = fd.define_tensor([-1, -1], True)
        staged = fd.ops.set(fd.ops.broadcast(fd.ops.neg(x), flags))
        staged.set_memory_type(MemoryType.shared)
        z = fd.ops.add(fd.ops.set(staged), y)
        fd.add_output(z)
        schedule(z)
        fd.sched.transform_like(z)
        for axis, type in types.items():
            z.axis(axis).parallelize(type)
        fd.sched.parallelize_like(z)
        fd.sched.inline_at(z, position)
    x, y = torch.randn(6, device=DEVICE), torch.randn(6, 6, device=DEVICE)
    (actual,) = fd.manual_execute([x, y])
    wide = x[None, :] if flags[0] else x[:, None]
    torch.testing.assert_close(actual, y - wide)

def merged(z):
    z.merge(0, 1)
    z.split(0, 8)

for flags in ([True, False], [False, True]):
    # An iteration of a loop that the tensor lacks fills the buffer anew.
    run(flags, lambda z: z.split(1, 4), 2, {2: P.block_x})
    # Threads that have an element of the buffer each, though not of the tensor.
    run(flags, lambda z: None, 1, {0: P.block_y, 1: P.block_x})
    for position in (1, 2):
        run(flags, merged, position, {0: P.grid_x, 1: P.block_x})
    run(flags, merged, 1, {1: P.block_x})
print("right")
"""


@pytest.mark.parametrize("seed", ["", "1", "2"])
def test_shared_memory_in_loops_that_its_tensor_lacks(seed: str) -> None:
    done = run_python(SHARED_BROADCAST, {"NVFUSER_HOST_ADVERSARIAL": seed} if seed else None)
    assert "right" in done.stdout, done.stdout + done.stderr


def test_swizzle_of_a_tile() -> None:
    def schedule(fd, x, y, a, b, z):
        z.split(1, 8)
        z.split(0, 8)
        z.reorder({1: 2, 2: 1})  # [io, jo, 8, 8]
        z.swizzle(2, 3)
        fd.sched.transform_like(z)
        fd.sched.inline_most()
        z.axis(0).parallelize(P.grid_x)
        z.axis(3).parallelize(P.block_x)
        fd.sched.parallelize_like(z)

    for shape in ((8, 8), (16, 24), (9, 19)):
        chain(schedule, shape)


def test_cache_before_and_after_print_and_run() -> None:
    def schedule(fd, x, y, a, b, z):
        first = x.cache_after()
        second = z.cache_before()
        third = b.cache_after(LoadStoreOpType.set)
        for tv in (first, second, third):
            assert "_l_float" in str(tv)
        assert z.definition().input(0) == second
        assert first.definition().input(0) == x

    chain(schedule, (6, 7), static=True)


def test_cache_after_chosen_uses() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1], True)
        a, b = fd.ops.neg(x), fd.ops.abs(x)
        fd.add_output(a)
        fd.add_output(b)
        cache = x.cache_after(cached_uses=[a.definition()])
        fd.sched.inline_most()
        assert a.definition().input(0) == cache
        assert b.definition().input(0) == x
    p = tensor(9)
    first, second = fd.manual_execute([p])
    assert_same(first, -p)
    assert_same(second, p.abs())


def test_set_allocation_domain_decides_strides() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1, -1], True)
        z = fd.ops.neg(x)
        fd.add_output(z)
        domain = z.get_logical_domain()
        z.set_allocation_domain([domain[2], domain[0], domain[1]], new_contiguity=True)
    p = tensor(2, 3, 4)
    (actual,) = fd.manual_execute([p])
    assert_same(actual, -p)
    assert actual.stride() == (3, 1, 6)


def test_set_allocation_domain_on_the_automatic_path() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], True)
        z = fd.ops.neg(x)
        fd.add_output(z)
        domain = z.get_logical_domain()
        z.set_allocation_domain((domain[1], domain[0]), True)
    p = tensor(3, 4)
    (actual,) = fd.execute([p])
    assert_same(actual, -p)
    assert actual.stride() == (1, 3)


# ------------------------------------------------------------------------------ broadcasts, views


def outer_sum(schedule: Callable[..., object], rows: int, columns: int) -> None:
    """a[i, 1] + b[1, j]: the domain where two operands each make a part concrete."""
    with FusionDefinition() as fd:
        x = fd.define_tensor([rows, 1], True)
        y = fd.define_tensor([1, columns], True)
        a, b = fd.ops.neg(x), fd.ops.abs(y)
        z = fd.ops.add(a, b)
        fd.add_output(z)
        schedule(fd, a, b, z)
    p, q = tensor(abs(rows), 1), tensor(1, abs(columns), seed=1)
    assert_same(fd.manual_execute([p, q])[0], -p + q.abs())


OUTER = [(3, 5), (33, 13), (2, 7)]


@pytest.mark.parametrize("position", [0, 1, 2])
@pytest.mark.parametrize("extents", OUTER)
def test_outer_sum_merged_split_inlined(position: int, extents: tuple[int, int]) -> None:
    def schedule(fd, a, b, z):
        z.merge(0, 1)
        z.split(0, 16)
        fd.sched.transform_like(z)
        fd.sched.inline_at(z, position)

    outer_sum(schedule, *extents)


@pytest.mark.parametrize("extents", OUTER)
def test_outer_sum_parallel(extents: tuple[int, int]) -> None:
    def schedule(fd, a, b, z):
        z.merge(0, 1)
        z.split(0, 16)
        fd.sched.transform_like(z)
        fd.sched.inline_most()
        z.axis(0).parallelize(P.grid_x)
        z.axis(1).parallelize(P.block_x)
        fd.sched.parallelize_like(z)

    outer_sum(schedule, *extents)


def test_three_operands_each_concrete_in_one_dimension() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, 1, 1], True)
        y = fd.define_tensor([1, -1, 1], True)
        w = fd.define_tensor([1, 1, -1], True)
        z = fd.ops.add(fd.ops.add(fd.ops.neg(x), fd.ops.neg(y)), fd.ops.neg(w))
        fd.add_output(z)
        z.merge(0, 1)
        z.merge(0, 1)
        z.split(0, 10)
        fd.sched.transform_like(z)
        fd.sched.inline_most()
        z.axis(0).parallelize(P.grid_x)
        z.axis(1).parallelize(P.block_x)
        fd.sched.parallelize_like(z)
    p, q, r = tensor(3, 1, 1), tensor(1, 5, 1), tensor(1, 1, 7)
    assert_same(fd.manual_execute([p, q, r])[0], (-p + -q) + -r)


def test_reshape_below_a_broadcast() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([5, 1], True)
        y = fd.define_tensor([5, 6], True)
        z = fd.ops.neg(fd.ops.reshape(fd.ops.add(fd.ops.abs(x), y), [10, 3]))
        fd.add_output(z)
        z.merge(0, 1)
        z.split(0, 8)
        fd.sched.transform_like(z)
        fd.sched.inline_most()
        z.axis(0).parallelize(P.grid_x)
        z.axis(1).parallelize(P.block_x)
        fd.sched.parallelize_like(z)
    p, q = tensor(5, 1), tensor(5, 6)
    assert_same(fd.manual_execute([p, q])[0], -(p.abs() + q).reshape(-1, 3))


def test_bounded_transform_backward() -> None:
    def schedule(fd, x, y, a, b, z):
        z.split(1, 16)
        z.split(0, 2)
        fd.sched.bounded_transform_backward(z, -1, [a])
        assert len(a.get_loop_domain()) == 2  # a bound is left as it is
        assert len(b.get_loop_domain()) == 4
        fd.sched.bounded_transform_backward(z, -1, [x])
        assert len(a.get_loop_domain()) == 4

    chain(schedule, (6, 40), static=True)


def test_transform_like_selected() -> None:
    def schedule(fd, x, y, a, b, z):
        z.split(1, 16)
        fd.sched.transform_like(z, [b])
        assert len(b.get_loop_domain()) == 3
        assert len(a.get_loop_domain()) == 2

    chain(schedule, (6, 40), static=True)


def test_parallelize_like_selected_types() -> None:
    def schedule(fd, x, y, a, b, z):
        z.split(1, 16)
        fd.sched.transform_like(z)
        fd.sched.inline_most()
        z.axis(0).parallelize(P.grid_x)
        z.axis(2).parallelize(P.block_x)
        fd.sched.parallelize_like(z, selected_parallel_types={P.grid_x})
        assert "blockIdx.x" in str(a)
        assert "threadIdx.x" not in str(a)
        fd.sched.parallelize_like(z)
        assert "threadIdx.x" in str(a)

    chain(schedule)


# -------------------------------------------------------------------------- heuristics by hand


def relu_sum(fd: FusionDefinition, rank: int = 2) -> None:
    x, y = (fd.define_tensor([-1] * rank, True) for _ in range(2))
    fd.add_output(fd.ops.relu(fd.ops.add(x, y)))


def test_pointwise_is_the_only_compatible_scheduler() -> None:
    inputs = [tensor(128, 256), tensor(128, 256, seed=1)]
    with FusionDefinition() as fd:
        relu_sum(fd)
        assert fd.sched.find_compatible_schedulers(fd.fusion, inputs) == [SchedulerType.pointwise]
        for kind in SchedulerType.__members__.values():
            ok, reason = fd.sched.can_schedule(fd.fusion, kind, inputs)
            assert ok == (kind == SchedulerType.pointwise), reason
        params = fd.sched.schedule(fd.fusion, SchedulerType.pointwise, inputs)
        assert isinstance(params, PointwiseParams)
        assert params.scheduler_type == SchedulerType.pointwise
    outputs = fd.manual_execute(inputs, params)
    assert_same(outputs[0], torch.relu(inputs[0] + inputs[1]))


@pytest.mark.parametrize("vectorization", [1, 2, 4])
@pytest.mark.parametrize("unroll", [(1, 1), (2, 1), (1, 2), (2, 2)])
def test_edited_pointwise_params(vectorization: int, unroll: tuple[int, int]) -> None:
    inputs = [tensor(64, 128), tensor(64, 128, seed=1)]
    with FusionDefinition() as fd:
        relu_sum(fd)
        params = fd.sched.compute_heuristics(fd.fusion, SchedulerType.pointwise, inputs)
        before, before_hash = repr(params), params.hash()
        again = fd.sched.compute_heuristics(fd.fusion, SchedulerType.pointwise, inputs)
        assert params == again
        assert again.hash() == before_hash
        params.vectorization_factor = vectorization
        params.unroll_factor_outer, params.unroll_factor_inner = unroll
        if params != again:
            assert repr(params) != before
        fd.sched.schedule(fd.fusion, SchedulerType.pointwise, params)
    (actual,) = fd.manual_execute(inputs, params)
    assert_same(actual, torch.relu(inputs[0] + inputs[1]))


@pytest.mark.parametrize(
    "fields",
    [
        {"break_point": 0},
        {"break_point": 1},
        {"break_point": 1, "split_grid_y_dim": True},
        {"break_point": 1, "flip_grid_binding": True},
        {"break_point": 1, "split_block": True},
    ],
    ids=str,
)
def test_break_points(fields: dict[str, object]) -> None:
    """Bias over rows and over columns at every legal setting."""
    inputs = [tensor(96, 64), tensor(64), tensor(96, 1)]
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], True)
        row = fd.define_tensor([-1], True)
        column = fd.define_tensor([-1, 1], True)
        fd.add_output(fd.ops.add(fd.ops.add(x, row), column))
        params = fd.sched.compute_heuristics(fd.fusion, SchedulerType.pointwise, inputs)
        for name, value in fields.items():
            setattr(params, name, value)
        params.vectorization_factor = params.unroll_factor_inner = params.unroll_factor_outer = 1
        fd.sched.schedule(fd.fusion, SchedulerType.pointwise, params)
    (actual,) = fd.manual_execute(inputs, params)
    assert_same(actual, inputs[0] + inputs[1] + inputs[2])


def test_parameter_classes() -> None:
    params = PointwiseParams()
    defaults = {
        "break_point": 0,
        "split_block": False,
        "split_grid_y_dim": False,
        "flip_grid_binding": False,
        "vectorization_factor": 1,
        "unroll_factor_inner": 1,
        "unroll_factor_outer": 1,
    }
    for name, value in defaults.items():
        assert getattr(params, name) == value
    assert params == PointwiseParams()
    with pytest.raises(TypeError):
        hash(params)
    launch = nvfuse_direct.LaunchParams(2, 1, 1, 128, 1, 1)
    assert (launch.gdimx, launch.bdimx) == (2, 128)
    assert nvfuse_direct.LaunchParams().bdimx == 1
    assert "-1" in repr(nvfuse_direct.LaunchParams())
    compile_params = nvfuse_direct.CompileParams(index_type=DataType.Int32, maxrregcount=128)
    assert compile_params.maxrregcount == 128
    assert compile_params.enable_magic_zero is True
    assert nvfuse_direct.CompileParams().maxrregcount == 255


def test_kernel_executor_directly() -> None:
    with FusionDefinition() as fd:
        relu_sum(fd)
        fd.sched.inline_most()
    executor = nvfuse_direct.KernelExecutor()
    assert not executor.is_compiled()
    assert not executor.is_programmatic_dependent_launch_enabled()
    inputs = [tensor(5, 6), tensor(5, 6, seed=1)]
    executor.compile(fd.fusion, inputs)
    assert executor.is_compiled()
    assert_same(executor.run(inputs)[0], torch.relu(inputs[0] + inputs[1]))


def test_index_type_by_hand() -> None:
    inputs = [tensor(5, 6), tensor(5, 6, seed=1)]
    for index_type in (DataType.Int32, DataType.Int):
        with FusionDefinition() as fd:
            relu_sum(fd)
            fd.sched.inline_most()
        executor = nvfuse_direct.KernelExecutor()
        params = nvfuse_direct.CompileParams(index_type=index_type)
        executor.compile(fd.fusion, inputs, compile_params=params)
        assert_same(
            executor.run(inputs, compile_params=params)[0], torch.relu(inputs[0] + inputs[1])
        )


# ------------------------------------------------------------------------------ random schedules


class RandomSchedule:
    """A legal schedule of a pointwise chain by seed: transforms, binding, inlining, memory."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.log: list[str] = []

    def transform(self, tv: object, steps: int) -> None:
        pick = self.random
        for _ in range(steps):
            rank = len(tv.get_loop_domain())
            action = pick.choice(["split", "outer_split", "merge", "reorder"])
            if action == "merge" and rank > 1:
                outer = pick.randrange(rank - 1)
                tv.merge(outer, outer + 1)
                self.log.append(f"merge({outer})")
            elif action == "reorder" and rank > 1:
                order = list(range(rank))
                pick.shuffle(order)
                tv.reorder(dict(enumerate(order)))
                self.log.append(f"reorder({order})")
            elif rank < 7:
                axis, factor = pick.randrange(rank), pick.choice([1, 2, 3, 4, 5, 8])
                inner = action == "split"
                tv.split(axis, factor, inner_split=inner)
                self.log.append(f"split({axis}, {factor}, inner={inner})")

    def bind(self, tv: object) -> None:
        kinds = [P.grid_x, P.grid_y, P.block_x, P.block_y, P.unroll]
        self.random.shuffle(kinds)
        for axis in range(len(tv.get_loop_domain())):
            if not kinds or self.random.random() < 0.4:
                continue
            kind = kinds.pop()
            extent = str(tv.axis(axis).extent())
            if kind == P.unroll and not extent.isdigit():
                continue
            if kind in (P.block_x, P.block_y) and not extent.isdigit():
                continue  # a symbolic extent might pass the block limit
            tv.axis(axis).parallelize(kind)
            self.log.append(f"axis({axis}).parallelize({kind})")


@pytest.mark.parametrize("seed", range(200 if LONG else 25))
def test_random_schedules(seed: int) -> None:
    schedule = RandomSchedule(seed)
    pick = schedule.random
    shape = tuple(pick.choice([1, 2, 3, 5, 7, 16, 33]) for _ in range(pick.choice([1, 2, 3])))
    broadcast = pick.random() < 0.5
    try:
        with FusionDefinition() as fd:
            # Intermediates that are not inlined stay in registers, which needs constant extents.
            inlined = pick.random() < 0.5
            extents = [-1] * len(shape) if inlined else list(shape)
            x = fd.define_tensor(extents, pick.random() < 0.5)
            first = [1 if broadcast and i % 2 == 0 else n for i, n in enumerate(extents)]
            y = fd.define_tensor(first, True)
            a, b = fd.ops.abs(x), fd.ops.neg(y)
            c = fd.ops.add(a, b)
            z = fd.ops.mul(c, 2.0)
            fd.add_output(z)
            caches = [x.cache_after()] if pick.random() < 0.5 else []
            schedule.transform(z, pick.randrange(5))
            fd.sched.transform_like(z)
            schedule.bind(z)
            fd.sched.parallelize_like(z)
            rank = len(z.get_loop_domain())
            if inlined:
                fd.sched.inline_most()
                schedule.log.append("inline_most()")
            else:
                position = pick.randrange(rank + 1)
                fd.sched.inline_at(z, position, best_effort=True)
                schedule.log.append(f"inline_at({position})")
            if caches and pick.random() < 0.3:
                caches[0].set_memory_type(MemoryType.shared)
                schedule.log.append("cache in shared memory")
        p = row_major(shape).fill(torch.float, 1)
        q = row_major([1 if size == 1 else n for size, n in zip(first, shape, strict=False)]).fill(
            torch.float, 2
        )
        (actual,) = fd.manual_execute([p, q])
    except Exception as error:
        raise AssertionError(f"seed {seed}, shape {shape}: {schedule.log}: {error}") from error
    assert_same(actual, (p.abs() - q) * 2.0, what=f"seed {seed}, shape {shape}: {schedule.log}")
    assert actual.device == DEVICE


def test_broadcast_bound_to_threads_has_a_value_in_every_thread() -> None:
    """Not inlined, a broadcast axis on threads must leave no thread without a value."""
    with FusionDefinition() as fd:
        x = fd.define_tensor([5, 33, 7], True)
        y = fd.define_tensor([1, 33, 1], True)
        b = fd.ops.neg(y)
        z = fd.ops.add(x, b)
        fd.add_output(z)
        z.axis(0).parallelize(P.grid_y)
        z.axis(1).parallelize(P.block_x)
        z.axis(2).parallelize(P.block_y)
        fd.sched.parallelize_like(z)
    p, q = tensor(5, 33, 7), tensor(1, 33, 1, seed=1)
    assert_same(fd.manual_execute([p, q])[0], p - q)


def test_tensor_that_is_joined_with_itself() -> None:
    """Each of the two pads that the cat consists of reads the buffer at its own offset."""
    with FusionDefinition() as fd:
        x = fd.define_tensor([3, 8], True)
        y = fd.ops.neg(x)
        fd.add_output(fd.ops.cat([y, y], 1))
        fd.sched.inline_most()
    p = tensor(3, 8)
    assert_same(fd.manual_execute([p])[0], torch.cat([-p, -p], 1))


@pytest.mark.parametrize("kind", ["chain", "permuted", "padded", "reshaped", "output_read_again"])
def test_unscheduled_fusion_runs(kind: str) -> None:
    p = tensor(4, 6)
    with FusionDefinition() as fd:
        x = fd.define_tensor([4, 6] if kind == "reshaped" else [-1, -1], True)
        y = fd.ops.neg(x)
        if kind == "permuted":
            y, expected = fd.ops.permute(y, [1, 0]), -p.t()
        elif kind == "padded":
            y, expected = fd.ops.pad(y, [1, 2]), torch.nn.functional.pad(-p, [1, 2])
        elif kind == "reshaped":
            y, expected = fd.ops.reshape(y, [3, 8]), -p.reshape(3, 8)
        else:
            expected = -p
        if kind == "output_read_again":
            fd.add_output(y)
        fd.add_output(fd.ops.abs(y))
    assert_same(fd.manual_execute([p])[-1], expected.abs())


def test_negative_size_of_a_pad_is_refused_before_the_launch() -> None:
    with FusionDefinition() as fd:
        fd.add_output(fd.ops.pad(fd.define_tensor([-1], True), [-3, -2]))
    with pytest.raises(RuntimeError, match="Invalid resized domain extent: the result of pad"):
        fd.manual_execute([tensor(4)])


@pytest.mark.machine("hopper")
@pytest.mark.parametrize("narrow", [(8, 1, 256), (1, 32, 256), (1, 1, 256), (256,)])
def test_operand_with_broadcast_outer_dimensions_is_read_in_vectors(
    narrow: tuple[int, ...],
) -> None:
    x, y = tensor(8, 32, 256), tensor(*narrow, seed=1)
    with FusionDefinition() as fd:
        a, b = fd.from_pytorch(x), fd.from_pytorch(y)
        if y.dim() == 1:
            b = fd.ops.broadcast(b, [True, True, False])
        fd.add_output(fd.ops.add(a, b))
    (actual,) = fd.execute([x, y], device=DEVICE)
    assert_same(actual, x + y)
    text = fd.fec.get_cuda_kernel([x, y])
    assert len(set(re.findall(r"nvf::loadGlobal<[^>]*>\(&T\d+\[[^]]*\], &(T[01])\[", text))) == 2


@pytest.mark.parametrize("static", [False, True])
@pytest.mark.parametrize(("sizes", "new"), [([6, 4], [24]), ([7], [7, 1]), ([4, 6], [2, 2, 6])])
def test_schedulers_of_reshapes_that_the_inputs_decide(
    sizes: list[int], new: list[int], static: bool
) -> None:
    x = tensor(*sizes)
    with FusionDefinition() as fd:
        t = fd.from_pytorch(x, static_sizes=static)
        fd.add_output(fd.ops.relu(fd.ops.reshape(fd.ops.neg(t), new)))
        kind = SchedulerType.pointwise
        assert fd.sched.find_compatible_schedulers(fd.fusion, [x]) == [kind]
        assert fd.sched.can_schedule(fd.fusion, kind, [x]) == (True, "")
        assert fd.sched.compute_heuristics(fd.fusion, kind, [x]).scheduler_type == kind
    (out,) = fd.execute([x])
    assert torch.equal(out, torch.relu((-x).reshape(new)))


def test_a_reshape_that_the_inputs_decide_is_not_scheduled_by_hand() -> None:
    x = tensor(6, 4)
    with FusionDefinition() as fd:
        t = fd.from_pytorch(x)
        out = fd.ops.relu(fd.ops.reshape(fd.ops.neg(t), [24]))
        fd.add_output(out)
        with pytest.raises(RuntimeError, match=r"^reshape: .* can not be scheduled by hand"):
            fd.sched.transform_like(out)
    assert torch.equal(fd.execute([x])[0], torch.relu(-x).reshape(24))


# ------------------------------------------------------------- values that nothing implements


def _cached(op: LoadStoreOpType, cache_op: CacheOp = CacheOp.unspecified) -> Callable[..., object]:
    def schedule(fd, x, y, a, b, z):  # type: ignore[no-untyped-def]
        x.cache_after(op, cache_op).set_memory_type(MemoryType.shared)

    return schedule


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        (
            lambda fd, x, y, a, b, z: a.set_memory_type(MemoryType.tensor),
            r"T2_t_float.*: tensor memory \(MemoryType.tensor\) is not supported",
        ),
        (
            lambda fd, x, y, a, b, z: x.set_memory_type(MemoryType.symmetric),
            r"T0_sym_float.*: symmetric memory \(MemoryType.symmetric\) is not supported",
        ),
        (
            lambda fd, x, y, a, b, z: a.set_memory_type(MemoryType.symmetric),
            r"T2_sym_float.*: symmetric memory",
        ),
        (_cached(LoadStoreOpType.load_matrix), "ldmatrix .LoadStoreOpType.load_matrix. is not"),
        (
            lambda fd, x, y, a, b, z: z.axis(0).parallelize(P.stream),
            r"T4_g_float.*: an axis bound to streams \(ParallelType.stream\) is not supported",
        ),
        (
            lambda fd, x, y, a, b, z: z.axis(0).parallelize(P.mesh_x),
            r"T4_g_float.*: deviceIdx.x is bound to an axis of extent .* several devices",
        ),
        (
            _cached(LoadStoreOpType.cp_async, CacheOp.streaming),
            "cp_async has the cache_op all_levels and no other, got Streaming",
        ),
        (
            _cached(LoadStoreOpType.tma, CacheOp.all_levels),
            "tma copies have no cache_op, got AllLevels",
        ),
        (
            lambda fd, x, y, a, b, z: a.cache_after(LoadStoreOpType.set, CacheOp.streaming),
            "cache_op Streaming is only for copies from or to global memory",
        ),
        (
            lambda fd, x, y, a, b, z: z.axis(0).parallelize(P.mma),
            "MMA can't be used on a loop axis of this operation",
        ),
    ],
)
def test_what_nothing_implements_is_refused(schedule: Callable[..., object], message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        chain(schedule)


def test_an_axis_that_is_vectorized_after_inlining_is_refused() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], True)
        y = fd.ops.set(x)
        fd.add_output(y)
        copy = x.cache_after()
        for tv in (copy, y):
            tv.split(-1, 4)
        fd.sched.inline_most()
        for tv in (copy, y):
            tv.axis(-1).parallelize(P.vectorize)
    with pytest.raises(RuntimeError, match=r"T2_l.*: it is inlined into the vectorized axis of"):
        fd.manual_execute([tensor(5, 8)])
