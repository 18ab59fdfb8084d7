# SPDX-License-Identifier: BSD-3-Clause
"""Rows of the op suite for what is not elementwise and runs in kernels: reductions, statistics,
scans, shapes, lookups, creation and random numbers (sections 2.4 to 2.6 and 2.8 to 2.11).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import torch
from helpers import (
    COMPLEX,
    EPSILON,
    FLOATS,
    FP8,
    FULL_FLOATS,
    INTS,
    TORCH,
    data_type,
    difference,
    row_major,
    widen,
)
from nvfuse_direct import DataType, FusionDefinition
from nvfuse_direct.philox import random_tensor
from op_infos import (
    ALL_DTYPES,
    E8M0,
    Arg,
    BadCall,
    OpInfo,
    Sample,
    equals,
    operand,
    sizes_of,
    tensor_arg,
)

Tensor = torch.Tensor


def floats(fd: FusionDefinition, rank: int = 2, dtype: str = "Float") -> object:
    return fd.define_tensor([-1] * rank, True, data_type(dtype))


def as_bits(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A function that only moves elements, of dtypes that torch moves no elements of."""
    kinds = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}

    def moved(x: Tensor, *others: Tensor) -> Tensor:
        if x.is_complex() or x.dtype == torch.bool:
            return function(x, *others)
        kind = kinds[x.dtype.itemsize]
        others = tuple(y.view(kind) if y.dtype == x.dtype else y for y in others)
        return function(x.view(kind), *others).view(x.dtype)

    return moved


# -------------------------------------------------------------------------------------- reductions


def axis_patterns(rank: int) -> list[tuple[list[int], bool]]:
    """Axes to reduce and whether they are kept, few per rank."""
    return {
        0: [([0], False)],
        1: [([0], False), ([-1], True)],
        2: [([1], True), ([0], False)],
        3: [([2], False), ([0, -2], True)],
    }[rank]


def reduced_dtype(op: str, dtype: str) -> str:
    return "Int" if op in ("sum", "prod") and dtype in (*INTS, "Bool", "UInt64") else dtype


def reduce_reference(op: str, x: Tensor, dims: Sequence[int], keepdim: bool) -> Tensor:
    wide = x.to(torch.int64) if x.dtype in (torch.uint64, torch.bool) else widen(x)
    if x.dim() == 0:
        return wide
    dims = [d % x.dim() for d in dims]
    if op == "sum":
        return wide.sum(dims, keepdim=keepdim)
    count = math.prod(x.shape[d] for d in dims)
    if op != "prod" and count == 0:
        shape = [1 if d in dims else n for d, n in enumerate(x.shape) if keepdim or d not in dims]
        return torch.full(shape, limit(x.dtype, op), dtype=wide.dtype)
    for d in sorted(dims, reverse=True):
        wide = wide.prod(d, keepdim=keepdim) if op == "prod" else extreme(op, wide, d, keepdim)
    return wide


def limit(dtype: torch.dtype, op: str) -> float | int:
    """What the largest and the smallest of nothing are."""
    if dtype.is_floating_point:
        return -math.inf if op == "max" else math.inf
    if dtype == torch.bool:
        return int(op == "min")
    info = torch.iinfo(dtype)
    return info.min if op == "max" else min(info.max, 2**63 - 1)


def extreme(op: str, x: Tensor, dim: int, keepdim: bool) -> Tensor:
    return (torch.amax if op == "max" else torch.amin)(x, dim, keepdim=keepdim)


def reduction_check(op: str, dims: Sequence[int], keepdim: bool, dtype: str) -> Callable:
    def check(outputs: Sequence[Tensor], operands: Sequence[Tensor]) -> str | None:
        x = operands[0].cpu()
        out = TORCH[reduced_dtype(op, dtype)]
        wide = reduce_reference(op, x, dims, keepdim)
        tolerance, scale = 0.0, 1.0
        if out in EPSILON and op in ("sum", "prod"):
            accumulated = 2.0**-52 if out in (torch.double, torch.complex128) else 2.0**-22
            tolerance = EPSILON[out] + max(x.numel(), 1) * accumulated
            scale = max(float(widen(x).abs().sum()), 1.0) if op == "sum" else 1.0
        return difference(outputs[0], wide.to(out), tolerance, tolerance * scale)

    return check


