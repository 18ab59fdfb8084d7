# SPDX-License-Identifier: BSD-3-Clause
"""What the benchmark cases compute: as fusion definitions and as torch functions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from nvfuse_direct import DataType, FusionDefinition, TensorView
from torch.nn import functional

Sizes = tuple[int, ...]
Inputs = Sequence[Any]
EPSILON = 1e-5
KEPT = 0.9  # probability that dropout keeps an element
MOMENTUM = 0.1  # of the running statistics of a batch norm
IGNORED_LABEL = -100

_DATA_TYPES = {
    torch.bfloat16: DataType.BFloat16,
    torch.half: DataType.Half,
    torch.float: DataType.Float,
}


def store(fd: FusionDefinition, result: TensorView, like: torch.Tensor) -> None:
    """An output of the inputs' dtype."""
    data_type = _DATA_TYPES[like.dtype]
    fd.add_output(result if data_type == DataType.Float else fd.ops.cast(result, data_type))


def load(fd: FusionDefinition, tensor: torch.Tensor) -> TensorView:
    """An input of constant sizes, in float32."""
    tv = fd.from_pytorch(tensor, static_sizes=True)
    return tv if tensor.dtype == torch.float else fd.ops.cast(tv, DataType.Float)


# ------------------------------------------------------------------------------ pointwise and shape


def define_pointwise_mul(fd: FusionDefinition, inputs: Inputs) -> None:
    a, b = (fd.from_pytorch(tensor) for tensor in inputs)
    store(fd, fd.ops.mul(a, b), inputs[0])


def define_bias_gelu(fd: FusionDefinition, inputs: Inputs) -> None:
    x, bias = (fd.from_pytorch(tensor) for tensor in inputs)
    x = fd.ops.add(x, fd.ops.broadcast(bias, [True, False]))
    cube = fd.ops.mul(fd.ops.mul(x, x), x)
    inner = fd.ops.mul(fd.ops.add(x, fd.ops.mul(cube, 0.044715)), math.sqrt(2 / math.pi))
    gate = fd.ops.mul(fd.ops.add(fd.ops.tanh(inner), 1.0), 0.5)
    store(fd, fd.ops.mul(x, gate), inputs[0])


def eager_bias_gelu(x: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return functional.gelu(x + bias, approximate="tanh")


def define_silu_mul(fd: FusionDefinition, inputs: Inputs) -> None:
    gate, up = (fd.ops.cast(fd.from_pytorch(tensor), DataType.Float) for tensor in inputs)
    silu = fd.ops.mul(gate, fd.ops.sigmoid(gate))
    store(fd, fd.ops.mul(silu, up), inputs[0])


def define_transpose_add(fd: FusionDefinition, inputs: Inputs) -> None:
    a, b = (fd.from_pytorch(tensor) for tensor in inputs)
    store(fd, fd.ops.add(fd.ops.permute(a, [1, 0]), b), inputs[0])


def define_rope(fd: FusionDefinition, inputs: Inputs) -> None:
    x, cos, sin = (fd.ops.cast(fd.from_pytorch(tensor), DataType.Float) for tensor in inputs)
    sizes = list(inputs[0].shape)
    half = sizes[-1] // 2
    low = fd.ops.slice(x, [0, 0, 0, 0], [*sizes[:-1], half])
    high = fd.ops.slice(x, [0, 0, 0, half], sizes)
    rotated = fd.ops.cat([fd.ops.neg(high), low], -1)
    wide = [True, True, False, False]
    straight = fd.ops.mul(x, fd.ops.broadcast(cos, wide))
    turned = fd.ops.mul(rotated, fd.ops.broadcast(sin, wide))
    store(fd, fd.ops.add(straight, turned), inputs[0])


def eager_rope(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    low, high = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-high, low), dim=-1) * sin


