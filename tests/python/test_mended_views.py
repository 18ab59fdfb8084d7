# SPDX-License-Identifier: BSD-3-Clause
"""Views of a kernel's tensors from its reference: what is contiguous, and which loops they have."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from helpers import DEVICE, assert_all_same, define
from nvfuse_direct import DataType, FusionDefinition

Tensor = torch.Tensor
Definition = Callable[[FusionDefinition], None]


def symbolic(fd: FusionDefinition, *inputs: Tensor) -> list[Any]:
    """Contiguous tensors of any sizes."""
    return [fd.define_tensor([-1] * x.dim(), [True] * x.dim()) for x in inputs]


def check(definition: Definition, inputs: list[Tensor], expected: list[Tensor]) -> str:
    """The text of the kernels, none of which took the place of another one."""
    fd = define(definition)
    outputs = fd.execute([x.to(DEVICE) for x in inputs], device=DEVICE)
    assert fd.fec._num_fallbacks == 0, "a kernel that could not be made was replaced by others"
    assert_all_same(outputs, expected, rtol=1e-5, atol=1e-6)
    return fd.fec.get_cuda_kernel([x.to(DEVICE) for x in inputs])


def vector_loads(text: str, tensor: str) -> list[int]:
    """Widths of the loads of a tensor in vectors."""
    return [int(n) for n in re.findall(rf"loadGlobal<\w+, (\d+)>\([^,]*, &{tensor}\[", text)]


# ----------------------------------------------------- what a reshape merges with a broadcast part


@pytest.mark.parametrize("sizes", [(64, 70), (70, 64), (2, 1), (6, 4), (16, 16)])
@pytest.mark.parametrize("per_row", [True, False])
def test_a_value_for_each_row_or_column_reshaped(sizes: tuple[int, int], per_row: bool) -> None:
    """Merged with a broadcast inner part the values repeat one by one: they make no vectors."""
    rows, columns = sizes
    x, y = torch.randn(rows, columns), torch.randn(rows if per_row else columns)

    def definition(fd: FusionDefinition) -> None:
        o = fd.ops
        a, b = symbolic(fd, x, y)
        total = o.add(a, o.broadcast(b, [not per_row, per_row]))
        fd.add_output(o.reshape(total, [columns, rows]))

    expected = x + (y[:, None] if per_row else y[None, :])
    check(definition, [x, y], [expected.reshape(columns, rows)])


def test_a_broadcast_part_before_two_pads() -> None:
    x, y = torch.randn(2, 1), torch.randn(2)

    def definition(fd: FusionDefinition) -> None:
        o = fd.ops
        a, b = symbolic(fd, x, y)
        flat = o.reshape(o.mul(a, o.broadcast(b, [False, True])), [2])
        fd.add_output(o.pad(o.pad(flat, [0, 2]), [0, 2]))

    check(definition, [x, y], [torch.nn.functional.pad((x * y[:, None]).flatten(), [0, 4])])


def test_broadcast_parts_of_both_operands() -> None:
    x, y = torch.randn(64, 4), torch.randn(64, 32)

    def definition(fd: FusionDefinition) -> None:
        o = fd.ops
        a, b = symbolic(fd, x, y)
        total = o.mul(o.broadcast(a, [False, True, False]), o.broadcast(b, [False, False, True]))
        fd.add_output(o.reshape(total, [128, 64]))

    check(definition, [x, y], [(x[:, None, :] * y[:, :, None]).reshape(128, 64)])


@pytest.mark.machine("hopper")
@pytest.mark.parametrize("sizes", [(64, 128), (256, 32)])
def test_rows_that_repeat_whole_are_still_read_in_vectors(sizes: tuple[int, int]) -> None:
    """Behind a broadcast outer part lie whole rows: T0 and T1 are read by four elements each."""
    x, y = torch.randn(sizes), torch.randn(sizes[1])

    def definition(fd: FusionDefinition) -> None:
        o = fd.ops
        a, b = symbolic(fd, x, y)
        fd.add_output(o.reshape(o.add(a, o.broadcast(b, [True, False])), [-1, 16]))

    text = check(definition, [x, y], [(x + y).reshape(-1, 16)])
    assert vector_loads(text, "T0") == [4] and vector_loads(text, "T1") == [4], text


@pytest.mark.machine("hopper")
def test_dimensions_that_are_merged_and_split_again_are_read_in_vectors() -> None:
    x = torch.randn(24, 40)

    def definition(fd: FusionDefinition) -> None:
        (a,) = symbolic(fd, x)
        fd.add_output(fd.ops.exp(fd.ops.reshape(a, [60, 16])))

    text = check(definition, [x], [x.exp().reshape(60, 16)])
    assert vector_loads(text, "T0") == [4], text


# ------------------------------------------------------------- what is looked up and read as well


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("size", [2, 40, 129])
def test_a_row_selected_beside_the_whole(dim: int, size: int) -> None:
    """The selected values have the loops of the tensor that they are looked up in."""
    x = torch.randn(size, size)

    def definition(fd: FusionDefinition) -> None:
        o = fd.ops
        (a,) = symbolic(fd, x)
        fd.add_output(o.add(a, a))
        fd.add_output(o.neg(o.exp(o.select(a, 1, dim=dim))))

    check(definition, [x], [x + x, -x.select(dim, 1).exp()])


def test_a_selected_row_is_reduced() -> None:
    x = torch.randn(2, 2)

    def definition(fd: FusionDefinition) -> None:
        o = fd.ops
        (a,) = symbolic(fd, x)
        row = o.clamp(o.select(a, 1, dim=0), -4.0, 3.0)
        fd.add_output(o.mul(a, a))
        fd.add_output(o.min(row, [0]))

    check(definition, [x], [x * x, x[1].clamp(-4.0, 3.0).min()])


# ----------------------------------------------------------------- sizes, alignment and in-place


def test_one_value_broadcast_to_sizes_that_differ() -> None:
    """The reduced dimension is not that of the other output, though both meet the same value."""
    x, y, z = torch.randn(20), torch.randn(7), torch.randn(1)

    def definition(fd: FusionDefinition) -> None:
        o = fd.ops
        a, b = symbolic(fd, x, y)
        c = fd.define_tensor([1], [None])
        wide = o.maximum(b, c)
        power = o.exp(o.sub(wide, o.broadcast(o.max(wide, [0]), [True])))
        fd.add_output(o.neg(o.maximum(c, a)))
        fd.add_output(o.sum(power, [0]))

    wide = y.maximum(z)
    check(definition, [x, y, z], [-x.maximum(z), (wide - wide.max()).exp().sum(0)])


def test_one_value_broadcast_beside_a_scan() -> None:
    x, y, z = torch.randn(18), torch.randn(3), torch.randn(1)

    def definition(fd: FusionDefinition) -> None:
        o = fd.ops
        a, b = symbolic(fd, x, y)
        c = fd.define_tensor([1], [None])
        fd.add_output(o.maximum(b, c))
        fd.add_output(o.cumsum(o.sub(a, c), 0))

    check(definition, [x, y, z], [y.maximum(z), (x - z).cumsum(0)])


@pytest.mark.parametrize("offset", [0, 1, 2, 4])
def test_an_update_that_ends_in_a_copy_to_misaligned_memory(offset: int) -> None:
    """The copy is made after the cut, and must know as much of the memory as the update did."""
    b = torch.randn(1).half()

    def definition(fd: FusionDefinition) -> None:
        o = fd.ops
        x = fd.define_tensor([1], [None], dtype=DataType.Half)
        y = fd.define_tensor([-1], [True], dtype=DataType.Half)
        fd.add_output(o.abs(x))
        fd.add_output(o.cast(o.add(y, x), DataType.Half), y)

    memory = torch.randn(40).half().to(DEVICE)
    c = memory[offset : offset + 32]
    expected = c.cpu() + b
    fd = define(definition)
    outputs = fd.execute([b.to(DEVICE), c], device=DEVICE)
    assert fd.fec._num_fallbacks == 0
    assert_all_same([*outputs, c], [b.abs(), expected])


def test_vectors_along_rows_of_dimensions_that_happen_to_be_one() -> None:
    """An innermost dimension of size 1 is none."""
    x, y = torch.ones(2, 1, 1).bfloat16(), torch.randn(1, 1, 1).bfloat16()

    def definition(fd: FusionDefinition) -> None:
        o = fd.ops
        a = fd.define_tensor([-1, -1, -1], [True] * 3, dtype=DataType.BFloat16)
        b = fd.define_tensor([1, -1, -1], [None, True, True], dtype=DataType.BFloat16)
        value = o.cast(o.reshape(b, [1, 1]), DataType.Float)
        fd.add_output(o.sum(value, [1]))
        fd.add_output(o.cast(o.neg(a), DataType.BFloat16), a)

    fd = define(definition)
    a = x.to(DEVICE, copy=True)
    outputs = fd.execute([a, y.to(DEVICE)], device=DEVICE)
    assert fd.fec._num_fallbacks == 0
    assert_all_same([*outputs, a], [y.float().flatten(), -x])


def test_a_broadcast_that_slices_of_what_it_meets_make_real_twice() -> None:
    """Each copy of the sum makes the expanded dimension its own: each needs a copy of the value."""
    x, y = torch.randn(1), torch.randn(3, 1)

    def definition(fd: FusionDefinition) -> None:
        o = fd.ops
        a, b = fd.define_tensor([3], [None]), fd.define_tensor([-1, 1], [True, None])
        wide = o.pad(o.maximum(b, o.broadcast(a, [True, False])), [2, 1, 0, 0], 1.0)
        parts = [o.slice(wide, [1, 0], [2, 6]), o.slice(wide, [0, 0], [1, 6])]
        fd.add_output(o.cat(parts, 0))

    wide = torch.nn.functional.pad(y.maximum(x.expand(3)), [2, 1], value=1.0)
    check(definition, [x.to(DEVICE).expand(3), y], [torch.cat([wide[1:2], wide[:1]])])


# ----------------------------------------- tiles of what is broadcast along a part of their columns


@pytest.mark.parametrize("sizes", [(2, 2), (64, 64), (32, 20)])
def test_no_tiles_of_an_expanded_output_beside_its_reshape(sizes: tuple[int, int]) -> None:
    """The columns of the reshaped tensor are copies of the output's: it has no tiles of its own."""
    x = torch.randn(1, *sizes)
    rows = 2 * sizes[0]

    def definition(fd: FusionDefinition) -> None:
        o = fd.ops
        wide = o.expand(fd.define_tensor([1, -1, -1], [None, True, True]), [2, -1, -1])
        fd.add_output(o.neg(o.permute(wide, [0, 2, 1])))
        fd.add_output(o.reshape(wide, [rows, sizes[1]]))

    wide = x.expand(2, -1, -1)
    check(definition, [x], [-wide.transpose(1, 2), wide.reshape(rows, sizes[1])])


