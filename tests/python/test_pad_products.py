# SPDX-License-Identifier: BSD-3-Clause
"""Products of 16-bit matrices are made of larger ones where a library is slow for their sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from helpers import DEVICE
from nvfuse_direct import DataType, FusionDefinition
from nvfuse_direct import TensorView as TV

pytestmark = pytest.mark.machine("h200")

Tensor = torch.Tensor
Define = Callable[..., list[TV]]


def random(*sizes: int, dtype: torch.dtype = torch.bfloat16) -> Tensor:
    generator = torch.Generator().manual_seed(sum(sizes))
    return torch.randn(*sizes, generator=generator).to(dtype).to(DEVICE)


def neg(o: Any, x: TV) -> TV:
    """Of its own type: a kernel computes it."""
    return o.cast(o.neg(x), x.dtype())


def defined(inputs: list[Tensor], define: Define) -> FusionDefinition:
    with FusionDefinition() as fd:
        tensors = [fd.from_pytorch(each, static_sizes=True) for each in inputs]
        for out in define(fd.ops, *tensors):
            fd.add_output(out)
    return fd


def is_padded(fd: FusionDefinition, inputs: list[Tensor]) -> bool:
    return any("{1008}" in report["math"] for report in fd.fec._segment_reports(inputs))


def check(inputs: list[Tensor], define: Define) -> FusionDefinition:
    """As without, to what the library's order of sums makes of it."""
    fd = defined(inputs, define)
    got = fd.execute(inputs)
    expected = fd.execute(inputs, _disable_options=["pad_products"])
    for a, b in zip(got, expected, strict=True):
        assert a.shape == b.shape
        assert a.stride() == b.stride()
        torch.testing.assert_close(a, b, rtol=2**-6, atol=2**-6 * float(b.float().std()))
    assert is_padded(fd, inputs)
    return fd


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("sizes", [(1000, 1001, 96), (96, 1000, 1001), (800, 1001, 1001)])
def test_sizes(sizes: tuple[int, int, int], dtype: torch.dtype) -> None:
    m, k, n = sizes
    inputs = [random(16, m, k, dtype=dtype), random(16, k, n, dtype=dtype)]
    check(inputs, lambda o, x, y: [o.relu(o.matmul(neg(o, x), neg(o, y)))])


def test_rows_of_a_transposed_operand() -> None:
    inputs = [random(16, 800, 1001), random(16, 800, 96)]
    check(inputs, lambda o, x, y: [o.relu(o.matmul(o.permute(neg(o, x), [0, 2, 1]), y))])


def test_a_transposed_operand() -> None:
    inputs = [random(16, 1001, 64), random(16, 1001, 64)]

    def define(o: Any, x: TV, y: TV) -> list[TV]:
        scores = o.matmul(x, o.permute(neg(o, y), [0, 2, 1]))
        return [o.relu(scores)]

    check(inputs, define)


def test_results_that_are_returned() -> None:
    inputs = [random(16, 1001, 256), random(16, 256, 1001)]
    check(inputs, lambda o, x, y: [o.matmul(x, y)])


def test_a_linear_layer_with_a_bias() -> None:
    inputs = [random(4, 1000, 512), random(1001, 512), random(1001)]
    check(inputs, lambda o, x, w, b: [o.relu(o.linear(x, w, b))])


def softmax(o: Any, x: TV) -> TV:
    x = o.cast(x, DataType.Float)
    e = o.exp(o.sub(x, o.max(x, [-1], keepdim=True)))
    return o.cast(o.div(e, o.sum(e, [-1], keepdim=True)), DataType.BFloat16)


@pytest.mark.parametrize("returned", [False, True])
def test_attention(returned: bool) -> None:
    """The shares, which are computed with sums, lie beside zeros, over the scores if they may."""
    inputs = [random(2, 8, 1001, 64) for _ in range(3)]

    def define(o: Any, q: TV, k: TV, v: TV) -> list[TV]:
        scores = o.matmul(q, o.permute(neg(o, k), [0, 1, 3, 2]))
        shares = softmax(o, o.mul(scores, 0.125))
        return [o.matmul(shares, neg(o, v)), *([shares] if returned else [])]

    fd = check(inputs, define)
    kept = 2 * 8 * 1001 * 1001 * 2 if returned else 0
    large = 2 * 8 * 1001 * 1008 * 2
    assert fd.fec._peak_bytes(inputs) < kept + 1.2 * large


def test_gradients_of_attention() -> None:
    shares = torch.softmax(random(2, 8, 1001, 1001).float(), -1).bfloat16()
    inputs = [shares, *(random(2, 8, 1001, 64) for _ in range(4))]

    def define(o: Any, p: TV, grad: TV, q: TV, k: TV, v: TV) -> list[TV]:
        turned = [0, 1, 3, 2]
        of_shares = o.cast(o.matmul(grad, o.permute(v, turned)), DataType.Float)
        wide = o.cast(p, DataType.Float)
        product = o.mul(of_shares, wide)
        total = o.sum(product, [-1], keepdim=True)
        scores = o.cast(o.mul(o.sub(product, o.mul(wide, total)), 0.125), DataType.BFloat16)
        return [
            o.matmul(o.permute(p, turned), grad),
            o.matmul(scores, k),
            o.matmul(o.permute(scores, turned), q),
        ]

    check(inputs, define)


def test_infinities_stay_in_their_rows() -> None:
    x, y = random(16, 1001, 256), random(16, 256, 1001)
    x[3, 500, 7] = float("inf")
    y[5, 9, 1000] = float("nan")
    fd = defined([x, y], lambda o, x, y: [o.relu(o.matmul(x, y))])
    (got,) = fd.execute([x, y])
    (expected,) = fd.execute([x, y], _disable_options=["pad_products"])
    assert torch.equal(got.isfinite(), expected.isfinite())
    rows = got[3].isfinite().all(-1)
    assert not rows[500]
    assert int(rows.sum()) == 1000


def test_small_products_stay() -> None:
    inputs = [random(33, 1001), random(1001, 33)]
    fd = defined(inputs, lambda o, x, y: [o.relu(o.matmul(x, y))])
    fd.execute(inputs)
    assert not is_padded(fd, inputs)