def reduction_samples(op: str) -> Callable[[str, str], Iterator[Sample]]:
    def samples(dtype: str, shape: str) -> Iterator[Sample]:
        x = operand(dtype, shape, 0, -1.5, 1.5)
        rank = len(sizes_of(shape))
        patterns = axis_patterns(rank)
        for dims, keepdim in patterns:
            keepdim = keepdim and rank > 0

            def build(fd: FusionDefinition, t: object, dims=dims, keepdim=keepdim) -> object:
                # One dimension and several are two overloads.
                axes = dims[0] if len(dims) == 1 and keepdim else dims
                return getattr(fd.ops, op)(t, axes, keepdim=keepdim)

            check = reduction_check(op, dims, keepdim, dtype)
            yield Sample((x,), build, check, f"{op}({dims}, keepdim={keepdim})")
        check = reduction_check(op, list(range(rank)), False, dtype)
        if shape in ("matrix", "zero_dim", "offset"):
            yield Sample((x,), lambda fd, t: getattr(fd.ops, op)(t), check, f"{op}()")

    return samples


REDUCED = tuple(d for d in ALL_DTYPES if d != E8M0 and d not in FP8 and d != "UInt64")


def reduction_infos() -> Iterator[OpInfo]:
    for op in ("sum", "prod", "max", "min"):
        dtypes = REDUCED if op in ("sum", "prod") else tuple(d for d in REDUCED if d not in COMPLEX)
        call = lambda fd, *a, op=op, **k: getattr(fd.ops, op)(floats(fd), *a, **k)  # noqa: E731
        errors = [
            BadCall("no axis", lambda fd, call=call: call(fd, []), "No reduction axis specified"),
            BadCall("range", lambda fd, call=call: call(fd, 2), "out of boundary index"),
            BadCall("twice", lambda fd, call=call: call(fd, [0, -2]), f"{op}|[Rr]eduction"),
        ]
        if op in ("max", "min"):
            errors.append(
                BadCall("dtype", lambda fd, call=call: call(fd, 0, dtype=DataType.Double), op)
            )
        yield OpInfo(op, dtypes, reduction_samples(op), "reduction", tuple(errors))


# -------------------------------------------------------------------------------------- statistics


def statistics_samples(op: str) -> Callable[[str, str], Iterator[Sample]]:
    def reference(x: Tensor, dims: list[int], correction: int, keepdim: bool) -> list[Tensor]:
        wide = widen(x)
        out = torch.float if x.dtype in (torch.half, torch.bfloat16) else x.dtype
        count = math.prod(x.shape[d] for d in dims)
        mean = wide.sum(dims, keepdim=True) / count if count else wide.mean(dims, keepdim=True)
        squares = (wide - mean).abs().square().sum(dims, keepdim=keepdim)
        mean = mean if keepdim else mean.squeeze(dims)
        if op == "welford":
            n = torch.full(mean.shape, count, dtype=torch.int64)
            return [torch.nan_to_num(mean).to(out), squares.to(out), n]
        real = torch.empty(0, dtype=out).real.dtype
        var = (squares / max(count - correction, 0)).to(real)
        # torch's mean of nothing is NaN, and so is its variance.
        return [var] if op == "var" else [var, mean.to(out)]

    def samples(dtype: str, shape: str) -> Iterator[Sample]:
        rank = len(sizes_of(shape))
        if rank == 0:
            return
        x = operand(dtype, shape)
        tolerance = 1e-12 if dtype in ("Double", "ComplexDouble") else 1e-5
        for k, (dims, keepdim) in enumerate(axis_patterns(rank)):
            keepdim = keepdim and op != "welford"
            wrapped = [d % rank for d in dims]
            empty = math.prod(sizes_of(shape)[d] for d in wrapped) == 0

            def build(fd, t, dims=dims, k=k, keepdim=keepdim) -> object:
                if op == "welford":
                    return fd.ops.welford(t, dims)
                return getattr(fd.ops, op)(t, dims, correction=k, keepdim=keepdim)

            check = equals(
                lambda x, w=wrapped, k=k, keepdim=keepdim: reference(x, w, k, keepdim), tolerance
            )
            if not (empty and op == "welford"):  # torch has no word on the mean of nothing there
                yield Sample((x,), build, check, f"{op}({dims}, {k}, {keepdim})")

    return samples


