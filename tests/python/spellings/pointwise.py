# SPDX-License-Identifier: BSD-3-Clause
"""GELU, SwiGLU, rope, and dropout + residual + norm."""

from __future__ import annotations

import math
from typing import Any

import torch

from .family import Math, Tensor, family, gradients, rand, random, sized

N, D = sized((48, 512), (8192, 4096))
ROWS = [N, D]
EPS = 1e-5

# ---- GELU, by tanh

gelu = family(
    "gelu", lambda: [rand(N, D)], lambda x: torch.nn.functional.gelu(x, approximate="tanh")
)
ROOT = math.sqrt(2 / math.pi)
CUBIC = 0.044715


def half_of_tanh(m: Math, x: Any, inner: Any) -> Any:
    return m.b(m.mul(m.mul(x, 0.5), m.add(m.tanh(inner), 1.0)))


@gelu("thunder")
def _(m, x):
    x = m.f(x)
    cube = m.mul(m.mul(x, x), x)
    return half_of_tanh(m, x, m.mul(m.add(x, m.mul(cube, CUBIC)), ROOT))


@gelu("new_gelu")
def _(m, x):
    x = m.f(x)
    return half_of_tanh(m, x, m.mul(ROOT, m.add(x, m.mul(CUBIC, m.pow(x, 3.0)))))


@gelu("halved_at_the_end")
def _(m, x):
    x = m.f(x)
    inner = m.mul(m.add(x, m.mul(m.pow(x, 3), CUBIC)), ROOT)
    return m.b(m.div(m.mul(x, m.add(1.0, m.tanh(inner))), 2.0))


@gelu("factored")
def _(m, x):
    x = m.f(x)
    inner = m.mul(m.mul(x, ROOT), m.add(1.0, m.mul(m.mul(x, CUBIC), x)))
    return half_of_tanh(m, x, inner)


@gelu("casts_at_each_use")
def _(m, x):
    inner = m.mul(m.add(m.f(x), m.mul(m.pow(m.f(x), 3.0), CUBIC)), ROOT)
    return half_of_tanh(m, m.f(x), inner)


@gelu("constants_as_tensors")
def _(m, x):
    x = m.f(x)
    cube = m.mul(m.mul(m.mul(x, x), x), m.full(ROWS, CUBIC))
    return half_of_tanh(m, x, m.mul(m.add(x, cube), m.full(ROWS, ROOT)))


@gelu("sigmoid")
def _(m, x):
    x = m.f(x)
    inner = m.mul(m.mul(ROOT, x), m.add(1.0, m.mul(CUBIC, m.mul(x, x))))
    return m.b(m.mul(x, m.sigmoid(m.mul(2.0, inner))))


@gelu("tanh_of_exponentials")
def _(m, x):
    """As kernels in Triton have it, which has no tanh."""
    x = m.f(x)
    inner = m.mul(m.add(x, m.mul(m.mul(m.mul(x, x), x), CUBIC)), ROOT)
    tanh = m.sub(1.0, m.div(2.0, m.add(m.exp(m.mul(inner, 2.0)), 1.0)))
    return m.b(m.mul(m.mul(0.5, x), m.add(1.0, tanh)))


# ---- SwiGLU

swiglu = family(
    "swiglu",
    lambda: [rand(N, D), rand(N, D, seed=1)],
    lambda x, y: torch.nn.functional.silu(x) * y,
)


@swiglu("thunder")
def _(m, x, y):
    x, y = m.f(x), m.f(y)
    return m.b(m.mul(m.mul(x, m.sigmoid(x)), y))


@swiglu("silu")
def _(m, x, y):
    return m.b(m.mul(m.silu(m.f(x)), m.f(y)))


@swiglu("quotient")
def _(m, x, y):
    x = m.f(x)
    return m.b(m.mul(m.div(x, m.add(m.exp(m.neg(x)), 1.0)), m.f(y)))


@swiglu("reciprocal")
def _(m, x, y):
    x = m.f(x)
    return m.b(m.mul(m.mul(x, m.reciprocal(m.add(1.0, m.exp(m.neg(x))))), m.f(y)))


