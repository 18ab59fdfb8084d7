# SPDX-License-Identifier: BSD-3-Clause
"""RMS norm and layer norm, forward and backward."""

from __future__ import annotations

from typing import Any

import torch

from .family import Math, Tensor, family, gradients, rand, sized

# ---- RMS norm

N, D = sized((48, 512), (8192, 4096))
ROWS = [N, D]
SEQUENCES = [N // 8, 8, D]  # a batch of sequences
EPS = 1e-5


def rms_reference(x: Tensor, w: Tensor) -> Tensor:
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + EPS) * w


rms = family("rms_norm", lambda: [rand(N, D), rand(D, seed=1)], rms_reference)


def weight(m: Math, w: Any) -> Any:
    return m.spread(m.f(w), ROWS, [1])


@rms("thunder")
def _(m, x, w):
    x = m.f(x)
    s = m.add(m.mean(m.mul(x, x), [1], D), EPS)
    return m.b(m.mul(m.mul(x, m.rsqrt(s)), weight(m, w)))


@rms("llama_pow")
def _(m, x, w):
    x = m.f(x)
    s = m.add(m.mean(m.pow(x, 2.0), [1], D), EPS)
    return m.b(m.mul(m.mul(x, m.rsqrt(s)), weight(m, w)))


@rms("reciprocal_of_broadcast_root")
def _(m, x, w):
    x = m.f(x)
    s = m.add(m.div(m.sum(m.pow(x, 2.0), [1], False), float(D)), EPS)
    root = m.spread(m.sqrt(s), ROWS, [0])
    return m.b(m.mul(m.mul(x, m.reciprocal(root)), weight(m, w)))


@rms("quotient")
def _(m, x, w):
    x = m.f(x)
    s = m.sqrt(m.add(m.mul(m.sum(m.mul(x, x), [1]), 1.0 / D), EPS))
    return m.b(m.mul(m.div(x, s), weight(m, w)))


@rms("power_of_minus_half")
def _(m, x, w):
    x = m.f(x)
    s = m.spread(m.div(m.sum(m.mul(x, x), [1], False), float(D)), ROWS, [0])
    return m.b(m.mul(weight(m, w), m.mul(m.pow(m.add(s, EPS), -0.5), x)))


@rms("weight_in_bfloat_rows")
def _(m, x, w):
    wide = m.f(m.spread(w, ROWS, [1]))
    scale = m.spread(m.full([N], 1.0 / D), ROWS, [0])
    total = m.spread(m.sum(m.pow(m.f(x), 2), [1], False), ROWS, [0])
    s = m.rsqrt(m.add(m.mul(total, scale), EPS))
    return m.b(m.mul(wide, m.mul(m.f(x), s)))


@rms("cast_at_each_use")
def _(m, x, w):
    square = m.mul(m.f(x), m.f(x))
    s = m.reciprocal(m.sqrt(m.add(m.mean(square, [1], D), EPS)))
    return m.b(m.mul(m.mul(m.f(x), s), weight(m, w)))


@rms("batch_and_length")
def _(m, x, w):
    x = m.f(m.reshape(x, SEQUENCES))
    s = m.rsqrt(m.add(m.mean(m.mul(x, x), [2], D), EPS))
    return m.reshape(m.b(m.mul(m.mul(x, s), m.spread(m.f(w), SEQUENCES, [2]))), ROWS)


@rms("weight_on_the_inverse")
def _(m, x, w):
    x = m.f(x)
    s = m.rsqrt(m.add(m.mean(m.mul(x, x), [1], D), EPS))
    return m.b(m.mul(x, m.mul(m.unsqueeze(m.f(w), [True, False]), s)))


# ---- RMS norm backward


def rms_backward_reference(x: Tensor, w: Tensor, g: Tensor) -> list[Tensor]:
    return gradients(rms_reference, [x, w], g)


rms_backward = family(
    "rms_norm_backward",
    lambda: [rand(N, D), rand(D, seed=1), rand(N, D, seed=2)],
    rms_backward_reference,
    5e-2,
)


def rms_gradients(m, x, w, g, inverse):
    """`inverse`: 1 / rms, of rank 2."""
    gw = m.mul(g, weight(m, w))
    normal = m.mul(x, inverse)
    mean = m.mean(m.mul(gw, normal), [1], D)
    dx = m.mul(inverse, m.sub(gw, m.mul(normal, mean)))
    return m.b(dx), m.b(m.sum(m.mul(g, normal), [0], False))


@rms_backward("thunder")
def _(m, x, w, g):
    x, g = m.f(x), m.f(g)
    inverse = m.rsqrt(m.add(m.mean(m.mul(x, x), [1], D), EPS))
    return rms_gradients(m, x, w, g, inverse)


