# SPDX-License-Identifier: BSD-3-Clause
"""What rewrites into the canonical form change in values: over zeros, infinities, NaN, denormals
and large magnitudes each stays within the bound that docs/canonical_form.md states, of the
definition as it was written, evaluated in float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from helpers import DEVICE
from nvfuse_direct import DataType, FusionDefinition

Tensor = torch.Tensor
INF = math.inf
SPECIAL = [0.0, -0.0, INF, -INF, math.nan, 1.0, -1.0, 2.0, 0.5, -3.0]
TINY = [1e-45, -1e-45, 3e-39, 1.2e-38, -2e-38, 1e-30, 1e-20, -1e-13]
LARGE = [3e38, -3e38, 1e38, 1e30, -1e20, 1.8e19, 1e13, 8.6e37]
DISABLED = [
    "simplify_lookups",
    "merge_parts",
    "fold_constants",
    "simplify_identities",
    "compute_before_broadcasts",
    "simplify_powers",
    "simplify_hyperbolics",
    "share_common_expressions",
    "share_sums",
    "collect_terms",
]
LOG2_E = math.log2(math.e)


def values() -> Tensor:
    generator = torch.Generator().manual_seed(0)
    spread = torch.randn(200, generator=generator, dtype=torch.double)
    scale = torch.randint(-40, 38, (200,), generator=generator).double()
    special = torch.tensor([*SPECIAL, *TINY, *LARGE], dtype=torch.double)
    return torch.cat([special, spread, spread * 10**scale]).float()


def pairs() -> tuple[Tensor, Tensor]:
    """Every value of some with every value of all."""
    x = values()
    few = torch.cat([x[:26], x[-30:]])
    return x.repeat_interleave(len(few)), few.repeat(len(x))


def run(define: Callable[..., Any], inputs: list[Tensor], rewritten: bool) -> Tensor:
    with FusionDefinition() as fd:
        tensors = [fd.define_tensor(shape=[-1], contiguity=True) for _ in inputs]
        fd.add_output(define(fd, *tensors))
    options = [] if rewritten else DISABLED
    (out,) = fd.execute([x.to(DEVICE) for x in inputs], _disable_options=options)
    return out.cpu()


def assert_within(actual: Tensor, expected: Tensor, ulps: float) -> None:
    """`expected` is float64; results beyond float32's range are infinite there."""
    rounded = expected.float()
    assert torch.equal(actual.isnan(), expected.isnan())
    special = rounded.isinf() | (rounded == 0) | expected.isnan()
    # What is rounded to an infinity or to 0 may also stay at the edge.
    edge = torch.where(rounded == 0, 2.0**-149, torch.finfo(torch.float).max)
    at_edge = (actual.double().abs() - edge).abs() <= ulps * 2.0**-22 * edge
    exact = (expected == 0) | expected.isinf() | expected.isnan()
    same = (actual == rounded) | actual.isnan()
    assert bool((same | (special & ~exact & at_edge) | ~special).all())
    assert torch.equal(actual.signbit()[expected == 0], expected.signbit()[expected == 0])
    spacing = 2.0 ** (torch.frexp(expected.abs().clamp(min=2.0**-126))[1].double() - 24)
    error = ((actual.double() - expected).abs() / spacing)[~special]
    error = error[actual.isfinite()[~special]]
    assert float(error.max()) <= ulps, float(error.max())


def power(q: float) -> Callable[..., Any]:
    return lambda fd, x: fd.ops.pow(x, fd.define_scalar(float(q)))


@pytest.mark.parametrize("q", [1, 2, 3, 4, 5, 6, 7, 8, -1, -2, -3, -4, -5])
def test_integral_powers(q: int) -> None:
    """A rounding for each product, and of each of n reciprocals."""
    x = values()
    roundings = max(q - 1, 0.5) if q > 0 else -2 * q - 1
    assert_within(run(power(q), [x], True), x.double() ** q, roundings)


@pytest.mark.parametrize("q", [0.5, 1.5, 2.5, 4.5, 7.5, 8.5, -0.5, -1.5, -2.5, -3.5])
def test_half_integral_powers(q: float) -> None:
    """float64 arithmetic of Python's pow: torch takes the root, which -inf has not."""
    x = values()
    expected = torch.tensor([pow_of(v, q) for v in x.double().tolist()], dtype=torch.double)
    factors = math.trunc(abs(q))
    roundings = factors + 3 if q > 0 else 2 * factors + 3
    assert_within(run(power(q), [x], True), expected, roundings)