@swiglu("casts_at_each_use")
def _(m, x, y):
    return m.b(m.mul(m.mul(m.f(x), m.sigmoid(m.f(x))), m.f(y)))


@swiglu("power_of_minus_one")
def _(m, x, y):
    x = m.f(x)
    bottom = m.add(m.full(ROWS, 1.0), m.exp(m.mul(x, -1.0)))
    return m.b(m.mul(m.f(y), m.mul(x, m.pow(bottom, -1.0))))


@swiglu("flat")
def _(m, x, y):
    x, y = (m.f(m.reshape(s, [N * D])) for s in (x, y))
    return m.reshape(m.b(m.mul(m.mul(x, m.sigmoid(x)), y)), ROWS)


@swiglu("tanh")
def _(m, x, y):
    x = m.f(x)
    sigmoid = m.add(m.mul(m.tanh(m.mul(x, 0.5)), 0.5), 0.5)
    return m.b(m.mul(m.mul(x, sigmoid), m.f(y)))


# ---- SwiGLU backward


def swiglu_backward_reference(x: Tensor, y: Tensor, g: Tensor) -> list[Tensor]:
    return gradients(lambda x, y: torch.nn.functional.silu(x) * y, [x, y], g)


swiglu_backward = family(
    "swiglu_backward",
    lambda: [rand(N, D), rand(N, D, seed=1), rand(N, D, seed=2)],
    swiglu_backward_reference,
    4e-2,
)


@swiglu_backward("thunder")
def _(m, x, y, g):
    x, y, g = m.f(x), m.f(y), m.f(g)
    s = m.sigmoid(x)
    slope = m.mul(s, m.add(m.mul(x, m.sub(1.0, s)), 1.0))
    return m.b(m.mul(m.mul(g, y), slope)), m.b(m.mul(g, m.mul(x, s)))


@swiglu_backward("sigmoid_twice")
def _(m, x, y, g):
    x, y, g = m.f(x), m.f(y), m.f(g)
    slope = m.mul(m.sigmoid(x), m.add(m.mul(x, m.sub(1.0, m.sigmoid(x))), 1.0))
    return m.b(m.mul(m.mul(g, y), slope)), m.b(m.mul(g, m.mul(x, m.sigmoid(x))))


@swiglu_backward("inductor")
def _(m, x, y, g):
    s = m.sigmoid(m.f(x))
    inverse = m.sub(m.full(ROWS, 1.0), s)
    slope = m.mul(s, m.add(m.mul(m.f(x), inverse), 1.0))
    return m.b(m.mul(m.mul(m.f(g), m.f(y)), slope)), m.b(m.mul(m.f(g), m.mul(m.f(x), s)))


@swiglu_backward("sum_of_two")
def _(m, x, y, g):
    x, y, g = m.f(x), m.f(y), m.f(g)
    s = m.sigmoid(x)
    f = m.mul(x, s)
    slope = m.add(f, m.mul(s, m.sub(1.0, f)))
    return m.b(m.mul(m.mul(g, y), slope)), m.b(m.mul(g, f))


@swiglu_backward("reciprocal")
def _(m, x, y, g):
    x, y, g = m.f(x), m.f(y), m.f(g)
    s = m.reciprocal(m.add(m.exp(m.neg(x)), 1.0))
    slope = m.mul(s, m.sub(1.0, m.mul(x, m.sub(s, 1.0))))
    return m.b(m.mul(m.mul(y, g), slope)), m.b(m.mul(g, m.mul(s, x)))


@swiglu_backward("negations")
def _(m, x, y, g):
    x, y, g = m.f(x), m.f(y), m.f(g)
    s = m.sigmoid(m.neg(m.neg(x)))
    slope = m.mul(s, m.add(m.mul(x, m.add(m.neg(s), 1.0)), 1.0))
    return m.b(m.mul(m.mul(g, y), slope)), m.b(m.neg(m.mul(m.neg(g), m.mul(x, s))))


