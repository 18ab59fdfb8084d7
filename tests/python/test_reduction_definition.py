# SPDX-License-Identifier: BSD-3-Clause
"""Reductions, statistics and scans as definitions: dtypes, text, errors, reference."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from helpers import assert_all_same, define
from nvfuse_direct import DataType, FusionDefinition
from nvfuse_direct.reference import evaluate

Definition = Callable[[FusionDefinition], object]


def text_of(definition: Definition) -> list[str]:
    """The lines of the translated definition without the header and the input declarations."""
    fd = define(definition)
    text = repr(fd)
    namespace: dict[str, object] = {"FusionDefinition": FusionDefinition, "DataType": DataType}
    exec(text, namespace)
    again = define(namespace["nvfuser_fusion"])
    assert repr(again) == text
    return [line.strip() for line in text.splitlines()[1:] if "define_tensor" not in line]


def one_input(op: Callable, shape: list[int], dtype: DataType = DataType.Float) -> Definition:
    def definition(fd: FusionDefinition) -> None:
        out = op(fd, fd.define_tensor(shape=shape, contiguity=True, dtype=dtype))
        for each in out if isinstance(out, tuple) else (out,):
            fd.add_output(each)

    return definition


def test_the_three_overloads() -> None:
    assert text_of(one_input(lambda fd, t: fd.ops.sum(t), [-1, -1])) == [
        "tv1 = fd.ops.sum(tv0, dims=[0, 1], dtype=DataType.Float)",
        "fd.add_output(tv1)",
    ]
    assert text_of(one_input(lambda fd, t: fd.ops.prod(t, -1, keepdim=True), [-1, -1])) == [
        "tv1 = fd.ops.prod(tv0, dims=[1], dtype=DataType.Float)",
        "tv2 = fd.ops.broadcast(tv1, is_broadcast_dim=[False, True])",
        "fd.add_output(tv2)",
    ]
    assert text_of(one_input(lambda fd, t: fd.ops.max(t, [-1, 0]), [-1, -1, -1])) == [
        "tv1 = fd.ops.max(tv0, dims=[0, 2])",
        "fd.add_output(tv1)",
    ]
    assert text_of(one_input(lambda fd, t: fd.ops.sum(t, DataType.Double), [-1])) == [
        "tv1 = fd.ops.cast(tv0, dtype=DataType.Double)",
        "tv2 = fd.ops.sum(tv1, dims=[0], dtype=DataType.Double)",
        "fd.add_output(tv2)",
    ]


def test_small_floats_are_combined_in_float() -> None:
    assert text_of(one_input(lambda fd, t: fd.ops.sum(t, 0), [-1], DataType.Half)) == [
        "tv1 = fd.ops.cast(tv0, dtype=DataType.Float)",
        "tv2 = fd.ops.sum(tv1, dims=[0], dtype=DataType.Float)",
        "tv3 = fd.ops.cast(tv2, dtype=DataType.Half)",
        "fd.add_output(tv3)",
    ]


def test_broadcast_and_expanded_dimensions() -> None:
    assert text_of(one_input(lambda fd, t: fd.ops.sum(t, [0, 1]), [1, -1])) == [
        "tv1 = fd.ops.squeeze(tv0, dims=[0])",
        "tv2 = fd.ops.sum(tv1, dims=[0], dtype=DataType.Float)",
        "fd.add_output(tv2)",
    ]

    def expanded(op: str) -> list[str]:
        return text_of(
            one_input(lambda fd, t: getattr(fd.ops, op)(fd.ops.expand(t, [5, -1]), 0), [1, -1])
        )[1:]

    squeezed = "tv2 = fd.ops.squeeze(tv1, dims=[0], squeeze_expanded=True)"
    five = "c0 = fd.define_scalar(5.00000, dtype=DataType.Float)"
    assert expanded("sum")[:3] == [squeezed, five, "tv3 = fd.ops.mul(tv2, c0)"]
    assert expanded("prod")[:3] == [squeezed, five, "tv3 = fd.ops.pow(tv2, c0)"]
    assert expanded("min") == [squeezed, "fd.add_output(tv2)"]


def test_no_elements_give_the_identity() -> None:
    for op, value in (("sum", 0.0), ("prod", 1.0), ("max", -math.inf), ("min", math.inf)):
        fd = define(one_input(lambda fd, t, op=op: getattr(fd.ops, op)(t, 0), [0, 3]))
        (out,) = evaluate(fd.fusion, [torch.empty(0, 3)])
        assert out.tolist() == [value] * 3, op


def test_welford_and_unused_results() -> None:
    def unused(fd: FusionDefinition) -> None:
        t = fd.define_tensor(shape=[-1, -1], contiguity=True)
        fd.add_output(fd.ops.welford(t, [1])[1])

    assert text_of(unused) == [
        "_, tv2, _ = fd.ops.welford(tv0, dims=[1])",
        "fd.add_output(tv2)",
    ]


def dtype_of(op: Callable, dtype: DataType) -> DataType:
    found = []

    def definition(fd: FusionDefinition) -> None:
        out = op(fd, fd.define_tensor(shape=[-1, -1], contiguity=True, dtype=dtype))
        found.append(out.dtype())
        fd.add_output(out)

    define(definition)
    return found[0]


D = DataType


@pytest.mark.parametrize(
    ("dtype", "sum_of", "mean_of"),
    [
        (D.Float, D.Float, D.Float),
        (D.Double, D.Double, D.Double),
        (D.Half, D.Half, D.Float),
        (D.BFloat16, D.BFloat16, D.Float),
        (D.Int, D.Int, D.Float),
        (D.Int32, D.Int, D.Float),
        (D.Bool, D.Int, D.Float),
        (D.ComplexFloat, D.ComplexFloat, D.Float),
        (D.ComplexDouble, D.ComplexDouble, D.Double),
    ],
)
def test_dtypes(dtype: DataType, sum_of: DataType, mean_of: DataType) -> None:
    assert dtype_of(lambda fd, t: fd.ops.sum(t, 0), dtype) == sum_of
    assert dtype_of(lambda fd, t: fd.ops.prod(t, 0), dtype) == sum_of
    assert dtype_of(lambda fd, t: fd.ops.sum(t, 0, dtype=D.Half), dtype) == D.Half
    assert dtype_of(lambda fd, t: fd.ops.var(t, [0]), dtype) == mean_of
    assert dtype_of(lambda fd, t: fd.ops.cumsum(t, 0), dtype) == dtype
    if dtype not in (D.ComplexFloat, D.ComplexDouble):
        assert dtype_of(lambda fd, t: fd.ops.max(t, 0), dtype) == dtype
        assert dtype_of(lambda fd, t: fd.ops.welford(t, [0])[2], dtype) == D.Index
    if dtype not in (D.Half, D.BFloat16):
        assert dtype_of(lambda fd, t: fd.ops.var_mean(t, [0])[0], dtype) == mean_of


@pytest.mark.parametrize(
    ("op", "error", "message"),
    [
        (lambda fd, t: fd.ops.sum(t, []), RuntimeError, "No reduction axis specified"),
        (lambda fd, t: fd.ops.sum(t, 2), RuntimeError, "out of boundary index"),
        (lambda fd, t: fd.ops.sum(t, [0, -2]), RuntimeError, "named twice"),
        (lambda fd, t: fd.ops.max(t, 0, dtype=D.Float), RuntimeError, "takes no dtype"),
        (lambda fd, t: fd.ops.min(fd.ops.complex(t, t), 0), RuntimeError, "complex"),
        (lambda fd, t: fd.ops.var(t, []), RuntimeError, "No reduction axis specified"),
        (lambda fd, t: fd.ops.var_mean(t, [0.0]), TypeError, "integers"),
        (lambda fd, t: fd.ops.var_mean(t, 1.0), TypeError, "list or tuple"),
        (lambda fd, t: fd.ops.var_mean(fd.ops.cast(t, D.Half), [0]), RuntimeError, "upcast"),
        (lambda fd, t: fd.ops.cumsum(t, 2), RuntimeError, "out of boundary index"),
        (lambda fd, t: fd.ops.cumsum(t, 1.0), TypeError, "incompatible function arguments"),
        (lambda fd, t: fd.ops.cumsum(fd.ops.sum(t), 0), RuntimeError, "rank 0"),
        (
            lambda fd, t: fd.ops.cumsum(fd.ops.broadcast_in_dim(t, [3, 4, 5], [1, 2]), 0),
            RuntimeError,
            "expanded",
        ),
    ],
)
def test_errors(op: Callable, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        define(one_input(op, [4, 5]))


def test_a_scalar_is_copied() -> None:
    def definition(fd: FusionDefinition) -> None:
        t = fd.define_tensor(shape=[], contiguity=[], dtype=D.Float)
        fd.add_output(fd.ops.sum(t))
        fd.add_output(fd.ops.max(t, -1))
        fd.add_output(fd.ops.sum(t, 0, dtype=D.Double))

    assert text_of(definition)[:2] == [
        "tv1 = fd.ops.cast(tv0, dtype=DataType.Float)",
        "tv2 = fd.ops.cast(tv0, dtype=DataType.Float)",
    ]
    x = torch.tensor(2.5)
    outs = evaluate(define(definition).fusion, [x])
    assert_all_same(outs, [x, x, x.double()])


def test_scans_of_broadcasts_are_copies() -> None:
    def definition(fd: FusionDefinition) -> None:
        t = fd.define_tensor(shape=[1, -1], contiguity=True)
        fd.add_output(fd.ops.cumsum(t, 0))
        fd.add_output(fd.ops.cumsum(t, 0, init=2.0))
        fd.add_output(fd.ops.cummax(t, 1, init=fd.define_scalar(0.5)))

    assert text_of(definition)[:5] == [
        "tv1 = fd.ops.cast(tv0, dtype=DataType.Float)",
        "c0 = fd.define_scalar(2.00000, dtype=DataType.Float)",
        "tv2 = fd.ops.add(tv0, c0)",
        "c1 = fd.define_scalar(0.500000, dtype=DataType.Float)",
        "tv3 = fd.ops.cummax(tv0, dim=1, init=c1)",
    ]


def test_the_reference_agrees_with_torch() -> None:
    x = torch.linspace(-2, 3, 60).reshape(3, 4, 5)

    def definition(fd: FusionDefinition) -> None:
        t = fd.from_pytorch(x)
        o = fd.ops
        for out in (
            o.sum(t, [0, 2]),
            o.prod(t, 1, keepdim=True),
            o.max(t, [1, 2]),
            o.min(t),
            o.var(t, [0, 1], correction=0),
            *o.var_mean(t, [2], keepdim=True),
            *o.welford(t, [1]),
            o.cumsum(t, 1),
            o.cumprod(t, -1),
            o.cummin(t, 0),
        ):
            fd.add_output(out)

    var, mean = torch.var_mean(x, [2], keepdim=True)
    expected = [
        x.sum([0, 2]),
        x.prod(1, keepdim=True),
        x.amax([1, 2]),
        x.min(),
        x.var([0, 1], correction=0),
        var,
        mean,
        x.mean(1),
        x.var(1, correction=0) * 4,
        torch.full((3, 5), 4),
        x.cumsum(1),
        x.cumprod(-1),
        x.cummin(0).values,
    ]
    assert_all_same(evaluate(define(definition).fusion, [x]), expected, rtol=1e-5, atol=1e-5)


def test_printed_ir() -> None:
    fd = define(one_input(lambda fd, t: fd.ops.sum(t, 1), [-1, -1]))
    text = str(fd.fusion.outputs()[0].definition())
    assert "rS" in text
    assert "op = add, initial value = float(0)" in text
