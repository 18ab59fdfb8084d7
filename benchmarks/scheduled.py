# SPDX-License-Identifier: BSD-3-Clause
"""Kernels scheduled by hand, of kinds that no automatic scheduler makes: asynchronous copies.

Each function gives a scheduled fusion of one input x of rank 2 that computes 2 * x.
"""

from __future__ import annotations

from nvfuse_direct import (
    DataType,
    FusionDefinition,
    LoadStoreOpType,
    MemoryType,
    ParallelType,
    TensorView,
)

P = ParallelType
BOX = 64


def define(fd: FusionDefinition) -> tuple[TensorView, TensorView]:
    x = fd.define_tensor([-1, -1], [True, True], DataType.Float)
    out = fd.ops.mul(x, 2.0)
    fd.add_output(out)
    return x, out


def along_rows(fd: FusionDefinition, copy: TensorView, out: TensorView) -> None:
    """A row for each block, a loop over pieces of it, a thread for each element of a piece."""
    copy.set_memory_type(MemoryType.shared)
    out.split(1, BOX)
    fd.sched.transform_like(out)
    fd.sched.inline_at(out, pos=2)
    for tv in (copy, out):
        tv.axis(0).parallelize(P.grid_x)


def tma_load() -> FusionDefinition:
    with FusionDefinition() as fd:
        x, out = define(fd)
        copy = x.cache_after(LoadStoreOpType.tma)
        along_rows(fd, copy, out)
        copy.axis(2).parallelize(P.tma)
        out.axis(2).parallelize(P.block_x)
    return fd


def tma_store() -> FusionDefinition:
    with FusionDefinition() as fd:
        _, out = define(fd)
        copy = out.cache_before(LoadStoreOpType.tma)
        along_rows(fd, copy, out)
        copy.axis(2).parallelize(P.block_x)
        out.axis(2).parallelize(P.tma)
    return fd


def circular_tma_load() -> FusionDefinition:
    with FusionDefinition() as fd:
        x, out = define(fd)
        copy = x.cache_after(LoadStoreOpType.tma)
        along_rows(fd, copy, out)
        copy.axis(2).parallelize(P.tma)
        copy.circular_buffer(3, 2)
        out.axis(2).parallelize(P.block_x)
    return fd


def circular_cp_async() -> FusionDefinition:
    """Four neighbouring elements are copied by a thread, each is read by another one."""
    with FusionDefinition() as fd:
        x, out = define(fd)
        copy = x.cache_after(LoadStoreOpType.cp_async)
        along_rows(fd, copy, out)
        copy.split(2, 4)
        copy.axis(2).parallelize(P.block_x)
        copy.axis(3).parallelize(P.vectorize)
        copy.circular_buffer(3, 2)
        out.axis(2).parallelize(P.block_x)
    return fd


def warp_specialized() -> FusionDefinition:
    with FusionDefinition() as fd:
        x, out = define(fd)
        copy = x.cache_after(LoadStoreOpType.tma)
        along_rows(fd, copy, out)
        copy.axis(2).parallelize(P.tma)
        fd.sched.warp_specialize(copy, 3, 2, P.block_y)
        out.axis(2).parallelize(P.block_x)
    return fd
