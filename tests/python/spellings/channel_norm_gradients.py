# SPDX-License-Identifier: BSD-3-Clause
"""Gradients of group norm, instance norm and batch norm, of the saved mean and inverse root.

They are of the input, the weight and the bias. What is saved is float, as ahead-of-time autograd
and torch's own kernels keep it: of each group, of each channel of an image, of each channel.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from .channel_norms import (
    COUNT,
    EPS,
    GROUPS,
    OF_CHANNEL,
    PER_GROUP,
    PIXELS,
    REST,
    ROWS,
    SHAPE,
    B,
    C,
    G,
    batch_reference,
    group_reference,
    instance_reference,
    per_channel,
)
from .family import Math, Tensor, family, gradients, rand


def inputs_of(shape: Sequence[int], dims: Sequence[int]) -> list[Tensor]:
    """Gradient, input and weight, and the statistics of the input over `dims` of a view."""
    x = rand(*SHAPE)
    var, mean = torch.var_mean(x.double().view(*shape), list(dims), correction=0)
    statistics = [mean.float(), torch.rsqrt(var + EPS).float()]
    return [rand(*SHAPE, seed=1), x, rand(C, seed=2), *statistics]


def reference_of(norm: Any) -> Any:
    def reference(g: Tensor, x: Tensor, w: Tensor, mean: Tensor, inverse: Tensor) -> list[Tensor]:
        return gradients(norm, [x, w, torch.zeros_like(w)], g)

    return reference


def weight_and_bias(m: Math, g: Any, normal: Any) -> tuple[Any, Any]:
    """Their gradients, from tensors of the input's shape."""
    return m.b(m.sum(m.mul(g, normal), REST, False)), m.b(m.sum(g, REST, False))


def of_normal(m: Math, gw: Any, normal: Any, inverse: Any, dims: Sequence[int], count: int) -> Any:
    """The gradient of the input; the inverse root has ones where `dims` are."""
    a = m.mean(gw, dims, count)
    c = m.mean(m.mul(gw, normal), dims, count)
    return m.mul(inverse, m.sub(m.sub(gw, a), m.mul(normal, c)))


def of_variance(
    m: Math, gw: Any, centred: Any, inverse: Any, dims: Sequence[int], count: int
) -> Any:
    """The same as batch norm's paper has it, by way of the gradients of variance and mean."""
    cube = m.pow(inverse, 3.0)
    to_var = m.mul(m.sum(m.mul(gw, centred), dims), m.mul(cube, -0.5))
    to_mean = m.neg(m.mul(m.sum(gw, dims), inverse))
    through_var = m.mul(m.mul(centred, to_var), 2.0 / count)
    return m.add(m.add(m.mul(gw, inverse), through_var), m.div(to_mean, float(count)))


def of_scaled(m: Math, gw: Any, normal: Any, inverse: Any, dims: Sequence[int], count: int) -> Any:
    """The same with one quotient by the count."""
    inner = m.sub(m.mul(gw, float(count)), m.sum(gw, dims))
    inner = m.sub(inner, m.mul(normal, m.sum(m.mul(gw, normal), dims)))
    return m.mul(m.div(inverse, float(count)), inner)


# ---- group norm

group_backward = family(
    "group_norm_backward",
    lambda: inputs_of([B, G, COUNT], [2]),
    reference_of(group_reference),
    6e-2,
)
IN_GROUPS = [2, 3, 4]


def per_group(m: Math, s: Any) -> Any:
    return m.unsqueeze(s, [False, False, True, True, True])


@group_backward("thunder")
def _(m, g, x, w, mean, inverse):
    g, x, inverse = m.f(g), m.f(x), per_group(m, inverse)
    normal = m.mul(m.sub(m.reshape(x, GROUPS), per_group(m, mean)), inverse)
    gw = m.reshape(m.mul(g, per_channel(m, w)), GROUPS)
    dx = of_normal(m, gw, normal, inverse, IN_GROUPS, COUNT)
    return m.b(m.reshape(dx, SHAPE)), *weight_and_bias(m, g, m.reshape(normal, SHAPE))


