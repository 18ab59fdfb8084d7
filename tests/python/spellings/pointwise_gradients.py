# SPDX-License-Identifier: BSD-3-Clause
"""Gradients of GELU, rope, and dropout + residual + norm."""

from __future__ import annotations

from typing import Any

import torch

from .family import Math, Tensor, family, gradients, rand
from .pointwise import (
    CUBIC,
    EPS,
    HALF,
    KEEP,
    ROOT,
    ROWS,
    WHOLE,
    D,
    N,
    angles,
    dropout_inputs,
    dropout_reference,
    halves,
    rope_inputs,
    rope_reference,
)

# ---- GELU, by tanh


def gelu_backward_reference(x: Tensor, g: Tensor) -> list[Tensor]:
    return gradients(lambda x: torch.nn.functional.gelu(x, approximate="tanh"), [x], g)


gelu_backward = family(
    "gelu_backward", lambda: [rand(N, D), rand(N, D, seed=1)], gelu_backward_reference
)


@gelu_backward("inductor")
def _(m, x, g):
    """torch._decomp's gelu_backward."""
    x, g = m.f(x), m.f(g)
    square = m.mul(x, x)
    tanh = m.tanh(m.mul(ROOT, m.add(x, m.mul(CUBIC, m.mul(square, x)))))
    left, right = m.mul(0.5, x), m.add(1.0, tanh)
    to_tanh = m.sub(1.0, m.mul(tanh, tanh))
    to_inner = m.mul(ROOT, m.add(1.0, m.mul(3 * CUBIC, square)))
    return m.b(m.mul(g, m.add(m.mul(0.5, right), m.mul(m.mul(left, to_tanh), to_inner))))


@gelu_backward("autograd_of_new_gelu")
def _(m, x, g):
    """Gradients of 0.5 * x * (1 + tanh(root * (x + cubic * pow(x, 3)))), operation by operation."""
    x, g = m.f(x), m.f(g)
    tanh = m.tanh(m.mul(ROOT, m.add(x, m.mul(CUBIC, m.pow(x, 3.0)))))
    to_half = m.mul(m.mul(g, m.add(1.0, tanh)), 0.5)
    to_tanh = m.mul(g, m.mul(0.5, x))
    to_sum = m.mul(m.mul(to_tanh, m.sub(1.0, m.pow(tanh, 2.0))), ROOT)
    to_cube = m.mul(m.mul(to_sum, CUBIC), m.mul(m.pow(x, 2.0), 3.0))
    return m.b(m.add(m.add(to_half, to_sum), to_cube))


@gelu_backward("megatron")
def _(m, x, g):
    """bias_gelu_back of Megatron-LM, with its factors multiplied by hand."""
    x, g = m.f(x), m.f(g)
    tanh = m.tanh(m.mul(m.mul(ROOT, x), m.add(1.0, m.mul(m.mul(CUBIC, x), x))))
    to_inner = m.add(ROOT, m.mul(m.mul(3 * ROOT * CUBIC, x), x))
    slope = m.mul(m.mul(0.5, x), m.mul(m.sub(1.0, m.mul(tanh, tanh)), to_inner))
    return m.b(m.mul(m.add(slope, m.mul(0.5, m.add(1.0, tanh))), g))


@gelu_backward("hyperbolic_secant")
def _(m, x, g):
    """As llm.c has it."""
    x, g = m.f(x), m.f(g)
    cube = m.mul(m.mul(m.mul(CUBIC, x), x), x)
    inner = m.mul(ROOT, m.add(x, cube))
    cosh = m.cosh(inner)
    secant = m.div(1.0, m.mul(cosh, cosh))
    slope = m.mul(m.mul(m.mul(x, 0.5), secant), ROOT)
    slope = m.mul(slope, m.add(1.0, m.mul(m.mul(3.0 * CUBIC, x), x)))
    return m.b(m.mul(m.add(m.mul(0.5, m.add(1.0, m.tanh(inner))), slope), g))


