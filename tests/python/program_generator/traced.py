# SPDX-License-Identifier: BSD-3-Clause
"""Tensors of a fusion with the methods of torch.Tensor, and functions of several of them.

Sizes are symbolic scalars throughout. Where several ways lead to the same result, which one is
taken depends on the program's seed.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any

import torch
from nvfuse_direct import DataType, FusionDefinition

DTYPES = {
    torch.float64: DataType.Double,
    torch.float32: DataType.Float,
    torch.float16: DataType.Half,
    torch.bfloat16: DataType.BFloat16,
    torch.int64: DataType.Int,
    torch.int32: DataType.Int32,
    torch.bool: DataType.Bool,
    torch.complex64: DataType.ComplexFloat,
    torch.complex128: DataType.ComplexDouble,
}
LOW = (torch.float16, torch.bfloat16)


class Scalar:
    """A size or a number that is an input."""

    def __init__(self, graph: Graph, val: Any, is_float: bool = False) -> None:
        self.graph = graph
        self.val = val
        self.is_float = is_float

    def _binary(self, op: str, other: Any, swap: bool = False) -> Scalar:
        if isinstance(other, Traced):
            return NotImplemented
        is_float = self.is_float or isinstance(other, float) or getattr(other, "is_float", False)
        a, b = self.val, raw(other)
        if swap:
            a, b = b, a
        return Scalar(self.graph, getattr(self.graph.ops, op)(a, b), is_float)

    def __add__(self, other: Any) -> Scalar:
        return self._binary("add", other)

    __radd__ = __add__

    def __mul__(self, other: Any) -> Scalar:
        return self._binary("mul", other)

    __rmul__ = __mul__

    def __sub__(self, other: Any) -> Scalar:
        return self._binary("sub", other)

    def __rsub__(self, other: Any) -> Scalar:
        return self._binary("sub", other, swap=True)

    def __floordiv__(self, other: Any) -> Scalar:
        """Sizes are not negative."""
        return self._binary("div", other)

    def at_least(self, other: Any) -> Scalar:
        return self._binary("maximum", other)

    def at_most(self, other: Any) -> Scalar:
        return self._binary("minimum", other)


def raw(x: Any) -> Any:
    """What fd.ops takes: a Val, a number, None."""
    return x.val if isinstance(x, Scalar) else x.tv if isinstance(x, Traced) else x


class Graph:
    """A fusion being defined."""

    def __init__(self, fd: FusionDefinition, seed: int) -> None:
        self.fd = fd
        self.ops = fd.ops
        self.rng = random.Random(seed)

    def vary(self, probability: float = 0.5) -> bool:
        return self.rng.random() < probability

    def tensor(self, tv: Any, dtype: torch.dtype, rank: int) -> Traced:
        """`tv` as `dtype`."""
        wanted = DTYPES[dtype]
        if tv.dtype() != wanted:
            tv = self.ops.cast(tv, wanted)
        return Traced(self, tv, dtype, rank)

    def full(self, shape: Sequence[Any], value: Any, dtype: torch.dtype) -> Traced:
        tv = self.ops.full([raw(n) for n in shape], value, DTYPES[dtype])
        return self.tensor(tv, dtype, len(shape))

    def iota(
        self, length: Any, start: Any = 0, step: int = 1, dtype: torch.dtype = torch.int64
    ) -> Traced:
        tv = self.ops.iota(raw(length), raw(start), step, DataType.Int)
        return self.tensor(tv, torch.int64, 1).to(dtype)


def _dummy(x: Any) -> Any:
    """What torch's promotion rules see of x."""
    if isinstance(x, Traced):
        return torch.empty((1,) * x.rank, dtype=x.dtype, device="meta")
    if isinstance(x, Scalar):
        return 1.5 if x.is_float else 1
    return x


def promoted(*operands: Any) -> torch.dtype:
    first, *rest = operands
    dummy = _dummy(first)
    for each in rest:
        other = _dummy(each)
        dtype = torch.result_type(dummy, other)
        tensors = [t for t in (dummy, other) if isinstance(t, torch.Tensor)]
        dummy = torch.empty((1,) * max(t.dim() for t in tensors), dtype=dtype, device="meta")
    return dummy.dtype


