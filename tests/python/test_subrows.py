# SPDX-License-Identifier: BSD-3-Clause
"""Rows of which each part is reduced as well: the channels of a group in the gradient of a group
norm, the images of a batch norm that is followed by the mean of each channel.

Schedules are those for a GPU, whatever the machine.
"""

from __future__ import annotations

from collections.abc import Callable

import nvfuse_direct
import pytest
import torch
from helpers import DEVICE
from nvfuse_direct import DataType, FusionDefinition

Tensor = torch.Tensor
# [samples, groups, channels of a group, pixels]
GROUPS = [
    (4, 4, 16, 512),
    (3, 2, 10, 260),
    (2, 5, 7, 49),
    (2, 3, 12, 36),
    (9, 2, 1, 64),
    (2, 2, 33, 40),
    (2, 4, 2, 8192),
    (5, 3, 6, 1),
    (2, 2, 64, 24),
    (2, 2, 128, 16),
]
# [samples, channels, pixels]
IMAGES = [(8, 6, 64), (4, 3, 196), (16, 24, 49), (5, 3, 40), (1, 3, 128), (32, 8, 784)]


def values(sizes: tuple[int, ...], seed: int, dtype: torch.dtype = torch.float) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(sizes, generator=generator).to(DEVICE, dtype)


def group_norm_gradient(sums_of_channels: bool) -> Callable:
    """dx, dw and db of x and its gradient [n, g, c, p], the weights [g, c], the means and inverse
    deviations [n, g]; the groups' sums are made of sums of channels, or of the elements."""

    def define(fd: FusionDefinition, like: Tensor, x, g, w, mean, inverse) -> list:
        ops = fd.ops
        count = fd.define_scalar(1.0 / (like.shape[2] * like.shape[3]))

        def wide(t):
            return ops.broadcast(t, [False, False, True, True])

        def of_channels(t, flags):
            return ops.broadcast(ops.cast(t, DataType.Float), flags)

        x, g = ops.cast(x, DataType.Float), ops.cast(g, DataType.Float)
        normal = ops.mul(ops.sub(x, wide(mean)), wide(inverse))
        gw = ops.mul(g, of_channels(w, [True, False, False, True]))
        if sums_of_channels:
            alone, product = ops.sum(g, [3]), ops.sum(ops.mul(g, normal), [3])
            weight = of_channels(w, [True, False, False])
            sums = [ops.sum(ops.mul(t, weight), [2]) for t in (alone, product)]
            dw, db = ops.sum(product, [0]), ops.sum(alone, [0])
        else:
            sums = [ops.sum(t, [2, 3]) for t in (gw, ops.mul(gw, normal))]
            dw, db = ops.sum(ops.mul(g, normal), [0, 3]), ops.sum(g, [0, 3])
        a, b = (wide(ops.mul(t, count)) for t in sums)
        dx = ops.mul(wide(inverse), ops.sub(ops.sub(gw, a), ops.mul(normal, b)))
        return [ops.cast(dx, like.dtype), dw, db]

    return define


def exact_gradient(x: Tensor, g: Tensor, w: Tensor, mean: Tensor, inverse: Tensor) -> list[Tensor]:
    mean, inverse = (t[:, :, None, None] for t in (mean, inverse))
    normal, gw = (x - mean) * inverse, g * w[None, :, :, None]
    a, b = (t.mean((2, 3), keepdim=True) for t in (gw, gw * normal))
    return [inverse * (gw - a - normal * b), (g * normal).sum((0, 3)), g.sum((0, 3))]


def norm_and_means(fd: FusionDefinition, like: Tensor, x, w) -> list:
    """A batch norm and ReLU of [n, c, p], and the mean of each image's channels."""
    ops = fd.ops
    samples, _, pixels = like.shape
    count = fd.define_scalar(1.0 / (samples * pixels))

    def wide(t):
        return ops.broadcast(t, [True, False, True])

    x = ops.cast(x, DataType.Float)
    centred = ops.sub(x, wide(ops.mul(ops.sum(x, [0, 2]), count)))
    variance = ops.mul(ops.sum(ops.mul(centred, centred), [0, 2]), count)
    inverse = ops.rsqrt(ops.add(variance, fd.define_scalar(1e-5)))
    scale = ops.mul(inverse, ops.cast(w, DataType.Float))
    out = ops.relu(ops.mul(centred, wide(scale)))
    means = ops.mul(ops.sum(out, [2]), fd.define_scalar(1.0 / pixels))
    return [ops.cast(out, like.dtype), means]


def exact_means(x: Tensor, w: Tensor) -> list[Tensor]:
    centred = x - x.mean((0, 2), keepdim=True)
    variance = centred.square().mean((0, 2), keepdim=True)
    out = torch.relu(centred / torch.sqrt(variance + 1e-5) * w[None, :, None])
    return [out, out.mean(2)]


