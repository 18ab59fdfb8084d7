# SPDX-License-Identifier: BSD-3-Clause
"""Entropies and losses of logits: the sums of a softmax and of a logsumexp, of which one is enough.

The two differ where a row's maximum is infinite, as torch's do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from helpers import DEVICE
from nvfuse_direct import DataType, FusionDefinition

INF, NAN = float("inf"), float("nan")


def logsumexp(fd: FusionDefinition, x: Any) -> Any:
    """As torch decomposes it."""
    o = fd.ops
    largest = o.max(x, [1], keepdim=True)
    base = o.where(o.eq(o.abs(largest), INF), 0.0, largest)
    return o.add(o.log(o.sum(o.exp(o.sub(x, base)), [1], keepdim=True)), base)


def softmax(fd: FusionDefinition, x: Any) -> tuple[Any, Any, Any]:
    o = fd.ops
    largest = o.max(x, [1], keepdim=True)
    powers = o.exp(o.sub(x, largest))
    total = o.sum(powers, [1], keepdim=True)
    return o.div(powers, total), largest, total


def entropy(fd: FusionDefinition, x: Any) -> list[Any]:
    o = fd.ops
    p, largest, total = softmax(fd, x)
    return [o.sub(logsumexp(fd, x), o.sum(o.mul(p, x), [1], keepdim=True)), largest, total]


def entropy_of_torch(x: torch.Tensor) -> list[torch.Tensor]:
    p, largest = x.softmax(1), x.amax(1, keepdim=True)
    h = x.logsumexp(1, keepdim=True) - (p * x).sum(1, keepdim=True)
    return [h, largest, (x - largest).exp().sum(1, keepdim=True)]


def surprise(fd: FusionDefinition, x: Any) -> list[Any]:
    """Nothing of the row is kept: one pass over it."""
    return [logsumexp(fd, x)]


def surprise_of_torch(x: torch.Tensor) -> list[torch.Tensor]:
    return [x.logsumexp(1, keepdim=True)]


def rows(width: int) -> torch.Tensor:
    """Some with infinities and NaN at one element, or at all."""
    x = torch.randn(12, width, generator=torch.Generator().manual_seed(width)) * 4
    for row, value in enumerate((INF, -INF, NAN, 3e38, -3e38)):
        x[row, width // 3] = value
    x[5], x[6], x[7, 0], x[7, -1] = -INF, INF, INF, -INF
    return x.to(DEVICE)


def define(function: Callable[..., list[Any]], x: torch.Tensor) -> FusionDefinition:
    with FusionDefinition() as fd:
        t = fd.define_tensor(list(x.shape), True, DataType.Float)
        for out in function(fd, t):
            fd.add_output(out)
    return fd


@pytest.mark.parametrize("width", [1, 5, 64, 1000, 4096, 50304])
@pytest.mark.parametrize(
    ("function", "expected"),
    [(entropy, entropy_of_torch), (surprise, surprise_of_torch)],
    ids=["entropy", "logsumexp"],
)
def test_values(
    function: Callable[..., list[Any]], expected: Callable[..., list[torch.Tensor]], width: int
) -> None:
    x = rows(width)
    for out, wanted in zip(define(function, x).execute([x]), expected(x), strict=True):
        torch.testing.assert_close(out, wanted, rtol=1e-4, atol=1e-4, equal_nan=True)


@pytest.mark.parametrize("function", [entropy, surprise])
def test_rows_of_nothing(function: Callable[..., list[Any]]) -> None:
    x = torch.empty(3, 0, device=DEVICE)
    outs = define(function, x).execute([x])
    assert outs[0].isneginf().all()
    assert all((total == 0).all() for total in outs[2:])


@pytest.mark.machine("h200")
def test_each_exponential_is_taken_once() -> None:
    """And what is returned of a row is stored once, not by the loop over its elements."""
    x = rows(4096)
    fd = define(entropy, x)
    fd.execute([x])
    text = fd.fec.get_cuda_kernel([x])
    assert text.count("exp(") == 1
    stores = [line for line in text.splitlines() if "[bx] =" in line]
    assert len(stores) == 3
    assert not any(line.startswith("      ") for line in stores)


@pytest.mark.parametrize("size", [8, 100, 1024])
def test_rows_and_columns_of_one_matrix(size: int) -> None:
    """As CLIP's loss: each image by its text, and each text by its image."""
    x = torch.randn(size, size, device=DEVICE, generator=torch.Generator(DEVICE).manual_seed(size))
    labels = torch.randperm(size, device=DEVICE)
    with FusionDefinition() as fd:
        o = fd.ops
        scaled = o.mul(fd.define_tensor([size, size], True, DataType.Float), 3.0)
        index = o.broadcast(fd.define_tensor([size], True, DataType.Int), [False, True])
        for t in (scaled, o.permute(scaled, [1, 0])):
            log_p = o.sub(t, logsumexp(fd, t))
            fd.add_output(o.neg(o.squeeze(o.take_along_axis(log_p, index, 1), [1])))
    for out, t in zip(fd.execute([x, labels]), (x * 3, x.t() * 3), strict=True):
        expected = torch.nn.functional.cross_entropy(t, labels, reduction="none")
        torch.testing.assert_close(out, expected, rtol=1e-4, atol=1e-4)
    moved = sum(r["input_bytes"] + r["output_bytes"] for r in fd.fec._segment_reports([x, labels]))
    if size == 1024:
        assert moved < 2.2 * x.nbytes
