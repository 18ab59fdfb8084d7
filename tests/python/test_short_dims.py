# SPDX-License-Identifier: BSD-3-Clause
"""Reductions over a few elements beside those of longer rows: one kernel has both."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from helpers import DEVICE, define
from nvfuse_direct import DataType, FusionDefinition

Tensor = torch.Tensor


def normal(*sizes: int, seed: int, dtype: torch.dtype = torch.float) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(sizes, generator=generator).to(dtype)


def definition(x: Tensor, build: Callable) -> FusionDefinition:
    def body(fd: FusionDefinition) -> None:
        for out in build(fd, fd.from_pytorch(x, static_sizes=True)):
            fd.add_output(out)

    return define(body)


def mean(fd: FusionDefinition, t: object, dims: list[int], count: int) -> object:
    return fd.ops.div(fd.ops.sum(t, dims, keepdim=True), float(count))


def kernels(fd: FusionDefinition, x: Tensor) -> int:
    return fd.fec.get_cuda_kernel([x]).count("NVF_KERNEL(")


def softmax_of_largest(fd: FusionDefinition, x: object) -> list:
    """Of x[rows, n, k]: a maximum over k, softmax over n, and where the maxima were."""
    ops = fd.ops
    largest = ops.max(x, [2])
    kept = ops.broadcast(largest, [False, False, True])
    top = ops.max(largest, [1], keepdim=True)
    e = ops.exp(ops.sub(largest, top))
    return [ops.div(e, ops.sum(e, [1], keepdim=True)), ops.eq(x, kept)]


def torch_softmax_of_largest(x: Tensor) -> list[Tensor]:
    largest = x.double().amax(2)
    return [largest.softmax(1), x == x.amax(2, keepdim=True)]


def assert_close(got: Tensor, wanted: Tensor) -> None:
    tolerance = 1e-2 if got.dtype in (torch.half, torch.bfloat16) else 2e-5
    torch.testing.assert_close(
        got.double(), wanted.double(), atol=tolerance, rtol=tolerance, equal_nan=True
    )


@pytest.mark.parametrize("dtype", [torch.float, torch.bfloat16, torch.double])
@pytest.mark.parametrize(
    "sizes",
    [(40, 96, 3), (7, 33, 2), (5, 1000, 4), (3, 257, 7), (9, 64, 8), (130, 24, 16), (1, 5, 3)],
)
def test_one_kernel_reduces_both(sizes: tuple[int, int, int], dtype: torch.dtype) -> None:
    x = normal(*sizes, seed=1, dtype=dtype).to(DEVICE)
    fd = definition(x, softmax_of_largest)
    outs = fd.execute([x])
    for out, wanted in zip(outs, torch_softmax_of_largest(x), strict=True):
        assert_close(out, wanted)
    assert kernels(fd, x) == 1


@pytest.mark.parametrize(("sizes", "range_"), [((6, 96, 40), (1, 1)), ((6, 1500, 4000), (2, 4))])
def test_more_than_a_thread_has_is_for_several(
    sizes: tuple[int, int, int], range_: tuple[int, int]
) -> None:
    x = normal(*sizes, seed=1).to(DEVICE)
    fd = definition(x, softmax_of_largest)
    for out, wanted in zip(fd.execute([x]), torch_softmax_of_largest(x), strict=True):
        assert_close(out, wanted)
    fewest, most = range_
    assert fewest <= kernels(fd, x) <= most


def test_nan_of_a_few_elements_is_the_largest() -> None:
    x = normal(40, 96, 3, seed=2)
    x[3, 7, 1] = torch.nan
    x[11, 95, 2] = torch.inf
    x[12, 0] = -torch.inf
    x = x.to(DEVICE)

    def build(fd: FusionDefinition, t: object) -> list:
        largest = fd.ops.max(t, [2])
        return [largest, fd.ops.sub(largest, fd.ops.sum(largest, [1], keepdim=True))]

    fd = definition(x, build)
    got, centred = fd.execute([x])
    wanted = x.amax(2)
    assert torch.equal(torch.nan_to_num(got, nan=-7.0), torch.nan_to_num(wanted, nan=-7.0))
    exact = wanted.double() - wanted.double().sum(1, keepdim=True)
    torch.testing.assert_close(centred.double(), exact, atol=1e-3, rtol=1e-4, equal_nan=True)
    assert kernels(fd, x) == 1


def test_the_short_dimension_may_be_outside_of_the_rows() -> None:
    """Loads along the rows are vectors then."""
    x = normal(20, 4, 256, seed=3).to(DEVICE)

    def build(fd: FusionDefinition, t: object) -> list:
        total = fd.ops.sum(t, [1])
        return [fd.ops.sub(total, mean(fd, total, [1], 256))]

    fd = definition(x, build)
    (out,) = fd.execute([x])
    total = x.double().sum(1)
    assert_close(out, total - total.mean(1, keepdim=True))
    assert kernels(fd, x) == 1


def test_several_short_dimensions() -> None:
    x = normal(12, 2, 50, 3, seed=4).to(DEVICE)

    def build(fd: FusionDefinition, t: object) -> list:
        ops = fd.ops
        total = ops.sum(t, [1, 3], keepdim=True)
        scale = ops.rsqrt(mean(fd, ops.mul(total, total), [2], 50))
        return [ops.mul(t, ops.mul(total, scale))]

    fd = definition(x, build)
    (out,) = fd.execute([x])
    total = x.double().sum((1, 3), keepdim=True)
    assert_close(out, x.double() * total * (total * total).mean(2, keepdim=True).rsqrt())
    assert kernels(fd, x) == 1


def test_a_sum_of_both_is_made_of_the_short_one() -> None:
    x = normal(16, 60, 4, seed=5).to(DEVICE)

    def build(fd: FusionDefinition, t: object) -> list:
        ops = fd.ops
        return [
            ops.sub(t, ops.max(t, [2], keepdim=True)),
            ops.mul(t, ops.sum(ops.mul(t, t), [1, 2], keepdim=True)),
        ]

    fd = definition(x, build)
    outs = fd.execute([x])
    exact = x.double()
    assert_close(outs[0], exact - exact.amax(2, keepdim=True))
    torch.testing.assert_close(
        outs[1].double(), exact * (exact * exact).sum((1, 2), keepdim=True), atol=1e-3, rtol=1e-4
    )


def gradient(fd: FusionDefinition, grad: object, mask: object, width: int) -> list:
    """Of a layer norm of maxima, as autograd writes it."""
    ops = fd.ops
    centred = ops.sub(grad, mean(fd, grad, [1], width))
    count = ops.sum(ops.cast(mask, DataType.Int), [2])
    each = ops.div(centred, ops.cast(count, DataType.Float))
    dx = ops.mul(ops.broadcast(each, [False, False, True]), ops.cast(mask, DataType.Float))
    return [dx, ops.sum(dx, [0])]


@pytest.mark.parametrize("sizes", [(4096, 96, 3), (2048, 32, 8)])
def test_sums_of_columns_have_the_short_dimension(sizes: tuple[int, int, int]) -> None:
    grad = normal(*sizes[:2], seed=6)
    x = normal(*sizes, seed=7)
    mask = x == x.amax(2, keepdim=True)
    grad, mask = grad.to(DEVICE), mask.to(DEVICE)

    def body(fd: FusionDefinition) -> None:
        tensors = [fd.from_pytorch(t, static_sizes=True) for t in (grad, mask)]
        for out in gradient(fd, *tensors, sizes[1]):
            fd.add_output(out)

    fd = define(body)
    dx, db = fd.execute([grad, mask])
    g = grad.double()
    each = (g - g.mean(1, keepdim=True)) / mask.sum(2)
    exact = each[:, :, None] * mask
    assert_close(dx, exact)
    torch.testing.assert_close(db.double(), exact.sum(0), atol=1e-2, rtol=1e-4)
    # dx and partial sums of its columns, and what is left of these.
    assert fd.fec.get_cuda_kernel([grad, mask]).count("NVF_KERNEL(") == 2


def test_rows_of_any_length() -> None:
    """The short dimension is a constant, the others are not."""

    def body(fd: FusionDefinition) -> None:
        x = fd.define_tensor([-1, -1, 3], [True, True, True], dtype=DataType.Float)
        for out in softmax_of_largest(fd, x):
            fd.add_output(out)

    fd = define(body)
    for rows, width in ((40, 96), (7, 33), (3, 1000), (16, 5000), (5, 257), (64, 64), (2, 20000)):
        x = normal(rows, width, 3, seed=width).to(DEVICE)
        for out, wanted in zip(fd.execute([x]), torch_softmax_of_largest(x), strict=True):
            assert_close(out, wanted)


@pytest.mark.parametrize("width", [3, 5, 7, 15])
def test_rows_of_a_few_elements(width: int) -> None:
    x = normal(3000, width, seed=width).to(DEVICE)

    def build(fd: FusionDefinition, t: object) -> list:
        return [fd.ops.sub(t, fd.ops.max(t, [1], keepdim=True)), fd.ops.sum(t, [1])]

    fd = definition(x, build)
    shifted, total = fd.execute([x])
    assert torch.equal(shifted, x - x.amax(1, keepdim=True))
    assert_close(total, x.double().sum(1))