class Traced:
    """A tensor of the fusion with the methods of torch.Tensor that programs use."""

    def __init__(self, graph: Graph, tv: Any, dtype: torch.dtype, rank: int) -> None:
        self.graph = graph
        self.tv = tv
        self.dtype = dtype
        self.rank = rank

    # --- sizes and dtypes

    def size(self, dim: int | None = None) -> Any:
        if dim is None:
            return [self.size(d) for d in range(self.rank)]
        return Scalar(self.graph, self.graph.ops.size(self.tv, dim))

    @property
    def shape(self) -> list[Scalar]:
        return self.size()

    def to(self, dtype: torch.dtype) -> Traced:
        if dtype == self.dtype:
            return self
        return Traced(self.graph, self.graph.ops.cast(self.tv, DTYPES[dtype]), dtype, self.rank)

    def float(self) -> Traced:
        return self.to(torch.float32)

    def double(self) -> Traced:
        return self.to(torch.float64)

    def half(self) -> Traced:
        return self.to(torch.float16)

    def int(self) -> Traced:
        return self.to(torch.int32)

    def long(self) -> Traced:
        return self.to(torch.int64)

    def bool(self) -> Traced:
        return self.to(torch.bool)

    def widened(self) -> Traced:
        """In the dtype that composite functions are computed in."""
        return self.float() if self.dtype in LOW else self

    def _like(self, tv: Any, dtype: torch.dtype | None = None, rank: Any = None) -> Traced:
        rank = self.rank if rank is None else rank
        return self.graph.tensor(tv, self.dtype if dtype is None else dtype, rank)

    def _dims(self, dim: Any) -> list[Any]:
        """Dimensions from 0, all of them for None."""
        if dim is None:
            return list(range(self.rank))
        dims = [dim] if not isinstance(dim, (tuple, list)) else list(dim)
        return [d % max(self.rank, 1) for d in dims]

    # --- elementwise

    def _unary(self, op: str) -> Traced:
        """Of floating-point tensors, or what keeps the dtype."""
        return self._like(getattr(self.graph.ops, op)(self.tv))

    def __neg__(self) -> Traced:
        return self._unary("neg")

    neg = __neg__

    def abs(self) -> Traced:
        return self._like(self.graph.ops.abs(self.tv), self.dtype.to_real())

    def __invert__(self) -> Traced:
        return self._unary("logical_not" if self.dtype == torch.bool else "bitwise_not")

    def logical_not(self) -> Traced:
        return self._like(self.graph.ops.logical_not(self.tv), torch.bool)

    def square(self) -> Traced:
        return self * self

    def clone(self) -> Traced:
        return self._unary("set")

    def clamp(self, low: Any = None, high: Any = None, min: Any = None, max: Any = None) -> Traced:
        low = min if low is None else low
        high = max if high is None else high
        if self.graph.vary(0.6) and not isinstance(high, Scalar):
            return self._like(self.graph.ops.clamp(self.tv, raw(low), raw(high)))
        x = self
        if low is not None:
            x = binary("maximum", x, low, x.dtype)
        return x if high is None else binary("minimum", x, high, x.dtype)

    def __add__(self, other: Any) -> Traced:
        return add(self, other)

    def __radd__(self, other: Any) -> Traced:
        return add(other, self)

    def add(self, other: Any, alpha: Any = 1) -> Traced:
        return add(self, other, alpha)

    def __sub__(self, other: Any) -> Traced:
        return binary("sub", self, other)

    def __rsub__(self, other: Any) -> Traced:
        return binary("sub", other, self)

    def sub(self, other: Any, alpha: Any = 1) -> Traced:
        return binary("sub", self, other if alpha == 1 else other * alpha)

    def rsub(self, other: Any) -> Traced:
        return binary("sub", other, self)

    def __mul__(self, other: Any) -> Traced:
        if promoted(self, other) == torch.bool:
            return binary("logical_and", self, other)
        return binary("mul", self, other)

    __rmul__ = mul = __mul__

    def __truediv__(self, other: Any) -> Traced:
        return true_divide(self, other)

    def __rtruediv__(self, other: Any) -> Traced:
        return true_divide(other, self)

    def __floordiv__(self, other: Any) -> Traced:
        """Of integers, rounded down: (x - x mod y) / y."""
        return binary("div", self - binary("remainder", self, other), other)

    def __mod__(self, other: Any) -> Traced:
        return binary("remainder", self, other)

    remainder = __mod__

    def fmod(self, other: Any) -> Traced:
        return binary("fmod", self, other)

    def __pow__(self, other: Any) -> Traced:
        if other == 2 and self.graph.vary():
            return self * self
        return binary("pow", self, other)

    pow = __pow__

    def __rpow__(self, other: Any) -> Traced:
        return binary("pow", other, self)

    def _compare(self, op: str, other: Any) -> Traced:
        return binary(op, self, other, torch.bool)

    def __lt__(self, other: Any) -> Traced:
        return self._compare("lt", other)

    def __le__(self, other: Any) -> Traced:
        return self._compare("le", other)

    def __gt__(self, other: Any) -> Traced:
        return self._compare("gt", other)

    def __ge__(self, other: Any) -> Traced:
        return self._compare("ge", other)

    def __eq__(self, other: Any) -> Traced:  # type: ignore[override]
        return self._compare("eq", other)

    def __ne__(self, other: Any) -> Traced:  # type: ignore[override]
        return self._compare("ne", other)

    __hash__ = None  # type: ignore[assignment]

    def _bitwise(self, op: str, other: Any) -> Traced:
        return binary(op, self, other)

    def __and__(self, other: Any) -> Traced:
        return self._bitwise("bitwise_and", other)

    def __or__(self, other: Any) -> Traced:
        return self._bitwise("bitwise_or", other)

    def __xor__(self, other: Any) -> Traced:
        return self._bitwise("bitwise_xor", other)

    def __lshift__(self, other: Any) -> Traced:
        return self._bitwise("bitwise_left_shift", other)

    def __rshift__(self, other: Any) -> Traced:
        return self._bitwise("bitwise_right_shift", other)

    def masked_fill(self, mask: Traced, value: Any) -> Traced:
        return where(mask, value, self, self.dtype)

    # --- in place

    def _become(self, other: Traced) -> Traced:
        self.tv = other.to(self.dtype).tv
        return self

    def mul_(self, other: Any) -> Traced:
        return self._become(self * other)

    def add_(self, other: Any, alpha: Any = 1) -> Traced:
        return self._become(self.add(other, alpha))

    def sub_(self, other: Any) -> Traced:
        return self._become(self - other)

    __imul__, __iadd__, __isub__ = mul_, add_, sub_

    def relu_(self) -> Traced:
        return self._become(self._unary("relu"))

    def neg_(self) -> Traced:
        return self._become(-self)

    def abs_(self) -> Traced:
        return self._become(self.abs())

    def fill_(self, value: Any) -> Traced:
        return self._become(self.graph.full(self.shape, value, self.dtype))

    def zero_(self) -> Traced:
        return self.fill_(0)

    def copy_(self, other: Traced) -> Traced:
        return self._become(other.to(self.dtype).expand(self.shape).clone())

    # --- reductions

    def _reduce(self, op: str, dim: Any, keepdim: Any, dtype: torch.dtype | None = None) -> Traced:
        """fd.ops.<op> over dims; the sizes of what is kept are 1."""
        dims = self._dims(dim)
        rank = self.rank if keepdim else self.rank - len(dims)
        if self.rank == 0:
            return self._like(self.graph.ops.set(self.tv), dtype)
        function = getattr(self.graph.ops, op)
        if keepdim and self.graph.vary(0.3):
            tv = self.graph.ops.broadcast(
                function(self.tv, dims, keepdim=False), [d in dims for d in range(self.rank)]
            )
        else:
            tv = function(self.tv, dims, keepdim=bool(keepdim))
        return self._like(tv, dtype, rank)

    def _summed_dtype(self) -> torch.dtype:
        exact = not (self.dtype.is_floating_point or self.dtype.is_complex)
        return torch.int64 if exact else self.dtype

    def sum(
        self, dim: Any = None, keepdim: Any = False, dtype: torch.dtype | None = None
    ) -> Traced:
        x = self if dtype is None else self.to(dtype)
        if x.dtype in LOW and x.graph.vary():
            return x.float()._reduce("sum", dim, keepdim).to(x.dtype)
        return x._reduce("sum", dim, keepdim, x._summed_dtype())

    def prod(self, dim: Any = None, keepdim: Any = False) -> Traced:
        return self._reduce("prod", dim, keepdim, self._summed_dtype())

    def amax(self, dim: Any = None, keepdim: Any = False) -> Traced:
        return self._reduce("max", dim, keepdim)

    def amin(self, dim: Any = None, keepdim: Any = False) -> Traced:
        return self._reduce("min", dim, keepdim)

    def max(self, dim: Any = None, keepdim: Any = False) -> Any:
        result = self.amax(dim, keepdim)
        return result if dim is None else (result, None)

    def min(self, dim: Any = None, keepdim: Any = False) -> Any:
        result = self.amin(dim, keepdim)
        return result if dim is None else (result, None)

    def any(self, dim: Any, keepdim: Any = False) -> Traced:
        return self.sum(dim, keepdim) > 0

    def all(self, dim: Any, keepdim: Any = False) -> Traced:
        return (~self).sum(dim, keepdim) == 0

    def count(self, dim: Any) -> Scalar:
        """How many elements are reduced over dims."""
        result = Scalar(self.graph, self.graph.fd.define_scalar(1))
        for d in self._dims(dim):
            if d < self.rank:
                result = result * self.size(d)
        return result

    def mean(self, dim: Any = None, keepdim: Any = False) -> Traced:
        x = self.widened()
        return true_divide(x.sum(dim, keepdim), x.count(dim)).to(self.dtype)

    def _deviations(self, dim: Any, correction: Any, keepdim: Any) -> tuple[Traced, Traced]:
        """Variance and mean in the wide dtype."""
        x, ops, dims = self.widened(), self.graph.ops, self._dims(dim)
        rank = self.rank if keepdim else max(self.rank - len(dims), 0)
        way = self.graph.rng.random()
        if way < 0.5:
            variance, mean = ops.var_mean(x.tv, dims, correction, bool(keepdim))
            return x._like(variance, rank=rank), x._like(mean, rank=rank)
        if way < 0.75:
            variance = x._like(ops.var(x.tv, dims, correction, bool(keepdim)), rank=rank)
            return variance, x.mean(dim, keepdim)
        mean = x.mean(dim, True)
        squares = (x - mean).square().sum(dim, keepdim)
        count = (x.count(dim) - correction).at_least(0)
        return true_divide(squares, count), mean if keepdim else mean._squeezed(dims)

    def var(self, dim: Any = None, correction: Any = 1, keepdim: Any = False) -> Traced:
        return self._deviations(dim, correction, keepdim)[0].to(self.dtype)

    def std(self, dim: Any = None, correction: Any = 1, keepdim: Any = False) -> Traced:
        return self._deviations(dim, correction, keepdim)[0]._unary("sqrt").to(self.dtype)

    def var_mean(
        self, dim: Any, correction: Any = 1, keepdim: Any = False
    ) -> tuple[Traced, Traced]:
        variance, mean = self._deviations(dim, correction, keepdim)
        return variance.to(self.dtype), mean.to(self.dtype)

    def norm(self, dim: Any, keepdim: Any = False) -> Traced:
        return self.widened().square().sum(dim, keepdim)._unary("sqrt").to(self.dtype)

    def logsumexp(self, dim: Any, keepdim: Any = False) -> Traced:
        x, dims = self.widened(), self._dims(dim)
        top = x.amax(dims, True)
        top = where(top.abs() == math.inf, 0.0, top)
        result = (x - top)._unary("exp").sum(dims, True)._unary("log") + top
        return (result if keepdim else result._squeezed(dims)).to(self.dtype)

    def softmax(self, dim: int) -> Traced:
        x = self.widened()
        e = (x - x.amax(dim, True))._unary("exp")
        return (e / e.sum(dim, True)).to(self.dtype)

    def log_softmax(self, dim: int) -> Traced:
        x = self.widened()
        shifted = x - x.amax(dim, True)
        return (shifted - shifted._unary("exp").sum(dim, True)._unary("log")).to(self.dtype)

    def _scan(self, op: str, dim: int) -> Traced:
        if self.rank == 0:  # dimension 0 of one element is no dimension
            return self
        x, zeros = self, self.graph.full(self.shape, 0, self.dtype)
        if " ex " in str(
            self.tv
        ):  # what is expanded can't be scanned: make it a tensor of that size
            x = where(zeros == 0, self, zeros)
        return self._like(getattr(self.graph.ops, op)(x.tv, dim))

    def cumsum(self, dim: int) -> Traced:
        return self.to(self._summed_dtype())._scan("cumsum", dim)

    def cumprod(self, dim: int) -> Traced:
        return self.to(self._summed_dtype())._scan("cumprod", dim)

    def cummax(self, dim: int) -> tuple[Traced, None]:
        return self._scan("cummax", dim), None

    def cummin(self, dim: int) -> tuple[Traced, None]:
        return self._scan("cummin", dim), None

    # --- shapes

    def permute(self, *dims: Any) -> Traced:
        return self._like(self.graph.ops.permute(self.tv, list(dims)))

    def transpose(self, a: int, b: int) -> Traced:
        order = list(range(self.rank))
        order[a], order[b] = order[b], order[a]
        return self.permute(*order)

    def t(self) -> Traced:
        return self.transpose(0, 1)

    def movedim(self, source: int, target: int) -> Traced:
        order = list(range(self.rank))
        moved = order.pop(source)
        order.insert(target % self.rank, moved)
        return self.permute(*order)

    def unsqueeze(self, dim: int) -> Traced:
        dim %= self.rank + 1
        ops, flags = self.graph.ops, [d == dim for d in range(self.rank + 1)]
        if self.graph.vary(0.2):
            shape = [1 if flag else -1 for flag in flags]
            kept = [d for d in range(self.rank + 1) if d != dim]
            return self._like(ops.broadcast_in_dim(self.tv, shape, kept), rank=self.rank + 1)
        return self._like(ops.broadcast(self.tv, flags), rank=self.rank + 1)

    def _squeezed(self, dims: Sequence[Any]) -> Traced:
        if self.rank == 0:  # dimension 0 of one element is no dimension
            return self
        squeeze = self.graph.ops.squeeze
        try:
            squeezed = squeeze(self.tv, list(dims))
        except RuntimeError:  # expanded, to its size of 1
            squeezed = squeeze(self.tv, list(dims), squeeze_expanded=True)
        return self._like(squeezed, rank=self.rank - len(dims))

    def squeeze(self, dim: int) -> Traced:
        return self._squeezed([dim])

    def expand(self, *sizes: Any) -> Traced:
        if len(sizes) == 1 and isinstance(sizes[0], (list, tuple)):
            sizes = tuple(sizes[0])
        shape = [raw(n) for n in sizes]
        new = len(shape) - self.rank
        if self.graph.vary(0.3):
            mapped = list(range(new, len(shape)))
            return self._like(
                self.graph.ops.broadcast_in_dim(self.tv, shape, mapped), rank=len(shape)
            )
        return self._like(self.graph.ops.expand(self.tv, shape), rank=len(shape))

    def expand_as(self, other: Traced) -> Traced:
        return self.expand(other.shape)

    broadcast_to = expand

    def reshape(self, *sizes: Any) -> Traced:
        if len(sizes) == 1 and isinstance(sizes[0], (list, tuple)):
            sizes = tuple(sizes[0])
        return self._like(self.graph.ops.reshape(self.tv, [raw(n) for n in sizes]), rank=len(sizes))

    def reshape_as(self, other: Traced) -> Traced:
        return self.reshape(other.shape)

    def flatten(self, first: int = 0, last: int = -1) -> Traced:
        last %= self.rank
        merged = self.count(list(range(first, last + 1)))
        entry = -1 if first == 0 and last == self.rank - 1 and self.graph.vary() else merged
        return self.reshape(*self.shape[:first], entry, *self.shape[last + 1 :])

    def unflatten(self, dim: int, sizes: Sequence[Any]) -> Traced:
        """Finds -1 from this dimension alone, which a reshape can't where another one is empty."""
        if self.graph.vary() or self.rank > 1:
            factor = next(n for n in sizes if isinstance(n, int) and n != -1)
            whole = self.size(dim) // factor
            sizes = [n if isinstance(n, int) and n != -1 else whole for n in sizes]
        return self.reshape(*self.shape[:dim], *sizes, *self.shape[dim + 1 :])

    def _sliced(self, dim: int, start: Any, stop: Any) -> Traced:
        starts: list[Any] = [0] * self.rank
        stops = [raw(n) for n in self.shape]
        starts[dim], stops[dim] = raw(start), raw(stop)
        return self._like(self.graph.ops.slice(self.tv, starts, stops))

    def narrow(self, dim: int, start: Any, length: Any) -> Traced:
        return self._sliced(dim, start, start + length)

    def chunk(self, count: int, dim: int) -> list[Traced]:
        dim %= self.rank
        size = self.size(dim)
        step = (size + (count - 1)) // count
        return [
            self._sliced(dim, step * i, (step * (i + 1)).at_most(size))
            if i + 1 < count
            else self._sliced(dim, step * i, size)
            for i in range(count)
        ]

    def select(self, dim: int, index: int) -> Traced:
        dim %= self.rank
        if self.graph.vary(0.3) and index >= 0:
            return self._sliced(dim, index, index + 1)._squeezed([dim])
        position = self.graph.fd.define_scalar(index) if index >= 0 else raw(self.size(dim) + index)
        return self._like(self.graph.ops.select(self.tv, position, dim), rank=self.rank - 1)

    def __getitem__(self, index: Any) -> Traced:
        entries = list(index) if isinstance(index, tuple) else [index]
        taken = sum(e is not None and e is not Ellipsis for e in entries)
        if any(e is Ellipsis for e in entries):
            at = next(i for i, e in enumerate(entries) if e is Ellipsis)
            entries[at : at + 1] = [slice(None)] * (self.rank - taken)
        x, dim = self, 0
        for entry in entries:
            if entry is None:
                x = x.unsqueeze(dim)
            elif isinstance(entry, slice):
                x = x._slice_of(dim, entry)
            else:
                x = x.select(dim, entry)
                continue
            dim += 1
        return x

    def _slice_of(self, dim: int, entry: slice) -> Traced:
        if entry.start is None and entry.stop is None:
            return self
        size = self.size(dim)

        def position(x: Any, default: Any) -> Any:
            if x is None:
                return default
            if isinstance(x, Scalar):
                ops = self.graph.ops
                wrapped = ops.where(ops.lt(x.val, 0), ops.add(x.val, size.val), x.val)
                return Scalar(self.graph, wrapped).at_least(0)
            return x if x >= 0 else (size + x).at_least(0)

        start, stop = position(entry.start, 0), position(entry.stop, size)
        if isinstance(start, int) and start > 0 and isinstance(stop, Scalar):
            stop = stop.at_least(start)  # known sizes must be in order
        return self._sliced(dim, start, stop)

    def triu(self, diagonal: int = 0) -> Traced:
        return self._like(self.graph.ops.triu(self.tv, diagonal))

    def tril(self, diagonal: int = 0) -> Traced:
        row = self.graph.iota(self.size(-2)).unsqueeze(1)
        column = self.graph.iota(self.size(-1)).unsqueeze(0)
        return where(column <= row + diagonal, self, 0, self.dtype)

    def roll(self, shift: int, dim: int) -> Traced:
        size = self.size(dim)
        parts = [self._sliced(dim, size - shift, size), self._sliced(dim, 0, size - shift)]
        return cat(parts, dim)

    # --- lookups

    def index_select(self, dim: int, index: Traced) -> Traced:
        return self._like(self.graph.ops.index_select(self.tv, index.tv, dim))

    def gather(self, dim: int, index: Traced) -> Traced:
        return self._like(self.graph.ops.gather(self.tv, index.tv, dim))

    def take_along_dim(self, index: Traced, dim: int) -> Traced:
        return self._like(self.graph.ops.take_along_axis(self.tv, index.tv, dim))

    def scatter(self, dim: int, index: Traced, source: Any) -> Traced:
        if not isinstance(source, Traced):
            source = Scalar(self.graph, self.graph.fd.define_scalar(source))
        return self._like(self.graph.ops.scatter(self.tv, index.tv, raw(source), dim))

    # --- products and order

    def __matmul__(self, other: Traced) -> Traced:
        ranks = self.rank, other.rank
        rank = max(*ranks, 2) - ranks.count(1)
        return self._like(self.graph.ops.matmul(self.tv, other.tv), rank=rank)

    matmul = __matmul__

    def topk(self, k: int, dim: int, largest: bool = True) -> tuple[Traced, None]:
        count = self.graph.fd.define_scalar(k)
        values, _ = self.graph.ops.topk(self.tv, count, dim, largest, True)
        return self._like(values), None

    def sort(self, dim: int, descending: bool = False) -> tuple[Traced, None]:
        ops = self.graph.ops
        places = ops.argsort(self.tv, dim, descending)
        return self._like(ops.take_along_axis(self.tv, places, dim)), None

    # --- complex numbers

    @property
    def real(self) -> Traced:
        return self._like(self.graph.ops.real(self.tv), self.dtype.to_real())

    @property
    def imag(self) -> Traced:
        return self._like(self.graph.ops.imag(self.tv), self.dtype.to_real())

    def conj(self) -> Traced:
        return complex_(self.real, -self.imag)