@group_backward("inductor")
def _(m, g, x, w, mean, inverse):
    """torch._decomp's native_group_norm_backward, which is that of torch's own kernels."""
    g, x = m.f(g), m.f(x)
    per_image = [B, G, PER_GROUP]
    with_x = m.sum(m.reshape(m.mul(g, x), [B, C, PIXELS]), [2], False)
    alone = m.sum(m.reshape(g, [B, C, PIXELS]), [2], False)
    wide = m.unsqueeze(m.f(w), [True, False])
    with_x_of = m.sum(m.reshape(m.mul(with_x, wide), per_image), [2], False)
    alone_of = m.sum(m.reshape(m.mul(alone, wide), per_image), [2], False)
    scale = 1.0 / COUNT
    c1 = m.mul(m.unsqueeze(inverse, [False, False, True]), m.reshape(wide, [1, G, PER_GROUP]))
    c2 = m.sub(m.mul(alone_of, mean), with_x_of)
    c2 = m.mul(m.mul(m.mul(m.mul(c2, inverse), inverse), inverse), scale)
    c3 = m.sub(m.mul(m.neg(c2), mean), m.mul(m.mul(alone_of, inverse), scale))
    rows = [B, G, PER_GROUP, PIXELS]
    c1 = m.unsqueeze(c1, [False, False, False, True])
    c2, c3 = (m.unsqueeze(c, [False, False, True, True]) for c in (c2, c3))
    dx = m.add(m.add(m.mul(m.reshape(g, rows), c1), m.mul(m.reshape(x, rows), c2)), c3)
    centred = m.sub(
        m.reshape(with_x, per_image),
        m.mul(m.reshape(alone, per_image), m.unsqueeze(mean, [False, False, True])),
    )
    dw = m.sum(m.mul(centred, m.unsqueeze(inverse, [False, False, True])), [0], False)
    dx = m.b(m.reshape(dx, SHAPE))
    return dx, m.b(m.reshape(dw, [C])), m.b(m.sum(alone, [0], False))


@group_backward("flat_rows")
def _(m, g, x, w, mean, inverse):
    g, inverse = m.f(g), m.unsqueeze(inverse, [False, False, True])
    centred = m.sub(m.f(m.reshape(x, ROWS)), m.unsqueeze(mean, [False, False, True]))
    normal = m.mul(centred, inverse)
    gw = m.reshape(m.mul(g, per_channel(m, w)), ROWS)
    dx = of_normal(m, gw, normal, inverse, [2], COUNT)
    return m.b(m.reshape(dx, SHAPE)), *weight_and_bias(m, g, m.reshape(normal, SHAPE))


@group_backward("weights_in_groups")
def _(m, g, x, w, mean, inverse):
    g, inverse = m.f(m.reshape(g, GROUPS)), per_group(m, inverse)
    normal = m.mul(m.sub(m.f(m.reshape(x, GROUPS)), per_group(m, mean)), inverse)
    gw = m.mul(g, m.f(m.reshape(w, [1, G, PER_GROUP, 1, 1])))
    dx = m.reshape(m.b(of_normal(m, gw, normal, inverse, IN_GROUPS, COUNT)), SHAPE)
    dw = m.reshape(m.sum(m.mul(g, normal), [0, 3, 4], False), [C])
    return dx, m.b(dw), m.b(m.reshape(m.sum(g, [0, 3, 4], False), [C]))


