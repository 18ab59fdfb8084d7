# SPDX-License-Identifier: BSD-3-Clause
"""The transpose scheduler: both sides of a permute in vectors, through shared memory."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence

import pytest
import torch
from helpers import DEVICE, ON_CUDA, TORCH, assert_same, data_type, define, row_major, run_python
from nvfuse_direct import DataType, FusionDefinition, SchedulerType, TransposeParams

extension = pytest.importorskip("nvfuse_direct._C_DIRECT")

Build = Callable[[FusionDefinition, Sequence[object]], object]
SIZES = [
    (64, 64),
    (128, 192),
    (1, 1),
    (1, 130),
    (257, 1),
    (72, 88),
    (63, 65),
    (5, 1000),
    (130, 66),
    (3, 7),
]
DTYPES = [
    "Bool",
    "BFloat16",
    "Half",
    "Float",
    "Double",
    "Int",
    "Int32",
    "ComplexFloat",
    "ComplexDouble",
]


def build(definition: Build, inputs: Sequence[torch.Tensor]) -> FusionDefinition:
    def whole(fd: FusionDefinition) -> None:
        results = definition(fd, [fd.from_pytorch(each) for each in inputs])
        for result in results if isinstance(results, list) else [results]:
            fd.add_output(result)

    return define(whole)


def check(definition: Build, inputs: Sequence[torch.Tensor], *expected: torch.Tensor) -> str:
    """The kernels' text, after the results were compared."""
    fd = build(definition, inputs)
    results = fd.execute(list(inputs), device=DEVICE)
    assert len(results) == len(expected)
    for actual, wanted in zip(results, expected, strict=True):
        assert_same(actual, wanted)
    return fd.fec.get_cuda_kernel(list(inputs))


def is_tiled(text: str) -> bool:
    """Through shared memory; for the host itself, in an array between two loops over threads."""
    return "nvf::syncBlock" in text or "#define NVF_THREADS_IN_LOOPS" in text


def data(*sizes: int, dtype: str = "BFloat16", seed: int = 1) -> torch.Tensor:
    return row_major(sizes).fill(TORCH[dtype], seed)


@pytest.mark.parametrize("sizes", SIZES)
def test_copy(sizes: tuple[int, int]) -> None:
    x = data(*sizes, dtype="Float")
    # A permute alone would be a view.
    text = check(lambda fd, t: fd.ops.neg(fd.ops.permute(t[0], [1, 0])), [x], -x.t())
    assert is_tiled(text) or min(sizes) == 1


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("sizes", [(64, 128), (50, 70)])
def test_every_width(dtype: str, sizes: tuple[int, int]) -> None:
    x, y = data(*sizes, dtype=dtype), data(sizes[1], sizes[0], dtype=dtype, seed=2)

    def definition(fd: FusionDefinition, t: Sequence[object]) -> object:
        return fd.ops.where(fd.ops.eq(t[1], t[1]), fd.ops.permute(t[0], [1, 0]), t[1])

    expected = torch.where(y == y, x.t(), y)
    assert is_tiled(check(definition, [x, y], expected))


@pytest.mark.parametrize("sizes", SIZES)
def test_add(sizes: tuple[int, int]) -> None:
    x, y = data(*sizes), data(sizes[1], sizes[0], seed=2)
    check(
        lambda fd, t: fd.ops.cast(
            fd.ops.add(fd.ops.permute(t[0], [1, 0]), t[1]), DataType.BFloat16
        ),
        [x, y],
        x.t() + y,
    )


@pytest.mark.parametrize("first", ["Bool", "Half", "Float", "Double"])
@pytest.mark.parametrize("second", ["Half", "Float", "Double"])
def test_mixed_types(first: str, second: str) -> None:
    x, y = data(72, 136, dtype=first), data(136, 72, dtype=second, seed=2)
    text = check(
        lambda fd, t: fd.ops.cast(
            fd.ops.add(fd.ops.cast(fd.ops.permute(t[0], [1, 0]), DataType.Double), t[1]),
            DataType.Double,
        ),
        [x, y],
        x.t().double() + y.double(),
    )
    assert is_tiled(text)


PERMUTES = [
    ((4, 24, 40), (0, 2, 1)),
    ((24, 4, 40), (2, 1, 0)),
    ((24, 4, 40), (1, 2, 0)),
    ((24, 4, 40), (2, 0, 1)),
    ((2, 16, 7, 9), (0, 2, 3, 1)),
    ((2, 7, 9, 16), (0, 3, 1, 2)),
    ((3, 5, 7, 11), (3, 2, 1, 0)),
    ((2, 3, 4, 5, 6), (4, 1, 3, 0, 2)),
    ((64, 2, 64), (2, 1, 0)),
    ((128, 2, 2), (1, 2, 0)),
]


