# SPDX-License-Identifier: BSD-3-Clause
"""Every op x dtype x shape class equals torch (sections 2.1-2.3, 2.7, 2.8, 2.10).

Ops of one dtype share a fusion as outputs, because a kernel costs more to compile than to run; when
the shared fusion raises, the ops are run one by one and the message names those that fail alone.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence

import pytest
import torch
from helpers import (
    COMPLEX,
    DEVICE,
    EPSILON,
    FLOATS,
    FP8,
    FULL_FLOATS,
    INTS,
    LAYOUTS,
    LOW_FLOATS,
    TORCH,
    Layout,
    assert_same,
    data_type,
    define,
    difference,
    row_major,
    run,
    special_values,
    supported_on_device,
    values,
)
from nvfuse_direct import DataType, FusionDefinition
from op_table import BINARY, SCALAR_BOUNDED, TERNARY, UNARY, Op, compare_op

Tensor = torch.Tensor
Declare = Callable[[FusionDefinition], list[object]]


class OpGroup:
    """Ops over the same inputs in one fusion, one output per op."""

    def __init__(self, ops: Sequence[Op], declare: Declare) -> None:
        self.ops = list(ops)
        self.declare = declare

    def _definition(self, ops: Sequence[Op]) -> FusionDefinition:
        def build(fd: FusionDefinition) -> None:
            inputs = self.declare(fd)
            for op in ops:
                fd.add_output(getattr(fd.ops, op.name)(*inputs, *op.extra))

        return define(build)

    @functools.cached_property
    def together(self) -> FusionDefinition:
        return self._definition(self.ops)

    @functools.cache  # noqa: B019  (groups live as long as the module)
    def alone(self, index: int) -> FusionDefinition:
        return self._definition([self.ops[index]])

    def check(self, operands: Sequence[Tensor]) -> None:
        try:
            outputs = self.together.execute(list(operands))
        except Exception as error:
            culprits = self._failing_alone(operands)
            message = "\n".join(culprits) or "every op passes alone"
            raise AssertionError(f"{message}\nshared fusion: {error}") from error
        assert len(outputs) == len(self.ops)
        wrong = [
            f"{op.name}{op.extra or ''}: {message}"
            for op, output in zip(self.ops, outputs, strict=False)
            if (message := compare_op(op, output, operands))
        ]
        assert not wrong, "\n".join(wrong)

    def _failing_alone(self, operands: Sequence[Tensor]) -> list[str]:
        culprits = []
        for index, op in enumerate(self.ops):
            try:
                (output,) = self.alone(index).execute(list(operands))
                message = compare_op(op, output, operands)
            except Exception as error:
                message = f"{type(error).__name__}: {str(error)[:500]}"
            if message:
                culprits.append(f"{op.name}{op.extra or ''}: {message}")
        return culprits


def declare_tensors(
    shapes: Sequence[Sequence[int]], contiguous: bool, dtypes: Sequence[str]
) -> Declare:
    def declare(fd: FusionDefinition) -> list[object]:
        return [
            fd.define_tensor(shape=list(shape), contiguity=contiguous, dtype=data_type(name))
            for shape, name in zip(shapes, dtypes, strict=False)
        ]

    return declare


def ops_for(table: Sequence[Op], dtype: str, group: str = "") -> list[Op]:
    return [op for op in table if dtype in op.dtypes() and op.group == group]


def dtypes_of(table: Sequence[Op]) -> list[str]:
    names = dict.fromkeys(name for op in table for name in op.dtypes())
    return [name for name in names if supported_on_device(name)]


@functools.cache
def group_of(
    table: str, dtype: str, shapes: tuple[tuple[int, ...], ...], contiguous: bool, group: str = ""
) -> OpGroup:
    ops = ops_for(TABLES[table], dtype, group)
    return OpGroup(ops, declare_tensors(shapes, contiguous, [dtype] * len(shapes)))


TABLES = {"unary": UNARY, "binary": BINARY, "ternary": TERNARY, "bounded": SCALAR_BOUNDED}
SYMBOLIC = (-1, -1, -1)

# ----------------------------------------------------------------------------------------- unary


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", dtypes_of(UNARY))
def test_unary(dtype: str, layout: str) -> None:
    group = group_of("unary", dtype, (SYMBOLIC,), contiguous=False)
    group.check([LAYOUTS[layout].fill(TORCH[dtype], seed=1)])


@pytest.mark.parametrize("dtype", dtypes_of(UNARY))
def test_unary_contiguous_special_values(dtype: str) -> None:
    """Vectorizable input: limits, infinities, nan, zeros of both signs, denormals, then a tail."""
    torch_dtype = TORCH[dtype]
    group = group_of("unary", dtype, ((-1,),), contiguous=True)
    parts = [values(4099, torch_dtype, seed=2)]
    if dtype not in (*FP8, "UInt64"):
        parts.insert(0, special_values(torch_dtype))
    group.check([torch.cat(parts).to(DEVICE)])


@pytest.mark.parametrize("dtype", dtypes_of(UNARY))
def test_unary_zero_dim(dtype: str) -> None:
    group_of("unary", dtype, ((),), contiguous=True).check([row_major(()).fill(TORCH[dtype])])


@pytest.mark.parametrize("dtype", dtypes_of(SCALAR_BOUNDED))
@pytest.mark.parametrize("layout", ["odd", "empty", "strided", "expanded", "permuted"])
def test_bounded_by_scalars(dtype: str, layout: str) -> None:
    group = group_of("bounded", dtype, (SYMBOLIC,), contiguous=False)
    group.check([LAYOUTS[layout].fill(TORCH[dtype], seed=3)])


def test_signed_zeros() -> None:
    def build(fd: FusionDefinition) -> None:
        x = fd.define_tensor([-1], True)
        for name in ("neg", "abs", "ceil", "floor", "round", "trunc", "set"):
            fd.add_output(getattr(fd.ops, name)(x))

    x = torch.tensor([0.0, -0.0, -0.25, 0.25, -0.5], device=DEVICE)
    expected = [-x, x.abs(), x.ceil(), x.floor(), x.round(), x.trunc(), x]
    for got, want in zip(run(build, [x]), expected, strict=False):
        assert difference(got, want, sign_of_zero=True) is None


# ---------------------------------------------------------------------------------------- binary

LAYOUT_PAIRS = [
    ("odd", "odd"),
    ("odd", "permuted"),
    ("strided", "expanded"),
    ("expanded_all", "odd"),
    ("offset", "even"),
    ("one_sized", "one_sized"),
    ("empty", "empty"),
]

# Declared shapes (1 is a broadcast dimension) and actual sizes.
BROADCASTS: dict[
    str, tuple[tuple[tuple[int, ...], tuple[int, ...]], tuple[tuple[int, ...], tuple[int, ...]]]
] = {
    "both_ways": (((-1, 1, -1), (1, -1, -1)), ((3, 1, 2), (1, 3, 2))),
    "both_ways_odd": (((-1, 1, -1), (1, -1, -1)), ((5, 1, 33), (1, 7, 33))),
    "right_row": (((-1, -1), (-1,)), ((6, 33), (33,))),
    "left_column": (((-1, 1), (-1, -1)), ((6, 1), (6, 32))),
    "all_ones": (((1, 1), (-1, -1)), ((1, 1), (3, 5))),
    "zero_dim": (((), (-1, -1, -1)), ((), (3, 5, 7))),
    "both_zero_dim": (((), ()), ((), ())),
    "empty": (((-1, -1, 1), (-1, 1, -1)), ((0, 2, 1), (0, 1, 3))),
}


def second_operand(layout: Layout, dtype: str, group: str, seed: int) -> Tensor:
    """Integers: counts 0..7, or divisors of both signs but not zero."""
    torch_dtype = TORCH[dtype]
    if dtype not in INTS:
        return layout.fill(torch_dtype, seed)
    if group == "count":
        return layout.fill(torch_dtype, seed, low=0, high=7)
    base = values(layout.storage_length, torch.bool, seed).to(torch_dtype) * 2 - 1
    size = values(layout.storage_length, torch_dtype, seed + 1, low=1, high=9)
    return layout.view((base * size).to(DEVICE))


def binary_groups(dtype: str) -> list[str]:
    return ["", "count"] if dtype in INTS else [""]


@pytest.mark.parametrize("layouts", LAYOUT_PAIRS, ids="-".join)
@pytest.mark.parametrize("dtype", dtypes_of(BINARY))
def test_binary(dtype: str, layouts: tuple[str, str]) -> None:
    for group in binary_groups(dtype):
        left = (
            LAYOUTS[layouts[0]].fill(TORCH[dtype], seed=4, low=-40, high=40)
            if dtype in INTS
            else LAYOUTS[layouts[0]].fill(TORCH[dtype], seed=4)
        )
        right = second_operand(LAYOUTS[layouts[1]], dtype, group, seed=5)
        group_of("binary", dtype, (SYMBOLIC, SYMBOLIC), False, group).check([left, right])


@pytest.mark.parametrize("broadcast", BROADCASTS)
@pytest.mark.parametrize("dtype", dtypes_of(BINARY))
def test_binary_broadcast(dtype: str, broadcast: str) -> None:
    shapes, sizes = BROADCASTS[broadcast]
    for group in binary_groups(dtype):
        left = row_major(sizes[0]).fill(TORCH[dtype], seed=6)
        right = second_operand(row_major(sizes[1]), dtype, group, seed=7)
        group_of("binary", dtype, shapes, True, group).check([left, right])


@pytest.mark.parametrize("dtype", FLOATS)
def test_binary_special_values(dtype: str) -> None:
    """Every special value against every other."""
    special = special_values(TORCH[dtype])
    left = special.repeat_interleave(len(special)).to(DEVICE)
    right = special.repeat(len(special)).to(DEVICE)
    group_of("binary", dtype, ((-1,), (-1,)), contiguous=True).check([left, right])


@pytest.mark.parametrize("dtype", INTS)
def test_integer_wraparound(dtype: str) -> None:
    special = special_values(TORCH[dtype])
    left = special.repeat_interleave(len(special)).to(DEVICE)
    right = special.repeat(len(special)).to(DEVICE)
    names = ("add", "sub", "mul", "minimum", "maximum", "bitwise_and", "bitwise_xor", "lt", "ge")
    ops = [op for op in BINARY if op.name in names]
    OpGroup(ops, declare_tensors([(-1,), (-1,)], True, [dtype] * 2)).check([left, right])


@pytest.mark.parametrize("dtype", INTS)
def test_logical_right_shift_past_the_width(dtype: str) -> None:
    special = special_values(TORCH[dtype])
    counts = torch.tensor([0, 1, 31, 32, 33, 63, 64, 65], dtype=TORCH[dtype])
    left = special.repeat_interleave(len(counts)).to(DEVICE)
    right = counts.repeat(len(special)).to(DEVICE)
    width = 32 if dtype == "Int32" else 64

    def build(fd: FusionDefinition) -> None:
        x, count = (fd.define_tensor([-1], True, data_type(dtype)) for _ in range(2))
        fd.add_output(fd.ops.logical_right_shift(x, count))

    (actual,) = run(build, [left, right])
    mask = 2**width - 1
    expected = [
        (int(x) & mask) >> int(n) if int(n) < width else 0
        for x, n in zip(left.cpu(), right.cpu(), strict=False)
    ]
    signed = [each - 2**width if each >= 2 ** (width - 1) else each for each in expected]
    assert_same(actual, torch.tensor(signed, dtype=TORCH[dtype], device=DEVICE))


# --------------------------------------------------------------------------------------- ternary


@pytest.mark.parametrize("dtype", dtypes_of(TERNARY))
@pytest.mark.parametrize(
    "layouts",
    [("odd", "permuted", "strided"), ("expanded", "odd", "odd"), ("empty", "empty", "empty")],
    ids="-".join,
)
def test_ternary(dtype: str, layouts: tuple[str, str, str]) -> None:
    operands = [LAYOUTS[name].fill(TORCH[dtype], seed) for seed, name in enumerate(layouts)]
    group_of("ternary", dtype, (SYMBOLIC,) * 3, contiguous=False).check(operands)


@pytest.mark.parametrize("dtype", dtypes_of(TERNARY))
def test_ternary_broadcast(dtype: str) -> None:
    shapes = ((-1, 1, -1), (1, -1, -1), ())
    operands = [
        row_major(sizes).fill(TORCH[dtype], seed)
        for seed, sizes in enumerate([(5, 1, 7), (1, 4, 7), ()])
    ]
    group_of("ternary", dtype, shapes, contiguous=True).check(operands)


@pytest.mark.parametrize("dtype", [*FLOATS, *INTS, "Bool", *COMPLEX])
@pytest.mark.parametrize("case", ["odd", "expanded", "empty", "broadcast", "zero_dim"])
def test_where(dtype: str, case: str) -> None:
    torch_dtype = TORCH[dtype]
    if case == "broadcast":
        shapes: Sequence[tuple[int, ...]] = ((-1, 1), (1, -1), (-1,))
        operands = [
            row_major(sizes).fill(kind, seed)
            for seed, (sizes, kind) in enumerate(
                [((5, 1), torch.bool), ((1, 7), torch_dtype), ((7,), torch_dtype)]
            )
        ]
    elif case == "zero_dim":
        shapes = ((), (), ())
        operands = [row_major(()).fill(kind) for kind in (torch.bool, torch_dtype, torch_dtype)]
    else:
        shapes = (SYMBOLIC,) * 3
        layout = LAYOUTS[case]
        operands = [
            layout.fill(torch.bool),
            layout.fill(torch_dtype, 1),
            layout.fill(torch_dtype, 2),
        ]

    def build(fd: FusionDefinition) -> None:
        declare = declare_tensors(shapes, case == "broadcast", ["Bool", dtype, dtype])
        fd.add_output(fd.ops.where(*declare(fd)))

    (actual,) = run(build, operands)
    assert_same(actual, torch.where(*operands))


# ----------------------------------------------------------------------------------------- casts

BASE_DTYPES = (*FLOATS, *INTS, "UInt64", "Bool", *COMPLEX)


def cast_reference(x: Tensor, target: torch.dtype) -> Tensor:
    x = x.cpu()
    if x.dtype == target:
        return x
    if target == torch.bool:
        return (x.view(torch.int64) if x.dtype == torch.uint64 else x) != 0
    if x.dtype.is_complex and not target.is_complex:
        return cast_reference(x.real.clone(), target)
    if target == torch.uint64:
        return x.to(torch.int64).view(torch.uint64)
    if x.dtype == torch.uint64:
        return torch.tensor([int(each) for each in x.flatten()], dtype=target).view(x.shape)
    return x.to(target)


def cast_source(dtype: str, layout: Layout) -> Tensor:
    """Values that every target represents in range (conversions out of range are undefined)."""
    torch_dtype = TORCH[dtype]
    if dtype == "UInt64":
        return layout.fill(torch.int64, 8, low=0, high=100).cpu().to(torch.uint64).to(DEVICE)
    if dtype in INTS:
        return layout.fill(torch_dtype, 8, low=0, high=100)
    if dtype == "Bool" or dtype in COMPLEX:
        return layout.fill(torch_dtype, 8, low=0.0, high=100.0)
    storage = values(layout.storage_length, torch.float, 8, low=0.0, high=100.0)
    return layout.view(storage.to(torch_dtype).to(DEVICE))


@functools.cache
def cast_fusion(source: str, targets: tuple[str, ...], rank: int) -> FusionDefinition:
    def build(fd: FusionDefinition) -> None:
        x = fd.define_tensor([-1] * rank, rank == 1, data_type(source))
        for target in targets:
            fd.add_output(fd.ops.cast(x, data_type(target)))

    return define(build)


@pytest.mark.parametrize("layout", ["contiguous", "strided", "expanded", "empty"])
@pytest.mark.parametrize("source", BASE_DTYPES)
def test_cast_to_every_dtype(source: str, layout: str) -> None:
    shape = row_major((1031,)) if layout == "contiguous" else LAYOUTS[layout]
    x = cast_source(source, shape)
    outputs = cast_fusion(source, BASE_DTYPES, len(shape.sizes)).execute([x])
    wrong = [
        f"{source} -> {target}: {message}"
        for target, output in zip(BASE_DTYPES, outputs, strict=False)
        if (message := difference(output, cast_reference(x, TORCH[target])))
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("target", [name for name in FP8 if supported_on_device(name)])
@pytest.mark.parametrize("source", FLOATS)
def test_cast_to_fp8(source: str, target: str) -> None:
    """Rounding to nearest even, denormals, overflow, infinities and nan as torch does them.

    What is too large for e4m3 becomes its largest value, as in torch since 2.13; older make nan.
    """
    grid = torch.arange(256, dtype=torch.uint8).view(TORCH[target]).float()
    grid = grid[torch.isfinite(grid)].sort().values
    midpoints = (grid[1:] + grid[:-1]) / 2
    x = torch.cat([grid, midpoints, values(501, torch.float, 9), special_values(torch.float)])
    x = x.to(TORCH[source]).to(DEVICE)
    (actual,) = cast_fusion(source, (target,), 1).execute([x])
    expected = x.cpu().float()
    if target == "Float8_e4m3fn":
        expected = expected.clamp(-448, 448)  # nan stays
    assert_same(actual, expected.to(TORCH[target]))


@pytest.mark.parametrize("source", [*FP8, "Float8_e8m0fnu"])
def test_cast_from_every_fp8_value(source: str) -> None:
    if not supported_on_device(source):
        pytest.skip("the device does not have this dtype")
    x = torch.arange(256, dtype=torch.uint8).view(TORCH[source]).to(DEVICE)
    outputs = cast_fusion(source, FLOATS, 1).execute([x])
    for target, output in zip(FLOATS, outputs, strict=False):
        assert_same(output, x.cpu().float().to(TORCH[target]), what=f"{source} -> {target}")


@pytest.mark.parametrize("source", FLOATS)
def test_cast_to_e8m0(source: str) -> None:
    if not supported_on_device("Float8_e8m0fnu"):
        pytest.skip("the device does not have this dtype")
    x = torch.exp2(torch.arange(-12, 13).float())
    x = torch.cat([x, x * 1.25, x * 1.5, x * 1.75]).to(TORCH[source]).to(DEVICE)
    (actual,) = cast_fusion(source, ("Float8_e8m0fnu",), 1).execute([x])
    assert_same(actual, x.cpu().float().to(torch.float8_e8m0fnu))


FP4_VALUES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)


def unpack_fp4(packed: Tensor) -> Tensor:
    """Two values a byte along the last dimension, low nibble first."""
    table = torch.tensor([*FP4_VALUES, *(-each for each in FP4_VALUES)])
    codes = packed.cpu().view(torch.uint8)
    pair = torch.stack([codes & 15, codes >> 4], dim=-1).long()
    return table[pair].flatten(-2)


def round_to_fp4(x: Tensor) -> Tensor:
    """Nearest value, ties to the even code, saturating."""
    grid = torch.tensor(FP4_VALUES)
    distance = (x.abs().unsqueeze(-1) - grid).abs()
    even_first = distance + torch.arange(8) % 2 * 1e-6
    return torch.copysign(grid[even_first.argmin(-1)], x)


@pytest.mark.skipif(not supported_on_device("Float4_e2m1fn_x2"), reason="needs sm_100")
@pytest.mark.parametrize("target", FLOATS)
@pytest.mark.parametrize("sizes", [(128,), (3, 5), (2, 3, 8)])
def test_cast_from_packed_fp4(target: str, sizes: tuple[int, ...]) -> None:
    count = math.prod(sizes)
    codes = (torch.arange(count) * 37 % 256).to(torch.uint8).view(sizes)
    x = codes.view(torch.float4_e2m1fn_x2).to(DEVICE)

    def build(fd: FusionDefinition) -> None:
        strides = row_major(sizes).strides
        tv = fd.define_tensor(
            sizes=list(sizes),
            strides=list(strides),
            dtype=DataType.Float4_e2m1fn_x2,
            static_sizes=True,
        )
        fd.add_output(fd.ops.cast(tv, data_type(target)))

    (actual,) = run(build, [x])
    assert_same(actual, unpack_fp4(codes).to(TORCH[target]))


@pytest.mark.skipif(not supported_on_device("Float4_e2m1fn_x2"), reason="needs sm_100")
@pytest.mark.parametrize("source", FLOATS)
@pytest.mark.parametrize("sizes", [(64,), (3, 10)])
def test_cast_to_packed_fp4(source: str, sizes: tuple[int, ...]) -> None:
    x = values(math.prod(sizes), torch.float, 10, low=-7.0, high=7.0)
    x[:8] = torch.tensor([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0, 100.0])
    x = x.view(sizes).to(TORCH[source]).to(DEVICE)

    def build(fd: FusionDefinition) -> None:
        tv = fd.define_tensor([-1] * len(sizes), True, data_type(source))
        fd.add_output(fd.ops.cast(tv, DataType.Float4_e2m1fn))

    (actual,) = run(build, [x])
    assert actual.dtype == torch.float4_e2m1fn_x2
    assert actual.shape == (*sizes[:-1], sizes[-1] // 2)
    assert_same(unpack_fp4(actual), round_to_fp4(x.cpu().float()))


def test_cast_between_narrow_types_is_refused() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1], True, DataType.Float8_e4m3fn)
        for target in (DataType.Float8_e5m2, DataType.Int, DataType.Bool):
            with pytest.raises(RuntimeError):
                fd.ops.cast(x, target)


# -------------------------------------------------------------------------------- shape and layout

ShapeOp = tuple[Callable[[FusionDefinition, object], object], Callable[[Tensor], Tensor]]

# Of a (6, 1, 35) tensor whose middle dimension is a broadcast.
SHAPE_OPS: dict[str, ShapeOp] = {
    "broadcast": (
        lambda fd, x: fd.ops.broadcast(x, [True, False, False, True, False]),
        lambda x: x.view_as(x).unsqueeze(2).unsqueeze(0),
    ),
    "broadcast_in_dim": (
        lambda fd, x: fd.ops.broadcast_in_dim(x, [6, 4, 35], [0, 1, 2]),
        lambda x: x.expand(6, 4, 35),
    ),
    "broadcast_in_dim_leading": (
        lambda fd, x: fd.ops.broadcast_in_dim(x, [2, 6, 3, 1, 35], [1, 3, 4]),
        lambda x: x.unsqueeze(1).unsqueeze(0).expand(2, 6, 3, 1, 35),
    ),
    "expand": (lambda fd, x: fd.ops.expand(x, [-1, 5, -1]), lambda x: x.expand(6, 5, 35)),
    "expand_leading": (
        lambda fd, x: fd.ops.expand(x, [2, 6, 3, 35]),
        lambda x: x.expand(2, 6, 3, 35),
    ),
    "expand_to_zero": (lambda fd, x: fd.ops.expand(x, [6, 0, 35]), lambda x: x.expand(6, 0, 35)),
    "reshape_merge": (lambda fd, x: fd.ops.reshape(x, [210]), lambda x: x.reshape(210)),
    "reshape_split": (
        lambda fd, x: fd.ops.reshape(x, [2, 3, 5, 7]),
        lambda x: x.reshape(2, 3, 5, 7),
    ),
    "reshape_infer": (lambda fd, x: fd.ops.reshape(x, [-1, 14]), lambda x: x.reshape(15, 14)),
    "reshape_ones": (
        lambda fd, x: fd.ops.reshape(x, [1, 6, 1, 35, 1]),
        lambda x: x.reshape(1, 6, 1, 35, 1),
    ),
    "permute": (lambda fd, x: fd.ops.permute(x, [2, 0, 1]), lambda x: x.permute(2, 0, 1)),
    "permute_negative": (lambda fd, x: fd.ops.permute(x, [-1, 1, 0]), lambda x: x.permute(2, 1, 0)),
    "squeeze": (lambda fd, x: fd.ops.squeeze(x, [1]), lambda x: x.squeeze(1)),
    "squeeze_negative": (lambda fd, x: fd.ops.squeeze(x, [-2]), lambda x: x.squeeze(1)),
    "squeeze_nothing": (lambda fd, x: fd.ops.squeeze(x, []), lambda x: x),
    "slice": (
        lambda fd, x: fd.ops.slice(x, [1, 0, 3], [5, 1, 30], [1, 1, 1]),
        lambda x: x[1:5, 0:1, 3:30],
    ),
    "slice_clamped": (
        lambda fd, x: fd.ops.slice(x, (0, 0, 30), (9, 1, 99)),
        lambda x: x[0:9, 0:1, 30:99],
    ),
    "slice_all": (lambda fd, x: fd.ops.slice(x, [0, 0, 0], [6, 1, 35]), lambda x: x),
    "slice_empty": (lambda fd, x: fd.ops.slice(x, [2, 0, 0], [2, 1, 35]), lambda x: x[2:2]),
    "pad": (
        lambda fd, x: fd.ops.pad(x, [2, 3]),
        lambda x: pad_reference(x, [2, 3], 0),
    ),
    "pad_value": (
        lambda fd, x: fd.ops.pad(x, [0, 1, 2, 1, 3, 0], 1.0),
        lambda x: pad_reference(x, [0, 1, 2, 1, 3, 0], 1),
    ),
    "pad_crop": (
        lambda fd, x: fd.ops.pad(x, [-3, 2, 0, 0, 1, -2]),
        lambda x: pad_reference(x, [-3, 2, 0, 0, 1, -2], 0),
    ),
    "pad_zero_widths": (lambda fd, x: fd.ops.pad(x, [0, 0]), lambda x: x),
    "cat_rows": (
        lambda fd, x: fd.ops.cat([x, fd.ops.slice(x, [0, 0, 0], [2, 1, 35])], 0),
        lambda x: torch.cat([x, x[:2]], 0),
    ),
    "cat_inner": (
        lambda fd, x: fd.ops.cat([x, x, fd.ops.slice(x, [0, 0, 0], [6, 1, 4])], -1),
        lambda x: torch.cat([x, x, x[:, :, :4]], -1),
    ),
    "cat_one": (lambda fd, x: fd.ops.cat([x], 0), lambda x: x),
    "cat_empty_member": (
        lambda fd, x: fd.ops.cat([fd.ops.slice(x, [0, 0, 0], [0, 1, 35]), x], 0),
        lambda x: x,
    ),
    "stride_order": (lambda fd, x: fd.ops.stride_order(x, [0, 1, 2]), lambda x: x),
    "triu": (
        lambda fd, x: fd.ops.triu(fd.ops.squeeze(x, [1]), 1),
        lambda x: triu_reference(x.squeeze(1), 1),
    ),
    "triu_negative": (
        lambda fd, x: fd.ops.triu(fd.ops.squeeze(x, [1]), -2),
        lambda x: triu_reference(x.squeeze(1), -2),
    ),
}


def pad_reference(x: Tensor, widths: Sequence[int], value: int) -> Tensor:
    """torch's constant padding for every dtype (negative widths crop)."""
    sizes = list(x.shape)
    source, target = [slice(None)] * x.ndim, [slice(None)] * x.ndim
    for pair in range(len(widths) // 2):
        dim = x.ndim - 1 - pair
        left, right = widths[2 * pair], widths[2 * pair + 1]
        length = sizes[dim]
        sizes[dim] = length + left + right
        source[dim] = slice(max(-left, 0), length - max(-right, 0))
        target[dim] = slice(max(left, 0), sizes[dim] - max(right, 0))
    result = torch.full(sizes, value, dtype=torch.float, device=x.device).to(x.dtype)
    result[tuple(target)] = x[tuple(source)]
    return result


def triu_reference(x: Tensor, diagonal: int) -> Tensor:
    rows = torch.arange(x.shape[-2], device=x.device)[:, None]
    columns = torch.arange(x.shape[-1], device=x.device)
    return torch.where(
        rows + diagonal <= columns, x, torch.zeros((), dtype=x.dtype, device=x.device)
    )


def middle_broadcast(dtype: str, layout: str) -> Tensor:
    torch_dtype = TORCH[dtype]
    if layout == "contiguous":
        return row_major((6, 1, 35)).fill(torch_dtype, 11)
    if layout == "transposed":
        return Layout((6, 1, 35), (1, 1, 6)).fill(torch_dtype, 11)
    return Layout((6, 1, 35), (80, 3, 2), 1).fill(torch_dtype, 11)


def shape_case(name: str, dtype: str, layout: str, around: str = "none") -> None:
    build_op, reference = SHAPE_OPS[name]
    x = middle_broadcast(dtype, layout)

    def build(fd: FusionDefinition) -> None:
        tv = fd.define_tensor(list(x.shape), list(x.stride()), dtype=data_type(dtype))
        if around in ("before", "both"):
            tv = fd.ops.neg(tv)
        tv = build_op(fd, tv)
        if around in ("after", "both"):
            tv = fd.ops.abs(tv)
        fd.add_output(tv)

    (actual,) = run(build, [x])
    expected = -x if around in ("before", "both") else x
    expected = reference(expected)
    expected = expected.abs() if around in ("after", "both") else expected
    assert_same(actual, expected)


@pytest.mark.parametrize("layout", ["contiguous", "strided", "transposed"])
@pytest.mark.parametrize("name", SHAPE_OPS)
def test_shape_op_alone(name: str, layout: str) -> None:
    shape_case(name, "Float", layout)


@pytest.mark.parametrize("around", ["before", "after", "both"])
@pytest.mark.parametrize("name", SHAPE_OPS)
def test_shape_op_between_pointwise_ops(name: str, around: str) -> None:
    shape_case(name, "Float", "strided", around)


@pytest.mark.parametrize("dtype", ["Double", "Half", "BFloat16", "Int", "Int32", "Bool", *COMPLEX])
@pytest.mark.parametrize("name", ["reshape_split", "permute", "slice", "pad", "cat_inner", "triu"])
def test_shape_op_dtypes(name: str, dtype: str) -> None:
    shape_case(name, dtype, "strided")


@pytest.mark.parametrize("dtype", [*FP8, "UInt64"])
@pytest.mark.parametrize("name", ["reshape_split", "permute", "slice"])
def test_view_op_narrow_dtypes(name: str, dtype: str) -> None:
    if supported_on_device(dtype):
        shape_case(name, dtype, "strided")


@pytest.mark.parametrize("order", [[2, 1, 0], [0, 1, 2], [1, 2, 0], [2, 0, 1]])
def test_stride_order_strides(order: list[int]) -> None:
    x = row_major((3, 4, 5)).fill(torch.float)

    def build(fd: FusionDefinition) -> None:
        fd.add_output(fd.ops.stride_order(fd.ops.neg(fd.from_pytorch(x)), order))

    (actual,) = run(build, [x])
    assert_same(actual, -x)
    by_rank = sorted(range(3), key=lambda dim: order[dim])
    step = 1
    for dim in by_rank:
        assert actual.stride(dim) == step
        step *= x.shape[dim]


def test_symbolic_reshape_slice_pad_expand() -> None:
    """Extents that are values of the fusion: sizes of inputs, scalars, arithmetic on them."""

    def build(fd: FusionDefinition) -> None:
        x = fd.define_tensor([-1, -1], True)
        n = fd.define_scalar(DataType.Int)
        rows, columns = fd.ops.size(x, 0), fd.ops.size(x, -1)
        flat = fd.ops.reshape(fd.ops.neg(x), [fd.ops.mul(rows, columns)])
        fd.add_output(flat)
        back = fd.ops.reshape(flat, [columns, -1])
        fd.add_output(fd.ops.slice(back, [fd.define_scalar(0), n], fd.ops.shape(back), None))
        fd.add_output(fd.ops.broadcast_in_dim(fd.ops.abs(x), [n, rows, columns], [1, 2]))
        fd.add_output(fd.ops.pad(x, [n, n]))

    fusion = define(build)
    for rows, columns, n in ((6, 35, 2), (4, 8, 1), (1, 9, 1), (3, 3, 0)):
        x = row_major((rows, columns)).fill(torch.float, rows)
        outputs = fusion.execute([x, n])
        back = (-x).reshape(columns, rows)
        assert_same(outputs[0], (-x).reshape(-1))
        assert_same(outputs[1], back[:, n:])
        assert_same(outputs[2], x.abs().expand(n, rows, columns))
        assert_same(outputs[3], torch.nn.functional.pad(x, (n, n)))


@pytest.mark.parametrize("sizes", [((0, 4), (0,)), ((4, 0), (2, 0, 3)), ((3, 0, 2), (6, 0))])
def test_reshape_empty(sizes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    before, after = sizes
    x = row_major(before).fill(torch.float)

    def build(fd: FusionDefinition) -> None:
        fd.add_output(fd.ops.reshape(fd.ops.neg(fd.from_pytorch(x)), list(after)))

    (actual,) = run(build, [x])
    assert_same(actual, (-x).reshape(after))


@pytest.mark.parametrize(
    "chain",
    [
        [(12, 10), (3, 40), (8, 15)],
        [(2, 3, 4, 5), (6, 20), (6, 4, 5), (120,)],
        [(7, 11), (11, 7), (77,), (1, 77, 1)],
        [(16, 16), (4, 4, 4, 4), (256,), (2, 128)],
    ],
)
def test_reshape_chain_with_ops_between(chain: list[tuple[int, ...]]) -> None:
    x = row_major(chain[0]).fill(torch.float)

    def build(fd: FusionDefinition) -> None:
        tv = fd.from_pytorch(x)
        for shape in chain[1:]:
            tv = fd.ops.neg(fd.ops.reshape(fd.ops.add(tv, 1.0), list(shape)))
        fd.add_output(tv)

    (actual,) = run(build, [x])
    expected = x
    for shape in chain[1:]:
        expected = -(expected + 1.0).reshape(shape)
    assert_same(actual, expected, atol=1e-6)


def test_reshape_of_broadcast_and_expanded() -> None:
    x = row_major((6, 1)).fill(torch.float)

    def build(fd: FusionDefinition) -> None:
        tv = fd.from_pytorch(x)
        wide = fd.ops.expand(tv, [6, 4])
        fd.add_output(fd.ops.reshape(wide, [24]))
        fd.add_output(fd.ops.reshape(fd.ops.neg(wide), [4, 6]))

    first, second = run(build, [x])
    assert_same(first, x.expand(6, 4).reshape(24))
    assert_same(second, (-x.expand(6, 4)).reshape(4, 6))


def test_squeeze_expanded() -> None:
    x = row_major((4, 1, 3)).fill(torch.float)

    def build(fd: FusionDefinition) -> None:
        wide = fd.ops.expand(fd.from_pytorch(x), [4, 5, 3])
        fd.add_output(fd.ops.neg(fd.ops.squeeze(wide, [1], squeeze_expanded=True)))

    (actual,) = run(build, [x])
    assert_same(actual, -x.squeeze(1))


def test_cat_of_many_with_pointwise_around() -> None:
    parts = [row_major((n, 5)).fill(torch.float, n) for n in (1, 4, 0, 7)]

    def build(fd: FusionDefinition) -> None:
        tvs = [fd.ops.mul(fd.define_tensor([-1, -1], True), 2.0) for _ in parts]
        fd.add_output(fd.ops.add(fd.ops.cat(tvs, 0), 1.0))

    (actual,) = run(build, parts)
    assert_same(actual, torch.cat(parts, 0) * 2.0 + 1.0)


# -------------------------------------------------------------------------------------- creation


@pytest.mark.parametrize("sizes", [(), (0, 3), (1,), (5, 7), (2, 1, 33)])
def test_full(sizes: tuple[int, ...]) -> None:
    fills: dict[str, complex | float | int | bool] = {
        "Double": 1.5,
        "Float": -2.25,
        "Half": 0.5,
        "BFloat16": 3.0,
        "Int": 2**40 + 1,
        "Int32": -7,
        "Bool": True,
        "ComplexFloat": 1 + 2j,
        "ComplexDouble": -3j,
    }

    def build(fd: FusionDefinition) -> None:
        for name, fill in fills.items():
            fd.add_output(fd.ops.full(list(sizes), fill, data_type(name)))

    outputs = run(build)
    for output, (name, fill) in zip(outputs, fills.items(), strict=False):
        assert_same(output, torch.full(sizes, fill, dtype=TORCH[name], device=DEVICE), what=name)


def test_full_with_values_of_the_fusion() -> None:
    def build(fd: FusionDefinition) -> None:
        x = fd.define_tensor([-1, -1], True)
        fill = fd.define_scalar(DataType.Double)
        n = fd.define_scalar(DataType.Int)
        rows = fd.ops.size(x, 0)
        fd.add_output(fd.ops.full([rows, n], fill, DataType.Float))
        fd.add_output(fd.ops.add(x, fd.ops.full(fd.ops.shape(x), fill, DataType.Float)))

    fusion = define(build)
    x = row_major((3, 5)).fill(torch.float)
    for fill, n in ((1.5, 4), (-2.0, 9)):
        first, second = fusion.execute([x, fill, n])
        assert_same(first, torch.full((3, n), fill, device=DEVICE))
        assert_same(second, x + fill)


@pytest.mark.parametrize(
    ("length", "start", "step", "dtype"),
    [
        (10, None, None, "Int"),
        (0, None, None, "Int"),
        (1, 5, None, "Int"),
        (37, 3, 2, "Int"),
        (37, 100, -3, "Int"),
        (37, 3, 2, "Int32"),
        (37, 0.5, 0.25, "Double"),
        (37, 0.5, 0.25, "Float"),
    ],
)
def test_iota(length: int, start: float | None, step: float | None, dtype: str) -> None:
    def build(fd: FusionDefinition) -> None:
        def scalar(value: float | None) -> object:
            return None if value is None else fd.define_scalar(value, data_type(dtype))

        fd.add_output(fd.ops.iota(length, scalar(start), scalar(step), data_type(dtype)))

    (actual,) = run(build)
    steps = torch.arange(length, dtype=torch.double)
    expected = (start or 0) + steps * (1 if step is None else step)
    assert_same(actual, expected.to(TORCH[dtype]))


def test_iota_with_plain_numbers_and_symbolic_length() -> None:
    def build(fd: FusionDefinition) -> None:
        n = fd.define_scalar(DataType.Int)
        fd.add_output(fd.ops.iota(n, 2, 3))

    fusion = define(build)
    for n in (7, 1, 0, 1000):
        (actual,) = fusion.execute([n], device=DEVICE)
        assert_same(actual, torch.arange(n, device=DEVICE) * 3 + 2)


# ------------------------------------------------------------------------------ wider combinations


@pytest.mark.parametrize("low", LOW_FLOATS)
def test_low_precision_round_trip(low: str) -> None:
    """Computed in float, cast once at the end: the result is torch's float result, rounded."""
    x, y = (LAYOUTS["even"].fill(TORCH[low], seed) for seed in (1, 2))

    def build(fd: FusionDefinition) -> None:
        a, b = fd.from_pytorch(x), fd.from_pytorch(y)
        z = fd.ops.mul(fd.ops.sigmoid(fd.ops.add(a, b)), a)
        fd.add_output(fd.ops.cast(z, data_type(low)))

    (actual,) = run(build, [x, y])
    expected = torch.sigmoid(x.float() + y.float()) * x.float()
    assert_same(actual, expected.to(TORCH[low]), rtol=2 * EPSILON[TORCH[low]], atol=1e-6)


@pytest.mark.parametrize("dtype", FULL_FLOATS)
def test_many_inputs_and_outputs(dtype: str) -> None:
    inputs = [LAYOUTS["odd"].fill(TORCH[dtype], seed) for seed in range(24)]

    def build(fd: FusionDefinition) -> None:
        tvs = [fd.from_pytorch(x) for x in inputs]
        total = tvs[0]
        for tv in tvs[1:]:
            total = fd.ops.add(total, tv)
            fd.add_output(total)

    outputs = run(build, inputs)
    expected = inputs[0]
    for output, x in zip(outputs, inputs[1:], strict=False):
        expected = expected + x
        assert_same(output, expected)
