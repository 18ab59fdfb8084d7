# SPDX-License-Identifier: BSD-3-Clause
"""Group norm, instance norm and batch norm, channels first."""

from __future__ import annotations

from typing import Any

from torch.nn import functional

from .family import Math, Tensor, family, rand, sized

EPS = 1e-5
B, C, H, W, G = sized((4, 32, 8, 16, 8), (16, 512, 64, 64, 32))
SHAPE = [B, C, H, W]
PIXELS = H * W
PER_GROUP = C // G


def inputs() -> list[Tensor]:
    return [rand(*SHAPE), rand(C, seed=1), rand(C, seed=2)]


def per_channel(m: Math, w: Any) -> Any:
    return m.spread(m.f(w), SHAPE, [1])


def affine(m: Math, y: Any, w: Any, b: Any) -> Any:
    return m.b(m.add(m.mul(y, per_channel(m, w)), per_channel(m, b)))


# ---- group norm: rows of a few channels of all pixels


def group_reference(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return functional.group_norm(x, G, w, b, EPS)


group = family("group_norm", inputs, group_reference, 4e-2)
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


@group("scale_and_shift")
def _(m, x, w, b):
    """As torch's own kernel: a factor and a summand for each channel of an image."""
    wide = m.f(x)
    var, mean = m.var_mean(m.reshape(wide, GROUPS), [2, 3, 4])
    inverse = m.rsqrt(m.add(m.reshape(var, [B, G, 1]), EPS))
    scale = m.mul(inverse, m.f(m.reshape(w, [1, G, PER_GROUP])))
    shift = m.sub(m.f(m.reshape(b, [1, G, PER_GROUP])), m.mul(m.reshape(mean, [B, G, 1]), scale))
    scale, shift = (m.spread(m.reshape(s, [B, C]), SHAPE, [0, 1]) for s in (scale, shift))
    return m.b(m.add(m.mul(wide, scale), shift))


@group("weights_in_groups")
def _(m, x, w, b):
    x = m.f(m.reshape(x, GROUPS))
    var, mean = m.var_mean(x, [2, 3, 4])
    y = m.mul(m.sub(x, mean), m.rsqrt(m.add(var, EPS)))
    w, b = (m.f(m.reshape(s, [1, G, PER_GROUP, 1, 1])) for s in (w, b))
    return m.reshape(m.b(m.add(m.mul(y, w), b)), SHAPE)


# ---- instance norm: rows of the pixels of one channel


def instance_reference(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return functional.instance_norm(x, weight=w, bias=b, eps=EPS)


instance = family("instance_norm", inputs, instance_reference, 4e-2)


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


@instance("as_batch_norm")
def _(m, x, w, b):
    """As torch does it: one image of all channels with the weights repeated."""
    one = [1, B * C, H, W]
    x = m.f(m.reshape(x, one))
    w, b = (m.f(m.reshape(m.spread(s, [B, C], [1]), [B * C])) for s in (w, b))
    var, mean = m.var_mean(x, [0, 2, 3])
    y = m.mul(m.sub(x, mean), m.rsqrt(m.add(var, EPS)))
    y = m.add(m.mul(y, m.spread(w, one, [1])), m.spread(b, one, [1]))
    return m.reshape(m.b(y), SHAPE)


@instance("scale_and_shift")
def _(m, x, w, b):
    x = m.f(x)
    var, mean = m.var_mean(x, [2, 3])
    scale = m.mul(m.rsqrt(m.add(var, EPS)), per_channel(m, w))
    return m.b(m.add(m.mul(x, scale), m.sub(per_channel(m, b), m.mul(mean, scale))))


# ---- batch norm: statistics of a channel over all the rest


def batch_reference(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return functional.batch_norm(x, None, None, w, b, True, eps=EPS)


batch = family("batch_norm", inputs, batch_reference, 4e-2)
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


@batch("scale_and_shift")
def _(m, x, w, b):
    """As torch's own kernel on CPUs."""
    x = m.f(x)
    var, mean = m.var_mean(x, REST)
    var, mean = m.squeeze(var, REST), m.squeeze(mean, REST)
    scale = m.mul(m.f(w), m.rsqrt(m.add(var, EPS)))
    shift = m.sub(m.f(b), m.mul(mean, scale))
    return m.b(m.add(m.mul(x, m.spread(scale, SHAPE, [1])), m.spread(shift, SHAPE, [1])))


@batch("rows_of_channels")
def _(m, x, w, b):
    """Channels last and flat, as code has it that norms images and sequences alike."""
    rows = [OF_CHANNEL, C]
    x = m.f(m.reshape(m.permute(x, [0, 2, 3, 1]), rows))
    var, mean = m.var_mean(x, [0])
    y = m.mul(m.sub(x, mean), m.rsqrt(m.add(var, EPS)))
    y = m.b(m.add(m.mul(y, m.spread(m.f(w), rows, [1])), m.spread(m.f(b), rows, [1])))
    return m.permute(m.reshape(y, [B, H, W, C]), [0, 3, 1, 2])