# ---- dropout with a given mask, residual, RMS norm: the sum and the normalized sum

KEEP = 0.75


def dropout_inputs() -> list[Tensor]:
    return [rand(N, D), torch.rand(N, D, **random(5)) < KEEP, rand(N, D, seed=1), rand(D, seed=2)]


def dropout_reference(x: Tensor, mask: Tensor, r: Tensor, w: Tensor) -> list[Tensor]:
    s = r + x * (mask != 0) / KEEP
    return [s, s * torch.rsqrt((s * s).mean(-1, keepdim=True) + EPS) * w]


dropout = family("dropout_residual_norm", dropout_inputs, dropout_reference, 4e-2)


def normalized(m: Math, s: Any, w: Any, inverse: Any = None) -> Any:
    inverse = m.rsqrt(m.add(m.mean(m.mul(s, s), [1], D), EPS)) if inverse is None else inverse
    return m.b(s), m.b(m.mul(m.mul(s, inverse), m.spread(m.f(w), ROWS, [1])))


@dropout("thunder")
def _(m, x, mask, r, w):
    dropped = m.mul(m.mul(m.f(x), m.f(mask)), 1 / KEEP)
    return normalized(m, m.add(m.f(r), dropped), w)


@dropout("where")
def _(m, x, mask, r, w):
    dropped = m.where(mask, m.mul(m.f(x), 1 / KEEP), 0.0)
    return normalized(m, m.add(m.f(r), dropped), w)


@dropout("quotient_and_pow")
def _(m, x, mask, r, w):
    s = m.add(m.div(m.mul(m.f(mask), m.f(x)), KEEP), m.f(r))
    inverse = m.pow(m.add(m.mean(m.pow(s, 2.0), [1], D), EPS), -0.5)
    return normalized(m, s, w, inverse)


@dropout("scaled_mask")
def _(m, x, mask, r, w):
    s = m.add(m.f(r), m.mul(m.f(x), m.mul(m.f(mask), 1 / KEEP)))
    return normalized(m, s, w)


@dropout("inverse_of_the_mask")
def _(m, x, mask, r, w):
    dropped = m.where(m.logical_not(mask), m.full(ROWS, 0.0), m.f(x))
    s = m.add(m.f(r), m.div(dropped, m.full(ROWS, KEEP)))
    root = m.sqrt(m.add(m.spread(m.div(m.sum(m.mul(s, s), [1], False), float(D)), ROWS, [0]), EPS))
    return normalized(m, s, w, m.reciprocal(root))


@dropout("casts_at_each_use")
def _(m, x, mask, r, w):
    first = m.add(m.f(r), m.mul(m.mul(m.f(x), m.f(mask)), 1 / KEEP))
    second = m.add(m.f(r), m.mul(m.mul(m.f(x), m.f(mask)), 1 / KEEP))
    inverse = m.rsqrt(m.add(m.mean(m.mul(first, second), [1], D), EPS))
    return normalized(m, first, w, inverse)


@dropout("scale_of_the_mask")
def _(m, x, mask, r, w):
    return normalized(m, m.add(m.mul(m.f(x), m.f(m.where(mask, 1 / KEEP, 0.0))), m.f(r)), w)


