# SPDX-License-Identifier: BSD-3-Clause
"""What of a row stays in registers from one pass over it to the next."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from helpers import DEVICE
from nvfuse_direct import DataType, FusionDefinition

pytestmark = pytest.mark.machine("h200")

Define = Callable[[FusionDefinition, Any, Any], Any]


def scaled(fd: FusionDefinition, x: Any, factor: Any) -> tuple[Any, Any]:
    """An exponential in 16 bits, and how far its product is from the row's sum of these."""
    e = fd.ops.cast(fd.ops.cast(fd.ops.exp(x), DataType.BFloat16), DataType.Float)
    product = fd.ops.mul(e, factor)
    total = fd.ops.broadcast(fd.ops.sum(product, [1]), [False, True])
    return e, fd.ops.sub(product, total)


def with_both_factors(fd: FusionDefinition, x: Any, _: Any) -> Any:
    e, rest = scaled(fd, x, x)
    return fd.ops.mul(fd.ops.add(e, x), rest)


def with_the_product_alone(fd: FusionDefinition, x: Any, _: Any) -> Any:
    return scaled(fd, x, x)[1]


def with_another_input(fd: FusionDefinition, x: Any, y: Any) -> Any:
    """y is read again as well; x and what is computed of it are narrow."""
    e, rest = scaled(fd, x, y)
    return fd.ops.mul(fd.ops.add(e, y), rest)


def reference(define: Define, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x, y = x.double(), y.double()
    factor = y if define is with_another_input else x
    e = x.exp().bfloat16().double()
    rest = e * factor - (e * factor).sum(1, keepdim=True)
    return rest if define is with_the_product_alone else (e + factor) * rest


def fusion(define: Define, x: torch.Tensor, y: torch.Tensor) -> FusionDefinition:
    with FusionDefinition() as fd:
        of_x, of_y = (fd.ops.cast(fd.from_pytorch(each), DataType.Float) for each in (x, y))
        fd.add_output(define(fd, of_x, of_y))
    return fd


def rows(width: int) -> list[torch.Tensor]:
    return [torch.randn(5, width, device=DEVICE).bfloat16() for _ in range(2)]


@pytest.mark.parametrize(
    ("define", "floats"),
    [(with_both_factors, 0), (with_another_input, 0), (with_the_product_alone, 1)],
)
def test_products_of_what_is_kept_anyway_are_computed_again(define: Define, floats: int) -> None:
    """A product of two factors that a later pass reads as well takes no registers of its own; one
    whose factors nothing else reads is what stays."""
    x, y = rows(4096)
    fd = fusion(define, x, y)
    (report,) = fd.fec._segment_reports([x, y]) if fd.execute([x, y]) else ()
    kept = re.findall(r"Array<float, (\d+)[,>]", report["kernel_text"])
    assert len([size for size in kept if int(size) > 8]) == floats


@pytest.mark.parametrize("define", [with_both_factors, with_another_input, with_the_product_alone])
@pytest.mark.parametrize("width", [7, 1000, 4096, 20000])
def test_values(define: Define, width: int) -> None:
    x, y = rows(width)
    (out,) = fusion(define, x, y).execute([x, y])
    expected = reference(define, x, y)
    scale = expected.abs().mean() + (x.double().exp() * (x.double().abs() + y.abs())).sum(1).mean()
    assert ((out.double() - expected).abs().max() / scale).item() < 1e-3
