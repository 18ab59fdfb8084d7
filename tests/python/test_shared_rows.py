# SPDX-License-Identifier: BSD-3-Clause
"""Reductions over pairs of what two tensors have: a thread has several rows of them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from helpers import DEVICE, define, on_both_machines
from nvfuse_direct import FusionDefinition

Tensor = torch.Tensor
Rows = tuple[int, int, int]  # in each sample, samples, and what a row has


def pairs(fd: FusionDefinition, x: Tensor, y: Tensor) -> object:
    """x[b, i] - y[b, j] as [b, i, j] in float32."""
    inputs = [fd.from_pytorch(t, static_sizes=True) for t in (x, y)]
    left, right = (fd.ops.cast(t, torch.float) for t in inputs)
    return fd.ops.sub(
        fd.ops.broadcast(left, [False, False, True]), fd.ops.broadcast(right, [False, True, False])
    )


def weights(fd: FusionDefinition, length: int) -> object:
    counts = fd.ops.cast(fd.ops.iota(length, 0, 1, torch.int64), torch.float)
    table = fd.ops.div(fd.ops.add(counts, 0.5), float(length))
    return fd.ops.broadcast(table, [True, True, False])


def quantile_loss(fd: FusionDefinition, d: object, length: int) -> list:
    loss = fd.ops.mul(fd.ops.abs(d), weights(fd, length))
    return [fd.ops.sum(loss, [2])]


def statistics(fd: FusionDefinition, d: object, length: int) -> list:
    mean = fd.ops.div(fd.ops.sum(d, [2]), float(length))
    return [mean, fd.ops.max(fd.ops.mul(d, weights(fd, length)), [2]), fd.ops.var(d, [2], 0)]


def torch_weights(length: int) -> Tensor:
    return (torch.arange(length) + 0.5) / length


def torch_quantile_loss(d: Tensor) -> list[Tensor]:
    return [(d.abs() * torch_weights(d.shape[2]).to(d)).sum(2)]


def torch_statistics(d: Tensor) -> list[Tensor]:
    return [d.mean(2), (d * torch_weights(d.shape[2]).to(d)).amax(2), d.var(2, correction=0)]


CASES: dict[str, tuple[Callable, Callable]] = {
    "quantile loss": (quantile_loss, torch_quantile_loss),
    "statistics": (statistics, torch_statistics),
}


def shared_rows(fd: FusionDefinition, inputs: list[Tensor]) -> set[int]:
    reports = fd.fec._segment_reports(inputs)
    fields = [r["params"]._fields() for r in reports if r["scheduler"] == "reduction"]
    return {f["unroll_factor_iter_dom"] for f in fields if f["fastest_dim"]}


@on_both_machines
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("dtype", [torch.float, torch.bfloat16])
@pytest.mark.parametrize("sizes", [(500, 152, 40), (500, 151, 33), (1, 70001, 7), (2, 40000, 130)])
def test_of_pairs(machine: str, case: str, dtype: torch.dtype, sizes: Rows) -> None:
    samples, rows, length = sizes
    generator = torch.Generator().manual_seed(length)
    x = torch.randn(samples, rows, generator=generator).to(dtype).to(DEVICE)
    y = torch.randn(samples, length, generator=generator).to(dtype).to(DEVICE)
    ours, expected = CASES[case]

    def body(fd: FusionDefinition) -> None:
        for out in ours(fd, pairs(fd, x, y), length):
            fd.add_output(out)

    fd = define(body)
    got = fd.execute([x, y])
    wanted = expected(x.double().unsqueeze(2) - y.double().unsqueeze(1))
    for a, b in zip(got, wanted, strict=True):
        torch.testing.assert_close(a.double(), b, atol=2e-5, rtol=2e-5)
    if machine == "h200" and case == "quantile loss":
        assert shared_rows(fd, [x, y]) == {4}


def test_rows_of_their_own_are_loaded_by_themselves() -> None:
    x = torch.randn(500, 152, 40, device=DEVICE)

    def body(fd: FusionDefinition) -> None:
        fd.add_output(fd.ops.sum(fd.from_pytorch(x, static_sizes=True), [2]))

    fd = define(body)
    torch.testing.assert_close(fd.execute([x])[0], x.sum(2), atol=2e-5, rtol=2e-5)
    assert shared_rows(fd, [x]) <= {1}


@pytest.mark.machine("hopper")
def test_rows_that_are_looked_up_are_not_shared() -> None:
    """Fields of a sample share their positions; what is found there, and returned, differs."""
    samples, fields, width = 9000, 39, 16
    table = torch.randn(100, width)
    ids = torch.randint(0, 100, (samples, fields))
    with FusionDefinition() as fd:
        tensors = [fd.from_pytorch(t, static_sizes=True) for t in (ids, table)]
        found = fd.ops.embedding_fwd(*tensors)
        fd.add_output(fd.ops.sum(fd.ops.mul(found, found), [1]))
        fd.add_output(found)
    inputs = [ids, table]
    squares, rows = fd.execute(inputs)
    torch.testing.assert_close(rows, table[ids], rtol=0, atol=0)
    torch.testing.assert_close(squares, table[ids].square().sum(1), rtol=1e-5, atol=1e-5)
    assert shared_rows(fd, inputs) == {1}
