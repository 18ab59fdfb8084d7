# SPDX-License-Identifier: BSD-3-Clause
"""Results that are concatenations, whose parts kernels write where they belong
(preseg_passes/cats_in_parts.cpp)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from helpers import DEVICE
from nvfuse_direct import DataType, FusionDefinition, explain
from processes import run_script

F32, BF16 = DataType.Float, DataType.BFloat16


def defined(
    define: Callable[..., list[Any]], inputs: list[torch.Tensor], static: bool = True
) -> FusionDefinition:
    with FusionDefinition() as fd:
        tensors = [fd.from_pytorch(x, static_sizes=static) for x in inputs]
        for out in define(fd.ops, *tensors):
            fd.add_output(out)
    return fd


def check(
    define: Callable[..., list[Any]],
    inputs: list[torch.Tensor],
    expected: list[torch.Tensor],
    static: bool = True,
    tolerance: float = 2e-5,
) -> FusionDefinition:
    fd = defined(define, inputs, static)
    for _ in range(2):
        results = fd.execute(inputs)
        assert len(results) == len(expected)
        for ours, theirs in zip(results, expected, strict=True):
            assert ours.is_contiguous() and ours.dtype == theirs.dtype
            torch.testing.assert_close(ours, theirs, rtol=tolerance, atol=tolerance)
    return fd


def in_parts(fd: FusionDefinition, inputs: list[torch.Tensor]) -> bool:
    """No kernel has an operation of a cat."""
    return "cat(" not in "".join(s["math"] for s in fd.fec._segment_reports(inputs))


def randn(*sizes: int, dtype: torch.dtype = torch.float) -> torch.Tensor:
    torch.manual_seed(sum(sizes))
    return torch.randn(sizes, dtype=dtype, device=DEVICE)


def both(ops: Any, x: Any, y: Any, dim: int) -> list[Any]:
    return [ops.cat([ops.mul(x, y), ops.add(x, ops.exp(y))], dim), ops.sub(x, y)]


@pytest.mark.parametrize("static", [True, False])
@pytest.mark.parametrize("widths", [(0, 16, 0), (0, 0, 16), (16, 0, 0), (3, 5, 7)])
@pytest.mark.parametrize("value", [0.0, 2.5])
def test_parts_with_padding_of_their_own(
    value: float, widths: tuple[int, int, int], static: bool
) -> None:
    """What is before, between and behind them is padded by hand."""
    x, y = randn(48, 64), randn(48, 64).flip(0)
    before, between, after = widths

    def define(ops: Any, s: Any, t: Any) -> list[Any]:
        first = ops.pad(ops.mul(s, t), [before, between + 64 + after], value)
        second = ops.pad(ops.add(s, ops.exp(t)), [before + 64 + between, after], value)
        return [ops.cat([first, second], 1, manual_padding=True)]

    gaps = [torch.full((48, width), value, device=DEVICE) for width in widths]
    expected = torch.cat([gaps[0], x * y, gaps[1], x + y.exp(), gaps[2]], 1)
    check(define, [x, y], [expected], static)


def test_padding_that_overlaps() -> None:
    """Where the next one begins, whatever is there of the one before."""
    x, y = randn(4, 6), randn(4, 5)

    def define(ops: Any, s: Any, t: Any) -> list[Any]:
        return [ops.cat([ops.pad(s, [0, 4]), ops.pad(t, [5, 0])], 1, manual_padding=True)]

    check(define, [x, y], [torch.cat([x[:, :5], y], 1)])


# The whole rows are vectors, parts begin within one, and rows do.
@pytest.mark.parametrize("static", [True, False])
@pytest.mark.parametrize("sizes", [(48, 64), (7, 50), (5, 33)])
@pytest.mark.parametrize("dim", [0, 1])
def test_of_one_size(dim: int, sizes: tuple[int, int], static: bool) -> None:
    x, y = randn(*sizes), randn(*sizes).flip(0)
    expected = [torch.cat([x * y, x + y.exp()], dim), x - y]
    fd = check(lambda ops, s, t: both(ops, s, t, dim), [x, y], expected, static)
    assert in_parts(fd, [x, y])
    assert len(explain(fd, [x, y], measure=False).segments) == 1


def test_other_sizes_of_one_definition() -> None:
    """Each has strides of its own."""
    first = [randn(8, 16), randn(8, 16) + 1]
    fd = defined(lambda ops, s, t: both(ops, s, t, 1), first, static=False)
    for sizes in ((8, 16), (4, 40), (9, 33), (16, 1024)):
        x, y = randn(*sizes), randn(*sizes) + 1
        cat, difference = fd.execute([x, y])
        torch.testing.assert_close(cat, torch.cat([x * y, x + y.exp()], 1), rtol=2e-5, atol=2e-5)
        assert torch.equal(difference, x - y)


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("dtype", [torch.float, torch.bfloat16])
def test_parts_of_parts(dim: int, dtype: torch.dtype) -> None:
    """Aggregates of neighbours that are joined, scaled in several ways and joined again."""
    x = randn(1024, 5, 64, dtype=dtype)
    degree = torch.rand(1024, device=DEVICE) + 0.5

    def define(ops: Any, t: Any, d: Any) -> list[Any]:
        wide = ops.cast(t, F32)
        mean = ops.div(ops.sum(wide, [1]), 5.0)
        largest = ops.max(wide, [1])
        scale = ops.broadcast(ops.log(ops.add(d, 1.0)), [False, True])
        h = ops.cat([mean, largest, ops.sub(largest, mean)], dim)
        if dim == 0:
            scale = ops.cat([scale, scale, scale], 0)
        return [ops.cat([h, ops.mul(h, scale), ops.div(h, scale)], dim)]

    mean, largest = x.float().mean(1), x.float().amax(1)
    scale = torch.log(degree + 1.0)[:, None]
    h = torch.cat([mean, largest, largest - mean], dim)
    if dim == 0:
        scale = scale.repeat(3, 1)
    fd = check(define, [x, degree], [torch.cat([h, h * scale, h / scale], dim)])
    assert in_parts(fd, [x, degree]) == (dim == 1)


@pytest.mark.parametrize("dim", [0, 1])
def test_three_parts_of_a_tensor_between(dim: int) -> None:
    x = randn(6, 10, 24)

    def define(ops: Any, t: Any) -> list[Any]:
        doubled = ops.add(t, t)
        return [ops.cat([doubled, ops.neg(doubled), ops.relu(doubled)], dim)]

    d = x + x
    fd = check(define, [x], [torch.cat([d, -d, d.relu()], dim)])
    assert in_parts(fd, [x])


def normalized(ops: Any, x: Any, width: int) -> Any:
    wide = ops.cast(x, F32)
    mean = ops.truediv(ops.sum(wide, [2], keepdim=True), float(width))
    centered = ops.sub(wide, mean)
    square = ops.truediv(ops.sum(ops.mul(centered, centered), [2], keepdim=True), float(width))
    return ops.cast(ops.mul(centered, ops.rsqrt(ops.add(square, 1e-5))), BF16)


def norm(x: torch.Tensor) -> torch.Tensor:
    wide = x.float()
    centered = wide - wide.mean(-1, keepdim=True)
    return (centered * (centered.square().mean(-1, keepdim=True) + 1e-5).rsqrt()).bfloat16()


@pytest.mark.parametrize("count", [3, 10])
def test_gradients_of_chunks_of_what_was_cast(count: int) -> None:
    """Each is normalized with what all have in common; rounded and scaled as one tensor."""
    x = randn(count * 256, 1024)
    shared = randn(256, 1024)

    def define(ops: Any, t: Any, s: Any) -> list[Any]:
        total = ops.broadcast(ops.sum(s, [1]), [False, True])
        parts = []
        for i in range(count):
            part = ops.slice(t, [256 * i, 0], [256 * i + 256, 1024])
            parts.append(ops.sub(s, ops.mul(ops.exp(part), total)))
        joined = ops.cat(parts, 0)
        return [ops.cast(ops.div(joined, 0.5), BF16)]

    total = shared.sum(1, keepdim=True)
    expected = torch.cat([shared - part.exp() * total for part in x.chunk(count)]) / 0.5
    fd = check(define, [x, shared], [expected.bfloat16()], tolerance=0.05)
    assert len(explain(fd, [x, shared], measure=False).segments) == 1


def test_rows_of_two_norms() -> None:
    """Each is in a kernel of its own, which writes it where it belongs; one is returned, too."""
    x, y = randn(16, 257, 256, dtype=torch.bfloat16), randn(16, 64, 256, dtype=torch.bfloat16)

    def define(ops: Any, s: Any, t: Any) -> list[Any]:
        a, b = normalized(ops, s, 256), normalized(ops, t, 256)
        return [ops.cat([a, b], 1), b]

    fd = check(define, [x, y], [torch.cat([norm(x), norm(y)], 1), norm(y)], tolerance=2e-2)
    assert in_parts(fd, [x, y])
    report = explain(fd, [x, y], measure=False)
    moved = sum(s.input_bytes + s.output_bytes for s in report.segments)
    assert moved == 2 * 2 * (x.numel() + y.numel()) + 2 * y.numel()


def stacked(ops: Any, x: Any, y: Any, dim: int) -> Any:
    """Columns, and what they are computed of: several operations that all of them need."""
    shared = x
    for _ in range(8):
        shared = ops.add(ops.mul(shared, y), 1.0)
    columns = [ops.sub(shared, x), ops.mul(shared, y), ops.neg(shared)]
    flags = [i == dim for i in range(3)]
    return ops.cat([ops.broadcast(column, flags) for column in columns], dim)


@pytest.mark.parametrize("static", [True, False])
@pytest.mark.parametrize("sizes", [(16, 64), (7, 33)])
@pytest.mark.parametrize("dim", [0, 1, 2])
def test_columns_that_have_much_in_common(dim: int, sizes: tuple[int, int], static: bool) -> None:
    """One kernel, which computes it once, whichever dimension the columns are stacked along."""
    x, y = randn(*sizes), randn(*sizes) / 2
    shared = x.double()
    for _ in range(8):
        shared = shared * y.double() + 1
    expected = torch.stack([shared - x, shared * y, -shared], dim).float()
    fd = check(
        lambda ops, a, b: [stacked(ops, a, b, dim)], [x, y], [expected], static, tolerance=1e-4
    )
    assert in_parts(fd, [x, y])
    report = explain(fd, [x, y], measure=False)
    assert len(report.segments) == 1 and report.peak_bytes == expected.nbytes


@pytest.mark.machine("hopper")
def test_columns_of_columns_are_no_vectors() -> None:
    """A mask of bytes does not decide for the columns beside it, which are far apart."""
    x = randn(4096, 4)
    mask = torch.rand(4096, device=DEVICE) > 0.5

    columns = [x[:, 0], x[:, 1]]
    with FusionDefinition() as fd:
        tensors = [fd.from_pytorch(t, static_sizes=True) for t in (*columns, mask)]
        masked = fd.ops.where(tensors[2], tensors[0], 0.0)
        flags = [False, True]
        shared = masked
        for _ in range(8):
            shared = fd.ops.add(fd.ops.mul(shared, tensors[1]), 1.0)
        parts = [fd.ops.neg(shared), fd.ops.sub(shared, masked)]
        fd.add_output(fd.ops.cat([fd.ops.broadcast(part, flags) for part in parts], 1))
    inputs = [*columns, mask]
    (out,) = fd.execute(inputs)
    first = torch.where(mask, columns[0], 0.0).double()
    shared = first
    for _ in range(8):
        shared = shared * columns[1].double() + 1
    torch.testing.assert_close(
        out.double(), torch.stack([-shared, shared - first], 1), rtol=1e-4, atol=1e-4
    )
    (segment,) = explain(fd, inputs, measure=False).segments
    assert "vectorization_factor: 1\n" in str(segment.params)


@pytest.mark.parametrize("tokens", [4096, 64])
def test_large_parts_of_other_sizes(tokens: int) -> None:
    """Gradients of heads: of packed queries, keys and values."""
    queries, values = randn(1, 16, tokens, 64), randn(1, 24, tokens, 64)

    def rows(ops: Any, heads: Any, width: int) -> Any:
        return ops.reshape(ops.permute(heads, [0, 2, 1, 3]), [1, tokens, width])

    def define(ops: Any, q: Any, v: Any) -> list[Any]:
        halves = [ops.slice(q, [0, 0, 0, i], [1, 16, tokens, i + 32]) for i in (32, 0)]
        rotated = ops.cat([ops.neg(halves[0]), halves[1]], 3)
        return [ops.cat([rows(ops, rotated, 1024), rows(ops, ops.mul(v, 2.0), 1536)], 2)]

    rotated = torch.cat([-queries[..., 32:], queries[..., :32]], -1)
    parts = [x.transpose(1, 2).flatten(2) for x in (rotated, values * 2)]
    fd = check(define, [queries, values], [torch.cat(parts, 2)])
    assert len(fd.fec._segment_reports([queries, values])) == (2 if tokens == 4096 else 1)


def test_a_part_beside_its_mask() -> None:
    """What is joined to it, each pixel four times, is in a kernel with a mask of its own."""
    x, y = randn(2, 64, 48, 48), randn(2, 32, 24, 24)

    def leaky(ops: Any, tv: Any) -> tuple[Any, Any]:
        mask = ops.gt(tv, 0.0)
        return ops.where(mask, tv, ops.mul(tv, 0.1)), mask

    def define(ops: Any, s: Any, t: Any) -> list[Any]:
        (a, mask_a), (b, mask_b) = leaky(ops, s), leaky(ops, t)
        pixels = ops.broadcast(b, [False, False, False, True, False, True])
        four = ops.reshape(ops.expand(pixels, [2, 32, 24, 2, 24, 2]), [2, 32, 48, 48])
        return [ops.cat([a, four], 1), mask_a, mask_b]

    leak = torch.nn.functional.leaky_relu
    four = leak(y, 0.1).repeat_interleave(2, 2).repeat_interleave(2, 3)
    fd = check(define, [x, y], [torch.cat([leak(x, 0.1), four], 1), x > 0, y > 0])
    assert in_parts(fd, [x, y])
    assert len(fd.fec._segment_reports([x, y])) == 2


def test_what_stays_whole() -> None:
    """Copies of inputs, parts of other sizes, and a cat that is read."""
    x, y = randn(8, 32), randn(8, 32) + 1

    def copied(ops: Any, s: Any, t: Any) -> list[Any]:
        return [ops.cat([s, t], 1)]

    def uneven(ops: Any, s: Any, t: Any) -> list[Any]:
        return [ops.cat([ops.mul(s, t), ops.slice(ops.add(s, t), [0, 0], [8, 16])], 1)]

    def read(ops: Any, s: Any, t: Any) -> list[Any]:
        cat = ops.cat([ops.mul(s, t), ops.add(s, t)], 1)
        return [cat, ops.neg(cat)]

    whole = torch.cat([x * y, x + y], 1)
    for define, expected in (
        (copied, [torch.cat([x, y], 1)]),
        (uneven, [torch.cat([x * y, (x + y)[:, :16]], 1)]),
        (read, [whole, -whole]),
    ):
        assert not in_parts(check(define, [x, y], expected), [x, y])


def test_off() -> None:
    x, y = randn(48, 64), randn(48, 64) + 1
    fd = defined(lambda ops, s, t: both(ops, s, t, 1), [x, y])
    cat, _ = fd.execute([x, y], _disable_options=["cats_in_parts"])
    torch.testing.assert_close(cat, torch.cat([x * y, x + y.exp()], 1), rtol=2e-5, atol=2e-5)


def test_empty_parts() -> None:
    x, y = randn(0, 8), randn(0, 8)
    check(lambda ops, s, t: both(ops, s, t, 1), [x, y], [torch.cat([x, x], 1), x])


def test_a_plan_from_the_disk(tmp_path: Any) -> None:
    """Parts lie where they did."""

    script = """
