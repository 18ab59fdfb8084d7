# SPDX-License-Identifier: BSD-3-Clause
"""Group norm, instance norm and batch norm, channels first."""

from __future__ import annotations

from typing import Any

import torch

from .family import Math, Tensor, family, rand

EPS = 1e-5
B, C, H, W, G = 4, 32, 8, 16, 8
SHAPE = [B, C, H, W]
PIXELS = H * W
PER_GROUP = C // G


def inputs() -> list[Tensor]:
    return [rand(*SHAPE), rand(C, seed=1), rand(C, seed=2)]


def per_channel(m: Math, w: Any) -> Any:
    return m.spread(m.f(w), SHAPE, [1])


def affine(m: Math, y: Any, w: Any, b: Any) -> Any:
    return m.b(m.add(m.mul(y, per_channel(m, w)), per_channel(m, b)))


# ---- group norm: rows of 4 channels of all pixels

group = family(
    "group_norm", inputs, lambda x, w, b: torch.nn.functional.group_norm(x, G, w, b, EPS), 4e-2
)
GROUPS = [B, G, PER_GROUP, H, W]
ROWS = [B, G, PER_GROUP * PIXELS]
COUNT = PER_GROUP * PIXELS


@group("thunder")
def _(m, x, w, b):
    x = m.reshape(m.f(x), GROUPS)
    var, mean = m.var_mean(x, [2, 3, 4])
    y = m.mul(m.sub(x, mean), m.rsqrt(m.add(var, EPS)))
    return affine(m, m.reshape(y, SHAPE), w, b)


@group("two_passes")
def _(m, x, w, b):
    x = m.reshape(m.f(x), GROUPS)
    centred = m.sub(x, m.mean(x, [2, 3, 4], COUNT))
    var = m.mean(m.mul(centred, centred), [2, 3, 4], COUNT)
    return affine(m, m.reshape(m.mul(centred, m.rsqrt(m.add(var, EPS))), SHAPE), w, b)


@group("pow_and_quotient")
def _(m, x, w, b):
    x = m.reshape(m.f(x), GROUPS)
    centred = m.sub(x, m.mean(x, [2, 3, 4], COUNT))
    var = m.mean(m.pow(centred, 2.0), [2, 3, 4], COUNT)
    return affine(m, m.reshape(m.div(centred, m.sqrt(m.add(var, EPS))), SHAPE), w, b)


@group("flat_rows")
def _(m, x, w, b):
    x = m.reshape(m.f(x), ROWS)
    var, mean = m.var_mean(x, [2])
    y = m.mul(m.sub(x, mean), m.rsqrt(m.add(var, EPS)))
    return affine(m, m.reshape(y, SHAPE), w, b)


@group("cast_after_reshape")
def _(m, x, w, b):
    x = m.f(m.reshape(x, GROUPS))
    var, mean = m.var_mean(x, [2, 3, 4])
    y = m.mul(m.sub(x, mean), m.pow(m.add(var, EPS), -0.5))
    return affine(m, m.reshape(y, SHAPE), w, b)


@group("difference_of_moments")
def _(m, x, w, b):
    x = m.reshape(m.f(x), GROUPS)
    mean = m.mean(x, [2, 3, 4], COUNT)
    var = m.sub(m.mean(m.mul(x, x), [2, 3, 4], COUNT), m.pow(mean, 2.0))
    y = m.mul(m.sub(x, mean), m.reciprocal(m.sqrt(m.add(var, EPS))))
    return affine(m, m.reshape(y, SHAPE), w, b)


# ---- instance norm: rows of the pixels of one channel

instance = family(
    "instance_norm",
    inputs,
    lambda x, w, b: torch.nn.functional.instance_norm(x, weight=w, bias=b, eps=EPS),
    4e-2,
)


@instance("thunder")
def _(m, x, w, b):
    x = m.f(x)
    var, mean = m.var_mean(x, [2, 3])
    return affine(m, m.mul(m.sub(x, mean), m.rsqrt(m.add(var, EPS))), w, b)