def statistics_infos() -> Iterator[OpInfo]:
    for op, dtypes in (
        ("var", (*FLOATS, *COMPLEX)),
        ("var_mean", (*FULL_FLOATS, *COMPLEX)),
        ("welford", FULL_FLOATS),
    ):
        call = lambda fd, x, *a, op=op: getattr(fd.ops, op)(x, *a)  # noqa: E731
        errors = [
            BadCall("range", lambda fd, c=call: c(fd, floats(fd), [2]), "out of boundary index"),
            BadCall(
                "float", lambda fd, c=call: c(fd, floats(fd), [1.0]), "expected integers", TypeError
            ),
        ]
        if op == "var_mean":
            errors += [
                BadCall(low, lambda fd, c=call, low=low: c(fd, floats(fd, 2, low), [1]), "var_mean")
                for low in ("Half", "BFloat16", *FP8)
            ]
        yield OpInfo(op, dtypes, statistics_samples(op), "statistics", tuple(errors))


# ------------------------------------------------------------------------------------------- scans


def scan_reference(op: str, x: Tensor, dim: int) -> Tensor:
    if x.shape[dim] == 0:
        return x
    integers = x.dtype in (torch.uint64, torch.bool)
    wide = x.to(torch.int64) if integers else widen(x)
    if op in ("cummin", "cummax"):
        return getattr(torch, op)(wide, dim).values.to(x.dtype)
    if wide.dtype == torch.int32:  # sums wrap in their own dtype
        return getattr(torch, op)(wide, dim, dtype=torch.int32)
    return getattr(torch, op)(wide, dim, dtype=wide.dtype).to(x.dtype)


def scan_samples(op: str) -> Callable[[str, str], Iterator[Sample]]:
    def tolerance(dtype: torch.dtype) -> float:
        exact = op in ("cummin", "cummax") or dtype not in EPSILON
        small = 2.0**-48 if dtype in (torch.double, torch.complex128) else 2.0**-18
        return 0.0 if exact else EPSILON[dtype] + small

    def samples(dtype: str, shape: str) -> Iterator[Sample]:
        rank = len(sizes_of(shape))
        x = operand(dtype, shape, 0, -1.5, 1.5)
        # The middle dimension of `expanded` is refused.
        for dim in sorted({rank - 1, 0}) if rank else ():
            yield Sample(
                (x,),
                lambda fd, t, dim=dim: getattr(fd.ops, op)(t, dim),
                equals(lambda x, dim=dim: scan_reference(op, x, dim), tolerance),
                f"{op}({dim})",
            )

    return samples


def scan_infos() -> Iterator[OpInfo]:
    for op in ("cumsum", "cumprod", "cummin", "cummax"):
        dtypes = (
            REDUCED if op in ("cumsum", "cumprod") else [d for d in REDUCED if d not in COMPLEX]
        )
        call = lambda fd, x, dim, op=op: getattr(fd.ops, op)(x, dim)  # noqa: E731
        errors = (
            BadCall("0-d", lambda fd, c=call: c(fd, floats(fd, 0), 0), ""),
            BadCall("range", lambda fd, c=call: c(fd, floats(fd), 2), "out of boundary index"),
            BadCall("float", lambda fd, c=call: c(fd, floats(fd), 1.0), "incompat", TypeError),
        )
        yield OpInfo(op, tuple(dtypes), scan_samples(op), "scan", errors)


# ------------------------------------------------------------------------------------------ shapes


def move(build: Callable, reference: Callable[[Tensor], Tensor]) -> tuple[Callable, Callable]:
    return build, equals(as_bits(reference))


def pad_reference(x: Tensor, left: int, right: int) -> Tensor:
    result = torch.zeros((*x.shape[:-1], x.shape[-1] + left + right), dtype=x.dtype)
    result[..., left : left + x.shape[-1]] = x
    return result