def pow_of(x: float, q: float) -> float:
    if x == 0:
        return 0.0 if q > 0 else INF
    try:
        return math.nan if -INF < x < 0 else math.pow(x, q)
    except OverflowError:
        return INF


def halved(o: Any, x: Any) -> Any:
    return o.add(o.mul(x, 0.5), 0.5)


def squared(o: Any, x: Any) -> Any:
    return o.mul(x, x)


UNARY: dict[str, tuple[Callable[..., Any], Callable[[Tensor], Tensor], float]] = {
    "1/sqrt": (lambda o, x: o.reciprocal(o.sqrt(x)), lambda x: 1 / x.sqrt(), 3),
    "1/rsqrt": (lambda o, x: o.reciprocal(o.rsqrt(x)), lambda x: 1 / (1 / x.sqrt()), 3),
    "1/(1/x)": (lambda o, x: o.reciprocal(o.reciprocal(x)), lambda x: 1 / (1 / x), 1),
    "sqrt(x*x)": (lambda o, x: o.sqrt(o.mul(x, x)), lambda x: (x * x).sqrt(), 1),
    "rsqrt(x*x)": (lambda o, x: o.rsqrt(o.mul(x, x)), lambda x: 1 / (x * x).sqrt(), 3),
    "1/cosh^2": (lambda o, x: o.pow(o.cosh(x), -2.0), lambda x: torch.cosh(x) ** -2, 8),
    "1+tanh": (lambda o, x: o.add(o.tanh(x), 1.0), lambda x: 2 * torch.sigmoid(2 * x), 8),
    "1-tanh": (lambda o, x: o.sub(1.0, o.tanh(x)), lambda x: 2 * torch.sigmoid(-2 * x), 8),
    "tanh/2+1/2": (lambda o, x: halved(o, o.tanh(x)), lambda x: torch.sigmoid(2 * x), 8),
    "1-tanh^2": (lambda o, x: o.sub(1.0, squared(o, o.tanh(x))), lambda x: x.cosh() ** -2, 8),
    "exp2(x*log2(e))": (lambda o, x: o.exp2(o.mul(x, LOG2_E)), torch.exp, 3),
    "2**x": (lambda o, x: o.pow(2.0, x), torch.exp2, 3),
    "(1/16)**x": (lambda o, x: o.pow(0.0625, x), lambda x: torch.exp2(-4 * x), 3),
    "exp(x*ln(2))": (lambda o, x: o.exp(o.mul(x, math.log(2))), torch.exp2, 3),
    "log2(x)*ln(2)": (lambda o, x: o.mul(o.log2(x), math.log(2)), torch.log, 3),
    "log(x)*log2(e)": (lambda o, x: o.mul(o.log(x), LOG2_E), torch.log2, 3),
    "-(-x)": (lambda o, x: o.neg(o.neg(x)), lambda x: x, 0),
    "x*1": (lambda o, x: o.mul(x, 1.0), lambda x: x, 0),
    "x*-1": (lambda o, x: o.mul(x, -1.0), lambda x: -x, 0),
    "x-0": (lambda o, x: o.sub(x, 0.0), lambda x: x, 0),
    "x+0": (lambda o, x: o.add(x, 0.0), lambda x: x + 0.0, 0),
    "0-x": (lambda o, x: o.sub(0.0, x), lambda x: 0.0 - x, 0),
    "x+x": (lambda o, x: o.add(x, x), lambda x: x + x, 0),
    "x/8": (lambda o, x: o.div(x, 8.0), lambda x: x / 8, 0.5),
    "x/3": (lambda o, x: o.div(x, 3.0), lambda x: x / 3, 0.5),
    "abs(-x)": (lambda o, x: o.abs(o.neg(x)), lambda x: x.abs(), 0),
    "abs*abs": (lambda o, x: o.mul(o.abs(x), o.abs(x)), lambda x: x * x, 0.5),
}


class Numbers:
    """fd.ops with Python numbers."""

    def __init__(self, fd: FusionDefinition) -> None:
        self.fd = fd

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*operands: Any) -> Any:
            made = [self.fd.define_scalar(v) if isinstance(v, float) else v for v in operands]
            return getattr(self.fd.ops, name)(*made)

        return call


@pytest.mark.parametrize("name", UNARY)
def test_chains(name: str) -> None:
    define, reference, ulps = UNARY[name]
    x = values()
    actual = run(lambda fd, t: define(Numbers(fd), t), [x], True)
    assert_within(actual, reference(x.double()), ulps)