import sys, torch
from nvfuse_direct import FusionDefinition
x, y = torch.arange(48 * 64.0).view(48, 64), torch.ones(48, 64)
with FusionDefinition() as fd:
    s, t = fd.from_pytorch(x), fd.from_pytorch(y)
    fd.add_output(fd.ops.cat([fd.ops.mul(s, t), fd.ops.add(s, t)], 1))
(cat,) = fd.execute([x, y])
assert torch.equal(cat, torch.cat([x, x + 1], 1))
"""
    for _ in range(2):
        done = run_script(script, env={"NVFUSER_CACHE_DIR": str(tmp_path)})
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize("before", [0, 5])
def test_what_is_joined_with_zeros(dim: int, before: int) -> None:
    """Twice, as the gradient of a window is made; beside an output of its own size."""
    x = torch.randn(6, 17, 40, device=DEVICE)

    def zeros(o: Any, sizes: list[int], length: int, along: int) -> Any:
        sizes = [length if d == along else n for d, n in enumerate(sizes)]
        return o.full(sizes, 0.0, DataType.Float)

    with FusionDefinition() as fd:
        o = fd.ops
        y = o.neg(fd.from_pytorch(x, static_sizes=True))
        parts = [y, zeros(o, [6, 17, 40], 3, dim)]
        if before:
            parts.insert(0, zeros(o, [6, 17, 40], before, dim))
        joined = o.cat(parts, dim)
        sizes = [n + (before + 3 if d == dim else 0) for d, n in enumerate(x.shape)]
        other = (dim + 1) % 3
        fd.add_output(o.cat([joined, zeros(o, sizes, 7, other)], other))
        fd.add_output(y)
    got = fd.execute([x])
    widths = [0] * 6
    widths[2 * (2 - dim) : 2 * (2 - dim) + 2] = [before, 3]
    widths[2 * (2 - other) + 1] = 7
    torch.testing.assert_close(got[0], torch.nn.functional.pad(-x, widths), rtol=0, atol=0)
    torch.testing.assert_close(got[1], -x, rtol=0, atol=0)
