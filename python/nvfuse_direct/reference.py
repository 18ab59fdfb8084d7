# SPDX-License-Identifier: BSD-3-Clause
"""Evaluates a fusion op by op with torch: the reference that results are checked against, and what
runs where there is no kernel."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from . import _C_DIRECT, library
from ._C_DIRECT import DataType, Fusion, TensorView, Val
from .block_scaled import pack_float4, round_to_float4, unpack_float4
from .philox import random_tensor
from .pytorch_utils import nvfuser_dtype_to_torch_dtype

Value = Any  # a tensor, or a Python number

_FLOAT4 = (DataType.Float4_e2m1fn, DataType.Float4_e2m1fn_x2)


def _torch_dtype(dtype: DataType) -> torch.dtype:
    if dtype in _FLOAT4:
        return torch.float32  # values are kept unpacked
    if dtype == DataType.Index:
        return torch.int64
    if dtype == DataType.UInt64:
        return torch.uint64
    return nvfuser_dtype_to_torch_dtype(dtype)


def _cast(x: Value, dtype: DataType) -> Value:
    if not isinstance(x, torch.Tensor):
        if dtype == DataType.Bool:
            return bool(x)
        if dtype in (DataType.Int, DataType.Int32, DataType.Index, DataType.UInt64):
            return int(x)
        if dtype in (DataType.ComplexFloat, DataType.ComplexDouble):
            return complex(x)
        return torch.tensor(float(x), dtype=torch.float64).to(_torch_dtype(dtype)).double().item()
    if dtype in _FLOAT4:
        return round_to_float4(x)
    if x.is_complex() and not _torch_dtype(dtype).is_complex:
        x = x.real
    return x.to(_torch_dtype(dtype))


def _as_tensor(x: Value, like: torch.Tensor) -> torch.Tensor:
    return x if isinstance(x, torch.Tensor) else torch.tensor(x, device=like.device)


def _defined_by_zero(
    divide: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
) -> Callable[[Value, Value], torch.Tensor]:
    """Division or remainder of integers as torch has it on CUDA (on the CPU it raises for 0).

    By zero both are all ones; 64-bit numbers that fit in 32 bits are divided as such: 32 ones.
    """

    def of(a: Value, b: Value) -> torch.Tensor:
        sample = a if isinstance(a, torch.Tensor) else b
        a, b = _as_tensor(a, sample), _as_tensor(b, sample)
        dtype = torch.result_type(a, b)
        if dtype.is_floating_point or dtype.is_complex:
            return divide(a, b)
        zero = b == 0
        ones = torch.full_like(a, -1, dtype=dtype)
        if dtype.itemsize == 8:
            ones = torch.where((a >= 0) & (a < 2**32), 2**32 - 1, ones)
        return torch.where(zero, ones, divide(a, torch.where(zero, 1, b)).to(dtype))

    return of


_divide = _defined_by_zero(
    lambda a, b: (
        torch.true_divide(a, b)
        if torch.result_type(a, b).is_floating_point or torch.result_type(a, b).is_complex
        else torch.div(a, b, rounding_mode="trunc")
    )
)


def _trunc_div(a: Value, b: Value) -> Value:
    if isinstance(a, torch.Tensor) or isinstance(b, torch.Tensor):
        return _divide(a, b)
    if isinstance(a, int) and isinstance(b, int):
        if b == 0:
            return 0
        quotient = abs(a) // abs(b)
        return quotient if (a < 0) == (b < 0) else -quotient
    return a / b


def _clamp(x: Value, low: Value, high: Value) -> Value:
    return torch.clamp(_as_tensor(x, x), low, high)


_OPS: dict[str, Callable[..., Value]] = {
    "bitwise_not": lambda x: ~x,
    "erfcinv": lambda x: torch.erfinv(1 - x),
    "isreal": torch.isreal,
    "neg": lambda x: -x,
    "real": lambda x: x.real if x.is_complex() else x.clone(),
    "imag": lambda x: x.imag,
    "sigmoid": torch.sigmoid,
    "sign": lambda x: torch.sgn(x) if x.is_complex() else torch.sign(x),
    "silu": torch.nn.functional.silu,
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": _trunc_div,
    "truediv": torch.true_divide,
    "mod": _defined_by_zero(torch.fmod),
    "fmod": _defined_by_zero(torch.fmod),
    "remainder": _defined_by_zero(torch.remainder),
    "complex": torch.complex,
    "ceilDiv": lambda x, y: -(-x // y),
    "lerp": lambda x, y, z: x + z * (y - x),
    "clamp": _clamp,
    "threshold": lambda x, y, z: torch.where(x <= y, torch.as_tensor(z, dtype=x.dtype), x),
}

# Scalars: what can occur in shapes, and arithmetic that users write on scalars.
_SCALAR_OPS: dict[str, Callable[..., Any]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": _trunc_div,
    "ceilDiv": lambda x, y: 0 if y == 0 else -(-x // y),
    "minimum": min,
    "maximum": max,
    "where": lambda c, x, y: x if c else y,
    "eq": lambda x, y: x == y,
    "ne": lambda x, y: x != y,
    "lt": lambda x, y: x < y,
    "le": lambda x, y: x <= y,
    "gt": lambda x, y: x > y,
    "ge": lambda x, y: x >= y,
    "neg": lambda x: -x,
    "abs": abs,
    "logical_and": lambda x, y: bool(x) and bool(y),
    "logical_or": lambda x, y: bool(x) or bool(y),
    "logical_not": lambda x: not x,
}


def _packed_dim(packed: torch.Tensor) -> int:
    """The dimension along which a byte holds two values of fp4: the fastest one."""
    fastest = [d for d in range(packed.dim()) if packed.stride(d) == 1 and packed.shape[d] != 1]
    return fastest[0] if fastest else packed.dim() - 1


class Evaluator:
    """Values of one fusion for given inputs."""

    def __init__(
        self, fusion: Fusion, inputs: list[Any], rng: tuple[int, int] | None = None
    ) -> None:
        """rng: seed and offset that the stateful random ops draw from."""
        self.fusion = fusion
        self.rng = rng
        self.values: dict[Val, Value] = {}
        self.storages: dict[Val, torch.Tensor] = {}  # of swizzled scales
        declared = fusion.inputs()
        if len(declared) != len(inputs):
            raise ValueError(f"{len(declared)} inputs declared, {len(inputs)} given")
        self.device = torch.device("cpu")
        for val, value in zip(declared, inputs, strict=True):
            if isinstance(val, TensorView):
                tensor = value if isinstance(value, torch.Tensor) else torch.from_dlpack(value)
                if tensor.dim() > 0 or tensor.device.type != "cpu":
                    self.device = tensor.device
                tensor = tensor.detach()
                if val.dtype() in _FLOAT4:
                    dim = _packed_dim(tensor)
                    tensor = unpack_float4(tensor.movedim(dim, -1)).movedim(-1, dim)
                self.values[val] = tensor
                for extent, size in zip(_C_DIRECT._logical_extents(val), tensor.shape, strict=True):
                    self.values.setdefault(extent, size)
            else:
                self.values[val] = value

    def scalar(self, root: Val) -> Any:
        """Value of a scalar; iterative, as definitions can be long chains."""
        stack = [root]
        while stack:
            val = stack[-1]
            if val in self.values:
                stack.pop()
                continue
            constant = _C_DIRECT._constant(val)
            if constant is not None:
                self.values[val] = constant
                continue
            definition = val.definition()
            if definition is None:
                raise ValueError(f"the scalar {val} has no value")
            info = _C_DIRECT._expr_info(definition)
            missing = [x for x in info["inputs"] if x not in self.values]
            if missing:
                stack.extend(missing)
                continue
            operands = [self.values[x] for x in info["inputs"]]
            dtype = _C_DIRECT._scalar_dtype(val)
            if info["kind"] == "set":
                self.values[val] = operands[0]
            elif info["op"] == "cast":
                self.values[val] = _cast(operands[0], dtype)
            elif info["op"] in _SCALAR_OPS:
                self.values[val] = _SCALAR_OPS[info["op"]](*operands)
            else:
                tensors = [
                    torch.tensor(x, dtype=torch.float64 if isinstance(x, float) else None)
                    for x in operands
                ]
                op = _OPS.get(info["op"]) or getattr(torch, info["op"])
                self.values[val] = op(*tensors).item()
        return self.values[root]

    def value(self, val: Val) -> Value:
        return self.values[val] if isinstance(val, TensorView) else self.scalar(val)

    def shape(self, extents: list[Val]) -> list[int]:
        return [int(self.scalar(e)) for e in extents]

    def run(self) -> list[torch.Tensor]:
        """Outputs of the fusion in order, hidden ones included; fp4 as float32."""
        for expr in _C_DIRECT._fusion_exprs(self.fusion):
            info = _C_DIRECT._expr_info(expr)
            outs = info["outputs"]
            if info["kind"] == "welford":
                moments = _welford(self.value(info["inputs"][0]), info["dims"])
                self.values.update(zip(outs, moments, strict=True))
            elif info["kind"] == "online_softmax":
                results = _online_softmax(self.value(info["inputs"][0]), info["dims"])
                self.values.update(zip(outs, results, strict=True))
            elif info["kind"] == "library":
                self.values.update(zip(outs, self.library(info), strict=True))
            else:
                self.values[outs[0]] = self.evaluate(info, outs[0])
        return [self.values[out] for out in self.fusion.outputs()]

    def library(self, info: dict[str, Any]) -> list[torch.Tensor]:
        operands = [self.library_operand(name, v) for name, v in info["operands"].items()]
        results = []
        for out, value, swizzled in zip(
            info["outputs"],
            library.compute(info["op"], operands, info["attributes"]),
            info["swizzled"],
            strict=True,
        ):
            if swizzled:
                self.storages[out] = value
                value = library.view_of_scales(value, self.shape(_C_DIRECT._logical_extents(out)))
            results.append(unpack_float4(value) if out.dtype() in _FLOAT4 else value)
        return results

    def library_operand(self, name: str, val: Val | None) -> Value:
        """As the plan passes it: values of fp4 packed, swizzled scales as memory."""
        if val is None:
            return None
        value: Any = self.storages.get(val, self.value(val))
        if isinstance(val, TensorView) and val.dtype() in _FLOAT4:
            # Pairs lie along K: the columns of a second operand.
            dim = -2 if name == "mat2" else -1
            return pack_float4(value.movedim(dim, -1).contiguous()).movedim(-1, dim)
        return value

    def evaluate(self, info: dict[str, Any], out: TensorView) -> torch.Tensor:
        kind = info["kind"]
        operands = [self.value(x) for x in info["inputs"]]
        x = operands[0]
        if kind == "elementwise":
            return self.elementwise(info["op"], operands, out)
        if kind == "set":
            return x.permute(info["permutation"]).clone() if info["permutation"] else x.clone()
        if kind == "broadcast":
            for dim, is_new in enumerate(info["is_broadcast_dim"]):
                x = x.unsqueeze(dim) if is_new else x
            return x
        if kind == "squeeze":
            for dim in reversed(range(x.dim())):
                if info["is_squeeze_dim"][dim]:
                    x = _without(x, dim)
            return x
        if kind == "expand":
            return x.expand(self.shape(info["shape"]))
        if kind == "reshape":
            return x.reshape(self.shape(info["new_shape"]))
        if kind == "slice":
            for dim, (start, stop) in enumerate(
                zip(self.shape(info["starts"]), self.shape(info["stops"]), strict=True)
            ):
                x = x.narrow(dim, start, max(stop - start, 0))
            return x
        if kind == "pad":
            widths = []
            for left, right in zip(
                reversed(self.shape(info["left"])), reversed(self.shape(info["right"])), strict=True
            ):
                widths += [left, right]
            if x.dtype == torch.bool:
                padded = torch.nn.functional.pad(x.to(torch.uint8), widths, value=int(operands[1]))
                return padded.to(torch.bool)
            return torch.nn.functional.pad(x, widths, value=operands[1])
        if kind == "cat":
            ends = self.shape(info["ends"])
            parts, start = [], 0
            for operand, end in zip(operands, ends, strict=True):
                parts.append(operand.narrow(info["dim"], start, end - start))
                start = end
            return torch.cat(parts, info["dim"])
        if kind == "full":
            shape = self.shape(_C_DIRECT._logical_extents(out))
            return torch.full(shape, x, dtype=_torch_dtype(out.dtype()), device=self.device)
        if kind == "iota":
            length, start, step = (self.scalar(v) for v in info["inputs"])
            index = torch.arange(int(length), device=self.device)
            return (start + index * step).to(_torch_dtype(out.dtype()))
        if kind in ("uniform", "normal"):
            return self.random(info, out)
        if kind == "reduction":
            return _reduce(info["op"], x, info["dims"])
        if kind == "scan":
            return _scan(info["op"], x, info["dim"], self.scalar(info["init"]))
        if kind in ("index_select", "gather", "take_along_axis", "embedding_fwd"):
            dim = info.get("dim", 0)
            index = _safe(operands[1], x.shape[dim])
            return _LOOKUPS[kind](_with_zero_entry(x, dim), index, dim)
        if kind == "roll":
            of = info["view_dims"]
            x = x.permute(sorted(range(x.dim()), key=lambda k: of[k]))  # as they were within one
            x = x.reshape(self.shape(_C_DIRECT._logical_extents(out)))
            return torch.roll(x, [-by for by in info["offsets"]], list(range(x.dim())))
        if kind == "select":
            return x.select(info["dim"], int(operands[1]))
        if kind == "scatter":
            return _scatter(x, operands[1], operands[2], info["dim"])
        raise NotImplementedError(f"no reference for {kind}")

    def random(self, info: dict[str, Any], out: TensorView) -> torch.Tensor:
        a, b, *state = (self.value(x) for x in info["inputs"])
        if info["stateful"]:
            if self.rng is None:
                raise NotImplementedError("random numbers without the state of the generator")
            seed, offset = self.rng[0], self.rng[1] // 4 + info["stateful_index"]
        else:
            seed, offset = (int(x) for x in state)
        return random_tensor(
            info["kind"],
            self.shape(_C_DIRECT._logical_extents(out)),
            float(a),
            float(b),
            _torch_dtype(out.dtype()),
            seed,
            offset,
            self.device,
        )

    def elementwise(self, name: str, operands: list[Value], out: TensorView) -> torch.Tensor:
        dtype = out.dtype()
        if name == "cast":
            return _cast(operands[0], dtype)
        if name == "bitcast":
            return operands[0].view(_torch_dtype(dtype))
        wide = [
            x.float() if isinstance(x, torch.Tensor) and _is_small_float(x) else x for x in operands
        ]
        if name == "where":
            condition, a, b = wide
            like = next(x for x in wide if isinstance(x, torch.Tensor))
            target = _torch_dtype(dtype)
            a, b = (_as_tensor(x, like).to(target) for x in (a, b))
            return torch.where(_as_tensor(condition, like), a, b)
        like = next(x for x in wide if isinstance(x, torch.Tensor))
        if name not in ("add", "sub", "mul", "div", "clamp", "threshold"):
            wide = [_as_tensor(x, like) for x in wide]
        op = _OPS.get(name) or getattr(torch, name)
        return op(*wide).to(_torch_dtype(dtype))


def _without(x: torch.Tensor, dim: int) -> torch.Tensor:
    """What all entries along a broadcast dimension are; zero where it is expanded to nothing."""
    if x.shape[dim] > 0:
        return x.select(dim, 0)
    return x.new_zeros([n for d, n in enumerate(x.shape) if d != dim])


def _wide(x: torch.Tensor) -> torch.Tensor:
    return x.float() if _is_small_float(x) else x


def _reduce(op: str, x: torch.Tensor, dims: list[int]) -> torch.Tensor:
    """Sum, product, minimum or maximum over dims, in the dtype of x (small floats in float32)."""
    wide = _wide(x)
    if op == "add":
        return wide.sum(dims, dtype=wide.dtype).to(x.dtype)
    kept = [d for d in range(x.dim()) if d not in dims]
    count = math.prod(x.shape[d] for d in dims)
    lines = wide.permute(*kept, *dims).reshape([*(x.shape[d] for d in kept), count])
    if op == "mul":
        return lines.prod(-1, dtype=wide.dtype).to(x.dtype)
    if count == 0:
        info = torch.iinfo if not x.is_floating_point() else torch.finfo
        limit = info(x.dtype).max if op == "minimum" else info(x.dtype).min
        if x.is_floating_point():
            limit = math.inf if op == "minimum" else -math.inf
        return torch.full(lines.shape[:-1], limit, dtype=x.dtype, device=x.device)
    return (lines.amin(-1) if op == "minimum" else lines.amax(-1)).to(x.dtype)


def _welford(x: torch.Tensor, dims: list[int]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    count = math.prod(x.shape[d] for d in dims)
    mean = x.sum(dims, keepdim=True) / max(count, 1)
    squares = ((x - mean) ** 2).sum(dims)
    mean = mean.squeeze(dims)
    return mean, squares, torch.full(mean.shape, count, dtype=torch.int64, device=x.device)


def _online_softmax(x: torch.Tensor, dims: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
    top = _reduce("maximum", x, dims)
    base = top.masked_fill(top == -math.inf, 0.0)
    for dim in sorted(dims):
        base = base.unsqueeze(dim)
    return top, _reduce("add", (x - base).exp(), dims)


_SCANS = {
    "add": lambda x, dim: x.cumsum(dim, dtype=x.dtype),
    "mul": lambda x, dim: x.cumprod(dim, dtype=x.dtype),
    "minimum": lambda x, dim: x.cummin(dim).values,
    "maximum": lambda x, dim: x.cummax(dim).values,
}


def _scan(op: str, x: torch.Tensor, dim: int, init: Value) -> torch.Tensor:
    wide = _wide(x)
    if x.shape[dim] == 0:
        return x.clone()
    first = torch.full_like(wide.narrow(dim, 0, 1), init)
    return _SCANS[op](torch.cat([first, wide], dim), dim).narrow(dim, 1, x.shape[dim]).to(x.dtype)


def _with_zero_entry(x: torch.Tensor, dim: int) -> torch.Tensor:
    return torch.cat([x, x.new_zeros(_with(x.shape, dim, 1))], dim)


def _safe(index: torch.Tensor, size: int) -> torch.Tensor:
    """Positions out of range become `size`, where _with_zero_entry has zeros."""
    index = index.long()
    return torch.where((index >= 0) & (index < size), index, size)


def _take_along_axis(x: torch.Tensor, index: torch.Tensor, dim: int) -> torch.Tensor:
    shape = torch.broadcast_shapes(_with(x.shape, dim, 1), _with(index.shape, dim, 1))
    x = x.expand(_with(shape, dim, x.shape[dim]))
    return x.gather(dim, index.expand(_with(shape, dim, index.shape[dim])))


_LOOKUPS = {
    "index_select": lambda x, index, dim: x.index_select(dim, index.reshape(-1)).unflatten(
        dim, index.shape or (1,)
    ),
    "gather": lambda x, index, dim: x.gather(dim, index),
    "take_along_axis": _take_along_axis,
    "embedding_fwd": lambda x, index, _: x[index],
}


def _scatter(x: torch.Tensor, index: torch.Tensor, src: Value, dim: int) -> torch.Tensor:
    out = _with_zero_entry(x, dim)
    for k in range(index.shape[dim]):
        # One position at a time, so that of equal ones the last wins.
        row = _safe(index.narrow(dim, k, 1), x.shape[dim])
        value = src.narrow(dim, k, 1) if isinstance(src, torch.Tensor) else src
        out.scatter_(dim, row, value)
    return out.narrow(dim, 0, x.shape[dim])


def _with(shape: Sequence[int], dim: int, size: int) -> list[int]:
    return [size if d == dim else n for d, n in enumerate(shape)]


def _is_small_float(x: torch.Tensor) -> bool:
    return x.is_floating_point() and x.dtype.itemsize < 4


def evaluate(fusion: Fusion, inputs: list[Any]) -> list[torch.Tensor]:
    """Outputs of the fusion, hidden ones included, computed by torch op by op."""
    return Evaluator(fusion, inputs).run()
