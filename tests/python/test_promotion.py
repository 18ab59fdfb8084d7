# SPDX-License-Identifier: BSD-3-Clause
"""Type promotion (section 2.0.1), table-driven: output dtype and value for every operand mix."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
import torch
from helpers import (
    COMPLEX,
    DEVICE,
    FLOATS,
    FP8,
    INTS,
    TORCH,
    Operand,
    PromotionError,
    assert_same,
    data_type,
    define,
    difference,
    promote,
    row_major,
    run,
    supported_on_device,
    values,
)
from nvfuse_direct import DataType, FusionDefinition

NAMES = (
    *FLOATS,
    *INTS,
    "Bool",
    *COMPLEX,
    "UInt64",
    *(each for each in FP8 if supported_on_device(each)),
)
CLASS_OF = {"mul": "D", "truediv": "F", "eq": "C", "where": "W"}


def exact_value(kind: str, dtype: str, index: int) -> torch.Tensor:
    """Small numbers that every dtype represents: 1, 2, 4 (bool: True)."""
    sizes = {"tensor": (3,), "zero_dim": (), "scalar": ()}[kind]
    if dtype == "Bool":
        return torch.ones(sizes, dtype=torch.bool)
    number = torch.full(sizes, 2.0 + 2.0 * index)
    if dtype == "UInt64":
        return number.to(torch.int64).view(torch.uint64)
    return number.to(TORCH[dtype])


def as_reference(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    if x.dtype == torch.uint64:
        x = x.view(torch.int64)
    elif x.dtype in (torch.float8_e4m3fn, torch.float8_e5m2):
        x = x.float()
    return x if dtype == torch.uint64 else x.to(dtype)


def expected_binary(op: str, operands: list[Operand], tensors: list[torch.Tensor]) -> torch.Tensor:
    out = promote(operands, {"C": "D"}.get(CLASS_OF[op], CLASS_OF[op]))
    a, b = (as_reference(each.cpu(), TORCH[out]) for each in tensors)
    if op == "mul":
        result = a & b if out == "Bool" else a * b
    elif op == "truediv":
        result = a / b
    elif op == "eq":
        return a == b
    else:
        result = torch.where(torch.ones(a.shape, dtype=torch.bool), a, b)
    if out == "UInt64":
        return result.view(torch.uint64)
    return result.to(TORCH[out])


def check_pairs(op: str, pairs: list[tuple[Operand, Operand]]) -> None:
    """All legal pairs in one fusion; illegal ones must raise while defining."""
    legal: list[tuple[list[Operand], list[torch.Tensor]]] = []
    accepted: list[str] = []
    with FusionDefinition() as fd:
        for pair in pairs:
            tensors = [exact_value(each.kind, each.dtype, index) for index, each in enumerate(pair)]
            tvs = [
                fd.define_tensor(
                    shape=[-1] * each.dim(), contiguity=True, dtype=data_type(op_.dtype)
                )
                for each, op_ in zip(tensors, pair, strict=False)
            ]
            try:
                promote(pair, "D")
            except PromotionError:
                try:
                    apply(fd, op, tvs)
                except RuntimeError:
                    pass
                else:
                    accepted.append(f"{pair} should have no common dtype")
                tensors = [each.to(DEVICE) for each in tensors]
                legal.append(([], tensors))
                continue
            fd.add_output(apply(fd, op, tvs))
            legal.append((list(pair), [each.to(DEVICE) for each in tensors]))
    assert not accepted, "\n".join(accepted)
    outputs = iter(fd.execute([each for _, tensors in legal for each in tensors]))
    wrong = []
    for pair_operands, tensors in legal:
        if not pair_operands:
            continue
        message = difference(next(outputs), expected_binary(op, pair_operands, tensors).to(DEVICE))
        if message:
            wrong.append(f"{op}{[(each.dtype, each.kind) for each in pair_operands]}: {message}")
    assert not wrong, "\n".join(wrong)


def apply(fd: FusionDefinition, op: str, operands: list[object]) -> object:
    if op == "where":
        return fd.ops.where(fd.define_scalar(True, DataType.Bool), *operands)
    return getattr(fd.ops, op)(*operands)


def legal_for(op: str, name: str) -> bool:
    if op == "truediv" and name == "UInt64":
        return False
    return not (op == "where" and name in FP8)


@pytest.mark.parametrize(
    ("op", "left"),
    [(op, left) for op in ("mul", "truediv", "eq") for left in NAMES if legal_for(op, left)],
)
def test_tensor_with_tensor(op: str, left: str) -> None:
    check_pairs(
        op,
        [
            (Operand(left), Operand(right))
            for right in NAMES
            if legal_for(op, right)
            # fp8 is cast to real numbers only.
            if not ({left, right} & set(FP8) and {left, right} & set(COMPLEX))
        ],
    )


@pytest.mark.parametrize(
    "left", ["Double", "Float", "Half", "Int", "Int32", "Bool", "ComplexFloat"]
)
def test_tensor_with_zero_dim_tensor(left: str) -> None:
    rights = (
        "Double",
        "Float",
        "BFloat16",
        "Int",
        "Int32",
        "Bool",
        "ComplexFloat",
        "ComplexDouble",
    )
    if left in ("Half",):
        rights = rights[:-2]
    check_pairs("mul", [(Operand(left), Operand(right, "zero_dim")) for right in rights])


def test_zero_dim_with_zero_dim() -> None:
    names = ("Double", "Float", "Half", "Int", "Int32", "Bool")
    pairs = itertools.product(names, repeat=2)
    check_pairs("mul", [(Operand(a, "zero_dim"), Operand(b, "zero_dim")) for a, b in pairs])


PYTHON_SCALARS: list[tuple[complex | float | int, str]] = [
    (2, "Int"),
    (2.0, "Double"),
    (2 + 1j, "ComplexDouble"),
]
TENSOR_DTYPES = (*FLOATS, *INTS, "Bool", *COMPLEX)


@pytest.mark.parametrize("op", ["add", "sub", "mul", "truediv", "eq", "maximum"])
@pytest.mark.parametrize("scalar_first", [False, True])
def test_python_scalar_operand(op: str, scalar_first: bool) -> None:
    type_class = {"truediv": "F"}.get(op, "D")
    x = {
        name: values(5, TORCH[name], seed=1, low=1.0, high=3.0).to(DEVICE) for name in TENSOR_DTYPES
    }
    cases = [
        (name, scalar, kind)
        for name in TENSOR_DTYPES
        for scalar, kind in PYTHON_SCALARS
        if not (kind == "ComplexDouble" and name in ("Half", "BFloat16"))
        if not (op == "maximum" and "Complex" in name + kind)
        if not (op == "sub" and name == "Bool")
    ]

    def build(fd: FusionDefinition) -> None:
        tvs = {name: fd.define_tensor([-1], True, data_type(name)) for name in TENSOR_DTYPES}
        for name, scalar, _ in cases:
            operands = (scalar, tvs[name]) if scalar_first else (tvs[name], scalar)
            fd.add_output(getattr(fd.ops, op)(*operands))

    outputs = run(build, [x[name] for name in TENSOR_DTYPES])
    wrong = []
    torch_op = torch.true_divide if op == "truediv" else getattr(torch, op)
    for output, (name, scalar, kind) in zip(outputs, cases, strict=False):
        out = TORCH[promote([Operand(name), Operand(kind, "scalar")], type_class)]
        tensor = x[name].to(out)
        number = torch.tensor(scalar, device=DEVICE).to(out)
        expected = torch_op(number, tensor) if scalar_first else torch_op(tensor, number)
        message = difference(output, expected, rtol=1e-6, atol=1e-6)
        if message:
            wrong.append(f"{name} {op} {scalar!r}: {message}")
    assert not wrong, "\n".join(wrong)


SCALAR_VALS: dict[str, complex | float | int | bool] = {
    "Double": 2.5,
    "Float": 1.25,
    "Int": 3,
    "Int32": 5,
    "Bool": True,
    "ComplexDouble": 1 + 2j,
}


@pytest.mark.parametrize("kind", SCALAR_VALS)
def test_symbolic_scalar_operand(kind: str) -> None:
    names = [
        n for n in TENSOR_DTYPES if not (kind == "ComplexDouble" and n in ("Half", "BFloat16"))
    ]
    x = {name: values(5, TORCH[name], seed=2, low=1.0, high=3.0).to(DEVICE) for name in names}

    def build(fd: FusionDefinition) -> None:
        tvs = [fd.define_tensor([-1], True, data_type(name)) for name in names]
        scalar = fd.define_scalar(data_type(kind))
        for tv in tvs:
            fd.add_output(fd.ops.mul(tv, scalar))

    outputs = run(build, [*x.values(), SCALAR_VALS[kind]])
    wrong = []
    for output, name in zip(outputs, names, strict=False):
        out = TORCH[promote([Operand(name), Operand(kind, "scalar")], "D")]
        factor = torch.tensor(SCALAR_VALS[kind], device=DEVICE).to(out)
        tensor = x[name].to(out)
        expected = tensor & factor if out == torch.bool else tensor * factor
        if message := difference(output, expected, rtol=1e-6):
            wrong.append(f"{name} * {kind} scalar: {message}")
    assert not wrong, "\n".join(wrong)


def test_bool_constant_behaves_as_in_torch() -> None:
    def build(fd: FusionDefinition) -> None:
        x = fd.define_tensor([-1], True, DataType.Bool)
        fd.add_output(fd.ops.add(x, True))
        fd.add_output(fd.ops.mul(x, 2))

    x = torch.tensor([True, False], device=DEVICE)
    added, doubled = run(build, [x])
    assert_same(added, x + True)
    assert_same(doubled, x * 2)


SCALAR_OPS: list[tuple[str, tuple[object, ...], object]] = [
    ("add", (2, 3), 5),
    ("add", (2, 0.5), 2.5),
    ("mul", (2.0, 1j), 2j),
    ("sub", (7, 9), -2),
    ("div", (7, -2), -3),
    ("truediv", (7.0, 2.0), 3.5),
    ("fmod", (-7, 3), -1),
    ("mod", (-7, 3), -1),
    ("remainder", (-7, 3), 2),
    ("pow", (3, 4), 81),
    ("minimum", (1.5, -2.0), -2.0),
    ("maximum", (4, 9), 9),
    ("bitwise_and", (12, 10), 8),
    ("bitwise_or", (12, 10), 14),
    ("bitwise_xor", (12, 10), 6),
    ("bitwise_left_shift", (3, 4), 48),
    ("bitwise_right_shift", (-16, 2), -4),
    ("gcd", (12, 18), 6),
    ("neg", (3,), -3),
    ("abs", (-2.5,), 2.5),
    ("sqrt", (6.25,), 2.5),
    ("reciprocal", (4.0,), 0.25),
    ("exp", (0.0,), 1.0),
    ("ceil", (1.25,), 2.0),
    ("floor", (-1.25,), -2.0),
    ("relu", (-3,), 0),
    ("sign", (-2.5,), -1.0),
    ("clamp", (5.0, 0.0, 2.0), 2.0),
    ("threshold", (0.5, 1.0, 9.0), 9.0),
    ("where", (True, 1.5, 2.5), 1.5),
    ("lerp", (1.0, 3.0, 0.25), 1.5),
    ("addcmul", (1.0, 2.0, 3.0, 0.5), 4.0),
]


@pytest.mark.parametrize("constant", [True, False])
def test_scalar_arithmetic(constant: bool) -> None:
    """Scalar-scalar ops give scalars, whether constant (folded) or bound at run time."""
    inputs: list[object] = []

    def build(fd: FusionDefinition) -> None:
        for name, operands, result in SCALAR_OPS:
            scalars = []
            for operand in operands:
                if constant and not isinstance(operand, bool):
                    scalars.append(operand)
                    continue
                kind = {bool: "Bool", int: "Int", float: "Double", complex: "ComplexDouble"}[
                    type(operand)
                ]
                if constant:
                    scalars.append(fd.define_scalar(operand, data_type(kind)))
                else:
                    scalars.append(fd.define_scalar(data_type(kind)))
                    inputs.append(operand)
            value = getattr(fd.ops, name)(*scalars)
            kind = {int: "Int", float: "Double", complex: "ComplexDouble"}[type(result)]
            fd.add_output(fd.ops.full([2], value, data_type(kind)))

    fusion = define(build)
    outputs = fusion.execute(inputs, device=DEVICE)
    wrong = []
    for output, (name, operands, result) in zip(outputs, SCALAR_OPS, strict=False):
        expected = torch.tensor([result, result], dtype=output.dtype, device=DEVICE)
        if message := difference(output, expected, rtol=1e-12):
            wrong.append(f"{name}{operands}: {message}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("op", ["lerp", "where", "addcmul"])
def test_ternary_operand_mixes(op: str) -> None:
    """All eight mixes of tensors and scalars."""
    tensors = [row_major((7,)).fill(torch.float, seed) for seed in range(3)]
    condition = torch.tensor([True, False, True, True, False, False, True], device=DEVICE)
    if op == "where":
        tensors[0] = condition
    numbers: list[object] = [True if op == "where" else 0.75, 2.0, -0.5]
    mixes = list(itertools.product([True, False], repeat=3))

    def build(fd: FusionDefinition) -> None:
        kinds = [DataType.Bool if op == "where" else DataType.Float, DataType.Float, DataType.Float]
        tvs = [fd.define_tensor([-1], True, kind) for kind in kinds]
        for mix in mixes:
            operands = [
                tv if is_tensor else number
                for tv, number, is_tensor in zip(tvs, numbers, mix, strict=False)
            ]
            if op == "where" and not mix[0]:
                operands[0] = fd.define_scalar(True, DataType.Bool)
            if op == "addcmul":
                operands.append(2.0)
            result = getattr(fd.ops, op)(*operands)
            fd.add_output(fd.ops.full([7], result, DataType.Float) if not any(mix) else result)

    reference: dict[str, Callable[..., torch.Tensor]] = {
        "lerp": lambda a, b, c: a + c * (b - a),
        "where": torch.where,
        "addcmul": lambda a, b, c: a + b * c * 2,
    }
    outputs = run(build, tensors)
    for mix, output in zip(mixes, outputs, strict=False):
        operands = [
            each if is_tensor else torch.full_like(each, number)
            for each, number, is_tensor in zip(tensors, numbers, mix, strict=False)
        ]
        expected = reference[op](*operands)
        if op == "where" and not (mix[1] or mix[2]) and mix[0]:
            expected = expected.double()  # two Double constants
        assert_same(output, expected, rtol=1e-6, atol=1e-6, what=f"{op}{mix}")


@pytest.mark.parametrize("kind", ["Double", "Int32", "ComplexFloat"])
def test_where_of_two_constants_keeps_their_dtype(kind: str) -> None:
    def build(fd: FusionDefinition) -> None:
        condition = fd.define_tensor([-1], True, DataType.Bool)
        a, b = (fd.define_scalar(each, data_type(kind)) for each in (3, 5))
        fd.add_output(fd.ops.where(condition, a, b))

    (actual,) = run(build, [torch.tensor([True, False], device=DEVICE)])
    assert_same(actual, torch.tensor([3, 5], dtype=TORCH[kind], device=DEVICE))


@pytest.mark.parametrize(
    ("left", "right", "common"),
    [
        ("Half", "BFloat16", "Float"),
        ("Half", "Half", "Half"),
        ("Half", "Int", "Half"),
        ("Float", "Int", "Float"),
        ("Int32", "Int", "Int"),
        ("Double", "ComplexFloat", "ComplexDouble"),
        ("Bool", "Int32", "Int32"),
    ],
)
def test_where_promotes_without_upcast(left: str, right: str, common: str) -> None:
    condition = torch.tensor([True, False, True], device=DEVICE)
    x = exact_value("tensor", left, 0).to(DEVICE)
    y = exact_value("tensor", right, 1).to(DEVICE)

    def build(fd: FusionDefinition) -> None:
        c = fd.define_tensor([-1], True, DataType.Bool)
        a, b = (fd.define_tensor([-1], True, data_type(each)) for each in (left, right))
        fd.add_output(fd.ops.where(c, a, b))

    (actual,) = run(build, [condition, x, y])
    assert_same(actual, torch.where(condition, x.to(TORCH[common]), y.to(TORCH[common])))


@pytest.mark.parametrize(
    ("left", "right", "result"),
    [("Float", "Float", "Float"), ("Double", "Double", "Double"), ("Float", "Double", "Double")],
)
def test_nextafter_dtypes(left: str, right: str, result: str) -> None:
    x, y = exact_value("tensor", left, 0).to(DEVICE), exact_value("tensor", right, 1).to(DEVICE)

    def build(fd: FusionDefinition) -> None:
        a, b = (fd.define_tensor([-1], True, data_type(each)) for each in (left, right))
        fd.add_output(fd.ops.nextafter(a, b))

    (actual,) = run(build, [x, y])
    assert_same(actual, torch.nextafter(x.to(TORCH[result]), y.to(TORCH[result])))


BAD: list[tuple[str, tuple[str, ...], str]] = [
    ("nextafter", ("Half", "Half"), ""),
    ("nextafter", ("Int", "Int"), ""),
    ("bitwise_not", ("Float",), ""),
    ("bitwise_and", ("Float", "Int"), ""),
    ("bitwise_or", ("Double", "Double"), ""),
    ("bitwise_xor", ("Half", "Half"), ""),
    ("bitwise_left_shift", ("Float", "Int"), ""),
    ("bitwise_right_shift", ("Int", "Float"), ""),
    ("logical_right_shift", ("Float", "Float"), ""),
    ("gcd", ("Float", "Float"), ""),
    ("imag", ("Float",), ""),
    ("complex", ("Float", "Double"), ""),
    ("complex", ("Int", "Int"), ""),
    ("add", ("UInt64", "Int"), ""),
    ("add", ("UInt64", "Float"), ""),
    ("where", ("Float", "Float", "Float"), "Condition should be of DataType Bool"),
    ("where", ("Int", "Float", "Float"), "Condition should be of DataType Bool"),
    ("atan2", ("ComplexFloat", "ComplexFloat"), ""),
    ("rand_like", ("Int",), ""),
    ("randn_like", ("Bool",), ""),
]


@pytest.mark.parametrize(("op", "dtypes", "message"), BAD, ids=lambda each: str(each))
def test_refused_dtypes(op: str, dtypes: tuple[str, ...], message: str) -> None:
    with FusionDefinition() as fd:
        tvs = [fd.define_tensor([-1], True, data_type(name)) for name in dtypes]
        with pytest.raises(RuntimeError, match=message) as error:
            getattr(fd.ops, op)(*tvs)
        assert str(error.value).strip()
        x = fd.define_tensor([-1], True)
        fd.add_output(fd.ops.neg(x))
    operands = [exact_value("tensor", name, 0).to(DEVICE) for name in dtypes]
    y = torch.ones(3, device=DEVICE)
    (actual,) = fd.execute([*operands, y])
    assert_same(actual, -y)


def test_positional_only_and_wrong_types() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1], True)
        for wrong in (
            lambda: fd.ops.add(lhs=x, rhs=x),
            lambda: fd.ops.neg(x=x),
            lambda: fd.ops.add(x),
            lambda: fd.ops.add(x, "1"),
            lambda: fd.ops.neg(x, x),
            lambda: fd.ops.permute(x, [0.0]),
            lambda: fd.ops.cast(x, "no_such_type"),
        ):
            with pytest.raises(TypeError):
                wrong()
