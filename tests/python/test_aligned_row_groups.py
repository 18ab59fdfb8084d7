# SPDX-License-Identifier: BSD-3-Clause
"""Backward normalizations whose rows begin within vectors: all rows of a group begin alike."""

from __future__ import annotations

import re

import pytest
import torch
from helpers import DEVICE
from nvfuse_direct import DataType, FusionDefinition

pytestmark = pytest.mark.machine("h200")

TYPES = {
    torch.bfloat16: DataType.BFloat16,
    torch.half: DataType.Half,
    torch.float: DataType.Float,
}
TOLERANCE = {torch.bfloat16: 2.0**-7, torch.half: 2.0**-10, torch.float: 1e-5}
ROWS = 536  # some for each of an H200's blocks


def layer_norm_backward(fd: FusionDefinition, g, x, average, scale, w, width):
    o = fd.ops

    def mean(of):
        return o.div(o.sum(of, [1], keepdim=True), width)

    normal = o.mul(o.sub(x, average), scale)
    gw = o.mul(g, w)
    across = o.add(mean(gw), o.mul(normal, mean(o.mul(gw, normal))))
    return [o.mul(scale, o.sub(gw, across)), o.sum(o.mul(g, normal), [0]), o.sum(g, [0])]


def rms_norm_backward(fd: FusionDefinition, g, x, _, scale, w, width):
    o = fd.ops
    normal = o.mul(x, scale)
    gw = o.mul(g, w)
    across = o.div(o.sum(o.mul(gw, normal), [1], keepdim=True), width)
    dx = o.mul(scale, o.sub(gw, o.mul(normal, across)))
    return [dx, o.sum(o.mul(g, normal), [0])]


def define(pattern, types: tuple[torch.dtype, torch.dtype, torch.dtype]) -> FusionDefinition:
    rows, weight, out = types
    with FusionDefinition() as fd:
        wide = []
        for kind, dtype in zip(
            "xxssw", (rows, rows, torch.float, torch.float, weight), strict=True
        ):
            rank = 2 if kind == "x" else 1
            t = fd.define_tensor(shape=[-1] * rank, contiguity=[True] * rank, dtype=TYPES[dtype])
            t = fd.ops.cast(t, DataType.Float)
            wide.append(t if rank == 2 else fd.ops.broadcast(t, [kind == "w", kind == "s"]))
        for result in pattern(fd, *wide, wide[0].size(1)):
            fd.add_output(fd.ops.cast(result, TYPES[out]))
    return fd


def inputs_of(rows: int, width: int, types) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(width)
    sizes = [(rows, width), (rows, width), (rows,), (rows,), (width,)]
    dtypes = [types[0], types[0], torch.float, torch.float, types[1]]
    return [
        torch.randn(size, generator=generator).to(DEVICE, dtype)
        for size, dtype in zip(sizes, dtypes, strict=True)
    ]


def reference(pattern, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
    g, x, average, scale, w = (each.double() for each in inputs)
    scale = scale[:, None]
    gw = g * w
    if pattern is rms_norm_backward:
        normal = x * scale
        dx = scale * (gw - normal * (gw * normal).mean(1, keepdim=True))
        return [dx, (g * normal).sum(0)]
    normal = (x - average[:, None]) * scale
    across = gw.mean(1, keepdim=True) + normal * (gw * normal).mean(1, keepdim=True)
    return [scale * (gw - across), (g * normal).sum(0), g.sum(0)]


def check(fd: FusionDefinition, pattern, inputs: list[torch.Tensor], aligned: bool = True) -> str:
    outs = fd.execute(inputs)
    for out, expected in zip(outs, reference(pattern, inputs), strict=True):
        error = (out.double() - expected).abs().max() / expected.abs().max()
        assert error <= TOLERANCE[out.dtype], f"{error:.2e}"
    assert fd.fec._num_fallbacks == 0
    params = [each["params"] for each in fd.fec._segment_reports(inputs)]
    (of_rows,) = [each for each in params if each.combined_inner_outer]
    assert of_rows.align_rows == aligned
    return fd.fec.get_cuda_kernel(inputs)


BF16 = (torch.bfloat16, torch.bfloat16, torch.bfloat16)


@pytest.mark.parametrize("pattern", [layer_norm_backward, rms_norm_backward])
@pytest.mark.parametrize("width", [1537, 1538, 2047, 5003])
def test_values(pattern, width: int) -> None:
    check(define(pattern, BF16), pattern, inputs_of(ROWS, width, BF16))


@pytest.mark.parametrize("pattern", [layer_norm_backward, rms_norm_backward])
def test_rows_that_several_blocks_share(pattern) -> None:
    check(define(pattern, BF16), pattern, inputs_of(270, 12345, BF16))


@pytest.mark.parametrize(
    "types",
    [
        (torch.half, torch.half, torch.half),
        (torch.half, torch.float, torch.half),
        (torch.float, torch.half, torch.float),
        (torch.bfloat16, torch.float, torch.float),
    ],
    ids=str,
)
def test_types(types) -> None:
    inputs = inputs_of(ROWS, 1543, types)
    check(define(layer_norm_backward, types), layer_norm_backward, inputs)


def test_whole_vectors_are_copied_and_weights_loaded_once() -> None:
    text = check(
        define(layer_norm_backward, BF16), layer_norm_backward, inputs_of(ROWS, 2049, BF16)
    )
    assert "copyAsync<16>" in text
    assert "storeGlobal<__bfloat, 8>" in text
    before, loop = re.split(r"for \(nvfuser_index_t j\d+ = 0; j\d+ < nvf::ceilDiv", text)[:2]
    assert "loadUnaligned<__bfloat, 8>" in before
    assert "loadUnaligned" not in loop


def test_kernels_for_any_width() -> None:
    fd = define(layer_norm_backward, BF16)
    for width in (520, 776, 1288):
        fd.execute(inputs_of(64, width, BF16))
    for width in (1031, 1549, 3001):
        check(fd, layer_norm_backward, inputs_of(ROWS, width, BF16))
    kernels = fd.fec._num_kernels
    check(fd, layer_norm_backward, inputs_of(ROWS, 2053, BF16))
    assert fd.fec._num_kernels == kernels


def test_groups_whose_rows_begin_differently_are_not_aligned() -> None:
    """Too few rows for as many groups as the elements of a vector."""
    inputs = inputs_of(20, 50257, BF16)
    fd = define(layer_norm_backward, BF16)
    outs = fd.execute(inputs)
    for out, expected in zip(outs, reference(layer_norm_backward, inputs), strict=True):
        error = (out.double() - expected).abs().max() / expected.abs().max()
        assert error <= TOLERANCE[out.dtype], f"{error:.2e}"
    assert not any(
        each["params"].align_rows
        for each in fd.fec._segment_reports(inputs)
        if getattr(each["params"], "combined_inner_outer", False)
    )


def test_threads_in_any_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NVFUSER_HOST_ADVERSARIAL", "5")
    check(define(layer_norm_backward, BF16), layer_norm_backward, inputs_of(ROWS, 1543, BF16))