@rms_backward("with_pow")
def _(m, x, w, g):
    x, g = m.f(x), m.f(g)
    return rms_gradients(m, x, w, g, m.pow(m.add(m.mean(m.pow(x, 2.0), [1], D), EPS), -0.5))


@rms_backward("reciprocal_root")
def _(m, x, w, g):
    x, g = m.f(x), m.f(g)
    s = m.spread(m.div(m.sum(m.mul(x, x), [1], False), float(D)), ROWS, [0])
    return rms_gradients(m, x, w, g, m.reciprocal(m.sqrt(m.add(s, EPS))))


@rms_backward("casts_at_each_use")
def _(m, x, w, g):
    inverse = m.rsqrt(m.add(m.mean(m.mul(m.f(x), m.f(x)), [1], D), EPS))
    return rms_gradients(m, m.f(x), w, m.f(g), inverse)


@rms_backward("cube_of_the_inverse")
def _(m, x, w, g):
    x, g = m.f(x), m.f(g)
    inverse = m.rsqrt(m.add(m.mean(m.mul(x, x), [1], D), EPS))
    gw = m.mul(g, weight(m, w))
    inner = m.div(m.sum(m.mul(gw, x), [1]), float(D))
    dx = m.sub(m.mul(gw, inverse), m.mul(x, m.mul(inner, m.pow(inverse, 3.0))))
    return m.b(dx), m.b(m.sum(m.mul(g, m.mul(x, inverse)), [0], False))


@rms_backward("negated_sum")
def _(m, x, w, g):
    x, g = m.f(x), m.f(g)
    inverse = m.rsqrt(m.add(m.mean(m.mul(x, x), [1], D), EPS))
    gw = m.mul(g, weight(m, w))
    normal = m.mul(x, inverse)
    mean = m.neg(m.mean(m.mul(gw, normal), [1], D))
    dx = m.mul(m.add(gw, m.mul(normal, mean)), inverse)
    return m.b(dx), m.b(m.sum(m.mul(normal, g), [0], False))


# ---- layer norm


