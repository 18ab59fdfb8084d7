# SPDX-License-Identifier: BSD-3-Clause
"""Reductions and statistics against float64 torch: dtype x axes x shape class x memory order.

Cases of one dtype and shape share a fusion as outputs, because kernels cost more to compile than to
run. Bounds: a sum of n terms in a dtype with unit u may be off by n * u * sum(|x|), whatever the
order of summation; large ones by sqrt(n) * u * sum(|x|) / 2, as roundings are in either direction.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import nvfuse_direct
import pytest
import torch
from helpers import DEVICE, EPSILON, LONG, define, difference
from nvfuse_direct import DataType, FusionDefinition

Tensor = torch.Tensor

FLOATS = (torch.float, torch.double, torch.half, torch.bfloat16)
INTS = (torch.int64, torch.int32, torch.bool)
COMPLEX = (torch.complex64, torch.complex128)

OPS = ("sum", "prod", "max", "min")
MEAN_DTYPE = {torch.half: torch.float, torch.bfloat16: torch.float}


def values(sizes: Sequence[int], dtype: torch.dtype, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed + 7 * len(sizes))
    if dtype in INTS:
        return torch.randint(-3, 4, tuple(sizes), generator=generator).to(dtype).to(DEVICE)
    # Near 1, so that products neither vanish nor overflow.
    x = 1 + 0.25 * torch.randn(tuple(sizes), generator=generator, dtype=torch.double)
    if dtype in COMPLEX:
        x = torch.complex(x, 0.25 * torch.randn(tuple(sizes), generator=generator).double())
    return x.to(dtype).to(DEVICE)


def wide(x: Tensor) -> Tensor:
    x = x.cpu()
    if x.dtype.is_complex:
        return x.to(torch.complex128)
    return x.double() if x.is_floating_point() else x.long()


def result_dtype(op: str, dtype: torch.dtype) -> torch.dtype:
    if op in ("sum", "prod"):
        return torch.int64 if dtype in INTS else dtype
    return dtype


def reference(op: str, x: Tensor, dims: Sequence[int], keepdim: bool) -> Tensor:
    x = wide(x)
    dims = tuple(d % max(x.dim(), 1) for d in dims)
    if x.dim() == 0:
        return x
    if op == "sum":
        return x.sum(dims, keepdim=keepdim)
    if op == "prod":
        for d in sorted(dims, reverse=True):
            x = x.prod(d, keepdim=keepdim)
        return x
    if math.prod(x.shape[d] for d in dims) == 0:
        sizes = [1 if d in dims else n for d, n in enumerate(x.shape) if keepdim or d not in dims]
        limit = math.inf if op == "min" else -math.inf
        return torch.full(sizes, limit, dtype=torch.double)
    return (torch.amax if op == "max" else torch.amin)(x, dims, keepdim=keepdim)


def bound(op: str, x: Tensor, dims: Sequence[int], keepdim: bool, dtype: torch.dtype) -> Tensor:
    """Largest error of a correct result, element by element."""
    zero = torch.zeros((), dtype=torch.double)
    if dtype not in EPSILON or x.dim() == 0 or op in ("max", "min"):
        return zero
    accumulate = {torch.double: 2.0**-52, torch.complex128: 2.0**-51}.get(x.dtype, 2.0**-22)
    dims = tuple(d % x.dim() for d in dims)
    count = math.prod(x.shape[d] for d in dims)
    exact = reference(op, x, dims, keepdim).abs().double()
    total = wide(x).abs().sum(dims, keepdim=keepdim).double() if op == "sum" else exact
    tiny = torch.finfo(dtype).smallest_normal
    return count * accumulate * total + 2 * EPSILON[dtype] * exact + EPSILON[dtype] * tiny


def mismatch(op: str, out: Tensor, x: Tensor, dims: Sequence[int], keepdim: bool) -> str | None:
    dtype = result_dtype(op, x.dtype)
    expected = reference(op, x, dims, keepdim)
    if out.dtype != dtype:
        return f"dtype {out.dtype}, expected {dtype}"
    if out.shape != expected.shape:
        return f"shape {tuple(out.shape)}, expected {tuple(expected.shape)}"
    got = wide(out)
    if expected.is_floating_point() and not got.is_floating_point():
        return None  # the limits of integers, over no elements
    if dtype == torch.bool:
        expected = expected.bool().long()
    wrong = ~((got - expected).abs() <= bound(op, x, dims, keepdim, dtype))
    wrong &= ~(got == expected)
    if expected.is_floating_point():
        wrong &= ~(got.isnan() & expected.isnan())
    if not bool(wrong.any()):
        return None
    at = tuple(wrong.nonzero()[0].tolist())
    return f"{int(wrong.sum())} of {wrong.numel()} differ, at {at} {got[at]}, not {expected[at]}"


def axis_patterns(rank: int) -> list[list[int]]:
    if rank == 0:
        return [[0]]
    dims = range(rank)
    return [list(c) for n in dims for c in itertools.combinations(dims, n + 1)]


def check(x: Tensor, ops: Sequence[str], static: bool = False) -> list[str]:
    """One fusion with every op and axis pattern; messages of what is wrong."""
    cases = [
        (op, dims, (i + len(dims)) % 2 == 0)
        for i, op in enumerate(ops)
        for dims in axis_patterns(x.dim())
    ]

    def definition(fd: FusionDefinition) -> None:
        t = fd.from_pytorch(x, static_sizes=static)
        for op, dims, keepdim in cases:
            fd.add_output(getattr(fd.ops, op)(t, dims, keepdim=keepdim and x.dim() > 0))

    outs = define(definition).execute([x], device=DEVICE)
    found = []
    for (op, dims, keepdim), out in zip(cases, outs, strict=True):
        message = mismatch(op, out, x, dims, keepdim and x.dim() > 0)
        if message is not None:
            found.append(f"{op} {dims} of {x.dtype} {tuple(x.shape)} {x.stride()}: {message}")
    return found


def ops_of(dtype: torch.dtype) -> tuple[str, ...]:
    return OPS[:2] if dtype in COMPLEX else OPS


@pytest.mark.parametrize("dtype", [*FLOATS, *INTS, *COMPLEX], ids=str)
def test_every_dtype(dtype: torch.dtype) -> None:
    assert not check(values([6, 70], dtype), ops_of(dtype))


SHAPES = [[], [1], [37], [300], [4, 1, 33], [3, 5, 7], [2, 64], [1, 1], [129, 3]]


@pytest.mark.parametrize("sizes", SHAPES, ids=str)
def test_every_axis_pattern(sizes: list[int]) -> None:
    assert not check(values(sizes, torch.float), ("sum", "max"), static=len(sizes) % 2 == 0)


@pytest.mark.parametrize("sizes", [[0], [0, 3], [3, 0], [0, 0], [2, 0, 3]], ids=str)
def test_no_elements(sizes: list[int]) -> None:
    for dtype in (torch.float, torch.int64):
        for static in (False, True):
            assert not check(values(sizes, dtype), OPS, static)


def memory_orders() -> list[Tensor]:
    x = values([5, 6, 34], torch.float)
    padded = values([7, 8, 40], torch.float)
    return [
        x.permute(2, 0, 1),
        x.permute(1, 0, 2),
        padded[1:6, ::2, 3:36],
        padded[:, :, ::2],
        values([5, 1, 34], torch.float).expand(5, 6, 34),
        values([1, 1, 34], torch.float).expand(5, 6, 34),
        values([5, 6, 1], torch.float).expand(5, 6, 34),
        padded.flatten()[1:].as_strided((4, 9), (9, 1)),
    ]


@pytest.mark.parametrize("number", range(8))
def test_memory_orders(number: int) -> None:
    x = memory_orders()[number]
    assert not check(x, ("sum", "min"))


def test_nan_and_infinities() -> None:
    x = values([4, 50], torch.float)
    x[0, 7], x[1, 3], x[2, 2], x[2, 4] = math.nan, math.inf, math.inf, -math.inf
    for dtype in (torch.float, torch.half):
        assert not check(x.to(dtype), OPS)


def test_dtype_argument() -> None:
    x = values([5, 40], torch.int32)
    pairs = [(DataType.Float, torch.float), (DataType.Double, torch.double)]
    pairs += [
        (DataType.Half, torch.half),
        (DataType.Int32, torch.int32),
        (DataType.Bool, torch.bool),
    ]

    def definition(fd: FusionDefinition) -> None:
        t = fd.from_pytorch(x)
        for dtype, _ in pairs:
            fd.add_output(fd.ops.sum(t, 1, dtype=dtype))
            fd.add_output(fd.ops.sum(t, dtype))

    outs = define(definition).execute([x], device=DEVICE)
    for k, (_, dtype) in enumerate(pairs):
        for out, dims in ((outs[2 * k], (1,)), (outs[2 * k + 1], (0, 1))):
            expected = x.bool().any(1 if len(dims) == 1 else None) if dtype == torch.bool else None
            if expected is None:
                expected = x.long().sum(dims).to(dtype)
            elif len(dims) == 2:
                expected = x.bool().any()
            assert difference(out, expected, rtol=1e-3) is None


# ---- statistics


def statistics(x: Tensor, dims: list[int], correction: int, keepdim: bool) -> list[Tensor]:
    """var, (var, mean) by Welford, (mean, M2, n)."""
    small = x.dtype in MEAN_DTYPE

    def definition(fd: FusionDefinition) -> None:
        t = fd.from_pytorch(x)
        o = fd.ops
        fd.add_output(o.var(t, dims, correction, keepdim))
        t = o.cast(t, DataType.Float) if small else t
        for out in o.var_mean(t, dims, correction=correction, keepdim=keepdim):
            fd.add_output(out)
        if not x.dtype.is_complex:
            for out in o.welford(t, dims):
                fd.add_output(out)

    return define(definition).execute([x], device=DEVICE)


@pytest.mark.parametrize("dtype", [*FLOATS, torch.complex64], ids=str)
@pytest.mark.parametrize(
    ("sizes", "dims"),
    [([6, 70], [1]), ([70, 6], [0]), ([3, 4, 9], [0, 2]), ([50], [0]), ([5, 1, 8], [1, 2])],
    ids=str,
)
def test_variance(dtype: torch.dtype, sizes: list[int], dims: list[int]) -> None:
    x = values(sizes, dtype)
    exact = wide(x)
    tolerance = 1e-5 if dtype != torch.double else 1e-12
    for correction, keepdim in ((1, False), (0, True)):
        var, mean = torch.var_mean(exact, dims, correction=correction, keepdim=keepdim)
        outs = statistics(x, dims, correction, keepdim)
        assert torch.allclose(wide(outs[0]), var, rtol=tolerance), "var"
        assert torch.allclose(wide(outs[1]), var, rtol=tolerance), "var of var_mean"
        assert torch.allclose(wide(outs[2]), mean, rtol=tolerance), "mean"
        if len(outs) > 3:
            count = math.prod(sizes[d] for d in dims)
            assert torch.allclose(wide(outs[3]), exact.mean(dims), rtol=tolerance)
            squares = exact.var(dims, correction=0) * count
            assert torch.allclose(wide(outs[4]), squares, rtol=tolerance)
            assert outs[5].dtype == torch.int64
            assert bool((outs[5] == count).all())


def test_variance_of_few_and_of_no_elements() -> None:
    for sizes in ([3, 1], [3, 0]):
        x = values(sizes, torch.float)
        var, mean = torch.var_mean(x.double().cpu(), [1], correction=1)
        outs = statistics(x, [1], 1, False)
        for out, expected in zip(outs[:3], (var, var, mean), strict=True):
            assert difference(out.double(), expected, rtol=1e-6) is None
    row = values([3, 1], torch.float).expand(3, 8)
    outs = statistics(row, [1], 1, False)
    assert torch.allclose(outs[2], row[:, 0])
    assert float(outs[0].abs().max()) < 1e-12
    assert float(outs[1].abs().max()) < 1e-12


def test_variance_far_from_zero() -> None:
    """A sum of squares minus a squared sum would have no digit left."""
    x = (values([4, 500], torch.float).double() + 1e4).float()
    exact = x.double().cpu().var(1)
    outs = statistics(x, [1], 1, False)
    assert torch.allclose(outs[0].double().cpu(), exact, rtol=2e-3)
    assert torch.allclose(outs[1].double().cpu(), exact, rtol=2e-3)


# ---- neighbours, sizes, repeats


def execute(define_outputs: Callable, *inputs: Tensor) -> list[Tensor]:
    def definition(fd: FusionDefinition) -> None:
        for out in define_outputs(fd, *(fd.from_pytorch(x) for x in inputs)):
            fd.add_output(out)

    return define(definition).execute(list(inputs), device=DEVICE)


def test_normalizations() -> None:
    for sizes in ([4, 96], [33, 257], [2, 3, 40]):
        for dtype in (torch.float, torch.bfloat16):
            x = values(sizes, dtype)

            def outputs(fd, t):
                o = fd.ops
                t = o.cast(t, DataType.Float)
                greatest = o.max(t, -1, keepdim=True)
                e = o.exp(o.sub(t, greatest))
                softmax = o.div(e, o.sum(e, -1, keepdim=True))
                var, mean = o.var_mean(t, [-1], correction=0, keepdim=True)
                norm = o.mul(o.sub(t, mean), o.rsqrt(o.add(var, 1e-5)))
                squares = o.sum(o.mul(t, t), [-1], keepdim=True)
                rms = o.mul(t, o.rsqrt(o.div(squares, t.size(-1))))
                return softmax, norm, rms

            softmax, norm, rms = execute(outputs, x)
            exact = x.double()
            size = sizes[-1:]
            assert torch.allclose(softmax.double(), exact.softmax(-1), rtol=1e-5, atol=1e-7)
            expected = torch.nn.functional.layer_norm(exact, size)
            assert torch.allclose(norm.double(), expected, rtol=1e-4, atol=1e-4)
            expected = exact * exact.square().mean(-1, keepdim=True).rsqrt()
            assert torch.allclose(rms.double(), expected, rtol=1e-5)


def test_reductions_of_reductions_and_shapes() -> None:
    x = values([4, 6, 10], torch.float)

    def outputs(fd, t):
        o = fd.ops
        rows = o.sum(t, 2)
        flat = o.reshape(t, [24, 10])
        return (
            o.max(rows, 1),
            o.sum(o.mul(rows, 2.0)),
            o.sum(flat, 0),
            o.sum(o.permute(t, [2, 0, 1]), [1]),
            o.sum(o.slice(t, [0, 1, 2], [4, 5, 9]), [0, 2]),
            o.add(o.broadcast_in_dim(rows, [4, 6, 10], [0, 1]), t),
        )

    rows = x.sum(2)
    expected = [
        rows.amax(1),
        (2 * rows).sum(),
        x.sum([0, 1]),
        x.permute(2, 0, 1).sum(1),
        x[:, 1:5, 2:9].sum([0, 2]),
        rows[..., None] + x,
    ]
    for k, (out, want) in enumerate(zip(execute(outputs, x), expected, strict=True)):
        assert difference(out, want, rtol=1e-5) is None, k


def test_a_reduced_dimension_that_turns_out_to_be_one() -> None:
    def definition(fd: FusionDefinition) -> None:
        t = fd.define_tensor(shape=[-1, -1], contiguity=True)
        r = fd.ops.reshape(t, [t.size(1), t.size(0)])
        fd.add_output(fd.ops.sum(r, 0))
        fd.add_output(fd.ops.var_mean(r, [1], correction=0)[0])

    fd = define(definition)
    for sizes in ([3, 4], [1, 4], [4, 1], [1, 1], [0, 4], [4, 0]):
        x = values(sizes, torch.float)
        r = x.reshape(x.shape[::-1])
        total, var = fd.execute([x], device=DEVICE)
        assert difference(total, r.sum(0), rtol=1e-5) is None, sizes
        assert difference(var, r.var(1, correction=0), rtol=1e-4, atol=1e-6) is None, sizes


LARGE = [([1 << 20], [0]), ([64, 40_000], [1]), ([40_000, 64], [0]), ([100, 100, 100], [0, 2])]


@pytest.mark.parametrize(("sizes", "dims"), LARGE, ids=str)
def test_large_sums_and_repeats(sizes: list[int], dims: list[int]) -> None:
    """Small errors, and ten runs give the same bits."""
    x = (torch.rand(sizes, generator=torch.Generator().manual_seed(1)) - 0.3).to(DEVICE)

    def definition(fd: FusionDefinition) -> None:
        t = fd.from_pytorch(x)
        fd.add_output(fd.ops.sum(t, dims))
        for out in fd.ops.var_mean(t, dims):
            fd.add_output(out)

    fd = define(definition)
    first = fd.execute([x], device=DEVICE)
    count = math.prod(sizes[d] for d in dims)
    exact = x.double()
    error = (first[0].double() - exact.sum(dims)).abs()
    allowed = math.sqrt(count) * 2.0**-23 * exact.abs().sum(dims) / 2
    assert bool((error <= allowed).all()), float((error / allowed).max())
    var, mean = torch.var_mean(exact, dims)
    assert torch.allclose(first[1].double(), var, rtol=1e-4)
    assert torch.allclose(first[2].double(), mean, rtol=1e-4)
    for _ in range(9 if not LONG else 99):
        for a, b in zip(fd.execute([x], device=DEVICE), first, strict=True):
            assert torch.equal(a, b)


@pytest.mark.parametrize("dim", [0, 1])
def test_what_meets_a_reduction_over_the_grid(dim: int) -> None:
    """Operands that do not depend on it, and other reductions, whose last blocks may differ."""
    sizes = [3, 200_000] if dim == 1 else [200_000, 3]
    x, y = values(sizes, torch.float), values(sizes, torch.float, seed=1)
    factor = values([3], torch.float, seed=2)

    def definition(fd: FusionDefinition) -> None:
        a, b, c = (fd.from_pytorch(tensor) for tensor in (x, y, factor))
        total = fd.ops.sum(a, [dim])
        fd.add_output(fd.ops.mul(total, fd.ops.exp(c)))
        fd.add_output(fd.ops.mul(total, fd.ops.max(a, [dim])))
        fd.add_output(fd.ops.mul(total, fd.ops.max(b, [dim])))

    results = define(definition).execute([x, y, factor], device=DEVICE)
    total = x.double().sum(dim)
    for result, other in zip(results, (factor.exp(), x.amax(dim), y.amax(dim)), strict=True):
        assert torch.allclose(result.double(), total * other, rtol=1e-5)


def test_a_long_chain_before_a_normalization() -> None:
    """Each add reads the one before twice: what is cheap must not be looked for along all paths."""
    x = values([8, 64], torch.float)

    def definition(fd: FusionDefinition) -> None:
        t = fd.from_pytorch(x)
        for _ in range(60):
            t = fd.ops.mul(fd.ops.add(t, t), 0.5)
        fd.add_output(fd.ops.sub(t, fd.ops.max(t, [1], keepdim=True)))

    (out,) = define(definition).execute([x], device=DEVICE)
    assert torch.equal(out, x - x.amax(1, keepdim=True))


@pytest.mark.parametrize("sizes", [(0, 0), (0, 3), (3, 0), (1, 0)])
def test_sums_of_sums_of_nothing(sizes: tuple[int, int]) -> None:
    """Every intermediate tensor may be empty; the last sum has elements all the same."""
    x = torch.ones(1, *sizes, device=DEVICE)
    for dims in ([1, 2], [2, 1]):
        with FusionDefinition() as fd:
            t = fd.from_pytorch(x)
            for dim in dims:
                t = fd.ops.sum(t, [dim], keepdim=True)
            fd.add_output(fd.ops.max(fd.ops.sum(t, [1, 2], keepdim=True), [2]))
        (total,) = fd.execute([x])
        assert total.tolist() == [[0.0]]


@pytest.mark.machine("hopper")
@pytest.mark.parametrize("channels", [1, 3])
def test_columns_of_a_few_elements(channels: int) -> None:
    """The colours of pixels: threads run along rows, as those along columns would be far apart."""
    x = torch.randn(6, 300, 4, device=DEVICE)
    w = torch.randn(6, 300, device=DEVICE)
    with FusionDefinition() as fd:
        o = fd.ops
        tx, tw = (fd.from_pytorch(t, static_sizes=True) for t in (x, w))
        colours = o.slice(tx, [0, 0, 0], [6, 300, channels])
        fd.add_output(o.sum(o.mul(colours, o.broadcast(tw, [False, False, True])), [1]))
    (out,) = fd.execute([x, w])
    expected = (x[..., :channels] * w.unsqueeze(-1)).sum(1)
    torch.testing.assert_close(out, expected, rtol=1e-5, atol=1e-4)
    (kernel,) = nvfuse_direct.explain(fd, [x, w], measure=False).segments
    assert kernel.parameters["fastest_dim"]