@group_backward("casts_at_each_use")
def _(m, g, x, w, mean, inverse):
    mean, inverse = (m.spread(s, GROUPS, [0, 1]) for s in (mean, inverse))
    normal = m.mul(m.sub(m.reshape(m.f(x), GROUPS), mean), inverse)
    gw = m.reshape(m.mul(per_channel(m, w), m.f(g)), GROUPS)
    dx = of_normal(m, gw, normal, inverse, IN_GROUPS, COUNT)
    again = m.mul(m.sub(m.reshape(m.f(x), GROUPS), mean), inverse)
    return m.b(m.reshape(dx, SHAPE)), *weight_and_bias(m, m.f(g), m.reshape(again, SHAPE))


@group_backward("scaled_by_count")
def _(m, g, x, w, mean, inverse):
    g, x, inverse = m.f(g), m.f(x), per_group(m, inverse)
    normal = m.mul(m.sub(m.reshape(x, GROUPS), per_group(m, mean)), inverse)
    gw = m.reshape(m.mul(g, per_channel(m, w)), GROUPS)
    dx = of_scaled(m, gw, normal, inverse, IN_GROUPS, COUNT)
    return m.b(m.reshape(dx, SHAPE)), *weight_and_bias(m, g, m.reshape(normal, SHAPE))


@group_backward("chain_through_the_variance")
def _(m, g, x, w, mean, inverse):
    g, x, inverse = m.f(g), m.f(x), per_group(m, inverse)
    centred = m.sub(m.reshape(x, GROUPS), per_group(m, mean))
    gw = m.reshape(m.mul(g, per_channel(m, w)), GROUPS)
    dx = of_variance(m, gw, centred, inverse, IN_GROUPS, COUNT)
    normal = m.reshape(m.mul(centred, inverse), SHAPE)
    return m.b(m.reshape(dx, SHAPE)), *weight_and_bias(m, g, normal)


# ---- instance norm

instance_backward = family(
    "instance_norm_backward",
    lambda: inputs_of([B, C, PIXELS], [2]),
    reference_of(instance_reference),
    6e-2,
)
IN_IMAGE = [2, 3]


def per_image(m: Math, s: Any) -> Any:
    return m.unsqueeze(s, [False, False, True, True])


@instance_backward("thunder")
def _(m, g, x, w, mean, inverse):
    g, x, inverse = m.f(g), m.f(x), per_image(m, inverse)
    normal = m.mul(m.sub(x, per_image(m, mean)), inverse)
    dx = of_normal(m, m.mul(g, per_channel(m, w)), normal, inverse, IN_IMAGE, PIXELS)
    return m.b(dx), *weight_and_bias(m, g, normal)


@instance_backward("as_batch_norm")
def _(m, g, x, w, mean, inverse):
    """As torch does it: one image of all channels with the weight repeated, and torch._decomp's
    native_batch_norm_backward of that."""
    one = [1, B * C, *SHAPE[2:]]
    g, x = m.f(m.reshape(g, one)), m.f(m.reshape(x, one))
    repeated = m.reshape(m.f(m.spread(w, [B, C], [1])), [B * C])
    mean, inverse = (m.reshape(s, [B * C]) for s in (mean, inverse))
    centred = m.sub(x, m.spread(mean, one, [1]))
    total = m.sum(g, REST, False)
    dot = m.sum(m.mul(g, centred), REST, False)
    to_mean = m.spread(m.mul(total, 1.0 / PIXELS), one, [1])
    scale = m.mul(m.mul(dot, 1.0 / PIXELS), m.mul(inverse, inverse))
    projected = m.mul(centred, m.spread(scale, one, [1]))
    factor = m.spread(m.mul(inverse, repeated), one, [1])
    dx = m.reshape(m.b(m.mul(m.sub(m.sub(g, projected), to_mean), factor)), SHAPE)
    dw = m.sum(m.reshape(m.mul(dot, inverse), [B, C]), [0], False)
    return dx, m.b(dw), m.b(m.sum(m.reshape(total, [B, C]), [0], False))


