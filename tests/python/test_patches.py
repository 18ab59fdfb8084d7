# SPDX-License-Identifier: BSD-3-Clause
"""What takes images apart and puts them together: threads run along several dimensions, so that
inputs and results are accessed by whole sectors (PointwiseParams.tile_axes)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from helpers import DEVICE
from nvfuse_direct import FusionDefinition

# On the machine that is simulated for tensors of the CPU.
pytestmark = pytest.mark.machine("hopper")
DTYPES = [torch.float32, torch.bfloat16]


def run(x: torch.Tensor, define: Callable[[Any, Any], Any]) -> tuple[torch.Tensor, list[str]]:
    """The result, and the dimensions of each kernel's tiles."""
    with FusionDefinition() as fd:
        tv = fd.from_pytorch(x, static_sizes=True)
        fd.add_output(fd.ops.cast(define(fd.ops, tv), x.dtype))
    (out,) = fd.execute([x])
    reports = fd.fec._segment_reports([x])
    return out, [r["scheduler_params"] or "" for r in reports]


# Channels, rows and columns of patches, pixels of a patch in each direction.
SIZES = [(16, 12, 24, 2), (4, 6, 13, 2), (3, 5, 32, 4), (8, 4, 20, 3), (5, 3, 7, 1), (1, 8, 16, 8)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("sizes", SIZES)
def test_into_patches_and_back(sizes: tuple[int, int, int, int], dtype: torch.dtype) -> None:
    c, h, w, p = sizes
    torch.manual_seed(0)
    x = torch.randn(3, c, h * p, w * p, device=DEVICE).to(dtype)

    def patches(ops: Any, tv: Any) -> Any:
        pixels = ops.reshape(ops.neg(tv), [3, c, h, p, w, p])
        return ops.reshape(ops.permute(pixels, [0, 2, 4, 1, 3, 5]), [3, h * w, c * p * p])

    pixels = (-x).view(3, c, h, p, w, p).permute(0, 2, 4, 1, 3, 5)
    expected = pixels.reshape(3, h * w, c * p * p).contiguous()
    torch.testing.assert_close(run(x, patches)[0], expected, rtol=0, atol=0)

    def back(ops: Any, tv: Any) -> Any:
        each = ops.reshape(tv, [3, h, w, c, p, p])
        return ops.reshape(ops.neg(ops.permute(each, [0, 3, 1, 4, 2, 5])), list(x.shape))

    torch.testing.assert_close(run(expected, back)[0], x, rtol=0, atol=0)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("r", [2, 3, 4])
def test_pixels_into_channels(r: int, dtype: torch.dtype) -> None:
    torch.manual_seed(r)
    x = torch.randn(2, 6, 8 * r, 48 * r, device=DEVICE).to(dtype)

    def unshuffled(ops: Any, tv: Any) -> Any:
        pixels = ops.permute(ops.reshape(tv, [2, 6, 8, r, 48, r]), [0, 1, 3, 5, 2, 4])
        return ops.reshape(ops.neg(pixels), [2, 6 * r * r, 8, 48])

    expected = -torch.nn.functional.pixel_unshuffle(x, r)
    torch.testing.assert_close(run(x, unshuffled)[0], expected, rtol=0, atol=0)


def test_tiles_are_chosen_where_pieces_are_short() -> None:
    x = torch.randn(2, 16, 32, 48, device=DEVICE)

    def patches(ops: Any, tv: Any) -> Any:
        pixels = ops.reshape(ops.neg(tv), [2, 16, 16, 2, 24, 2])
        return ops.permute(pixels, [0, 2, 4, 1, 3, 5])

    out, params = run(x, patches)
    expected = (-x).view(2, 16, 16, 2, 24, 2).permute(0, 2, 4, 1, 3, 5)
    torch.testing.assert_close(out, expected.contiguous(), rtol=0, atol=0)
    assert any("tile: 12 along 2 by 8" in text for text in params)
