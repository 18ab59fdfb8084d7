# SPDX-License-Identifier: BSD-3-Clause
"""What the cases beyond the table of cpu.py compute: fusion definitions and torch functions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from definitions import EPSILON, Inputs, eager_rmsnorm, load, store
from nvfuse_direct import FusionDefinition, TensorView
from torch.nn import functional

Define = Callable[[FusionDefinition, Inputs], None]

GROUPS = 8  # of a group norm
LEARNING_RATE, FIRST_DECAY, SECOND_DECAY, ADAM_EPSILON = 1e-3, 0.9, 0.999, 1e-8
STEP = 10  # of Adam, for the correction of its averages
FIRST_CORRECTION = 1 - FIRST_DECAY**STEP
SECOND_CORRECTION = 1 - SECOND_DECAY**STEP


# --------------------------------------------------------------------------------- norms of images


def define_batchnorm_backward(fd: FusionDefinition, inputs: Inputs) -> None:
    ops, sizes = fd.ops, list(inputs[0].shape)
    grad, x, mean, rstd, weight = (load(fd, tensor) for tensor in inputs)
    scale = sizes[1] / inputs[0].numel()

    def everywhere(channel_value: TensorView) -> TensorView:
        return ops.broadcast_in_dim(channel_value, sizes, [1])

    normal = ops.mul(ops.sub(x, everywhere(mean)), everywhere(rstd))
    grad_bias = ops.sum(grad, [0, 2, 3])
    grad_weight = ops.sum(ops.mul(grad, normal), [0, 2, 3])
    centred = ops.sub(grad, everywhere(ops.mul(grad_bias, scale)))
    centred = ops.sub(centred, ops.mul(normal, everywhere(ops.mul(grad_weight, scale))))
    store(fd, ops.mul(centred, everywhere(ops.mul(weight, rstd))), inputs[0])
    store(fd, grad_weight, inputs[4])
    store(fd, grad_bias, inputs[4])


def eager_batchnorm_backward(
    grad: torch.Tensor,
    x: torch.Tensor,
    mean: torch.Tensor,
    rstd: torch.Tensor,
    weight: torch.Tensor,
) -> tuple[torch.Tensor, ...]:
    return torch.ops.aten.native_batch_norm_backward(
        grad, x, weight, None, None, mean, rstd, True, EPSILON, [True, True, True]
    )


def in_groups(sizes: Sequence[int], groups: int | None) -> list[int]:
    """Sizes with the channels split; None: each is a group."""
    count = groups or sizes[1]
    return [sizes[0], count, sizes[1] // count, *sizes[2:]]


def define_group_norm(groups: int | None) -> Define:
    def define(fd: FusionDefinition, inputs: Inputs) -> None:
        ops, sizes = fd.ops, list(inputs[0].shape)
        x, weight, bias = (load(fd, tensor) for tensor in inputs)
        split = in_groups(sizes, groups)
        grouped = ops.reshape(x, split)
        variance, mean = ops.var_mean(grouped, [2, 3, 4], 0)
        rstd = ops.broadcast_in_dim(ops.rsqrt(ops.add(variance, EPSILON)), split, [0, 1])
        normal = ops.mul(ops.sub(grouped, ops.broadcast_in_dim(mean, split, [0, 1])), rstd)
        result = ops.mul(ops.reshape(normal, sizes), ops.broadcast_in_dim(weight, sizes, [1]))
        store(fd, ops.add(result, ops.broadcast_in_dim(bias, sizes, [1])), inputs[0])

    return define


def eager_group_norm(groups: int) -> Callable[..., torch.Tensor]:
    def eager(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return functional.group_norm(x, groups, weight, bias, EPSILON)

    return eager


def eager_instance_norm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return functional.instance_norm(x, weight=weight, bias=bias, eps=EPSILON)


def define_group_norm_backward(groups: int | None) -> Define:
    def define(fd: FusionDefinition, inputs: Inputs) -> None:
        ops, sizes = fd.ops, list(inputs[0].shape)
        grad, x, mean, rstd, weight = (load(fd, tensor) for tensor in inputs)
        split = in_groups(sizes, groups)
        scale = 1 / math.prod(split[2:])

        def along_group(value: TensorView) -> TensorView:
            return ops.broadcast_in_dim(value, split, [0, 1])

        normal = ops.mul(ops.sub(ops.reshape(x, split), along_group(mean)), along_group(rstd))
        weighted = ops.reshape(ops.mul(grad, ops.broadcast_in_dim(weight, sizes, [1])), split)
        mean_grad = ops.mul(ops.sum(weighted, [2, 3, 4]), scale)
        mean_product = ops.mul(ops.sum(ops.mul(weighted, normal), [2, 3, 4]), scale)
        centred = ops.sub(weighted, along_group(mean_grad))
        centred = ops.sub(centred, ops.mul(normal, along_group(mean_product)))
        store(fd, ops.reshape(ops.mul(centred, along_group(rstd)), sizes), inputs[0])
        product = ops.mul(grad, ops.reshape(normal, sizes))
        store(fd, ops.sum(product, [0, 2, 3]), inputs[4])
        store(fd, ops.sum(grad, [0, 2, 3]), inputs[4])

    return define


def eager_group_norm_backward(groups: int | None) -> Callable[..., tuple[torch.Tensor, ...]]:
    def eager(
        grad: torch.Tensor,
        x: torch.Tensor,
        mean: torch.Tensor,
        rstd: torch.Tensor,
        weight: torch.Tensor,
    ) -> tuple[torch.Tensor, ...]:
        batch, channels, height, width = x.shape
        # On the CPU it takes statistics of the dtype of x only.
        mean, rstd = mean.to(x.dtype), rstd.to(x.dtype)
        count = groups or channels
        return torch.ops.aten.native_group_norm_backward(
            grad, x, mean, rstd, weight, batch, channels, height * width, count, [True] * 3
        )

    return eager


# ------------------------------------------------------------------------------ training and tokens


def define_swiglu_backward(fd: FusionDefinition, inputs: Inputs) -> None:
    ops = fd.ops
    grad, gate, up = (load(fd, tensor) for tensor in inputs)
    sigmoid = ops.sigmoid(gate)
    silu = ops.mul(gate, sigmoid)
    slope = ops.mul(sigmoid, ops.add(ops.mul(gate, ops.sub(1.0, sigmoid)), 1.0))
    store(fd, ops.mul(ops.mul(grad, up), slope), inputs[0])
    store(fd, ops.mul(grad, silu), inputs[0])


def eager_swiglu_backward(
    grad: torch.Tensor, gate: torch.Tensor, up: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    sigmoid = gate.sigmoid()
    slope = sigmoid * (1 + gate * (1 - sigmoid))
    return grad * up * slope, grad * (gate * sigmoid)


def define_adam(fd: FusionDefinition, inputs: Inputs) -> None:
    ops = fd.ops
    parameter, gradient, first, second = (load(fd, tensor) for tensor in inputs)
    first = ops.add(ops.mul(first, FIRST_DECAY), ops.mul(gradient, 1 - FIRST_DECAY))
    square = ops.mul(gradient, gradient)
    second = ops.add(ops.mul(second, SECOND_DECAY), ops.mul(square, 1 - SECOND_DECAY))
    root = ops.sqrt(ops.mul(second, 1 / SECOND_CORRECTION))
    change = ops.truediv(ops.mul(first, 1 / FIRST_CORRECTION), ops.add(root, ADAM_EPSILON))
    store(fd, ops.sub(parameter, ops.mul(change, LEARNING_RATE)), inputs[0])
    store(fd, first, inputs[0])
    store(fd, second, inputs[0])


def eager_adam(
    parameter: torch.Tensor, gradient: torch.Tensor, first: torch.Tensor, second: torch.Tensor
) -> tuple[torch.Tensor, ...]:
    first = first * FIRST_DECAY + gradient * (1 - FIRST_DECAY)
    second = second * SECOND_DECAY + gradient * gradient * (1 - SECOND_DECAY)
    root = (second * (1 / SECOND_CORRECTION)).sqrt()
    change = first * (1 / FIRST_CORRECTION) / (root + ADAM_EPSILON)
    return parameter - change * LEARNING_RATE, first, second


def define_embedding(fd: FusionDefinition, inputs: Inputs) -> None:
    ops, sizes = fd.ops, [len(inputs[0]), inputs[1].shape[1]]
    index = fd.from_pytorch(inputs[0], static_sizes=True)
    table, weight = (load(fd, tensor) for tensor in inputs[1:])
    x = ops.index_select(table, index, 0)
    mean = ops.mul(ops.sum(ops.mul(x, x), [1]), 1 / sizes[1])
    rstd = ops.broadcast_in_dim(ops.rsqrt(ops.add(mean, EPSILON)), sizes, [0])
    result = ops.mul(ops.mul(x, rstd), ops.broadcast_in_dim(weight, sizes, [1]))
    store(fd, result, inputs[1])


def eager_embedding(index: torch.Tensor, table: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return eager_rmsnorm(functional.embedding(index, table), weight)


def define_masked(fd: FusionDefinition, inputs: Inputs) -> None:
    ops, sizes = fd.ops, list(inputs[0].shape)
    x, mask = load(fd, inputs[0]), fd.from_pytorch(inputs[1], static_sizes=True)
    scaled = ops.mul(x, 1 / math.sqrt(sizes[-1]))
    x = ops.where(ops.broadcast_in_dim(mask, sizes, [1, 2]), scaled, -math.inf)
    greatest = ops.broadcast_in_dim(ops.max(x, [2]), sizes, [0, 1])
    exponential = ops.exp(ops.sub(x, greatest))
    total = ops.broadcast_in_dim(ops.sum(exponential, [2]), sizes, [0, 1])
    store(fd, ops.truediv(exponential, total), inputs[0])


def eager_masked(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    scaled = x * (1 / math.sqrt(x.shape[-1]))
    return functional.softmax(scaled.masked_fill(~mask, -math.inf), 2)


def define_cumsum(fd: FusionDefinition, inputs: Inputs) -> None:
    store(fd, fd.ops.cumsum(load(fd, inputs[0]), 1), inputs[0])


def eager_cumsum(x: torch.Tensor) -> torch.Tensor:
    return x.cumsum(1)


# ------------------------------------------------------------------------- chains, other data types


def define_chain(length: int) -> Define:
    def define(fd: FusionDefinition, inputs: Inputs) -> None:
        ops = fd.ops
        links: list[Callable[[TensorView], TensorView]] = [
            lambda x: ops.mul(x, 1.25),
            lambda x: ops.add(x, 0.125),
            ops.tanh,
            ops.neg,
            lambda x: ops.sub(x, 0.5),
        ]
        x = load(fd, inputs[0])
        for i in range(length):
            x = links[i % len(links)](x)
        store(fd, x, inputs[0])

    return define


def eager_chain(length: int) -> Callable[[torch.Tensor], torch.Tensor]:
    links: list[Callable[[torch.Tensor], torch.Tensor]] = [
        lambda x: x * 1.25,
        lambda x: x + 0.125,
        torch.tanh,
        torch.neg,
        lambda x: x - 0.5,
    ]

    def eager(x: torch.Tensor) -> torch.Tensor:
        for i in range(length):
            x = links[i % len(links)](x)
        return x

    return eager


def define_integers(fd: FusionDefinition, inputs: Inputs) -> None:
    ops = fd.ops
    a, b = (fd.from_pytorch(tensor) for tensor in inputs)
    fd.add_output(ops.bitwise_and(ops.where(ops.gt(a, b), ops.mul(a, 3), ops.sub(b, a)), 255))


def eager_integers(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.where(a > b, a * 3, b - a) & 255


def define_double_norm(fd: FusionDefinition, inputs: Inputs) -> None:
    ops, sizes = fd.ops, list(inputs[0].shape)
    x, weight = (fd.from_pytorch(tensor, static_sizes=True) for tensor in inputs)
    mean = ops.mul(ops.sum(ops.mul(x, x), [1]), 1 / sizes[1])
    rstd = ops.broadcast_in_dim(ops.rsqrt(ops.add(mean, EPSILON)), sizes, [0])
    fd.add_output(ops.mul(ops.mul(x, rstd), ops.broadcast_in_dim(weight, sizes, [1])))


def eager_double_norm(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return eager_rmsnorm(x, weight)