@instance_backward("as_group_norm")
def _(m, g, x, w, mean, inverse):
    rows = [B, C, PIXELS]
    g, x = m.reshape(m.f(g), rows), m.reshape(m.f(x), rows)
    inverse = m.unsqueeze(inverse, [False, False, True])
    normal = m.mul(m.sub(x, m.unsqueeze(mean, [False, False, True])), inverse)
    gw = m.mul(g, m.spread(m.f(w), rows, [1]))
    dx = m.reshape(of_normal(m, gw, normal, inverse, [2], PIXELS), SHAPE)
    dw = m.sum(m.mul(g, normal), [0, 2], False)
    return m.b(dx), m.b(dw), m.b(m.sum(g, [0, 2], False))


@instance_backward("weight_of_the_sums")
def _(m, g, x, w, mean, inverse):
    g, x, inverse = m.f(g), m.f(x), per_image(m, inverse)
    normal = m.mul(m.sub(x, per_image(m, mean)), inverse)
    alone, product = m.sum(g, IN_IMAGE), m.sum(m.mul(g, normal), IN_IMAGE)
    inner = m.add(m.div(alone, float(PIXELS)), m.mul(normal, m.div(product, float(PIXELS))))
    dx = m.mul(m.mul(per_channel(m, w), inverse), m.sub(g, inner))
    return m.b(dx), m.b(m.sum(product, [0, 2, 3], False)), m.b(m.sum(alone, [0, 2, 3], False))


@instance_backward("casts_at_each_use")
def _(m, g, x, w, mean, inverse):
    mean, inverse = (m.spread(s, SHAPE, [0, 1]) for s in (mean, inverse))
    normal = m.mul(m.sub(m.f(x), mean), inverse)
    gw = m.mul(per_channel(m, w), m.f(g))
    a = m.spread(m.div(m.sum(gw, IN_IMAGE, False), float(PIXELS)), SHAPE, [0, 1])
    product = m.sum(m.mul(gw, normal), IN_IMAGE, False)
    c = m.spread(m.div(product, float(PIXELS)), SHAPE, [0, 1])
    dx = m.mul(m.sub(m.sub(gw, a), m.mul(c, normal)), inverse)
    again = m.mul(m.sub(m.f(x), mean), inverse)
    return m.b(dx), *weight_and_bias(m, m.f(g), again)


@instance_backward("scaled_by_count")
def _(m, g, x, w, mean, inverse):
    g, x, inverse = m.f(g), m.f(x), per_image(m, inverse)
    normal = m.mul(m.sub(x, per_image(m, mean)), inverse)
    dx = of_scaled(m, m.mul(g, per_channel(m, w)), normal, inverse, IN_IMAGE, PIXELS)
    return m.b(dx), *weight_and_bias(m, g, normal)


@instance_backward("chain_through_the_variance")
def _(m, g, x, w, mean, inverse):
    g, x, inverse = m.f(g), m.f(x), per_image(m, inverse)
    centred = m.sub(x, per_image(m, mean))
    dx = of_variance(m, m.mul(g, per_channel(m, w)), centred, inverse, IN_IMAGE, PIXELS)
    return m.b(dx), *weight_and_bias(m, g, m.mul(centred, inverse))


# ---- batch norm

batch_backward = family(
    "batch_norm_backward", lambda: inputs_of(SHAPE, REST), reference_of(batch_reference), 6e-2
)


def of_channel(m: Math, s: Any) -> Any:
    return m.unsqueeze(s, [True, False, True, True])


@batch_backward("thunder")
def _(m, g, x, w, mean, inverse):
    g, x, inverse = m.f(g), m.f(x), of_channel(m, inverse)
    normal = m.mul(m.sub(x, of_channel(m, mean)), inverse)
    dx = of_normal(m, m.mul(g, per_channel(m, w)), normal, inverse, REST, OF_CHANNEL)
    return m.b(dx), *weight_and_bias(m, g, normal)