for _name in """
acos acosh asin asinh atan atanh ceil cos cosh erf erfc exp exp2 expm1 floor frac lgamma log
log10 log1p log2 reciprocal relu round rsqrt sigmoid sign sin sinh sqrt tan tanh trunc
""".split():
    setattr(Traced, _name, lambda self, op=_name: self._unary(op))


# ------------------------------------------------------------------- functions of several tensors


def binary(op: str, a: Any, b: Any, dtype: torch.dtype | None = None) -> Traced:
    """fd.ops.<op> of operands in their common dtype; dtype: of the result, if it is another."""
    common = promoted(a, b)
    a, b = (x.to(common) if isinstance(x, Traced) else x for x in (a, b))
    tensors = [x for x in (a, b) if isinstance(x, Traced)]
    graph = tensors[0].graph
    tv = getattr(graph.ops, op)(raw(a), raw(b))
    return graph.tensor(tv, dtype or common, max(x.rank for x in tensors))


def add(a: Any, b: Any, alpha: Any = 1) -> Traced:
    if alpha != 1:
        common = promoted(a, b)
        return binary("add", a.widened(), b.to(common).widened() * alpha).to(common)
    return binary("logical_or" if promoted(a, b) == torch.bool else "add", a, b)


def true_divide(a: Any, b: Any) -> Traced:
    common = promoted(a, b)
    if not (common.is_floating_point or common.is_complex):
        a, b = (x.float() if isinstance(x, Traced) else x for x in (a, b))
        common = torch.float32
        tensors = [x for x in (a, b) if isinstance(x, Traced)]
        op = "truediv" if tensors[0].graph.vary() else "div"
        tv = getattr(tensors[0].graph.ops, op)(raw(a), raw(b))
        return tensors[0].graph.tensor(tv, common, max(x.rank for x in tensors))
    graph = next(x for x in (a, b) if isinstance(x, Traced)).graph
    return binary("truediv" if graph.vary(0.3) else "div", a, b)