@gelu_backward("casts_at_each_use")
def _(m, x, g):
    cube = m.mul(m.mul(m.f(x), m.f(x)), m.f(x))
    tanh = m.tanh(m.mul(m.add(m.f(x), m.mul(cube, CUBIC)), ROOT))
    slope = m.mul(m.add(m.mul(m.mul(m.f(x), m.f(x)), 3 * CUBIC), 1.0), ROOT)
    slope = m.mul(m.mul(slope, m.sub(1.0, m.mul(tanh, tanh))), m.f(x))
    return m.b(m.mul(m.mul(m.add(m.add(tanh, 1.0), slope), m.f(g)), 0.5))


@gelu_backward("sigmoid")
def _(m, x, g):
    x, g = m.f(x), m.f(g)
    inner = m.mul(m.mul(m.mul(2 * ROOT, x), m.add(m.mul(CUBIC, m.mul(x, x)), 1.0)), 1.0)
    s = m.sigmoid(inner)
    to_inner = m.mul(2 * ROOT, m.add(m.mul(3 * CUBIC, m.mul(x, x)), 1.0))
    slope = m.mul(m.mul(x, m.mul(s, m.sub(1.0, s))), to_inner)
    return m.b(m.mul(g, m.add(s, slope)))


@gelu_backward("constants_as_tensors")
def _(m, x, g):
    x, g = m.f(x), m.f(g)
    one, half = m.full(ROWS, 1.0), m.full(ROWS, 0.5)
    cube = m.mul(m.pow(x, 3), m.full(ROWS, CUBIC))
    tanh = m.tanh(m.mul(m.add(x, cube), m.full(ROWS, ROOT)))
    to_inner = m.mul(m.full(ROWS, ROOT), m.add(one, m.mul(m.full(ROWS, 3 * CUBIC), m.pow(x, 2))))
    slope = m.mul(m.mul(m.mul(half, x), m.sub(one, m.pow(tanh, 2))), to_inner)
    return m.b(m.mul(g, m.add(m.mul(half, m.add(one, tanh)), slope)))


# ---- rope: the gradient of what is turned, from that of the result


def rope_backward_inputs() -> list[Tensor]:
    _, cos, sin = rope_inputs()
    return [rand(*WHOLE, seed=1), cos, sin]


def rope_backward_reference(g: Tensor, cos: Tensor, sin: Tensor) -> list[Tensor]:
    return gradients(lambda x: rope_reference(x, cos, sin), [torch.zeros_like(g)], g)


rope_backward = family("rope_backward", rope_backward_inputs, rope_backward_reference, 4e-2)


@rope_backward("thunder")
def _(m, g, cos, sin):
    g = m.f(g)
    first, second = halves(m, m.mul(g, angles(m, sin)))
    turned = m.cat([second, m.neg(first)], -1)
    return m.b(m.add(m.mul(g, angles(m, cos)), turned))


@rope_backward("pads_and_adds")
def _(m, g, cos, sin):
    """Gradients of slices are zeros around them, which autograd adds up."""
    g = m.f(g)
    first, second = halves(m, m.mul(g, angles(m, sin)))
    turned = m.add(m.pad(m.neg(first), [HALF, 0]), m.pad(second, [0, HALF]))
    return m.b(m.add(m.mul(g, angles(m, cos)), turned))


@rope_backward("pads_after_the_rest")
def _(m, g, cos, sin):
    g = m.f(g)
    first, second = halves(m, m.mul(g, angles(m, sin)))
    rest = m.add(m.mul(g, angles(m, cos)), m.pad(second, [0, HALF], 0.0))
    return m.b(m.add(rest, m.pad(m.neg(first), [HALF, 0], 0.0)))


