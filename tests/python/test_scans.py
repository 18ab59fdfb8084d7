# SPDX-License-Identifier: BSD-3-Clause
"""Scans (cumsum, cumprod, cummin, cummax): lines that threads share, against torch in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from helpers import DEVICE, define
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


def test_of_elements_that_are_one_value() -> None:
    """What a scan writes over its operand is not one value any more."""
    x = torch.full((1,), 5.0, device=DEVICE).expand(400)

    def body(fd: FusionDefinition) -> None:
        zeros = fd.ops.full([400], 0.0, DataType.Float)
        fd.add_output(fd.ops.cumsum(fd.ops.add(fd.from_pytorch(x), zeros), 0))

    (out,) = define(body).execute([x])
    expect(out, x.double().cumsum(0))


def test_other_dimensions() -> None:
    """Few lines are shared by threads, many neighbouring ones are not."""
    few, many = values("cumsum", (300, 10)), values("cumsum", (20, 20000))
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


Ops = Callable[..., Any]


def routed(o: Any, expert: Any) -> Any:
    """Places of tokens among those of their expert, as mixtures of experts count them."""
    experts = o.iota(8, 0, 1, DataType.Int)
    wide = [o.broadcast(expert, [False, True]), o.broadcast(experts, [True, False])]
    chosen = o.cast(o.eq(*wide), DataType.Int)
    return o.mul(o.sub(o.cumsum(chosen, 0), 1), chosen)


def segment_sums(o: Any, x: Any) -> Any:
    """Mamba 2: sums of what lies between two positions, -inf above the diagonal."""
    count = 33
    down = o.broadcast(o.iota(count, 0, 1, DataType.Int), [False, True])
    right = o.broadcast(o.iota(count, 0, 1, DataType.Int), [True, False])
    terms = o.where(o.gt(down, right), o.broadcast(x, [False, False, True]), 0.0)
    return o.exp(o.where(o.ge(down, right), o.cumsum(terms, -2), float("-inf")))


def scaled_and_shifted(o: Any, x: Any, column: Any, row: Any) -> Any:
    terms = o.add(o.mul(x, o.broadcast(column, [True, False])), o.broadcast(row, [False, True]))
    return o.mul(o.cumsum(terms, -1), o.broadcast(o.exp(row), [False, True]))


def of_an_outer_product(o: Any, column: Any, row: Any) -> Any:
    terms = o.mul(o.broadcast(column, [True, False]), o.broadcast(row, [False, True]))
    return o.add(o.cumsum(terms, -1), o.broadcast(column, [True, False]))


def of_two_scans(o: Any, x: Any, column: Any) -> Any:
    sums = o.cumsum(o.mul(x, o.broadcast(column, [True, False])), 1)
    return o.cummax(o.sub(sums, o.broadcast(column, [True, False])), 1)


def segment_sums_of_torch(x: torch.Tensor) -> torch.Tensor:
    ones = torch.ones(33, 33, device=x.device)
    terms = x[..., None].expand(*x.shape, 33) * ones.tril(-1)
    return terms.cumsum(-2).masked_fill(ones.tril() == 0, float("-inf")).exp()


@pytest.mark.parametrize(
    "machine", [pytest.param("h200", marks=pytest.mark.machine("h200")), "own"]
)
@pytest.mark.parametrize("width", [12, 96, 1000, 4099])
@pytest.mark.parametrize(
    "ops, expected, shapes",
    [
        (
            scaled_and_shifted,
            lambda x, c, r: (x * c + r[:, None]).cumsum(-1) * r[:, None].exp(),
            [(5, 0), (0,), (5,)],
        ),
        (
            of_an_outer_product,
            lambda c, r: (c * r[:, None]).cumsum(-1) + c,
            [(0,), (7,)],
        ),
        (
            of_two_scans,
            lambda x, c: ((x * c).cumsum(1) - c).cummax(1).values,
            [(5, 0), (0,)],
        ),
    ],
    ids=["rows and columns", "outer product", "two scans"],
)
def test_terms_are_computed_of_broadcasts(
    ops: Ops, expected: Ops, shapes: list[tuple[int, ...]], width: int, machine: str
) -> None:
    inputs = [values("cumsum", tuple(n or width for n in shape)) / 8.0 for shape in shapes]
    check_one_kernel(ops, expected, inputs)


def check_one_kernel(ops: Ops, expected: Ops, inputs: list[torch.Tensor]) -> None:
    for sizes_are_known in (False, True):
        with FusionDefinition() as fd:
            tensors = [fd.from_pytorch(x, static_sizes=sizes_are_known) for x in inputs]
            fd.add_output(ops(fd.ops, *tensors))
        (out,) = fd.execute(inputs)
        expect(out, expected(*(x.double() if x.is_floating_point() else x for x in inputs)))
        report = explain(fd, inputs)
        assert [each.scheduler for each in report.segments] == ["greedy"], str(report)


@pytest.mark.parametrize(
    "machine", [pytest.param("h200", marks=pytest.mark.machine("h200")), "own"]
)
def test_places_of_tokens(machine: str) -> None:
    expert = torch.randint(8, (3000,), generator=torch.Generator().manual_seed(1)).to(DEVICE)

    def expected(expert: torch.Tensor) -> torch.Tensor:
        chosen = torch.nn.functional.one_hot(expert, 8)
        return (chosen.cumsum(0) - 1) * chosen

    check_one_kernel(routed, expected, [expert])


@pytest.mark.parametrize(
    "machine", [pytest.param("h200", marks=pytest.mark.machine("h200")), "own"]
)
@pytest.mark.parametrize("shape", [(3, 33), (160, 33)])
def test_segment_sums(shape: tuple[int, ...], machine: str) -> None:
    check_one_kernel(segment_sums, segment_sums_of_torch, [values("cumsum", shape)])
