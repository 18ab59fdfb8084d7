# SPDX-License-Identifier: BSD-3-Clause
"""Scans (cumsum, cumprod, cummin, cummax): lines that threads share, against torch in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from helpers import DEVICE
from nvfuse_direct import DataType, FusionDefinition, ParallelType, explain

P = ParallelType
Scan = Callable[[torch.Tensor, int], torch.Tensor]
SCANS: dict[str, Scan] = {
    "cumsum": lambda x, dim: x.cumsum(dim),
    "cumprod": lambda x, dim: x.cumprod(dim),
    "cummin": lambda x, dim: x.cummin(dim).values,
    "cummax": lambda x, dim: x.cummax(dim).values,
}


def values(op: str, shape: tuple[int, ...], dtype: torch.dtype = torch.float) -> torch.Tensor:
    torch.manual_seed(sum(shape))
    x = torch.randn(shape, device=DEVICE)
    if op == "cumprod":
        x = 1.0 + x / 100.0
    return x.to(dtype)


def expect(actual: torch.Tensor, expected: torch.Tensor) -> None:
    tolerance = 2e-2 if actual.dtype in (torch.bfloat16, torch.half) else 1e-4
    torch.testing.assert_close(actual.double(), expected.double(), rtol=tolerance, atol=tolerance)


def scanned(op: str, x: torch.Tensor, dim: int) -> tuple[torch.Tensor, str]:
    with FusionDefinition() as fd:
        fd.add_output(getattr(fd.ops, op)(fd.from_pytorch(x), dim))
    (out,) = fd.execute([x])
    (segment,) = explain(fd, [x]).segments
    assert segment.scheduler == "greedy", str(explain(fd, [x]))
    return out, fd.fec.get_cuda_kernel([x])


def is_shared(kernel: str) -> bool:
    """By the threads of a block; for the host itself, which are iterations of a loop."""
    return "nvf::blockScan" in kernel or "nvf::scanThreads" in kernel


WIDTHS = [8, 9, 31, 64, 100, 255, 256, 1000, 1024, 2049, 5000]


@pytest.mark.parametrize("op", SCANS)
@pytest.mark.parametrize("width", WIDTHS)
def test_rows(op: str, width: int) -> None:
    x = values(op, (5, width))
    out, kernel = scanned(op, x, 1)
    assert is_shared(kernel)
    expect(out, SCANS[op](x.double(), 1))


@pytest.mark.parametrize("shape", [(4000,), (7, 3, 300), (1, 513), (300, 12), (0, 40), (3, 0)])
def test_shapes(shape: tuple[int, ...]) -> None:
    x = values("cumsum", shape)
    with FusionDefinition() as fd:
        fd.add_output(fd.ops.cumsum(fd.from_pytorch(x), len(shape) - 1))
    (out,) = fd.execute([x])
    expect(out, x.double().cumsum(-1))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.half, torch.double, torch.int64])
@pytest.mark.parametrize("width", [96, 3001])
def test_dtypes(dtype: torch.dtype, width: int) -> None:
    x = values("cummax", (4, width)).mul(50).to(dtype)
    for op in ("cummin", "cummax"):
        out, _ = scanned(op, x, 1)
        torch.testing.assert_close(out, SCANS[op](x, 1))
    if not dtype.is_floating_point:
        out, _ = scanned("cumsum", x, 1)
        torch.testing.assert_close(out, x.cumsum(1))
    if dtype == torch.double:
        out, _ = scanned("cumsum", x, 1)
        torch.testing.assert_close(out, x.cumsum(1))


def test_complex_numbers() -> None:
    x = torch.randn(3, 700, dtype=torch.cfloat, device=DEVICE)
    out, kernel = scanned("cumsum", x, 1)
    assert is_shared(kernel)
    torch.testing.assert_close(out, x.cumsum(1), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("op", SCANS)
def test_nan_stays(op: str) -> None:
    x = values(op, (3, 500))
    x[0, 17] = torch.nan
    x[1, 499] = torch.nan
    x[2, 3] = torch.inf
    out, _ = scanned(op, x, 1)
    torch.testing.assert_close(out.isnan(), SCANS[op](x, 1).isnan())
    expect(out[0, :17], SCANS[op](x.double(), 1)[0, :17])


def test_initial_value() -> None:
    x = values("cumsum", (3, 400))
    with FusionDefinition() as fd:
        start = fd.define_scalar(2.5, DataType.Float)
        fd.add_output(fd.ops.cumsum(fd.from_pytorch(x), 1, init=start))
    (out,) = fd.execute([x])
    expect(out, x.double().cumsum(1) + 2.5)


def test_other_dimensions() -> None:
    """Few lines are shared by threads, many neighbouring ones are not."""
    few, many = values("cumsum", (300, 10)), values("cumsum", (20, 5000))
    out, kernel = scanned("cumsum", few, 0)
    assert is_shared(kernel)
    expect(out, few.double().cumsum(0))
    out, kernel = scanned("cumsum", many, 0)
    assert not is_shared(kernel)
    expect(out, many.double().cumsum(0))
    middle = values("cumsum", (3, 200, 5))
    out, _ = scanned("cumsum", middle, 1)
    expect(out, middle.double().cumsum(1))


def test_memory_orders() -> None:
    x = values("cumsum", (200, 30)).t()
    out, _ = scanned("cumsum", x, 0)
    expect(out, x.double().cumsum(0))
    gaps = values("cumsum", (6, 1000))[:, ::2]
    out, _ = scanned("cumsum", gaps, 1)
    expect(out, gaps.double().cumsum(1))
    misaligned = values("cumsum", (6, 1001))[:, 1:]
    out, _ = scanned("cumsum", misaligned, 1)
    expect(out, misaligned.double().cumsum(1))


def test_neighbours_are_computed_along() -> None:
    """What is read before and after a scan, and one scan after another, in one kernel."""
    x, y = values("cumsum", (6, 777)), values("cumsum", (1, 777))
    with FusionDefinition() as fd:
        a, b = fd.from_pytorch(x), fd.from_pytorch(y)
        doubled = fd.ops.mul(a, 2.0)
        first = fd.ops.cumsum(doubled, 1)
        difference = fd.ops.sub(first, doubled)
        second = fd.ops.cummax(fd.ops.add(difference, b), 1)
        for tv in (first, fd.ops.relu(second), second):
            fd.add_output(tv)
    outputs = fd.execute([x, y])
    (segment,) = explain(fd, [x, y]).segments
    assert segment.scheduler == "greedy"
    one = (x.double() * 2).cumsum(1)
    two = (one - x.double() * 2 + y.double()).cummax(1).values
    for out, expected in zip(outputs, (one, two.relu(), two), strict=True):
        expect(out, expected)


def test_runs_are_bit_identical() -> None:
    x = values("cumsum", (3, 10000))
    first, _ = scanned("cumsum", x, 1)
    for _ in range(3):
        torch.testing.assert_close(scanned("cumsum", x, 1)[0], first, rtol=0, atol=0)


def test_one_kernel_serves_other_shapes() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], [True, True], DataType.Float)
        fd.add_output(fd.ops.cumsum(x, 1))
    for shape in [(4, 4096), (9, 4096), (4, 8192), (4, 4100), (4, 4099)]:
        x = values("cumsum", shape)
        expect(fd.execute([x])[0], x.double().cumsum(1))


def by_hand(schedule: Callable[[FusionDefinition, Any], object]) -> None:
    x = values("cumsum", (3, 50))
    with FusionDefinition() as fd:
        a = fd.define_tensor([3, 50], [True, True], DataType.Float)
        b = fd.ops.cumsum(a, 1)
        fd.add_output(b)
        schedule(fd, b.cache_before())
    expect(fd.manual_execute([x])[0], x.double().cumsum(1))


def test_schedule_by_hand() -> None:
    def shared(fd: FusionDefinition, s: Any) -> None:
        s.split(1, 4)
        s.split(1, 8)
        fd.sched.transform_like(s)
        s.axis(0).parallelize(P.grid_x)
        s.axis(2).parallelize(P.block_x)
        fd.sched.parallelize_like(s)
        fd.sched.inline_at(s, 3, best_effort=True)

    def too_few_splits(fd: FusionDefinition, s: Any) -> None:
        s.split(1, 8)
        s.axis(2).parallelize(P.block_x)

    def odd_threads(fd: FusionDefinition, s: Any) -> None:
        s.split(1, 4)
        s.split(1, 7)
        s.axis(2).parallelize(P.block_x)

    by_hand(shared)
    for schedule in (too_few_splits, odd_threads):
        with pytest.raises(RuntimeError, match="a scan over threads needs"):
            by_hand(schedule)