def shape_cases(op: str, sizes: tuple[int, ...]) -> Iterator[tuple[Callable, Callable]]:
    """Calls of an op on a tensor of these sizes, and what checks them."""
    rank, count = len(sizes), math.prod(sizes)
    if op == "broadcast":
        new = [True, *[False] * rank, True]
        yield move(lambda fd, x: fd.ops.broadcast(x, new), lambda x: x.unsqueeze(0).unsqueeze(-1))
    elif op == "broadcast_in_dim":
        dims = list(range(1, rank + 1))
        yield move(
            lambda fd, x: fd.ops.broadcast_in_dim(x, [2, *sizes], dims),
            lambda x: x.expand(2, *sizes),
        )
    elif op == "expand":
        wide = [4 if n == 1 else n for n in sizes]
        kept = [4 if n == 1 else -1 for n in sizes]
        yield move(lambda fd, x: fd.ops.expand(x, [3, *kept]), lambda x: x.expand(3, *wide))
    elif op == "reshape":
        yield move(lambda fd, x: fd.ops.reshape(x, [count]), lambda x: x.reshape(count))
        yield move(
            lambda fd, x: fd.ops.reshape(x, [1, *sizes[::-1], 1]),
            lambda x: x.reshape(1, *sizes[::-1], 1),
        )
    elif op == "permute":
        order = list(range(rank))[::-1]
        yield move(lambda fd, x: fd.ops.permute(x, order), lambda x: x.permute(order))
    elif op == "squeeze":
        ones = [d for d, n in enumerate(sizes) if n == 1]
        yield move(lambda fd, x: fd.ops.squeeze(x, ones), lambda x: x.squeeze(ones))
    elif op == "stride_order":
        order = list(range(rank))
        yield move(lambda fd, x: fd.ops.stride_order(x, order), lambda x: x)
    elif op == "slice" and rank:
        starts = [min(1, n - 1) if n else 0 for n in sizes]
        cut = tuple(slice(s, n) for s, n in zip(starts, sizes, strict=True))
        yield move(lambda fd, x: fd.ops.slice(x, starts, list(sizes)), lambda x: x[cut])
    elif op == "pad" and rank:
        yield move(lambda fd, x: fd.ops.pad(x, [1, 2]), lambda x: pad_reference(x, 1, 2))
    elif op == "cat" and rank:
        for dim in sorted({0, rank - 1}):
            yield move(
                lambda fd, x, dim=dim: fd.ops.cat([x, x], dim),
                lambda x, dim=dim: torch.cat([x, x], dim),
            )
    elif op == "triu" and rank > 1:
        yield move(lambda fd, x: fd.ops.triu(x, 1), lambda x: triu_reference(x, 1))
    elif op in ("size", "shape") and rank:
        extents = {
            "size": lambda fd, x: fd.ops.size(x, -1),
            "shape": lambda fd, x: fd.ops.shape(x)[-1],
        }
        yield (
            lambda fd, x: fd.ops.full([2], extents[op](fd, x), DataType.Int),
            equals(lambda x: torch.full((2,), x.shape[-1], dtype=torch.int64)),
        )


def triu_reference(x: Tensor, diagonal: int) -> Tensor:
    rows = torch.arange(x.shape[-2])[:, None]
    return torch.where(rows + diagonal <= torch.arange(x.shape[-1]), x, torch.zeros_like(x))