def layer_reference(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return torch.nn.functional.layer_norm(x, (x.shape[-1],), w, b, EPS)


layer = family(
    "layer_norm", lambda: [rand(N, D), rand(D, seed=1), rand(D, seed=2)], layer_reference, 4e-2
)


def affine(m, y, w, b):
    return m.b(m.add(m.mul(y, weight(m, w)), weight(m, b)))


@layer("welford")
def _(m, x, w, b):
    x = m.f(x)
    var, mean = m.var_mean(x, [1])
    return affine(m, m.mul(m.sub(x, mean), m.rsqrt(m.add(var, EPS))), w, b)


@layer("two_passes")
def _(m, x, w, b):
    x = m.f(x)
    centred = m.sub(x, m.mean(x, [1], D))
    var = m.mean(m.mul(centred, centred), [1], D)
    return affine(m, m.mul(centred, m.rsqrt(m.add(var, EPS))), w, b)


@layer("pow_and_quotient")
def _(m, x, w, b):
    x = m.f(x)
    centred = m.sub(x, m.mean(x, [1], D))
    var = m.mean(m.pow(centred, 2.0), [1], D)
    return affine(m, m.div(centred, m.sqrt(m.add(var, EPS))), w, b)


@layer("centred_twice")
def _(m, x, w, b):
    x = m.f(x)
    mean = m.div(m.sum(x, [1], False), float(D))
    first = m.sub(x, m.spread(mean, ROWS, [0]))
    var = m.div(m.sum(m.mul(first, first), [1], False), float(D))
    second = m.sub(x, m.spread(mean, ROWS, [0]))
    inverse = m.pow(m.add(m.spread(var, ROWS, [0]), EPS), -0.5)
    return affine(m, m.mul(second, inverse), w, b)


@layer("difference_of_moments")
def _(m, x, w, b):
    x = m.f(x)
    mean = m.mean(x, [1], D)
    var = m.sub(m.mean(m.mul(x, x), [1], D), m.mul(mean, mean))
    return affine(m, m.mul(m.sub(x, mean), m.rsqrt(m.add(var, EPS))), w, b)


@layer("sum_with_negated_mean")
def _(m, x, w, b):
    x = m.f(x)
    centred = m.add(x, m.neg(m.mul(m.sum(x, [1]), 1.0 / D)))
    var = m.mul(m.sum(m.pow(m.neg(centred), 2), [1]), 1.0 / D)
    inverse = m.reciprocal(m.pow(m.add(var, EPS), 0.5))
    return affine(m, m.mul(centred, inverse), w, b)


@layer("batch_and_length")
def _(m, x, w, b):
    x = m.f(m.reshape(x, SEQUENCES))
    var, mean = m.var_mean(x, [2])
    y = m.mul(m.sub(x, mean), m.rsqrt(m.add(var, EPS)))
    w, b = (m.spread(m.f(s), SEQUENCES, [2]) for s in (w, b))
    return m.reshape(m.b(m.add(m.mul(y, w), b)), ROWS)


@layer("scale_and_shift")
def _(m, x, w, b):
    """As torch's own kernel on CPUs: x * scale + shift of each row."""
    x = m.f(x)
    var, mean = m.var_mean(x, [1])
    scale = m.rsqrt(m.add(var, EPS))
    return affine(m, m.add(m.mul(x, scale), m.mul(m.neg(mean), scale)), w, b)


# ---- layer norm backward, of saved statistics


def layer_backward_reference(x: Tensor, w: Tensor, g: Tensor) -> list[Tensor]:
    return gradients(layer_reference, [x, w, torch.zeros_like(w)], g)


layer_backward = family(
    "layer_norm_backward",
    lambda: [rand(N, D), rand(D, seed=1), rand(N, D, seed=2)],
    layer_backward_reference,
    6e-2,
)


def layer_statistics(m, x):
    var, mean = m.var_mean(x, [1])
    return mean, m.rsqrt(m.add(var, EPS))


def column_sums(m, g, normal):
    return m.b(m.sum(m.mul(g, normal), [0], False)), m.b(m.sum(g, [0], False))


@layer_backward("thunder")
def _(m, x, w, g):
    x, g = m.f(x), m.f(g)
    mean, inverse = layer_statistics(m, x)
    normal = m.mul(m.sub(x, mean), inverse)
    gw = m.mul(g, weight(m, w))
    a = m.mean(gw, [1], D)
    c = m.mean(m.mul(gw, normal), [1], D)
    dx = m.mul(inverse, m.sub(m.sub(gw, a), m.mul(normal, c)))
    return m.b(dx), *column_sums(m, g, normal)


@layer_backward("scaled_by_width")
def _(m, x, w, g):
    x, g = m.f(x), m.f(g)
    mean, inverse = layer_statistics(m, x)
    normal = m.mul(m.sub(x, mean), inverse)
    gw = m.mul(g, weight(m, w))
    total = m.sub(m.mul(gw, float(D)), m.sum(gw, [1]))
    inner = m.sub(total, m.mul(normal, m.sum(m.mul(gw, normal), [1])))
    dx = m.mul(m.div(inverse, float(D)), inner)
    return m.b(dx), *column_sums(m, g, normal)


@layer_backward("root_in_the_divisor")
def _(m, x, w, g):
    x, g = m.f(x), m.f(g)
    var, mean = m.var_mean(x, [1])
    root = m.sqrt(m.add(var, EPS))
    normal = m.div(m.sub(x, mean), root)
    gw = m.mul(weight(m, w), g)
    a = m.mul(m.sum(gw, [1]), 1.0 / D)
    c = m.mul(m.sum(m.mul(normal, gw), [1]), 1.0 / D)
    dx = m.div(m.sub(m.sub(gw, a), m.mul(normal, c)), root)
    return m.b(dx), *column_sums(m, g, normal)


@layer_backward("casts_at_each_use")
def _(m, x, w, g):
    mean, inverse = layer_statistics(m, m.f(x))
    normal = m.mul(m.sub(m.f(x), mean), inverse)
    gw = m.mul(m.f(g), weight(m, w))
    a = m.mean(gw, [1], D)
    c = m.mean(m.mul(gw, normal), [1], D)
    dx = m.mul(inverse, m.sub(m.sub(gw, a), m.mul(normal, c)))
    return m.b(dx), *column_sums(m, m.f(g), normal)


@layer_backward("normal_twice")
def _(m, x, w, g):
    x, g = m.f(x), m.f(g)
    var, mean = m.var_mean(x, [1])
    inverse = m.pow(m.add(var, EPS), -0.5)
    gw = m.mul(g, weight(m, w))
    a = m.mean(gw, [1], D)
    c = m.mean(m.mul(gw, m.mul(m.sub(x, mean), inverse)), [1], D)
    normal = m.mul(m.sub(x, mean), inverse)
    dx = m.mul(inverse, m.sub(gw, m.add(m.mul(normal, c), a)))
    return m.b(dx), *column_sums(m, g, normal)


@layer_backward("chain_through_the_variance")
def _(m, x, w, g):
    x, g = m.f(x), m.f(g)
    mean, inverse = layer_statistics(m, x)
    centred = m.sub(x, mean)
    gw = m.mul(g, weight(m, w))
    to_var = m.mul(m.sum(m.mul(gw, centred), [1]), m.mul(m.pow(inverse, 3.0), -1.0 / D))
    to_mean = m.mul(m.neg(m.sum(gw, [1])), m.div(inverse, float(D)))
    dx = m.add(m.add(m.mul(gw, inverse), m.mul(centred, to_var)), to_mean)
    return m.b(dx), *column_sums(m, g, m.mul(centred, inverse))
