# SPDX-License-Identifier: BSD-3-Clause
"""Slices, pads and cats beside reductions: one kernel, which reads in its rows what they cut."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from helpers import DEVICE
from nvfuse_direct import DataType, FusionDefinition, explain

Tensors = tuple[torch.Tensor, ...]


def norm(ops: Any, x: Any, size: int) -> Any:
    last = [x.ndim - 1]
    centered = ops.sub(x, ops.mul(ops.sum(x, last, keepdim=True), 1.0 / size))
    variance = ops.mul(ops.sum(ops.mul(centered, centered), last, keepdim=True), 1.0 / size)
    return ops.mul(centered, ops.rsqrt(ops.add(variance, 1e-5)))


def softmax(ops: Any, x: Any) -> Any:
    last = [x.ndim - 1]
    e = ops.exp(ops.sub(x, ops.max(x, last, keepdim=True)))
    return ops.div(e, ops.sum(e, last, keepdim=True))


def normed(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.layer_norm(x, x.shape[-1:])


def part(ops: Any, x: Any, first: int, last: int) -> Any:
    """Columns of rows, with a dimension for the rows of a batch."""
    return ops.broadcast(ops.slice(x, [0, first], [x.size(0), last]), [False, True, False])


def column(ops: Any, x: Any, i: int) -> Any:
    return ops.slice(x, [0, i], [x.size(0), i + 1])


def pad(x: torch.Tensor, *widths: int) -> torch.Tensor:
    return torch.nn.functional.pad(x, widths)


def rotated_pairs(ops: Any, x: Any) -> Any:
    """Interleaved rotary embedding: (-x1, x0, -x3, x2, ...)."""
    rows, width = x.size(0), x.size(1)
    pairs = ops.reshape(x, [rows, ops.div(width, 2), 2])
    stops = [rows, ops.div(width, 2)]
    first = ops.slice(pairs, [0, 0, 0], [*stops, 1])
    second = ops.slice(pairs, [0, 0, 1], [*stops, 2])
    return ops.reshape(ops.cat([ops.neg(second), first], 2), [rows, width])


def rotated_pairs_of_torch(x: torch.Tensor) -> torch.Tensor:
    return torch.stack([-x[:, 1::2], x[:, 0::2]], -1).flatten(1)


def rotated_norm(ops: Any, x: Any, cos: Any, sin: Any) -> Any:
    y = norm(ops, x, 96)
    return ops.add(ops.mul(y, cos), ops.mul(rotated_pairs(ops, y), sin))


# Name: (definition, the same by torch, shapes).
CASES: dict[str, tuple[Callable[..., Any], Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    "norm of a cat of one more": (
        lambda ops, x, s: norm(ops, ops.cat([x, s], 1), 301),
        lambda x, s: normed(torch.cat([x, s], 1)),
        ((512, 300), (512, 1)),
    ),
    "norm of a cat of vectors": (
        lambda ops, x, s: norm(ops, ops.cat([x, s], 1), 384),
        lambda x, s: normed(torch.cat([x, s], 1)),
        ((64, 320), (64, 64)),
    ),
    "norm of a cat of long rows": (
        lambda ops, x, s: norm(ops, ops.cat([x, s], 1), 38400),
        lambda x, s: normed(torch.cat([x, s], 1)),
        ((9, 32000), (9, 6400)),
    ),
    "norm whose pairs are rotated": (
        rotated_norm,
        lambda x, cos, sin: normed(x) * cos + rotated_pairs_of_torch(normed(x)) * sin,
        ((300, 96), (300, 96), (300, 96)),
    ),
    "norm of rotated pairs": (
        lambda ops, x, cos: norm(ops, ops.add(ops.mul(x, cos), rotated_pairs(ops, x)), 96),
        lambda x, cos: normed(x * cos + rotated_pairs_of_torch(x)),
        ((300, 96), (300, 96)),
    ),
    "softmax of a cat": (
        lambda ops, x, s: softmax(ops, ops.cat([x, s], 1)),
        lambda x, s: torch.softmax(torch.cat([x, s], 1), 1),
        ((512, 300), (512, 5)),
    ),
    "rows of a cat": (
        lambda ops, x, y: ops.sum(ops.cat([x, y], 1), [1]),
        lambda x, y: torch.cat([x, y], 1).sum(1),
        ((64, 512), (64, 300)),
    ),
    "columns of a cat": (
        lambda ops, x, y: ops.sum(ops.cat([x, y], 1), [0]),
        lambda x, y: torch.cat([x, y], 1).sum(0),
        ((500, 72), (500, 24)),
    ),
    "columns of stacked rows": (
        lambda ops, x, y: ops.sum(ops.cat([x, y], 0), [0]),
        lambda x, y: torch.cat([x, y], 0).sum(0),
        ((500, 96), (12, 96)),
    ),
    "a cat and its columns": (
        lambda ops, x, y: (joined := ops.cat([x, y], 1), ops.sum(joined, [0])),
        lambda x, y: (torch.cat([x, y], 1), torch.cat([x, y], 1).sum(0)),
        ((500, 72), (500, 24)),
    ),
    "sum of a part of what is computed": (
        lambda ops, x: ops.sum(ops.slice(ops.exp(x), [0, 8], [100, 60]), [1]),
        lambda x: x.exp()[:100, 8:60].sum(1),
        ((128, 300),),
    ),
    "norm of padded columns": (
        lambda ops, x, y: norm(ops, ops.add(ops.pad(ops.exp(x), [3, 5]), y), 308),
        lambda x, y: normed(pad(x.exp(), 3, 5) + y),
        ((64, 300), (64, 308)),
    ),
    "norm of padded rows": (
        lambda ops, x, y: norm(ops, ops.add(ops.pad(ops.exp(x), [0, 0, 1, 2]), y), 300),
        lambda x, y: normed(pad(x.exp(), 0, 0, 1, 2) + y),
        ((61, 300), (64, 300)),
    ),
    "norm and then something padded": (
        lambda ops, x, y: ops.add(norm(ops, x, 300), ops.pad(y, [100, 56])),
        lambda x, y: normed(x) + pad(y, 100, 56),
        ((64, 300), (64, 144)),
    ),
    "scale and shift are parts of one": (
        lambda ops, x, c: ops.add(
            ops.mul(norm(ops, x, 72), part(ops, c, 72, 144)), part(ops, c, 0, 72)
        ),
        lambda x, c: normed(x) * c[:, None, 72:144] + c[:, None, :72],
        ((8, 16, 72), (8, 432)),
    ),
    "sum of areas of boxes": (
        lambda ops, x: ops.sum(
            ops.mul(
                ops.sub(column(ops, x, 2), column(ops, x, 0)),
                ops.sub(column(ops, x, 3), column(ops, x, 1)),
            ),
            [0, 1],
        ),
        lambda x: ((x[:, 2] - x[:, 0]) * (x[:, 3] - x[:, 1])).sum(),
        ((4096, 4),),
    ),
}


def define(build: Callable[..., Any], tensors: Tensors, static: bool) -> FusionDefinition:
    with FusionDefinition() as fd:
        inputs = [fd.from_pytorch(tensor, static_sizes=static) for tensor in tensors]
        outputs = build(fd.ops, *inputs)
        for out in outputs if isinstance(outputs, tuple) else (outputs,):
            fd.add_output(out)
    return fd


@pytest.mark.parametrize("static", [True, False], ids=["static", "symbolic"])
@pytest.mark.parametrize("name", CASES)
def test_one_kernel_with_the_right_values(name: str, static: bool) -> None:
    build, by_torch, shapes = CASES[name]
    torch.manual_seed(0)
    tensors = tuple(torch.randn(*shape, device=DEVICE) for shape in shapes)
    fd = define(build, tensors, static)
    outputs = fd.execute(list(tensors))
    expected = by_torch(*(tensor.double() for tensor in tensors))
    for out, right in zip(
        outputs, expected if isinstance(expected, tuple) else (expected,), strict=True
    ):
        torch.testing.assert_close(out.double(), right, rtol=1e-4, atol=1e-4)
    assert len(explain(fd, list(tensors), measure=False).segments) == 1


@pytest.mark.machine("hopper")
def test_cats_of_bfloat16_are_read_by_vectors() -> None:
    """Both sides begin and end between vectors of eight."""
    x = torch.randn(4096, 1024, device=DEVICE, dtype=torch.bfloat16)
    y = torch.randn(4096, 256, device=DEVICE, dtype=torch.bfloat16)
    with FusionDefinition() as fd:
        a, b = fd.from_pytorch(x), fd.from_pytorch(y)
        joined = fd.ops.cast(fd.ops.cat([a, b], 1), DataType.Float)
        fd.add_output(fd.ops.cast(softmax(fd.ops, joined), DataType.BFloat16))
    (out,) = fd.execute([x, y])
    torch.testing.assert_close(
        out.float(), torch.softmax(torch.cat([x, y], 1).float(), 1), rtol=1e-2, atol=1e-4
    )
    (segment,) = explain(fd, [x, y], measure=False).segments
    assert segment.parameters["vector_widths"] == [8, 8, 8]


@pytest.mark.parametrize("static", [True, False], ids=["static", "symbolic"])
def test_what_is_broadcast_is_not_read_as_what_is_padded(static: bool) -> None:
    """One mean for each row: all of the row reads it, and it is one element of another row."""
    x = torch.randn(32, 40, device=DEVICE)

    def build(ops: Any, x: Any) -> Any:
        mean = ops.mul(ops.sum(x, [1], keepdim=True), 1.0 / 40)
        return softmax(ops, ops.add(ops.sub(x, mean), ops.pad(mean, [0, 39])))

    fd = define(build, (x,), static)
    (out,) = fd.execute([x])
    mean = x.mean(1, keepdim=True)
    torch.testing.assert_close(out, torch.softmax(x - mean + pad(mean, 0, 39), 1))


@pytest.mark.parametrize("static", [True, False], ids=["static", "symbolic"])
def test_one_column_of_a_row(static: bool) -> None:
    """A slice of one element of what is computed is broadcast along the row that it is cut of."""
    x = torch.randn(32, 40, device=DEVICE)

    def build(ops: Any, x: Any) -> Any:
        e = ops.exp(x)
        return softmax(ops, ops.sub(e, ops.slice(e, [0, 3], [32, 4])))

    fd = define(build, (x,), static)
    (out,) = fd.execute([x])
    torch.testing.assert_close(out, torch.softmax(x.exp() - x.exp()[:, 3:4], 1))