@pytest.mark.parametrize(("sizes", "order"), PERMUTES)
def test_permutes(sizes: tuple[int, ...], order: tuple[int, ...]) -> None:
    x = data(*sizes, dtype="Float")
    y = data(*(sizes[i] for i in order), dtype="Float", seed=2)
    text = check(
        lambda fd, t: fd.ops.mul(fd.ops.permute(t[0], order), t[1]), [x, y], x.permute(order) * y
    )
    assert is_tiled(text)


def test_output_in_the_other_order() -> None:
    """The inputs agree, the output is stored across."""
    x, y = data(72, 136), data(72, 136, seed=2)
    text = check(
        lambda fd, t: fd.ops.permute(
            fd.ops.cast(fd.ops.add(t[0], t[1]), DataType.BFloat16), [1, 0]
        ),
        [x, y],
        (x + y).t(),
    )
    assert is_tiled(text)


def test_outputs_in_both_orders() -> None:
    x, y = data(72, 136, dtype="Float"), data(72, 136, dtype="Float", seed=2)

    def definition(fd: FusionDefinition, t: Sequence[object]) -> object:
        z = fd.ops.add(t[0], t[1])
        return [z, fd.ops.permute(z, [1, 0]), fd.ops.neg(fd.ops.permute(z, [1, 0]))]

    assert is_tiled(check(definition, [x, y], x + y, (x + y).t(), -(x + y).t()))


def test_several_on_each_side() -> None:
    a, b = data(72, 136), data(72, 136, dtype="Float", seed=2)
    c, d = data(136, 72, seed=3), data(136, 72, dtype="Float", seed=4)

    def definition(fd: FusionDefinition, t: Sequence[object]) -> object:
        across = fd.ops.permute(fd.ops.sub(t[0], t[1]), [1, 0])
        return [
            fd.ops.add(across, fd.ops.sub(t[3], t[2])),
            fd.ops.permute(fd.ops.neg(t[3]), [1, 0]),
        ]

    assert is_tiled(check(definition, [a, b, c, d], (a - b).t() + (d - c), -d.t()))


@pytest.mark.parametrize("flags", [[True, False], [False, True]])
def test_broadcast_operand(flags: list[bool]) -> None:
    x, y = data(72, 136, dtype="Float"), data(136, 72, dtype="Float", seed=2)
    bias = data(72 if flags[0] else 136, dtype="Float", seed=3)

    def definition(fd: FusionDefinition, t: Sequence[object]) -> object:
        z = fd.ops.add(fd.ops.permute(t[0], [1, 0]), t[1])
        return fd.ops.mul(z, fd.ops.broadcast(t[2], flags))

    expected = (x.t() + y) * (bias[None, :] if flags[0] else bias[:, None])
    assert is_tiled(check(definition, [x, y, bias], expected))


def test_broadcast_dimension_of_an_input() -> None:
    """One of two transposed inputs lacks a dimension; then both do."""
    x, y = data(6, 1, 40, dtype="Float"), data(40, 30, 6, dtype="Float", seed=2)
    z = data(6, 30, 40, dtype="Float", seed=3)

    def three(fd: FusionDefinition, t: Sequence[object]) -> object:
        narrow, whole = (fd.ops.permute(each, [2, 1, 0]) for each in (t[0], t[2]))
        return fd.ops.add(fd.ops.add(narrow, t[1]), whole)

    text = check(three, [x, y, z], x.permute(2, 1, 0) + y + z.permute(2, 1, 0))
    assert is_tiled(text)
    check(
        lambda fd, t: fd.ops.add(fd.ops.permute(t[0], [2, 1, 0]), t[1]),
        [x, y],
        x.permute(2, 1, 0) + y,
    )


def test_strided_and_permuted_inputs() -> None:
    """Column-major inputs need no permute; a cut-out promises less."""
    x = data(136, 72, dtype="Float").t()
    y = data(72, 136, dtype="Float", seed=2)
    text = check(lambda fd, t: fd.ops.add(t[0], t[1]), [x, y], x + y)
    assert is_tiled(text)
    wide = data(140, 90, dtype="Float", seed=3)[2:138, 5:77].t()
    check(lambda fd, t: fd.ops.add(t[0], t[1]), [wide, y], wide + y)
    every_other = data(136, 144, dtype="Float", seed=4)[:, ::2].t()
    check(lambda fd, t: fd.ops.add(t[0], t[1]), [every_other, y], every_other + y)