@batch_backward("inductor")
def _(m, g, x, w, mean, inverse):
    """torch._decomp's native_batch_norm_backward."""
    g = m.f(g)
    centred = m.sub(m.f(x), of_channel(m, mean))
    total = m.sum(g, REST, False)
    dot = m.sum(m.mul(g, centred), REST, False)
    to_mean = of_channel(m, m.mul(total, 1.0 / OF_CHANNEL))
    scale = of_channel(m, m.mul(m.mul(dot, 1.0 / OF_CHANNEL), m.mul(inverse, inverse)))
    factor = of_channel(m, m.mul(inverse, m.f(w)))
    dx = m.mul(m.sub(m.sub(g, m.mul(centred, scale)), to_mean), factor)
    return m.b(dx), m.b(m.mul(dot, inverse)), m.b(total)


@batch_backward("weight_of_the_sums")
def _(m, g, x, w, mean, inverse):
    g, x, inverse = m.f(g), m.f(x), of_channel(m, inverse)
    normal = m.mul(m.sub(x, of_channel(m, mean)), inverse)
    alone, product = m.sum(g, REST), m.sum(m.mul(g, normal), REST)
    inner = m.add(m.div(alone, float(OF_CHANNEL)), m.mul(normal, m.div(product, float(OF_CHANNEL))))
    dx = m.mul(m.mul(per_channel(m, w), inverse), m.sub(g, inner))
    return m.b(dx), m.b(m.squeeze(product, REST)), m.b(m.squeeze(alone, REST))


@batch_backward("casts_at_each_use")
def _(m, g, x, w, mean, inverse):
    mean, inverse = (m.spread(s, SHAPE, [1]) for s in (mean, inverse))
    normal = m.mul(m.sub(m.f(x), mean), inverse)
    gw = m.mul(per_channel(m, w), m.f(g))
    a = m.spread(m.div(m.sum(gw, REST, False), float(OF_CHANNEL)), SHAPE, [1])
    product = m.sum(m.mul(gw, normal), REST, False)
    c = m.spread(m.div(product, float(OF_CHANNEL)), SHAPE, [1])
    dx = m.mul(m.sub(m.sub(gw, a), m.mul(c, normal)), inverse)
    again = m.mul(m.sub(m.f(x), mean), inverse)
    return m.b(dx), *weight_and_bias(m, m.f(g), again)


@batch_backward("scaled_by_count")
def _(m, g, x, w, mean, inverse):
    g, x, inverse = m.f(g), m.f(x), of_channel(m, inverse)
    normal = m.mul(m.sub(x, of_channel(m, mean)), inverse)
    dx = of_scaled(m, m.mul(g, per_channel(m, w)), normal, inverse, REST, OF_CHANNEL)
    return m.b(dx), *weight_and_bias(m, g, normal)


@batch_backward("chain_through_the_variance")
def _(m, g, x, w, mean, inverse):
    g, x, inverse = m.f(g), m.f(x), of_channel(m, inverse)
    centred = m.sub(x, of_channel(m, mean))
    dx = of_variance(m, m.mul(g, per_channel(m, w)), centred, inverse, REST, OF_CHANNEL)
    return m.b(dx), *weight_and_bias(m, g, m.mul(centred, inverse))


@batch_backward("flat_pixels")
def _(m, g, x, w, mean, inverse):
    rows = [B, C, PIXELS]
    g, x = m.reshape(m.f(g), rows), m.reshape(m.f(x), rows)
    inverse = m.unsqueeze(inverse, [True, False, True])
    normal = m.mul(m.sub(x, m.unsqueeze(mean, [True, False, True])), inverse)
    gw = m.mul(g, m.spread(m.f(w), rows, [1]))
    dx = m.reshape(of_normal(m, gw, normal, inverse, [0, 2], OF_CHANNEL), SHAPE)
    dw = m.sum(m.mul(g, normal), [0, 2], False)
    return m.b(dx), m.b(dw), m.b(m.sum(g, [0, 2], False))
