# SPDX-License-Identifier: BSD-3-Clause
"""Normalizations forward and backward against float64 torch: shapes, dtypes, layouts, sharing.

One fusion each; what a kernel must not do (be refused and replaced, differ from run to run, be
compiled again for another number of rows) is checked beside the values.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from helpers import DEVICE, run_python
from nvfuse_direct import DataType, FusionDefinition

Tensor = torch.Tensor
TYPES = {
    torch.float: DataType.Float,
    torch.double: DataType.Double,
    torch.half: DataType.Half,
    torch.bfloat16: DataType.BFloat16,
}
TOLERANCE = {torch.float: 2e-5, torch.double: 1e-12, torch.half: 4e-3, torch.bfloat16: 2e-2}


@pytest.fixture
def device() -> torch.device:
    return DEVICE


def random(sizes: Sequence[int], dtype: torch.dtype, seed: int, device: torch.device) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(sizes, generator=generator, dtype=torch.double).to(dtype).to(device)


class TorchOps:
    """The same definitions in torch."""

    add, sub, mul, div = (
        staticmethod(getattr(torch, name)) for name in ("add", "sub", "mul", "div")
    )
    rsqrt, exp = staticmethod(torch.rsqrt), staticmethod(torch.exp)

    @staticmethod
    def sum(x: Tensor, dims: Sequence[int], keepdim: bool = False) -> Tensor:
        return x.sum(tuple(dims), keepdim=keepdim)

    @staticmethod
    def max(x: Tensor, dims: Sequence[int], keepdim: bool = False) -> Tensor:
        return x.amax(tuple(dims), keepdim=keepdim)

    @staticmethod
    def var_mean(
        x: Tensor, dims: Sequence[int], correction: int, keepdim: bool
    ) -> tuple[Tensor, ...]:
        return torch.var_mean(x, tuple(dims), correction=correction, keepdim=keepdim)


def mean(o, x, dims: Sequence[int]):
    count = x.size(dims[0])
    for d in dims[1:]:
        count = o.mul(count, x.size(d)) if not isinstance(count, int) else count * x.size(d)
    return o.div(o.sum(x, dims, keepdim=True), count)


def softmax(o, dims, rows, x, g, w):
    e = o.exp(o.sub(x, o.max(x, dims, keepdim=True)))
    return (o.div(e, o.sum(e, dims, keepdim=True)),)


def softmax_backward(o, dims, rows, x, g, w):
    return (o.mul(x, o.sub(g, o.sum(o.mul(x, g), dims, keepdim=True))),)


def layer_norm(o, dims, rows, x, g, w):
    var, average = o.var_mean(x, dims, correction=0, keepdim=True)
    scale = o.rsqrt(o.add(var, 1e-5))
    return o.add(o.mul(o.mul(o.sub(x, average), scale), w), w), average, scale


def layer_norm_backward(o, dims, rows, x, g, w):
    var, average = o.var_mean(x, dims, correction=0, keepdim=True)
    scale = o.rsqrt(o.add(var, 1e-5))
    normal = o.mul(o.sub(x, average), scale)
    gw = o.mul(g, w)
    across = o.add(mean(o, gw, dims), o.mul(normal, mean(o, o.mul(gw, normal), dims)))
    dx = o.mul(scale, o.sub(gw, across))
    return (dx, o.sum(o.mul(g, normal), rows), o.sum(g, rows)) if rows else (dx,)


def rms_norm_backward(o, dims, rows, x, g, w):
    scale = o.rsqrt(o.add(mean(o, o.mul(x, x), dims), 1e-5))
    normal = o.mul(x, scale)
    gw = o.mul(g, w)
    dx = o.mul(scale, o.sub(gw, o.mul(normal, mean(o, o.mul(gw, normal), dims))))
    return (dx, o.sum(o.mul(g, normal), rows)) if rows else (dx,)


def add_rms_norm(o, dims, rows, x, g, w):
    total = o.add(x, g)
    scale = o.rsqrt(o.add(mean(o, o.mul(total, total), dims), 1e-5))
    return total, o.mul(o.mul(total, scale), w)


PATTERNS = (
    softmax,
    softmax_backward,
    layer_norm,
    layer_norm_backward,
    rms_norm_backward,
    add_rms_norm,
)


class Norm:
    """A pattern over `dims` of tensors of `dtype`; extents symbolic unless `static`."""

    def __init__(
        self,
        pattern: Callable,
        x: Tensor,
        dims: Sequence[int],
        weights: Sequence[int],
        static: bool,
    ) -> None:
        self.pattern = pattern
        self.dims = list(dims)
        self.rows = [d for d in range(x.dim()) if d not in self.dims]
        device = x.device
        g = random(x.shape, x.dtype, 1, device)
        w = random([n if d in weights else 1 for d, n in enumerate(x.shape)], x.dtype, 2, device)
        self.inputs = [x, g, w]
        with FusionDefinition() as fd:
            tensors = [fd.from_pytorch(t, static_sizes=static) for t in self.inputs]
            wide = DataType.Double if x.dtype == torch.double else DataType.Float
            casts = [fd.ops.cast(t, wide) for t in tensors]
            for out in pattern(fd.ops, self.dims, self.rows, *casts):
                fd.add_output(fd.ops.cast(out, TYPES[x.dtype]))
        self.fd = fd

    def check(self, smallest: float = 1e-3) -> list[Tensor]:
        """`smallest`: the size of terms that may cancel out."""
        outputs = self.fd.execute(self.inputs)
        assert self.fd.fec._num_fallbacks == 0
        expected = self.pattern(TorchOps, self.dims, self.rows, *(t.double() for t in self.inputs))
        tolerance = TOLERANCE[self.inputs[0].dtype]
        for position, (out, want) in enumerate(zip(outputs, expected, strict=True)):
            assert out.shape == want.shape
            scale = float(want.abs().max()) if want.numel() else 1.0
            off = (out.double() - want).abs() > tolerance * (want.abs() + 0.5 * scale + smallest)
            assert not bool(off.any()), f"output {position}: {int(off.sum())} elements are off"
        return outputs


@pytest.mark.parametrize("pattern", PATTERNS)
def test_shapes_and_dtypes(pattern: Callable, device: torch.device) -> None:
    cases = [
        ([1, 1], [1], torch.float),
        ([3, 33], [1], torch.bfloat16),
        ([1000, 7], [1], torch.half),
        ([5, 1024], [1], torch.double),
        ([3, 8191], [1], torch.half),
        ([2, 20000], [1], torch.bfloat16),
        ([4, 1, 64], [2], torch.bfloat16),
        ([2, 6, 40], [1, 2], torch.float),
        ([6, 5, 40], [0], torch.float),
        ([6, 5, 8], [1], torch.half),
        ([2, 3, 4, 16], [1, 3], torch.float),
        ([3, 4, 5], [0, 1, 2], torch.float),
    ]
    for number, (sizes, dims, dtype) in enumerate(cases):
        x = random(sizes, dtype, number, device)
        norm = Norm(pattern, x, dims, weights=dims, static=number % 2 == 0)
        norm.check(smallest=1.0 if x.numel() == 1 else 1e-3)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_sizes_of_one(pattern: Callable, device: torch.device) -> None:
    """A reduction over a dimension of size 1 is none, beside others that are some."""
    for sizes, dims in (([2, 1], [1]), ([1, 300], [0]), ([2, 1, 3], [1]), ([1, 3, 2, 30], [0])):
        norm = Norm(pattern, random(sizes, torch.float, 3, device), dims, weights=[], static=False)
        norm.check(smallest=1.0)


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("width", [40000, 131072, 600000])
def test_rows_of_several_blocks(pattern: Callable, width: int, device: torch.device) -> None:
    Norm(pattern, random([2, width], torch.bfloat16, 4, device), [1], [1], static=False).check()


def params_of(norm: Norm, which: str) -> dict[int, object]:
    """The parameters of each segment: those "chosen" for its shape, or the "params" in use."""
    reports = norm.fd.fec._segment_reports(norm.inputs)
    return {report["segment_id"]: report[which] for report in reports}


@pytest.mark.parametrize("pattern", PATTERNS[:3] + PATTERNS[-1:])
@pytest.mark.parametrize(
    "changes",
    [
        {"stage_rows": True},
        {"stage_rows": True, "stage_shared_inputs": True},
        {"stage_rows": True, "load_shared_inputs_early": True, "cluster_size": 4, "gdimy": 4},
        {"project_persistent_buffers": True},
        {"keep_computed": True},
        {"load_shared_inputs_early": True},
    ],
    ids=str,
)
def test_where_rows_and_weights_wait(
    pattern: Callable, changes: dict[str, object], device: torch.device
) -> None:
    """Kept in registers or in shared memory, or computed again: the values are the same."""
    for sizes, dtype in (([5, 3000], torch.bfloat16), ([3, 701], torch.float)):
        norm = Norm(pattern, random(sizes, dtype, 12, device), [1], [1], static=False)
        norm.check()
        changed = {k: p._with(changes) for k, p in params_of(norm, "chosen").items()}
        norm.fd.fec._set_params(changed)
        norm.check()
        assert [str(p) for p in params_of(norm, "params").values()] == [
            str(p) for p in changed.values()
        ]


@pytest.mark.machine("hopper")
def test_long_rows_are_projected_and_staged(device: torch.device) -> None:
    """Narrow rows keep their inputs only, 64 elements a thread; with two weights shared memory
    has them."""
    norm = Norm(softmax, random([200, 70000], torch.bfloat16, 13, device), [1], [1], static=False)
    norm.check()
    (params,) = params_of(norm, "chosen").values()
    assert params.project_persistent_buffers
    assert not params.stage_rows


@pytest.mark.machine("hopper")
@pytest.mark.parametrize(
    ("dtype", "projected"), [(torch.bfloat16, True), (torch.float, False)], ids=str
)
def test_long_rows_keep_what_takes_fewer_registers(
    dtype: torch.dtype, projected: bool, device: torch.device
) -> None:
    """A softmax's gradient reads the product and the result again: 48 bits, and both inputs of 16
    bits have 32. Of float32 it is the same either way."""
    grad, y = (random([20, 128256], dtype, seed, device) for seed in (17, 18))
    with FusionDefinition() as fd:
        g, s = (fd.ops.cast(fd.from_pytorch(t), DataType.Float) for t in (grad, y))
        product = fd.ops.mul(g, s)
        dot = fd.ops.broadcast(fd.ops.sum(product, [1]), [False, True])
        fd.add_output(fd.ops.sub(product, fd.ops.mul(s, dot)))
    (out,) = fd.execute([grad, y])
    g, s = grad.double(), y.double()
    expected = g * s - s * (g * s).sum(1, keepdim=True)
    torch.testing.assert_close(out.double(), expected, rtol=1e-3, atol=2e-2)
    (report,) = fd.fec._segment_reports([grad, y])
    assert report["chosen"].project_persistent_buffers == projected


@pytest.mark.machine("hopper")
@pytest.mark.parametrize(
    ("width", "dtype", "kept"),
    [
        (1600, torch.bfloat16, True),
        (4096, torch.bfloat16, True),
        (12288, torch.bfloat16, False),
    ],
    ids=str,
)
def test_gradients_keep_what_they_computed_of_rows(
    width: int, dtype: torch.dtype, kept: bool, device: torch.device
) -> None:
    """Registers have room for that and for the sums of columns with 16 elements of a thread."""
    x, grad = (random([600, width], dtype, seed, device) for seed in (1, 2))
    weight = random([width], dtype, 3, device)
    mean = x.float().mean(1, keepdim=True)
    inverse = (x.float().var(1, keepdim=True, correction=0) + 1e-5).rsqrt()
    inputs = [x, grad, weight, mean, inverse]
    with FusionDefinition() as fd:
        ops = fd.ops
        t, g, w, m, r = (ops.cast(fd.from_pytorch(each), DataType.Float) for each in inputs)

        def row_mean(tv: Any) -> Any:
            return ops.div(ops.broadcast(ops.sum(tv, [1]), [False, True]), float(width))

        normal = ops.mul(ops.sub(t, m), r)
        gw = ops.mul(g, ops.broadcast(w, [True, False]))
        centered = ops.sub(
            ops.sub(gw, row_mean(gw)), ops.mul(normal, row_mean(ops.mul(gw, normal)))
        )
        fd.add_output(ops.mul(centered, r))
        fd.add_output(ops.sum(ops.mul(g, normal), [0]))
        fd.add_output(ops.sum(g, [0]))
    leaves = [each.double().requires_grad_() for each in (x, weight, torch.zeros_like(weight))]
    out = torch.nn.functional.layer_norm(leaves[0], [width], leaves[1], leaves[2])
    expected = torch.autograd.grad(out, leaves, grad.double())
    for a, b in zip(fd.execute(inputs), expected, strict=True):
        torch.testing.assert_close(a.double(), b, rtol=2e-2, atol=2e-2)
    chosen = [report["chosen"] for report in fd.fec._segment_reports(inputs)]
    assert [p.keep_computed for p in chosen if p.combined_inner_outer] == [kept]


@pytest.mark.machine("hopper")
@pytest.mark.parametrize("width", [12288, 20000, 70000])
def test_rows_with_two_weights_lie_in_shared_memory(width: int, device: torch.device) -> None:
    x = random([300, width], torch.bfloat16, 14, device)
    w, b = (random([width], torch.bfloat16, seed, device) for seed in (15, 16))
    with FusionDefinition() as fd:
        wide = [fd.ops.cast(fd.from_pytorch(t), DataType.Float) for t in (x, w, b)]
        along = [fd.ops.broadcast(t, [True, False]) for t in wide[1:]]
        var, average = fd.ops.var_mean(wide[0], [1], 0, True)
        normal = fd.ops.mul(fd.ops.sub(wide[0], average), fd.ops.rsqrt(fd.ops.add(var, 1e-5)))
        result = fd.ops.add(fd.ops.mul(normal, along[0]), along[1])
        fd.add_output(fd.ops.cast(result, DataType.BFloat16))
    (out,) = fd.execute([x, w, b])
    expected = torch.nn.functional.layer_norm(x.double(), [width], w.double(), b.double())
    assert torch.allclose(out.double(), expected, rtol=1e-2, atol=1e-2)
    (report,) = fd.fec._segment_reports([x, w, b])
    assert report["chosen"].stage_rows


@pytest.mark.machine("hopper")
@pytest.mark.parametrize(("width", "staged"), [(20000, False), (65536, False), (70000, True)])
def test_rows_with_one_weight_of_their_size_lie_in_registers(
    width: int, staged: bool, device: torch.device
) -> None:
    """As long as a thread has few elements of them."""
    x, w = random([140, width], torch.float, 14, device), random([width], torch.float, 15, device)
    with FusionDefinition() as fd:
        row, weight = (fd.from_pytorch(t) for t in (x, w))
        mean_square = fd.ops.mul(fd.ops.sum(fd.ops.mul(row, row), [1], keepdim=True), 1 / width)
        normal = fd.ops.mul(row, fd.ops.rsqrt(fd.ops.add(mean_square, 1e-5)))
        fd.add_output(fd.ops.mul(normal, fd.ops.broadcast(weight, [True, False])))
    (out,) = fd.execute([x, w])
    wide = x.double()
    expected = wide * (wide.square().mean(1, keepdim=True) + 1e-5).rsqrt() * w.double()
    assert torch.allclose(out.double(), expected, rtol=1e-5, atol=1e-5)
    (report,) = fd.fec._segment_reports([x, w])
    assert report["chosen"].stage_rows == staged
    assert report["chosen"].stage_shared_inputs != staged


@pytest.mark.machine("hopper")
@pytest.mark.parametrize("other", [torch.bfloat16, torch.float, torch.double, torch.bool])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float])
def test_rows_of_several_dtypes_in_shared_memory(
    dtype: torch.dtype, other: torch.dtype, device: torch.device
) -> None:
    """Their accesses have different numbers of elements; each pass loads from one copy of them."""
    x = random([140, 9000], dtype, 17, device)
    y = random([140, 9000], torch.double, 18, device)
    y = y > 0 if other == torch.bool else y.to(other)
    w, b = (random([9000], dtype, seed, device) for seed in (15, 16))
    with FusionDefinition() as fd:
        o = fd.ops
        wide = [o.cast(fd.from_pytorch(each), DataType.Float) for each in (x, y, w, b)]
        along = [o.broadcast(each, [True, False]) for each in wide[2:]]
        total = o.add(wide[0], wide[1])
        var, average = o.var_mean(total, [1], 0, True)
        normal = o.mul(o.sub(total, average), o.rsqrt(o.add(var, 1e-5)))
        fd.add_output(o.add(o.add(o.mul(normal, along[0]), along[1]), wide[1]))
    (out,) = fd.execute([x, y, w, b])
    rows = x.double() + y.double()
    expected = torch.nn.functional.layer_norm(rows, [9000], w.double(), b.double()) + y.double()
    assert torch.allclose(out.double(), expected, atol=1e-4)
    (report,) = fd.fec._segment_reports([x, y, w, b])
    assert report["params"].stage_rows
    assert fd.fec._num_fallbacks == 0


@pytest.mark.parametrize("force", [False, True])
def test_rows_that_are_looked_up_are_read_where_they_are(force: bool, device: torch.device) -> None:
    """Not in shared memory, where a block has a part of its own row only."""
    x = random([300, 12288] if not force else [5, 3000], torch.bfloat16, 14, device)
    w, b = (random([x.size(1)], torch.bfloat16, seed, device) for seed in (15, 16))
    with FusionDefinition() as fd:
        o = fd.ops
        t, *weights = (fd.from_pytorch(each) for each in (x, w, b))
        wide, *along = (o.cast(each, DataType.Float) for each in (t, *weights))
        along = [o.broadcast(each, [True, False]) for each in along]
        var, average = o.var_mean(wide, [1], 0, True)
        normal = o.mul(o.sub(wide, average), o.rsqrt(o.add(var, 1e-5)))
        found = o.take_along_axis(t, o.cast(o.gt(wide, average), DataType.Int), 1)
        result = o.add(o.add(o.mul(normal, along[0]), along[1]), o.cast(found, DataType.Float))
        fd.add_output(o.cast(result, DataType.BFloat16))
    rows = x.double()
    above = (rows > rows.mean(1, keepdim=True)).long()
    expected = torch.nn.functional.layer_norm(rows, [x.size(1)], w.double(), b.double())
    expected = expected + rows.gather(1, above)
    for _ in range(2):
        (out,) = fd.execute([x, w, b])
        assert torch.allclose(out.double(), expected, rtol=2e-2, atol=2e-2)
        (report,) = fd.fec._segment_reports([x, w, b])
        if force:
            fd.fec._set_params({report["segment_id"]: report["chosen"]._with({"stage_rows": True})})
        else:
            assert not report["params"].stage_rows


# Rows that one kernel reads once, and rows that take two kernels.
ROW_LENGTHS = [40000, 600000]


@pytest.mark.parametrize("width", ROW_LENGTHS)
def test_inputs_that_are_updated_beside_long_rows(width: int, device: torch.device) -> None:
    """Kernels after the update still see what was there before it."""
    x, y = (random([2, width], torch.float, seed, device) for seed in (20, 21))
    average = random([2], torch.float, 22, device)
    with FusionDefinition() as fd:
        o = fd.ops
        tensors = [fd.from_pytorch(each) for each in (x, y, average)]
        var, mean_of_rows = o.var_mean(tensors[0], [1], 0, False)
        fd.add_output(o.mul(tensors[1], 2.0), tensors[1])
        fd.add_output(o.add(o.mul(tensors[2], 0.5), mean_of_rows), tensors[2])
        along = [o.broadcast(each, [False, True]) for each in (mean_of_rows, var, tensors[2])]
        normal = o.mul(o.sub(tensors[0], along[0]), o.rsqrt(o.add(along[1], 1e-5)))
        result = o.add(o.add(normal, along[2]), tensors[1])
        fd.add_output(result)
        fd.add_output(o.sum(result, [1]))
    for _ in range(2):
        old_y, old_average = y.double(), average.double()
        result, total = fd.execute([x, y, average])
        rows = x.double()
        expected = torch.nn.functional.layer_norm(rows, [width]) + old_average[:, None] + old_y
        assert torch.allclose(result.double(), expected, atol=1e-4)
        assert torch.allclose(total.double(), expected.sum(1), rtol=1e-4, atol=1e-1)
        assert torch.allclose(y.double(), 2 * old_y)
        assert torch.allclose(average.double(), 0.5 * old_average + rows.mean(1), atol=1e-5)
    assert fd.fec._num_fallbacks == 0


@pytest.mark.parametrize("width", ROW_LENGTHS)
def test_random_numbers_before_a_normalization_are_drawn_once(
    width: int, device: torch.device
) -> None:
    """The statistics are those of the elements that were kept, though rows are read twice."""
    x = random([2, width], torch.bfloat16, 23, device)
    with FusionDefinition() as fd:
        o = fd.ops
        t = fd.from_pytorch(x)
        chance = o.uniform(0.0, 1.0, [t.size(0), t.size(1)], dtype=DataType.Float)
        kept = o.where(o.lt(chance, 0.5), o.cast(t, DataType.Float), 0.0)
        scale = o.rsqrt(mean(o, o.mul(kept, kept), [1]))
        fd.add_output(o.mul(kept, scale))
    (out,) = fd.execute([x])
    kept = x.double() * (out != 0)
    assert 0.49 < float((out != 0).double().mean()) < 0.51
    expected = kept * torch.rsqrt((kept * kept).mean(1, keepdim=True))
    assert torch.allclose(out.double(), expected, atol=1e-5)


@pytest.mark.parametrize("width", ROW_LENGTHS)
def test_intermediates_of_long_rows_are_outputs(width: int, device: torch.device) -> None:
    """The exponentials are read by two sums and by the quotient, the products are an output."""
    x, y = (random([2, width], torch.bfloat16, seed, device) for seed in (24, 25))
    with FusionDefinition() as fd:
        o = fd.ops
        wide = [o.cast(fd.from_pytorch(each), DataType.Float) for each in (x, y)]
        product = o.mul(*wide)
        power = o.exp(o.sub(product, o.max(product, [1], keepdim=True)))
        total = o.sum(power, [1], keepdim=True)
        for out in (wide[0], product, o.div(power, total), o.sum(o.mul(power, wide[1]), [1])):
            fd.add_output(out)
        fd.add_output(o.sum(power, [1]))
    outputs = fd.execute([x, y])
    product = x.double() * y.double()
    power = (product - product.amax(1, keepdim=True)).exp()
    total = power.sum(1)
    expected = [x.double(), product, power / total[:, None], (power * y.double()).sum(1), total]
    for out, want in zip(outputs, expected, strict=True):
        assert torch.allclose(out.double(), want, rtol=1e-4, atol=1e-4 * float(want.abs().max()))


@pytest.mark.parametrize("pattern", [softmax, layer_norm, layer_norm_backward])
def test_long_rows_find_their_kernels_again(pattern: Callable, device: torch.device) -> None:
    """Also after rows that one kernel reads once, and others, were there."""
    norm = Norm(pattern, random([2, 600000], torch.float, 26, device), [1], [1], static=False)
    by_width = {}
    for width in (600000, 40000, 262144):
        by_width[width] = [random([2, width], torch.float, seed, device) for seed in (27, 28)]
        by_width[width].append(random([1, width], torch.float, 29, device))
        norm.inputs = by_width[width]
        norm.check()
    kernels = norm.fd.fec._num_kernels
    for inputs in by_width.values():
        norm.fd.execute(inputs)
        norm.inputs = [each.clone() for each in inputs]
        norm.fd.execute(norm.inputs)
    assert norm.fd.fec._num_kernels == kernels


@pytest.mark.parametrize("pattern", PATTERNS)
def test_weights_of_a_part_of_the_row(pattern: Callable, device: torch.device) -> None:
    """As in group normalization: the weight has some of the reduced dimensions."""
    x = random([3, 4, 70], torch.float, 5, device)
    for weights in ([1], [2], [0, 2], [0]):
        Norm(pattern, x, [1, 2], weights, static=False).check()


def test_memory_orders(device: torch.device) -> None:
    x = random([2, 8, 6, 4], torch.float, 6, device)
    for order in ((0, 2, 3, 1), (3, 2, 1, 0)):
        back = [order.index(d) for d in range(4)]
        moved = x.permute(order).contiguous().permute(back)
        for dims in ([3], [1], [0, 2, 3]):
            Norm(layer_norm, moved, dims, dims, static=False).check()
    padded = random([5, 19], torch.half, 7, device)[:, 1:18]
    Norm(layer_norm_backward, padded, [1], [1], static=False).check()


@pytest.mark.parametrize(
    ("pattern", "sizes"),
    [(layer_norm_backward, [300, 512]), (softmax, [7, 5000]), (add_rms_norm, [2, 40000])],
)
def test_runs_are_bit_identical(pattern: Callable, sizes: list[int], device: torch.device) -> None:
    norm = Norm(pattern, random(sizes, torch.bfloat16, 8, device), [1], [1], static=False)
    first = norm.check()
    for _ in range(9):
        for a, b in zip(first, norm.fd.execute(norm.inputs), strict=True):
            assert torch.equal(a, b)


@pytest.mark.parametrize("static", [False, True])
def test_sums_over_row_groups_share_a_kernel(static: bool, device: torch.device) -> None:
    x = random([2048, 256], torch.bfloat16, 11, device)
    norm = Norm(layer_norm_backward, x, [1], [1], static)
    norm.check()
    assert norm.fd.fec._num_kernels == 2


@pytest.mark.machine("hopper")
@pytest.mark.parametrize(
    ("width", "dtype"),
    [
        (1536, torch.bfloat16),  # several row groups with 24 elements a thread
        (5120, torch.bfloat16),  # 640 threads
        (12288, torch.bfloat16),
        (20480, torch.bfloat16),  # a cluster
        (3000, torch.float),
        (8192, torch.float),  # three rows under way
    ],
)
def test_row_groups_of_any_width(width: int, dtype: torch.dtype, device: torch.device) -> None:
    norm = Norm(layer_norm_backward, random([150, width], dtype, 17, device), [1], [1], static=True)
    norm.check()
    assert norm.fd.fec._num_kernels == 2
    text = norm.fd.fec.get_cuda_kernel(norm.inputs)
    kernel = text[text.index("nvfuser_inner_outer_persistent") : text.index("nvfuser_reduction")]
    assert kernel.count("nvf::waitForCopies") == 1  # rows of both tensors are copied together


@pytest.mark.parametrize("width", [1024, 2048])
def test_row_groups_load_the_next_rows_ahead(width: int, device: torch.device) -> None:
    """Into registers, while they compute."""
    x = random([4096, width], torch.bfloat16, 19, device)
    norm = Norm(rms_norm_backward, x, [1], [1], static=True)
    norm.check()
    text = norm.fd.fec.get_cuda_kernel(norm.inputs)
    kernel = text[text.index("nvfuser_inner_outer_persistent") :]
    if "#define NVF_THREADS_IN_LOOPS" not in text:
        assert re.search(r"if \(\(j\d+ \+ 1\) < \d+\) \{\n[^}]*nvf::loadGlobal", kernel)


@pytest.mark.parametrize("pattern", [softmax, layer_norm, add_rms_norm])
def test_a_kernel_serves_other_numbers_of_rows(pattern: Callable, device: torch.device) -> None:
    norm = Norm(pattern, random([512, 256], torch.float, 9, device), [1], [1], static=False)
    norm.check()
    kernels = norm.fd.fec._num_kernels
    for rows in (600, 1024, 777):
        norm.inputs[:2] = [random([rows, 256], torch.float, k, device) for k in range(2)]
        norm.check()
    assert norm.fd.fec._num_kernels == kernels


def test_running_statistics_in_place(device: torch.device) -> None:
    """Batch normalization: statistics that are read, blended and written back."""
    x = random([6, 5, 8, 4], torch.float, 10, device)
    running = [torch.zeros(5, device=device), torch.ones(5, device=device)]
    with FusionDefinition() as fd:
        t, m, v = (fd.from_pytorch(each) for each in (x, *running))
        o = fd.ops
        var, average = o.var_mean(t, [0, 2, 3], correction=0, keepdim=False)
        fd.add_output(o.add(o.mul(m, 0.9), o.mul(average, 0.1)), m)
        fd.add_output(o.add(o.mul(v, 0.9), o.mul(var, 0.1)), v)
        both = [o.broadcast(each, [True, False, True, True]) for each in (average, var)]
        fd.add_output(o.mul(o.sub(t, both[0]), o.rsqrt(o.add(both[1], 1e-5))))
    for run in range(1, 4):
        (out,) = fd.execute([x, *running])
        var, average = torch.var_mean(x.double(), (0, 2, 3), correction=0)
        kept = 0.9**run
        assert torch.allclose(running[0].double(), (1 - kept) * average, atol=1e-6)
        assert torch.allclose(running[1].double(), kept + (1 - kept) * var, atol=1e-5)
        expected = torch.nn.functional.batch_norm(x.double(), None, None, training=True)
        assert torch.allclose(out.double(), expected, atol=1e-5)
    assert fd.fec._num_fallbacks == 0


def test_in_place_with_gaps(device: torch.device) -> None:
    """The output lies in rows of 11 elements: it cannot be written in vectors."""
    x = random([7, 11], torch.float, 11, device)
    inside = x[:, :8]
    expected = inside.double() - inside.double().sum(1, keepdim=True)
    with FusionDefinition() as fd:
        t = fd.from_pytorch(inside)
        fd.add_output(fd.ops.sub(t, fd.ops.sum(t, [1], keepdim=True)), t)
    kept = x[:, 8:].clone()
    fd.execute([inside])
    assert torch.allclose(inside.double(), expected, atol=1e-5)
    assert torch.equal(x[:, 8:], kept)


def test_no_rows_and_no_columns(device: torch.device) -> None:
    """Sums over nothing are 0."""
    for sizes in ([0, 64], [64, 0]):
        x = random(sizes, torch.float, 12, device)
        outputs = Norm(layer_norm_backward, x, [1], [1], static=False).fd.execute(
            [x, x, random([1, sizes[1]], torch.float, 13, device)]
        )
        assert [list(out.shape) for out in outputs if out.shape[0] == sizes[0]]
        for out in outputs:
            assert list(out.shape) in (sizes, [sizes[1]], [1, sizes[1]])
            assert torch.equal(out, torch.zeros_like(out))


def test_rows_of_the_reference_decide() -> None:
    """A sum over what all rows share is another kernel, not one that is repeated for each row."""
    x, w = random([4, 3, 5], torch.half, 14, DEVICE), random([1, 3, 1], torch.float, 15, DEVICE)
    with FusionDefinition() as fd:
        t, u = fd.from_pytorch(x), fd.from_pytorch(w)
        fd.add_output(fd.ops.add(u, fd.ops.max(t, [2], keepdim=True)))
        fd.add_output(fd.ops.sum(u, [0, 1, 2], keepdim=True))
    added, total = fd.execute([x, w])
    assert torch.equal(added, w + x.amax(2, keepdim=True))
    assert torch.allclose(total, w.sum().reshape(1, 1, 1))
    assert fd.fec._num_fallbacks == 0


BROKEN_COMPILER = """
import torch
from nvfuse_direct import FusionDefinition

