# SPDX-License-Identifier: BSD-3-Clause
"""Programs that once gave wrong values, died or were refused, and their neighbours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from helpers import DEVICE, assert_all_same, assert_same, define, run, run_python, tensor
from nvfuse_direct import DataType, FusionDefinition, ParallelType

Tensor = torch.Tensor


def vector(fd: FusionDefinition, contiguity: list[bool | None] | bool = True) -> Any:
    return fd.define_tensor(shape=[-1], contiguity=contiguity)


def matrix(fd: FusionDefinition) -> Any:
    return fd.define_tensor(shape=[-1, -1], contiguity=True)


# ------------------------------------------------------- one value broadcast along two axes


@pytest.mark.parametrize("first", ["input", "neg", "twice"])
@pytest.mark.parametrize("order", ["rows", "columns"])
@pytest.mark.parametrize("statistic", ["var", "mean", "m2", "sum", "max", "prod"])
def test_statistics_of_one_value_along_two_axes(statistic: str, order: str, first: str) -> None:
    """x[None, :] times a statistic of x[:, None] over its rows, and the other way around."""
    row, column = ([True, False], [False, True])
    if order == "columns":
        row, column = column, row
    axis = 0 if order == "rows" else 1

    def definition(fd: FusionDefinition) -> None:
        o = fd.ops
        x = vector(fd)
        y = {"input": lambda: x, "neg": lambda: o.neg(x), "twice": lambda: o.mul(x, 2.0)}[first]()
        spread = o.broadcast(y, column)
        if statistic in ("var", "mean"):
            both = o.var_mean(spread, [axis], 0, True)
            value = both[0 if statistic == "var" else 1]
        elif statistic == "m2":
            value = o.broadcast(o.welford(spread, [axis])[1], [axis == 0, axis == 1])
        else:
            value = getattr(o, statistic)(spread, [axis], keepdim=True)
        fd.add_output(o.mul(o.broadcast(y, row), value))
        fd.add_output(o.add(spread, value))

    for n in (1, 5, 300):
        x = tensor(n) / 2
        y = {"input": x, "neg": -x, "twice": 2 * x}[first].double()
        value = {
            "var": lambda y=y: y.var(correction=0),
            "mean": y.mean,
            "m2": lambda y=y: y.var(correction=0) * len(y),
            "sum": y.sum,
            "max": y.max,
            "prod": y.prod,
        }[statistic]()
        outer = (y[None, :], y[:, None]) if order == "rows" else (y[:, None], y[None, :])
        results = run(definition, [x])
        expected = [(outer[0] * value).float(), (outer[1] + value).float()]
        assert_all_same(results, expected, rtol=1e-4, atol=1e-4)


def test_softmax_of_a_row_beside_its_column() -> None:
    def definition(fd: FusionDefinition) -> None:
        o = fd.ops
        x = vector(fd)
        column = o.broadcast(x, [False, True])
        power = o.exp(o.sub(column, o.max(column, [0], keepdim=True)))
        share = o.div(power, o.sum(power, [0], keepdim=True))
        fd.add_output(o.mul(o.broadcast(x, [True, False]), share))

    x = tensor(70)
    expected = x.double()[None, :] * x.double().softmax(0)[:, None]
    assert_same(run(definition, [x])[0], expected.float(), rtol=1e-5, atol=1e-6)


# --------------------------------------------------------------------- concretized expands


@pytest.mark.parametrize("scan", ["cumsum", "cumprod", "cummax", "cummin"])
@pytest.mark.parametrize("computed", [False, True])
def test_scan_along_a_dimension_that_turns_out_expanded(scan: str, computed: bool) -> None:
    def definition(fd: FusionDefinition) -> None:
        o = fd.ops
        x = matrix(fd)
        rows = o.size(x, 0)
        column = o.slice(o.neg(x) if computed else x, [0, 1], [rows, 2])
        wide = o.expand(column, [rows, 4])
        fd.add_output(getattr(o, scan)(wide, 1))
        fd.add_output(getattr(o, scan)(wide, 0))

    fd = define(definition)
    for shape in ((3, 2), (1, 5), (0, 3)):
        x = tensor(*shape)
        wide = (-x if computed else x)[:, 1:2].expand(-1, 4)
        expected = [getattr(torch, scan)(wide, dim) for dim in (1, 0)]
        expected = [each if isinstance(each, Tensor) else each[0] for each in expected]
        assert_all_same(fd.execute([x], device=DEVICE), expected, rtol=1e-5, atol=1e-6)


def test_ops_behind_a_dimension_that_turns_out_expanded() -> None:
    def definition(fd: FusionDefinition) -> None:
        o = fd.ops
        x = matrix(fd)
        index = fd.define_tensor(shape=[-1], contiguity=True, dtype=DataType.Int)
        rows = o.size(x, 0)
        wide = o.expand(o.slice(x, [0, 1], [rows, 2]), [rows, 4])
        for output in (
            wide,
            o.sum(wide, [1]),
            o.max(wide, [1]),
            o.prod(wide, [1]),
            o.var(wide, [1]),
            o.pad(wide, [1, 2]),
            o.cat([wide, x], 1),
            o.reshape(wide, [-1]),
            o.permute(wide, [1, 0]),
            o.slice(wide, [0, 1], [rows, 3]),
            o.index_select(wide, index, 1),
            o.triu(wide),
        ):
            fd.add_output(output)

    fd = define(definition)
    for rows in (3, 1, 4):
        x, index = tensor(rows, 2), torch.tensor([3, 0, 1], device=DEVICE)
        wide = x[:, 1:2].expand(-1, 4)
        expected = [
            wide,
            wide.sum(1),
            wide.amax(1),
            wide.prod(1),
            torch.zeros_like(x[:, 0]),
            torch.nn.functional.pad(wide, [1, 2]),
            torch.cat([wide, x], 1),
            wide.reshape(-1),
            wide.t(),
            wide[:, 1:3],
            wide[:, index],
            wide.triu(),
        ]
        assert_all_same(fd.execute([x, index], device=DEVICE), expected, rtol=1e-5, atol=1e-5)


EXPANSIONS: dict[str, Callable[[FusionDefinition, Any], Any]] = {
    "expand": lambda fd, x: fd.ops.expand(x, [2, 5]),
    "broadcast_in_dim": lambda fd, x: fd.ops.broadcast_in_dim(x, [2, 5, 7], [0, 1]),
    "by a scalar": lambda fd, x: fd.ops.expand(x, [2, fd.define_scalar(DataType.Int)]),
    "of a permutation": lambda fd, x: fd.ops.expand(fd.ops.permute(x, [0, 1]), [2, 5]),
    "computed": lambda fd, x: fd.ops.expand(fd.ops.neg(x), [2, 5]),
    "then sliced": lambda fd, x: fd.ops.slice(fd.ops.expand(x, [2, 5]), [0, 0], [2, 2]),
}


@pytest.mark.parametrize("name", EXPANSIONS)
def test_sizes_behind_outputs_without_a_kernel_are_checked(name: str) -> None:
    def definition(fd: FusionDefinition) -> None:
        fd.add_output(EXPANSIONS[name](fd, matrix(fd)))

    with FusionDefinition() as fd:
        definition(fd)
    scalars = [5] if name == "by a scalar" else []
    for shape in ((2, 3), (3, 5), (2, 1)):
        with pytest.raises(RuntimeError, match=r"Sizes do not agree|has size"):
            fd.execute([tensor(*shape), *scalars], device=DEVICE)
    fd.execute([tensor(2, 5), *scalars], device=DEVICE)


def test_sizes_behind_an_empty_output_are_checked() -> None:
    def definition(fd: FusionDefinition) -> None:
        x, y = matrix(fd), matrix(fd)
        fd.add_output(fd.ops.add(x, y))

    with pytest.raises(RuntimeError, match="Sizes do not agree"):
        run(definition, [tensor(0, 3), tensor(0, 4)])
    with pytest.raises(RuntimeError, match="element counts"):
        run(lambda fd: fd.add_output(fd.ops.reshape(matrix(fd), [0])), [tensor(2, 3)])


# --------------------------------------------------------------------------- empty inputs


def test_softmax_statistics_of_nothing() -> None:
    def definition(fd: FusionDefinition) -> None:
        o = fd.ops
        x = fd.define_tensor(shape=[-1, 3], contiguity=True)
        power = o.exp(o.sub(x, o.max(x, [0], keepdim=True)))
        fd.add_output(o.sum(power, [0]))

    fd = define(definition)
    assert_same(fd.execute([tensor(0, 3)], device=DEVICE)[0], torch.zeros(3))
    x = tensor(4, 3)
    x[0, 1], x[:, 2] = torch.inf, -torch.inf
    expected = (x - x.amax(0, keepdim=True)).exp().sum(0)
    assert_same(fd.execute([x], device=DEVICE)[0], expected, rtol=1e-5)


@pytest.mark.parametrize("first", ["max", "min", "sum", "prod"])
@pytest.mark.parametrize("second", ["max", "min", "sum", "prod"])
@pytest.mark.parametrize("dim", [0, 1])
def test_reductions_of_what_an_empty_reduction_gave(first: str, second: str, dim: int) -> None:
    """The tensor between them is empty, what the second one makes of it is not."""
    identity = {"max": -torch.inf, "min": torch.inf, "sum": 0.0, "prod": 1.0}

    def definition(fd: FusionDefinition) -> None:
        o = fd.ops
        x = matrix(fd)
        between = o.exp(o.sub(x, getattr(o, first)(x, [dim], keepdim=True)))
        fd.add_output(o.add(getattr(o, second)(between, [dim]), 1.0))
        fd.add_output(getattr(o, first)(x, [dim]))

    shape = (0, 3) if dim == 0 else (3, 0)
    expected = [torch.full((3,), identity[second] + 1), torch.full((3,), identity[first])]
    assert_all_same(run(definition, [tensor(*shape)]), expected)


OF_A_VECTOR: dict[str, tuple[Callable[[Any, Any], Any], Callable[[Tensor], Tensor]]] = {
    "sum": (lambda o, x: o.sum(x, [0]), lambda x: x.sum(0)),
    "prod": (lambda o, x: o.prod(x, [0]), lambda x: x.prod(0)),
    "max": (
        lambda o, x: o.max(x, [0]),
        lambda x: x.amax(0) if len(x) else torch.tensor(-torch.inf),
    ),
    "min": (
        lambda o, x: o.min(x, [0]),
        lambda x: x.amin(0) if len(x) else torch.tensor(torch.inf),
    ),
    "var": (lambda o, x: o.var(x, [0]), lambda x: x.var(0)),
    "mean": (lambda o, x: o.var_mean(x, [0], 1, False)[1], lambda x: x.mean(0)),
    "pad": (lambda o, x: o.pad(x, [1, 1]), lambda x: torch.nn.functional.pad(x, [1, 1])),
    "cat": (lambda o, x: o.cat([x, x], 0), lambda x: torch.cat([x, x])),
    "neg": (lambda o, x: o.neg(x), lambda x: -x),
    "reshape": (lambda o, x: o.reshape(x, [-1, 1]), lambda x: x.reshape(-1, 1)),
    "cumsum": (lambda o, x: o.cumsum(o.pad(x, [0, 1]), 0), lambda x: _padded(x).cumsum(0)),
    "matrix": (
        lambda o, x: o.add(o.broadcast(x, [True, False]), o.broadcast(x, [True, False])),
        lambda x: 2 * x[None],
    ),
}


def _padded(x: Tensor) -> Tensor:
    return torch.nn.functional.pad(x, [0, 1])


@pytest.mark.filterwarnings("ignore:var")
@pytest.mark.parametrize("name", OF_A_VECTOR)
@pytest.mark.parametrize("sizes", [(3, 0, 1, 4), (0, 3)])
def test_expanded_inputs_of_any_size(name: str, sizes: tuple[int, ...]) -> None:
    """With no elements the input has no memory: its address may be null."""
    build, reference = OF_A_VECTOR[name]
    fd = define(lambda fd: fd.add_output(build(fd.ops, vector(fd, [None]))))
    for size in sizes:
        one = torch.full((1,), 2.0, device=DEVICE)
        nowhere = torch.empty(0, device=DEVICE).as_strided((0,), (0,))
        for x in (one.expand(size), *([nowhere] if size == 0 else [])):
            (result,) = fd.execute([x], device=DEVICE)
            assert_same(result, reference(x.cpu()), rtol=1e-6)


def test_squeeze_of_an_input_expanded_to_nothing() -> None:
    """There is no element: none is read, and what comes out is 0."""

    def definition(fd: FusionDefinition) -> None:
        squeezed = fd.ops.squeeze(vector(fd, [None]), [0], squeeze_expanded=True)
        fd.add_output(squeezed)
        fd.add_output(fd.ops.add(squeezed, 1.0))

    fd = define(definition)
    nowhere = torch.empty(0, device=DEVICE).as_strided((0,), (0,))
    expected = [torch.tensor(0.0), torch.tensor(1.0)]
    assert_all_same(fd.execute([nowhere], device=DEVICE), expected)
    expected = [torch.tensor(2.0), torch.tensor(3.0)]
    x = torch.full((1,), 2.0, device=DEVICE).expand(3)
    assert_all_same(fd.execute([x], device=DEVICE), expected)


def test_schedule_by_hand_of_an_input_expanded_to_nothing() -> None:
    fd = define(lambda fd: fd.add_output(fd.ops.sum(vector(fd, [None]), [0])))
    x = torch.full((1,), 2.0, device=DEVICE).expand(3)
    assert_same(fd.manual_execute([x])[0], torch.tensor(6.0))
    nowhere = torch.empty(0, device=DEVICE).as_strided((0,), (0,))
    with pytest.raises(RuntimeError, match=r"Input 0, .* is expanded to size 0"):
        fd.manual_execute([nowhere])


def test_expanded_dimensions_beside_others() -> None:
    def definition(fd: FusionDefinition) -> None:
        x = fd.define_tensor(shape=[-1, -1], contiguity=[True, None])
        y = fd.define_tensor(shape=[-1, -1], contiguity=True)
        fd.add_output(fd.ops.sum(fd.ops.mul(x, 2.0), [1]))
        fd.add_output(fd.ops.max(x, [0]))
        fd.add_output(fd.ops.add(x, y))

    fd = define(definition)
    for rows, columns in ((3, 4), (3, 0), (0, 4), (0, 0)):
        x, y = tensor(rows, 1).expand(rows, columns), tensor(rows, columns)
        top = x.amax(0) if rows else torch.full((columns,), -torch.inf)
        expected = [(2 * x).sum(1), top, x + y]
        assert_all_same(fd.execute([x, y], device=DEVICE), expected, rtol=1e-6)


# --------------------------------------------------------------------------------- select


@pytest.mark.parametrize("kind", ["constant", "scalar", "tensor"])
@pytest.mark.parametrize("dim", [0, 1, 2])
def test_select_of_what_is_computed(kind: str, dim: int) -> None:
    def definition(fd: FusionDefinition, position: int) -> None:
        o = fd.ops
        x = fd.define_tensor(shape=[-1, -1, -1], contiguity=True)
        if kind == "constant":
            index = fd.define_scalar(position, DataType.Int)
        elif kind == "scalar":
            index = fd.define_scalar(DataType.Int)
        else:
            index = fd.define_tensor(shape=[], dtype=DataType.Int)
        fd.add_output(o.select(o.add(x, 1.0), index, dim))
        fd.add_output(o.select(x, index, dim))
        fd.add_output(o.sum(o.select(o.exp(o.neg(x)), index, dim), [0]))
        fd.add_output(o.select(o.select(o.mul(x, x), index, dim), index, 0))

    x = tensor(4, 5, 6)
    for position in (0, 2, 3, -1, -4):
        fd = define(lambda fd, position=position: definition(fd, position))
        index: list[object] = {
            "constant": [],
            "scalar": [position],
            "tensor": [torch.tensor(position, device=DEVICE)],
        }[kind]
        expected = [
            (x + 1).select(dim, position),
            x.select(dim, position),
            (-x).exp().select(dim, position).sum(0),
            (x * x).select(dim, position).select(0, position),
        ]
        assert_all_same(fd.execute([x, *index], device=DEVICE), expected, rtol=1e-5)


def test_select_out_of_range_of_what_is_computed() -> None:
    """Zero, whatever the op would make of it, as for what is in memory."""

    def definition(fd: FusionDefinition) -> None:
        x = matrix(fd)
        index = fd.define_tensor(shape=[], dtype=DataType.Int32)
        scalar = fd.define_scalar(DataType.Int)
        for i in (index, scalar):
            fd.add_output(fd.ops.select(fd.ops.add(x, 1.0), i, 0))
            fd.add_output(fd.ops.select(x, i, 0))

    fd = define(definition)
    for position in (3, -4, 2**31 - 1):
        index = torch.tensor(position, dtype=torch.int32, device=DEVICE)
        results = fd.execute([tensor(3, 5), index, position], device=DEVICE)
        assert_all_same(results, [torch.zeros(5)] * 4)


# ------------------------------------------------------------------------ in-place updates


@pytest.mark.parametrize("outputs", ["yya", "yay", "ayy", "aya", "ya", "aa", "yyayy"])
@pytest.mark.parametrize("offset", [0, 3, 8])
def test_one_value_as_several_outputs_and_an_update(outputs: str, offset: int) -> None:
    """`a` writes to the input, `y` returns the value."""

    def definition(fd: FusionDefinition) -> None:
        x = vector(fd)
        y = fd.ops.neg(x)
        for each in outputs:
            fd.add_output(y, alias_input=x) if each == "a" else fd.add_output(y)

    fd = define(definition)
    storage = tensor(20)
    x = storage[offset : offset + 5]
    expected = x.clone()
    for _ in range(2):
        expected = -expected
        results = fd.execute([x], device=DEVICE)
        assert_all_same(results, [expected] * outputs.count("y"))
        assert_same(x, expected)


def test_two_updates_with_offsets_and_doubled_outputs() -> None:
    def definition(fd: FusionDefinition) -> None:
        x, z = vector(fd), vector(fd)
        y, w = fd.ops.add(x, z), fd.ops.mul(x, z)
        for each in (y, w, y):
            fd.add_output(each)
        fd.add_output(w, alias_input=x)
        fd.add_output(y, alias_input=z)
        fd.add_output(w)

    fd = define(definition)
    x, z = tensor(20)[3:8], tensor(20, seed=1)[1:6]
    y, w = x + z, x * z
    assert_all_same(fd.execute([x, z], device=DEVICE), [y, w, y, w])
    assert_all_same([x, z], [w, y])


# -------------------------------------------------------------------- slices of expansions


def test_slice_of_size_1_of_an_expanded_dimension_broadcasts() -> None:
    def definition(fd: FusionDefinition) -> None:
        x, y = vector(fd, [None]), vector(fd)
        fd.add_output(fd.ops.mul(fd.ops.slice(x, [2], [3]), y))

    assert_same(
        run(definition, [torch.full((1,), 3.0, device=DEVICE).expand(5), tensor(4)])[0],
        3 * tensor(4),
    )


def test_slice_by_scalars_of_an_expanded_dimension() -> None:
    def definition(fd: FusionDefinition) -> None:
        o = fd.ops
        x = fd.define_tensor(shape=[-1, -1], contiguity=[True, None])
        y = matrix(fd)
        start, stop = (fd.define_scalar(DataType.Int) for _ in range(2))
        part = o.slice(x, [0, start], [o.size(x, 0), stop])
        fd.add_output(o.mul(part, y))
        fd.add_output(o.sum(part, [1]))
        fd.add_output(o.max(o.neg(part), [1]))
        fd.add_output(part)
        fd.add_output(o.cumsum(part, 1))

    fd = define(definition)
    x = tensor(3, 1).expand(3, 7)
    for start, stop, columns in ((2, 3, 4), (2, 3, 1), (1, 5, 4), (2, 2, 0), (0, 7, 7)):
        part, y = x[:, start:stop], tensor(3, columns)
        top = (-part).amax(1) if stop > start else torch.full((3,), -torch.inf)
        expected = [part * y, part.sum(1), top, part, part.cumsum(1)]
        results = fd.execute([x, y, start, stop], device=DEVICE)
        assert_all_same(results, expected, rtol=1e-6)
    with pytest.raises(RuntimeError, match="Sizes do not agree"):
        fd.execute([x, tensor(3, 5), 1, 4], device=DEVICE)


# ------------------------------------------------------------------------- index by floats


def test_floats_are_no_positions_but_for_take_along_axis() -> None:
    x, index = tensor(4, 3), torch.tensor([[2.0, 0.0, 3.0]], device=DEVICE)

    def refused(build: Callable[[Any, Any, Any], Any]) -> None:
        with pytest.raises(RuntimeError, match=r"must hold integers|must be an integer"):
            define(
                lambda fd: build(
                    fd.ops, matrix(fd), fd.define_tensor(shape=[-1, -1], contiguity=True)
                )
            )

    refused(lambda o, x, i: o.gather(x, i, 0))
    refused(lambda o, x, i: o.scatter(x, i, x, 0))
    refused(lambda o, x, i: o.index_select(x, o.reshape(i, [-1]), 0))
    refused(lambda o, x, i: o.select(x, o.sum(i, [0, 1]), 0))
    refused(lambda o, x, i: o.select(x, 1.0, 0))

    def definition(fd: FusionDefinition) -> None:
        fd.add_output(fd.ops.take_along_axis(matrix(fd), matrix(fd), 0))

    assert_same(run(definition, [x, index])[0], x.gather(0, index.long()))


# ----------------------------------------------------------------------- division by zero


def by_zero(x: Tensor) -> Tensor:
    """Quotient and remainder on CUDA (test_fmod_remainder_by_zero_integral of torch)."""
    if x.dtype == torch.int32:
        return torch.full_like(x, -1)
    return torch.where((x >= 0) & (x < 2**32), 2**32 - 1, torch.full_like(x, -1))


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32])
@pytest.mark.parametrize("name", ["div", "mod", "fmod", "remainder"])
def test_integer_division_by_zero(name: str, dtype: torch.dtype) -> None:
    """The value that torch gives on CUDA, on both targets (torch raises an error on the CPU)."""
    kind = DataType.Int if dtype == torch.int64 else DataType.Int32

    def definition(fd: FusionDefinition) -> None:
        x, y = (fd.define_tensor(shape=[-1], contiguity=True, dtype=kind) for _ in range(2))
        s = fd.define_scalar(DataType.Int)
        op = getattr(fd.ops, name)
        for output in (op(x, y), op(x, s)):
            fd.add_output(output)

    large = [2**31, 2**32 - 1, 2**32, 2**40, -(2**40), -(2**63)] if dtype == torch.int64 else []
    x = torch.tensor([0, 1, -1, 7, -7, 2**31 - 1, -(2**31), *large], device=DEVICE).to(dtype)
    y = torch.zeros_like(x)
    y[3:5] = 2
    if DEVICE.type == "cuda":
        like_torch = {
            "div": lambda a, b: torch.div(a, b, rounding_mode="trunc"),
            "remainder": torch.remainder,
        }.get(name, torch.fmod)
        expected = [like_torch(x, y), like_torch(x, torch.zeros_like(x))]
        assert_same(by_zero(x), expected[1])
    else:
        expected = [by_zero(x), by_zero(x)]
        rest = {"div": [3, -3], "remainder": [1, 1]}.get(name, [1, -1])
        expected[0][3:5] = torch.tensor(rest, dtype=dtype)
    fd = define(definition)
    results = fd.execute([x, y, 0], device=DEVICE)
    assert results[1].dtype == dtype
    assert_all_same(results, expected)


def test_the_evaluator_divides_by_zero_as_kernels_do() -> None:
    program = """
        import torch
        from nvfuse_direct import DataType, FusionDefinition
        with FusionDefinition() as fd:
            def vector(dtype):
                return fd.define_tensor(shape=[-1], contiguity=True, dtype=dtype)
            x, y = vector(DataType.Int), vector(DataType.Int)
            p, q = vector(DataType.Int32), vector(DataType.Int32)
            for name in ("div", "mod", "fmod", "remainder"):
                fd.add_output(getattr(fd.ops, name)(x, y))
                fd.add_output(getattr(fd.ops, name)(p, q))
        x = torch.tensor([0, 5, -5, 9, 2**40, -2**40])
        y = torch.tensor([0, 0, 0, 4, 0, 7])
        for out in fd.execute([x, y, x.int(), y.int()], device=torch.device("cpu")):
            print(out.tolist())
    """
    compiled = run_python(program)
    evaluated = run_python(program, env={"NVFUSER_HOST_CXX": "none"})
    assert compiled.returncode == 0, compiled.stderr
    assert evaluated.returncode == 0, evaluated.stderr
    assert compiled.stdout.count("[") == 8
    assert compiled.stdout == evaluated.stdout


# ------------------------------------------------------------------ complex inverse functions


@pytest.mark.parametrize("name", ["acos", "acosh", "asin", "asinh", "atan", "atanh"])
@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
def test_complex_inverse_functions_at_special_values(name: str, dtype: torch.dtype) -> None:
    inf, nan = torch.inf, torch.nan
    parts = [inf, -inf, nan, 0.0, -0.0, 1.0, -1.0, 0.5, 2.0]
    z = torch.tensor([complex(a, b) for a in parts for b in parts], dtype=dtype)

    def definition(fd: FusionDefinition) -> None:
        kind = DataType.ComplexFloat if dtype == torch.complex64 else DataType.ComplexDouble
        x = fd.define_tensor(shape=[-1], contiguity=True, dtype=kind)
        fd.add_output(getattr(fd.ops, name)(x))

    (result,) = run(definition, [z.to(DEVICE)])
    got, want = torch.view_as_real(result.cpu()), torch.view_as_real(getattr(torch, name)(z))
    same = torch.isclose(got, want, rtol=1e-5, equal_nan=True)
    # Of infinities the sign of a zero is that of the limit (C17, annex G.6), unless the other part
    # is no number. Elsewhere torch's sign of a zero depends on its vector instructions.
    parts_of_z = torch.view_as_real(z)
    special = (parts_of_z.isinf().any(-1) & ~parts_of_z.isnan().any(-1))[:, None]
    same &= (torch.signbit(got) == torch.signbit(want)) | torch.isnan(want) | ~special
    wrong = (~same.all(-1)).nonzero()[:, 0].tolist()
    assert not wrong, [(z[i].item(), result[i].item(), want[i].tolist()) for i in wrong]


# --------------------------------------------------------------------------------- uniform


@pytest.mark.parametrize("dtype", [torch.half, torch.bfloat16])
@pytest.mark.parametrize("low, high", [(-1.5, 3.7), (0.0, 1.0), (-3.7, -1.3), (-1.0, 0.0)])
def test_uniform_stays_below_the_bound_in_its_dtype(
    dtype: torch.dtype, low: float, high: float
) -> None:
    kind = DataType.Half if dtype == torch.half else DataType.BFloat16

    def definition(fd: FusionDefinition) -> None:
        seed, offset = fd.define_scalar(DataType.Int), fd.define_scalar(DataType.Int)
        fd.add_output(
            fd.ops.uniform(low, high, [1 << 18], rng_seed=seed, rng_offset=offset, dtype=kind)
        )

    fd = define(definition)
    bound = torch.tensor(high, dtype=dtype)
    step = torch.nextafter(bound.cpu(), torch.tensor(-torch.inf, dtype=dtype))
    for seed in range(4):
        values = fd.execute([seed, 0], device=DEVICE)[0].cpu()
        assert bool((values < bound).all()), (values.max(), bound)
        assert bool((values.float() >= torch.tensor(low, dtype=dtype).float()).all())
        if high != 0.0:
            assert values.max() == step


def test_uniform_in_an_interval_without_a_number_below_its_bound() -> None:
    def definition(fd: FusionDefinition) -> None:
        seed, offset = fd.define_scalar(DataType.Int), fd.define_scalar(DataType.Int)
        fd.add_output(
            fd.ops.uniform(
                1.0, 1.0001, [1000], rng_seed=seed, rng_offset=offset, dtype=DataType.Half
            )
        )

    assert_same(run(definition, [3, 0])[0], torch.ones(1000, dtype=torch.half))


# --------------------------------------------------------------------------------- reshape


@pytest.mark.parametrize("scale", [1, 3, 12, 49, 96])
def test_reshape_to_sizes_computed_in_floating_point(scale: int) -> None:
    """n * (1 / n) may be a little less than 1: sizes are the nearest integers."""
    sizes = {
        "Int": lambda o, s: o.mul(scale * 4, o.reciprocal(s)),
        "Double": lambda o, s: o.mul(float(scale * 4), o.reciprocal(s)),
    }
    for kind, size in sizes.items():

        def definition(fd: FusionDefinition, kind: str = kind, size: Any = size) -> None:
            x = matrix(fd)
            s = fd.define_scalar(getattr(DataType, kind))
            fd.add_output(fd.ops.reshape(x, [size(fd.ops, s), -1]))
            fd.add_output(fd.ops.reshape(fd.ops.neg(x), [-1, size(fd.ops, s)]))

        x = tensor(12, 16)
        results = run(definition, [x, scale if kind == "Int" else float(scale)])
        assert_all_same(results, [x.reshape(4, -1), -x.reshape(-1, 4)])


def test_reshape_to_a_size_that_is_no_number() -> None:
    def definition(fd: FusionDefinition) -> None:
        x, s = matrix(fd), fd.define_scalar(DataType.Double)
        fd.add_output(fd.ops.reshape(x, [fd.ops.reciprocal(s), -1]))

    with pytest.raises(RuntimeError, match="reshape"):
        run(definition, [tensor(2, 3), 0.0])


# ------------------------------------------------------------------------------------ iota


@pytest.mark.parametrize("length", [2**62, 2**48])
@pytest.mark.parametrize("symbolic", [False, True])
def test_iota_that_no_memory_holds(length: int, symbolic: bool) -> None:
    def definition(fd: FusionDefinition) -> None:
        n = fd.define_scalar(DataType.Int) if symbolic else length
        fd.add_output(fd.ops.neg(fd.ops.iota(n)))

    with pytest.raises(RuntimeError, match=f"iota: a length of {length} is too large"):
        run(definition, [length] if symbolic else [])


# -------------------------------------------------------------------------------- schedules


def scheduled(
    build: Callable[[FusionDefinition, Any], Any],
    schedule: Callable[[FusionDefinition, Any], None],
    sizes: list[int] | None = None,
) -> FusionDefinition:
    """A fusion of one matrix, scheduled by hand; `build` gives what `schedule` needs."""
    with FusionDefinition() as fd:
        x = matrix(fd) if sizes is None else fd.define_tensor(shape=sizes, contiguity=True)
        schedule(fd, build(fd, x))
    return fd


@pytest.mark.parametrize("axis", [1, 2])
@pytest.mark.parametrize("program", ["centred", "softmax", "two sums", "variance"])
@pytest.mark.parametrize("bound", [False, True])
def test_inline_most_after_rfactor(program: str, axis: int, bound: bool) -> None:
    """What is read again after the reduction shares no loop with its first step."""

    def build(fd: FusionDefinition, x: Any) -> tuple[Any, list[Any]]:
        o = fd.ops
        wide = lambda tv: o.broadcast(tv, [False, True])  # noqa: E731
        doubled = o.mul(x, 2.0)
        if program == "softmax":
            top = o.max(doubled, [1])
            power = o.exp(o.sub(doubled, wide(top)))
            reductions = [top, o.sum(power, [1])]
            y = o.div(power, wide(reductions[1]))
        elif program == "variance":
            total = o.sum(doubled, [1])
            away = o.sub(doubled, wide(o.mul(total, 1 / 300)))
            reductions = [total, o.sum(o.mul(away, away), [1])]
            y = o.add(away, wide(reductions[1]))
        else:
            reductions = [o.sum(doubled, [1])]
            y = o.sub(doubled, wide(reductions[0]))
            if program == "two sums":
                fd.add_output(o.max(o.neg(doubled), [1]))
        fd.add_output(y)
        return y, reductions

    def schedule(fd: FusionDefinition, built: tuple[Any, list[Any]]) -> None:
        y, reductions = built
        y.split(1, 64)
        fd.sched.transform_like(y)
        for tv in reductions:
            tv.rfactor([axis])
        if bound:
            y.axis(0).parallelize(ParallelType.grid_x)
            y.axis(2).parallelize(ParallelType.block_x)
            fd.sched.parallelize_like(y)
        fd.sched.inline_most()

    x = tensor(6, 300)
    d = 2 * x.double()
    away = d - d.mean(1, keepdim=True)
    expected = {
        "centred": [d - d.sum(1, keepdim=True)],
        "softmax": [d.softmax(1)],
        "two sums": [(-d).amax(1), d - d.sum(1, keepdim=True)],
        "variance": [away + away.square().sum(1, keepdim=True)],
    }[program]
    results = scheduled(build, schedule, [6, 300]).manual_execute([x])
    assert_all_same(results, [each.float() for each in expected], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("loops", [1, 2])
@pytest.mark.parametrize("op", ["sum", "max"])
def test_grid_reduction_inside_serial_loops(op: str, loops: int) -> None:
    """Each iteration has partials and a counter of its own; another block may be the last one."""

    def build(fd: FusionDefinition, x: Any) -> Any:
        total = getattr(fd.ops, op)(x, [1])
        fd.add_output(fd.ops.mul(total, 2.0))
        return total

    def schedule(fd: FusionDefinition, total: Any) -> None:
        total.split(1, 64)
        total.axis(1).parallelize(ParallelType.grid_x)
        total.axis(2).parallelize(ParallelType.block_x)
        if loops == 2:
            total.split(0, 3)
        fd.sched.transform_like(total)
        fd.sched.inline_most()

    fd = scheduled(build, schedule)
    for shape in ((7, 300), (1, 65), (40, 1000)):
        x = tensor(*shape)
        reduced = x.sum(1) if op == "sum" else x.amax(1)
        for _ in range(3):
            (result,) = fd.manual_execute([x])
            assert_same(result, 2 * reduced, rtol=1e-4, atol=1e-4)


def test_grid_reduction_of_all_blocks_inside_a_serial_loop() -> None:
    def build(fd: FusionDefinition, x: Any) -> Any:
        total = fd.ops.sum(x, [1])
        y = fd.ops.sub(x, fd.ops.broadcast(total, [False, True]))
        fd.add_output(y)
        return y

    def schedule(fd: FusionDefinition, y: Any) -> None:
        y.split(1, 64)
        fd.sched.transform_like(y)
        y.axis(1).parallelize(ParallelType.grid_x)
        y.axis(2).parallelize(ParallelType.block_x)
        fd.sched.parallelize_like(y)
        fd.sched.inline_at(y, 1, best_effort=True)

    fd = scheduled(build, schedule)
    for _ in range(3):
        x = tensor(9, 300)
        expected = x - x.sum(1, keepdim=True)
        assert_same(fd.manual_execute([x])[0], expected, rtol=1e-4, atol=1e-4)


def test_grid_reduction_whose_result_leaves_the_loop_is_refused() -> None:
    """Of several iterations the last blocks differ: none has all results."""

    def build(fd: FusionDefinition, x: Any) -> Any:
        total = fd.ops.sum(x, [1])
        fd.add_output(fd.ops.mul(total, 2.0))
        return total

    def schedule(fd: FusionDefinition, total: Any) -> None:
        total.split(1, 64)
        total.axis(1).parallelize(ParallelType.grid_x)
        total.axis(2).parallelize(ParallelType.block_x)

    with pytest.raises(RuntimeError, match="is computed of it outside"):
        scheduled(build, schedule).manual_execute([tensor(7, 300)])
