# SPDX-License-Identifier: BSD-3-Clause
"""Kernels that were refused: nests of one pass over the rows, loops that a squeeze leaves."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from helpers import DEVICE, assert_all_same, define, on_device
from nvfuse_direct import DataType, FusionDefinition

Tensor = torch.Tensor
Definition = Callable[[FusionDefinition], None]


def check(definition: Definition, inputs: list[Tensor], expected: list[Tensor]) -> None:
    """The values, by kernels none of which took the place of another one."""
    fd = define(definition)
    outputs = fd.execute([on_device(x) for x in inputs], device=DEVICE)
    assert fd.fec._num_fallbacks == 0, "a kernel that could not be made was replaced by others"
    assert_all_same(outputs, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("rows", "width"), [(12, 4), (40, 3), (300, 8)])
@pytest.mark.parametrize("is_computed", [False, True])
def test_a_bias_is_added_before_and_after_what_is_kept(
    rows: int, width: int, is_computed: bool
) -> None:
    """One dimension of a normalization over two is read by two nests of the first pass."""
    x, b = torch.randn(rows, width), torch.randn(width)

    def definition(fd: FusionDefinition) -> None:
        o = fd.ops
        a = fd.define_tensor(shape=[-1, -1], contiguity=True)
        row = fd.define_tensor(shape=[-1], contiguity=True)
        bias = o.exp(row) if is_computed else row
        kept = o.sin(o.mul(a, o.broadcast(bias, [True, False])))
        total = o.add(kept, o.broadcast(bias, [True, False]))
        whole = o.sum(total, [0, 1], keepdim=True)
        fd.add_output(o.mul(o.sub(total, o.mul(whole, 1e-3)), o.exp(kept)))

    bias = b.exp() if is_computed else b
    kept = (x * bias).sin()
    total = kept + bias
    check(definition, [x, b], [(total - total.sum() * 1e-3) * kept.exp()])


@pytest.mark.parametrize(("rows", "columns"), [(6, 5), (3, 17), (64, 64)])
def test_a_sum_along_an_expanded_dimension_beside_the_whole(rows: int, columns: int) -> None:
    """What is squeezed reads the version of a tensor that another output reads along all axes."""
    x, y = torch.randn(columns), torch.randn(1, 32, 1, dtype=torch.double)
    z = torch.randn(rows, 32, columns)

    def definition(fd: FusionDefinition) -> None:
        o = fd.ops
        a = o.cast(fd.define_tensor(shape=[-1], contiguity=True), DataType.Double)
        b = fd.define_tensor(
            shape=[-1, 32, -1], contiguity=[None, True, None], dtype=DataType.Double
        )
        c = fd.define_tensor(shape=[-1, 32, -1], contiguity=True)
        difference = o.sub(o.broadcast(a, [True, True, False]), b)
        fd.add_output(difference)
        fd.add_output(o.sub(difference, o.cast(c, DataType.Double)))
        square = o.squeeze(o.mul(difference, difference), [0], True)
        fd.add_output(o.add(square, o.broadcast(a, [True, False])))

    wide = y.expand(rows, 32, columns)
    difference = x.double() - y
    check(
        definition,
        [x, wide, z],
        [
            difference.expand(rows, 32, columns),
            difference - z.double(),
            (difference**2)[0] + x.double(),
        ],
    )
