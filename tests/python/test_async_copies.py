# SPDX-License-Identifier: BSD-3-Clause
"""Asynchronous copies through schedules made by hand: cp.async, TMA loads and stores, circular
buffers, warps that load. Each kernel computes what torch computes."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pytest
import torch
from helpers import DEVICE, LONG, ON_CUDA, TORCH, assert_same, data_type, row_major, run_python
from nvfuse_direct import (
    CompileParams,
    DataType,
    FusionDefinition,
    KernelExecutor,
    LoadStoreOpType,
    MemoryType,
    ParallelType,
)

P = ParallelType
TMA = LoadStoreOpType.tma
CP_ASYNC = LoadStoreOpType.cp_async

HAS_TMA = not ON_CUDA or torch.cuda.get_device_capability(DEVICE)[0] >= 9
needs_tma = pytest.mark.skipif(not HAS_TMA, reason="needs compute capability 9.0")

Tensors = Sequence[torch.Tensor]


@dataclass
class Kernel:
    """A scheduled fusion and what it computes."""

    fd: FusionDefinition
    reference: Callable[..., torch.Tensor]

    def check(self, inputs: Tensors, tolerance: float = 0.0) -> None:
        (actual,) = self.fd.manual_execute(list(inputs))
        assert_same(actual, self.reference(*inputs), tolerance, tolerance)

    @property
    def text(self) -> str:
        return self.fd.fusion.print_kernel()


def fill(*sizes: int, dtype: str = "Float", seed: int = 0) -> torch.Tensor:
    return row_major(sizes).fill(TORCH[dtype], seed)


def in_shared_memory(tv: object, op: LoadStoreOpType) -> object:
    cache = tv.cache_after(op)
    cache.set_memory_type(MemoryType.shared)
    return cache


def bind(tv: object, **axes: ParallelType) -> None:
    """bind(tv, _0=P.grid_x, _m1=P.tma): axis 0 and the last one."""
    for name, kind in axes.items():
        index = -int(name[2:]) if name.startswith("_m") else int(name[1:])
        tv.axis(index).parallelize(kind)


# ------------------------------------------------------------------------------ bulk loads, stores


def flat_boxes(
    rank: int = 3, boxes: int = 1, box: int = 256, by: ParallelType = P.serial, dtype: str = "Float"
) -> Kernel:
    """The tensor as one dimension: each block loads some boxes of consecutive elements."""
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1] * rank, [True] * rank, data_type(dtype))
        out = fd.ops.set(x)
        fd.add_output(out)
        cache = in_shared_memory(x, TMA)
        for tv in (cache, out):
            for _ in range(rank - 1):
                tv.merge(0, 1)
            tv.split(0, box)
            tv.split(0, boxes)
        bind(cache, _0=P.grid_x, _1=by, _2=P.tma)
        bind(out, _0=P.grid_x, _2=P.block_x)
    return Kernel(fd, torch.clone)


def flat_stores(by: ParallelType = P.serial) -> Kernel:
    """Four boxes of each block leave through shared memory."""
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1, -1], [True] * 3, DataType.Float)
        out = fd.ops.abs(x)
        fd.add_output(out)
        cache = out.cache_before(TMA)
        cache.set_memory_type(MemoryType.shared)
        for tv in (cache, out):
            tv.merge(0, 1)
            tv.merge(0, 1)
            tv.split(0, 256)
            tv.split(0, 4)
        bind(out, _0=P.grid_x, _1=by, _2=P.tma)
        bind(cache, _0=P.grid_x, _2=P.block_x)
    return Kernel(fd, torch.abs)


def tiles(
    rank: int = 3,
    by: ParallelType = P.block_x,
    dtype: str = "Float",
    box: int = 32,
    contiguity: bool = True,
) -> Kernel:
    """Tiles of 2 x 2 boxes of the two inner dimensions, the boxes by threads or in a loop."""
    with FusionDefinition() as fd:
        flags = [contiguity] * (rank - 1) + [True]
        x = fd.define_tensor([-1] * rank, flags, data_type(dtype))
        out = fd.ops.set(x)
        fd.add_output(out)
        cache = in_shared_memory(x, TMA)
        last = rank - 1
        for tv in (cache, out):
            tv.split(last, box)
            tv.split(last - 1, box)
            # [..., I/b, b, J/b, b]
            tv.split(last + 1, 2)
            tv.split(last - 1, 2)
            # [..., I/2b, 2, b, J/2b, 2, b]
            tv.reorder({last + 1: -2, last: -4})
        cache.set_allocation_domain(cache.get_loop_domain(), True)
        for tv in (cache, out):
            for _ in range(last):
                tv.merge(0, 1)
            tv.axis(0).parallelize(P.grid_x)
        bind(cache, _1=by, _m2=P.tma, _m1=P.tma)
        out.merge(1, 2)
        bind(out, _m2=P.block_y if box <= 32 else P.serial, _m1=P.block_x)
    return Kernel(fd, torch.clone)


def tile_store(rank: int = 2) -> Kernel:
    """Boxes of 16 rows of 64 elements, written by threads and stored at once."""
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1] * rank, [True] * rank, DataType.Float)
        out = fd.ops.mul(x, 2.0)
        fd.add_output(out)
        cache = out.cache_before(TMA)
        cache.set_memory_type(MemoryType.shared)
        registers = x.cache_after()
        for tv in (registers, cache, out):
            tv.split(rank - 1, 64)
            tv.split(rank - 2, 16)
            tv.reorder({rank - 1: rank, rank: rank - 1})
            for _ in range(rank - 1):
                tv.merge(0, 1)
            tv.axis(0).parallelize(P.grid_x)
        bind(out, _m2=P.tma, _m1=P.tma)
        for tv in (registers, cache):
            tv.merge(-2, -1)
            tv.split(-1, 128)
            tv.axis(-1).parallelize(P.block_x)
        fd.sched.inline_most([registers])
    return Kernel(fd, lambda x: x * 2)


def through(stages: int = 1) -> Kernel:
    """Loaded, computed on and stored by TMA, box after box along the rows; vectors in between."""
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], [True] * 2, DataType.Float)
        y = fd.define_tensor([-1, -1], [True] * 2, DataType.Float)
        product = fd.ops.mul(x, 2.0)
        out = fd.ops.add(product, y)
        fd.add_output(out)
        loads = [in_shared_memory(x, TMA), in_shared_memory(y, TMA)]
        registers = [tv.cache_after() for tv in loads]
        store = out.cache_before(TMA)
        store.set_memory_type(MemoryType.shared)
        total = store.cache_before()
        out.split(1, 128)
        fd.sched.transform_like(out)
        for tv in (*registers, product, total, store):
            tv.split(2, 4)
            tv.axis(2).parallelize(P.block_x)
        for tv in (*registers, store):
            tv.axis(3).parallelize(P.vectorize)
        for tv in (*loads, out):
            tv.axis(2).parallelize(P.tma)
        for tv in (*loads, *registers, product, total, store, out):
            tv.axis(0).parallelize(P.grid_x)
        for tv in loads if stages > 1 else []:
            tv.circular_buffer(stages, stages - 1)
        fd.sched.inline_most()
    return Kernel(fd, lambda x, y: x * 2 + y)


def transposed(swizzled: bool = False) -> Kernel:
    """A tile of 32 x 32 is loaded as it is and read along its columns."""
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], [True] * 2, DataType.Float)
        out = fd.ops.permute(x, [1, 0])
        fd.add_output(out)
        cache = in_shared_memory(x, TMA)
        out.split(1, 32)
        out.split(0, 32)
        out.reorder({1: 2})
        # [J/32, I/32, 32 j, 32 i]
        fd.sched.bounded_transform_backward(out, -1, [x])
        cache.reorder({-1: -2})
        if swizzled:
            # 32 rows of 8 chunks of 16 bytes
            cache.split(3, 4)
            cache.split(2, 8)
            cache.swizzle(3, 4)
            cache.set_allocation_domain(cache.get_loop_domain(), True)
        for tv in (cache, out):
            bind(tv, _0=P.grid_x, _1=P.grid_y)
        for axis in range(2, len(cache.get_loop_domain())):
            cache.axis(axis).parallelize(P.tma)
        out.split(2, 8)
        bind(out, _m2=P.block_y, _m1=P.block_x)
    return Kernel(fd, lambda x: x.t())


def transposed_by_tma() -> Kernel:
    """The same, and the result leaves by TMA, through a second tile that is swizzled."""
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], [True] * 2, DataType.Float)
        out = fd.ops.permute(x, [1, 0])
        fd.add_output(out)
        loaded = in_shared_memory(x, TMA)
        stored = out.cache_before(TMA)
        stored.set_memory_type(MemoryType.shared)
        registers = stored.cache_before()
        out.split(1, 32)
        out.split(0, 32)
        out.reorder({1: 2})
        out.merge(0, 1)
        fd.sched.transform_like(out)
        loaded.reorder({-1: -2})
        for tile in (loaded, stored):
            tile.split(2, 4)
            tile.split(1, 8)
            tile.swizzle(2, 3)
            tile.set_allocation_domain(tile.get_loop_domain(), True)
        bind(loaded, _1=P.tma, _2=P.tma, _3=P.tma, _4=P.tma)
        bind(out, _1=P.tma, _2=P.tma)
        for _ in range(3):
            stored.merge(1, 2)
        stored.split(1, 256)
        fd.sched.bounded_transform_backward(stored, -1, [loaded])
        for tv in (registers, stored):
            tv.axis(2).parallelize(P.block_x)
        for tv in (loaded, registers, stored, out):
            tv.axis(0).parallelize(P.grid_x)
    return Kernel(fd, lambda x: x.t())


def bias_in_shared_memory(op: LoadStoreOpType = TMA) -> Kernel:
    """A row that all blocks and rows share: every block loads its part once."""
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], [True] * 2, DataType.Float)
        b = fd.define_tensor([-1], [True], DataType.Float)
        out = fd.ops.add(x, fd.ops.broadcast(b, [True, False]))
        fd.add_output(out)
        cache = in_shared_memory(b, op)
        out.split(1, 64)
        out.split(0, 8)
        out.reorder({1: 2})
        # [I/8, J/64, 8, 64]
        fd.sched.transform_like(out)
        fd.sched.inline_at(out, pos=2)
        bind(out, _0=P.grid_y, _1=P.grid_x, _3=P.block_x)
        fd.sched.parallelize_like(out)
        if op == TMA:
            cache.axis(-1).parallelize(P.tma)
    return Kernel(fd, lambda x, b: x + b)


# ---------------------------------------------------------------------------------- small copies


def small_copies(bytes_: int, stages: int = 1, distance: int = 1, dtype: str = "Float") -> Kernel:
    """cp.async by 32 threads, read by others, tile after tile along the rows."""
    width = bytes_ // TORCH[dtype].itemsize
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], [True] * 2, data_type(dtype))
        out = fd.ops.set(x)
        fd.add_output(out)
        cache = in_shared_memory(x, CP_ASYNC)
        out.split(1, 32 * width)
        fd.sched.transform_like(out)
        fd.sched.inline_at(out, pos=2)
        cache.split(2, width)
        out.split(2, 32)
        # The thread that copies is not the one that reads.
        bind(cache, _0=P.grid_x, _2=P.block_x, _3=P.vectorize if width > 1 else P.serial)
        bind(out, _0=P.grid_x, _m1=P.block_x)
        if stages > 1:
            cache.circular_buffer(stages, distance)
    return Kernel(fd, torch.clone)


# ------------------------------------------------------------------------------- circular buffers


def circular_loads(stages: int, distance: int, rows_per_block: int = 1) -> Kernel:
    """TMA loads ahead, by the threads that compute."""
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], [True] * 2, DataType.Float)
        y = fd.define_tensor([-1, -1], [True] * 2, DataType.Float)
        out = fd.ops.mul(x, y)
        fd.add_output(out)
        loads = [in_shared_memory(x, TMA), in_shared_memory(y, TMA)]
        out.split(1, 64)
        out.split(0, rows_per_block)
        fd.sched.transform_like(out)
        fd.sched.inline_at(out, pos=3)
        bind(out, _0=P.grid_x, _3=P.block_x)
        for tv in loads:
            bind(tv, _0=P.grid_x, _3=P.tma)
            tv.circular_buffer(stages, distance)
    return Kernel(fd, torch.mul)


def specialized(
    stages: int = 4,
    distance: int = 1,
    along: ParallelType = P.block_y,
    registers: tuple[int, int] | None = None,
    box: int = 32,
    rows_per_block: int = 1,
) -> Kernel:
    """Two inputs loaded by warps of their own."""
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], [True] * 2, DataType.Float)
        y = fd.define_tensor([-1, -1], [True] * 2, DataType.Float)
        out = fd.ops.add(x, y)
        fd.add_output(out)
        loads = [in_shared_memory(x, TMA), in_shared_memory(y, TMA)]
        out.split(1, box)
        out.split(0, rows_per_block)
        fd.sched.transform_like(out)
        fd.sched.inline_at(out, pos=3)
        for tv in loads:
            bind(tv, _0=P.grid_x, _3=P.tma)
            fd.sched.warp_specialize(tv, stages, distance, along, registers)
        bind(out, _0=P.grid_x, _3=P.block_x)
    return Kernel(fd, torch.add)


def specialized_sums(along: ParallelType = P.block_x, threads_y: int = 1) -> Kernel:
    """Rows are loaded by warps of their own and normalized: the others reduce them."""
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, 256], [True] * 2, DataType.Float)
        total = fd.ops.sum(x, [1])
        out = fd.ops.sub(x, fd.ops.broadcast(total, [False, True]))
        fd.add_output(out)
        cache = in_shared_memory(x, TMA)
        registers = cache.cache_after()
        wide = total.uses()[0].output(0)
        tensors = [cache, registers, total, wide, out]
        for tv in tensors:
            tv.split(0, threads_y)
            tv.split(0, 4)
            # [I / (4 y), 4, y, 256]
        for tv in (registers, total, out, wide):
            tv.split(3, 64)
            bind(tv, _2=P.block_y, _4=P.block_x)
        for tv in tensors:
            tv.axis(0).parallelize(P.grid_x)
        bind(cache, _2=P.tma, _3=P.tma)
        fd.sched.inline_at(out, pos=2)
        fd.sched.warp_specialize(cache, 3, 2, along)
    return Kernel(fd, lambda x: x - x.sum(1, keepdim=True))


# -------------------------------------------------------------------------------------- the tests

KERNELS: dict[str, tuple[Callable[[], Kernel], list[tuple[int, ...]]]] = {
    "one_box": (flat_boxes, [(5, 3, 300)]),
    "boxes_in_a_loop": (lambda: flat_boxes(boxes=4), [(5, 3, 300)]),
    "boxes_by_threads": (lambda: flat_boxes(boxes=4, by=P.block_x), [(5, 3, 300)]),
    "stores_in_a_loop": (flat_stores, [(5, 3, 300)]),
    "stores_by_threads": (lambda: flat_stores(P.block_x), [(5, 3, 300)]),
    "tiles_2d": (lambda: tiles(2), [(100, 200)]),
    "tiles_3d": (tiles, [(3, 70, 100)]),
    "tiles_in_a_loop": (lambda: tiles(by=P.serial), [(3, 70, 100)]),
    "tiles_5d": (lambda: tiles(5, box=16), [(2, 1, 3, 40, 20)]),
    "tile_store": (tile_store, [(50, 200)]),
    "tile_store_3d": (lambda: tile_store(3), [(3, 20, 68)]),
    "through": (through, [(5, 1000), (5, 1000)]),
    "through_ahead": (lambda: through(3), [(5, 1000), (5, 1000)]),
    "transposed": (transposed, [(100, 68)]),
    "transposed_swizzled": (lambda: transposed(True), [(100, 68)]),
    "transposed_by_tma": (transposed_by_tma, [(100, 68)]),
    "bias": (bias_in_shared_memory, [(20, 200), (200,)]),
    "bias_small_copies": (lambda: bias_in_shared_memory(CP_ASYNC), [(20, 200), (200,)]),
    "bias_plain": (lambda: bias_in_shared_memory(LoadStoreOpType.set), [(20, 200), (200,)]),
    "small_copies": (lambda: small_copies(16), [(7, 1000)]),
    "small_copies_ahead": (lambda: small_copies(16, 3, 2), [(7, 1000)]),
    "circular_loads": (lambda: circular_loads(3, 2), [(7, 500), (7, 500)]),
    "circular_loads_of_rows": (lambda: circular_loads(4, 2, 3), [(7, 500), (7, 500)]),
    "specialized": (specialized, [(7, 500), (7, 500)]),
    "specialized_rows": (lambda: specialized(rows_per_block=3), [(7, 500), (7, 500)]),
    "specialized_sums": (specialized_sums, [(37, 256)]),
    "specialized_sums_y": (lambda: specialized_sums(P.block_y, 2), [(37, 256)]),
}


def run_kernel(name: str) -> None:
    make, shapes = KERNELS[name]
    tolerance = 1e-3 if "sums" in name else 0.0
    make().check([fill(*shape, seed=i) for i, shape in enumerate(shapes)], tolerance)


@needs_tma
@pytest.mark.parametrize("name", KERNELS)
def test_kernel(name: str) -> None:
    run_kernel(name)


@needs_tma
@pytest.mark.parametrize("dtype", ["Double", "Float", "Half", "BFloat16", "Int", "Int32"])
def test_element_types(dtype: str) -> None:
    flat_boxes(2, dtype=dtype, box=64).check([fill(7, 96, dtype=dtype)])
    tiles(2, dtype=dtype, box=16).check([fill(40, 64, dtype=dtype)])


@needs_tma
@pytest.mark.parametrize("shape", [(1, 4), (1, 256), (2, 128), (3, 1000), (4096, 4)])
def test_boxes_that_the_tensor_ends_in(shape: tuple[int, int]) -> None:
    """What a box has outside of the tensor is zero and is not stored."""
    flat_boxes(2, boxes=3).check([fill(*shape)])
    tiles(2).check([fill(*shape)])
    tile_store().check([fill(*shape)])


@needs_tma
def test_strides() -> None:
    """Rows that are apart, parts of a larger tensor: the tensor map has what is there."""
    wide = fill(40, 96)
    tiles(2, contiguity=False).check([wide[:, 8:72]])
    tiles(3, contiguity=False).check([fill(4, 40, 96)[::2, ::3, :64]])


@needs_tma
@pytest.mark.parametrize("size", [4, 16, 17, 4000])
def test_the_same_kernel_for_other_sizes(size: int) -> None:
    kernel = through(3)
    for columns in (4 * size, 4):
        kernel.check([fill(3, columns, seed=i) for i in range(2)])


@needs_tma
@pytest.mark.parametrize("columns", [4, 64, 68, 128, 1000])
@pytest.mark.parametrize(("stages", "distance"), [(2, 0), (2, 1), (3, 1), (4, -1), (5, 2)])
def test_circular_loads(stages: int, distance: int, columns: int) -> None:
    """Fewer iterations than stages, as many, more; rows one after the other in a block."""
    for rows in (1, 2):
        kernel = circular_loads(stages, distance, rows)
        kernel.check([fill(5, columns, seed=i) for i in range(2)])


@pytest.mark.parametrize("columns", [4, 512, 1000])
@pytest.mark.parametrize("size", [4, 8, 16])
@pytest.mark.parametrize(("stages", "distance"), [(1, 0), (2, 1), (3, 1), (4, 3)])
def test_small_copies(size: int, stages: int, distance: int, columns: int) -> None:
    small_copies(size, stages, distance).check([fill(3, columns)])
    small_copies(size, stages, distance, "Half").check([fill(3, 2 * columns, dtype="Half")])


@needs_tma
@pytest.mark.parametrize("columns", [4, 128, 1000])
@pytest.mark.parametrize(
    ("stages", "along", "box"),
    [(2, P.block_x, 128), (3, P.block_y, 32), (4, P.block_z, 64), (8, P.block_y, 256)],
)
def test_warps_that_load(stages: int, along: ParallelType, box: int, columns: int) -> None:
    for rows in (1, 3):
        kernel = specialized(stages, 1, along, None, box, rows)
        kernel.check([fill(5, columns, seed=i) for i in range(2)])


@needs_tma
def test_warps_that_load_give_registers() -> None:
    kernel = specialized(4, 2, P.block_x, (24, 240), 128)
    kernel.check([fill(5, 1000, seed=i) for i in range(2)])
    assert "nvf::giveRegisters<24>();" in kernel.text
    assert "nvf::takeRegisters<240>();" in kernel.text


def test_the_text_of_warps_that_load() -> None:
    assert "if ((((nvfuser_index_t)threadIdx.y) >= 1LL)) {" in specialized().text


@needs_tma
def test_through_a_kernel_executor() -> None:
    """With 32-bit indices and the parameters that scripts for TMA pass."""
    kernel = tiles()
    parameters = CompileParams(index_type=DataType.Int32, maxrregcount=255, enable_magic_zero=False)
    x = fill(3, 70, 100)
    executor = KernelExecutor()
    executor.compile(kernel.fd.fusion, [x], compile_params=parameters)
    (out,) = executor.run([x], compile_params=parameters)
    assert_same(out, x)


# ----------------------------------------------------------------------------------------- errors


def refuses(message: str, schedule: Callable[..., object], dtype: str = "Float") -> None:
    """Lowering a copy of a rank 2 tensor that is scheduled so raises."""
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], [True] * 2, data_type(dtype))
        out = fd.ops.set(x)
        fd.add_output(out)
        schedule(fd, x, out)
    with pytest.raises(RuntimeError, match=message):
        fd.fusion.print_kernel()


def load(x: object, out: object, box: int = 64, op: LoadStoreOpType = TMA) -> object:
    cache = in_shared_memory(x, op)
    for tv in (cache, out):
        tv.split(1, box)
        tv.axis(0).parallelize(P.grid_x)
    out.axis(2).parallelize(P.block_x)
    return cache


def no_box(fd: FusionDefinition, x: object, out: object) -> None:
    load(x, out)


def narrow_box(fd: FusionDefinition, x: object, out: object) -> None:
    load(x, out, 2).axis(2).parallelize(P.tma)


def wide_box(fd: FusionDefinition, x: object, out: object) -> None:
    load(x, out, 512).axis(2).parallelize(P.tma)


def strided_box(fd: FusionDefinition, x: object, out: object) -> None:
    load(x, out).axis(1).parallelize(P.tma)


def every_fourth(fd: FusionDefinition, x: object, out: object) -> None:
    cache = load(x, out)
    cache.split(2, 4)
    cache.axis(2).parallelize(P.tma)


def symbolic_box(fd: FusionDefinition, x: object, out: object) -> None:
    in_shared_memory(x, TMA).axis(1).parallelize(P.tma)


def in_registers(fd: FusionDefinition, x: object, out: object) -> None:
    x.cache_after(TMA).axis(1).parallelize(P.tma)


def no_copy(fd: FusionDefinition, x: object, out: object) -> None:
    out.split(1, 64)
    out.axis(2).parallelize(P.tma)


def scattered_box(fd: FusionDefinition, x: object, out: object) -> None:
    cache = in_shared_memory(x, TMA)
    for tv in (cache, out):
        tv.split(1, 32)
        tv.split(0, 32)
    # Rows of different boxes lie between those of one.
    for axis in (1, 3):
        cache.axis(axis).parallelize(P.tma)


def small_boxes(fd: FusionDefinition, x: object, out: object) -> None:
    cache = load(x, out, 64)
    cache.split(2, 16)
    cache.axis(3).parallelize(P.tma)


def copies_of_two_bytes(fd: FusionDefinition, x: object, out: object) -> None:
    load(x, out, 64, CP_ASYNC).axis(2).parallelize(P.block_x)


def ahead_of_no_loop(fd: FusionDefinition, x: object, out: object) -> None:
    cache = load(x, out)
    cache.axis(2).parallelize(P.tma)
    cache.circular_buffer(2, 1)


def ahead_without_copies(fd: FusionDefinition, x: object, out: object) -> None:
    load(x, out, op=LoadStoreOpType.set).circular_buffer(3, 1)


def specialized_threads(box: int, registers: tuple[int, int] | None = None) -> Callable[..., None]:
    def schedule(fd: FusionDefinition, x: object, out: object) -> None:
        cache = load(x, out, box)
        fd.sched.inline_at(out, pos=2)
        cache.axis(2).parallelize(P.tma)
        fd.sched.warp_specialize(cache, 2, 1, P.block_x, registers)

    return schedule


def specialized_set(fd: FusionDefinition, x: object, out: object) -> None:
    cache = load(x, out, op=LoadStoreOpType.set)
    fd.sched.warp_specialize(cache, 2, 1, P.block_y)


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        (no_box, "T2.*no loop axis is bound to ParallelType.tma"),
        (narrow_box, "T2.*rows of a box are multiples of 16 bytes"),
        (wide_box, "T2.*at most 256 iterations"),
        (strided_box, "T2.*needs a constant extent"),
        (every_fourth, "T2.*a box is made of consecutive ones"),
        (symbolic_box, "T2.*needs a constant extent"),
        (in_registers, "T2.*to a tensor in shared memory"),
        (no_copy, "only tma copies have axes bound to tma"),
        (scattered_box, "T2.*does not lie in T2.* in one piece"),
        (small_boxes, "T2.*multiples of 128 bytes of shared memory"),
        (ahead_of_no_loop, "T2.*inlined into a serial loop"),
        (ahead_without_copies, "circular_buffer of .*loaded by cp_async or tma"),
        (specialized_threads(48), "T2.*must fill whole warps"),
        (specialized_threads(64, (24, 240)), "T2.*whole groups of four warps"),
        (specialized_set, "warp_specialize of .*loaded by tma"),
    ],
)
def test_refused_schedules(schedule: Callable[..., object], message: str) -> None:
    refuses(message, schedule)


def test_refused_small_copies() -> None:
    refuses("cp_async copies 4, 8 or 16 bytes", copies_of_two_bytes, "Half")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((1, 0, P.block_y), "number of stages must be more than 1"),
        ((3, 3, P.block_y), "prefetch distance"),
        ((3, -4, P.block_y), "prefetch distance"),
        ((3, 1, P.grid_x), "block_x, block_y or block_z"),
        ((3, 1, P.block_y, (20, 240)), "multiples of 8 from 24 to 256"),
        ((3, 1, P.block_y, (24, 264)), "multiples of 8 from 24 to 256"),
        ((3, 1, P.block_y, (28, 240)), "multiples of 8 from 24 to 256"),
        ((3, 1, P.block_y, (240, 24)), "must not have more registers"),
    ],
)
def test_arguments_of_warp_specialize(arguments: tuple, message: str) -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], [True] * 2, DataType.Float)
        fd.add_output(fd.ops.set(x))
        cache = in_shared_memory(x, TMA)
        with pytest.raises(RuntimeError, match=message):
            fd.sched.warp_specialize(cache, *arguments)


@needs_tma
def test_refused_tensors() -> None:
    """What only a launch knows: strides and the address."""
    with pytest.raises(RuntimeError, match=r"Input 0.*strides that are multiples of 16 bytes"):
        tiles(2).check([fill(40, 99)])
    with pytest.raises(RuntimeError, match=r"Output 0.*strides that are multiples of 16 bytes"):
        tile_store().check([fill(40, 99)])
    with pytest.raises(RuntimeError, match=r"Input 0.*not aligned to 16 bytes"):
        flat_boxes(1).check([fill(300)[1:]])


# -------------------------------------------------------------------------------- random schedules


def random_schedule(seed: int) -> tuple[Kernel, torch.Tensor]:
    """Boxes of any shape: by blocks, in loops around the copy, in loops of the copy."""
    choose = random.Random(seed)
    rank = choose.randint(1, 4)
    sizes = [choose.randint(1, 12) for _ in range(rank - 1)] + [4 * choose.randint(1, 40)]
    boxes = [choose.choice((1, 1, 2, 4)) for _ in range(rank - 1)] + [choose.choice((32, 64))]
    in_grid = choose.randint(0, rank)
    around = choose.randint(0, rank - in_grid)
    kind = choose.choice(("load", "store", "circular", "specialized"))
    if around == 0 and kind != "store":
        kind = "load"
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1] * rank, [True] * rank, DataType.Float)
        out = fd.ops.mul(x, 2.0)
        fd.add_output(out)
        copy = out.cache_before(TMA) if kind == "store" else x.cache_after(TMA)
        copy.set_memory_type(MemoryType.shared)
        bulk, threads = (out, copy) if kind == "store" else (copy, out)
        for tv in (copy, out):
            for dim in reversed(range(rank)):
                tv.split(dim, boxes[dim])
            tv.reorder({2 * dim: dim for dim in range(rank)})
            for _ in range(in_grid - 1):
                tv.merge(0, 1)
            if in_grid > 0:
                tv.axis(0).parallelize(P.grid_x)
        shared = min(in_grid, 1) + around
        fd.sched.inline_at(out, pos=shared, selected_tensors=[copy])
        for axis in range(1, rank + 1):
            bulk.axis(-axis).parallelize(P.tma)
        for _ in range(rank - 1):
            threads.merge(-2, -1)
        threads.split(-1, 32)
        threads.axis(-1).parallelize(P.block_x)
        stages = choose.randint(2, 4)
        if kind == "circular":
            copy.circular_buffer(stages, choose.randint(0, stages - 1))
        elif kind == "specialized":
            fd.sched.warp_specialize(copy, stages, 1, choose.choice((P.block_x, P.block_y)))
    return Kernel(fd, lambda t: t * 2), fill(*sizes, seed=seed)


@needs_tma
@pytest.mark.parametrize("seed", range(400 if LONG else 40))
def test_random_schedule(seed: int) -> None:
    kernel, x = random_schedule(seed)
    kernel.check([x])


# -------------------------------------------------------------------------------- adversarial runs

ADVERSARIAL = """
from test_async_copies import KERNELS, random_schedule, run_kernel

def run_random(seed):
    kernel, x = random_schedule(seed)
    kernel.check([x])

cases = [(run_kernel, name) for name in KERNELS] + [(run_random, seed) for seed in range(20)]
for function, argument in cases:
    try:
        function(argument)
    except Exception as error:
        print("failed:", argument, error)
print("done")
"""


@pytest.mark.skipif(ON_CUDA, reason="the host target's own checks")
@pytest.mark.parametrize("seed", ["1", "2"])
def test_adversarial_runs_are_clean(seed: str) -> None:
    done = run_python(ADVERSARIAL, {"NVFUSER_HOST_ADVERSARIAL": seed}, timeout=600)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "done", done.stdout


@pytest.mark.parametrize("name", KERNELS)
def test_kernels_compile_with_nvrtc(name: str) -> None:
    extension = pytest.importorskip("nvfuse_direct._C_DIRECT")
    if extension._nvrtc_error():
        pytest.skip("no NVRTC")
    text = KERNELS[name][0]().text
    for arch in (90, 100):
        for wide_index in (False, True):
            resources = extension._compile_cubin(text, arch, wide_index)
            assert resources["spill_store_bytes"] == 0
            assert not re.search("ignored", resources["log"])
