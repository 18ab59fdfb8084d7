# SPDX-License-Identifier: BSD-3-Clause
"""Normalizations over dimensions that are not the innermost in memory, in one kernel.

Columns stay in registers of a block or of a cluster; those that do not fit take several kernels.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
import torch
from helpers import DEVICE, run_python
from nvfuse_direct import DataType, FusionDefinition, ReductionParams, SchedulerType
from test_normalizations import PATTERNS, TYPES, Norm, layer_norm, random, softmax

Tensor = torch.Tensor
OUTER = SchedulerType.outer_persistent
# Rows of which not even eight columns fit on all multiprocessors.
HAS_FEW_SMS = DEVICE.type == "cpu" and os.environ["NVFUSER_MACHINE"] == "hopper"
TOO_LONG = 300_000 if HAS_FEW_SMS else 6_000_000


def kernels(fd: FusionDefinition, inputs: list[Tensor]) -> int:
    return fd.fec.get_cuda_kernel(inputs).count("NVF_KERNEL")


def is_outer(fd: FusionDefinition, inputs: list[Tensor]) -> bool:
    text = fd.fec.get_cuda_kernel(inputs)
    return kernels(fd, inputs) == 1 and "NVF_KERNEL(nvfuser_outer_persistent" in text


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("dtype", TYPES)
def test_shapes_and_dtypes(pattern: Callable, dtype: torch.dtype) -> None:
    cases = [
        ([64, 32], [0]),
        ([33, 7], [0]),
        ([2, 1000], [0]),
        ([300, 72], [0]),
        ([5, 12, 24], [1]),
        ([3, 5, 4, 40], [0, 2]),
        ([40, 9, 3], [0]),
        ([1, 17], [0]),
        ([19, 1], [0]),
    ]
    for number, (sizes, dims) in enumerate(cases):
        x = random(sizes, dtype, number, DEVICE)
        norm = Norm(pattern, x, dims, weights=dims if number % 2 else [], static=number % 3 == 0)
        norm.rows = []  # sums over the other dimensions are kernels of their own
        with FusionDefinition() as norm.fd:
            o = norm.fd.ops
            tensors = [norm.fd.from_pytorch(t, static_sizes=number % 3 == 0) for t in norm.inputs]
            wide = DataType.Double if dtype == torch.double else DataType.Float
            for out in pattern(o, norm.dims, [], *(o.cast(t, wide) for t in tensors)):
                norm.fd.add_output(o.cast(out, TYPES[dtype]))
        norm.check(smallest=1.0 if 1 in sizes else 1e-3)
        if 1 not in sizes:
            assert is_outer(norm.fd, norm.inputs), sizes


def batch_norm(x: Tensor, running: list[Tensor], **options) -> FusionDefinition:
    """Batch normalization in training, with the update of the running statistics."""
    with FusionDefinition() as fd:
        o = fd.ops
        t = o.cast(fd.from_pytorch(x, **options), DataType.Float)
        mean, var = (fd.from_pytorch(r, **options) for r in running)
        dims = [d for d in range(x.dim()) if d != 1]
        new_var, new_mean = o.var_mean(t, dims, correction=0, keepdim=False)
        fd.add_output(o.add(o.mul(mean, 0.9), o.mul(new_mean, 0.1)), mean)
        fd.add_output(o.add(o.mul(var, 0.9), o.mul(new_var, 0.1)), var)
        around = [d != 1 for d in range(x.dim())]
        scale = o.broadcast(o.rsqrt(o.add(new_var, 1e-5)), around)
        y = o.mul(o.sub(t, o.broadcast(new_mean, around)), scale)
        fd.add_output(o.cast(y, TYPES[x.dtype]))
    return fd


def check_batch_norm(fd: FusionDefinition, x: Tensor) -> Tensor:
    channels = x.size(1)
    running = [torch.zeros(channels, device=DEVICE), torch.ones(channels, device=DEVICE)]
    (out,) = fd.execute([x, *running])
    wide = x.double()
    var, mean = torch.var_mean(wide, [d for d in range(x.dim()) if d != 1], correction=0)
    torch.testing.assert_close(running[0].double(), 0.1 * mean, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(running[1].double(), 0.9 + 0.1 * var, atol=1e-5, rtol=1e-4)
    expected = torch.nn.functional.batch_norm(wide, None, None, training=True)
    tolerance = 2e-2 if x.dtype == torch.bfloat16 else 1e-4
    torch.testing.assert_close(out.double(), expected, atol=tolerance, rtol=tolerance)
    assert fd.fec._num_fallbacks == 0
    return out


@pytest.mark.parametrize("dtype", [torch.float, torch.bfloat16])
def test_batch_norm_channels_last(dtype: torch.dtype) -> None:
    for sizes in ([4, 24, 6, 5], [2, 3, 31, 17], [8, 128, 3, 3]):
        x = random(sizes, dtype, 1, DEVICE).contiguous(memory_format=torch.channels_last)
        running = [torch.zeros(sizes[1], device=DEVICE), torch.ones(sizes[1], device=DEVICE)]
        fd = batch_norm(x, running)
        check_batch_norm(fd, x)
        assert is_outer(fd, [x, *running]), "the running statistics are written by the same kernel"


def test_one_definition_for_columns_that_fit_and_that_do_not() -> None:
    x = random([64, 64], torch.float, 2, DEVICE)
    with FusionDefinition() as fd:
        t = fd.from_pytorch(x)
        fd.add_output(softmax(fd.ops, [0], [], t, None, None)[0])
    seen = {}
    for turn in range(2):
        for sizes in (
            [64, 64],
            [TOO_LONG, 8],
            [200, 24],
            [64, 128],
            [100, 0],
            [0, 5],
            [1, 7],
            [9, 1],
        ):
            x = random(sizes, torch.float, 3, DEVICE)
            (out,) = fd.execute([x])
            torch.testing.assert_close(out.double(), torch.softmax(x.double(), 0))
            if turn == 0:
                seen[tuple(sizes)] = fd.fec._num_kernels
    assert fd.fec._num_kernels == max(seen.values()), "nothing is compiled twice"
    assert fd.fec._num_fallbacks == 0
    assert is_outer(fd, [random([64, 64], torch.float, 2, DEVICE)])
    assert kernels(fd, [random([TOO_LONG, 8], torch.float, 2, DEVICE)]) > 1


def test_other_numbers_of_columns_use_the_same_kernel() -> None:
    x = random([256, 520], torch.float, 9, DEVICE)
    norm = Norm(layer_norm, x, [0], [0], static=False)
    norm.check()
    assert norm.fd.fec._num_kernels == 1
    for columns in (516, 600, 640):
        norm.inputs[:2] = [random([256, columns], torch.float, k, DEVICE) for k in range(2)]
        norm.check()
    assert norm.fd.fec._num_kernels == 1


@pytest.mark.machine("hopper")
def test_why_columns_do_not_fit() -> None:
    x = torch.empty(TOO_LONG, 8, device=DEVICE)
    with FusionDefinition() as fd:
        t = fd.from_pytorch(x)
        fd.add_output(softmax(fd.ops, [0], [], t, None, None)[0])
        assert fd.sched.can_schedule(fd.fusion, OUTER, [x])[0]
        with pytest.raises(
            RuntimeError, match=f"8 columns of {TOO_LONG} elements do not fit on chip"
        ):
            fd.sched.compute_heuristics(fd.fusion, OUTER, [x])


def run_with(pattern: Callable, x: Tensor, edit: Callable[[ReductionParams], None]) -> list[Tensor]:
    """The pattern over dimension 0 with edited parameters."""
    inputs = [x, random(x.shape, x.dtype, 1, DEVICE), random([x.size(0), 1], x.dtype, 2, DEVICE)]
    fd = FusionDefinition()
    with fd:
        for out in pattern(fd.ops, [0], [], *(fd.from_pytorch(t) for t in inputs)):
            fd.add_output(out)
        params = fd.sched.compute_heuristics(fd.fusion, OUTER, inputs)
        edit(params)
        fd.sched.schedule(fd.fusion, OUTER, params)
    first = fd.manual_execute(inputs, params)
    for _ in range(3):
        for a, b in zip(first, fd.manual_execute(inputs, params), strict=True):
            assert torch.equal(a, b)
    return first


SHARES = [
    ((8, 4), 1, False),
    ((3, 5), 1, False),
    ((16, 1), 1, False),
    ((8, 8), 2, False),
    ((4, 3), 8, False),
    ((8, 4), 2, True),
    ((3, 5), 4, True),
    ((16, 1), 1, True),
    ((4, 16), 11, True),
]


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize(("threads", "blocks", "grid"), SHARES)
def test_edited_parameters(
    pattern: Callable, threads: tuple[int, int], blocks: int, grid: bool
) -> None:
    """Threads of a block, blocks that share a column: those of a cluster or of the grid."""

    def edit(params: ReductionParams) -> None:
        params.lparams.bdimx, params.lparams.bdimy = threads
        params.lparams.gdimy = blocks
        params.cluster_size = 1 if grid else blocks
        params.cross_grid_outer_reduction = grid

    x = random([77, 36], torch.float, 4, DEVICE)
    usual = run_with(pattern, x, lambda params: None)
    for a, b in zip(usual, run_with(pattern, x, edit), strict=True):
        torch.testing.assert_close(a, b, atol=1e-4, rtol=1e-4)


def test_blocks_that_wait_for_each_other_must_fit() -> None:
    def edit(params: ReductionParams) -> None:
        params.lparams.gdimy = 5000
        params.cluster_size = 1
        params.cross_grid_outer_reduction = True

    x = random([5000, 4], torch.float, 4, DEVICE)
    with pytest.raises(RuntimeError, match="blocks of the kernel wait for each other"):
        run_with(softmax, x, edit)


def test_the_scheduler_is_the_only_one() -> None:
    x = torch.empty(32, 64, device=DEVICE)
    with FusionDefinition() as fd:
        t = fd.from_pytorch(x)
        fd.add_output(softmax(fd.ops, [0], [], t, None, None)[0])
        assert fd.sched.find_compatible_schedulers(fd.fusion, [x]) == [OUTER]


ADVERSARIAL = """
import torch
from nvfuse_direct import FusionDefinition, SchedulerType

