# SPDX-License-Identifier: BSD-3-Clause
"""Values of 16 bits that a kernel holds as float between its operations (codegen/wide_registers.h):
every rounding that the definition has stays, bit by bit."""

import pytest
import torch
from helpers import DEVICE
from nvfuse_direct import DataType, FusionDefinition

TYPES = [(torch.bfloat16, DataType.BFloat16), (torch.float16, DataType.Half)]
# Whole vectors, and what begins within one.
SHAPES = [(64, 96), (7, 34), (3, 5)]


def run(define, inputs):
    with FusionDefinition() as fd:
        xs = [fd.from_pytorch(x) for x in inputs]
        for out in define(fd.ops, *xs):
            fd.add_output(out)
    return fd, fd.execute(inputs)


def inputs_of(count, shape, dtype):
    torch.manual_seed(0)
    return [torch.randn(shape, device=DEVICE).mul(3).to(dtype) for _ in range(count)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("dtype", "wanted"), TYPES)
def test_each_operation_rounds(dtype, wanted, shape):
    """What was rounded off shows in the differences."""

    def define(ops, x, y):
        def rounded(v):
            return ops.cast(v, wanted)

        product = rounded(ops.mul(x, y))
        lost = rounded(ops.sub(ops.mul(x, y), product))
        total = rounded(ops.add(product, y))
        back = rounded(ops.sub(total, y))
        turned = rounded(ops.neg(back))
        return lost, back, rounded(ops.add(turned, product)), rounded(ops.abs(turned))

    x, y = inputs_of(2, shape, dtype)
    fd, ours = run(define, [x, y])
    product = x * y
    lost = (x.float() * y.float() - product.float()).to(dtype)
    back = (product + y) - y
    for a, b in zip(ours, (lost, back, -back + product, back.abs()), strict=True):
        assert torch.equal(a, b)
    assert lost.abs().max() > 0
    assert "nvf::roundTo<" in fd.fec.get_cuda_kernel([x, y])


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("dtype", "wanted"), TYPES)
def test_selections(dtype, wanted, shape):
    """Between a computed value, one that is read, a constant that is no 16-bit number, and NaN."""

    def define(ops, x, y):
        positive = ops.gt(x, 0.0)
        computed = ops.cast(ops.mul(x, 1.1), wanted)
        chosen = ops.where(positive, computed, y)
        capped = ops.where(ops.gt(y, 1.0), chosen, 0.1)
        # Both what is stored and what is computed on.
        return (
            chosen,
            capped,
            ops.cast(ops.mul(capped, 3.0), wanted),
            ops.cast(chosen, DataType.Double),
        )

    x, y = inputs_of(2, shape, dtype)
    y[0, 0], y[1, 1], x[1, 1] = float("inf"), float("nan"), -1.0
    _, ours = run(define, [x, y])
    chosen = torch.where(x > 0, x * 1.1, y)
    capped = torch.where(y > 1, chosen, torch.tensor(0.1, dtype=dtype, device=DEVICE))
    for a, b in zip(ours, (chosen, capped, capped * 3.0, chosen.double()), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("width", [96, 40, 6])
@pytest.mark.parametrize(("dtype", "wanted"), TYPES)
def test_halves_that_change_places(dtype, wanted, width):
    """A rotation: threads have parts of the operands of a concatenation, which are selected."""

    half = width // 2

    def define(ops, x, cos, sin):
        first = ops.slice(x, [0, 0], [50, half])
        second = ops.slice(x, [0, half], [50, width])
        turned = ops.cat([ops.cast(ops.neg(second), wanted), first], 1)
        products = [ops.cast(p, wanted) for p in (ops.mul(x, cos), ops.mul(turned, sin))]
        return (ops.cast(ops.add(*products), wanted),)

    x, cos, sin = inputs_of(3, (50, width), dtype)
    _, (ours,) = run(define, [x, cos, sin])
    swapped = torch.cat([-x[:, half:], x[:, :half]], 1)
    assert torch.equal(ours, x * cos + swapped * sin)


def test_operations_in_bfloat16():
    """Of values of bfloat16, where everything that reads a result rounds it."""

    def define(ops, x, y):
        def rounded(v):
            return ops.cast(v, DataType.BFloat16)

        product = ops.mul(x, y)
        total = rounded(ops.add(rounded(ops.mul(rounded(ops.sub(1.0, x)), 0.5)), y))
        scaled = rounded(ops.mul(total, 1.1))
        lost = ops.sub(product, rounded(product))
        return rounded(ops.mul(scaled, scaled)), ops.cast(ops.mul(total, lost), DataType.Float)

    x, y = inputs_of(2, (64, 96), torch.bfloat16)
    x[0, :4] = torch.tensor([float("inf"), float("nan"), 2.0**-130, -(2.0**127)])
    fd, ours = run(define, [x, y])
    total = (1.0 - x) * 0.5 + y
    scaled = total * 1.1
    product = x.float() * y.float()
    lost = product - product.bfloat16().float()
    for a, b in zip(ours, (scaled * scaled, total.float() * lost), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=0, equal_nan=True)
    text = fd.fec.get_cuda_kernel([x, y])
    counts = {name: text.count(f"nvf::{name}<__bfloat>(") for name in ("subIn", "mulIn", "addIn")}
    # 1 - x, its half and the sum. What is stored is rounded as it is packed, 1.1 is no bfloat16
    # number, and the product that is read both rounded and not is a float.
    assert counts == {"subIn": 1, "mulIn": 1, "addIn": 1}


@pytest.mark.parametrize("name", ["add", "sub", "mul"])
def test_operations_in_bfloat16_round_once(name):
    """All numbers by a few, exponents from the least to the largest."""
    words = torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16)
    x = words.view(torch.bfloat16).expand(24, -1).contiguous().to(DEVICE)
    torch.manual_seed(1)
    factor = torch.randint(-(2**15), 2**15, (24, 1), dtype=torch.int32).to(torch.int16)
    y = factor.view(torch.bfloat16).expand(-1, x.shape[1]).contiguous().to(DEVICE)

    def define(ops, x, y):
        result = ops.cast(getattr(ops, name)(x, y), DataType.BFloat16)
        return (ops.cast(result, DataType.Float),)

    fd, (ours,) = run(define, [x, y])
    once = getattr(torch, name)(x.double(), y.double())
    # Rounding to odd on the way, so that the second rounding sees what was lost.
    float_bits = once.float().view(torch.int32)
    inexact = (once.float().double() != once) & once.isfinite() & once.float().isfinite()
    toward_zero = float_bits - (inexact & (once.float().double().abs() > once.abs())).int()
    odd = torch.where(inexact, toward_zero | 1, float_bits).view(torch.float)
    torch.testing.assert_close(ours, odd.bfloat16().float(), rtol=0, atol=0, equal_nan=True)
    assert f"nvf::{name}In<__bfloat>(" in fd.fec.get_cuda_kernel([x, y])