@pytest.mark.parametrize("sizes", [(1, 64, 64), (8, 64, 64), (3, 32, 20)])
def test_a_transposed_matrix_for_all_of_a_batch_that_a_reshape_merges(
    sizes: tuple[int, int, int],
) -> None:
    """Of what it is broadcast along the reshape makes rows: blocks would share its tiles."""
    batch, rows, columns = sizes
    x, y = torch.randn(1, columns, rows), torch.randn(sizes)

    def definition(fd: FusionDefinition) -> None:
        o = fd.ops
        a = fd.define_tensor([1, -1, -1], [None, True, True])
        (b,) = symbolic(fd, y)
        total = o.add(o.permute(a, [0, 2, 1]), b)
        fd.add_output(o.reshape(total, [batch * rows, columns]))

    check(definition, [x, y], [(x.transpose(1, 2) + y).reshape(-1, columns)])


def test_tiles_of_a_batch_of_one() -> None:
    """A dimension of size 1 that a reshape drops keeps nothing from having tiles."""
    x = torch.randn(1, 32, 16, 64)

    def definition(fd: FusionDefinition) -> None:
        o = fd.ops
        a = fd.define_tensor([1, -1, -1, -1], [None, True, True, True])
        y = o.neg(o.permute(a, [3, 0, 2, 1]))
        fd.add_output(o.reshape(y, [64, 16 * 32]))

    text = check(definition, [x], [-x.permute(3, 0, 2, 1).reshape(64, 512)])
    assert "nvfuser_transpose" in text


