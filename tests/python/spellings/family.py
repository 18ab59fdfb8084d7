# SPDX-License-Identifier: BSD-3-Clause
"""Families of layers, each in several spellings: as frontends (Thunder, inductor's decompositions),
Transformers' model code and papers write them. Every spelling of a family computes the same.

A definition is written with `Math`, which prints short what `fd.ops` says long; a family says what
its inputs are and what torch computes of them in float64.

Sizes are small, for tests. With NVFUSER_SPELLING_SIZES=model in the environment when the families
are imported they are those of models, 2^24 elements and more in each large tensor, for
benchmarks/spelling_times.py. Inputs lie on torch's default device.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch
from nvfuse_direct import DataType, FusionDefinition

Tensor = torch.Tensor
Sizes = TypeVar("Sizes")
BFLOAT = torch.bfloat16
SIZES = os.environ.get("NVFUSER_SPELLING_SIZES", "small")
TYPES = {
    torch.float: DataType.Float,
    torch.bfloat16: DataType.BFloat16,
    torch.bool: DataType.Bool,
    torch.int64: DataType.Int,
}


def sized(small: Sizes, model: Sizes) -> Sizes:
    """Those of the two sizes that were asked for."""
    return {"small": small, "model": model}[SIZES]


class Math:
    """`fd.ops` with Python numbers as scalars, and short names for what definitions repeat."""

    def __init__(self, fd: FusionDefinition) -> None:
        self.fd = fd

    def scalar(self, value: Any) -> Any:
        return self.fd.define_scalar(value) if isinstance(value, (int, float)) else value

    def __getattr__(self, name: str) -> Callable[..., Any]:
        op = getattr(self.fd.ops, name)
        return lambda *operands, **named: op(*map(self.scalar, operands), **named)

    def f(self, x: Any) -> Any:
        return self.fd.ops.cast(x, DataType.Float)

    def b(self, x: Any) -> Any:
        return self.fd.ops.cast(x, DataType.BFloat16)

    def sum(self, x: Any, dims: Sequence[int], keepdim: bool = True) -> Any:
        return self.fd.ops.sum(x, list(dims), keepdim=keepdim)

    def max(self, x: Any, dims: Sequence[int], keepdim: bool = True) -> Any:
        return self.fd.ops.max(x, list(dims), keepdim=keepdim)

    def mean(self, x: Any, dims: Sequence[int], count: int) -> Any:
        return self.div(self.sum(x, dims), float(count))

    def var_mean(self, x: Any, dims: Sequence[int]) -> Any:
        return self.fd.ops.var_mean(x, list(dims), 0, True)

    def spread(self, x: Any, shape: Sequence[int], dims: Sequence[int]) -> Any:
        """broadcast_in_dim."""
        return self.fd.ops.broadcast_in_dim(x, list(shape), list(dims))

    def unsqueeze(self, x: Any, flags: Sequence[bool]) -> Any:
        return self.fd.ops.broadcast(x, list(flags))

    def full(self, shape: Sequence[int], value: float) -> Any:
        return self.fd.ops.full(list(shape), self.scalar(float(value)), DataType.Float)

    def reshape(self, x: Any, shape: Sequence[int]) -> Any:
        return self.fd.ops.reshape(x, list(shape))

    def permute(self, x: Any, dims: Sequence[int]) -> Any:
        return self.fd.ops.permute(x, list(dims))

    def slice(self, x: Any, starts: Sequence[int], ends: Sequence[int]) -> Any:
        return self.fd.ops.slice(x, list(starts), list(ends))

    def cat(self, parts: Sequence[Any], dim: int) -> Any:
        return self.fd.ops.cat(list(parts), dim)


Spelling = Callable[..., Any]  # (math, *tensors) -> output or outputs


@dataclass
class Family:
    """Inputs, the reference in float64 and spellings by name."""

    name: str
    inputs: Callable[[], list[Any]]
    reference: Callable[..., Any]
    tolerance: float = 2e-2
    spellings: dict[str, Spelling] = field(default_factory=dict)

    def __call__(self, name: str) -> Callable[[Spelling], Spelling]:
        def add(spelling: Spelling) -> Spelling:
            self.spellings[name] = spelling
            return spelling

        return add


FAMILIES: dict[str, Family] = {}


def family(
    name: str, inputs: Callable[[], list[Any]], reference: Callable[..., Any], tol: float = 2e-2
) -> Family:
    FAMILIES[name] = Family(name, inputs, reference, tol)
    return FAMILIES[name]


def random(seed: int) -> dict[str, Any]:
    """Arguments of torch's functions that make repeatable random tensors on the default device."""
    device = torch.get_default_device()
    return {"generator": torch.Generator(device).manual_seed(seed), "device": device}


def rand(*sizes: int, dtype: torch.dtype = BFLOAT, seed: int = 0) -> Tensor:
    return torch.randn(sizes, **random(seed + sum(sizes)), dtype=torch.double).to(dtype)


def gradients(function: Callable[..., Any], inputs: Sequence[Tensor], given: Any) -> list[Tensor]:
    """Of all inputs, by torch's autograd, from the given gradients of what the function returns."""
    leaves = [x.detach().requires_grad_() for x in inputs]
    return list(torch.autograd.grad(function(*leaves), leaves, given))