def test_reshape_between() -> None:
    x, y = data(24, 5, 16, dtype="Float"), data(16, 120, dtype="Float", seed=2)

    def definition(fd: FusionDefinition, t: Sequence[object]) -> object:
        return fd.ops.add(fd.ops.permute(fd.ops.reshape(t[0], [120, 16]), [1, 0]), t[1])

    check(definition, [x, y], x.reshape(120, 16).t() + y)


def test_slice_of_a_transposed_input() -> None:
    x, y = data(80, 136, dtype="Float"), data(128, 72, dtype="Float", seed=2)

    def definition(fd: FusionDefinition, t: Sequence[object]) -> object:
        part = fd.ops.slice(fd.ops.permute(t[0], [1, 0]), [8, 0], [136, 72])
        return fd.ops.add(fd.ops.add(part, t[1]), t[1])

    check(definition, [x, y], x.t()[8:136, :72] + y + y)


def test_new_shapes_use_the_same_definition() -> None:
    def definition(fd: FusionDefinition, t: Sequence[object]) -> object:
        return fd.ops.add(fd.ops.permute(t[0], [1, 0]), t[1])

    first = [data(64, 128, dtype="Float"), data(128, 64, dtype="Float")]
    fd = build(definition, first)
    for rows, columns in [(64, 128), (33, 65), (256, 8), (0, 4), (4, 0), (64, 127)]:
        x, y = data(rows, columns, dtype="Float"), data(columns, rows, dtype="Float", seed=2)
        (actual,) = fd.execute([x, y], device=DEVICE)
        assert_same(actual, x.t() + y)


# --- the scheduler as an object ---


def scheduled(**changes: int) -> tuple[FusionDefinition, TransposeParams]:
    x, y = data(200, 136), data(136, 200, seed=2)
    with FusionDefinition() as fd:
        a, b = (fd.from_pytorch(each) for each in (x, y))
        fd.add_output(fd.ops.cast(fd.ops.add(fd.ops.permute(a, [1, 0]), b), DataType.BFloat16))
        params = fd.sched.compute_heuristics(fd.fusion, SchedulerType.transpose, [x, y])
        for name, value in changes.items():
            setattr(params, name, value)
        fd.sched.schedule(fd.fusion, SchedulerType.transpose, params)
    (actual,) = fd.manual_execute([x, y])
    assert_same(actual, x.t() + y)
    return fd, params


EDITS = [
    {"tile_1": 32},
    {"tile_2": 32},
    {"tile_1": 128, "tile_2": 64},
    {"tile_1": 64, "tile_2": 128},
    {"tile_1": 128, "tile_2": 128},
    {"threads": 64},
    {"threads": 256},
    {"threads": 512},
    {"vectorization_1": 4},
    {"vectorization_2": 2},
    {"vectorization_1": 1},
    {"vectorization_2": 1},
    {"vectorization_1": 1, "vectorization_2": 1},
    {"blocks_along_2": True},
]


@pytest.mark.machine("hopper")
@pytest.mark.parametrize("changes", EDITS, ids=str)
def test_edited_parameters(changes: dict[str, int]) -> None:
    scheduled(**changes)


def test_parameters_print_compare_and_hash() -> None:
    params, other = TransposeParams(), TransposeParams()
    assert params == other and params.hash() == other.hash()
    other.tile_2 = 64
    assert params != other and params.hash() != other.hash()
    assert "tile_2: 64" in repr(other)


@pytest.mark.machine("hopper")
def test_bad_parameters_are_refused() -> None:
    with pytest.raises(RuntimeError, match="must be powers of two, got 48"):
        scheduled(tile_1=48)
    with pytest.raises(RuntimeError, match="must not be longer than the tile"):
        scheduled(tile_1=4)


def compatible(definition: Build, inputs: Sequence[torch.Tensor]) -> list[SchedulerType]:
    with FusionDefinition() as fd:
        fd.add_output(definition(fd, [fd.from_pytorch(each) for each in inputs]))
        return fd.sched.find_compatible_schedulers(fd.fusion, list(inputs))


def test_who_takes_what() -> None:
    x, y = data(64, 128), data(128, 64, seed=2)
    assert compatible(lambda fd, t: fd.ops.add(t[0], t[0]), [x]) == [SchedulerType.pointwise]
    assert compatible(lambda fd, t: fd.ops.add(fd.ops.permute(t[0], [1, 0]), t[1]), [x, y]) == [
        SchedulerType.transpose,
        SchedulerType.pointwise,
    ]
    # Outer dimensions only: the innermost one is the same on both sides.
    z = data(4, 6, 64)
    assert compatible(lambda fd, t: fd.ops.neg(fd.ops.permute(t[0], [1, 0, 2])), [z]) == [
        SchedulerType.pointwise
    ]
    with FusionDefinition() as fd:
        fd.add_output(fd.ops.neg(fd.from_pytorch(x)))
        ok, why = fd.sched.can_schedule(fd.fusion, SchedulerType.transpose, [x])
    assert not ok
    assert "no two groups of inputs and outputs have different innermost dimensions" in why


