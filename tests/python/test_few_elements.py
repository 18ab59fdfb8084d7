# SPDX-License-Identifier: BSD-3-Clause
"""Reductions of a few elements are operations on parts: values, and kernels."""

from __future__ import annotations

import nvfuse_direct
import pytest
import torch
from helpers import DEVICE
from nvfuse_direct import DataType, FusionDefinition

Tensor = torch.Tensor


def kernels(fd: FusionDefinition, inputs: list[Tensor]) -> int:
    return len(nvfuse_direct.explain(fd, inputs, measure=False).segments)


def special(*sizes: int, dtype: torch.dtype = torch.float) -> Tensor:
    """With an infinity, NaN, zeros of both signs and a large value."""
    generator = torch.Generator().manual_seed(sum(sizes))
    x = torch.randn(*sizes, generator=generator, dtype=torch.double)
    for i, value in enumerate((float("inf"), float("nan"), 0.0, -0.0, 3e38)):
        x.view(-1)[i * 7 % x.numel()] = value
    return x.to(dtype).to(DEVICE)


@pytest.mark.parametrize("op", ["sum", "max", "min", "prod"])
@pytest.mark.parametrize("dims", [[0], [1], [2], [0, 2]])
def test_values(op: str, dims: list[int]) -> None:
    """As with the reductions themselves, bit by bit."""
    x = special(2, 3, 2) if len(dims) > 1 else special(*(3 if d in dims else 40 for d in range(3)))
    for dtype in (torch.float, torch.double, torch.int64):
        values = x.to(dtype) if dtype.is_floating_point else (x.nan_to_num() * 5).to(dtype)
        with FusionDefinition() as fd:
            tv = fd.from_pytorch(values, static_sizes=True)
            fd.add_output(getattr(fd.ops, op)(fd.ops.neg(tv), dims))
        (got,) = fd.execute([values])
        (expected,) = fd.execute([values], _disable_options=["add_few_elements"])
        torch.testing.assert_close(got, expected, rtol=0, atol=0, equal_nan=True)


def test_split_attention() -> None:
    """ResNeSt: two groups of channels, weighed by a softmax of two numbers, and their means."""
    x = torch.randn(4, 32, 6, 6, device=DEVICE).to(memory_format=torch.channels_last)
    gates = torch.randn(4, 32, device=DEVICE)
    with FusionDefinition() as fd:
        o = fd.ops
        tx, tg = (fd.from_pytorch(t, static_sizes=True) for t in (x, gates))
        g = o.reshape(tg, [4, 2, 16])
        e = o.exp(o.sub(g, o.max(g, [1], keepdim=True)))
        weights = o.div(e, o.sum(e, [1], keepdim=True))
        weights = o.broadcast(weights, [False, False, False, True, True])
        y = o.sum(o.mul(o.reshape(tx, [4, 2, 16, 6, 6]), weights), [1])
        fd.add_output(y)
        fd.add_output(o.div(o.sum(y, [2, 3]), 36.0))
    weights = gates.view(4, 2, 16).softmax(1)[..., None, None]
    expected = (x.view(4, 2, 16, 6, 6) * weights).sum(1)
    out = fd.execute([x, gates])
    torch.testing.assert_close(out[0], expected)
    torch.testing.assert_close(out[1], expected.mean((2, 3)))
    assert kernels(fd, [x, gates]) == 1


def test_sum_of_a_stack() -> None:
    """torch.stack(tensors).mean(0) is one pointwise kernel."""
    inputs = [torch.randn(64, 40, device=DEVICE, dtype=torch.bfloat16) for _ in range(5)]
    with FusionDefinition() as fd:
        o = fd.ops
        tensors = [o.cast(fd.from_pytorch(t, static_sizes=True), DataType.Float) for t in inputs]
        stacked = o.cat([o.broadcast(t, [True, False, False]) for t in tensors], 0)
        fd.add_output(o.div(o.sum(o.abs(stacked), [0]), 5.0))
    (out,) = fd.execute(inputs)
    torch.testing.assert_close(out, torch.stack(inputs).float().abs().mean(0))
    report = nvfuse_direct.explain(fd, inputs, measure=False)
    assert [segment.scheduler for segment in report.segments] == ["pointwise"]


def test_normalizations_of_few_elements_read_them_once() -> None:
    x = torch.randn(64, 2, 40, device=DEVICE)
    with FusionDefinition() as fd:
        tv = fd.from_pytorch(x, static_sizes=True)
        fd.add_output(fd.ops.div(tv, fd.ops.sum(tv, [1], keepdim=True)))
    (out,) = fd.execute([x])
    torch.testing.assert_close(out, x / x.sum(1, keepdim=True))
    assert kernels(fd, [x]) == 1
