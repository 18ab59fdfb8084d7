# SPDX-License-Identifier: BSD-3-Clause
"""Rolls, however they are spelled: neighbours of a table are read where they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch
from helpers import DEVICE, TORCH, assert_same, define, on_both_machines, row_major, run_python
from nvfuse_direct import DataType, FusionDefinition, explain

Roll = Callable[[FusionDefinition, object, int, int, Sequence[int]], object]


def by_positions(
    fd: FusionDefinition, x: object, dim: int, offset: int, sizes: Sequence[int]
) -> object:
    """As torch.compile has torch.roll: positions (i + offset) % n."""
    places = fd.ops.iota(sizes[dim], offset, 1, DataType.Int)
    return fd.ops.index_select(x, fd.ops.remainder(places, sizes[dim]), dim)


def by_slices(
    fd: FusionDefinition, x: object, dim: int, offset: int, sizes: Sequence[int]
) -> object:
    def part(start: int, stop: int) -> object:
        starts, stops = [0] * len(sizes), list(sizes)
        starts[dim], stops[dim] = start, stop
        return fd.ops.slice(x, starts, stops)

    return fd.ops.cat([part(offset, sizes[dim]), part(0, offset)], dim)


SPELLINGS = [by_positions, by_slices]
OFFSETS = [{0: 2}, {1: 3}, {0: 4, 1: 1}, {0: 1, 2: 5}, {0: 1, 1: 6, 2: 9}]


def rolled(
    fd: FusionDefinition, roll: Roll, x: object, offsets: dict[int, int], sizes: Sequence[int]
) -> object:
    for dim, offset in offsets.items():
        x = roll(fd, x, dim, offset, sizes)
    return x


def negated(fd: FusionDefinition, x: object) -> object:
    return fd.ops.cast(fd.ops.neg(x), x.dtype())  # operations widen


def as_torch_rolls(x: torch.Tensor, offsets: dict[int, int]) -> torch.Tensor:
    return torch.roll(x, [-by for by in offsets.values()], list(offsets))


def assert_close(actual: torch.Tensor, expected: torch.Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-5)


@on_both_machines
@pytest.mark.parametrize("roll", SPELLINGS)
@pytest.mark.parametrize("offsets", OFFSETS)
@pytest.mark.parametrize("dtype", ["Float", "BFloat16"])
def test_of_what_is_computed(roll: Roll, offsets: dict[int, int], dtype: str, machine: str) -> None:
    sizes = (5, 7, 24)
    x = row_major(sizes).fill(TORCH[dtype], 1)

    def whole(fd: FusionDefinition) -> None:
        t = fd.from_pytorch(x, static_sizes=True)
        fd.add_output(rolled(fd, roll, negated(fd, t), offsets, sizes))
        fd.add_output(fd.ops.abs(rolled(fd, roll, t, offsets, sizes)))

    results = define(whole).execute([x], device=DEVICE)
    expected = as_torch_rolls(x, offsets)
    assert_same(results[0], -expected)
    assert_same(results[1], expected.abs())


@on_both_machines
@pytest.mark.parametrize("roll", SPELLINGS)
@pytest.mark.parametrize("offsets", OFFSETS[:3])
def test_of_rows_that_are_reduced(roll: Roll, offsets: dict[int, int], machine: str) -> None:
    """Sums of the rows before the roll, and of the rows that it makes."""
    sizes = (5, 7, 32)
    x = row_major(sizes).fill(torch.float, 2)

    def centered(fd: FusionDefinition, t: object) -> tuple[object, object]:
        total = fd.ops.broadcast(fd.ops.sum(t, [2]), [False, False, True])
        return fd.ops.sub(t, total), total

    def whole(fd: FusionDefinition) -> None:
        t = fd.from_pytorch(x, static_sizes=True)
        before, total = centered(fd, t)
        fd.add_output(rolled(fd, roll, before, offsets, sizes))
        fd.add_output(centered(fd, rolled(fd, roll, t, offsets, sizes))[0])
        fd.add_output(total)

    *results, total = define(whole).execute([x], device=DEVICE)
    assert_close(total, x.sum(2, keepdim=True))
    for result in results:
        assert_close(result, as_torch_rolls(x - x.sum(2, keepdim=True), offsets))


@on_both_machines
@pytest.mark.parametrize("roll", SPELLINGS)
@pytest.mark.parametrize("offsets", [{1: 3}, {2: 5}, {1: 1, 2: 4}, {0: 1, 2: 2}])
@pytest.mark.parametrize("normalized", [False, True])
def test_of_windows_that_are_put_together(
    roll: Roll, offsets: dict[int, int], normalized: bool, machine: str
) -> None:
    """What attention in shifted windows (Swin) ends with: one kernel, which reads the windows."""
    sizes = (3, 6, 8, 16)
    x = row_major((3 * 2 * 2, 3 * 4, 16)).fill(torch.float, 5)
    shortcut = row_major(sizes).fill(torch.float, 6)

    def whole(fd: FusionDefinition) -> None:
        t, s = (fd.from_pytorch(each, static_sizes=True) for each in (x, shortcut))
        windows = fd.ops.permute(fd.ops.reshape(t, [3, 2, 2, 3, 4, 16]), [0, 1, 3, 2, 4, 5])
        shifted = rolled(fd, roll, fd.ops.reshape(windows, sizes), offsets, sizes)
        y = fd.ops.add(shifted, s)
        fd.add_output(y)
        if normalized:
            total = fd.ops.broadcast(fd.ops.sum(y, [3]), [False, False, False, True])
            fd.add_output(fd.ops.sub(y, total))

    fd = define(whole)
    results = fd.execute([x, shortcut], device=DEVICE)
    windows = x.view(3, 2, 2, 3, 4, 16).permute(0, 1, 3, 2, 4, 5).reshape(sizes)
    y = shortcut + as_torch_rolls(windows, offsets)
    assert_same(results[0], y)
    if normalized:
        assert_close(results[1], y - y.sum(3, keepdim=True))
    assert len(explain(fd, [x, shortcut], measure=False).segments) == 1


def test_without_a_compiler_they_are_evaluated() -> None:
    """Of an input, and of one whose dimensions are permuted and merged beside a reduction."""
    result = run_python(
        """
        import torch
        from nvfuse_direct import DataType, FusionDefinition
        from test_rolls import as_torch_rolls, by_slices, rolled

        x = torch.arange(12 * 12 * 16.0).view(12, 12, 16)
        with FusionDefinition() as fd:
            t = fd.from_pytorch(x, static_sizes=True)
            fd.add_output(rolled(fd, by_slices, t, {0: 5, 1: 2}, (12, 12, 16)))
            windows = fd.ops.permute(fd.ops.reshape(t, [3, 2, 2, 3, 4, 16]), [0, 1, 3, 2, 4, 5])
            image = fd.ops.reshape(windows, [3, 6, 8, 16])
            shifted = rolled(fd, by_slices, image, {1: 1, 2: 3}, (3, 6, 8, 16))
            fd.add_output(fd.ops.sum(shifted, [3]))
        first, sums = fd.execute([x])
        assert torch.equal(first, as_torch_rolls(x, {0: 5, 1: 2}))
        image = x.view(3, 2, 2, 3, 4, 16).permute(0, 1, 3, 2, 4, 5).reshape(3, 6, 8, 16)
        assert torch.equal(sums, as_torch_rolls(image, {1: 1, 2: 3}).sum(3))
        """,
        env={"NVFUSER_HOST_CXX": "none", "NVFUSER_DISABLE_CACHE": "1"},
    )
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.machine("hopper")
@pytest.mark.parametrize("roll", SPELLINGS)
@pytest.mark.parametrize("reshifted", [False, True])
def test_statistics_are_read_once_if_they_are_reshifted_too(roll: Roll, reshifted: bool) -> None:
    sizes = (6, 8, 64)
    x = row_major(sizes).fill(torch.float, 4)

    def whole(fd: FusionDefinition) -> None:
        t = fd.from_pytorch(x, static_sizes=True)
        total = fd.ops.broadcast(fd.ops.sum(t, [2]), [False, False, True])
        centered = fd.ops.reshape(fd.ops.sub(t, total), sizes)
        shifted = rolled(fd, roll, centered, {0: 1, 1: 3}, sizes)
        fd.add_output(fd.ops.permute(shifted, [1, 0, 2]))
        if reshifted:
            fd.add_output(total)

    fd = define(whole)
    expected = as_torch_rolls(x - x.sum(2, keepdim=True), {0: 1, 1: 3}).permute(1, 0, 2)
    assert_close(fd.execute([x], device=DEVICE)[0], expected)
    assert [s.scheduler for s in explain(fd, [x], measure=False).segments][-1] == "pointwise"
    text = fd.fec.get_cuda_kernel([x])
    assert "if (" not in text[text.rindex("NVF_KERNEL") :]  # each part of a concatenation has one


@pytest.mark.machine("hopper")
@pytest.mark.parametrize("roll", SPELLINGS)
def test_each_element_is_read_once_by_vectors(roll: Roll) -> None:
    sizes = (6, 8, 64)
    x = row_major(sizes).fill(torch.bfloat16, 3)

    def whole(fd: FusionDefinition) -> None:
        t = fd.from_pytorch(x, static_sizes=True)
        fd.add_output(negated(fd, rolled(fd, roll, t, {0: 1, 1: 3}, sizes)))

    fd = define(whole)
    assert_same(fd.execute([x], device=DEVICE)[0], -as_torch_rolls(x, {0: 1, 1: 3}))
    text = fd.fec.get_cuda_kernel([x])
    assert text.count("loadGlobal") == 1
    assert "loadGlobal<__bfloat, 8>" in text
