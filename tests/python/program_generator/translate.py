# SPDX-License-Identifier: BSD-3-Clause
"""Defines a fusion by running a program's text on traced tensors.

`torch` and `F` in the text stand for the namespaces that are defined here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from nvfuse_direct import DataType, FusionDefinition

from .program import Input, Program
from .traced import (
    DTYPES,
    Graph,
    Scalar,
    Traced,
    add,
    binary,
    cat,
    complex_,
    promoted,
    ternary,
    where,
)


class Torch:
    """Stands for `torch` in a program's text."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    def __getattr__(self, name: str) -> Any:
        known = getattr(torch, name)
        if isinstance(known, torch.dtype):
            return known
        return lambda x, *args, **kwargs: getattr(x, name)(*args, **kwargs)

    cat = staticmethod(cat)
    where = staticmethod(where)
    complex = staticmethod(complex_)
    add = staticmethod(add)

    def stack(self, tensors: Sequence[Traced], dim: int) -> Traced:
        return cat([x.unsqueeze(dim) for x in tensors], dim % (tensors[0].rank + 1))

    def minimum(self, a: Traced, b: Traced) -> Traced:
        return binary("minimum", a, b)

    def maximum(self, a: Traced, b: Traced) -> Traced:
        return binary("maximum", a, b)

    def atan2(self, a: Traced, b: Traced) -> Traced:
        return binary("atan2", a, b)

    def gcd(self, a: Traced, b: Traced) -> Traced:
        return binary("gcd", a, b)

    def logical_and(self, a: Traced, b: Traced) -> Traced:
        return binary("logical_and", a, b)

    def logical_or(self, a: Traced, b: Traced) -> Traced:
        return binary("logical_or", a, b)

    def hypot(self, a: Traced, b: Traced) -> Traced:
        x, y = a.double(), b.double()
        return (x * x + y * y)._unary("sqrt").to(promoted(a, b))

    def div(self, a: Traced, b: Any, rounding_mode: str) -> Traced:
        return binary("div", a, b)

    def lerp(self, a: Traced, b: Traced, weight: Any) -> Traced:
        return ternary("lerp", a, b, weight)

    def addcmul(self, a: Traced, b: Traced, c: Traced, value: Any = 1) -> Traced:
        return ternary("addcmul", a, b, c, value)

    def view_as_real(self, x: Traced) -> Traced:
        return self.stack([x.real, x.imag], -1)

    def full(self, shape: Sequence[Any], value: float) -> Traced:
        return self._graph.full(shape, value, torch.float32)

    def zeros(self, *shape: Any, dtype: torch.dtype = torch.float32) -> Traced:
        return self._graph.full(shape, 0, dtype)

    def full_like(self, x: Traced, value: Any) -> Traced:
        return self._graph.full(x.shape, value, x.dtype)

    def zeros_like(self, x: Traced) -> Traced:
        return self.full_like(x, 0)

    def ones_like(self, x: Traced) -> Traced:
        return self.full_like(x, 1)

    def arange(
        self, start: Any, stop: Any = None, step: int = 1, dtype: torch.dtype = torch.int64
    ) -> Traced:
        """Of a step above 0."""
        if stop is None:
            start, stop = 0, start
        length = stop - start
        if step != 1:
            length = (length + (step - 1)) // step
        return self._graph.iota(length, start, step, dtype)


def _composite(function: Callable[..., Traced]) -> Callable[..., Traced]:
    """Computed in the wide dtype, rounded at the end."""

    def wrapped(self: Any, x: Traced, *args: Any, **kwargs: Any) -> Traced:
        return function(self, x.widened(), *args, **kwargs).to(x.dtype)

    return wrapped


