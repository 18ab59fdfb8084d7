# SPDX-License-Identifier: BSD-3-Clause
"""The benchmark cases: what is computed, at which size, and how near to copy speed it should come.

Each case has the same computation as a fusion definition, written the way Lightning Thunder writes
it (16-bit floats are cast to float32, normalizations are spelled out as reductions, broadcasts and
elementwise ops, all sizes are constants), and as the torch function that eager and torch.compile
run. The same function in float64 (or `reference`, where that cannot be) gives the values that every
result is checked against before it is timed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import definitions as of
import torch
from definitions import EPSILON, Inputs, Sizes
from nvfuse_direct import FusionDefinition


class Tensors:
    """Makes inputs: the same ones for the same seed."""

    def __init__(self, device: torch.device, dtype: torch.dtype) -> None:
        self.device, self.dtype = device, dtype
        self.generator = torch.Generator(device).manual_seed(1)

    def normal(self, *sizes: int, dtype: torch.dtype | None = None) -> torch.Tensor:
        return torch.randn(
            sizes, dtype=dtype or self.dtype, device=self.device, generator=self.generator
        )

    def integers(self, bound: int, *sizes: int) -> torch.Tensor:
        return torch.randint(bound, sizes, device=self.device, generator=self.generator)


@dataclass(frozen=True)
class Case:
    """One row of the table.

    `make` makes the inputs from `sizes`, or in a small run from `small`: usually the sizes of the
    main input. What `updates` names is written in place.
    """

    name: str
    formula: str
    target: float  # percent of copy bandwidth
    sizes: Sizes
    small: Sizes
    make: Callable[[Tensors, Sizes], list[Any]]
    define: Callable[[FusionDefinition, Inputs], None]
    eager: Callable[..., Any]
    # Gets the inputs in float64, and after them the outputs of `hidden`.
    reference: Callable[..., Any] | None = None
    # A fusion that tells the reference what only we know, such as which elements are dropped.
    hidden: Callable[[FusionDefinition, Inputs], None] | None = None
    updates: tuple[int, ...] = ()
    dtype: torch.dtype = torch.bfloat16

    def at(self, sizes: Sizes, dtype: torch.dtype) -> Case:
        """The same computation at another size."""
        return dataclasses.replace(self, sizes=sizes, small=sizes, dtype=dtype)

    def inputs(self, device: torch.device, small: bool) -> list[Any]:
        return self.make(Tensors(device, self.dtype), self.small if small else self.sizes)

    def references(self, inputs: Inputs) -> list[torch.Tensor]:
        """What the outputs, and after them the updated inputs, should be."""
        wide = [_wide(each) for each in inputs]
        extra = run_definition(self.hidden, inputs) if self.hidden else []
        results = as_list((self.reference or self.eager)(*wide, *extra))
        return results + [wide[position] for position in self.updates]


def _wide(value: Any) -> Any:
    is_float = isinstance(value, torch.Tensor) and value.is_floating_point()
    return value.to(torch.float64) if is_float else value


def as_list(results: Any) -> list[torch.Tensor]:
    return list(results) if isinstance(results, list | tuple) else [results]


def definition_of(
    define: Callable[[FusionDefinition, Inputs], None], inputs: Inputs
) -> FusionDefinition:
    with FusionDefinition() as fd:
        define(fd, inputs)
    return fd


def run_definition(
    define: Callable[[FusionDefinition, Inputs], None], inputs: Inputs
) -> list[torch.Tensor]:
    return definition_of(define, inputs).execute(inputs)


def bytes_moved(inputs: Inputs, outputs: Inputs) -> int:
    """Every input read once, every output written once."""
    tensors = [each for each in (*inputs, *outputs) if isinstance(each, torch.Tensor)]
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


# --------------------------------------------------------------------------------------- inputs


def normals(*shapes: Callable[[Sizes], Sizes]) -> Callable[[Tensors, Sizes], list[Any]]:
    """Normal numbers of shapes that follow from the sizes."""
    return lambda tensors, sizes: [tensors.normal(*shape(sizes)) for shape in shapes]


def whole(sizes: Sizes) -> Sizes:
    return sizes


def last(sizes: Sizes) -> Sizes:
    return sizes[-1:]


def make_rope(tensors: Tensors, sizes: Sizes) -> list[Any]:
    return [tensors.normal(*shape) for shape in (sizes, sizes[-2:], sizes[-2:])]


def make_dropout(tensors: Tensors, sizes: Sizes) -> list[Any]:
    seed, offset = 7, 0
    return [*normals(whole, whole, last, last)(tensors, sizes), seed, offset]


def make_batchnorm(tensors: Tensors, sizes: Sizes) -> list[Any]:
    x = tensors.normal(*sizes).to(memory_format=torch.channels_last)
    weight, bias, mean = (tensors.normal(sizes[1], dtype=torch.float) for _ in range(3))
    return [x, weight, bias, mean, torch.ones_like(mean)]


def make_cross_entropy(tensors: Tensors, sizes: Sizes) -> list[Any]:
    return [tensors.normal(*sizes), tensors.integers(sizes[1], sizes[0])]


def make_softmax_backward(tensors: Tensors, sizes: Sizes) -> list[Any]:
    return [tensors.normal(*sizes), tensors.normal(*sizes).softmax(1)]


def make_layernorm_backward(tensors: Tensors, sizes: Sizes) -> list[Any]:
    grad, x = tensors.normal(*sizes), tensors.normal(*sizes)
    variance, mean = torch.var_mean(x.float(), 1, correction=0)
    return [grad, x, mean, (variance + EPSILON).rsqrt(), tensors.normal(sizes[1])]


def make_rmsnorm_backward(tensors: Tensors, sizes: Sizes) -> list[Any]:
    grad, x = tensors.normal(*sizes), tensors.normal(*sizes)
    rstd = (x.float().square().mean(1) + EPSILON).rsqrt()
    return [grad, x, rstd, tensors.normal(sizes[1])]


# ------------------------------------------------------------------------------------- the table

WIDE = (16384, 8192)
TINY = (48, 64)

CASES = [
    Case(
        "pointwise_mul",
        "a * b",
        98,
        WIDE,
        TINY,
        normals(whole, whole),
        of.define_pointwise_mul,
        torch.mul,
    ),
    Case(
        "bias_gelu",
        "gelu_tanh(x + bias)",
        95,
        WIDE,
        TINY,
        normals(whole, last),
        of.define_bias_gelu,
        of.eager_bias_gelu,
    ),
    Case(
        "silu_mul",
        "silu(gate) * up",
        98,
        WIDE,
        TINY,
        normals(whole, whole),
        of.define_silu_mul,
        of.eager_silu_mul,
    ),
    Case(
        "dropout_add_layernorm",
        "layer_norm(dropout(x) + residual)",
        90,
        (16384, 4096),
        TINY,
        make_dropout,
        of.define_dropout_add_layernorm,
        of.eager_dropout_add_layernorm,
        of.reference_dropout_add_layernorm,
        of.define_keep_mask,
    ),
    Case(
        "layernorm_fwd",
        "layer_norm(x)",
        95,
        WIDE,
        TINY,
        normals(whole, last, last),
        of.define_layernorm,
        of.eager_layernorm,
    ),
    Case(
        "rmsnorm_fwd",
        "rms_norm(x)",
        97,
        WIDE,
        TINY,
        normals(whole, last),
        of.define_rmsnorm,
        of.eager_rmsnorm,
    ),
    Case(
        "rmsnorm_fwd_32k",
        "rms_norm(x)",
        95,
        (4096, 32768),
        (3, 4096),
        normals(whole, last),
        of.define_rmsnorm,
        of.eager_rmsnorm,
    ),
    Case(
        "softmax_fwd",
        "softmax(x, 1)",
        95,
        WIDE,
        TINY,
        normals(whole),
        of.define_softmax,
        of.eager_softmax,
    ),
    Case(
        "softmax_fwd_128k",
        "softmax(x, 1)",
        93,
        (1024, 131072),
        (2, 8192),
        normals(whole),
        of.define_softmax,
        of.eager_softmax,
    ),
    Case(
        "reduce_inner",
        "sum(x, 1) in float32",
        95,
        WIDE,
        TINY,
        normals(whole),
        of.define_sum([1]),
        of.eager_sum([1]),
    ),
    Case(
        "reduce_outer",
        "sum(x, 0) in float32",
        93,
        WIDE,
        TINY,
        normals(whole),
        of.define_sum([0]),
        of.eager_sum([0]),
    ),
    Case(
        "reduce_all",
        "sum(x) in float32",
        93,
        WIDE,
        TINY,
        normals(whole),
        of.define_sum([0, 1]),
        of.eager_sum([0, 1]),
    ),
    Case(
        "transpose_add",
        "a.T + b",
        96,
        WIDE,
        TINY,
        normals(lambda sizes: sizes[::-1], whole),
        of.define_transpose_add,
        of.eager_transpose_add,
    ),
    Case(
        "batchnorm_channels_last",
        "relu(batch_norm(x)), train",
        62,
        (64, 256, 56, 56),
        (3, 8, 4, 5),
        make_batchnorm,
        of.define_batchnorm,
        of.eager_batchnorm,
        updates=(3, 4),
    ),
    Case(
        "cross_entropy_fwd",
        "cross_entropy(x, label)",
        90,
        (8192, 128256),
        (24, 160),
        make_cross_entropy,
        of.define_cross_entropy,
        of.eager_cross_entropy,
    ),
    Case(
        "rope",
        "x * cos + rotate_half(x) * sin",
        92,
        (2, 32, 8192, 128),
        (2, 3, 16, 8),
        make_rope,
        of.define_rope,
        of.eager_rope,
    ),
    Case(
        "layernorm_bwd",
        "dx, dw, db of layer_norm",
        88,
        WIDE,
        TINY,
        make_layernorm_backward,
        of.define_layernorm_backward,
        of.eager_layernorm_backward,
        of.reference_layernorm_backward,
    ),
    Case(
        "rmsnorm_bwd",
        "dx, dw of rms_norm",
        88,
        WIDE,
        TINY,
        make_rmsnorm_backward,
        of.define_rmsnorm_backward,
        of.eager_rmsnorm_backward,
    ),
    Case(
        "softmax_bwd",
        "dx of softmax",
        97,
        WIDE,
        TINY,
        make_softmax_backward,
        of.define_softmax_backward,
        of.eager_softmax_backward,
    ),
]
BY_NAME = {case.name: case for case in CASES}
