# SPDX-License-Identifier: BSD-3-Clause
"""The cases of cpu.py: the table's families, and definitions beyond it at any size."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import cpu_definitions as of
import torch
from cases import BY_NAME, Case, Tensors, last, normals, whole
from cpu_definitions import GROUPS
from definitions import EPSILON, Sizes, define_batchnorm, eager_batchnorm

WIDTH = 2048  # of rows, in the table


def rows(elements: int) -> Sizes:
    return (max(elements // WIDTH, 1), WIDTH)


def wide_rows(elements: int) -> Sizes:
    """Of a vocabulary."""
    return (max(elements // 32768, 1), 32768)


def heads(elements: int) -> Sizes:
    return (1, 32, max(elements // (32 * 128), 1), 128)


def flat(elements: int) -> Sizes:
    return (elements,)


def narrow_rows(elements: int) -> Sizes:
    """Rows that even a thousand elements have several of."""
    width = 100 if elements < 10**5 else 1000
    return (max(elements // width, 1), width)


def images(elements: int) -> Sizes:
    """About so many elements of NCHW; channels are whole groups."""
    side = 8 if elements < 10**5 else 32
    pixels = side * side
    channels = min(max(elements // (2 * pixels) // GROUPS * GROUPS, GROUPS), 8 * GROUPS)
    return (max(elements // (channels * pixels), 2), channels, side, side)


def scores(elements: int) -> Sizes:
    """Of attention: heads x queries x keys."""
    length = 16 if elements < 10**4 else 64 if elements < 10**6 else 512
    return (max(elements // (length * length), 1), length, length)


@dataclass(frozen=True)
class Family:
    """A case at any number of elements."""

    name: str
    case: Case
    shape: Callable[[int], Sizes]
    # None: that of the run.
    dtype: torch.dtype | None = None

    def at(self, elements: int, dtype: torch.dtype) -> Case:
        return self.case.at(self.shape(elements), self.dtype or dtype)


def _of_table(name: str, case: str, shape: Callable[[int], Sizes] = rows) -> Family:
    return Family(name, BY_NAME[case], shape)


TABLE = [
    _of_table("a * b", "pointwise_mul"),
    _of_table("bias + gelu", "bias_gelu"),
    _of_table("silu(a) * b", "silu_mul"),
    _of_table("layer norm", "layernorm_fwd"),
    _of_table("RMS norm", "rmsnorm_fwd"),
    _of_table("softmax", "softmax_fwd"),
    _of_table("sum over rows", "reduce_inner"),
    _of_table("sum over columns", "reduce_outer"),
    _of_table("transpose + add", "transpose_add"),
    _of_table("RMS norm backward", "rmsnorm_bwd"),
    _of_table("layer norm backward", "layernorm_bwd"),
    _of_table("softmax backward", "softmax_bwd"),
    _of_table("rope", "rope", heads),
    _of_table("cross entropy", "cross_entropy_fwd", wide_rows),
]

# What should take as long as memory does, at sizes that no cache holds.
LARGE = [
    *(_of_table(f"sum over {what}", f"reduce_{kind}")
      for what, kind in (("rows", "inner"), ("columns", "outer"), ("all", "all"))),
    *(family for family in TABLE if "norm" in family.name or "softmax" in family.name),
]  # fmt: skip


# ------------------------------------------------------------------------------- beyond the table


def make_batchnorm(tensors: Tensors, sizes: Sizes) -> list[Any]:
    weight, bias, mean = (tensors.normal(sizes[1], dtype=torch.float) for _ in range(3))
    return [tensors.normal(*sizes), weight, bias, mean, torch.ones_like(mean)]


def make_batchnorm_backward(tensors: Tensors, sizes: Sizes) -> list[Any]:
    grad, x = tensors.normal(*sizes), tensors.normal(*sizes)
    variance, mean = torch.var_mean(x.float(), (0, 2, 3), correction=0)
    weight = tensors.normal(sizes[1], dtype=torch.float)
    return [grad, x, mean, (variance + EPSILON).rsqrt(), weight]


def make_norm(tensors: Tensors, sizes: Sizes) -> list[Any]:
    weight, bias = (tensors.normal(sizes[1]) for _ in range(2))
    return [tensors.normal(*sizes), weight, bias]


def make_group_norm_backward(groups: int | None) -> Callable[[Tensors, Sizes], list[Any]]:
    def make(tensors: Tensors, sizes: Sizes) -> list[Any]:
        grad, x = tensors.normal(*sizes), tensors.normal(*sizes)
        count = groups or sizes[1]
        variance, mean = torch.var_mean(x.float().view(sizes[0], count, -1), 2, correction=0)
        return [grad, x, mean, (variance + EPSILON).rsqrt(), tensors.normal(sizes[1])]

    return make


def make_adam(tensors: Tensors, sizes: Sizes) -> list[Any]:
    parameter, gradient, first = (tensors.normal(*sizes) for _ in range(3))
    return [parameter, gradient, first, tensors.normal(*sizes).square()]


def make_embedding(tensors: Tensors, sizes: Sizes) -> list[Any]:
    """As many rows of a table as it has, in any order."""
    return [tensors.integers(sizes[0], sizes[0]), tensors.normal(*sizes), tensors.normal(sizes[1])]


def make_masked(tensors: Tensors, sizes: Sizes) -> list[Any]:
    mask = torch.ones(sizes[1:], dtype=torch.bool, device=tensors.device).tril()
    return [tensors.normal(*sizes), mask]


def make_integers(tensors: Tensors, sizes: Sizes) -> list[Any]:
    return [tensors.integers(1000, *sizes) for _ in range(2)]


def _more(
    name: str,
    make: Callable[[Tensors, Sizes], list[Any]],
    define: Callable[..., None],
    eager: Callable[..., Any],
    shape: Callable[[int], Sizes],
    dtype: torch.dtype | None = None,
    updates: tuple[int, ...] = (),
) -> Family:
    sizes = shape(1000)
    case = Case(name, name, 0, sizes, sizes, make, define, eager, updates=updates)
    return Family(name, case, shape, dtype)


def _chain(length: int) -> Family:
    define, eager = of.define_chain(length), of.eager_chain(length)
    return _more(f"chain of {length}", normals(whole), define, eager, flat)


MORE = [
    _more("batch norm", make_batchnorm, define_batchnorm, eager_batchnorm, images, updates=(3, 4)),
    _more(
        "batch norm backward",
        make_batchnorm_backward,
        of.define_batchnorm_backward,
        of.eager_batchnorm_backward,
        images,
    ),
    _more(
        "group norm", make_norm, of.define_group_norm(GROUPS), of.eager_group_norm(GROUPS), images
    ),
    _more(
        "group norm backward",
        make_group_norm_backward(GROUPS),
        of.define_group_norm_backward(GROUPS),
        of.eager_group_norm_backward(GROUPS),
        images,
    ),
    _more("instance norm", make_norm, of.define_group_norm(None), of.eager_instance_norm, images),
    _more(
        "instance norm backward",
        make_group_norm_backward(None),
        of.define_group_norm_backward(None),
        of.eager_group_norm_backward(None),
        images,
    ),
    _more(
        "SwiGLU backward",
        normals(whole, whole, whole),
        of.define_swiglu_backward,
        of.eager_swiglu_backward,
        narrow_rows,
    ),
    _more("Adam", make_adam, of.define_adam, of.eager_adam, flat),
    _more("embedding + norm", make_embedding, of.define_embedding, of.eager_embedding, narrow_rows),
    _more("masked softmax", make_masked, of.define_masked, of.eager_masked, scores),
    _more("cumulative sum", normals(whole), of.define_cumsum, of.eager_cumsum, narrow_rows),
    _chain(5),
    _chain(20),
    _chain(50),
    _more("int64", make_integers, of.define_integers, of.eager_integers, flat, torch.int64),
    _more(
        "float64 RMS norm",
        normals(whole, last),
        of.define_double_norm,
        of.eager_double_norm,
        narrow_rows,
        torch.double,
    ),
]