class Functional:
    """Stands for `torch.nn.functional` in a program's text."""

    def relu(self, x: Traced) -> Traced:
        return x._unary("relu")

    def silu(self, x: Traced) -> Traced:
        return x._unary("silu")

    def softmax(self, x: Traced, dim: int) -> Traced:
        return x.softmax(dim)

    def log_softmax(self, x: Traced, dim: int) -> Traced:
        return x.log_softmax(dim)

    @_composite
    def gelu(self, x: Traced, approximate: str = "none") -> Traced:
        if approximate == "tanh":
            inner = (x + x * x * x * 0.044715) * 0.7978845608028654
            return x * 0.5 * (inner._unary("tanh") + 1.0)
        return x * 0.5 * ((x * 0.7071067811865476)._unary("erf") + 1.0)

    @_composite
    def softplus(self, x: Traced) -> Traced:
        smooth = x.clamp(min=0.0) + ((-x.abs())._unary("exp"))._unary("log1p")
        return where(x > 20.0, x, smooth)  # torch's threshold, which shows in float64

    @_composite
    def logsigmoid(self, x: Traced) -> Traced:
        return x.clamp(max=0.0) - ((-x.abs())._unary("exp"))._unary("log1p")

    @_composite
    def leaky_relu(self, x: Traced, slope: float) -> Traced:
        return where(x > 0, x, x * slope)

    @_composite
    def elu(self, x: Traced) -> Traced:
        return where(x > 0, x, x._unary("expm1"))

    @_composite
    def hardswish(self, x: Traced) -> Traced:
        return x * (x + 3.0).clamp(0.0, 6.0) / 6.0

    @_composite
    def mish(self, x: Traced) -> Traced:
        return x * self.softplus(x)._unary("tanh")

    def hardtanh(self, x: Traced, low: float, high: float) -> Traced:
        return x.clamp(low, high)

    @_composite
    def layer_norm(
        self,
        x: Traced,
        shape: Sequence[Any],
        weight: Any = None,
        bias: Any = None,
        eps: float = 1e-5,
    ) -> Traced:
        dims = list(range(x.rank - len(shape), x.rank))
        variance, mean = x._deviations(dims, 0, True)
        y = (x - mean) * (variance + eps)._unary("rsqrt")
        y = y if weight is None else y * weight.widened()
        return y if bias is None else y + bias.widened()

    @_composite
    def rms_norm(
        self, x: Traced, shape: Sequence[Any], weight: Any = None, eps: float = 1e-5
    ) -> Traced:
        dims = list(range(x.rank - len(shape), x.rank))
        y = x * (x.square().mean(dims, True) + eps)._unary("rsqrt")
        return y if weight is None else y * weight.widened()

    def linear(self, x: Traced, weight: Traced, bias: Any = None) -> Traced:
        tv = x.graph.ops.linear(x.tv, weight.tv, None if bias is None else bias.tv)
        return x._like(tv)

    def pad(self, x: Traced, widths: Sequence[int], value: Any = None) -> Traced:
        if value is not None and x.dtype.is_floating_point:
            value = float(value)
        elif value is not None and x.dtype.is_complex:
            value = complex(value)
        return x._like(x.graph.ops.pad(x.tv, list(widths), value))

    def embedding(self, index: Traced, weight: Traced) -> Traced:
        tv = weight.graph.ops.embedding_fwd(index.tv, weight.tv)
        return weight._like(tv, rank=index.rank + 1)


# ------------------------------------------------------------------------------------ definitions


def declare(fd: FusionDefinition, x: Input) -> Any:
    shape, rank = x.declared_shape(), len(x.dims)
    dtype = DTYPES[x.dtype]
    kind = x.layout.kind
    if kind == "strided":
        return fd.define_tensor(shape, False, dtype)
    order = list(x.layout.order) if kind == "permuted" else list(range(rank))
    contiguity: list[bool | None] = [
        None if shape[d] == 1 or d in x.layout.expanded else not (kind == "padded" and d == 0)
        for d in order
    ]
    stride_order = [rank - 1 - order.index(d) for d in range(rank)] if kind == "permuted" else []
    return fd.define_tensor(shape, contiguity, dtype, stride_order=stride_order)


def translate(program: Program) -> FusionDefinition:
    """The definition of a program; updates of inputs come after its other outputs."""
    scope: dict[str, Any] = {}
    exec(compile(program.source(), f"<program {program.seed}>", "exec"), scope)
    fd = FusionDefinition()
    fd._fusion = None
    with fd:
        graph = Graph(fd, program.seed)
        traced = [Traced(graph, declare(fd, x), x.dtype, len(x.dims)) for x in program.inputs]
        declared = [x.tv for x in traced]
        numbers = []
        for number in program.numbers:
            is_float = number.name == "s"
            dtype = DataType.Double if is_float else DataType.Int
            numbers.append(Scalar(graph, fd.define_scalar(dtype=dtype), is_float))
        outputs = scope["program"](Torch(graph), Functional(), *traced, *numbers)
        for x in outputs:
            fd.add_output(x.tv)
        for x, before, tensor in zip(program.inputs, declared, traced, strict=True):
            if x.updated:
                fd.add_output(tensor.tv, before)
    return fd