# ------------------------------------------------------------- an element of what a reduction reads


@pytest.mark.parametrize("lookup", ["select", "index_select"])
@pytest.mark.parametrize("n", [1, 13, 300])
def test_a_reduction_beside_values_of_the_same_input(lookup: str, n: int) -> None:
    """Looking an element up leaves no loop: what is computed of it has those of the reduction."""
    x = torch.randn(n)
    at = min(n - 1, 6)

    def definition(fd: FusionDefinition) -> None:
        o = fd.ops
        (a,) = symbolic(fd, x)
        if lookup == "select":
            element = o.select(a, at, 0)
        else:
            index = fd.define_scalar(at, dtype=DataType.Int)
            element = o.squeeze(o.index_select(a, o.full([1], index, DataType.Int), 0), [0])
        fd.add_output(o.mul(a, element))
        fd.add_output(o.max(o.broadcast(a, [True, False]), [1], keepdim=True))

    check(definition, [x], [x * x[at], x.max().reshape(1, 1)])


def test_what_was_expanded_to_one_is_expanded_again() -> None:
    """A dimension of unknown size, expanded to 1, is a broadcast like any other of size 1."""
    with FusionDefinition() as fd:
        x = fd.define_tensor(shape=[-1, -1], contiguity=True, dtype=DataType.Float)
        one = fd.ops.slice(fd.ops.slice(x, [5, 0], [6, 7]), [0, 4], [1, 5])
        row = fd.ops.expand(fd.ops.slice(fd.ops.expand(one, [1, 5]), [0, 0], [1, 1]), [1, 8])
        fd.add_output(fd.ops.expand(row, [8, 8]))
    values = torch.arange(49.0, device=DEVICE).reshape(7, 7)
    (out,) = fd.execute([values])
    torch.testing.assert_close(out, values[5, 4].expand(8, 8))


