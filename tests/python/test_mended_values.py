# SPDX-License-Identifier: BSD-3-Clause
"""Programs that once gave wrong values without a word: empty loops, cut dimensions, one element."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from helpers import DEVICE, assert_all_same, define
from nvfuse_direct import DataType, FusionDefinition

Tensor = torch.Tensor
NAN = float("nan")


def randn(*sizes: int) -> Tensor:
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(sum(sizes))).to(DEVICE)


# --------------------------------------- outputs in loops over dimensions that they do not have

# The reductions of nothing; those of max and min are what the fusion begins with.
OF_NOTHING = {
    "sum": 0.0,
    "prod": 1.0,
    "max": -float("inf"),
    "min": float("inf"),
    "mean": NAN,
    "var": NAN,
    "std": NAN,
}


def reduced(fd: FusionDefinition, kind: str, x: Any, axes: list[int]) -> Any:
    o = fd.ops
    if kind == "mean":
        return o.var_mean(x, axes, 1, True)[1]
    if kind in ("var", "std"):
        variance = o.var(x, axes, 1, True)
        return variance if kind == "var" else o.sqrt(variance)
    return getattr(o, kind)(x, axes, keepdim=True)


@pytest.mark.parametrize("static", [False, True])
@pytest.mark.parametrize("shape", [(0, 3), (0, 5000), (3, 0), (200, 0), (0, 0), (4, 5)])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("first", sorted(OF_NOTHING))
def test_a_result_that_is_read_over_an_empty_dimension_is_written(
    first: str, axis: int, shape: tuple[int, int], static: bool
) -> None:
    """A reduction whose result is an output and is broadcast back to where there is nothing."""

    def definition(fd: FusionDefinition) -> None:
        x = fd.define_tensor(shape=list(shape) if static else [-1, -1], contiguity=True)
        value = reduced(fd, first, fd.ops.mul(x, 2.0), [axis])
        deviation = fd.ops.sub(x, value)
        fd.add_output(value)
        fd.add_output(fd.ops.sum(fd.ops.mul(deviation, deviation), [axis], keepdim=True))
        fd.add_output(fd.ops.exp(deviation))

    fd = define(definition)
    x = randn(*shape)
    if shape[axis] == 0:
        kept = tuple(1 if d == axis else n for d, n in enumerate(shape))
        value = torch.full(kept, OF_NOTHING[first], device=DEVICE)
    else:
        y = 2 * x
        value = {
            "mean": lambda: y.mean(axis, keepdim=True),
            "sum": lambda: y.sum(axis, keepdim=True),
            "prod": lambda: y.prod(axis, keepdim=True),
            "max": lambda: y.amax(axis, keepdim=True),
            "min": lambda: y.amin(axis, keepdim=True),
            "var": lambda: y.var(axis, correction=1, keepdim=True),
            "std": lambda: y.std(axis, correction=1, keepdim=True),
        }[first]()
    expected = [value, (x - value).square().sum(axis, keepdim=True), (x - value).exp()]
    for _ in range(2):
        assert_all_same(fd.execute([x], device=DEVICE), expected, rtol=1e-4, atol=1e-4)
    # The kernel of these sizes is not what others are left with.
    if not static:
        x = randn(6, 7)
        assert fd.execute([x], device=DEVICE)[2].shape == x.shape
        assert fd.fec._num_fallbacks == 0


@pytest.mark.parametrize("length", [3, 5000])
@pytest.mark.parametrize("order", ["rows", "columns"])
def test_a_pointwise_result_that_is_read_over_an_empty_dimension_is_written(
    order: str, length: int
) -> None:
    spread = [False, True] if order == "rows" else [True, False]
    axis = 1 if order == "rows" else 0

    def definition(fd: FusionDefinition) -> None:
        o = fd.ops
        x = fd.define_tensor(shape=[-1], contiguity=True)
        y = fd.define_tensor(shape=[-1, -1], contiguity=True)
        value = o.exp(o.broadcast(x, spread))
        both = o.segment_set(o.add(value, y))
        fd.add_output(value)
        fd.add_output(o.sum(o.mul(both, value), [axis]))
        fd.add_output(o.sum(o.mul(both, value), [1 - axis]))

    fd = define(definition)
    x = randn(length)
    for width in (0, 4, 0):
        y = randn(length, width) if order == "rows" else randn(width, length)
        value = x.exp()[:, None] if order == "rows" else x.exp()[None, :]
        both = (value + y) * value
        expected = [value, both.sum(axis), both.sum(1 - axis)]
        assert_all_same(fd.execute([x, y], device=DEVICE), expected, rtol=1e-4, atol=1e-4)
    assert fd.fec._num_fallbacks == 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0)])
@pytest.mark.parametrize("axes", [[0], [1], [0, 1]])
def test_var_mean_and_welford_of_nothing(
    axes: list[int], shape: tuple[int, int], keepdim: bool, dtype: torch.dtype
) -> None:
    def definition(fd: FusionDefinition) -> None:
        kind = DataType.Float if dtype == torch.float32 else DataType.Double
        x = fd.define_tensor(shape=[-1, -1], contiguity=True, dtype=kind)
        var, mean = fd.ops.var_mean(fd.ops.neg(x), axes, 1, keepdim)
        fd.add_output(mean)
        fd.add_output(var)
        fd.add_output(fd.ops.add(mean, 1.0))
        m2, n = fd.ops.welford(x, axes)[1:]
        fd.add_output(m2)
        fd.add_output(n)

    x = randn(*shape).to(dtype)
    outputs = define(definition).execute([x], device=DEVICE)
    var, mean = torch.var_mean(-x, axes, correction=1, keepdim=keepdim)
    nothing = torch.zeros_like(x.sum(axes))
    assert_all_same(outputs, [mean, var, mean + 1.0, nothing, nothing.long()])


# ---------------------------------------------------- a part of a split next to the whole tensor


def whole_and_part(last: str) -> Callable[[FusionDefinition], None]:
    def definition(fd: FusionDefinition) -> None:
        o = fd.ops
        x = fd.define_tensor(shape=[32, -1], contiguity=True)
        n = o.size(x, 1)
        y = o.exp(x)
        parts = o.reshape(y, [2, 16, n])
        part = o.slice(parts, [1, 0, 0], [2, 16, n]) if last == "second" else None
        part = part or o.slice(parts, [0, 0, 0], [1, 16, n])
        fd.add_output(o.reshape(o.squeeze(part, [0]), [2, 2, 2, 2, n]))
        wide = o.expand(o.broadcast(y, [True, False, False]), [5, -1, -1])
        fd.add_output(o.segment_set(o.add(wide, 1.0)))
        fd.add_output(o.segment_set(o.permute(wide, [0, 2, 1])))
        fd.add_output(o.neg(y))

    return definition


@pytest.mark.parametrize("last", ["first", "second"])
@pytest.mark.parametrize("n", [1, 3, 64, 1000])
def test_a_tensor_and_a_part_of_it_that_has_more_dimensions(n: int, last: str) -> None:
    """Loops over the part, of which more outputs have dimensions, do not reach the whole."""
    x = randn(32, n)
    y = x.exp()
    outputs = define(whole_and_part(last)).execute([x], device=DEVICE)
    part = y.reshape(2, 16, n)[1 if last == "second" else 0]
    wide = y.expand(5, -1, -1)
    expected = [part.reshape(2, 2, 2, 2, n), wide + 1.0, wide.mT, -y]
    assert_all_same(outputs, expected, rtol=1e-5, atol=1e-5)


# ------------------------------------------------------------------------------- one element


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(1, 300), (300, 1), (1, 1)])
def test_one_product_does_not_deviate_from_its_mean(
    shape: tuple[int, int], dtype: torch.dtype
) -> None:
    """Also where the product is made again, in one instruction with the subtraction."""
    axis = 0 if shape[0] == 1 else 1

    def definition(fd: FusionDefinition) -> None:
        o = fd.ops
        kind = DataType.Float if dtype == torch.float32 else DataType.Double
        x = fd.define_tensor(shape=[-1, -1], contiguity=True, dtype=kind)
        y = fd.define_tensor(shape=[-1, -1], contiguity=True, dtype=kind)
        var, mean = o.var_mean(o.mul(x, y), [axis], 1, False)
        fd.add_output(var)
        fd.add_output(mean)
        fd.add_output(o.welford(o.mul(x, y), [axis])[1])

    x, y = randn(*shape).to(dtype), randn(*shape).to(dtype) + 0.1
    outputs = define(definition).execute([x, y], device=DEVICE)
    mean = (x * y).mean(axis)
    nothing = torch.zeros_like(mean)
    assert_all_same(outputs, [nothing / nothing, mean, nothing], rtol=1e-6, atol=0.0)
