# SPDX-License-Identifier: BSD-3-Clause
"""Slices of what was normalized in groups that none of them begins with."""

from __future__ import annotations

import pytest
import torch
from helpers import DEVICE, define
from nvfuse_direct import DataType, FusionDefinition

CHANNELS = 24
GROUPS = 4


@pytest.mark.parametrize("first", [8, 12, 13])
@pytest.mark.parametrize("dtype", [torch.float, torch.bfloat16])
def test_groups_are_rows_all_the_same(first: int, dtype: torch.dtype) -> None:
    """The gradient of the cat in front of a group norm."""
    generator = torch.Generator().manual_seed(first)
    x = torch.randn(3, CHANNELS, 16, generator=generator).to(DEVICE, dtype)

    def body(fd: FusionDefinition) -> None:
        ops = fd.ops
        wide = ops.cast(fd.from_pytorch(x, static_sizes=True), DataType.Float)
        rows = ops.reshape(wide, [3, GROUPS, CHANNELS // GROUPS * 16])
        centred = ops.sub(rows, ops.div(ops.sum(rows, [2], keepdim=True), 96.0))
        back = ops.reshape(centred, [3, CHANNELS, 16])
        fd.add_output(ops.slice(back, [0, 0, 0], [3, first, 16]))
        fd.add_output(ops.slice(back, [0, first, 0], [3, CHANNELS, 16]))

    fd = define(body)
    left, right = fd.execute([x])
    rows = x.double().reshape(3, GROUPS, -1)
    exact = (rows - rows.mean(2, keepdim=True)).reshape(3, CHANNELS, 16)
    torch.testing.assert_close(left.double(), exact[:, :first], atol=1e-4, rtol=0)
    torch.testing.assert_close(right.double(), exact[:, first:], atol=1e-4, rtol=0)
    # The sums of rows, and each slice, which is computed with them of the part of x that it needs.
    assert fd.fec.get_cuda_kernel([x]).count("NVF_KERNEL(") == 3
