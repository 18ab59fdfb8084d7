# SPDX-License-Identifier: BSD-3-Clause
"""A definition with symbolic sizes is served by few kernels, whatever the widths are.

The first widths get kernels of their own; those that come later share kernels that take any width.
Values are checked against float64 torch, compiled kernels are counted.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import pytest
import torch
from helpers import DEVICE, ON_CUDA, define
from nvfuse_direct import DataType, FusionDefinition, explain

Tensor = torch.Tensor
TYPES = {torch.float: DataType.Float, torch.bfloat16: DataType.BFloat16}
EPSILON = 1e-5


def mean(fd: FusionDefinition, x: object) -> object:
    return fd.ops.div(fd.ops.sum(x, [1], keepdim=True), x.size(1))


def softmax(fd: FusionDefinition, x: object) -> list[object]:
    e = fd.ops.exp(fd.ops.sub(x, fd.ops.max(x, [1], keepdim=True)))
    return [fd.ops.div(e, fd.ops.sum(e, [1], keepdim=True))]


def softmax_torch(x: Tensor) -> list[Tensor]:
    return [x.softmax(1)]


def rms_norm(fd: FusionDefinition, x: object, w: object) -> list[object]:
    scale = fd.ops.rsqrt(fd.ops.add(mean(fd, fd.ops.mul(x, x)), EPSILON))
    return [fd.ops.mul(fd.ops.mul(x, scale), w)]


def rms_norm_torch(x: Tensor, w: Tensor) -> list[Tensor]:
    return [x * (x.square().mean(1, keepdim=True) + EPSILON).rsqrt() * w]


def layer_norm(fd: FusionDefinition, x: object, w: object, b: object) -> list[object]:
    var, average = fd.ops.var_mean(x, [1], correction=0, keepdim=True)
    scale = fd.ops.rsqrt(fd.ops.add(var, EPSILON))
    normal = fd.ops.mul(fd.ops.sub(x, average), scale)
    return [fd.ops.add(fd.ops.mul(normal, w), b)]


def layer_norm_torch(x: Tensor, w: Tensor, b: Tensor) -> list[Tensor]:
    var, average = torch.var_mean(x, 1, correction=0, keepdim=True)
    return [(x - average) * (var + EPSILON).rsqrt() * w + b]


def layer_norm_backward(
    fd: FusionDefinition, g: object, x: object, average: object, scale: object, w: object
) -> list[object]:
    o = fd.ops
    normal = o.mul(o.sub(x, average), scale)
    gw = o.mul(g, w)
    across = o.add(mean(fd, gw), o.mul(normal, mean(fd, o.mul(gw, normal))))
    dx = o.mul(scale, o.sub(gw, across))
    return [dx, o.sum(o.mul(g, normal), [0]), o.sum(g, [0])]


def layer_norm_backward_torch(
    g: Tensor, x: Tensor, average: Tensor, scale: Tensor, w: Tensor
) -> list[Tensor]:
    normal = (x - average) * scale
    gw = g * w
    across = gw.mean(1, keepdim=True) + normal * (gw * normal).mean(1, keepdim=True)
    return [scale * (gw - across), (g * normal).sum(0), g.sum(0)]


def layer_norm_backward_rows(
    fd: FusionDefinition, g: object, x: object, average: object, scale: object, w: object
) -> list[object]:
    return layer_norm_backward(fd, g, x, average, scale, w)[:1]


def layer_norm_backward_rows_torch(
    g: Tensor, x: Tensor, average: Tensor, scale: Tensor, w: Tensor
) -> list[Tensor]:
    return layer_norm_backward_torch(g, x, average, scale, w)[:1]


def row_sum(fd: FusionDefinition, x: object) -> list[object]:
    return [fd.ops.sum(x, [1])]


def row_sum_torch(x: Tensor) -> list[Tensor]:
    return [x.sum(1)]


def column_sum(fd: FusionDefinition, x: object) -> list[object]:
    return [fd.ops.sum(x, [0])]


def column_sum_torch(x: Tensor) -> list[Tensor]:
    return [x.sum(0)]


def bias_relu(fd: FusionDefinition, x: object, b: object) -> list[object]:
    return [fd.ops.relu(fd.ops.add(x, b))]


def bias_relu_torch(x: Tensor, b: Tensor) -> list[Tensor]:
    return [(x + b).relu()]


def transposed(fd: FusionDefinition, x: object) -> list[object]:
    return [fd.ops.exp(fd.ops.permute(x, [1, 0]))]


def transposed_torch(x: Tensor) -> list[Tensor]:
    return [x.t().exp()]


def cross_entropy(fd: FusionDefinition, x: object) -> list[object]:
    top = fd.ops.max(x, [1], keepdim=True)
    total = fd.ops.sum(fd.ops.exp(fd.ops.sub(x, top)), [1], keepdim=True)
    return [fd.ops.add(fd.ops.log(total), top)]


def cross_entropy_torch(x: Tensor) -> list[Tensor]:
    return [x.logsumexp(1, keepdim=True)]


class Pattern:
    """`kinds`: an input is a tensor of rows (x), one row for all (w) or a value of each row (s)."""

    def __init__(
        self,
        build: Callable[..., list[object]],
        reference: Callable[..., list[Tensor]],
        kinds: str,
        dtype: torch.dtype = torch.bfloat16,
    ) -> None:
        self.reference = reference
        self.kinds = kinds
        self.dtype = dtype
        inputs = self.inputs(3, 5, 0)

        def definition(fd: FusionDefinition) -> None:
            wide = [fd.ops.cast(fd.from_pytorch(each), DataType.Float) for each in inputs]
            for kind, position in zip(kinds, range(len(kinds)), strict=True):
                if kind != "x":
                    wide[position] = fd.ops.broadcast(wide[position], [kind == "w", kind == "s"])
            for out in build(fd, *wide):
                fd.add_output(fd.ops.cast(out, TYPES[dtype]))

        self.fd = define(definition)

    def inputs(self, rows: int, width: int, seed: int) -> list[Tensor]:
        generator = torch.Generator().manual_seed(seed)
        sizes: dict[str, Sequence[int]] = {"x": [rows, width], "w": [width], "s": [rows]}
        return [
            torch.randn(sizes[kind], generator=generator).to(self.dtype).to(DEVICE)
            for kind in self.kinds
        ]

    def check(self, rows: int, width: int, seed: int = 0, **options: object) -> int:
        """Compares with torch; the number of kernels so far."""
        inputs = self.inputs(rows, width, seed)
        outputs = self.fd.execute(inputs, device=DEVICE, **options)
        assert self.fd.fec._num_fallbacks == 0
        wide = [each.double() for each in inputs]
        wide = [
            each[:, None] if kind == "s" else each
            for each, kind in zip(wide, self.kinds, strict=True)
        ]
        tolerance = 2e-2 if self.dtype == torch.bfloat16 else 1e-4
        for out, want in zip(outputs, self.reference(*wide), strict=True):
            assert out.shape == want.shape
            off = (out.double() - want).abs() > tolerance * (want.abs() + want.abs().max())
            assert not bool(off.any()), f"{rows} x {width}: {int(off.sum())} elements are off"
        return self.fd.fec._num_kernels

    def params(self, rows: int, width: int) -> list[object]:
        reports = self.fd.fec._segment_reports(self.inputs(rows, width, 0))
        return [report["params"] for report in reports]


def widths(seed: int, count: int = 100) -> list[int]:
    return random.Random(seed).sample(range(1, 20001), count)


# Enough for row groups: with fewer rows the columns have kernels of their own.
ROWS = 6 if DEVICE.type == "cpu" else 150
FEW_ROWS = [2, 3] if DEVICE.type == "cpu" else [6, 40, 100]
CASES = {
    "softmax": (softmax, softmax_torch, "x", 8),
    "rms_norm": (rms_norm, rms_norm_torch, "xw", 8),
    "layer_norm": (layer_norm, layer_norm_torch, "xww", 12),
    "layer_norm_backward": (layer_norm_backward, layer_norm_backward_torch, "xxssw", 8),
    "layer_norm_backward_rows": (
        layer_norm_backward_rows,
        layer_norm_backward_rows_torch,
        "xxssw",
        8,
    ),
    "row_sum": (row_sum, row_sum_torch, "x", 8),
    "column_sum": (column_sum, column_sum_torch, "x", 8),
    "cross_entropy": (cross_entropy, cross_entropy_torch, "x", 8),
    "bias_relu": (bias_relu, bias_relu_torch, "xw", 12),
    "transposed": (transposed, transposed_torch, "x", 12),
}


def check_hundred_widths(name: str, rows: int) -> None:
    """All are planned, every eighth is run."""
    build, reference, kinds, most = CASES[name]
    pattern = Pattern(build, reference, kinds)
    for number, width in enumerate(widths(seed=len(name))):
        if number < 4 or number % 8 == 0:
            pattern.check(rows, width, number)
        else:
            pattern.params(rows, width)
    assert pattern.fd.fec._num_fallbacks == 0
    assert pattern.fd.fec._num_kernels <= most


@pytest.mark.machine("hopper")
@pytest.mark.parametrize("name", CASES)
def test_hundred_random_widths(name: str) -> None:
    check_hundred_widths(name, ROWS)


@pytest.mark.machine("hopper")
@pytest.mark.parametrize("rows", FEW_ROWS)
@pytest.mark.parametrize("name", ["layer_norm_backward", "layer_norm_backward_rows"])
def test_hundred_random_widths_of_few_rows(name: str, rows: int) -> None:
    check_hundred_widths(name, rows)


@pytest.mark.machine("host")
@pytest.mark.skipif(ON_CUDA, reason="kernels of CPU tensors")
def test_gradients_of_a_layer_norm_on_the_host() -> None:
    """Two widths with kernels of their own, then one of each of a few lengths of buffers."""
    pattern = Pattern(layer_norm_backward, layer_norm_backward_torch, "xxssw")
    for number, width in enumerate(random.Random(5).sample(range(1, 9000), 20)):
        kernels = pattern.check(40, width, number)
    assert pattern.params(40, 5000)[0].any_extent
    assert kernels <= 10


@pytest.mark.machine("hopper")
def test_widths_at_the_edges_of_kernels() -> None:
    """What a thread, a warp, a block and a cluster hold, one element less and more."""
    pattern = Pattern(softmax, softmax_torch, "x")
    for edge in (8, 32, 256, 1024, 2048, 8192, 9216, 16384):
        for width in (edge - 1, edge, edge + 1, edge + 8):
            kernels = pattern.check(3, width)
    assert kernels <= 8


@pytest.mark.machine("hopper")
def test_pieces_of_warps() -> None:
    """Rows of odd lengths that row groups share: one element less and more than whole pieces."""
    pattern = Pattern(layer_norm_backward, layer_norm_backward_torch, "xxssw")
    for width in (520, 776, 1288):
        pattern.check(ROWS, width)
    for width in (1, 31, 33, 447, 449, 895, 897, 2687, 2689, 7167, 7169, 8961, 14335, 14337):
        pattern.check(ROWS, width)
        params = pattern.params(ROWS, width)[0]
        assert params.any_extent and params.warp_pieces
    assert pattern.fd.fec._num_kernels <= 8


@pytest.mark.machine("hopper")
def test_first_widths_keep_kernels_of_their_own() -> None:
    pattern = Pattern(softmax, softmax_torch, "x")
    for width in (1000, 3000):
        pattern.check(4, width)
        assert not pattern.params(4, width)[0].any_extent
        assert pattern.params(4, width)[0].reduced_extents == [width]
    pattern.check(4, 5000)
    params = pattern.params(4, 5000)[0]
    assert params.any_extent and params.reduced_extents == []
    # Other numbers of rows of these widths go on using them.
    kernels = pattern.check(6, 1000)
    assert not pattern.params(6, 1000)[0].any_extent
    assert pattern.check(9, 7000) == kernels
    assert "any_extent" in str(pattern.params(9, 7000)[0])


@pytest.mark.machine("hopper")
def test_a_first_width_keeps_its_kernels_where_columns_are_summed_too() -> None:
    pattern = Pattern(layer_norm_backward, layer_norm_backward_torch, "xxssw")
    for width in (1000, 3000, 5000):
        kernels = pattern.check(ROWS, width)
    assert pattern.params(ROWS, 5000)[0].any_extent
    assert pattern.params(ROWS, 1000)[0].reduced_extents == [1000]
    assert pattern.check(ROWS, 1000) == kernels


@pytest.mark.machine("hopper")
def test_reports_of_plans_from_the_disk_show_the_kernels_that_run() -> None:
    for _ in range(2):  # the second time, no plan is made here
        pattern = Pattern(softmax, softmax_torch, "x", torch.float)
        for width in (1100, 3300, 5500):
            kernels = pattern.check(4, width)
    for width, any_extent in ((5500, True), (1100, False), (3300, False)):
        assert pattern.params(4, width)[0].any_extent is any_extent
    assert pattern.check(4, 5500) == kernels
    # What is new shares the kernels that came from the disk.
    assert pattern.check(4, 5508) == kernels


def test_static_sizes_and_the_option_keep_kernels_of_their_own() -> None:
    pattern = Pattern(softmax, softmax_torch, "x")
    off = {"_disable_options": ["dynamic_extents"]}
    counts = [pattern.check(3, width, **off) for width in (100, 200, 300, 400)]
    assert counts == [1, 2, 3, 4]


@pytest.mark.machine("hopper")
def test_explain_counts_compiles() -> None:
    pattern = Pattern(softmax, softmax_torch, "x")
    for width in (100, 200, 304):
        pattern.check(3, width)
    report = explain(pattern.fd, pattern.inputs(3, 304, 0), measure=False)
    assert report.compiles == 3
    assert "3 compiled for all inputs so far" in report.text()
    assert report.segments[0].parameters["any_extent"] is True