def check(
    define: Callable, exact: Callable, inputs: list[Tensor], static: bool, kernels: int
) -> None:
    with FusionDefinition() as fd:
        tensors = [fd.from_pytorch(t, static_sizes=static) for t in inputs]
        for out in define(fd, inputs[0], *tensors):
            fd.add_output(out)
    outs = fd.execute(inputs)
    tolerance = 2e-2 if inputs[0].dtype == torch.bfloat16 else 1e-4
    for out, ref in zip(outs, exact(*(t.double() for t in inputs)), strict=True):
        assert (out.double() - ref).abs().max() <= tolerance * max(1.0, float(ref.abs().max()))
    assert fd.fec.get_cuda_kernel(inputs).count("NVF_KERNEL(") == kernels


@pytest.mark.machine("hopper")
@pytest.mark.parametrize(("dtype", "static"), [(torch.float, True), (torch.bfloat16, False)])
@pytest.mark.parametrize("sizes", GROUPS)
@pytest.mark.parametrize("sums_of_channels", [False, True])
def test_gradients_of_group_norms(
    sizes: tuple[int, ...], dtype: torch.dtype, static: bool, sums_of_channels: bool
) -> None:
    n, g, c, _ = sizes
    inputs = [values(sizes, 1, dtype), values(sizes, 2, dtype), values((g, c), 3, dtype)]
    inputs += [values((n, g), 4), values((n, g), 5).abs() + 0.5]
    # dw and db add up the samples of a few channels in the second one.
    check(group_norm_gradient(sums_of_channels), exact_gradient, inputs, static, kernels=2)


@pytest.mark.machine("hopper")
@pytest.mark.parametrize(("dtype", "static"), [(torch.float, True), (torch.bfloat16, False)])
@pytest.mark.parametrize("sizes", IMAGES)
def test_means_after_batch_norms(sizes: tuple[int, ...], dtype: torch.dtype, static: bool) -> None:
    inputs = [values(sizes, 1, dtype), values(sizes[1:2], 2, dtype)]
    check(norm_and_means, exact_means, inputs, static, kernels=1)


@pytest.mark.machine("hopper")
@pytest.mark.parametrize("places", [5, 32, 101])
def test_what_was_reduced_is_not_reduced_again(places: int) -> None:
    """A softmax of sums of one vector and each of several: the second pass reads these sums, which
    need the norms of the vectors (a cosine would be divided by them after it)."""
    q, k = values((12, 64), 1), values((12, places, 64), 2)
    with FusionDefinition() as fd:
        o = fd.ops
        tq, tk = (fd.from_pytorch(t, static_sizes=True) for t in (q, k))
        unit = o.div(tk, o.add(o.sqrt(o.sum(o.mul(tk, tk), [2], keepdim=True)), 1e-8))
        wide = o.broadcast(tq, [False, True, False])
        sums = o.sum(o.mul(wide, o.relu(o.sub(unit, 0.01))), [2])
        e = o.exp(o.sub(sums, o.max(sums, [1], keepdim=True)))
        fd.add_output(o.div(e, o.sum(e, [1], keepdim=True)))
    (out,) = fd.execute([q, k])
    unit = k.double() / k.double().norm(dim=2, keepdim=True)
    sums = (q.double().unsqueeze(1) * (unit - 0.01).relu()).sum(2)
    torch.testing.assert_close(out.double(), sums.softmax(1), rtol=1e-5, atol=1e-6)
    report = nvfuse_direct.explain(fd, [q, k], measure=False)
    (kernel,) = report.segments
    assert kernel.parameters["has_subrows"]
    text = fd.fec.get_cuda_kernel([q, k])
    assert text.count("Reduce<") == 4, text


@pytest.mark.machine("hopper")
def test_a_cosine_is_divided_after_its_sum() -> None:
    """No element is divided by a norm; the softmax of the few cosines is a kernel of its own."""
    q, k = values((12, 64), 1), values((12, 5, 64), 2)
    with FusionDefinition() as fd:
        o = fd.ops
        tq, tk = (fd.from_pytorch(t, static_sizes=True) for t in (q, k))
        unit = o.div(tk, o.add(o.sqrt(o.sum(o.mul(tk, tk), [2], keepdim=True)), 1e-8))
        cosines = o.sum(o.mul(o.broadcast(tq, [False, True, False]), unit), [2])
        e = o.exp(o.sub(cosines, o.max(cosines, [1], keepdim=True)))
        fd.add_output(o.div(e, o.sum(e, [1], keepdim=True)))
    (out,) = fd.execute([q, k])
    cosines = (q.double().unsqueeze(1) * k).sum(2) / k.double().norm(dim=2)
    torch.testing.assert_close(out.double(), cosines.softmax(1), rtol=1e-5, atol=1e-6)
    kernels = nvfuse_direct.explain(fd, [q, k], measure=False).segments
    assert len(kernels) == 2
    assert not any(each.parameters.get("has_subrows") for each in kernels)