x = torch.randn(4, 8)
with FusionDefinition() as fd:
    t = fd.from_pytorch(x)
    fd.add_output(fd.ops.mul(t, fd.ops.sum(t, [1], keepdim=True)))
try:
    fd.execute([x])
except RuntimeError as error:
    print("raised:", str(error).splitlines()[0])
print("fallbacks:", fd.fec._num_fallbacks)
"""


def test_a_compiler_that_compiles_nothing_is_an_error(tmp_path) -> None:
    """Such a failure is the same for every kernel: simpler ones are not tried."""
    compiler = tmp_path / "broken"
    compiler.write_text("#!/bin/sh\necho no space left >&2\nexit 1\n")
    os.chmod(compiler, 0o755)
    environment = {"NVFUSER_HOST_CXX": str(compiler), "NVFUSER_CACHE_DIR": str(tmp_path / "cache")}
    done = run_python(BROKEN_COMPILER, environment)
    assert "does not compile an empty function" in done.stdout, done.stdout + done.stderr
    assert "fallbacks: 0" in done.stdout


@pytest.mark.machine("hopper")
def test_few_rows_leave_their_columns_to_a_kernel_of_their_own(device: torch.device) -> None:
    """Row groups for three rows would leave most of the device idle."""
    norm = Norm(layer_norm_backward, random([3, 4096], torch.bfloat16, 23, device), [1], [1], True)
    norm.check()
    chosen = [each["chosen"] for each in norm.fd.fec._segment_reports(norm.inputs)]
    schedulers = [str(params.scheduler_type).rsplit(".", 1)[-1] for params in chosen if params]
    assert "inner_outer_persistent" not in schedulers
    assert "inner_persistent" in schedulers


@pytest.mark.machine("hopper")
@pytest.mark.parametrize("early", [True, False])
def test_rows_that_nothing_is_reduced_of_are_loaded_first(
    early: bool, device: torch.device
) -> None:
    """The gradient of a loss with smoothed labels: its first sum is over what is computed of
    positions, while the row is on its way."""
    x, place = random([300, 1000], torch.float, 3, device), torch.arange(300, device=device)
    with FusionDefinition() as fd:
        row, at = fd.from_pytorch(x, static_sizes=True), fd.from_pytorch(place, static_sizes=True)
        columns = fd.ops.broadcast(fd.ops.iota(1000, 0, 1, DataType.Int), [True, False])
        hit = fd.ops.eq(columns, fd.ops.broadcast(at, [False, True]))
        smooth = fd.ops.cast(fd.ops.where(hit, -0.9, -1e-4), DataType.Float)
        total = fd.ops.broadcast(fd.ops.sum(smooth, [1]), [False, True])
        fd.add_output(fd.ops.sub(smooth, fd.ops.mul(fd.ops.exp(row), total)))
    (report,) = fd.fec._segment_reports([x, place]) if fd.execute([x, place]) else ()
    params = report["chosen"]
    assert params.load_rows_early
    fd.fec._set_params({report["segment_id"]: params._with({"load_rows_early": early})})
    (ours,) = fd.execute([x, place])
    smooth = torch.full_like(x, -1e-4).scatter(1, place[:, None], -0.9)
    expected = smooth - x.exp() * smooth.sum(1, keepdim=True)
    torch.testing.assert_close(ours, expected, rtol=2e-5, atol=2e-5)
    (report,) = fd.fec._segment_reports([x, place])
    text = report["kernel_text"]
    assert (text.index("loadGlobal") < text.index("blockReduce")) == early


def test_pixels_of_an_image_are_one_dimension(device: torch.device) -> None:
    """A row of several images divides positions by the pixels of one, and by nothing else."""
    x = random([16, 5, 7, 7], torch.float, 4, device)
    with FusionDefinition() as fd:
        t = fd.from_pytorch(x, static_sizes=True)
        mean = fd.ops.truediv(fd.ops.sum(t, [0, 2, 3], keepdim=True), 16.0 * 49)
        fd.add_output(fd.ops.sub(t, mean))
    (ours,) = fd.execute([x])
    torch.testing.assert_close(ours, x - x.mean((0, 2, 3), keepdim=True), rtol=2e-5, atol=2e-5)
    (report,) = fd.fec._segment_reports([x])
    assert not re.search(r"[/%] 7\b", report["kernel_text"])


def test_channels_that_lie_within_a_row_are_constants(device: torch.device) -> None:
    """Of a batch norm with open sizes, where another number of them gets another kernel.

    Single elements are loaded right behind the rows."""
    with FusionDefinition() as fd:
        x = fd.define_tensor(shape=[-1, -1, -1], contiguity=True, dtype=DataType.Float)
        weight = fd.define_tensor(shape=[-1], contiguity=True, dtype=DataType.Float)
        var, mean = fd.ops.var_mean(x, [0, 2], 0, True)
        normal = fd.ops.mul(fd.ops.sub(x, mean), fd.ops.rsqrt(fd.ops.add(var, 1e-5)))
        wide = fd.ops.broadcast(weight, [True, False, True])
        fd.add_output(fd.ops.mul(normal, wide))
    for channels in (8, 12):
        t = random([4, channels, 64], torch.float, channels, device)
        w = random([channels], torch.float, 1, device)
        (out,) = fd.execute([t, w])
        expected = torch.nn.functional.batch_norm(t.double(), None, None, w.double(), None, True)
        torch.testing.assert_close(out.double(), expected, atol=1e-5, rtol=1e-5)
        (report,) = (r for r in fd.fec._segment_reports([t, w]) if r["segment_id"] >= 0)
        if report["params"].threads_in_loops:
            continue
        assert report["params"].extents_within_row == [channels]
        text = report["kernel_text"]
        assert "logical_size[1]" not in text
        loads, sums, renewed = (text.find(what) for what in ("= T1[", "Reduce<", "nvf::renew("))
        assert 0 < loads < sums < renewed


def test_long_rows_are_converted_again(device: str) -> None:
    """Elements of 16 bits that would take too many registers as floats beside them."""
    with FusionDefinition() as fd:
        x = fd.define_tensor(shape=[-1, -1], contiguity=True, dtype=DataType.BFloat16)
        wide = fd.ops.cast(x, DataType.Float)
        top = fd.ops.broadcast(fd.ops.max(wide, [1]), [False, True])
        exponential = fd.ops.exp(fd.ops.sub(wide, top))
        total = fd.ops.broadcast(fd.ops.sum(exponential, [1]), [False, True])
        fd.add_output(fd.ops.cast(fd.ops.div(exponential, total), DataType.BFloat16))
    for width in (1024, 65536):
        t = random([4, width], torch.bfloat16, width, device)
        (out,) = fd.execute([t])
        torch.testing.assert_close(out.double(), t.double().softmax(1), atol=1e-3, rtol=1e-2)
        (report,) = (r for r in fd.fec._segment_reports([t]) if r["segment_id"] >= 0)
        params = report["params"]
        elements = params.batches_per_block_inner_reduction * params.unroll_factor_inner_reduction
        if not params.threads_in_loops:
            assert ("nvf::renewWords(" in report["kernel_text"]) == (elements >= 32)
