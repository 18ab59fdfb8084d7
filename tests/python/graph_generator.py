"""Random graphs by seed, compared with torch, with an error bound per element.

The "pointwise" mix has elementwise and shape ops, the "reduction" mix also reductions, patterns of
normalizations, scans and lookups.

A graph is data (inputs, nodes, outputs). Its text is a Python definition that is executed to build
the fusion and printed when it fails, so the script is what ran. The reference is evaluated in
float64 together with a bound on the rounding error that a correct kernel may have; ops that jump
(comparisons, floor, casts to int) are only put where that bound is zero.

As a program: `python graph_generator.py --count 2000 --device cuda --workers 16` runs that many
seeds in worker processes, shows a progress bar, prints a script for each seed that fails, shrunk,
and ends with one line of JSON (count, failures, fallbacks, seconds). `--adversary 1` runs host
kernels with threads in random order, on seeds of its own; with `--no-fallbacks` a kernel that was
refused and replaced is a failure.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch

Tensor = torch.Tensor

TORCH = {
    "Double": torch.double,
    "Float": torch.float,
    "Half": torch.half,
    "BFloat16": torch.bfloat16,
    "Int": torch.int64,
    "Int32": torch.int32,
    "Bool": torch.bool,
    "ComplexFloat": torch.complex64,
}
ULP = {
    "Double": 2.0**-52,
    "Float": 2.0**-23,
    "Half": 2.0**-10,
    "BFloat16": 2.0**-7,
    "ComplexFloat": 2.0**-22,
}
FLOATS = ("Double", "Float", "Half", "BFloat16")
INTS = ("Int", "Int32")
EXTENTS = (0, 1, 1, 2, 3, 4, 5, 7, 8, 13, 16, 32, 64)
MAX_ELEMENTS = 20_000
MAX_MAGNITUDE = 1e4
# A kernel that a scheduler promised and lowering refused is replaced by simpler ones; with this
# switch that counts as a failure.
NO_FALLBACKS = bool(os.environ.get("NVFUSER_TEST_NO_FALLBACKS"))


# ---------------------------------------------------------------------------------- reference value


@dataclass(frozen=True)
class Value:
    """float64 (int, bool, complex128) reference, its error bound, dtype, which dims broadcast."""

    data: Tensor
    error: Tensor
    dtype: str
    broadcast: tuple[bool, ...]

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(self.data.shape)

    @property
    def exact(self) -> bool:
        return not bool(self.error.any())

    @property
    def magnitude(self) -> float:
        return float(self.data.abs().max()) if self.data.numel() and self.dtype != "Bool" else 0.0


def rounded(data: Tensor, error: Tensor, dtype: str, slack: float = 1.0) -> tuple[Tensor, Tensor]:
    """Adds the rounding of a result to `dtype`; a result that is representable adds none."""
    if dtype not in ULP:
        return data, torch.zeros(data.shape, dtype=torch.double)
    stored = data.to(TORCH[dtype]).to(data.dtype)
    inexact = (stored != data) | (error > 0) | torch.tensor(slack > 1)
    tiny = torch.finfo(TORCH[dtype]).tiny
    extra = slack * ULP[dtype] * (data.abs() + error) + slack * tiny
    return data, error + torch.where(inexact, extra.double(), 0.0)


# -------------------------------------------------------------------------------------------- graph


@dataclass(frozen=True)
class Input:
    """A tensor input: its sizes, how it lies in memory and how it is declared."""

    sizes: tuple[int, ...]
    dtype: str
    order: tuple[int, ...]  # memory order, slow to fast
    expanded: tuple[bool, ...]
    padding: int  # extra elements at the end of each row of the fastest dimension
    step: int  # stride of the fastest dimension
    offset: int
    declaration: str  # contiguous, strided, exact
    static: bool
    salt: int

    def strides(self) -> tuple[int, ...]:
        strides = [0] * len(self.sizes)
        reach = self.step
        for position, dim in enumerate(reversed(self.order)):
            if self.expanded[dim]:
                continue
            strides[dim] = reach
            reach = reach * max(self.sizes[dim], 1) + (self.padding if position == 0 else 0)
        return tuple(strides)

    def storage_text(self) -> str:
        length = self.offset + 1
        if 0 not in self.sizes:
            length += sum((n - 1) * s for n, s in zip(self.sizes, self.strides(), strict=False))
        number = f"((torch.arange({length}) * {2 * self.salt + 7} + {self.salt}) % 31 - 15)"
        if self.dtype == "Bool":
            return f"({number} % 3 == 0)"
        if self.dtype in INTS:
            return f"({number} // 3).to({TORCH[self.dtype]})"
        if self.dtype == "ComplexFloat":
            return f"torch.complex({number} / 8.0, {number}.flip(0) / 4.0)"
        return f"({number} / 8.0).to({TORCH[self.dtype]})"

    def text(self) -> str:
        view = f"as_strided({self.sizes}, {self.strides()}, {self.offset})"
        return f"{self.storage_text()}.to(device).{view}"

    def make(self, device: torch.device) -> Tensor:
        return eval(self.text(), {"torch": torch, "device": device})

    def declaration_text(self) -> str:
        dtype = f"dtype=DataType.{self.dtype}"
        if self.declaration == "exact":
            sizes, strides = list(self.sizes), list(self.strides())
            layout = f"sizes={sizes}, strides={strides}"
            return f"fd.define_tensor({layout}, {dtype}, static_sizes={self.static})"
        shape = [n if self.static or n == 1 else -1 for n in self.sizes]
        contiguous = self.declaration == "contiguous"
        return f"fd.define_tensor(shape={shape}, contiguity={contiguous}, {dtype})"


@dataclass(frozen=True)
class Node:
    """`op` on earlier values (by number); constants and attributes are in `extra`."""

    op: str
    operands: tuple[int, ...]
    extra: tuple[object, ...] = ()


@dataclass(frozen=True)
class Graph:
    """Values are numbered: inputs first, then nodes. `scalars` are symbolic scalar inputs."""

    seed: int
    inputs: tuple[Input, ...]
    scalars: tuple[float | int, ...]
    nodes: tuple[Node, ...]
    outputs: tuple[int, ...]
    aliases: tuple[tuple[int, int], ...] = ()  # (value, input it is written to)

    def definition_text(self) -> str:
        lines = ["def nvfuser_fusion(fd):"]
        for number, each in enumerate(self.inputs):
            lines.append(f"    t{number} = {each.declaration_text()}")
        for number, scalar in enumerate(self.scalars):
            kind = "Int" if isinstance(scalar, int) else "Double"
            lines.append(f"    s{number} = fd.define_scalar(DataType.{kind})")
        for number, node in enumerate(self.nodes, start=len(self.inputs)):
            operands = [f"t{operand}" for operand in node.operands]
            lines.append(f"    t{number} = {OPS[node.op].text(operands, node.extra)}")
        for value, target in self.aliases:
            lines.append(f"    fd.add_output(t{value}, t{target})")
        for value in self.outputs:
            lines.append(f"    fd.add_output(t{value})")
        return "\n".join(lines) + "\n"

    def inputs_text(self) -> str:
        tensors = [f"    {each.text()},\n" for each in self.inputs]
        return (
            "inputs = [\n" + "".join(tensors) + "".join(f"    {s},\n" for s in self.scalars) + "]\n"
        )

    def script(self) -> str:
        return (
            f"# graph_generator.py, seed {self.seed}\n"
            "import torch\nfrom nvfuse_direct import DataType, FusionDefinition\n\n"
            'device = "cpu"\n\n\n' + self.definition_text() + "\n\n"
            "with FusionDefinition() as fd:\n    nvfuser_fusion(fd)\n\n"
            + self.inputs_text()
            + "for output in fd.execute(inputs):\n    print(output)\n"
        )

    def evaluate(self) -> list[Value]:
        values: list[Value] = []
        for each in self.inputs:
            values.append(input_value(each))
        for node in self.nodes:
            values.append(
                OPS[node.op].evaluate([values[i] for i in node.operands], node.extra, self.scalars)
            )
        return values


def input_value(each: Input) -> Value:
    tensor = each.make(torch.device("cpu"))
    if each.dtype in FLOATS:
        tensor = tensor.double()
    elif each.dtype == "ComplexFloat":
        tensor = tensor.to(torch.complex128)
    broadcast = tuple(n == 1 for n in each.sizes)
    return Value(
        tensor.clone(), torch.zeros(tensor.shape, dtype=torch.double), each.dtype, broadcast
    )


# ---------------------------------------------------------------------------------------------- ops


@dataclass(frozen=True)
class Op:
    """Text of the call, and the reference."""

    name: str
    text: Callable[[Sequence[str], tuple], str]
    evaluate: Callable[[Sequence[Value], tuple, Sequence[float | int]], Value]


OPS: dict[str, Op] = {}


def compute_dtype(dtype: str) -> str:
    return "Float" if dtype in ("Half", "BFloat16") else dtype


def call(name: str, operands: Sequence[object]) -> str:
    return f"fd.ops.{name}({', '.join(map(str, operands))})"


def merged_broadcast(values: Sequence[Value]) -> tuple[bool, ...]:
    rank = max(len(each.sizes) for each in values)
    flags = [True] * rank
    for each in values:
        for position, flag in enumerate(reversed(each.broadcast)):
            flags[rank - 1 - position] &= flag
    return tuple(flags)


def _add_unary(
    name: str,
    function: Callable[[Tensor], Tensor],
    lipschitz: float,
    slack: float,
    same: bool = False,
) -> None:
    def evaluate(values: Sequence[Value], extra: tuple, scalars: Sequence[float | int]) -> Value:
        (x,) = values
        dtype = x.dtype if same else compute_dtype(x.dtype)
        data, error = rounded(function(x.data), lipschitz * x.error, dtype, slack)
        return Value(data, error, dtype, x.broadcast)

    OPS[name] = Op(name, lambda operands, extra: call(name, operands), evaluate)


# Smooth everywhere with a bounded slope, so that errors stay bounded.
_add_unary("neg", torch.neg, 1, 1)
_add_unary("abs", torch.abs, 1, 1, same=True)
_add_unary("relu", torch.relu, 1, 1, same=True)
_add_unary("set", lambda x: x, 1, 1, same=True)
SMOOTH = {"sin": 1, "cos": 1, "tanh": 1, "sigmoid": 0.25, "atan": 1, "erf": 1.2, "asinh": 1}
for _name, _slope in SMOOTH.items():
    _add_unary(_name, getattr(torch, _name), _slope, 8)
JUMPS = ("ceil", "floor", "round", "trunc", "sign")
for _name in JUMPS:
    _add_unary(_name, getattr(torch, _name), 1, 1, same=True)


def _evaluate_exp(values: Sequence[Value], extra: tuple, scalars: Sequence[float | int]) -> Value:
    (x,) = values
    dtype = compute_dtype(x.dtype)
    result = torch.exp(x.data)
    data, error = rounded(result, result * torch.expm1(x.error), dtype, 8)
    return Value(data, error, dtype, x.broadcast)


OPS["exp"] = Op("exp", lambda operands, extra: call("exp", operands), _evaluate_exp)


def _to_bool(x: Tensor) -> Tensor:
    return x if x.dtype == torch.bool else x != 0


def _add_predicate(name: str, function: Callable[..., Tensor]) -> None:
    def evaluate(values: Sequence[Value], extra: tuple, scalars: Sequence[float | int]) -> Value:
        data = function(*(each.data for each in values))
        return Value(
            data, torch.zeros(data.shape, dtype=torch.double), "Bool", merged_broadcast(values)
        )

    OPS[name] = Op(name, lambda operands, extra: call(name, operands), evaluate)


for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
    _add_predicate(_name, getattr(torch, _name))
_add_predicate("logical_not", lambda x: ~_to_bool(x))
_add_predicate("logical_and", lambda x, y: _to_bool(x) & _to_bool(y))
_add_predicate("logical_or", lambda x, y: _to_bool(x) | _to_bool(y))
_add_predicate("isfinite", torch.isfinite)


def _binary_error(name: str, a: Value, b: Value) -> Tensor:
    if name in ("add", "sub"):
        return a.error + b.error
    if name == "mul":
        left, right = (
            each.data.abs() if each.dtype != "Bool" else each.data.double() for each in (a, b)
        )
        return left * b.error + right * a.error + a.error * b.error
    return torch.maximum(a.error, b.error)


def _add_binary(name: str, function: Callable[[Tensor, Tensor], Tensor]) -> None:
    def evaluate(values: Sequence[Value], extra: tuple, scalars: Sequence[float | int]) -> Value:
        a, b = values
        dtype = compute_dtype(common_dtype(a.dtype, b.dtype))
        left, right = a.data, b.data
        if dtype != "Bool":
            wide = {"Int": torch.int64, "Int32": torch.int32, "ComplexFloat": torch.complex128}
            left, right = (each.to(wide.get(dtype, torch.double)) for each in (left, right))
        result = function(left, right)
        error = _binary_error(name, a, b) if dtype in ULP else torch.zeros(result.shape)
        data, error = rounded(result, error.double().broadcast_to(result.shape), dtype)
        return Value(data, error, dtype, merged_broadcast(values))

    OPS[name] = Op(name, lambda operands, extra: call(name, operands), evaluate)


for _name in (
    "add",
    "sub",
    "mul",
    "minimum",
    "maximum",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
):
    _add_binary(_name, getattr(torch, _name))


def common_dtype(a: str, b: str) -> str:
    """Pairwise fold of the dtypes that the generator mixes."""
    if a == b:
        return a
    for floats in (("ComplexFloat",), ("Double",)):
        if a in floats or b in floats:
            return floats[0]
    if a in FLOATS and b in FLOATS:
        return "Float"
    for each in (a, b):
        if each in FLOATS:
            return each
    return "Int" if "Int" in (a, b) else "Int32"


def scalar_dtype(tensor: str, scalar: float | int) -> str:
    """dtype of an op between a tensor of rank > 0 (or 0, the same here) and a Python number."""
    if isinstance(scalar, int):
        return "Int" if tensor == "Bool" else compute_dtype(tensor)
    return compute_dtype(tensor) if tensor in (*FLOATS, "ComplexFloat") else "Double"


def _scalar_text(extra: tuple) -> str:
    kind, value = extra[0], extra[1]
    return f"s{value}" if kind == "symbolic" else repr(value)


def _add_scalar_binary(name: str, function: Callable[[Tensor, Tensor], Tensor]) -> None:
    """extra: ("constant", number) or ("symbolic", scalar input), then if the scalar is first."""

    def text(operands: Sequence[str], extra: tuple) -> str:
        scalar = _scalar_text(extra)
        return call(name, [scalar, *operands] if extra[2] else [*operands, scalar])

    def evaluate(values: Sequence[Value], extra: tuple, scalars: Sequence[float | int]) -> Value:
        (x,) = values
        number = scalars[extra[1]] if extra[0] == "symbolic" else extra[1]
        dtype = scalar_dtype(x.dtype, number)
        kind = {"Int": torch.int64, "Int32": torch.int32, "ComplexFloat": torch.complex128}.get(
            dtype, torch.double
        )
        data = x.data.to(kind)
        scalar = torch.tensor(number, dtype=kind)
        result = function(scalar, data) if extra[2] else function(data, scalar)
        factor = abs(number) if name == "mul" else 1
        data, error = rounded(result, x.error * factor, dtype)
        return Value(data, error, dtype, x.broadcast)

    OPS[name + "_scalar"] = Op(name, text, evaluate)


for _name in ("add", "sub", "mul", "minimum", "maximum"):
    _add_scalar_binary(_name, getattr(torch, _name))


def _evaluate_where(values: Sequence[Value], extra: tuple, scalars: Sequence[float | int]) -> Value:
    condition, a, b = values
    dtype = common_dtype(a.dtype, b.dtype)
    wide = torch.promote_types(a.data.dtype, b.data.dtype)
    if dtype == "Int32":
        wide = torch.int32
    result = torch.where(condition.data, a.data.to(wide), b.data.to(wide))
    error = torch.where(condition.data, a.error, b.error).broadcast_to(result.shape)
    data, error = rounded(result, error, dtype)
    return Value(data, error, dtype, merged_broadcast(values))


OPS["where"] = Op("where", lambda operands, extra: call("where", operands), _evaluate_where)


def _evaluate_cast(values: Sequence[Value], extra: tuple, scalars: Sequence[float | int]) -> Value:
    (x,) = values
    (dtype,) = extra
    zero = torch.zeros(x.sizes, dtype=torch.double)
    if dtype == "Bool":
        return Value(_to_bool(x.data), zero, dtype, x.broadcast)
    if dtype in INTS:
        return Value(x.data.to(TORCH[dtype]), zero, dtype, x.broadcast)
    data, error = rounded(x.data.double(), x.error, dtype)
    return Value(data, error, dtype, x.broadcast)


OPS["cast"] = Op(
    "cast",
    lambda operands, extra: f"fd.ops.cast({operands[0]}, DataType.{extra[0]})",
    _evaluate_cast,
)


# ---- shape ops: the same function on the values and on the error


def _add_shape(
    name: str,
    text: Callable[[Sequence[str], tuple], str],
    function: Callable[[Tensor, tuple], Tensor],
    flags: Callable[[Value, tuple, Tensor], Sequence[bool]],
) -> None:
    def evaluate(values: Sequence[Value], extra: tuple, scalars: Sequence[float | int]) -> Value:
        (x,) = values
        data = function(x.data, extra)
        return Value(data, function(x.error, extra), x.dtype, tuple(flags(x, extra, data)))

    OPS[name] = Op(name, text, evaluate)


def _ones(x: Value, extra: tuple, data: Tensor) -> list[bool]:
    return [n == 1 for n in data.shape]


def _no_flags(x: Value, extra: tuple, data: Tensor) -> list[bool]:
    return [False] * data.dim()


_add_shape(
    "permute",
    lambda operands, extra: f"fd.ops.permute({operands[0]}, {list(extra)})",
    lambda x, dims: x.permute(dims),
    lambda x, dims, data: [x.broadcast[dim] for dim in dims],
)
_add_shape(
    "stride_order",
    lambda operands, extra: f"fd.ops.stride_order({operands[0]}, {list(extra)})",
    lambda x, order: x,
    lambda x, order, data: x.broadcast,
)
_add_shape(
    "reshape",
    lambda operands, extra: f"fd.ops.reshape({operands[0]}, {list(extra)})",
    lambda x, shape: x.reshape(shape),
    _ones,
)
_add_shape(
    "broadcast",
    lambda operands, extra: f"fd.ops.broadcast({operands[0]}, {list(extra)})",
    lambda x, new: _insert(x, new),
    lambda x, new, data: [
        flag or x.broadcast[sum(not f for f in new[:i])] for i, flag in enumerate(new)
    ],
)
_add_shape(
    "expand",
    lambda operands, extra: f"fd.ops.expand({operands[0]}, {list(extra)})",
    lambda x, shape: x.expand(shape),
    lambda x, shape, data: [
        flag and n == 1 for flag, n in zip(x.broadcast, data.shape, strict=False)
    ],
)
_add_shape(
    "squeeze",
    lambda operands, extra: f"fd.ops.squeeze({operands[0]}, {list(extra)})",
    lambda x, dims: x.squeeze(dims),
    lambda x, dims, data: [flag for i, flag in enumerate(x.broadcast) if i not in dims],
)
_add_shape(
    "slice",
    lambda operands, extra: f"fd.ops.slice({operands[0]}, {list(extra[0])}, {list(extra[1])})",
    lambda x, extra: x[tuple(slice(a, b) for a, b in zip(*extra, strict=False))],
    _no_flags,
)
_add_shape(
    "triu",
    lambda operands, extra: f"fd.ops.triu({operands[0]}, {extra[0]})",
    lambda x, extra: torch.triu(x, extra[0]),
    _no_flags,
)


def _insert(x: Tensor, new: Sequence[bool]) -> Tensor:
    for position, flag in enumerate(new):
        if flag:
            x = x.unsqueeze(position)
    return x


def _pad(x: Tensor, widths: Sequence[int], value: float) -> Tensor:
    sizes = list(x.shape)
    inside: list[slice] = [slice(None)] * x.dim()
    for pair in range(len(widths) // 2):
        dim = x.dim() - 1 - pair
        left, right = widths[2 * pair], widths[2 * pair + 1]
        x = x.narrow(dim, max(-left, 0), sizes[dim] + min(left, 0) + min(right, 0))
        inside[dim] = slice(max(left, 0), max(left, 0) + x.shape[dim])
        sizes[dim] += left + right
    result = torch.full(sizes, value, dtype=x.dtype)
    result[tuple(inside)] = x
    return result


def _evaluate_pad(values: Sequence[Value], extra: tuple, scalars: Sequence[float | int]) -> Value:
    (x,) = values
    widths, value = extra
    data = _pad(x.data, widths, value or 0)
    return Value(data, _pad(x.error, widths, 0.0), x.dtype, (False,) * data.dim())


OPS["pad"] = Op(
    "pad",
    lambda operands, extra: (
        f"fd.ops.pad({operands[0]}, {list(extra[0])}"
        + (f", {extra[1]!r})" if extra[1] is not None else ")")
    ),
    _evaluate_pad,
)


def _evaluate_cat(values: Sequence[Value], extra: tuple, scalars: Sequence[float | int]) -> Value:
    (dim,) = extra
    data = torch.cat([each.data for each in values], dim)
    error = torch.cat([each.error for each in values], dim)
    flags = tuple(flag and i != dim for i, flag in enumerate(values[0].broadcast))
    return Value(data, error, values[0].dtype, flags)


OPS["cat"] = Op(
    "cat", lambda operands, extra: f"fd.ops.cat([{', '.join(operands)}], {extra[0]})", _evaluate_cat
)


def _evaluate_full(values: Sequence[Value], extra: tuple, scalars: Sequence[float | int]) -> Value:
    shape, number, dtype = extra
    kind = TORCH[dtype] if dtype not in FLOATS else torch.double
    data = torch.full(shape, number, dtype=kind)
    return Value(data, torch.zeros(shape, dtype=torch.double), dtype, tuple(n == 1 for n in shape))


OPS["full"] = Op(
    "full",
    lambda operands, extra: f"fd.ops.full({list(extra[0])}, {extra[1]!r}, DataType.{extra[2]})",
    _evaluate_full,
)


def _evaluate_iota(values: Sequence[Value], extra: tuple, scalars: Sequence[float | int]) -> Value:
    length, start, step = extra
    data = torch.arange(length) * step + start
    return Value(data, torch.zeros(length, dtype=torch.double), "Int", (length == 1,))


OPS["iota"] = Op("iota", lambda operands, extra: call("iota", extra), _evaluate_iota)


# ---- reductions, scans, lookups (only in the "reduction" mix)


def _reduced_text(name: str) -> Callable[[Sequence[str], tuple], str]:
    return lambda operands, extra: (
        f"fd.ops.{name}({operands[0]}, {list(extra[0])}, keepdim={extra[1]})"
    )


def _reduced_flags(x: Value, dims: Sequence[int], keepdim: bool) -> tuple[bool, ...]:
    return tuple(
        flag or d in dims for d, flag in enumerate(x.broadcast) if keepdim or d not in dims
    )


def _evaluate_sum(values: Sequence[Value], extra: tuple, scalars: Sequence[float | int]) -> Value:
    (x,) = values
    dims, keepdim = extra
    dtype = "Int" if x.dtype in (*INTS, "Bool") else x.dtype
    data = x.data.long() if x.dtype == "Bool" else x.data
    total = data.sum(dims, keepdim=keepdim)
    error = x.error.sum(dims, keepdim=keepdim)
    if dtype in ULP:
        # Every order of summation: n - 1 roundings of partial sums of the magnitudes.
        count = math.prod(x.sizes[d] for d in dims)
        unit = ULP[compute_dtype(dtype)]
        partial = (data.abs() + x.error).sum(dims, keepdim=keepdim)
        error = error + count * unit * partial
    data, error = rounded(total, error, dtype)
    return Value(data, error, dtype, _reduced_flags(x, dims, keepdim))


OPS["sum"] = Op("sum", _reduced_text("sum"), _evaluate_sum)


def _add_extremum(name: str, function: Callable[..., Tensor]) -> None:
    def evaluate(values: Sequence[Value], extra: tuple, scalars: Sequence[float | int]) -> Value:
        (x,) = values
        dims, keepdim = extra
        data = function(x.data, dims, keepdim=keepdim)
        error = x.error.amax(dims, keepdim=keepdim)
        return Value(data, error, x.dtype, _reduced_flags(x, dims, keepdim))

    OPS[name] = Op(name, _reduced_text(name), evaluate)


_add_extremum("max", torch.amax)
_add_extremum("min", torch.amin)


def _evaluate_cumsum(
    values: Sequence[Value], extra: tuple, scalars: Sequence[float | int]
) -> Value:
    (x,) = values
    (dim,) = extra
    data, error = x.data.cumsum(dim), x.error.cumsum(dim)
    if x.dtype in ULP:
        unit = ULP[compute_dtype(x.dtype)]
        error = error + x.sizes[dim] * unit * (x.data.abs() + x.error).cumsum(dim)
    data, error = rounded(data, error, x.dtype)
    return Value(data, error, x.dtype, x.broadcast)


OPS["cumsum"] = Op(
    "cumsum", lambda operands, extra: call("cumsum", [*operands, *extra]), _evaluate_cumsum
)


def _padded_lookup(
    x: Tensor, index: Tensor, dim: int, read: Callable[[Tensor, int, Tensor], Tensor]
) -> Tensor:
    """Positions out of range read zeros behind the end."""
    size = x.shape[dim]
    sizes = [1 if d == dim else n for d, n in enumerate(x.shape)]
    longer = torch.cat([x, torch.zeros(sizes, dtype=x.dtype)], dim)
    index = index.long()
    return read(longer, dim, torch.where((index >= 0) & (index < size), index, size))


def _evaluate_index_select(
    values: Sequence[Value], extra: tuple, scalars: Sequence[float | int]
) -> Value:
    x, index = values
    (dim,) = extra
    data, error = (
        _padded_lookup(t, index.data, dim, torch.index_select) for t in (x.data, x.error)
    )
    flags = tuple(index.broadcast[0] if d == dim else flag for d, flag in enumerate(x.broadcast))
    return Value(data, error, x.dtype, flags)


OPS["index_select"] = Op(
    "index_select",
    lambda operands, extra: call("index_select", [*operands, *extra]),
    _evaluate_index_select,
)


def _evaluate_take_along_axis(
    values: Sequence[Value], extra: tuple, scalars: Sequence[float | int]
) -> Value:
    x, index = values
    (dim,) = extra

    def read(t: Tensor, dim: int, position: Tensor) -> Tensor:
        sizes = torch.broadcast_shapes(
            [1 if d == dim else n for d, n in enumerate(t.shape)],
            [1 if d == dim else n for d, n in enumerate(position.shape)],
        )
        wide = [t.shape[d] if d == dim else n for d, n in enumerate(sizes)]
        out = [position.shape[d] if d == dim else n for d, n in enumerate(sizes)]
        return t.expand(wide).gather(dim, position.expand(out))

    data, error = (_padded_lookup(t, index.data, dim, read) for t in (x.data, x.error))
    flags = tuple(
        index.broadcast[d] if d == dim else x.broadcast[d] and index.broadcast[d]
        for d in range(len(x.sizes))
    )
    return Value(data, error, x.dtype, flags)


OPS["take_along_axis"] = Op(
    "take_along_axis",
    lambda operands, extra: call("take_along_axis", [*operands, *extra]),
    _evaluate_take_along_axis,
)


# ---------------------------------------------------------------------------------------- generator


class Generator:
    """Draws a graph; evaluates as it goes, so that every choice is legal and every value tame."""

    def __init__(self, seed: int) -> None:
        self.pick = random.Random(seed)
        self.seed = seed
        pick = self.pick
        rank = pick.choice([0, 1, 1, 2, 2, 2, 3, 3, 4])
        while True:
            self.base = [pick.choice(EXTENTS) for _ in range(rank)]
            if math.prod(self.base) <= MAX_ELEMENTS // 8:
                break
        if 0 in self.base and pick.random() < 0.7:
            self.base = [n or 3 for n in self.base]
        self.static = pick.random() < 0.4
        self.values: list[Value] = []
        self.inputs: list[Input] = []
        self.scalars: list[float | int] = []
        self.nodes: list[Node] = []

    def draw_dtype(self) -> str:
        return self.pick.choice(
            ["Float"] * 8
            + ["Half", "Half", "BFloat16", "Double", "Int", "Int32", "Bool", "ComplexFloat"]
        )

    def draw_input(self) -> Input:
        pick = self.pick
        keep = len(self.base) if pick.random() < 0.7 else pick.randrange(len(self.base) + 1)
        sizes = [1 if pick.random() < 0.15 else n for n in self.base[len(self.base) - keep :]]
        rank = len(sizes)
        order = list(range(rank))
        declaration = pick.choice(["contiguous", "contiguous", "strided", "exact"])
        expanded, padding, step, offset = [False] * rank, 0, 1, 0
        if declaration != "contiguous":
            if pick.random() < 0.4:
                pick.shuffle(order)
            if pick.random() < 0.3 and rank:
                expanded[pick.randrange(rank)] = True
            padding = pick.choice([0, 0, 1, 3, 8])
            step = pick.choice([1, 1, 1, 2, 3])
        if pick.random() < 0.25:
            offset = pick.choice([1, 2, 3, 4, 8])
        return Input(
            tuple(sizes),
            self.draw_dtype(),
            tuple(order),
            tuple(expanded),
            padding,
            step,
            offset,
            declaration,
            self.static,
            pick.randrange(100),
        )

    def build(self) -> Graph:
        pick = self.pick
        for _ in range(pick.choice([1, 1, 2, 2, 3, 4])):
            each = self.draw_input()
            self.inputs.append(each)
            self.values.append(input_value(each))
        for _ in range(pick.choice([0, 0, 1, 2])):
            self.scalars.append(pick.choice([2, 3, -1, 0.5, -1.25, 2.0]))
        target = pick.randrange(2, 18)
        for _ in range(10 * target):
            if len(self.nodes) >= target:
                break
            node = self.draw_node()
            if node is not None:
                self.accept(node)
        return self.finish()

    def accept(self, node: Node) -> None:
        value = OPS[node.op].evaluate(
            [self.values[i] for i in node.operands], node.extra, self.scalars
        )
        if value.data.numel() > MAX_ELEMENTS or len(value.sizes) > 6:
            return
        if value.magnitude > MAX_MAGNITUDE:
            return
        if value.error.numel() and float(value.error.max()) > 0.25 * (1 + value.magnitude):
            return
        self.nodes.append(node)
        self.values.append(value)

    def any_value(self, accept: Callable[[Value], bool] = lambda value: True) -> int | None:
        legal = [i for i, value in enumerate(self.values) if accept(value)]
        if not legal:
            return None
        # Recent values make deep graphs.
        return self.pick.choice(legal[-4:] if self.pick.random() < 0.6 else legal)

    def partner(self, first: int, accept: Callable[[Value], bool]) -> int | None:
        return self.any_value(lambda value: accept(value) and compatible(self.values[first], value))

    def draw_node(self) -> Node | None:
        kind = self.pick.choices(
            ["unary", "jump", "binary", "scalar", "compare", "where", "cast", "shape", "create"],
            weights=[5, 1, 6, 3, 1, 2, 2, 8, 0.7],
        )[0]
        return getattr(self, "draw_" + kind)()

    def draw_unary(self) -> Node | None:
        i = self.any_value(lambda v: v.dtype not in ("Bool", "ComplexFloat"))
        if i is None:
            return None
        x = self.values[i]
        names = ["neg", "abs", "relu", "set"]
        if x.dtype in FLOATS:
            names += [*SMOOTH]
            if x.magnitude <= 4:
                names.append("exp")
        return Node(self.pick.choice(names), (i,))

    def draw_jump(self) -> Node | None:
        i = self.any_value(lambda v: v.dtype in FLOATS and v.exact)
        return None if i is None else Node(self.pick.choice(JUMPS), (i,))

    def draw_binary(self) -> Node | None:
        first = self.any_value()
        if first is None:
            return None
        a = self.values[first]
        complex_too = a.dtype == "ComplexFloat"
        second = self.partner(
            first,
            lambda v: (
                (v.dtype == "ComplexFloat" or v.dtype == "Float")
                if complex_too
                else v.dtype != "ComplexFloat"
            ),
        )
        if second is None:
            return None
        b = self.values[second]
        if a.dtype == b.dtype == "Bool":
            names = ["bitwise_and", "bitwise_or", "bitwise_xor", "logical_and", "logical_or"]
        elif a.dtype in (*INTS, "Bool") and b.dtype in (*INTS, "Bool"):
            names = ["add", "sub", "mul", "minimum", "maximum", "bitwise_and", "bitwise_xor"]
        elif complex_too:
            names = ["add", "sub", "mul"]
        else:
            names = ["add", "add", "sub", "mul", "mul", "minimum", "maximum"]
        if (len(a.sizes) == 0) != (len(b.sizes) == 0) and a.dtype != b.dtype:
            return None  # rank-0 operands have a lower priority, which test_promotion.py covers
        operands = (first, second) if self.pick.random() < 0.5 else (second, first)
        return Node(self.pick.choice(names), operands)

    def draw_scalar(self) -> Node | None:
        i = self.any_value(lambda v: v.dtype != "Bool")
        if i is None:
            return None
        names = ["add", "sub", "mul"]
        if self.values[i].dtype != "ComplexFloat":
            names += ["minimum", "maximum"]
        first = self.pick.random() < 0.4
        if self.scalars and self.pick.random() < 0.5:
            extra: tuple[object, ...] = ("symbolic", self.pick.randrange(len(self.scalars)), first)
        else:
            extra = ("constant", self.pick.choice([2, -3, 0.5, -1.5, 0.25]), first)
        return Node(self.pick.choice(names) + "_scalar", (i,), extra)

    def draw_compare(self) -> Node | None:
        tame = lambda v: v.exact and v.dtype not in ("Bool", "ComplexFloat")  # noqa: E731
        first = self.any_value(tame)
        if first is None:
            return None
        if self.pick.random() < 0.2:
            return (
                Node(self.pick.choice(["logical_not", "isfinite"]), (first,))
                if self.values[first].dtype in FLOATS
                else Node("logical_not", (first,))
            )
        second = self.partner(first, lambda v: tame(v) and v.dtype == self.values[first].dtype)
        if second is None:
            return None
        return Node(self.pick.choice(["lt", "le", "gt", "ge", "eq", "ne"]), (first, second))

    def draw_where(self) -> Node | None:
        condition = self.any_value(lambda v: v.dtype == "Bool")
        if condition is None:
            return self.draw_compare()
        first = self.partner(condition, lambda v: True)
        if first is None:
            return None
        both = lambda v: v.dtype == self.values[first].dtype  # noqa: E731
        second = self.any_value(
            lambda v: (
                both(v)
                and compatible(self.values[condition], v)
                and compatible(self.values[first], v)
            )
        )
        return None if second is None else Node("where", (condition, first, second))

    def draw_cast(self) -> Node | None:
        i = self.any_value(lambda v: v.dtype != "ComplexFloat")
        if i is None:
            return None
        x = self.values[i]
        targets = ["Float", "Half", "BFloat16", "Double"]
        if x.exact and x.magnitude < 1000:
            targets += ["Int", "Int32", "Bool"]
        if x.dtype == "Double" and not x.exact:
            targets = ["Float", "Double"]
        return Node("cast", (i,), (self.pick.choice(targets),))

    def draw_create(self) -> Node | None:
        pick = self.pick
        if pick.random() < 0.5:
            dtype = pick.choice(["Float", "Half", "Int", "Double"])
            shape = tuple(self.base) if pick.random() < 0.7 else tuple(self.base[1:])
            return Node("full", (), (shape, pick.choice([1, -2, 3]), dtype))
        if not self.base:
            return None
        return Node("iota", (), (self.base[-1], pick.choice([0, 1, -4]), pick.choice([1, 2, -3])))

    def draw_shape(self) -> Node | None:
        pick = self.pick
        name = pick.choice(
            [
                "permute",
                "slice",
                "slice",
                "pad",
                "pad",
                "cat",
                "cat",
                "reshape",
                "reshape",
                "broadcast",
                "expand",
                "squeeze",
                "stride_order",
                "triu",
            ]
        )
        i = self.any_value()
        if i is None:
            return None
        x = self.values[i]
        rank = len(x.sizes)
        if name in ("permute", "stride_order"):
            order = list(range(rank))
            pick.shuffle(order)
            return Node(name, (i,), tuple(order)) if rank else None
        if name == "slice":
            starts = [pick.randrange(n + 1) if pick.random() < 0.4 else 0 for n in x.sizes]
            ends = [
                pick.randrange(a, n + 1) if pick.random() < 0.4 else n
                for a, n in zip(starts, x.sizes, strict=False)
            ]
            if 0 not in x.sizes and pick.random() < 0.9:
                starts = [min(a, n - 1) for a, n in zip(starts, x.sizes, strict=False)]
                ends = [max(b, a + 1) for a, b in zip(starts, ends, strict=False)]
            return Node("slice", (i,), (tuple(starts), tuple(ends))) if rank else None
        if name == "pad":
            return self.draw_pad(i, x)
        if name == "cat":
            return self.draw_cat(i, x)
        if name == "reshape":
            return Node("reshape", (i,), self.draw_factors(x.data.numel()))
        if name == "broadcast":
            flags = [False] * rank
            for _ in range(pick.choice([1, 1, 2])):
                flags.insert(pick.randrange(len(flags) + 1), True)
            return Node("broadcast", (i,), tuple(flags))
        if name == "expand":
            shape = [
                pick.choice([2, 3, 5, 8]) if flag and pick.random() < 0.7 else n
                for flag, n in zip(x.broadcast, x.sizes, strict=False)
            ]
            return Node("expand", (i,), tuple(shape)) if tuple(shape) != x.sizes else None
        if name == "squeeze":
            dims = [d for d, flag in enumerate(x.broadcast) if flag and pick.random() < 0.7]
            return Node("squeeze", (i,), tuple(dims)) if dims else None
        if rank < 2:
            return None
        return Node("triu", (i,), (pick.choice([-2, -1, 0, 1, 2]),))

    def draw_pad(self, i: int, x: Value) -> Node | None:
        pick = self.pick
        if not x.sizes:
            return None
        widths: list[int] = []
        for dim in range(pick.randrange(1, len(x.sizes) + 1)):
            n = x.sizes[len(x.sizes) - 1 - dim]
            left, right = pick.choice([0, 0, 1, 2, 5]), pick.choice([0, 0, 1, 3])
            if n > 3 and pick.random() < 0.3:
                left = -pick.choice([1, 2])
            if n > 3 and pick.random() < 0.2:
                right = -1
            widths += [left, right]
        value: object = None
        if pick.random() < 0.5:
            if x.dtype in FLOATS:
                value = pick.choice([1.5, -2.0, 0.25])
            elif x.dtype in INTS:
                value = pick.choice([3, -1])
        return Node("pad", (i,), (tuple(widths), value))

    def draw_cat(self, i: int, x: Value) -> Node | None:
        if not x.sizes:
            return None
        dim = self.pick.randrange(len(x.sizes))

        def fits(v: Value) -> bool:
            return (
                v.dtype == x.dtype
                and len(v.sizes) == len(x.sizes)
                and all(
                    d == dim or (a == b and f == g)
                    for d, (a, b, f, g) in enumerate(
                        zip(v.sizes, x.sizes, v.broadcast, x.broadcast, strict=False)
                    )
                )
            )

        members = [i]
        for _ in range(self.pick.choice([1, 1, 2])):
            other = self.any_value(fits)
            if other is not None:
                members.append(other)
        self.pick.shuffle(members)
        return Node("cat", tuple(members), (dim,))

    def draw_factors(self, count: int) -> tuple[int, ...]:
        pick = self.pick
        if count == 0:
            shape = [pick.choice([1, 2, 3]) for _ in range(pick.choice([0, 1, 2]))]
            shape.insert(pick.randrange(len(shape) + 1), 0)
            return tuple(shape)
        factors: list[int] = []
        rest = count
        for _ in range(pick.choice([0, 1, 1, 2, 3])):
            divisors = [d for d in range(1, min(rest, 64) + 1) if rest % d == 0]
            factors.append(pick.choice(divisors))
            rest //= factors[-1]
        factors.insert(pick.randrange(len(factors) + 1), rest)
        return tuple(factors)

    def finish(self) -> Graph:
        pick = self.pick
        used = {i for node in self.nodes for i in node.operands}
        leaves = [i for i in range(len(self.inputs), len(self.values)) if i not in used]
        others = [i for i in range(len(self.values)) if i not in leaves]
        outputs = leaves[-5:]
        outputs += [i for i in others if pick.random() < 0.08][:2]
        if pick.random() < 0.05 and outputs:
            outputs.append(outputs[0])
        if not outputs:
            outputs = [len(self.values) - 1]
        pick.shuffle(outputs)
        aliases: list[tuple[int, int]] = []
        if pick.random() < 0.25:
            aliases = self.draw_aliases(outputs)
        return Graph(
            self.seed,
            tuple(self.inputs),
            tuple(self.scalars),
            tuple(self.nodes),
            tuple(outputs),
            tuple(aliases),
        )

    def draw_aliases(self, outputs: list[int]) -> list[tuple[int, int]]:
        pairs = [
            (i, k)
            for k, each in enumerate(self.inputs)
            for i in range(len(self.inputs), len(self.values))
            if self.values[i].dtype == each.dtype
            and self.values[i].sizes == each.sizes
            and not any(flag and n > 1 for flag, n in zip(each.expanded, each.sizes, strict=False))
        ]
        if not pairs:
            return []
        pair = self.pick.choice(pairs)
        # The updated input itself is no output here: test_definition_api.py has that.
        outputs[:] = [i for i in outputs if i not in pair] or [
            i for i in range(len(self.inputs), len(self.values)) if i != pair[0]
        ][:1]
        return [pair]


class ReducingGenerator(Generator):
    """Adds reductions, normalizations, scans and lookups."""

    def draw_node(self) -> Node | None:
        kind = self.pick.choices(
            ["reduction", "normalization", "scan", "lookup", "other"], weights=[4, 2, 1, 2, 9]
        )[0]
        return super().draw_node() if kind == "other" else getattr(self, "draw_" + kind)()

    def draw_dims(self, rank: int) -> tuple[int, ...]:
        count = self.pick.choice([1, 1, 1, 2, rank])
        return tuple(sorted(self.pick.sample(range(rank), min(count, rank))))

    def draw_reduction(self) -> Node | None:
        pick = self.pick
        name = pick.choice(["sum", "sum", "max", "min"])
        i = self.any_value(
            lambda v: (
                bool(v.sizes)
                and (
                    name == "sum" or (v.dtype not in ("Bool", "ComplexFloat") and 0 not in v.sizes)
                )
            )
        )
        if i is None:
            return None
        dims = self.draw_dims(len(self.values[i].sizes))
        return Node(name, (i,), (dims, pick.random() < 0.5))

    def draw_normalization(self) -> Node | None:
        """The graphs of softmax and layer norm but for their divisions."""
        i = self.any_value(lambda v: bool(v.sizes) and v.dtype in FLOATS and 0 not in v.sizes)
        if i is None:
            return None
        x = self.values[i]
        dims = self.draw_dims(len(x.sizes))
        softmax = self.pick.random() < 0.5

        def add(op: str, operands: tuple[int, ...], extra: tuple = ()) -> int | None:
            count = len(self.values)
            self.accept(Node(op, operands, extra))
            return count if len(self.values) > count else None

        statistic = add("max" if softmax else "sum", (i,), (dims, True))
        if statistic is None:
            return None
        if not softmax:
            count = math.prod(x.sizes[d] for d in dims)
            statistic = add("mul_scalar", (statistic,), ("constant", 1 / count, False))
            if statistic is None:
                return None
        centred = add("sub", (i, statistic))
        if centred is None:
            return None
        if softmax and self.values[centred].magnitude > 4:
            return None
        terms = add("exp", (centred,)) if softmax else add("mul", (centred, centred))
        if terms is None:
            return None
        total = add("sum", (terms,), (dims, True))
        if total is None:
            return None
        return Node("mul", (terms if softmax else centred, total))

    def draw_scan(self) -> Node | None:
        i = self.any_value(lambda v: bool(v.sizes) and v.dtype != "Bool")
        if i is None:
            return None
        # An expanded dimension can't be scanned, and what is one can't be seen here.
        dims = [d for d, n in enumerate(self.values[i].sizes) if self.is_real(i, d)]
        return Node("cumsum", (i,), (self.pick.choice(dims),)) if dims else None

    def is_real(self, number: int, dim: int) -> bool:
        """Whether no expand can have made the dimension: it is one of an input."""
        return number < len(self.inputs) and not self.inputs[number].expanded[dim]

    def draw_lookup(self) -> Node | None:
        i = self.any_value(lambda v: bool(v.sizes))
        if i is None:
            return None
        x = self.values[i]
        dim = self.pick.randrange(len(x.sizes))
        if self.pick.random() < 0.5:
            index = self.any_value(lambda v: v.dtype in INTS and len(v.sizes) == 1)
            if index is None or self.pick.random() < 0.5:
                index = len(self.values)
                start, step = self.pick.choice([(0, 1), (1, 2), (-1, 1), (x.sizes[dim], -1)])
                self.accept(Node("iota", (), (self.pick.choice([1, 3, 7]), start, step)))
            return Node("index_select", (i, index), (dim,))
        index = self.any_value(
            lambda v: (
                v.dtype in INTS
                and len(v.sizes) == len(x.sizes)
                and all(
                    d == dim or n == m or (n == 1 and f) or (m == 1 and g)
                    for d, (n, m, f, g) in enumerate(
                        zip(v.sizes, x.sizes, v.broadcast, x.broadcast, strict=True)
                    )
                )
            )
        )
        return None if index is None else Node("take_along_axis", (i, index), (dim,))


MIXES = {"pointwise": Generator, "reduction": ReducingGenerator}


def compatible(a: Value, b: Value) -> bool:
    """Whether two values broadcast together, a size of 1 only where the definition knows it."""
    for (n, f), (m, g) in zip(
        zip(reversed(a.sizes), reversed(a.broadcast), strict=False),
        zip(reversed(b.sizes), reversed(b.broadcast), strict=False),
        strict=False,
    ):
        if n != m and not (n == 1 and f) and not (m == 1 and g):
            return False
    return True


def generate(seed: int, mix: str = "pointwise") -> Graph:
    return MIXES[mix](seed).build()


# ------------------------------------------------------------------------------------------ running


class Mismatch(Exception):
    """The fusion computed something else than torch."""


def check(actual: Tensor, value: Value, what: str) -> None:
    if actual.dtype != TORCH[value.dtype]:
        raise Mismatch(f"{what}: dtype {actual.dtype}, expected {TORCH[value.dtype]}")
    if tuple(actual.shape) != value.sizes:
        raise Mismatch(f"{what}: shape {tuple(actual.shape)}, expected {value.sizes}")
    got = actual.cpu()
    if value.dtype in FLOATS:
        bound = 2 * value.error
        wrong = ~((got.double() - value.data).abs() <= bound)
    elif value.dtype == "ComplexFloat":
        wrong = ~((got.to(torch.complex128) - value.data).abs() <= 4 * value.error)
    else:
        wrong = got != value.data
    if bool(wrong.any()):
        at = tuple(wrong.nonzero()[0].tolist())
        raise Mismatch(
            f"{what}: {int(wrong.sum())} of {wrong.numel()} elements differ, first at {at}: "
            f"{got[at].item()!r}, expected {value.data[at].item()!r}"
        )


def run_graph(graph: Graph, device: torch.device) -> int:
    """Raises `Mismatch`, or whatever the compiler raised. Returns how many kernels were refused."""
    from nvfuse_direct import DataType, FusionDefinition

    scope: dict[str, object] = {"DataType": DataType, "torch": torch}
    exec(graph.definition_text(), scope)
    with FusionDefinition() as fd:
        scope["nvfuser_fusion"](fd)  # type: ignore[operator]
    values = graph.evaluate()
    for repeat in ("first run", "second run"):
        tensors = [each.make(device) for each in graph.inputs]
        copies = [each.clone() for each in tensors]
        outputs = fd.execute([*tensors, *graph.scalars], device=device)
        if NO_FALLBACKS and fd.fec._num_fallbacks:
            notes = [each["note"] for each in fd.fec._most_recent_segment_reports()]
            raise Mismatch(f"{repeat}: a kernel was refused: {notes}")
        if len(outputs) != len(graph.outputs):
            raise Mismatch(f"{len(outputs)} outputs, expected {len(graph.outputs)}")
        for position, (output, number) in enumerate(zip(outputs, graph.outputs, strict=False)):
            check(output, values[number], f"{repeat}: output {position} (t{number})")
        updated = {target: value for value, target in graph.aliases}
        for number, (now, before) in enumerate(zip(tensors, copies, strict=False)):
            if number in updated:
                check(now, values[updated[number]], f"{repeat}: updated input {number}")
            elif not torch.equal(now, before):
                raise Mismatch(f"{repeat}: input {number} was overwritten")
    return fd.fec._num_fallbacks


# ---------------------------------------------------------------------------------------- shrinking


def without_dead_code(graph: Graph) -> Graph:
    """Drops nodes and inputs that no output needs."""
    needed = {
        *graph.outputs,
        *(value for value, _ in graph.aliases),
        *(t for _, t in graph.aliases),
    }
    first = len(graph.inputs)
    for number in range(first + len(graph.nodes) - 1, first - 1, -1):
        if number in needed:
            needed |= set(graph.nodes[number - first].operands)
    kept = [i for i in range(first + len(graph.nodes)) if i in needed]
    new = {old: number for number, old in enumerate(kept)}
    return dataclasses.replace(
        graph,
        inputs=tuple(graph.inputs[i] for i in kept if i < first),
        nodes=tuple(
            dataclasses.replace(
                graph.nodes[i - first],
                operands=tuple(new[o] for o in graph.nodes[i - first].operands),
            )
            for i in kept
            if i >= first
        ),
        outputs=tuple(new[i] for i in graph.outputs),
        aliases=tuple((new[a], new[b]) for a, b in graph.aliases),
    )


def smaller(graph: Graph) -> Iterator[Graph]:
    """Candidates: fewer outputs, an inner value as output, a node bypassed, plainer inputs."""
    for index in range(len(graph.outputs)):
        if len(graph.outputs) > 1 or graph.aliases:
            yield dataclasses.replace(
                graph, outputs=graph.outputs[:index] + graph.outputs[index + 1 :]
            )
    if graph.aliases:
        yield dataclasses.replace(
            graph, aliases=(), outputs=graph.outputs or (graph.aliases[0][0],)
        )
    first = len(graph.inputs)
    for position, number in enumerate(graph.outputs):
        if number >= first:
            for operand in graph.nodes[number - first].operands:
                if operand >= first:
                    outputs = list(graph.outputs)
                    outputs[position] = operand
                    yield dataclasses.replace(graph, outputs=tuple(outputs))
    values = graph.evaluate()
    for index in range(len(graph.nodes)):
        number = first + index
        for operand in graph.nodes[index].operands:
            same = (values[operand].sizes, values[operand].dtype, values[operand].broadcast) == (
                values[number].sizes,
                values[number].dtype,
                values[number].broadcast,
            )
            if same:
                yield bypassed(graph, number, operand)
    for index, each in enumerate(graph.inputs):
        plain = dataclasses.replace(
            each,
            order=tuple(range(len(each.sizes))),
            expanded=(False,) * len(each.sizes),
            padding=0,
            step=1,
            offset=0,
            declaration="contiguous",
        )
        if plain != each:
            inputs = (*graph.inputs[:index], plain, *graph.inputs[index + 1 :])
            yield dataclasses.replace(graph, inputs=inputs)


def bypassed(graph: Graph, number: int, operand: int) -> Graph:
    def swap(i: int) -> int:
        return operand if i == number else i

    return dataclasses.replace(
        graph,
        nodes=tuple(
            dataclasses.replace(node, operands=tuple(map(swap, node.operands)))
            for node in graph.nodes
        ),
        outputs=tuple(map(swap, graph.outputs)),
    )


def shrink(graph: Graph, fails: Callable[[Graph], bool], seconds: float = 60.0) -> Graph:
    """A smaller graph that still fails (greedy, for at most `seconds`)."""
    deadline = time.monotonic() + seconds
    progress = True
    while progress:
        progress = False
        for candidate in smaller(graph):
            if time.monotonic() > deadline:
                return graph
            candidate = without_dead_code(candidate)
            if candidate != graph and fails(candidate):
                graph, progress = candidate, True
                break
    return graph


def failure(graph: Graph, device: torch.device) -> str | None:
    try:
        run_graph(graph, device)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


def kind_of(message: str) -> str:
    """Failures of one kind are shrunk as one: a mismatch must not turn into another error."""
    return message.split(":", 1)[0]


def report(
    seed: int, device: torch.device, shrink_seconds: float, mix: str = "pointwise"
) -> tuple[str | None, int]:
    """None, or what fails at `seed` with a script; and how many kernels were refused."""
    try:
        graph = generate(seed, mix)
    except Exception as error:
        return f"seed {seed}: the generator itself failed: {error!r}", 0
    try:
        return None, run_graph(graph, device)
    except Exception as error:
        message = f"{type(error).__name__}: {error}"

    def fails(candidate: Graph) -> bool:
        try:
            candidate.evaluate()
        except Exception:
            return False
        other = failure(candidate, device)
        return other is not None and kind_of(other) == kind_of(message)

    small = shrink(without_dead_code(graph), fails, shrink_seconds) if shrink_seconds else graph
    final = failure(small, device) or message
    commented = "\n".join(f"# {line}" for line in final.splitlines()[:12])
    return f"seed {seed}: {message[:400]}\n{commented}\n{small.script()}", 0


# ------------------------------------------------------------------------------------------ program


@dataclass
class Outcome:
    """What `run_seeds` found: seeds that passed, reports of those that did not, refused kernels."""

    passed: int = 0
    fallbacks: int = 0
    failures: list[str] = field(default_factory=list)


def run_seeds(
    seeds: Sequence[int],
    workers: int,
    device: str,
    shrink_seconds: float = 30.0,
    env: dict[str, str] | None = None,
    progress: bool = False,
    mix: str = "pointwise",
) -> Outcome:
    """Runs the seeds in worker processes; one that dies is reported with its seed and replaced."""
    outcome = Outcome()
    queues = [list(seeds[start::workers]) for start in range(workers)]
    running = {
        index: start_worker(queue, device, shrink_seconds, env, mix)
        for index, queue in enumerate(queues)
        if queue
    }
    while running:
        for index, process in list(running.items()):
            line = process.stdout.readline() if process.stdout else ""
            if not line:
                process.wait()
                queue = queues[index]
                del running[index]
                if queue:
                    seed = queue.pop(0)
                    errors = process.stderr.read() if process.stderr else ""
                    outcome.failures.append(
                        f"seed {seed}: the process ended with {process.returncode}\n"
                        f"{errors[-3000:]}\n" + generate(seed, mix).script()
                    )
                    if queue:
                        running[index] = start_worker(queue, device, shrink_seconds, env, mix)
                continue
            message = json.loads(line)
            queues[index].remove(message["seed"])
            outcome.fallbacks += message["fallbacks"]
            if message["failure"] is None:
                outcome.passed += 1
            else:
                outcome.failures.append(message["failure"])
            if progress:
                show_progress(outcome, len(seeds))
    if progress:
        print(file=sys.stderr)
    return outcome


def show_progress(outcome: Outcome, total: int) -> None:
    done = outcome.passed + len(outcome.failures)
    if not sys.stderr.isatty() and done % max(1, total // 20) and done != total:
        return
    filled = 40 * done // total
    bar = "#" * filled + "." * (40 - filled)
    print(
        f"\r[{bar}] {done}/{total}, {len(outcome.failures)} failed",
        end="",
        file=sys.stderr,
        flush=True,
    )


def start_worker(
    seeds: Sequence[int],
    device: str,
    shrink_seconds: float,
    env: dict[str, str] | None,
    mix: str,
) -> subprocess.Popen[str]:
    environment = {**os.environ, **(env or {})}
    here = str(Path(__file__).resolve().parent)
    paths = [here, environment.get("PYTHONPATH", "")]
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    arguments = ["--worker", "--device", device, "--shrink", str(shrink_seconds)]
    arguments += ["--mix", mix, "--list", ",".join(map(str, seeds))]
    return subprocess.Popen(
        [sys.executable, "-X", "faulthandler", __file__, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )


def work(seeds: Sequence[int], device: torch.device, shrink_seconds: float, mix: str) -> None:
    """A worker: one JSON line a seed on the real stdout; what else is printed goes to stderr."""
    torch.set_num_threads(1)
    channel = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for seed in seeds:
        failed, fallbacks = report(seed, device, shrink_seconds, mix)
        line = json.dumps({"seed": seed, "failure": failed, "fallbacks": fallbacks})
        print(line, file=channel, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="", help="first:last")
    parser.add_argument("--count", type=int, default=200, help="number of seeds if none are given")
    parser.add_argument("--adversary", type=int, default=0, help="NVFUSER_HOST_ADVERSARIAL")
    parser.add_argument("--no-fallbacks", action="store_true", help="a refused kernel is a failure")
    parser.add_argument("--list", default="", help="seeds by number, with commas")
    parser.add_argument("--device", default=os.environ.get("NVFUSER_TEST_DEVICE", "cpu"))
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--shrink", type=float, default=30.0, help="seconds to shrink each failure")
    parser.add_argument("--mix", default="pointwise", choices=[*MIXES])
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--show", action="store_true", help="print the scripts and run nothing")
    options = parser.parse_args()
    if options.list:
        seeds = [int(each) for each in options.list.split(",")]
    elif options.seeds:
        start, stop = map(int, options.seeds.split(":"))
        seeds = list(range(start, stop))
    else:
        first = 10_000 * options.adversary
        seeds = list(range(first, first + options.count))
    if options.show:
        for seed in seeds:
            print(generate(seed, options.mix).script())
        return 0
    if options.worker:
        work(seeds, torch.device(options.device), options.shrink, options.mix)
        return 0
    env: dict[str, str] = {}
    if options.adversary:
        env["NVFUSER_HOST_ADVERSARIAL"] = str(options.adversary)
    if options.no_fallbacks:
        env["NVFUSER_TEST_NO_FALLBACKS"] = "1"
    begin = time.monotonic()
    outcome = run_seeds(
        seeds, options.workers, options.device, options.shrink, env, progress=True, mix=options.mix
    )
    for each in outcome.failures:
        print(each)
    summary = {
        "count": len(seeds),
        "failures": len(outcome.failures),
        "fallbacks": outcome.fallbacks,
        "seconds": round(time.monotonic() - begin, 1),
    }
    print(json.dumps(summary))
    return 1 if outcome.failures else 0


if __name__ == "__main__":
    sys.exit(main())
