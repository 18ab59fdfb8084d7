# SPDX-License-Identifier: BSD-3-Clause
"""Parts of a concatenation that are loads become one load from a chosen place."""

from __future__ import annotations

import pytest
import torch
from helpers import DEVICE, assert_same, define
from nvfuse_direct import DataType, FusionDefinition

DTYPES = {
    torch.bfloat16: DataType.BFloat16,
    torch.float32: DataType.Float,
    torch.int8: DataType.Int,
    torch.bool: DataType.Bool,
}


def normalized(fd: FusionDefinition, x: object) -> object:
    """Keeps the concatenation in registers: rows are read twice."""
    wide = fd.ops.cast(x, DataType.Float)
    return fd.ops.sub(wide, fd.ops.max(wide, [-1], keepdim=True))


def expected(x: torch.Tensor) -> torch.Tensor:
    wide = x.float()
    return wide - wide.amax(-1, keepdim=True)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.bool])
@pytest.mark.parametrize("widths", [(96, 96), (64, 128, 8), (97, 31), (1, 300), (5, 0, 12)])
def test_parts_of_rows(widths: tuple[int, ...], dtype: torch.dtype) -> None:
    def definition(fd: FusionDefinition) -> None:
        parts = [fd.define_tensor([-1, w], [True, True], dtype=DTYPES[dtype]) for w in widths]
        fd.add_output(normalized(fd, fd.ops.cat(parts, 1)))

    for rows in (33, 1):
        parts = [(torch.randn(rows, w) * 3).to(dtype).to(DEVICE) for w in widths]
        (out,) = define(definition).execute(parts, device=DEVICE)
        assert_same(out, expected(torch.cat(parts, 1)))


@pytest.mark.parametrize("shift", [(3, 3), (1, 0), (0, 5)])
@pytest.mark.parametrize("columns", [24, 7])
def test_rotations(shift: tuple[int, int], columns: int) -> None:
    """A part of one concatenation is another one."""

    def rolled(fd: FusionDefinition, x: object, dim: int, by: int) -> object:
        sizes = [4, 14, 12, columns]
        if by == 0:
            return x
        starts, ends = [0] * 4, list(sizes)
        starts[dim] = sizes[dim] - by
        late = fd.ops.slice(x, starts, ends)
        starts, ends = [0] * 4, list(sizes)
        ends[dim] = sizes[dim] - by
        return fd.ops.cat([late, fd.ops.slice(x, starts, ends)], dim)

    def definition(fd: FusionDefinition) -> None:
        x = fd.define_tensor([4, 14, 12, columns], [True] * 4, dtype=DataType.BFloat16)
        y = fd.define_tensor([4, 14, 12, columns], [True] * 4, dtype=DataType.BFloat16)
        turned = rolled(fd, rolled(fd, x, 1, shift[0]), 2, shift[1])
        fd.add_output(normalized(fd, fd.ops.add(turned, y)))

    x, y = (torch.randn(4, 14, 12, columns).bfloat16().to(DEVICE) for _ in range(2))
    (out,) = define(definition).execute([x, y], device=DEVICE)
    assert_same(out, expected(x.roll(shift, (1, 2)).float() + y.float()))


def test_patches_side_by_side() -> None:
    """Every other pixel of four places, as in Swin's patch merging."""

    def definition(fd: FusionDefinition) -> None:
        x = fd.define_tensor([2, 8, 12, 48], [True] * 4, dtype=DataType.BFloat16)
        pixels = fd.ops.reshape(x, [2, 4, 2, 6, 2, 48])
        parts = [
            fd.ops.squeeze(
                fd.ops.slice(pixels, [0, 0, i, 0, j, 0], [2, 4, i + 1, 6, j + 1, 48]), [2, 4]
            )
            for j in range(2)
            for i in range(2)
        ]
        fd.add_output(normalized(fd, fd.ops.cat(parts, -1)))

    x = torch.randn(2, 8, 12, 48).bfloat16().to(DEVICE)
    (out,) = define(definition).execute([x], device=DEVICE)
    parts = [x[:, i::2, j::2] for j in range(2) for i in range(2)]
    assert_same(out, expected(torch.cat(parts, -1)))


@pytest.mark.machine("h200")
def test_one_load_takes_the_place_of_two() -> None:
    def definition(fd: FusionDefinition) -> None:
        parts = [fd.define_tensor([-1, 96], [True, True], dtype=DataType.BFloat16) for _ in "ab"]
        fd.add_output(normalized(fd, fd.ops.cat(parts, 1)))

    fd = define(definition)
    parts = [torch.randn(33, 96).bfloat16().to(DEVICE) for _ in "ab"]
    fd.execute(parts, device=DEVICE)
    text = fd.fec.get_cuda_kernel(parts)
    assert text.count("nvf::loadGlobal") == 1
    assert text.count("nvf::chosen") == 1
