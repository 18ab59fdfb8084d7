# SPDX-License-Identifier: BSD-3-Clause
"""Products of matrices that are multiplied by a number, which a library does on its way."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from helpers import DEVICE
from nvfuse_direct import FusionDefinition
from nvfuse_direct import TensorView as TV

Tensor = torch.Tensor
Define = Callable[..., TV]

SHAPES = [
    ((32,), (32,)),
    ((32,), (32, 16)),
    ((32,), (3, 32, 16)),
    ((24, 32), (32,)),
    ((3, 24, 32), (32,)),
    ((24, 32), (32, 16)),
    ((3, 24, 32), (32, 16)),
    ((2, 3, 24, 32), (32, 16)),
    ((3, 24, 32), (3, 32, 16)),
    ((24, 32), (3, 32, 16)),
    ((2, 1, 24, 32), (3, 32, 16)),
    ((2, 3, 0, 32), (2, 3, 32, 16)),
    ((3, 24, 0), (3, 0, 16)),
]


def random(*sizes: int, dtype: torch.dtype = torch.bfloat16) -> Tensor:
    generator = torch.Generator().manual_seed(sum(sizes))
    return torch.randn(*sizes, generator=generator).to(dtype).to(DEVICE)


def defined(inputs: list[Tensor], define: Define) -> FusionDefinition:
    with FusionDefinition() as fd:
        tensors = [fd.from_pytorch(each) for each in inputs]
        fd.add_output(define(fd.ops, *tensors))
    return fd


def assert_near(got: Tensor, exact: Tensor, dtype: torch.dtype) -> None:
    """One rounding of what a library adds up in float32."""
    assert got.dtype == dtype
    eps = 2.0 * torch.finfo(dtype).eps if dtype != torch.float32 else 1e-5
    scale = float(exact.abs().max()) if exact.numel() else 0.0
    torch.testing.assert_close(got.double(), exact, rtol=eps, atol=eps / 4 * scale + 1e-12)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize("shapes", SHAPES)
def test_alpha_of_matmul(shapes: tuple[tuple[int, ...], ...], dtype: torch.dtype) -> None:
    a, b = (random(*sizes, dtype=dtype) for sizes in shapes)
    fd = defined([a, b], lambda o, x, y: o.matmul(x, y, alpha=0.3))
    exact = 0.3 * torch.matmul(a.double(), b.double())
    for _ in range(2):
        (got,) = fd.execute([a, b])
        assert got.shape == exact.shape
        assert_near(got, exact, dtype)


@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.parametrize("sizes", [(32,), (24, 32), (2, 24, 32)])
def test_alpha_of_linear(sizes: tuple[int, ...], has_bias: bool) -> None:
    inputs = [random(*sizes), random(16, 32), *([random(16)] if has_bias else [])]

    def define(o: Any, x: TV, weight: TV, bias: TV | None = None) -> TV:
        return o.linear(x, weight, bias, alpha=-1.5)

    (got,) = defined(inputs, define).execute(inputs)
    exact = -1.5 * torch.nn.functional.linear(inputs[0].double(), inputs[1].double())
    assert_near(got, exact + inputs[2].double() if has_bias else exact, torch.bfloat16)


def test_alpha_is_a_number_of_the_call() -> None:
    a, b = random(24, 32), random(32, 16)
    with FusionDefinition() as fd:
        x, y = fd.from_pytorch(a), fd.from_pytorch(b)
        alpha = fd.define_scalar(dtype=None)
        fd.add_output(fd.ops.matmul(x, y, fd.ops.mul(alpha, 2.0)))
    for number in (0.5, -3.0):
        (got,) = fd.execute([a, b, number])
        assert_near(got, 2 * number * (a.double() @ b.double()), torch.bfloat16)


def test_alpha_of_integers_is_an_error() -> None:
    x = torch.ones(4, 4, dtype=torch.int64)
    with pytest.raises(RuntimeError, match="alpha needs operands of floating point"):
        defined([x, x], lambda o, a, b: o.matmul(a, b, alpha=2.0))


def scaled(o: Any, x: TV, factor: float) -> TV:
    return o.cast(o.mul(x, factor), x.dtype())


def quotient(o: Any, x: TV, divisor: float) -> TV:
    return o.cast(o.truediv(x, divisor), x.dtype())


def heads(o: Any, x: TV) -> TV:
    return o.permute(o.reshape(x, [2, 24, 4, 8]), [0, 2, 1, 3])


DEFINITIONS: list[tuple[Define, list[tuple[int, ...]]]] = [
    (lambda o, x, w: o.matmul(scaled(o, x, 0.3), w), [(24, 32), (32, 16)]),
    (lambda o, x, w: o.linear(x, scaled(o, w, 1 / 7)), [(2, 24, 32), (16, 32)]),
    (lambda o, x, w: o.matmul(scaled(o, x, 0.3), scaled(o, w, 5.0)), [(24, 32), (32, 16)]),
    (lambda o, x, w: scaled(o, o.linear(x, w), 2.5), [(2, 24, 32), (16, 32)]),
    (lambda o, x, y: quotient(o, o.matmul(x, y), math.sqrt(80)), [(6, 24, 32), (6, 32, 16)]),
    (
        lambda o, x, y: o.matmul(
            heads(o, scaled(o, x, 0.35)), o.permute(heads(o, y), [0, 1, 3, 2])
        ),
        [(2, 24, 32), (2, 24, 32)],
    ),
    (lambda o, x, w, v: o.linear(scaled(o, o.linear(x, w), 1 / 3), v), [(24, 32), (8, 32), (4, 8)]),
    (lambda o, x, w: scaled(o, o.matmul(o.permute(x, [1, 0]), w), 0.1), [(24, 32), (24, 16)]),
]


@pytest.mark.parametrize(
    "machine", [pytest.param("h200", marks=pytest.mark.machine("h200")), "own"]
)
@pytest.mark.parametrize("number", range(len(DEFINITIONS)))
def test_no_kernel_scales(number: int, machine: str) -> None:
    define, shapes = DEFINITIONS[number]
    inputs = [random(*sizes) for sizes in shapes]
    fd = defined(inputs, define)
    (got,) = fd.execute(inputs)
    reports = [r for r in fd.fec._segment_reports(inputs) if r["segment_id"] >= 0]
    assert {r["scheduler"] for r in reports} == {"expr_eval"}
    (as_written,) = fd.execute(inputs, _disable_options=["scale_products"])
    wide = [x.double() for x in inputs]
    (exact,) = defined(wide, define).execute(wide)
    assert got.stride() == as_written.stride()
    assert_near(got, exact, torch.bfloat16)


def test_special_values_and_magnitudes() -> None:
    """Scaled before it is rounded: what is finite or an infinity in the definition is the same."""
    a = torch.tensor([[1e38, 1.0], [math.inf, 1.0], [math.nan, 1.0], [1e-38, 0.0], [-0.0, 0.0]])
    a, b = a.bfloat16().to(DEVICE), torch.eye(2).bfloat16().to(DEVICE)
    fd = defined([a, b], lambda o, x, y: o.matmul(scaled(o, x, 3.0), y))
    (got,) = fd.execute([a, b])
    (expected,) = fd.execute([a, b], _disable_options=["scale_products"])
    torch.testing.assert_close(got, expected, rtol=2**-7, atol=0, equal_nan=True)