def eager_silu_mul(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    return functional.silu(gate) * up


def eager_transpose_add(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a.t() + b


# --------------------------------------------------------------------------------------- reductions


def define_sum(dims: Sequence[int]) -> Any:
    def define(fd: FusionDefinition, inputs: Inputs) -> None:
        fd.add_output(fd.ops.sum(load(fd, inputs[0]), list(dims)))

    return define


def eager_sum(dims: Sequence[int]) -> Any:
    def eager(x: torch.Tensor) -> torch.Tensor:
        return x.sum(dims, dtype=_widened(x.dtype))

    return eager


def _widened(dtype: torch.dtype) -> torch.dtype:
    """float32 math for what is narrower."""
    return dtype if dtype == torch.float64 else torch.float32


def _widen(x: torch.Tensor) -> torch.Tensor:
    return x.to(_widened(x.dtype))


def along_rows(fd: FusionDefinition, row_value: TensorView, sizes: Sizes) -> TensorView:
    """One value per row, for every element of the row."""
    return fd.ops.broadcast_in_dim(row_value, list(sizes), [0])


def along_columns(fd: FusionDefinition, column_value: TensorView, sizes: Sizes) -> TensorView:
    return fd.ops.broadcast_in_dim(column_value, list(sizes), [1])


def define_softmax(fd: FusionDefinition, inputs: Inputs) -> None:
    ops, sizes = fd.ops, tuple(inputs[0].shape)
    x = load(fd, inputs[0])
    exponential = ops.exp(ops.sub(x, along_rows(fd, ops.max(x, [1]), sizes)))
    total = along_rows(fd, ops.sum(exponential, [1]), sizes)
    store(fd, ops.mul(exponential, ops.reciprocal(total)), inputs[0])


def eager_softmax(x: torch.Tensor) -> torch.Tensor:
    return functional.softmax(x, 1)


def define_softmax_backward(fd: FusionDefinition, inputs: Inputs) -> None:
    ops, sizes = fd.ops, tuple(inputs[0].shape)
    grad, y = (load(fd, tensor) for tensor in inputs)
    product = ops.mul(grad, y)
    dot = along_rows(fd, ops.sum(product, [1]), sizes)
    store(fd, ops.sub(product, ops.mul(y, dot)), inputs[0])


def eager_softmax_backward(grad: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    grad, wide = _widen(grad), _widen(y)
    product = grad * wide
    return (product - wide * product.sum(1, keepdim=True)).to(y.dtype)


def normalized(fd: FusionDefinition, x: TensorView, sizes: Sizes) -> TensorView:
    """(x - mean) / sqrt(variance + epsilon) of each row."""
    ops = fd.ops
    variance, mean = ops.var_mean(x, [1], 0)
    factor = along_rows(fd, ops.rsqrt(ops.add(variance, EPSILON)), sizes)
    return ops.mul(ops.sub(x, along_rows(fd, mean, sizes)), factor)


def layernorm(
    fd: FusionDefinition, x: TensorView, weight: TensorView, bias: TensorView, sizes: Sizes
) -> TensorView:
    product = fd.ops.mul(normalized(fd, x, sizes), along_columns(fd, weight, sizes))
    return fd.ops.add(product, along_columns(fd, bias, sizes))


def define_layernorm(fd: FusionDefinition, inputs: Inputs) -> None:
    x, weight, bias = (load(fd, tensor) for tensor in inputs)
    store(fd, layernorm(fd, x, weight, bias, tuple(inputs[0].shape)), inputs[0])


def eager_layernorm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return functional.layer_norm(x, weight.shape, weight, bias, EPSILON)


def define_rmsnorm(fd: FusionDefinition, inputs: Inputs) -> None:
    ops, sizes = fd.ops, tuple(inputs[0].shape)
    x, weight = (load(fd, tensor) for tensor in inputs)
    mean = ops.mul(ops.sum(ops.mul(x, x), [1]), 1.0 / sizes[1])
    factor = along_rows(fd, ops.rsqrt(ops.add(mean, EPSILON)), sizes)
    store(fd, ops.mul(ops.mul(x, factor), along_columns(fd, weight, sizes)), inputs[0])


def eager_rmsnorm(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return functional.rms_norm(x, weight.shape, weight, EPSILON)


def keep_mask(fd: FusionDefinition, inputs: Inputs) -> TensorView:
    """The elements of x that a dropout with the seed and offset of the last two inputs keeps."""
    seed, offset = (fd.define_scalar(DataType.Int) for _ in range(2))
    chances = fd.ops.uniform(
        0.0, 1.0, list(inputs[0].shape), rng_seed=seed, rng_offset=offset, dtype=DataType.Float
    )
    return fd.ops.lt(chances, KEPT)


def define_keep_mask(fd: FusionDefinition, inputs: Inputs) -> None:
    """keep_mask() alone, with the inputs of dropout_add_layernorm (it uses no tensor)."""
    for tensor in inputs[:-2]:
        fd.from_pytorch(tensor, static_sizes=True)
    fd.add_output(keep_mask(fd, inputs))


def define_dropout_add_layernorm(fd: FusionDefinition, inputs: Inputs) -> None:
    ops = fd.ops
    x, residual, weight, bias = (load(fd, tensor) for tensor in inputs[:4])
    mask = ops.cast(keep_mask(fd, inputs), DataType.Float)
    total = ops.add(ops.mul(ops.mul(x, mask), 1.0 / KEPT), residual)
    store(fd, layernorm(fd, total, weight, bias, tuple(inputs[0].shape)), inputs[0])


def eager_dropout_add_layernorm(
    x: torch.Tensor,
    residual: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor,
    seed: int,
    offset: int,
) -> torch.Tensor:
    kept = functional.dropout(x, 1 - KEPT, training=True)
    return eager_layernorm(kept + residual, weight, bias)


def reference_dropout_add_layernorm(
    x: torch.Tensor,
    residual: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor,
    seed: int,
    offset: int,
    mask: torch.Tensor,
) -> torch.Tensor:
    return eager_layernorm(x * mask / KEPT + residual, weight, bias)


def define_batchnorm(fd: FusionDefinition, inputs: Inputs) -> None:
    """relu(batch_norm(x)) in training: statistics of the batch, running statistics updated."""
    ops, sizes = fd.ops, tuple(inputs[0].shape)
    count = inputs[0].numel() // sizes[1]
    x, weight, bias, running_mean, running_variance = (load(fd, tensor) for tensor in inputs)

    def everywhere(channel_value: TensorView) -> TensorView:
        return ops.broadcast_in_dim(channel_value, list(sizes), [1])

    variance, mean = ops.var_mean(x, [0, 2, 3], 0)
    factor = everywhere(ops.rsqrt(ops.add(variance, EPSILON)))
    result = ops.mul(ops.sub(x, everywhere(mean)), factor)
    result = ops.add(ops.mul(result, everywhere(weight)), everywhere(bias))
    unbiased = ops.mul(variance, count / (count - 1))
    for running, new in ((running_mean, mean), (running_variance, unbiased)):
        updated = ops.add(ops.mul(running, 1 - MOMENTUM), ops.mul(new, MOMENTUM))
        fd.add_output(updated, alias_input=running)
    store(fd, ops.where(ops.gt(result, 0.0), result, 0.0), inputs[0])


def eager_batchnorm(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor,
    running_mean: torch.Tensor,
    running_variance: torch.Tensor,
) -> torch.Tensor:
    result = functional.batch_norm(
        x, running_mean, running_variance, weight, bias, True, MOMENTUM, EPSILON
    )
    return functional.relu(result)


def define_cross_entropy(fd: FusionDefinition, inputs: Inputs) -> None:
    ops, sizes = fd.ops, tuple(inputs[0].shape)
    x = load(fd, inputs[0])
    label = fd.from_pytorch(inputs[1], static_sizes=True)
    greatest = ops.max(x, [1])
    exponential = ops.exp(ops.sub(x, along_rows(fd, greatest, sizes)))
    log_sum = ops.add(ops.log(ops.sum(exponential, [1])), greatest)
    counts = ops.ne(label, IGNORED_LABEL)
    index = ops.broadcast_in_dim(ops.where(counts, label, 0), [sizes[0], 1], [0])
    chosen = ops.squeeze(ops.take_along_axis(x, index, 1), [1])
    losses = ops.where(counts, ops.sub(log_sum, chosen), 0.0)
    number = ops.sum(ops.cast(counts, DataType.Float), [0])
    fd.add_output(ops.mul(ops.sum(losses, [0]), ops.reciprocal(number)))


def eager_cross_entropy(x: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(_widen(x), label, ignore_index=IGNORED_LABEL)


def define_layernorm_backward(fd: FusionDefinition, inputs: Inputs) -> None:
    ops, sizes = fd.ops, tuple(inputs[0].shape)
    grad, x, mean, rstd, weight = (load(fd, tensor) for tensor in inputs)
    rstd = along_rows(fd, rstd, sizes)
    normal = ops.mul(ops.sub(x, along_rows(fd, mean, sizes)), rstd)
    grad_normal = ops.mul(grad, along_columns(fd, weight, sizes))
    mean_grad = ops.mul(ops.sum(grad_normal, [1]), 1.0 / sizes[1])
    mean_product = ops.mul(ops.sum(ops.mul(grad_normal, normal), [1]), 1.0 / sizes[1])
    centred = ops.sub(grad_normal, along_rows(fd, mean_grad, sizes))
    centred = ops.sub(centred, ops.mul(normal, along_rows(fd, mean_product, sizes)))
    store(fd, ops.mul(centred, rstd), inputs[0])
    store(fd, ops.sum(ops.mul(grad, normal), [0]), inputs[0])
    store(fd, ops.sum(grad, [0]), inputs[0])


def eager_layernorm_backward(
    grad: torch.Tensor,
    x: torch.Tensor,
    mean: torch.Tensor,
    rstd: torch.Tensor,
    weight: torch.Tensor,
) -> tuple[torch.Tensor, ...]:
    if x.device.type == "cpu":
        # On the CPU it takes statistics of the dtype of x only.
        mean, rstd = mean.to(x.dtype), rstd.to(x.dtype)
    return torch.ops.aten.native_layer_norm_backward(
        grad, x, weight.shape, mean[:, None], rstd[:, None], weight, weight, [True, True, True]
    )


def reference_layernorm_backward(
    grad: torch.Tensor,
    x: torch.Tensor,
    mean: torch.Tensor,
    rstd: torch.Tensor,
    weight: torch.Tensor,
) -> list[torch.Tensor]:
    normal = (x - mean[:, None]) * rstd[:, None]
    grad_normal = grad * weight
    centred = grad_normal - grad_normal.mean(1, keepdim=True)
    centred = centred - normal * (grad_normal * normal).mean(1, keepdim=True)
    return [centred * rstd[:, None], (grad * normal).sum(0), grad.sum(0)]


def define_rmsnorm_backward(fd: FusionDefinition, inputs: Inputs) -> None:
    ops, sizes = fd.ops, tuple(inputs[0].shape)
    grad, x, rstd, weight = (load(fd, tensor) for tensor in inputs)
    rstd = along_rows(fd, rstd, sizes)
    normal = ops.mul(x, rstd)
    grad_normal = ops.mul(grad, along_columns(fd, weight, sizes))
    mean_product = ops.mul(ops.sum(ops.mul(grad_normal, normal), [1]), 1.0 / sizes[1])
    centred = ops.sub(grad_normal, ops.mul(normal, along_rows(fd, mean_product, sizes)))
    store(fd, ops.mul(centred, rstd), inputs[0])
    store(fd, ops.sum(ops.mul(grad, normal), [0]), inputs[0])


def eager_rmsnorm_backward(
    grad: torch.Tensor, x: torch.Tensor, rstd: torch.Tensor, weight: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    wide_grad = _widen(grad)
    normal = _widen(x) * rstd[:, None]
    grad_normal = wide_grad * _widen(weight)
    product = (grad_normal * normal).mean(1, keepdim=True)
    grad_x = (grad_normal - normal * product) * rstd[:, None]
    return grad_x.to(x.dtype), (wide_grad * normal).sum(0).to(x.dtype)