SHAPE_ERRORS: dict[str, list[BadCall]] = {
    "broadcast": [
        BadCall(
            "count",
            lambda fd: fd.ops.broadcast(floats(fd), [True, False]),
            "Invalid broadcast, number of false entries",
        )
    ],
    "broadcast_in_dim": [
        BadCall(
            "length", lambda fd: fd.ops.broadcast_in_dim(floats(fd), [2, 3, 4], [1]), "broadcast"
        ),
        BadCall(
            "twice", lambda fd: fd.ops.broadcast_in_dim(floats(fd), [2, 3], [1, 1]), "broadcast"
        ),
    ],
    "expand": [
        BadCall("size", lambda fd: fd.ops.expand(fd.define_tensor([3], True), [5]), "expand"),
        BadCall("rank", lambda fd: fd.ops.expand(floats(fd), [3]), "expand"),
    ],
    "reshape": [
        BadCall(
            "two unknown",
            lambda fd: fd.ops.reshape(floats(fd), [-1, -1]),
            "A maximum of one value of -1",
        )
    ],
    "permute": [
        BadCall("length", lambda fd: fd.ops.permute(floats(fd), [0]), "the same length as input"),
        BadCall("twice", lambda fd: fd.ops.permute(floats(fd), [0, 0]), "duplicated dimension"),
        BadCall("range", lambda fd: fd.ops.permute(floats(fd), [0, 2]), "out of range, expects"),
    ],
    "squeeze": [
        BadCall("range", lambda fd: fd.ops.squeeze(floats(fd), [2]), "outside of Tensor size!"),
        BadCall("size", lambda fd: fd.ops.squeeze(fd.define_tensor([3], True), [0]), "[Ss]queeze"),
    ],
    "slice": [
        BadCall(
            "start",
            lambda fd: fd.ops.slice(floats(fd, 1), [-1], [2]),
            "start_indices must be greater than or equal to 0",
        ),
        BadCall(
            "end",
            lambda fd: fd.ops.slice(floats(fd, 1), [3], [2]),
            "end_indices must be greater than or equal to start_indices",
        ),
        BadCall(
            "stride",
            lambda fd: fd.ops.slice(floats(fd, 1), [0], [2], [2]),
            "must be of const size 1",
        ),
    ],
    "pad": [
        BadCall("odd", lambda fd: fd.ops.pad(floats(fd), [1]), "Invalid number of padding widths"),
        BadCall("many", lambda fd: fd.ops.pad(floats(fd, 1), [1] * 4), "at most twice the input"),
        BadCall(
            "value", lambda fd: fd.ops.pad(floats(fd, 1, "Int"), [1, 1], 1.5), "the same dtype"
        ),
    ],
    "cat": [
        BadCall("dim", lambda fd: fd.ops.cat([floats(fd)] * 2, 2), "Invalid dimension to cat"),
        BadCall(
            "rank", lambda fd: fd.ops.cat([floats(fd), floats(fd, 1)]), "Unexpected number of dim"
        ),
        BadCall(
            "dtype",
            lambda fd: fd.ops.cat([floats(fd), floats(fd, 2, "Half")]),
            "different data types",
        ),
    ],
    "stride_order": [
        BadCall("length", lambda fd: fd.ops.stride_order(floats(fd), [0]), "stride_order"),
        BadCall("twice", lambda fd: fd.ops.stride_order(floats(fd), [0, 0]), "stride_order"),
    ],
    "triu": [
        BadCall(
            "rank", lambda fd: fd.ops.triu(floats(fd, 1), 0), "must have 2 or more dims, but got 1"
        )
    ],
    "size": [BadCall("range", lambda fd: fd.ops.size(floats(fd), 2), "out of boundary index")],
    "shape": [BadCall("a number", lambda fd: fd.ops.shape(1), "must be a TensorView", TypeError)],
}


def shape_infos() -> Iterator[OpInfo]:
    for op, errors in SHAPE_ERRORS.items():

        def samples(dtype: str, shape: str, op=op) -> Iterator[Sample]:
            for build, check in shape_cases(op, sizes_of(shape)):
                yield Sample((operand(dtype, shape),), build, check, op)

        # Zero is no number of e8m0.
        dtypes = tuple(d for d in ALL_DTYPES if d != E8M0 or op not in ("pad", "triu"))
        yield OpInfo(op, dtypes, samples, "shape", tuple(errors))


# ----------------------------------------------------------------------------------------- lookups


def index_arg(sizes: Sequence[int], bound: int, dtype: str) -> Arg:
    """Positions below `bound`; Int32 for every other dtype of what is looked up."""
    kind = "Int32" if ALL_DTYPES.index(dtype) % 2 else "Int"
    return tensor_arg(row_major(tuple(sizes)), kind, 7, 0, max(bound - 1, 0))