# ------------------------------------------------------- what is written to an input, in a shape


def statistics_in_another_shape(fd: FusionDefinition) -> None:
    x, z, w = (fd.define_tensor(shape, contiguity=True) for shape in ([8, 7], [4, 2], [10]))
    fd.add_output(fd.ops.exp(w))
    fd.add_output(fd.ops.reshape(fd.ops.sum(x, [1]), [4, 2]), z)


def an_input_that_another_kernel_reads(fd: FusionDefinition) -> None:
    x, y = (fd.define_tensor(shape, contiguity=True) for shape in ([6, 4], [24]))
    fd.add_output(fd.ops.sum(x, [1]))
    fd.add_output(fd.ops.reshape(y, [6, 4]), x)


def returned_in_another_shape(fd: FusionDefinition) -> None:
    x, buffer = (fd.define_tensor([8, 3], contiguity=True) for _ in range(2))
    t = fd.ops.mul(x, 2.0)
    fd.add_output(fd.ops.reshape(t, [24]))
    fd.add_output(fd.ops.min(t, [0, 1]))
    fd.add_output(t, buffer)


def test_a_sum_is_written_to_an_input_of_another_shape() -> None:
    x, z, w = (torch.randn(*shape, device=DEVICE) for shape in ((8, 7), (4, 2), (10,)))
    (out,) = define(statistics_in_another_shape).execute([x, z, w])
    torch.testing.assert_close(out, w.exp())
    torch.testing.assert_close(z, x.sum(1).view(4, 2))


def test_an_input_is_replaced_by_a_view_of_another_one() -> None:
    x, y = torch.randn(6, 4, device=DEVICE), torch.randn(24, device=DEVICE)
    expected = x.sum(1)
    (out,) = define(an_input_that_another_kernel_reads).execute([x, y])
    torch.testing.assert_close(out, expected)
    torch.testing.assert_close(x, y.view(6, 4), rtol=0, atol=0)


def test_what_is_written_to_an_input_is_returned_in_another_shape() -> None:
    x, buffer = (torch.randn(8, 3, device=DEVICE) for _ in range(2))
    flat, least = define(returned_in_another_shape).execute([x, buffer])
    torch.testing.assert_close(buffer, x * 2, rtol=0, atol=0)
    torch.testing.assert_close(flat, (x * 2).flatten(), rtol=0, atol=0)
    torch.testing.assert_close(least, (x * 2).min(), rtol=0, atol=0)
    buffer.zero_()
    torch.testing.assert_close(flat, (x * 2).flatten(), rtol=0, atol=0)
