# SPDX-License-Identifier: BSD-3-Clause
"""Long rows of reshapes, slices and pads are cut into kernels, so that planning stays linear."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from helpers import DEVICE, assert_same, define, row_major
from nvfuse_direct import FusionDefinition

DEPTH = 70  # more than four times what one kernel takes

Step = Callable[[object, object, int], object]


def sliced(ops: object, x: object, i: int) -> object:
    return ops.slice(x, [0, i % 2], [6, 299 - 2 * i])


def reshaped(ops: object, x: object, i: int) -> object:
    return ops.reshape(x, [100, 18] if i % 2 == 0 else [6, 300])


def padded(ops: object, x: object, i: int) -> object:
    return ops.pad(x, [1, 0])


class Torch:
    """The same operations by torch."""

    @staticmethod
    def slice(x: torch.Tensor, start: list[int], stop: list[int]) -> torch.Tensor:
        return x[start[0] : stop[0], start[1] : stop[1]]

    @staticmethod
    def reshape(x: torch.Tensor, shape: list[int]) -> torch.Tensor:
        return x.reshape(shape)

    @staticmethod
    def pad(x: torch.Tensor, widths: list[int]) -> torch.Tensor:
        return torch.nn.functional.pad(x, widths)


@pytest.mark.parametrize("step", [sliced, reshaped, padded])
def test_long_chain_is_cut(step: Step) -> None:
    x = row_major((6, 300)).fill(torch.float).to(DEVICE)

    def build(fd: FusionDefinition) -> None:
        y = fd.from_pytorch(x)
        for i in range(DEPTH):
            y = fd.ops.add(step(fd.ops, y, i), 1.0)
        fd.add_output(y)

    fd = define(build)
    (actual,) = fd.execute([x])
    expected = x
    for i in range(DEPTH):
        expected = step(Torch, expected, i) + 1.0
    assert_same(actual, expected)
    kernels = fd.fec.get_cuda_kernel([x]).count("NVF_KERNEL(")
    assert kernels == 5


def test_operations_side_by_side_stay_together() -> None:
    count = 40  # three operations each: one kernel takes as many
    x = row_major((6, 64)).fill(torch.float).to(DEVICE)

    def build(fd: FusionDefinition) -> None:
        y = fd.from_pytorch(x)
        total = y
        for i in range(count):
            shifted = fd.ops.slice(y, [0, i % 8], [6, 56 + i % 8])
            total = fd.ops.add(fd.ops.pad(shifted, [8, 0]), y) if i == 0 else total
            total = fd.ops.add(total, fd.ops.pad(shifted, [8, 0]))
        fd.add_output(total)

    fd = define(build)
    (actual,) = fd.execute([x])
    expected = x + torch.nn.functional.pad(x[:, 0:56], [8, 0])
    for i in range(count):
        expected = expected + torch.nn.functional.pad(x[:, i % 8 : 56 + i % 8], [8, 0])
    assert_same(actual, expected)
    assert fd.fec.get_cuda_kernel([x]).count("NVF_KERNEL(") == 1