def permutation_arg(sizes: Sequence[int], dim: int, dtype: str) -> Arg:
    """Along `dim` all positions of `sizes` in reverse order: none occurs twice."""
    kind = torch.int32 if ALL_DTYPES.index(dtype) % 2 else torch.int64

    def make() -> Tensor:
        line = torch.arange(sizes[dim]).flip(0)
        shape = [sizes[dim] if d == dim else 1 for d in range(len(sizes))]
        return line.view(shape).expand(tuple(sizes)).to(kind).contiguous()

    return Arg(f"permutation{tuple(sizes)}{dim}{kind}", make)


def lookup_samples(op: str) -> Callable[[str, str], Iterator[Sample]]:
    def samples(dtype: str, shape: str) -> Iterator[Sample]:
        sizes = sizes_of(shape)
        rank, x = len(sizes), operand(dtype, shape)
        for dim in sorted({0, rank - 1}) if rank else ():
            yield from lookup_cases(op, x, sizes, dim, dtype)

    return samples


def lookup_cases(op: str, x: Arg, sizes: tuple[int, ...], dim: int, dtype: str) -> Iterator[Sample]:
    bound, label = sizes[dim], f"{op}({dim})"
    entries = 4 if bound else 0
    replaced = [entries if d == dim else n for d, n in enumerate(sizes)]
    if op == "index_select":
        index = index_arg([entries], bound, dtype)
        reference = as_bits(lambda x, i: x.index_select(dim, i))
        yield Sample(
            (x, index), lambda fd, t, i: fd.ops.index_select(t, i, dim), equals(reference), label
        )
    elif op == "select" and bound:
        reference = as_bits(lambda x: x.select(dim, bound - 1))
        yield Sample((x,), lambda fd, t: fd.ops.select(t, -1, dim), equals(reference), label)
    elif op in ("gather", "take_along_axis"):
        index = index_arg(replaced, bound, dtype)
        reference = as_bits(lambda x, i: x.gather(dim, i.long()))
        yield Sample(
            (x, index), lambda fd, t, i: getattr(fd.ops, op)(t, i, dim), equals(reference), label
        )
    elif op == "scatter":
        index = permutation_arg(sizes, dim, dtype)
        source = tensor_arg(row_major(sizes), dtype, 8)
        reference = as_bits(lambda x, s, i: x.scatter(dim, i.long(), s))
        yield Sample(
            (x, source, index),
            lambda fd, t, s, i: fd.ops.scatter(t, i, s, dim),
            equals(reference),
            label,
        )
    elif op == "embedding_fwd" and len(sizes) == 2 and dim == 0:
        index = index_arg([3, 2], bound, dtype)
        reference = as_bits(lambda x, i: x[i.long()])
        yield Sample(
            (x, index), lambda fd, t, i: fd.ops.embedding_fwd(i, t), equals(reference), label
        )


def lookup_errors(op: str) -> tuple[BadCall, ...]:
    def call(fd: FusionDefinition, index: object, dim: int = 0) -> object:
        x = floats(fd)
        arguments = {"scatter": (x, index, x, dim), "embedding_fwd": (index, x)}
        return getattr(fd.ops, op)(*arguments.get(op, (x, index, dim)))

    rank = "rank" if op in ("index_select", "select", "embedding_fwd") else "have dimension"
    other = 3 if op == "index_select" else 0 if op == "embedding_fwd" else 1
    errors = [BadCall("rank", lambda fd: call(fd, floats(fd, other, "Int")), rank)]
    if op != "embedding_fwd":
        index = 0 if op == "select" else 2 if op != "index_select" else 1
        errors.append(
            BadCall(
                "dim", lambda fd: call(fd, floats(fd, index, "Int"), 2), "out of boundary index"
            )
        )
    return tuple(errors)


def lookup_infos() -> Iterator[OpInfo]:
    ops = ("index_select", "select", "gather", "take_along_axis", "scatter", "embedding_fwd")
    for op in ops:
        yield OpInfo(op, ALL_DTYPES, lookup_samples(op), "lookup", lookup_errors(op))


# ------------------------------------------------------------------------------ creation and random


def full_samples(dtype: str, shape: str) -> Iterator[Sample]:
    sizes = sizes_of(shape)
    fill = {**dict.fromkeys(COMPLEX, 1 + 2j), "Bool": True, **dict.fromkeys(INTS, -3)}.get(dtype, 2)
    yield Sample(
        (),
        lambda fd: fd.ops.full(list(sizes), fill, data_type(dtype)),
        equals(lambda: torch.full(sizes, fill).to(TORCH[dtype])),
        "full",
    )


