# SPDX-License-Identifier: BSD-3-Clause
"""The order in memory that stride_order asks for, whatever order the inputs have."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from helpers import DEVICE
from nvfuse_direct import DataType, FusionDefinition

SHAPE = (2, 3, 4, 5)
ROW_MAJOR = [3, 2, 1, 0]

PROGRAMS: dict[str, tuple[Callable[[Any, Any], Any], Callable[[torch.Tensor], torch.Tensor]]] = {
    "copy": (lambda o, x: x, lambda x: x),
    "neg": (lambda o, x: o.neg(x), lambda x: -x),
    "cast": (lambda o, x: o.cast(x, DataType.Double), lambda x: x.double()),
    "ordered twice": (lambda o, x: o.stride_order(o.neg(x), [0, 1, 2, 3]), lambda x: -x),
    "centred": (
        lambda o, x: o.sub(x, o.broadcast(o.sum(x, [3]), [False, False, False, True])),
        lambda x: x - x.sum(3, keepdim=True),
    ),
}


def stride_order_of(x: torch.Tensor) -> list[int]:
    by_stride = sorted(range(x.dim()), key=x.stride)
    return [by_stride.index(d) for d in range(x.dim())]


def laid_out(memory: tuple[int, ...]) -> torch.Tensor:
    """Contiguous in memory in that order of dimensions."""
    x = torch.randn([SHAPE[d] for d in memory], device=DEVICE)
    return x.permute([memory.index(d) for d in range(len(memory))])


@pytest.mark.parametrize("memory", [(0, 1, 2, 3), (0, 2, 3, 1), (3, 2, 1, 0)])
@pytest.mark.parametrize("name", PROGRAMS)
def test_stride_order_is_kept(name: str, memory: tuple[int, ...]) -> None:
    ours, expected = PROGRAMS[name]
    x = laid_out(memory)
    orders = [ROW_MAJOR, *map(list, itertools.islice(itertools.permutations(range(4)), 0, 24, 5))]
    with FusionDefinition() as fd:
        t = fd.from_pytorch(x)
        for order in orders:
            fd.add_output(fd.ops.stride_order(ours(fd.ops, t), order))
    for order, result in zip(orders, fd.execute([x]), strict=True):
        torch.testing.assert_close(result, expected(x), rtol=1e-5, atol=1e-5)
        assert stride_order_of(result) == order


def test_row_major_order_is_part_of_the_definition() -> None:
    def define(ordered: bool) -> FusionDefinition:
        with FusionDefinition() as fd:
            y = fd.ops.neg(fd.from_pytorch(laid_out((0, 2, 3, 1))))
            fd.add_output(fd.ops.stride_order(y, ROW_MAJOR) if ordered else fd.ops.set(y))
        return fd

    ordered, free = define(True), define(False)
    assert ordered.fusion == define(True).fusion
    assert ordered.fusion != free.fusion
    assert "stride_order=[3, 2, 1, 0])" in repr(ordered)
    with FusionDefinition() as again:
        names = {"FusionDefinition": FusionDefinition, "DataType": DataType, "fd": again}
        exec(repr(ordered) + "nvfuser_fusion(fd)", names)
    assert again.fusion == ordered.fusion
    x = laid_out((0, 2, 3, 1))
    assert [fd.execute([x])[0].is_contiguous() for fd in (ordered, free, again)] == [
        True,
        False,
        True,
    ]


def test_set_allocation_domain_in_the_order_of_the_dimensions() -> None:
    x = laid_out((0, 2, 3, 1))
    with FusionDefinition() as fd:
        y = fd.ops.neg(fd.from_pytorch(x))
        fd.add_output(y)
        y.set_allocation_domain(y.get_loop_domain(), True)
    (result,) = fd.execute([x])
    assert result.is_contiguous() and torch.equal(result, -x)