@rope_backward("slices_of_factors")
def _(m, g, cos, sin):
    first, second = halves(m, g)
    sin1, sin2 = halves(m, angles(m, sin))
    turned = m.cat([m.mul(m.f(second), sin2), m.neg(m.mul(m.f(first), sin1))], -1)
    return m.b(m.add(turned, m.mul(m.f(g), angles(m, cos))))


@rope_backward("halves_of_the_result")
def _(m, g, cos, sin):
    first, second = halves(m, m.f(g))
    cos1, cos2 = halves(m, angles(m, cos))
    sin1, sin2 = halves(m, angles(m, sin))
    left = m.add(m.mul(first, cos1), m.mul(second, sin2))
    right = m.sub(m.mul(second, cos2), m.mul(first, sin1))
    return m.b(m.cat([left, right], -1))


@rope_backward("unsqueezed_angles")
def _(m, g, cos, sin):
    cos, sin = (m.f(m.unsqueeze(s, [True, True, False, False])) for s in (cos, sin))
    first, second = halves(m, m.mul(m.f(g), sin))
    return m.b(m.add(m.cat([second, m.mul(first, -1.0)], -1), m.mul(m.f(g), cos)))


@rope_backward("casts_of_halves")
def _(m, g, cos, sin):
    g1, g2 = (m.f(half) for half in halves(m, g))
    cos1, cos2 = (m.f(half) for half in halves(m, m.spread(cos, WHOLE, [2, 3])))
    sin1, sin2 = (m.f(half) for half in halves(m, m.spread(sin, WHOLE, [2, 3])))
    left = m.b(m.add(m.mul(g2, sin2), m.mul(g1, cos1)))
    right = m.b(m.add(m.mul(m.neg(g1), sin1), m.mul(g2, cos2)))
    return m.cat([left, right], -1)


# ---- dropout + residual + RMS norm: gradients of what is dropped, of the residual and of the
# weight, from those of the normalized sum and of the sum itself


def dropout_backward_inputs() -> list[Tensor]:
    x, mask, r, w = dropout_inputs()
    s = (r.float() + x.float() * mask / KEEP).bfloat16()
    return [rand(N, D, seed=3), rand(N, D, seed=4), s, mask, w]


def dropout_backward_reference(
    g: Tensor, to_sum: Tensor, s: Tensor, mask: Tensor, w: Tensor
) -> list[Tensor]:
    def function(x: Tensor, r: Tensor, w: Tensor) -> list[Tensor]:
        return dropout_reference(x, mask, r, w)

    return gradients(function, [torch.zeros_like(s), s, w], [to_sum, g])


dropout_backward = family(
    "dropout_residual_norm_backward", dropout_backward_inputs, dropout_backward_reference, 5e-2
)


def weight(m: Math, w: Any) -> Any:
    return m.spread(m.f(w), ROWS, [1])


def inverse_rms(m: Math, s: Any) -> Any:
    return m.rsqrt(m.add(m.mean(m.mul(s, s), [1], D), EPS))


def of_sum(m: Math, g: Any, to_sum: Any, normal: Any, w: Any, inverse: Any) -> Any:
    """The gradient of the sum from both."""
    gw = m.mul(g, weight(m, w))
    mean = m.mean(m.mul(gw, normal), [1], D)
    return m.add(to_sum, m.mul(inverse, m.sub(gw, m.mul(normal, mean))))


def of_weight(m: Math, g: Any, normal: Any) -> Any:
    return m.b(m.sum(m.mul(g, normal), [0], False))


@dropout_backward("thunder")
def _(m, g, to_sum, s, mask, w):
    g, to_sum, s = m.f(g), m.f(to_sum), m.f(s)
    inverse = inverse_rms(m, s)
    normal = m.mul(s, inverse)
    dr = of_sum(m, g, to_sum, normal, w, inverse)
    dx = m.mul(m.mul(dr, 1 / KEEP), m.f(mask))
    return m.b(dx), m.b(dr), of_weight(m, g, normal)