@dropout("batch_and_length")
def _(m, x, mask, r, w):
    shape = [N // 8, 8, D]
    x, mask, r = (m.f(m.reshape(s, shape)) for s in (x, mask, r))
    s = m.add(r, m.mul(m.mul(x, mask), 1 / KEEP))
    inverse = m.rsqrt(m.add(m.mean(m.mul(s, s), [2], D), EPS))
    normal = m.b(m.mul(m.mul(s, inverse), m.spread(m.f(w), shape, [2])))
    return m.reshape(m.b(s), ROWS), m.reshape(normal, ROWS)


# ---- rope: x [batch, heads, length, 2 * half], cos and sin of [length, 2 * half]

B, HEADS, LENGTH, HALF = sized((2, 4, 32, 32), (4, 32, 2048, 64))
WHOLE = [B, HEADS, LENGTH, 2 * HALF]


def rope_inputs() -> list[Tensor]:
    angle = torch.outer(torch.arange(LENGTH), 10000.0 ** -(torch.arange(HALF) / HALF))
    angle = torch.cat([angle, angle], -1)
    return [rand(*WHOLE), angle.cos().bfloat16(), angle.sin().bfloat16()]


def rope_reference(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    turned = torch.cat([-x[..., HALF:], x[..., :HALF]], -1)
    return x * cos + turned * sin


rope = family("rope", rope_inputs, rope_reference, 4e-2)


def halves(m: Math, x: Any) -> tuple[Any, Any]:
    first = m.slice(x, [0, 0, 0, 0], [B, HEADS, LENGTH, HALF])
    return first, m.slice(x, [0, 0, 0, HALF], WHOLE)


def angles(m: Math, x: Any) -> Any:
    return m.spread(m.f(x), WHOLE, [2, 3])


@rope("thunder")
def _(m, x, cos, sin):
    x = m.f(x)
    first, second = halves(m, x)
    turned = m.cat([m.neg(second), first], -1)
    return m.b(m.add(m.mul(x, angles(m, cos)), m.mul(turned, angles(m, sin))))


@rope("casts_after_slices")
def _(m, x, cos, sin):
    first, second = halves(m, x)
    turned = m.cat([m.neg(m.f(second)), m.f(first)], -1)
    return m.b(m.add(m.mul(m.f(x), angles(m, cos)), m.mul(turned, angles(m, sin))))


@rope("cast_after_cat")
def _(m, x, cos, sin):
    first, second = halves(m, x)
    turned = m.cat([m.b(m.neg(m.f(second))), first], -1)
    return m.b(m.add(m.mul(m.f(x), angles(m, cos)), m.mul(m.f(turned), angles(m, sin))))


@rope("product_with_minus_one")
def _(m, x, cos, sin):
    x = m.f(x)
    first, second = halves(m, x)
    turned = m.cat([m.mul(second, -1.0), first], -1)
    return m.b(m.add(m.mul(angles(m, sin), turned), m.mul(angles(m, cos), x)))


@rope("halves_of_the_result")
def _(m, x, cos, sin):
    first, second = halves(m, m.f(x))
    cos1, cos2 = halves(m, angles(m, cos))
    sin1, sin2 = halves(m, angles(m, sin))
    left = m.sub(m.mul(first, cos1), m.mul(second, sin1))
    right = m.add(m.mul(second, cos2), m.mul(first, sin2))
    return m.b(m.cat([left, right], -1))


@rope("unsqueezed_angles")
def _(m, x, cos, sin):
    x = m.f(x)
    cos = m.f(m.unsqueeze(cos, [True, True, False, False]))
    sin = m.f(m.unsqueeze(sin, [True, True, False, False]))
    first, second = halves(m, x)
    turned = m.cat([m.neg(second), first], -1)
    return m.b(m.add(m.mul(x, cos), m.mul(turned, sin)))


@rope("pads_and_add")
def _(m, x, cos, sin):
    x = m.f(x)
    first, second = halves(m, x)
    turned = m.add(m.pad(m.neg(second), [0, HALF]), m.pad(first, [HALF, 0]))
    return m.b(m.add(m.mul(x, angles(m, cos)), m.mul(turned, angles(m, sin))))


@rope("rearranged_halves")
def _(m, x, cos, sin):
    """Halves as a dimension that is unbound, as rotate_half of x-transformers has them."""
    x = m.f(x)
    pair = m.reshape(x, [B, HEADS, LENGTH, 2, HALF])
    first = m.slice(pair, [0] * 5, [B, HEADS, LENGTH, 1, HALF])
    second = m.slice(pair, [0, 0, 0, 1, 0], [B, HEADS, LENGTH, 2, HALF])
    turned = m.cat([m.neg(m.squeeze(second, [3])), m.squeeze(first, [3])], -1)
    return m.b(m.add(m.mul(x, angles(m, cos)), m.mul(turned, angles(m, sin))))