def iota_samples(dtype: str, shape: str) -> Iterator[Sample]:
    length = math.prod(sizes_of(shape))
    start, step = (2, -3) if dtype in INTS else (0.5, 0.25)
    yield Sample(
        (),
        lambda fd: fd.ops.iota(
            length,
            *(fd.define_scalar(v, data_type(dtype)) for v in (start, step)),
            data_type(dtype),
        ),
        equals(lambda: (start + torch.arange(length) * step).to(TORCH[dtype])),
        "iota",
    )


def random_samples(op: str) -> Callable[[str, str], Iterator[Sample]]:
    def samples(dtype: str, shape: str) -> Iterator[Sample]:
        sizes, out = sizes_of(shape), TORCH[dtype]
        if op.endswith("_like"):

            def check(outputs: Sequence[Tensor], operands: Sequence[Tensor]) -> str | None:
                got = outputs[0].double()
                if outputs[0].dtype != out or got.shape != operands[0].shape:
                    return f"{outputs[0].dtype} {tuple(got.shape)}"
                inside = (got >= 0) & (got < 1) if op == "rand_like" else got.abs() < 9
                return None if bool(inside.all()) else f"out of range: {got}"

            yield Sample((operand(dtype, shape),), lambda fd, x: getattr(fd.ops, op)(x), check, op)
            return

        def build(fd: FusionDefinition) -> object:
            seed, offset = fd.define_scalar(5, DataType.Int), fd.define_scalar(3, DataType.Int)
            draw = getattr(fd.ops, op)
            options = {"rng_seed": seed, "rng_offset": offset, "dtype": data_type(dtype)}
            return draw(1.0, 3.0, list(sizes), **options)

        def reference() -> Tensor:
            return random_tensor(op, list(sizes), 1.0, 3.0, out, 5, 3, torch.device("cpu"))

        yield Sample((), build, equals(reference, lambda dtype: 64 * EPSILON[dtype]), op)

    return samples


def creation_infos() -> Iterator[OpInfo]:
    bad_size = BadCall(
        "size", lambda fd: fd.ops.full([2, -3], 1.0, DataType.Float), "The value -3 at"
    )
    yield OpInfo("full", ALL_DTYPES, full_samples, "creation", (bad_size,))
    errors = (
        BadCall("length", lambda fd: fd.ops.iota(1.5), "length must be integer"),
        BadCall("start", lambda fd: fd.ops.iota(3, 0.5, 1), "start dtype does not match"),
        BadCall("step", lambda fd: fd.ops.iota(3, 0, 0), "step value must not equal zero"),
    )
    yield OpInfo("iota", (*INTS, *FULL_FLOATS), iota_samples, "creation", errors)
    for op in ("uniform", "normal"):
        draw = lambda fd, op=op, **k: getattr(fd.ops, op)(0.0, 1.0, [4], **k)  # noqa: E731
        errors = (
            BadCall(
                "dtype",
                lambda fd, draw=draw: draw(fd, dtype=DataType.Int),
                "Random distributions only create floating point types",
            ),
            BadCall(
                "seed alone",
                lambda fd, draw=draw: draw(fd, rng_seed=fd.define_scalar(1)),
                "rng_seed and rng_offset must be provided together!",
            ),
        )
        yield OpInfo(op, FLOATS, random_samples(op), "random", errors)
        name = {"uniform": "rand_like", "normal": "randn_like"}[op]
        errors = (
            BadCall(
                "integers", lambda fd, n=name: getattr(fd.ops, n)(floats(fd, 1, "Int")), "float"
            ),
            BadCall("a number", lambda fd, n=name: getattr(fd.ops, n)(1.0), "", TypeError),
        )
        yield OpInfo(name, FLOATS, random_samples(name), "random", errors)


def tensor_infos() -> list[OpInfo]:
    return [
        *reduction_infos(),
        *statistics_infos(),
        *scan_infos(),
        *shape_infos(),
        *lookup_infos(),
        *creation_infos(),
    ]
