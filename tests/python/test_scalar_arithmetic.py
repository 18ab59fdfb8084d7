# SPDX-License-Identifier: BSD-3-Clause
"""Scalars have 64 bits whatever indices have, and are written out once whoever uses them.

Kernels count elements in 32 bits where that is enough. What elements are computed with is another
matter: products of sizes, of scalars, and the steps of an iota need not fit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from helpers import DEVICE
from nvfuse_direct import DataType, FusionDefinition

MACHINES = [pytest.param(m, marks=pytest.mark.machine(m)) for m in ("host", "h200")]
THREE_BILLION = 3_000_000_000

SCALARS: dict[str, Callable[[FusionDefinition, Any, Any], Any]] = {
    "of an input": lambda fd, x, s: fd.ops.mul(s, 1_000_000),
    "of a size": lambda fd, x, s: fd.ops.mul(fd.ops.size(x, 0), 50_000_000),
    "of an extent": lambda fd, x, s: fd.ops.mul(x.size(0), 50_000_000),
    "of sizes": lambda fd, x, s: fd.ops.mul(fd.ops.mul(x.size(1), x.size(1)), 300_000),
    "of both": lambda fd, x, s: fd.ops.mul(fd.ops.mul(s, x.size(0)), fd.ops.div(50_000_000, s)),
}


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("name", SCALARS)
def test_elements_are_computed_with_all_bits(name: str, machine: str) -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.Int)
        s = fd.define_scalar(None, dtype=DataType.Int)
        c = SCALARS[name](fd, x, s)
        fd.add_output(fd.ops.gt(x, c))
        fd.add_output(fd.ops.add(x, c))
        fd.add_output(fd.ops.sum(fd.ops.where(fd.ops.lt(x, c), x, c), [1]))
        fd.add_output(fd.ops.mul(fd.ops.cast(x, DataType.Double), c))
        fd.add_output(fd.ops.full([fd.ops.size(x, 1)], c, DataType.Int))
    t = torch.arange(6000, device=DEVICE).reshape(60, 100) + THREE_BILLION - 3000
    scalar = 3000 if name == "of an input" else 500
    greater, total, least, product, full = fd.execute([t, scalar])
    assert torch.equal(greater, t > THREE_BILLION)
    assert torch.equal(total, t + THREE_BILLION)
    assert torch.equal(least, torch.clamp(t, max=THREE_BILLION).sum(1))
    assert torch.equal(product, t.double() * THREE_BILLION)
    assert torch.equal(full, torch.full((100,), THREE_BILLION, device=DEVICE))


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("number", [-4_294_967_318, 2_147_483_648, -2_147_483_648, -3_000_000_019])
def test_known_numbers_have_all_bits(number: int, machine: str) -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor(shape=[-1, 1], contiguity=[True, None], dtype=DataType.Int)
        c = fd.ops.mul(fd.ops.size(x, 1), number)
        fd.add_output(fd.ops.gt(x, c))
        fd.add_output(fd.ops.remainder(fd.ops.iota(fd.ops.size(x, 0), c, 1, DataType.Int), 1009))
        fd.add_output(fd.ops.remainder(fd.ops.iota(7, c, number, DataType.Int), 1009))
    t = torch.arange(-500, 500, device=DEVICE).reshape(-1, 1) + number // 2
    greater, counted, stepped = fd.execute([t])
    assert torch.equal(greater, t > number)
    up = torch.arange(1000, device=DEVICE)
    assert torch.equal(counted, (up + number) % 1009)
    assert torch.equal(stepped, (up[:7] * number + number) % 1009)


@pytest.mark.parametrize("machine", MACHINES)
def test_iota_counts_with_all_bits(machine: str) -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor(shape=[-1], contiguity=[True], dtype=DataType.Int)
        s = fd.define_scalar(None, dtype=DataType.Int)
        n = fd.ops.size(x, 0)
        fd.add_output(fd.ops.add(x, fd.ops.iota(n, s, 1_000_000_000, DataType.Int)))
        step = fd.define_scalar(100_000_000)
        fd.add_output(fd.ops.gt(x, fd.ops.iota(n, fd.define_scalar(0), step, DataType.Int)))
        fd.add_output(fd.ops.sum(fd.ops.iota(n, fd.ops.mul(n, n), step, DataType.Int), [0]))
        fd.add_output(fd.ops.iota(n, THREE_BILLION, -1, DataType.Int))
    x = torch.arange(100_000, device=DEVICE) * 31 + 2**31 - 10_000
    i = torch.arange(100_000, device=DEVICE)
    large, greater, total, down = fd.execute([x, 7])
    assert torch.equal(large, x + 7 + i * 1_000_000_000)
    assert torch.equal(greater, x > i * 100_000_000)
    assert total.item() == (100_000**2 + i * 100_000_000).sum().item()
    assert torch.equal(down, THREE_BILLION - i)


def doubled(fd: FusionDefinition, scalar: Any) -> Any:
    """The same scalar, by 2^40 ways."""
    for _ in range(40):
        scalar = fd.ops.sub(fd.ops.add(scalar, scalar), scalar)
    return scalar


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("dtype", [DataType.Int, DataType.Double])
def test_a_scalar_with_many_uses_is_written_once(dtype: DataType, machine: str) -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.Float)
        s = doubled(fd, fd.define_scalar(None, dtype=dtype))
        fd.add_output(fd.ops.mul(x, s))
        fd.add_output(fd.ops.sum(fd.ops.mul(x, s), [1]))
    t = torch.ones(8, 48, device=DEVICE)
    products, sums = fd.execute([t, 3])
    assert torch.equal(products, t * 3)
    assert torch.equal(sums, t.sum(1) * 3)


@pytest.mark.parametrize("machine", MACHINES)
def test_a_size_with_many_uses_is_written_once(machine: str) -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.Float)
        n = doubled(fd, fd.ops.size(x, 0))
        fd.add_output(fd.ops.mul(x, n))
        fd.add_output(fd.ops.neg(fd.ops.slice(x, [fd.ops.sub(n, 3), 0], [n, 4])))
    t = torch.rand(9, 48, device=DEVICE)
    products, rows = fd.execute([t])
    assert torch.equal(products, t * 9)
    assert torch.equal(rows, -t[6:, :4])


@pytest.mark.parametrize("machine", MACHINES)
def test_slices_of_slices(machine: str) -> None:
    """Each begins and ends where the one before says, by an input and by sizes."""
    with FusionDefinition() as fd:
        x = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.Float)
        s = fd.define_scalar(None, dtype=DataType.Int)
        y = fd.ops.neg(x)
        for _ in range(9):
            n = y.size(0)
            y = fd.ops.slice(y, [fd.ops.div(n, s), 0], [n, y.size(1)])
        fd.add_output(fd.ops.neg(y))
        fd.add_output(fd.ops.sum(y, [0]))
        fd.add_output(fd.ops.mul(y, y.size(0)))
    for rows in (64, 9, 1, 0):
        t = torch.rand(rows, 48, device=DEVICE)
        want = t
        for _ in range(9):
            want = want[want.size(0) // 9 :]
        kept, sums, scaled = fd.execute([t, 9])
        assert torch.equal(kept, want)
        torch.testing.assert_close(sums, -want.sum(0))
        assert torch.equal(scaled, -want * want.size(0))