# Of dividends below 2^-100 GPUs have quotients within 3 (docs/lowering.md).
QUOTIENT = 3 if DEVICE.type == "cuda" else 1
BINARY: dict[str, tuple[Callable[..., Any], Callable[..., Tensor], float]] = {
    "x/sqrt(y)": (lambda o, x, y: o.div(x, o.sqrt(y)), lambda x, y: x / y.sqrt(), 3),
    "x/rsqrt(y)": (lambda o, x, y: o.div(x, o.rsqrt(y)), lambda x, y: x / (1 / y.sqrt()), 3),
    "x/(1/y)": (lambda o, x, y: o.div(x, o.reciprocal(y)), lambda x, y: x / (1 / y), 1),
    "1/(x/y)": (lambda o, x, y: o.reciprocal(o.div(x, y)), lambda x, y: 1 / (x / y), QUOTIENT),
    "x--y": (lambda o, x, y: o.sub(x, o.neg(y)), lambda x, y: x + y, 0.5),
    "-x+y": (lambda o, x, y: o.add(o.neg(x), y), lambda x, y: y - x, 0.5),
    "-x*-y": (lambda o, x, y: o.mul(o.neg(x), o.neg(y)), lambda x, y: x * y, 0.5),
}


@pytest.mark.parametrize("name", BINARY)
def test_chains_of_two(name: str) -> None:
    define, reference, ulps = BINARY[name]
    x, y = pairs()
    actual = run(lambda fd, s, t: define(Numbers(fd), s, t), [x, y], True)
    assert_within(actual, reference(x.double(), y.double()), ulps)


MASKS: dict[str, Callable[..., Any]] = {
    "1-mask": lambda o, m: o.sub(1.0, m),
    "(1-mask)*-1e4": lambda o, m: o.mul(o.sub(1.0, m), -1e4),
    "mask*-0.0": lambda o, m: o.mul(m, -0.0),
    "mask==0": lambda o, m: o.fd.ops.cast(o.eq(m, 0.0), DataType.Float),
    "mask>0.5": lambda o, m: o.fd.ops.cast(o.gt(m, 0.5), DataType.Float),
    "mask+inf": lambda o, m: o.add(m, INF),
}


@pytest.mark.parametrize("name", MASKS)
def test_masks(name: str) -> None:
    """Bit by bit what they were."""
    x = values()

    def define(fd: FusionDefinition, t: Any) -> Any:
        mask = fd.ops.cast(fd.ops.gt(t, fd.define_scalar(0.0)), DataType.Float)
        return MASKS[name](Numbers(fd), mask)

    rewritten, plain = run(define, [x], True), run(define, [x], False)
    assert torch.equal(rewritten.view(torch.int32), plain.view(torch.int32))


def test_a_factor_is_not_cancelled() -> None:
    """x * y / y is NaN where y is 0 or infinite."""
    x, y = pairs()
    actual = run(lambda fd, s, t: fd.ops.div(fd.ops.mul(s, t), t), [x, y], True)
    plain = run(lambda fd, s, t: fd.ops.div(fd.ops.mul(s, t), t), [x, y], False)
    assert torch.equal(actual.isnan(), plain.isnan())


def test_rounding_to_bfloat16_stays() -> None:
    x = values()

    def define(fd: FusionDefinition, t: Any) -> Any:
        return fd.ops.cast(fd.ops.cast(t, DataType.BFloat16), DataType.Float)

    actual, expected = run(define, [x], True), x.bfloat16().float()
    assert torch.equal(actual.isnan(), expected.isnan())
    assert torch.equal(actual[~actual.isnan()], expected[~expected.isnan()])


def test_sums_of_products_with_shared_factors() -> None:
    """Infinities and NaN of the terms come where they came; the sum of products is as exact."""
    generator = torch.Generator().manual_seed(1)
    g, x = (torch.randn(64, 8, generator=generator) for _ in range(2))
    w, r = (torch.randn(8, generator=generator) * 10 ** torch.arange(-4.0, 4.0) for _ in range(2))
    w[3] = 0.0
    g[5, 1], g[6, 2], g[7, 4] = INF, -INF, math.nan

    def outputs(**options: Any) -> list[Tensor]:
        with FusionDefinition() as fd:
            g_, x_ = (fd.define_tensor(shape=[-1, -1], contiguity=True) for _ in range(2))
            w_, r_ = (
                fd.ops.broadcast(fd.define_tensor(shape=[-1], contiguity=True), [True, False])
                for _ in range(2)
            )
            gw = fd.ops.mul(g_, w_)
            for each in (gw, fd.ops.mul(gw, fd.ops.mul(x_, r_)), g_, fd.ops.mul(g_, x_)):
                fd.add_output(fd.ops.sum(each, [0]))
        return [out.cpu() for out in fd.execute([t.to(DEVICE) for t in (g, x, w, r)], **options)]

    d, y, v, s = (t.double() for t in (g, x, w, r))
    expected = [(d * v).sum(0), (d * v * y * s).sum(0), d.sum(0), (d * y).sum(0)]
    terms = [(d * v).abs(), (d * v * y * s).abs(), d.abs(), (d * y).abs()]
    for actual, wanted, each in zip(outputs(), expected, terms, strict=True):
        assert torch.equal(actual.isnan(), wanted.isnan())
        finite = wanted.isfinite()
        assert torch.equal(
            actual[~finite & ~wanted.isnan()], wanted.float()[~finite & ~wanted.isnan()]
        )
        error = (actual.double() - wanted).abs()[finite]
        assert bool((error <= 1e-6 * each.sum(0)[finite]).all())
    plain = outputs(_disable_options=DISABLED)
    for actual, other in zip(outputs(), plain, strict=True):
        torch.testing.assert_close(actual, other, rtol=1e-4, atol=1e-3, equal_nan=True)