# --- the kernels ---


def add_kernel(dtype: str, sizes: tuple[int, int] = (256, 512)) -> str:
    x, y = data(*sizes, dtype=dtype), data(sizes[1], sizes[0], dtype=dtype, seed=2)
    fd = build(
        lambda fd, t: fd.ops.cast(fd.ops.add(fd.ops.permute(t[0], [1, 0]), t[1]), data_type(dtype)),
        [x, y],
    )
    fd.execute([x, y], device=DEVICE)
    return fd.fec.get_cuda_kernel([x, y])


@pytest.mark.machine("hopper")
@pytest.mark.parametrize("dtype", ["Half", "Float", "Double", "ComplexDouble"])
def test_vectors_on_both_sides(dtype: str) -> None:
    text = add_kernel(dtype)
    assert len(re.findall(r"nvf::syncBlock", text)) == 1
    if dtype != "ComplexDouble":  # as wide as a vector
        assert set(re.findall(r"nvf::loadGlobal<[^>]*>\(&T\d+\[[^]]*\], &(T\d)", text)) == {
            "T0",
            "T1",
        }
        assert "nvf::copyVector" in text and "nvf::storeGlobal" in text
    # All loads are under way before the first is waited for.
    assert text.rindex("T1[") < text.index("nvf::syncBlock")


@pytest.mark.machine("hopper")
@pytest.mark.skipif(bool(extension._nvrtc_error()), reason="no NVRTC")
@pytest.mark.parametrize("dtype", ["BFloat16", "Float", "Double"])
def test_kernels_compile_without_spills(dtype: str) -> None:
    text = add_kernel(dtype)
    kernel = text[text.index("NVF_KERNEL(") :]
    for wide_index in (False, True):
        resources = extension._compile_cubin(kernel, 90, wide_index)
        assert resources["spill_store_bytes"] == resources["spill_load_bytes"] == 0
        assert resources["registers"] <= 80


ADVERSARIAL = """
import torch
from nvfuse_direct import DataType, FusionDefinition
def run(sizes, both):
    x, y = torch.rand(*sizes), torch.rand(*sizes[::-1])
    with FusionDefinition() as fd:
        a, b = (fd.from_pytorch(each) for each in (x, y))
        z = fd.ops.add(fd.ops.permute(a, [1, 0]), b)
        fd.add_output(z)
        if both:
            fd.add_output(fd.ops.permute(fd.ops.mul(z, 2.0), [1, 0]))
    results = fd.execute([x, y], device=torch.device("cpu"))
    assert "nvf::syncBlock" in fd.fec.get_cuda_kernel([x, y])
    assert torch.equal(results[0], x.t() + y)
    if both:
        assert torch.equal(results[1], ((x.t() + y) * 2).t())
for sizes in [(64, 96), (70, 33), (256, 4)]:
    for both in (False, True):
        run(sizes, both)
print("clean")
"""


@pytest.mark.skipif(ON_CUDA, reason="the host target's checks")
@pytest.mark.parametrize("seed", ["1", "7"])
def test_no_races(seed: str) -> None:
    done = run_python(ADVERSARIAL, {"NVFUSER_HOST_ADVERSARIAL": seed})
    assert "clean" in done.stdout, done.stdout + done.stderr


def test_an_output_in_loops_of_which_two_versions_of_a_view_share_one() -> None:
    """Written where the other version's own part is 0, not where all that it was cut out of is."""

    def build(fd: FusionDefinition) -> None:
        x = fd.define_tensor([-1, -1, 1, 1], [True, True, None, None], DataType.Float)
        view = fd.ops.reshape(x, [2, 1, 2, 3])
        fd.add_output(fd.ops.sigmoid(x))
        fd.add_output(fd.ops.mul(view, fd.ops.permute(view, [1, 2, 0, 3])))

    x = torch.randn(4, 3, 1, 1, device=DEVICE)
    first, second = define(build).execute([x])
    view = x.reshape(2, 1, 2, 3)
    torch.testing.assert_close(first, x.sigmoid())
    torch.testing.assert_close(second, view * view.permute(1, 2, 0, 3))


