# SPDX-License-Identifier: BSD-3-Clause
"""What the op suite (test_op_suite.py) is made of, in the manner of PyTorch's OpInfo.

One row for an op: the dtypes it takes, samples of every shape class with their torch references,
and calls that must be refused. Here: the machinery and the elementwise ops, of op_table.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch
from helpers import (
    COMPLEX,
    DEVICE,
    FLOATS,
    FP8,
    INTS,
    LONG,
    TORCH,
    Layout,
    data_type,
    difference,
    name_of,
    row_major,
    supported_on_device,
    values,
)
from nvfuse_direct import DataType, FusionDefinition
from nvfuse_direct.pytorch_utils import python_scalar_to_nvfuser_dtype
from op_table import BINARY, SCALAR_BOUNDED, TERNARY, UNARY, Op, compare_op

Tensor = torch.Tensor
Number = bool | int | float | complex
Build = Callable[..., object]  # of (fd, *tensor handles): a handle, or several

ALL_DTYPES = tuple(TORCH)
# Values of these are copied and moved, but never computed with.
E8M0 = "Float8_e8m0fnu"


# ------------------------------------------------------------------------------------ shape classes

# Three operands each, which broadcast against one another. They are declared by sizes and strides:
# extents of one as broadcast, and what is contiguous as contiguous.
SHAPES: dict[str, tuple[Layout, Layout, Layout]] = {
    "zero_dim": (row_major(()), row_major(()), row_major(())),
    "odd": (row_major((37,)), row_major((37,)), row_major((37,))),
    "matrix": (row_major((6, 33)), row_major((33,)), row_major((6, 1))),
    "both_sides": (row_major((5, 1, 33)), row_major((1, 7, 33)), row_major((5, 7, 1))),
    "empty": (row_major((5, 0, 3)), row_major((1, 0, 3)), row_major((5, 1, 3))),
    "ones": (row_major((1, 1, 1)), row_major((1,)), row_major((1, 1))),
    "strided": (
        Layout((3, 5, 7), (140, 14, 2)),
        row_major((3, 5, 7)),
        Layout((3, 5, 7), (7, 0, 1)),
    ),
    "transposed": (
        Layout((3, 5, 7), (5, 1, 15)),
        Layout((3, 5, 7), (140, 14, 2)),
        Layout((5, 7), (1, 5)),
    ),
    "expanded": (
        Layout((3, 5, 7), (7, 0, 1)),
        Layout((3, 5, 7), (0, 0, 0)),
        Layout((3, 5, 7), (0, 0, 1)),
    ),
    "offset": (
        row_major((4, 6, 32), offset=1),
        row_major((4, 6, 32)),
        row_major((4, 6, 32), offset=3),
    ),
}


def sizes_of(shape: str) -> tuple[int, ...]:
    """Of the first operand."""
    return SHAPES[shape][0].sizes


# -------------------------------------------------------------------------------------- the table


@dataclass(frozen=True, eq=False)
class Arg:
    """A tensor or a number. Samples that name the same one share an input of the fusion."""

    name: str
    make: Callable[[], Tensor | Number]


@dataclass(frozen=True, eq=False)
class Sample:
    """One call of an op: operands, the call, and what says whether the outputs are right.

    `check` gets the outputs and the operands and returns None or what is wrong.
    """

    args: tuple[Arg, ...]
    build: Build
    check: Callable[[Sequence[Tensor], Sequence[Tensor]], str | None]
    label: str = ""


@dataclass(frozen=True, eq=False)
class BadCall:
    """A definition that must raise `error` with a message that `message` is found in."""

    label: str
    build: Callable[[FusionDefinition], object]
    message: str
    error: type[Exception] = RuntimeError


@dataclass(frozen=True, eq=False)
class OpInfo:
    """One op. `samples(dtype, shape class)` may be empty: not every class suits every op."""

    name: str
    dtypes: tuple[str, ...]
    samples: Callable[[str, str], Iterator[Sample]]
    # Ops of a family share fusions: they read the same operands and make outputs of one shape.
    family: str
    errors: tuple[BadCall, ...] = ()
    # dtypes that are refused while defining, with what the message must say.
    refused: tuple[str, ...] = ()
    refuse: Build | None = None


def equals(
    reference: Callable[..., object],
    rtol: float | Callable[[torch.dtype], float] = 0.0,
    atol: float | None = None,
) -> Callable[[Sequence[Tensor], Sequence[Tensor]], str | None]:
    """Outputs equal what the reference makes of the operands on the CPU."""

    def check(outputs: Sequence[Tensor], operands: Sequence[Tensor]) -> str | None:
        expected = reference(*(x.cpu() for x in operands))
        expected = expected if isinstance(expected, (tuple, list)) else [expected]
        if len(expected) != len(outputs):
            return f"{len(outputs)} outputs, expected {len(expected)}"
        for index, (got, want) in enumerate(zip(outputs, expected, strict=True)):
            relative = rtol(want.dtype) if callable(rtol) else rtol
            message = difference(got, want, relative, relative if atol is None else atol)
            if message is not None:
                return f"output {index}: {message}"
        return None

    return check


# ---------------------------------------------------------------------------------------- running


def declared(fd: FusionDefinition, x: Tensor | Number, static: bool) -> object:
    if not isinstance(x, Tensor):
        return fd.define_scalar(python_scalar_to_nvfuser_dtype(x))
    is_fp4 = x.dtype == torch.float4_e2m1fn_x2
    return fd.define_tensor(
        sizes=list(x.shape),
        strides=list(x.stride()),
        dtype=DataType.Float4_e2m1fn_x2 if is_fp4 else data_type(name_of(x.dtype)),
        static_sizes=static,
    )


def build_program(samples: Sequence[Sample], static: bool) -> tuple[FusionDefinition, list, list]:
    """All samples in one fusion: the definition, its inputs, and per sample its output count."""
    tensors: dict[str, Tensor | Number] = {}
    for sample in samples:
        for arg in sample.args:
            if arg.name not in tensors:
                made = arg.make()
                tensors[arg.name] = made.to(DEVICE) if isinstance(made, Tensor) else made
    counts = []
    with FusionDefinition() as fd:
        handles = {name: declared(fd, x, static) for name, x in tensors.items()}
        for sample in samples:
            outs = sample.build(fd, *(handles[arg.name] for arg in sample.args))
            outs = outs if isinstance(outs, (tuple, list)) else [outs]
            for out in outs:
                fd.add_output(out)
            counts.append(len(outs))
    return fd, tensors, counts


def wrong_samples(samples: Sequence[Sample], static: bool) -> list[str]:
    """Messages of the samples whose outputs differ, in one fusion."""
    fd, tensors, counts = build_program(samples, static)
    outputs = fd.execute(list(tensors.values()), device=DEVICE)
    assert len(outputs) == sum(counts), f"{len(outputs)} outputs, expected {sum(counts)}"
    wrong, start = [], 0
    for sample, count in zip(samples, counts, strict=True):
        operands = [tensors[arg.name] for arg in sample.args]
        message = sample.check(outputs[start : start + count], operands)
        if message is not None:
            wrong.append(f"{sample.label} ({'static' if static else 'symbolic'}): {message}")
        start += count
    return wrong


def check_samples(samples: Sequence[Sample], static: bool) -> None:
    """In one fusion; when that raises, one by one, so that the message names what fails alone."""
    try:
        wrong = wrong_samples(samples, static)
    except Exception as error:
        wrong = []
        for sample in samples:
            try:
                wrong += wrong_samples([sample], static)
            except Exception as alone:
                wrong.append(f"{sample.label}: {type(alone).__name__}: {str(alone)[:500]}")
        message = "\n".join(wrong) or "every sample passes alone"
        raise AssertionError(f"{message}\nshared fusion: {error}") from error
    assert not wrong, "\n".join(wrong)


# --------------------------------------------------------------------------------------- operands


def operand(dtype: str, shape: str, position: int = 0, low: float = -3.0, high: float = 3.0) -> Arg:
    """Operand number `position` of a shape class, with values between low and high."""
    return tensor_arg(SHAPES[shape][position], dtype, position + 1, low, high)


def tensor_arg(layout: Layout, dtype: str, seed: int, low: float = -3.0, high: float = 3.0) -> Arg:
    name = f"{layout}{dtype}{seed}{low}{high}"
    return Arg(
        name, lambda: layout.view(small_values(layout.storage_length, dtype, seed, low, high))
    )


def small_values(count: int, dtype: str, seed: int, low: float, high: float) -> Tensor:
    """Values that every computation of a test keeps in range."""
    if dtype == "UInt64":
        return values(count, torch.int64, seed, low=max(low, 0), high=high).to(torch.uint64)
    return values(count, TORCH[dtype], seed, low=low, high=high)


# ------------------------------------------------------------------------------------- elementwise

# A number that every dtype of a category represents, to stand for a scalar operand.
_NUMBERS: dict[str, object] = {
    **dict.fromkeys((*FLOATS, *FP8), 1.25),
    **dict.fromkeys(INTS, 2),
    "UInt64": 2,
    **dict.fromkeys(COMPLEX, 0.5 + 0.25j),
    E8M0: 2.0,
}


def second_arg(op: Op, dtype: str, shape: str, position: int) -> Arg:
    """Integers: counts 0 to 7, or divisors that are not zero; bools: true, as they may divide."""
    if dtype == "Bool" and (op.group == "count" or op.name in _DIVIDING):
        layout = SHAPES[shape][position]
        return Arg(f"true{layout}", lambda: layout.view(torch.ones(layout.storage_length).bool()))
    if dtype in (*INTS, "UInt64"):
        return operand(dtype, shape, position, *((0, 7) if op.group == "count" else (1, 9)))
    return operand(dtype, shape, position)


_DIVIDING = ("div", "truediv", "fmod", "mod", "remainder")


def elementwise_sample(op: Op, arity: int, dtype: str, shape: str) -> Sample:
    args = [operand(dtype, shape)]
    args += [second_arg(op, dtype, shape, position) for position in range(1, arity)]

    def check(outputs: Sequence[Tensor], operands: Sequence[Tensor]) -> str | None:
        return compare_op(op, outputs[0], operands)

    return Sample(
        tuple(args),
        lambda fd, *x: getattr(fd.ops, op.name)(*x, *op.extra),
        check,
        f"{op.name}{op.extra or ''}",
    )


def scalar_samples(op: Op, arity: int, dtype: str, shape: str) -> Iterator[Sample]:
    """Python numbers in place of each operand, one at a time, and of all but one."""
    number = _NUMBERS.get(dtype)
    if number is None or op.name == "complex":
        return
    patterns = [(True, False), (False, True)] if arity == 2 else _TERNARY_PATTERNS
    for is_tensor in patterns:
        args = [
            operand(dtype, shape) if i == 0 else second_arg(op, dtype, shape, i)
            for i in range(arity)
            if is_tensor[i]
        ]

        def build(fd: FusionDefinition, *x: object, is_tensor=is_tensor) -> object:
            given = iter(x)
            full = [next(given) if t else number for t in is_tensor]
            return getattr(fd.ops, op.name)(*full, *op.extra)

        def check(outputs, operands, is_tensor=is_tensor) -> str | None:
            given = iter(operands)
            like = operands[0].cpu()
            filled = torch.tensor(number).to(TORCH[dtype])
            full = [next(given).cpu() if t else filled.expand(like.shape) for t in is_tensor]
            return compare_op(op, outputs[0], full)

        kinds = ", ".join("tensor" if t else "number" for t in is_tensor)
        yield Sample(tuple(args), build, check, f"{op.name}({kinds})")


_TERNARY_PATTERNS = [
    (True, True, False),
    (True, False, True),
    (False, True, True),
    (True, False, False),
    (False, True, False),
    (False, False, True),
]


# Scalars of the dtypes that Python numbers have.
_SCALARS: dict[str, tuple[Number, Number, Number]] = {
    "Double": (0.375, 1.25, -0.5),
    "Int": (5, 3, 2),
    "Bool": (True, True, False),
    "ComplexDouble": (0.5 + 0.25j, 1.5 - 0.5j, -0.25j),
}


def samples_of_scalars(op: Op, arity: int, dtype: str) -> Iterator[Sample]:
    """Ops of scalars are scalars; a tensor takes them. Inputs first, then constants."""
    numbers = _SCALARS.get(dtype, ())[:arity]
    if not numbers or op.name == "segment_set":  # a boundary of kernels means nothing to a scalar
        return
    flags = Arg("flags", lambda: torch.tensor([True, False]))

    def check(outputs: Sequence[Tensor], operands: Sequence[object]) -> str | None:
        full = [torch.full((2,), number, dtype=TORCH[dtype]) for number in numbers]
        return compare_op(op, outputs[0], full)

    def build(fd: FusionDefinition, flags: object, *x: object) -> object:
        x = x or tuple(fd.define_scalar(number, data_type(dtype)) for number in numbers)
        result = getattr(fd.ops, op.name)(*x, *op.extra)
        return fd.ops.where(flags, result, result)

    args = tuple(Arg(f"scalar {number!r}", lambda n=number: n) for number in numbers)
    yield Sample((flags, *args), build, check, f"{op.name}{op.extra or ''} of scalars")
    yield Sample((flags,), build, check, f"{op.name}{op.extra or ''} of constants")


def refusing_dtype(name: str, arity: int, extra: tuple[object, ...]) -> Build:
    def build(fd: FusionDefinition, dtype: str) -> object:
        x = [fd.define_tensor([-1], True, data_type(dtype)) for _ in range(arity)]
        return getattr(fd.ops, name)(*x, *extra)

    return build


def wrong_counts(name: str, arity: int) -> tuple[BadCall, ...]:
    """Elementwise ops are called with operands alone."""

    def call(count: int, *others: object) -> Callable[[FusionDefinition], object]:
        def build(fd: FusionDefinition) -> object:
            x = [fd.define_tensor([-1], True) for _ in range(count)]
            return getattr(fd.ops, name)(*x, *others)

        return build

    return (
        BadCall("no operand", call(0), "incompatible function arguments", TypeError),
        BadCall("too many", call(arity + 2), "incompatible function arguments", TypeError),
        BadCall("a string", call(arity - 1, "x"), f"{name}: expected|incompatible", TypeError),
    )


def elementwise_infos() -> Iterator[OpInfo]:
    tables = [(UNARY, 1), (BINARY, 2), (TERNARY, 3), (SCALAR_BOUNDED, 1)]
    for table, arity in tables:
        for name in dict.fromkeys(op.name for op in table):
            rows = [op for op in table if op.name == name]
            dtypes = tuple(dict.fromkeys(d for op in rows for d in op.all_dtypes()))

            def samples(dtype: str, shape: str, rows=rows, arity=arity) -> Iterator[Sample]:
                for op in rows:
                    if dtype not in op.all_dtypes():
                        continue
                    yield elementwise_sample(op, arity, dtype, shape)
                    if arity > 1 and shape in ("odd", "zero_dim", "transposed"):
                        yield from scalar_samples(op, arity, dtype, shape)
                    if shape == "zero_dim" and LONG:
                        yield from samples_of_scalars(op, arity, dtype)

            yield OpInfo(
                name,
                dtypes,
                samples,
                "unary" if arity == 1 else "broadcasting",
                wrong_counts(name, arity + len(rows[0].extra)),
                tuple(d for d in ALL_DTYPES if d not in dtypes),
                refusing_dtype(name, arity, rows[0].extra),
            )


# ----------------------------------------------------------------------------------- where and cast


def where_samples(dtype: str, shape: str) -> Iterator[Sample]:
    condition = operand("Bool", shape)
    x, y = operand(dtype, shape, 1), operand(dtype, shape, 2)
    yield Sample(
        (condition, x, y), lambda fd, c, x, y: fd.ops.where(c, x, y), equals(torch_where), "where"
    )


def torch_where(condition: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Of any dtype: bits are chosen."""
    bits = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    if x.is_complex() or x.dtype == torch.bool:
        return torch.where(condition, x, y)
    kind = bits[x.dtype.itemsize]
    return torch.where(condition, x.view(kind), y.view(kind)).view(x.dtype)


