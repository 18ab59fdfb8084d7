# SPDX-License-Identifier: BSD-3-Clause
"""repr() of every definable fusion rebuilds an equal fusion: `exec` its text, compare with ==.

Equality of fusions covers operations, fields, dtypes, constants bit by bit, contiguity, memory
order and aliases, so that nothing is compared here by running kernels.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable

import pytest
from graph_generator import generate
from helpers import data_type, define
from nvfuse_direct import DataType, FusionDefinition, ops
from test_contract import BINARY, OPS, TERNARY, UNARY

Build = Callable[[FusionDefinition], object]

INTEGER_OPS = {
    "bitwise_not",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "bitwise_left_shift",
    "bitwise_right_shift",
    "logical_right_shift",
    "gcd",
}
DTYPES = ["Float", "Double", "Half", "BFloat16", "Int", "Int32", "Bool", "ComplexFloat"]


def rebuilt(fd: FusionDefinition) -> FusionDefinition:
    scope: dict[str, object] = {"FusionDefinition": FusionDefinition, "DataType": DataType}
    exec(repr(fd), scope)
    return define(scope["nvfuser_fusion"])  # type: ignore[arg-type]


def check(build: Build) -> None:
    fd = define(build)
    text = repr(fd)
    copy = rebuilt(fd)
    assert copy.fusion == fd.fusion, f"{text}\nis rebuilt as\n{copy!r}"
    again = rebuilt(copy)
    assert repr(again) == repr(copy), "the text of the rebuilt fusion is not stable"


def x(fd: FusionDefinition, rank: int = 2, dtype: str = "Float", **options: object) -> object:
    return fd.define_tensor([-1] * rank, True, data_type(dtype), **options)


def out(fd: FusionDefinition, *results: object) -> None:
    for result in results:
        for each in result if isinstance(result, tuple) else [result]:
            fd.add_output(each)


# ---------------------------------------------------------------------------------- elementwise


def operands(fd: FusionDefinition, name: str, dtype: str, kinds: str) -> list[object]:
    """`t` a tensor, `s` a symbolic scalar, `c` a constant."""
    constant = {"Bool": True, "ComplexFloat": 1.5 - 0.1j}.get(dtype)
    if constant is None:
        constant = 3 if dtype.startswith("Int") else 0.1
    made = []
    for position, kind in enumerate(kinds):
        of = "Bool" if name == "where" and position == 0 else dtype
        if kind == "t":
            made.append(x(fd, 1, of))
        elif kind == "s":
            made.append(fd.define_scalar(data_type(of)))
        else:
            made.append(True if of == "Bool" else constant)
    return made


def elementwise_cases() -> list[tuple[str, str, str]]:
    cases = []
    for name in UNARY:
        cases += [(name, dtype, "t") for dtype in DTYPES]
    for name in BINARY:
        kinds = ["tt"] if name == "complex" else ["tt", "tc", "ct", "ts"]
        cases += [(name, dtype, kind) for dtype in DTYPES for kind in kinds]
    for name in (*TERNARY, "addcmul"):
        count = 4 if name == "addcmul" else 3
        kinds = ["tcc"] if name in ("clamp", "threshold") else ["ttt", "tcc", "tsc"]
        cases += [
            (name, dtype, (kind + "c")[:count])
            for dtype in ("Float", "Half", "Int")
            for kind in kinds
        ]
    return cases


@pytest.mark.parametrize("name", [*UNARY, *BINARY, *TERNARY, "addcmul"])
def test_elementwise(name: str) -> None:
    """Every op with the dtypes and operands that it takes."""
    built = 0
    for op, dtype, kinds in elementwise_cases():
        if op != name:
            continue

        def build(fd: FusionDefinition, dtype: str = dtype, kinds: str = kinds) -> None:
            out(fd, getattr(fd.ops, name)(*operands(fd, name, dtype, kinds)))

        try:
            define(build)
        except (RuntimeError, TypeError):
            continue  # an op that is not defined for the dtype
        check(build)
        built += 1
    assert built > 0


# ------------------------------------------------------------------------------------ other ops


def lookup(name: str) -> Build:
    return lambda fd: out(fd, getattr(fd.ops, name)(x(fd), x(fd, 2, "Int"), 1))


def shapes(fd: FusionDefinition) -> tuple[object, object, object]:
    t = x(fd, 3)
    return t, fd.ops.size(t, 0), fd.define_scalar(DataType.Int)


CASES: dict[str, Build] = {
    **{
        f"{name}_{kind}": (
            lambda fd, name=name, arguments=arguments: out(
                fd, getattr(fd.ops, name)(x(fd, 3), **arguments)
            )
        )
        for name in ("sum", "prod", "max", "min")
        for kind, arguments in {
            "all": {},
            "one": {"dim": 1},
            "some": {"dims": [0, -1]},
            "kept": {"dims": [0, 2], "keepdim": True},
        }.items()
    },
    "sum_as": lambda fd: out(fd, fd.ops.sum(x(fd, 2, "Half"), [0], dtype=DataType.Double)),
    "sum_of_bool": lambda fd: out(fd, fd.ops.sum(x(fd, 1, "Bool"))),
    "sum_of_a_broadcast": lambda fd: out(
        fd, fd.ops.sum(fd.ops.expand(fd.define_tensor([-1, 1], True), [-1, 7]), [1])
    ),
    "sum_of_size_1": lambda fd: out(fd, fd.ops.sum(fd.define_tensor([-1, 1], True), [1])),
    **{
        name: (lambda fd, name=name: out(fd, getattr(fd.ops, name)(x(fd, 2), -1)))
        for name in ("cumsum", "cumprod", "cummax", "cummin")
    },
    "cumsum_from": lambda fd: out(fd, fd.ops.cumsum(x(fd), 0, fd.define_scalar(0.1))),
    "cumsum_of_ints": lambda fd: out(fd, fd.ops.cumsum(x(fd, 2, "Int32"), 0)),
    "var": lambda fd: out(fd, fd.ops.var(x(fd), [1], 0, True)),
    "var_mean": lambda fd: out(fd, fd.ops.var_mean(x(fd), [0], 1)),
    "var_alone": lambda fd: out(fd, fd.ops.var_mean(x(fd), [0, 1], 1)[0]),
    "welford": lambda fd: out(fd, fd.ops.welford(x(fd), [-1])),
    "welford_partly_used": lambda fd: out(fd, fd.ops.welford(x(fd), [0])[1]),
    **{
        f"cast_{a}_{b}": (lambda fd, a=a, b=b: out(fd, fd.ops.cast(x(fd, 1, a), data_type(b))))
        for a in DTYPES
        for b in DTYPES
    },
    **{
        f"cast_to_{b}": (lambda fd, b=b: out(fd, fd.ops.cast(x(fd, 1, "Float"), data_type(b))))
        for b in ("Float8_e4m3fn", "Float8_e5m2", "Float8_e8m0fnu")
    },
    "cast_scalar": lambda fd: out(
        fd, fd.ops.mul(x(fd), fd.ops.cast(fd.define_scalar(DataType.Int), DataType.Float))
    ),
    "broadcast": lambda fd: out(fd, fd.ops.broadcast(x(fd), [True, False, True, False])),
    "broadcast_in_dim": lambda fd: out(fd, fd.ops.broadcast_in_dim(x(fd), [3, -1, 4, -1], [1, 3])),
    "broadcast_in_dim_all": lambda fd: out(
        fd, fd.ops.broadcast_in_dim(fd.define_tensor([1, -1], True), [5, -1], [0, 1])
    ),
    "expand": lambda fd: out(fd, fd.ops.expand(fd.define_tensor([1, -1], True), [4, 7, -1])),
    "expand_by_a_scalar": lambda fd: out(
        fd, fd.ops.expand(fd.define_tensor([1, 2], True), [fd.define_scalar(DataType.Int), 2])
    ),
    "reshape": lambda fd: out(fd, fd.ops.reshape(fd.define_tensor([4, 6], True), [2, 2, -1])),
    "reshape_symbolic": lambda fd: (
        lambda t, n, s: out(
            fd,
            fd.ops.reshape(t, [s, -1]),
            fd.ops.reshape(t, [n, fd.ops.mul(fd.ops.size(t, 1), fd.ops.size(t, 2))]),
        )
    )(*shapes(fd)),
    "permute": lambda fd: out(fd, fd.ops.permute(x(fd, 3), [2, 0, -2])),
    "permute_in_order": lambda fd: out(fd, fd.ops.permute(x(fd, 3), [0, 1, 2])),
    "squeeze": lambda fd: out(fd, fd.ops.squeeze(fd.define_tensor([1, -1, 1], True), [0, -1])),
    "squeeze_expanded": lambda fd: out(
        fd,
        fd.ops.squeeze(
            fd.ops.expand(fd.define_tensor([1, -1], True), [5, -1]), [0], squeeze_expanded=True
        ),
    ),
    "slice": lambda fd: out(fd, fd.ops.slice(x(fd), [1, 0], [3, 5])),
    "slice_by_scalars": lambda fd: (
        lambda t, n, s: out(fd, fd.ops.slice(t, [0, s, 0], [n, fd.ops.add(s, 2), 3]))
    )(*shapes(fd)),
    "slice_to_1": lambda fd: out(fd, fd.ops.slice(fd.define_tensor([8, 8], True), [0, 7], [8, 8])),
    "slice_normalized": lambda fd: out(fd, fd.ops.slice(x(fd), [1, 0], [3, 5], [1, 1], 1)),
    "pad": lambda fd: out(fd, fd.ops.pad(x(fd), [1, 2, -1, 0], 0.1)),
    "pad_some": lambda fd: out(fd, fd.ops.pad(x(fd, 3), [0, 3])),
    "pad_ints": lambda fd: out(fd, fd.ops.pad(x(fd, 1, "Int32"), [1, 1], 7)),
    "pad_bool": lambda fd: out(fd, fd.ops.pad(x(fd, 1, "Bool"), [1, 1], True)),
    "pad_complex": lambda fd: out(fd, fd.ops.pad(x(fd, 1, "ComplexFloat"), [1, 1], 1 - 2.5j)),
    "pad_by_scalars": lambda fd: (
        lambda t, n, s: out(fd, fd.ops.pad(t, [s, n], fd.define_scalar(DataType.Float)))
    )(*shapes(fd)),
    "pad_broadcast": lambda fd: out(fd, fd.ops.pad(fd.define_tensor([1, -1], True), [0, 0, 2, 1])),
    "cat": lambda fd: out(fd, fd.ops.cat([x(fd), x(fd), x(fd)], 1)),
    "cat_of_one": lambda fd: out(fd, fd.ops.cat([x(fd)], 0)),
    "cat_padded": lambda fd: out(
        fd,
        fd.ops.cat([fd.ops.pad(x(fd), [0, 4]), fd.ops.pad(x(fd), [4, 0])], 1, manual_padding=True),
    ),
    "stride_order": lambda fd: out(fd, fd.ops.stride_order(x(fd, 3), [0, 2, 1])),
    "stride_order_of_a_permutation": lambda fd: out(
        fd, fd.ops.stride_order(fd.ops.permute(x(fd, 3), [1, 2, 0]), [0, 1, 2])
    ),
    "stride_order_in_order": lambda fd: out(fd, fd.ops.stride_order(x(fd), [1, 0])),
    "stride_order_empty": lambda fd: out(fd, fd.ops.stride_order(x(fd), [])),
    "triu": lambda fd: out(fd, fd.ops.triu(x(fd, 3), -1)),
    "sizes": lambda fd: out(
        fd, fd.ops.mul(x(fd), fd.ops.add(fd.ops.size(x(fd, 3), -1), fd.ops.size(x(fd), 0)))
    ),
    "size_of_an_expanded_input": lambda fd: out(
        fd,
        fd.ops.add(
            fd.define_tensor([-1, -1], [True, None]), fd.define_tensor([-1, 5], [True, None])
        ),
    ),
    "shape": lambda fd: out(fd, fd.ops.full(fd.ops.shape(x(fd, 3)), 0, DataType.Int)),
    "index_select": lambda fd: out(fd, fd.ops.index_select(x(fd), x(fd, 1, "Int"), 1)),
    "index_select_one": lambda fd: out(
        fd, fd.ops.index_select(x(fd), fd.define_tensor([], True, DataType.Int32), 0)
    ),
    "select": lambda fd: out(fd, fd.ops.select(x(fd), fd.define_scalar(DataType.Int), 1)),
    "select_constant": lambda fd: out(fd, fd.ops.select(x(fd), fd.define_scalar(2), 0)),
    "gather": lookup("gather"),
    "take_along_axis": lookup("take_along_axis"),
    "scatter": lambda fd: out(fd, fd.ops.scatter(x(fd), x(fd, 2, "Int"), x(fd), 0)),
    "scatter_scalar": lambda fd: out(
        fd, fd.ops.scatter(x(fd), x(fd, 2, "Int"), fd.define_scalar(0.1), 1)
    ),
    "embedding_fwd": lambda fd: out(fd, fd.ops.embedding_fwd(x(fd, 2, "Int"), x(fd))),
    "full": lambda fd: out(
        fd,
        fd.ops.full([2, fd.define_scalar(DataType.Int)], 0.1, DataType.BFloat16),
        fd.ops.full([2], True, DataType.Bool),
        fd.ops.full([2], 3, DataType.Double),
        fd.ops.full([2], 2.5, DataType.Int),
        fd.ops.full([2], 1 + 2j, DataType.ComplexDouble),
        fd.ops.full([], fd.define_scalar(DataType.Half), DataType.Float),
    ),
    "iota": lambda fd: out(
        fd,
        fd.ops.iota(6),
        fd.ops.iota(fd.define_scalar(DataType.Int), 2, -3),
        fd.ops.iota(6, 0.5, 0.1, DataType.Double),
        fd.ops.iota(6, dtype=DataType.Int32),
    ),
    "uniform": lambda fd: out(
        fd,
        fd.ops.uniform(-1.5, 0.1, [3, 4], dtype=DataType.Half),
        fd.ops.uniform(0, 1, fd.ops.shape(x(fd)), dtype=DataType.Double),
    ),
    "normal": lambda fd: out(
        fd,
        fd.ops.normal(
            0.0,
            fd.define_scalar(DataType.Double),
            [3],
            rng_seed=fd.define_scalar(7),
            rng_offset=fd.define_scalar(DataType.Int),
        ),
    ),
    "rand_like": lambda fd: out(fd, fd.ops.rand_like(x(fd)), fd.ops.randn_like(x(fd, 1, "Half"))),
    # Library operations.
    "matmul": lambda fd: out(fd, fd.ops.matmul(x(fd, 3), x(fd, 2)), fd.ops.matmul(x(fd, 1), x(fd))),
    "linear": lambda fd: out(
        fd, fd.ops.linear(x(fd, 3), x(fd)), fd.ops.linear(x(fd), x(fd), x(fd, 1))
    ),
    "topk": lambda fd: out(
        fd,
        fd.ops.topk(x(fd), fd.define_scalar(3), 0, False, True),
        fd.ops.topk(x(fd), fd.define_scalar(DataType.Int))[1],
    ),
    "argsort": lambda fd: out(
        fd, fd.ops.argsort(x(fd), 0), fd.ops.argsort(x(fd), -1, descending=True, stable=True)
    ),
    "grouped_mm": lambda fd: out(
        fd,
        fd.ops.grouped_mm(x(fd, 2, "BFloat16"), x(fd, 3, "BFloat16"), x(fd, 1, "Int32")),
        fd.ops.grouped_mm(x(fd, 2, "BFloat16"), x(fd, 2, "BFloat16"), x(fd, 1, "Int32")),
    ),
    "scaled_mm": lambda fd: out(
        fd,
        fd.ops.scaled_mm(x(fd, 2, "Float8_e4m3fn"), x(fd, 2, "Float8_e4m3fn"), x(fd, 0), x(fd, 0))[
            0
        ],
        fd.ops.scaled_mm(
            x(fd, 2, "Float8_e4m3fn"),
            x(fd, 2, "Float8_e4m3fn"),
            x(fd, 2),
            x(fd, 2),
            alpha=x(fd, 0),
            bias=x(fd, 1),
            dtype=DataType.Float,
        )[0],
    ),
    "scaled_grouped_mm": lambda fd: out(
        fd,
        fd.ops.grouped_mm(
            x(fd, 2, "Float8_e4m3fn"),
            x(fd, 3, "Float8_e4m3fn"),
            x(fd, 1, "Int32"),
            x(fd, 2),
            x(fd, 3),
            dtype=DataType.Half,
        )[0],
    ),
    "cutlass_nvfp4_grouped_mm": lambda fd: out(
        fd,
        fd.ops.cutlass_nvfp4_grouped_mm(
            fd.define_tensor([64, 32], True, DataType.Float4_e2m1fn),
            fd.define_tensor([2, 32, 64], True, DataType.Float4_e2m1fn, stride_order=[2, 0, 1]),
            x(fd, 2, "Float8_e4m3fn"),
            x(fd, 3, "Float8_e4m3fn"),
            x(fd, 1),
            x(fd, 2, "Int32"),
            x(fd, 1, "Int32"),
            x(fd, 1, "Int32"),
            dtype=DataType.Half,
        ),
    ),
    "nv_block_quantize": lambda fd: out(
        fd,
        fd.ops.nv_block_quantize(x(fd), x(fd, 0), True),
        fd.ops.nv_block_quantize(x(fd, 3, "BFloat16"), block_size=32, dtype=DataType.Float8_e4m3fn),
    ),
    "nv_grouped_block_quantize": lambda fd: out(
        fd,
        fd.ops.nv_grouped_block_quantize(x(fd), x(fd, 1, "Int32"), x(fd, 1, "Int32"), x(fd, 0)),
    ),
    "preprocess_grouped_matmul_input_sf": lambda fd: out(
        fd,
        fd.ops.preprocess_grouped_matmul_input_sf(
            x(fd, 2, "Float8_e4m3fn"), x(fd, 1, "Int32"), x(fd, 1, "Int32")
        ),
    ),
    "sdpfa": lambda fd: (
        lambda q, k, v: (
            lambda o, lse, seed, offset: out(
                fd,
                o,
                fd.ops.sdpfa_bwd(o, q, k, v, o, lse, 0.1, True, seed, offset, 0.125),
                fd.ops.sdpfa_bwd(o, q, k, v, o, lse, None, None, seed, offset, None)[1],
            )
        )(*fd.ops.sdpfa_fwd(q, k, v, None, None, 0.1, True, 0.125))
    )(*(x(fd, 4, "Half") for _ in range(3))),
    "sdpfa_with_a_mask": lambda fd: out(
        fd,
        fd.ops.sdpfa_fwd(
            *(x(fd, 4, "Half") for _ in range(4)),
            x(fd, 4, "Bool"),
            scale=fd.define_scalar(DataType.Double),
        )[0],
    ),
    # Inputs and outputs.
    "inputs": lambda fd: out(
        fd,
        fd.ops.neg(fd.define_tensor([-1, 3, 1, 4], [True, None, None, False], DataType.Half)),
        fd.ops.neg(x(fd, 3, stride_order=[0, 1, 2])),
        fd.ops.neg(fd.define_tensor([-1, 5, 2], [None, True, True], stride_order=[2, 0, 1])),
        fd.ops.neg(fd.define_tensor([0, 2], True)),
        fd.ops.neg(fd.define_tensor([], True, is_cpu=True)),
        fd.ops.neg(fd.define_tensor([-1, -1])),
        fd.ops.neg(fd.define_tensor(sizes=[2, 3, 1], strides=[1, 2, 6], static_sizes=True)),
        fd.ops.cast(fd.define_tensor([2, 8], True, DataType.Float4_e2m1fn_x2), DataType.Float),
    ),
    "memory_order_of_a_result": lambda fd: (
        lambda t: (
            t.set_allocation_domain(list(reversed(t.get_logical_domain())), True),
            out(fd, t),
        )
    )(fd.ops.exp(x(fd, 2))),
    "memory_order_of_a_permutation": lambda fd: (
        lambda t: (
            t.set_allocation_domain(list(reversed(t.get_logical_domain())), True),
            out(fd, t, fd.ops.neg(t)),
        )
    )(fd.ops.permute(x(fd, 3), [0, 2, 1])),
    "outputs": lambda fd: (
        lambda a, b: (
            fd.add_output(fd.ops.add(a, b)),
            fd.add_output(a),
            fd.add_output(fd.ops.add(a, b), b),
            fd.add_output(fd.ops.neg(a)),
        )
    )(x(fd), x(fd)),
    "alias_that_is_returned": lambda fd: (
        lambda a: (lambda t: (fd.add_output(t), fd.add_output(t, a), fd.add_output(t)))(
            fd.ops.neg(a)
        )
    )(x(fd)),
    "alias_hidden": lambda fd: (lambda a: fd.add_output(fd.ops.neg(a), a))(x(fd)),
    "alias_then_plain": lambda fd: (
        lambda a: (lambda t: (fd.add_output(t, a), fd.add_output(fd.ops.exp(a)), fd.add_output(t)))(
            fd.ops.neg(a)
        )
    )(x(fd)),
    "input_into_another": lambda fd: (lambda a, b: fd.add_output(a, b))(x(fd), x(fd)),
    "segment_set": lambda fd: out(fd, fd.ops.segment_set(fd.ops.set(fd.ops.neg(x(fd))))),
}


@pytest.mark.parametrize("name", CASES)
def test_op(name: str) -> None:
    check(CASES[name])


VALUES = [
    0.0,
    -0.0,
    3.0,
    1e-5,
    0.1,
    1 / 3,
    -2.0 / 3,
    math.pi,
    123456.7,
    1234567.0,
    5e-324,
    1.7976931348623157e308,
    float("inf"),
    float("-inf"),
    float("nan"),
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_doubles_are_exact(value: float) -> None:
    check(lambda fd: out(fd, fd.ops.mul(x(fd), value)))
    check(lambda fd: out(fd, fd.ops.mul(x(fd), fd.define_scalar(value))))
    check(lambda fd: out(fd, fd.ops.mul(x(fd, 2, "ComplexDouble"), complex(value, -value))))
    check(lambda fd: out(fd, fd.ops.mul(x(fd, 2, "ComplexDouble"), complex(-0.0, value))))


def test_doubles_with_few_digits_print_few() -> None:
    text = repr(define(lambda fd: out(fd, fd.ops.mul(fd.ops.add(x(fd), 3.0), 1e-5))))
    assert "3.00000)" in text and "1.00000e-05)" in text


@pytest.mark.parametrize(
    "dtype",
    [
        "Bool",
        "Int",
        "Int32",
        "UInt64",
        "Index",
        "Double",
        "Float",
        "Half",
        "BFloat16",
        "ComplexFloat",
        "ComplexDouble",
    ],
)
def test_constants_keep_their_dtypes(dtype: str) -> None:
    value = True if dtype == "Bool" else 1 + 2j if dtype.startswith("Complex") else 3

    def build(fd: FusionDefinition) -> None:
        constant = fd.define_scalar(value, dtype=data_type(dtype))
        out(fd, fd.ops.full([2], constant, data_type("Float" if dtype == "Index" else dtype)))
        if dtype not in ("UInt64", "Index"):
            out(fd, fd.ops.where(x(fd, 1, "Bool"), constant, constant))

    check(build)


def test_large_integers() -> None:
    for value in (2**31, -(2**31) - 1, 2**63 - 1, -(2**63)):
        check(lambda fd, value=value: out(fd, fd.ops.add(x(fd, 1, "Int"), value)))


def test_every_op_is_in_a_list() -> None:
    named = {*UNARY, *BINARY, *TERNARY, "addcmul"}
    text = inspect.getsource(inspect.getmodule(check)) + " ".join(CASES)
    there = {name for name in OPS if hasattr(ops, name)}
    assert {name for name in there - named if f".{name}(" not in text and name not in CASES} <= {
        "sum",
        "prod",
        "max",
        "min",
        "cumprod",
        "cummax",
        "cummin",
    }


@pytest.mark.parametrize("mix", ["pointwise", "reduction"])
@pytest.mark.parametrize("first", range(0, 200, 20))
def test_random_graphs(mix: str, first: int) -> None:
    for seed in range(first, first + 20):
        graph = generate(seed, mix)
        scope: dict[str, object] = {"DataType": DataType, "FusionDefinition": FusionDefinition}
        exec(graph.definition_text(), scope)
        check(scope["nvfuser_fusion"])  # type: ignore[arg-type]