@dropout_backward("inductor")
def _(m, g, to_sum, s, mask, w):
    """Autograd of pow, mean, rsqrt and the products, one by one."""
    s = m.f(s)
    inverse = m.rsqrt(m.add(m.mean(m.pow(s, 2.0), [1], D), EPS))
    gw = m.mul(m.f(g), weight(m, w))
    to_inverse = m.sum(m.mul(gw, s), [1])
    to_mean = m.mul(m.mul(to_inverse, -0.5), m.pow(inverse, 3.0))
    to_square = m.div(m.spread(to_mean, ROWS, [0, 1]), float(D))
    direct = m.add(m.f(to_sum), m.mul(gw, inverse))
    dr = m.add(direct, m.mul(to_square, m.mul(m.pow(s, 1.0), 2.0)))
    dx = m.mul(dr, m.mul(m.f(mask), 1 / KEEP))
    return m.b(dx), m.b(dr), of_weight(m, m.f(g), m.mul(s, inverse))


@dropout_backward("where")
def _(m, g, to_sum, s, mask, w):
    g, to_sum, s = m.f(g), m.f(to_sum), m.f(s)
    inverse = inverse_rms(m, s)
    normal = m.mul(s, inverse)
    dr = of_sum(m, g, to_sum, normal, w, inverse)
    dx = m.where(mask, m.mul(dr, 1 / KEEP), 0.0)
    return m.b(dx), m.b(dr), of_weight(m, g, normal)


@dropout_backward("inverse_of_the_mask")
def _(m, g, to_sum, s, mask, w):
    g, to_sum, s = m.f(g), m.f(to_sum), m.f(s)
    root = m.sqrt(m.add(m.spread(m.div(m.sum(m.mul(s, s), [1], False), float(D)), ROWS, [0]), EPS))
    inverse = m.reciprocal(root)
    normal = m.div(s, root)
    dr = of_sum(m, g, to_sum, normal, w, inverse)
    dx = m.where(m.logical_not(mask), m.full(ROWS, 0.0), m.div(dr, m.full(ROWS, KEEP)))
    return m.b(dx), m.b(dr), of_weight(m, g, normal)


@dropout_backward("casts_at_each_use")
def _(m, g, to_sum, s, mask, w):
    inverse = m.rsqrt(m.add(m.mean(m.mul(m.f(s), m.f(s)), [1], D), EPS))
    normal = m.mul(m.f(s), inverse)
    dr = of_sum(m, m.f(g), m.f(to_sum), normal, w, inverse)
    dx = m.mul(m.f(mask), m.mul(dr, 1 / KEEP))
    return m.b(dx), m.b(dr), of_weight(m, m.f(g), m.mul(m.f(s), inverse))


@dropout_backward("statistic_twice")
def _(m, g, to_sum, s, mask, w):
    g, to_sum, s = m.f(g), m.f(to_sum), m.f(s)
    first = inverse_rms(m, s)
    second = m.pow(m.add(m.mul(m.sum(m.pow(s, 2), [1]), 1.0 / D), EPS), -0.5)
    dr = of_sum(m, g, to_sum, m.mul(s, first), w, first)
    dx = m.mul(dr, m.f(m.where(mask, 1 / KEEP, 0.0)))
    return m.b(dx), m.b(dr), of_weight(m, g, m.mul(s, second))


@dropout_backward("sum_of_products_negated")
def _(m, g, to_sum, s, mask, w):
    g, to_sum, s = m.f(g), m.f(to_sum), m.f(s)
    inverse = inverse_rms(m, s)
    normal = m.mul(s, inverse)
    gw = m.mul(weight(m, w), g)
    mean = m.neg(m.mul(m.sum(m.mul(gw, normal), [1]), 1.0 / D))
    dr = m.add(m.mul(m.add(gw, m.mul(normal, mean)), inverse), to_sum)
    dx = m.div(m.mul(m.f(mask), dr), KEEP)
    return m.b(dx), m.b(dr), of_weight(m, g, normal)