def test_an_output_in_loops_that_a_view_merges_and_splits() -> None:
    def build(fd: FusionDefinition) -> None:
        x = fd.define_tensor([1, 1, -1, -1], [None, None, True, True], DataType.Float)
        negative = fd.ops.sub(2, x)
        fd.add_output(negative)
        fd.add_output(fd.ops.mul(negative, fd.ops.reshape(x, [3, 1, 7, 1])))

    x = torch.randn(1, 1, 7, 3, device=DEVICE)
    first, second = define(build).execute([x])
    torch.testing.assert_close(first, 2 - x)
    torch.testing.assert_close(second, (2 - x) * x.reshape(3, 1, 7, 1))


@pytest.mark.parametrize("inner", [(14, 14), (8, 8), (5, 13), (64,)])
@pytest.mark.parametrize(("before", "after"), [(1, 0), (8, 0), (0, 3), (8, 8), (-1, 2), (-8, 0)])
def test_padded_on_the_way(inner: tuple[int, ...], before: int, after: int) -> None:
    """Tokens of an image behind a class token: what is exchanged is padded along its memory."""
    channels, places = 48, math.prod(inner)
    x = data(2, channels, *inner)
    y = data(2, places + before + after, channels, seed=2)

    def definition(fd: FusionDefinition, t: Sequence[object]) -> object:
        tokens = fd.ops.permute(fd.ops.reshape(t[0], [2, channels, places]), [0, 2, 1])
        zero = fd.define_scalar(0.0, DataType.BFloat16)
        padded = fd.ops.pad(tokens, [0, 0, before, after], zero)
        return fd.ops.cast(fd.ops.add(padded, t[1]), DataType.BFloat16)

    tokens = x.reshape(2, channels, places).transpose(1, 2)
    expected = torch.nn.functional.pad(tokens, [0, 0, before, after]) + y
    assert is_tiled(check(definition, [x, y], expected))


@pytest.mark.parametrize("shift", [1, 4, 8])
def test_padded_and_whole_inputs_share_tiles(shift: int) -> None:
    """One of them is read by vectors, the other one element by element."""
    x, whole = data(96, 120), data(96, 120 + shift, seed=2)
    y = data(120 + shift, 96, seed=3)

    def definition(fd: FusionDefinition, t: Sequence[object]) -> object:
        zero = fd.define_scalar(0.0, DataType.BFloat16)
        padded = fd.ops.pad(t[0], [shift, 0], zero)
        columns = fd.ops.permute(fd.ops.sub(padded, t[1]), [1, 0])
        return fd.ops.cast(fd.ops.add(columns, t[2]), DataType.BFloat16)

    padded = torch.nn.functional.pad(x, [shift, 0])
    expected = ((padded.float() - whole.float()).t() + y.float()).to(torch.bfloat16)
    assert is_tiled(check(definition, [x, whole, y], expected))


@pytest.mark.parametrize("sizes", [(2, 3, 32, 64), (1, 2, 40, 72), (2, 2, 64, 100)])
@pytest.mark.parametrize("returned", [False, True])
def test_heads_that_are_repeated(sizes: tuple[int, ...], returned: bool) -> None:
    """An input, and a result in its order, of which several heads of another result are made."""
    n, heads, channels, length = sizes
    x = data(*sizes)

    def definition(fd: FusionDefinition, t: Sequence[object]) -> object:
        o = fd.ops
        y = o.permute(o.relu(t[0]), [0, 3, 1, 2])
        many = o.broadcast_in_dim(y, [n, length, heads, 2, channels], [0, 1, 2, 4])
        many = o.reshape(many, [n, length, 2 * heads, channels])
        if not returned:
            return many
        return [o.stride_order(y, [3, 0, 2, 1]), many]

    expected = x.relu().permute(0, 3, 1, 2)
    many = expected.repeat_interleave(2, dim=2)
    text = check(definition, [x], *([expected, many] if returned else [many]))
    assert is_tiled(text)


def test_a_small_result_in_another_order() -> None:
    """A table beside a large result is not worth a tile of each block."""
    x, table = data(16, 64, 64), data(64, 64, seed=2)

    def definition(fd: FusionDefinition, t: Sequence[object]) -> object:
        turned = fd.ops.permute(fd.ops.neg(t[1]), [1, 0])
        turned = fd.ops.cast(turned, DataType.BFloat16)
        both = fd.ops.add(t[0], fd.ops.broadcast(fd.ops.neg(t[1]), [True, False, False]))
        return [turned, fd.ops.cast(both, DataType.BFloat16)]

    assert not is_tiled(check(definition, [x, table], -table.t(), x - table))