def test_terms_with_factors_of_rows() -> None:
    """A gradient of a normalization: each term is rounded a few times, whatever is left of them."""
    generator = torch.Generator().manual_seed(2)
    g, x = (torch.randn(64, 40, generator=generator) for _ in range(2))
    g += 10 ** torch.linspace(-3, 4, 64)[:, None]
    r = torch.rand(64, 1, generator=generator) * 10 ** torch.linspace(4, -4, 64)[:, None]
    g[5, 1], g[6, 2], x[7, 4], r[8] = INF, -INF, math.nan, 0.0

    def gradient(o: Any, g: Any, x: Any, r: Any) -> Any:
        normal = o.mul(x, r)
        sums = (o.sum(g, [1], True), o.sum(o.mul(g, normal), [1], True))
        a, b = (o.mul(each, 1 / 40) for each in sums)
        return o.mul(o.sub(o.sub(g, a), o.mul(normal, b)), r)

    def run(**options: Any) -> Tensor:
        with FusionDefinition() as fd:
            tensors = [fd.define_tensor(shape=s, contiguity=True) for s in ([64, 40], [64, 40])]
            tensors.append(fd.define_tensor(shape=[64, 1], contiguity=[True, None]))
            fd.add_output(gradient(fd.ops, *tensors))
        (out,) = fd.execute([t.to(DEVICE) for t in (g, x, r)], **options)
        return out.cpu()

    class Doubles:
        mul, sub = torch.mul, torch.sub

        @staticmethod
        def sum(t: Tensor, dims: list[int], keepdim: bool) -> Tensor:
            return t.sum(dims, keepdim)

    d, y, s = (t.double() for t in (g, x, r))
    expected = gradient(Doubles, d, y, s)
    normal = y * s
    terms = d.abs() + d.abs().mean(1, True) + normal.abs() * (d * normal).abs().mean(1, True)
    for actual in (run(), run(_disable_options=DISABLED)):
        assert torch.equal(actual.isnan(), expected.isnan())
        finite = expected.isfinite()
        infinite = ~finite & ~expected.isnan()
        assert torch.equal(actual[infinite], expected[infinite].float())
        error = (actual.double() - expected).abs()
        assert bool((error <= 1e-6 * terms * s)[finite].all())


def test_random_numbers_are_not_shared() -> None:
    with FusionDefinition() as fd:
        first = fd.ops.uniform(0.0, 1.0, [64], dtype=DataType.Float)
        second = fd.ops.uniform(0.0, 1.0, [64], dtype=DataType.Float)
        fd.add_output(fd.ops.sub(first, second))
    (difference,) = fd.execute([], device=DEVICE)
    assert bool((difference != 0).any())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.double, torch.int64])
def test_gates_of_other_types(dtype: torch.dtype) -> None:
    """A gelu by tanh, and its gate alone, of what is not cast before."""
    x = torch.arange(-12, 13, device=DEVICE).to(dtype)
    with FusionDefinition() as fd:
        tv, numbers = fd.from_pytorch(x), Numbers(fd)
        t = fd.ops.tanh(numbers.mul(tv, 0.75))
        fd.add_output(fd.ops.mul(tv, halved(numbers, t)))
        fd.add_output(halved(numbers, fd.ops.tanh(tv)))
    gelu, gate = fd.execute([x])
    torch.testing.assert_close(
        gelu.double(), x * torch.sigmoid(1.5 * x.double()), rtol=1e-5, atol=0
    )
    torch.testing.assert_close(gate.double(), torch.sigmoid(2 * x.double()), rtol=1e-5, atol=0)
