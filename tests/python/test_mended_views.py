"""Views of a kernel's tensors from its reference: what is contiguous, and which loops they have."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from helpers import DEVICE, assert_all_same, define
from nvfuse_direct import FusionDefinition

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