def where(mask: Traced, a: Any, b: Any, dtype: torch.dtype | None = None) -> Traced:
    common = dtype or promoted(a, b)
    graph = mask.graph
    ranks = [x.rank for x in (mask, a, b) if isinstance(x, Traced)]
    a, b = (x.to(common) if isinstance(x, Traced) else x for x in (a, b))
    return graph.tensor(graph.ops.where(mask.tv, raw(a), raw(b)), common, max(ranks))


def cat(tensors: Sequence[Traced], dim: int = 0) -> Traced:
    common = promoted(*tensors)
    graph = tensors[0].graph
    tv = graph.ops.cat([x.to(common).tv for x in tensors], dim)
    return graph.tensor(tv, common, tensors[0].rank)


def complex_(real: Traced, imag: Traced) -> Traced:
    graph = real.graph
    return graph.tensor(graph.ops.complex(real.tv, imag.tv), real.dtype.to_complex(), real.rank)


def ternary(op: str, x: Traced, *others: Any) -> Traced:
    """lerp and addcmul, in the dtype of the tensors."""
    common = promoted(*(t for t in (x, *others) if isinstance(t, Traced)))
    operands = [t.to(common) if isinstance(t, Traced) else t for t in (x, *others)]
    tv = getattr(x.graph.ops, op)(*(raw(t) for t in operands))
    rank = max(t.rank for t in operands if isinstance(t, Traced))
    return x.graph.tensor(tv, common, rank)
