# SPDX-License-Identifier: BSD-3-Clause
"""Ranks 0 to 12, very large index spaces, misaligned pointers, reuse of kernels across shapes."""

from __future__ import annotations

import re

import pytest
import torch
from helpers import (
    DEVICE,
    ON_CUDA,
    TORCH,
    Layout,
    assert_same,
    data_type,
    define,
    needs_cuda,
    row_major,
    run,
    tensor,
    values,
)
from nvfuse_direct import DataType, FusionDefinition


@pytest.mark.parametrize("rank", range(13))
def test_every_rank(rank: int) -> None:
    sizes = [(2, 3, 1, 2)[i % 4] for i in range(rank)]
    x = row_major(sizes).fill(torch.float)
    y = row_major(sizes[rank // 2 :]).fill(torch.float, 1)

    def build(fd: FusionDefinition) -> None:
        a, b = fd.from_pytorch(x), fd.from_pytorch(y)
        fd.add_output(fd.ops.add(fd.ops.neg(a), b))

    (actual,) = run(build, [x, y])
    assert_same(actual, -x + y)


@pytest.mark.parametrize("rank", [2, 5, 8, 12])
def test_high_rank_permuted(rank: int) -> None:
    sizes = [2 if i % 3 else 3 for i in range(rank)]
    x = row_major(sizes[::-1]).fill(torch.float).permute(*reversed(range(rank)))
    y = row_major(sizes).fill(torch.float, 1)

    def build(fd: FusionDefinition) -> None:
        a, b = fd.from_pytorch(x), fd.from_pytorch(y)
        fd.add_output(fd.ops.mul(a, b))
        fd.add_output(fd.ops.neg(fd.ops.permute(a, list(reversed(range(rank))))))

    first, second = run(build, [x, y])
    assert_same(first, x * y)
    assert_same(second, -x.permute(*reversed(range(rank))))


@pytest.mark.parametrize("rank", [1, 3, 7, 12])
def test_zero_and_one_extents_in_every_place(rank: int) -> None:
    for zero in range(0, rank, 3):
        sizes = [1 if i % 2 else 2 for i in range(rank)]
        sizes[zero] = 0

        def build(fd: FusionDefinition, rank: int = rank) -> None:
            fd.add_output(fd.ops.neg(fd.define_tensor([-1] * rank, True)))

        x = torch.empty(sizes, device=DEVICE)
        assert_same(run(build, [x])[0], -x)


BIG = 2**31 + 4099


def test_more_than_two_to_the_31_positions_in_an_expanded_input() -> None:
    """The extent product of the input passes 2^31, what is computed does not."""
    x = tensor(1, 7).expand(2**31 + 11, 7)

    def build(fd: FusionDefinition) -> None:
        a = fd.from_pytorch(x)
        fd.add_output(fd.ops.neg(fd.ops.slice(a, [2**31, 0], [2**31 + 5, 7])))

    (actual,) = run(build, [x])
    assert_same(actual, -x[2**31 : 2**31 + 5])


def test_strides_beyond_32_bits() -> None:
    """Few elements, far apart: storage that is never touched in between costs no memory."""
    length = 2**31 + 64
    try:
        storage = torch.empty(length, dtype=torch.bool, device=DEVICE)
    except RuntimeError:
        pytest.skip("not enough memory")
    x = storage.as_strided((2, 8), (2**31 + 7, 3), 2)
    x.copy_(values(16, torch.bool, 3).view(2, 8))

    def build(fd: FusionDefinition) -> None:
        fd.add_output(fd.ops.logical_not(fd.from_pytorch(x)))

    (actual,) = run(build, [x])
    assert_same(actual, ~x)


def test_update_in_place_beyond_32_bits() -> None:
    length = 2**31 + 64
    try:
        storage = torch.empty(length, dtype=torch.bool, device=DEVICE)
    except RuntimeError:
        pytest.skip("not enough memory")
    x = storage.as_strided((2, 8), (2**31 + 7, 3), 2)
    x.copy_(values(16, torch.bool, 3).view(2, 8))
    expected = ~x.clone()

    def build(fd: FusionDefinition) -> None:
        a = fd.from_pytorch(x)
        fd.add_output(fd.ops.logical_not(a), a)

    run(build, [x])
    assert_same(x, expected)


@needs_cuda
@pytest.mark.parametrize("sizes", [(BIG,), (65537, 32771), (2, BIG // 2 + 1)])
def test_more_than_two_to_the_31_elements(sizes: tuple[int, ...]) -> None:
    x = torch.randint(0, 2, sizes, device=DEVICE, dtype=torch.uint8).bool()

    def build(fd: FusionDefinition) -> None:
        fd.add_output(fd.ops.logical_not(fd.from_pytorch(x)))

    (actual,) = run(build, [x])
    assert torch.equal(actual, ~x)


def test_the_index_width_is_chosen_by_shape() -> None:
    """One definition, small and far-strided inputs: two index widths, both right."""

    def build(fd: FusionDefinition) -> None:
        fd.add_output(fd.ops.logical_not(fd.define_tensor([-1, -1], False, DataType.Bool)))

    fusion = define(build)
    small = row_major((5, 9)).fill(torch.bool)
    assert_same(fusion.execute([small])[0], ~small)
    try:
        storage = torch.empty(2**31 + 64, dtype=torch.bool, device=DEVICE)
    except RuntimeError:
        pytest.skip("not enough memory")
    far = storage.as_strided((2, 9), (2**31 + 7, 3))
    far.copy_(values(18, torch.bool, 5).view(2, 9))
    assert_same(fusion.execute([far])[0], ~far)
    assert_same(fusion.execute([small])[0], ~small)


# ------------------------------------------------------------------------- alignment and reuse


@pytest.mark.parametrize("dtype", ["Float", "Half", "Double", "Bool"])
@pytest.mark.parametrize("offsets", [(0, 0), (1, 0), (0, 1), (2, 3), (4, 4)])
def test_misaligned_pointers(dtype: str, offsets: tuple[int, int]) -> None:
    """Vectorized for the aligned call, not for the next: the promise is checked at each launch."""

    def build(fd: FusionDefinition) -> None:
        a, b = (fd.define_tensor([-1, -1], True, data_type(dtype)) for _ in range(2))
        fd.add_output(fd.ops.bitwise_xor(a, b) if dtype == "Bool" else fd.ops.add(a, b))

    fusion = define(build)
    for first, second in ((0, 0), offsets, (0, 0)):
        x = row_major((64, 128), first).fill(TORCH[dtype], 1)
        y = row_major((64, 128), second).fill(TORCH[dtype], 2)
        (actual,) = fusion.execute([x, y])
        if dtype == "Half":
            assert_same(actual, x.float() + y.float())
        else:
            assert_same(actual, x ^ y if dtype == "Bool" else x + y)


@pytest.mark.parametrize("columns", [1, 2, 3, 4, 6, 8, 63, 64, 65, 126])
def test_row_lengths_of_every_divisibility(columns: int) -> None:
    def build(fd: FusionDefinition) -> None:
        a = fd.define_tensor([-1, -1], [False, True])
        b = fd.define_tensor([-1], True)
        fd.add_output(fd.ops.add(a, b))

    x = Layout((37, columns), (columns + 3, 1)).fill(torch.float)
    y = tensor(columns, seed=1)
    assert_same(run(build, [x, y])[0], x + y)


def kernel_name(fusion: FusionDefinition, inputs: list[torch.Tensor]) -> str:
    match = re.search(r"nvfuser_pointwise_\w+", fusion.fec.get_cuda_kernel(inputs))
    assert match is not None
    return match[0]


def test_kernels_are_shared_by_shapes_with_equal_parameters() -> None:
    def build(fd: FusionDefinition) -> None:
        a, b = (fd.define_tensor([-1, -1, -1], True) for _ in range(2))
        fd.add_output(fd.ops.mul(fd.ops.add(a, b), 3.0))

    fusion = define(build)
    names = set()
    shapes = [(n, 8, 128) for n in (16, 24, 32, 40, 48, 56, 64, 100)]
    for shape in shapes:
        x, y = tensor(*shape), tensor(*shape, seed=1)
        assert_same(fusion.execute([x, y])[0], (x + y) * 3.0)
        names.add(kernel_name(fusion, [x, y]))
    assert len(names) <= 2, names


def test_a_thousand_shapes_need_few_kernels() -> None:
    def build(fd: FusionDefinition) -> None:
        a = fd.define_tensor([-1, -1], True)
        fd.add_output(fd.ops.neg(a))

    fusion = define(build)
    names = set()
    for rows in range(1, 41):
        for columns in (1, 2, 3, 4, 5, 8, 13, 16, 32, 37):
            x = tensor(rows, columns)
            (actual,) = fusion.execute([x])
            assert torch.equal(actual, -x)
            names.add(kernel_name(fusion, [x]))
    assert len(names) <= 12, names


def test_alternating_shapes_do_not_confuse_the_launch_plan() -> None:
    def build(fd: FusionDefinition) -> None:
        a = fd.define_tensor([-1, -1], False)
        b = fd.define_tensor([-1, 1], True)
        s = fd.define_scalar(DataType.Double)
        fd.add_output(fd.ops.mul(fd.ops.sub(a, b), s))

    fusion = define(build)
    cases = [
        (Layout((5, 7), (7, 1)), 2.0),
        (Layout((5, 7), (1, 5)), 3.0),
        (Layout((7, 5), (5, 1)), 4.0),
        (Layout((5, 7), (0, 1)), -1.0),
        (Layout((0, 7), (7, 1)), 1.0),
        (Layout((5, 7), (14, 2), 3), 0.5),
    ]
    for _ in range(3):
        for layout, scale in cases:
            x = layout.fill(torch.float)
            y = tensor(layout.sizes[0], 1, seed=1)
            assert_same(fusion.execute([x, y, scale])[0], (x - y) * scale)


def test_output_of_a_million_elements_over_all_blocks() -> None:
    x = tensor(1031, 1021)

    def build(fd: FusionDefinition) -> None:
        a = fd.from_pytorch(x)
        fd.add_output(fd.ops.add(fd.ops.mul(a, a), a))

    (actual,) = run(build, [x])
    assert_same(actual, x * x + x, rtol=1e-6, atol=1e-6)
    assert actual.is_cuda == ON_CUDA