for sizes in ([70, 40], [1000, 16], [5, 300], [3000, 32]):
    x = torch.randn(sizes)
    with FusionDefinition() as fd:
        t = fd.from_pytorch(x)
        e = fd.ops.exp(fd.ops.sub(t, fd.ops.max(t, [0], keepdim=True)))
        fd.add_output(fd.ops.div(e, fd.ops.sum(e, [0], keepdim=True)))
        var, mean = fd.ops.var_mean(t, [0], correction=0, keepdim=True)
        fd.add_output(fd.ops.mul(fd.ops.sub(t, mean), fd.ops.rsqrt(fd.ops.add(var, 1e-5))))
    a, b = fd.execute([x])
    normal = torch.nn.functional.batch_norm(x, None, None, training=True)
    assert torch.allclose(a, torch.softmax(x, 0), atol=1e-5)
    assert torch.allclose(b, normal, atol=1e-4)
    assert fd.fec._num_fallbacks == 0
    print(sizes, "outer_persistent" in fd.fec.get_cuda_kernel([x]))

for blocks in (2, 5):
    x = torch.randn(300, 24)
    with FusionDefinition() as fd:
        t = fd.from_pytorch(x)
        e = fd.ops.exp(fd.ops.sub(t, fd.ops.max(t, [0], keepdim=True)))
        fd.add_output(fd.ops.div(e, fd.ops.sum(e, [0], keepdim=True)))
        params = fd.sched.compute_heuristics(fd.fusion, SchedulerType.outer_persistent, [x])
        params.cluster_size = 1
        params.cross_grid_outer_reduction = True
        params.lparams.gdimy = blocks
        fd.sched.schedule(fd.fusion, SchedulerType.outer_persistent, params)
    for _ in range(3):
        assert torch.allclose(fd.manual_execute([x], params)[0], torch.softmax(x, 0), atol=1e-5)
"""


@pytest.mark.parametrize("seed", range(1, 5))
def test_random_orders_of_threads(seed: int) -> None:
    done = run_python(ADVERSARIAL, {"NVFUSER_HOST_ADVERSARIAL": str(seed)})
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("True") == 4, done.stdout