@instance("two_passes")
def _(m, x, w, b):
    x = m.f(x)
    centred = m.sub(x, m.mean(x, [2, 3], PIXELS))
    var = m.mean(m.mul(centred, centred), [2, 3], PIXELS)
    return affine(m, m.mul(centred, m.rsqrt(m.add(var, EPS))), w, b)


@instance("root_of_a_broadcast")
def _(m, x, w, b):
    x = m.f(x)
    mean = m.spread(m.div(m.sum(x, [2, 3], False), float(PIXELS)), SHAPE, [0, 1])
    centred = m.sub(x, mean)
    var = m.div(m.sum(m.pow(centred, 2.0), [2, 3], False), float(PIXELS))
    root = m.sqrt(m.add(m.spread(var, SHAPE, [0, 1]), EPS))
    return affine(m, m.mul(centred, m.reciprocal(root)), w, b)


@instance("quotient")
def _(m, x, w, b):
    x = m.f(x)
    var, mean = m.var_mean(x, [2, 3])
    return affine(m, m.div(m.sub(x, mean), m.pow(m.add(var, EPS), 0.5)), w, b)


@instance("difference_of_moments")
def _(m, x, w, b):
    x = m.f(x)
    mean = m.mean(x, [2, 3], PIXELS)
    var = m.sub(m.mean(m.pow(x, 2.0), [2, 3], PIXELS), m.mul(mean, mean))
    return affine(m, m.mul(m.sub(x, mean), m.rsqrt(m.add(var, EPS))), w, b)


@instance("as_group_norm")
def _(m, x, w, b):
    x = m.reshape(m.f(x), [B, C, PIXELS])
    var, mean = m.var_mean(x, [2])
    y = m.mul(m.sub(x, mean), m.rsqrt(m.add(var, EPS)))
    return affine(m, m.reshape(y, SHAPE), w, b)


# ---- batch norm: statistics of a channel over all the rest

batch = family(
    "batch_norm",
    inputs,
    lambda x, w, b: torch.nn.functional.batch_norm(x, None, None, w, b, True, eps=EPS),
    4e-2,
)
REST = [0, 2, 3]
OF_CHANNEL = B * PIXELS


@batch("thunder")
def _(m, x, w, b):
    x = m.f(x)
    var, mean = m.var_mean(x, REST)
    return affine(m, m.mul(m.sub(x, mean), m.rsqrt(m.add(var, EPS))), w, b)


@batch("two_passes")
def _(m, x, w, b):
    x = m.f(x)
    centred = m.sub(x, m.mean(x, REST, OF_CHANNEL))
    var = m.mean(m.mul(centred, centred), REST, OF_CHANNEL)
    return affine(m, m.mul(centred, m.rsqrt(m.add(var, EPS))), w, b)


@batch("quotient_of_a_broadcast_root")
def _(m, x, w, b):
    x = m.f(x)
    mean = m.spread(m.div(m.sum(x, REST, False), float(OF_CHANNEL)), SHAPE, [1])
    centred = m.sub(x, mean)
    var = m.div(m.sum(m.pow(centred, 2.0), REST, False), float(OF_CHANNEL))
    root = m.sqrt(m.add(m.spread(var, SHAPE, [1]), EPS))
    return affine(m, m.div(centred, root), w, b)


@batch("weight_on_the_inverse")
def _(m, x, w, b):
    x = m.f(x)
    var, mean = m.var_mean(x, REST)
    scale = m.mul(m.rsqrt(m.add(var, EPS)), per_channel(m, w))
    return m.b(m.add(m.mul(m.sub(x, mean), scale), per_channel(m, b)))


@batch("power")
def _(m, x, w, b):
    x = m.f(x)
    var, mean = m.var_mean(x, REST)
    return affine(m, m.mul(m.sub(x, mean), m.pow(m.add(var, EPS), -0.5)), w, b)


@batch("difference_of_moments")
def _(m, x, w, b):
    x = m.f(x)
    mean = m.mean(x, REST, OF_CHANNEL)
    var = m.sub(m.mean(m.mul(x, x), REST, OF_CHANNEL), m.mul(mean, mean))
    return affine(m, m.mul(m.sub(x, mean), m.rsqrt(m.add(var, EPS))), w, b)
