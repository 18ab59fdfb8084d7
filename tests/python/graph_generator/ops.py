# SPDX-License-Identifier: BSD-3-Clause
"""The ops of random graphs: the text of a call, and the reference with its error bound."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch

from .model import FLOATS, INTS, OPS, TORCH, ULP, Op, Tensor, Value, rounded


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


def identity_of(name: str, dtype: str) -> float | int:
    """The maximum or minimum of nothing."""
    if dtype in FLOATS:
        return -math.inf if name == "max" else math.inf
    limits = torch.iinfo(TORCH[dtype])
    return limits.min if name == "max" else limits.max


def _add_extremum(name: str, function: Callable[..., Tensor]) -> None:
    def evaluate(values: Sequence[Value], extra: tuple, scalars: Sequence[float | int]) -> Value:
        (x,) = values
        dims, keepdim = extra
        if any(x.sizes[d] == 0 for d in dims):
            sizes = x.data.sum(dims, keepdim=keepdim).shape
            data = torch.full(sizes, identity_of(name, x.dtype), dtype=x.data.dtype)
            return Value(
                data, torch.zeros(sizes).double(), x.dtype, _reduced_flags(x, dims, keepdim)
            )
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
    """Positions out of range read zeros after the end."""
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


# ---- only in the "sizes" mix


def _statistic(which: int) -> Callable[[Sequence[Value], tuple, Sequence[float | int]], Value]:
    def evaluate(values: Sequence[Value], extra: tuple, scalars: Sequence[float | int]) -> Value:
        """Bounds for Welford's update and for two passes."""
        (x,) = values
        dims, keepdim = extra
        count = math.prod(x.sizes[d] for d in dims)
        largest = x.data.abs() + x.error
        mean = x.data.mean(dims, keepdim=True)
        if which == 1:
            data = mean
            error = x.error.mean(dims, keepdim=True)
            error = error + 4 * (count + 4) * ULP[x.dtype] * largest.mean(dims, keepdim=True)
        else:
            data = (x.data - mean).square().mean(dims, keepdim=True)
            moved = x.error + x.error.mean(dims, keepdim=True)
            error = (moved * (2 * (x.data - mean).abs() + moved)).mean(dims, keepdim=True)
            square = largest.square().mean(dims, keepdim=True)
            error = error + 8 * (count + 4) * ULP[x.dtype] * square
        if not keepdim:
            data, error = (each.squeeze(dims) for each in (data, error))
        data, error = rounded(data, error, x.dtype, 8)
        return Value(data, error, x.dtype, _reduced_flags(x, dims, keepdim))

    return evaluate


def _statistic_text(which: int) -> Callable[[Sequence[str], tuple], str]:
    return lambda operands, extra: (
        f"fd.ops.var_mean({operands[0]}, {list(extra[0])}, 0, {extra[1]})[{which}]"
    )


OPS["var"] = Op("var", _statistic_text(0), _statistic(0))
OPS["mean"] = Op("mean", _statistic_text(1), _statistic(1))


def _cut_flags(x: Value, extra: tuple, data: Tensor) -> list[bool]:
    """What is cut to size 1 broadcasts, also where that is known only when the fusion runs."""
    cut = [a != 0 or b != n for a, b, n in zip(*extra, x.sizes, strict=True)]
    return [
        n == 1 and (flag or is_cut)
        for n, flag, is_cut in zip(data.shape, x.broadcast, cut, strict=True)
    ]


_add_shape(
    "cut",
    lambda operands, extra: f"fd.ops.slice({operands[0]}, {list(extra[0])}, {list(extra[1])})",
    lambda x, extra: x[tuple(slice(a, b) for a, b in zip(*extra, strict=True))],
    _cut_flags,
)


def _select_text(operands: Sequence[str], extra: tuple) -> str:
    kind, position, dim = extra
    index = {"constant": str(position), "symbolic": f"s{position}", "tensor": operands[-1]}[kind]
    return f"fd.ops.select({operands[0]}, {index}, {dim})"


def _evaluate_select(
    values: Sequence[Value], extra: tuple, scalars: Sequence[float | int]
) -> Value:
    kind, position, dim = extra
    x = values[0]
    if kind == "tensor":
        position = int(values[1].data)
    elif kind == "symbolic":
        position = int(scalars[position])
    flags = tuple(flag for d, flag in enumerate(x.broadcast) if d != dim)
    return Value(x.data.select(dim, position), x.error.select(dim, position), x.dtype, flags)


OPS["select"] = Op("select", _select_text, _evaluate_select)