CASTS_AMONG = (*FLOATS, *INTS, "UInt64", "Bool", *COMPLEX)


def cast_targets(dtype: str) -> list[str]:
    """The legal casts of section 2.7 on this device."""
    if dtype in (*FP8, E8M0):
        return [*FLOATS, dtype]
    narrow = [each for each in (*FP8, E8M0) if supported_on_device(each)]
    return [*CASTS_AMONG, *(narrow if dtype in FLOATS else [])]


def cast_reference(x: Tensor, target: torch.dtype) -> Tensor:
    if x.dtype == target:
        return x
    if x.dtype == torch.uint64:
        x = x.view(torch.int64)  # small numbers
    if x.is_complex() and not target.is_complex and target != torch.bool:
        x = x.real
    if target in (torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e8m0fnu):
        x = x.float()
    return x.to(torch.int64).view(target) if target == torch.uint64 else x.to(target)


def cast_samples(dtype: str, shape: str) -> Iterator[Sample]:
    # Positive where the target may be unsigned; 1 and more, as zero is no number of e8m0.
    arg = operand(dtype, shape, 0, 1.0, 100.0)
    for target in cast_targets(dtype):
        yield Sample(
            (arg,),
            lambda fd, x, target=target: fd.ops.cast(x, data_type(target)),
            equals(lambda x, target=target: cast_reference(x, TORCH[target])),
            f"cast to {target}",
        )


def bad_casts() -> Iterable[BadCall]:
    for source in ALL_DTYPES:
        for target in ALL_DTYPES:
            narrow = (*FP8, E8M0)
            if source == target or not {source, target} & set(narrow):
                continue
            if {source, target} & set(FLOATS):
                continue

            def build(fd: FusionDefinition, source=source, target=target) -> object:
                return fd.ops.cast(
                    fd.define_tensor([-1], True, data_type(source)), data_type(target)
                )

            yield BadCall(f"{source} to {target}", build, "cast: Illegal cast from")


def mixed_infos() -> Iterator[OpInfo]:
    def where_of_a_float(fd: FusionDefinition) -> object:
        x, y, z = (fd.define_tensor([-1], True) for _ in range(3))
        return fd.ops.where(x, y, z)

    yield OpInfo(
        "where",
        ALL_DTYPES,
        where_samples,
        "broadcasting",
        (
            *wrong_counts("where", 3),
            BadCall("condition", where_of_a_float, "Condition should be of DataType Bool"),
        ),
    )
    yield OpInfo("cast", ALL_DTYPES, cast_samples, "unary", tuple(bad_casts()))
