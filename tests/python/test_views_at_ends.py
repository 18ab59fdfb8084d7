# SPDX-License-Identifier: BSD-3-Clause
"""Inputs that are seen with other dimensions, results that are returned with other ones: no kernel
computes them. (test_spellings.py has a spelling with such views of each family of layers.)"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers import DEVICE, ON_CUDA, define, difference, run_python
from nvfuse_direct import DataType, FusionDefinition, explain

Tensor = torch.Tensor


def values(*sizes: int, dtype: torch.dtype = torch.float) -> Tensor:
    generator = torch.Generator().manual_seed(sum(sizes))
    return torch.randn(sizes, generator=generator).to(DEVICE, dtype)


def kernels(fd: FusionDefinition, inputs: list[Tensor]) -> list[str]:
    return [segment.scheduler for segment in explain(fd, inputs, measure=False).segments]


def softmax_of_rows(fd: FusionDefinition, x: Any) -> Any:
    ops = fd.ops
    flags = [False, True]
    e = ops.exp(ops.sub(x, ops.broadcast(ops.max(x, [1]), flags)))
    return ops.div(e, ops.broadcast(ops.sum(e, [1]), flags))


@pytest.mark.parametrize("sizes", [(2, 3, 4, 32), (1, 12, 1, 32), (24, 32), (1, 1, 7, 33)])
@pytest.mark.parametrize("open_sizes", [False, True])
def test_flattened_rows_are_one_kernel(sizes: tuple[int, ...], open_sizes: bool) -> None:
    x = values(*sizes)

    def definition(fd: FusionDefinition) -> None:
        t = fd.from_pytorch(x, static_sizes=not open_sizes)
        y = softmax_of_rows(fd, fd.ops.reshape(t, [-1, sizes[-1]]))
        fd.add_output(fd.ops.reshape(y, list(sizes)))

    fd = define(definition)
    for _ in range(2):
        (out,) = fd.execute([x])
        assert out.is_contiguous()
        assert difference(out, torch.softmax(x, -1), rtol=1e-5, atol=1e-6) is None
    assert len(kernels(fd, [x])) == 1


def test_a_result_in_two_shapes_is_made_once() -> None:
    x = values(2, 3, 32)

    def definition(fd: FusionDefinition) -> None:
        rows = softmax_of_rows(fd, fd.ops.reshape(fd.from_pytorch(x), [6, 32]))
        fd.add_output(rows)
        fd.add_output(fd.ops.reshape(rows, [2, 3, 32]))
        fd.add_output(fd.ops.broadcast(rows, [True, False, False]))
        fd.add_output(rows)

    fd = define(definition)
    for _ in range(2):
        outputs = fd.execute([x])
        assert [tuple(y.shape) for y in outputs] == [(6, 32), (2, 3, 32), (1, 6, 32), (6, 32)]
        assert len({y.data_ptr() for y in outputs}) == 1
        expected = torch.softmax(x, -1)
        for y in outputs:
            assert difference(y.reshape(2, 3, 32), expected, rtol=1e-5, atol=1e-6) is None


@pytest.mark.parametrize("open_sizes", [False, True])
@pytest.mark.parametrize("dtype", [torch.float, torch.bfloat16])
def test_parts_of_what_was_stacked_lie_in_one_result(open_sizes: bool, dtype: torch.dtype) -> None:
    """Gradients of stacked tensors, in an order that is not that of memory; some lack the
    dimension, one is empty."""
    x = values(6, 3, 32, dtype=dtype)
    ranges = [(1, 2), (4, 6), (0, 1), (4, 4), (2, 4)]

    def definition(fd: FusionDefinition) -> None:
        ops = fd.ops
        t = fd.from_pytorch(x, static_sizes=not open_sizes)
        y = ops.cast(ops.mul(t, ops.broadcast(ops.sum(t, [2]), [False, False, True])), t.dtype())
        for start, stop in ranges:
            part = ops.slice(y, [start, 0, 0], [stop, 3, 32])
            fd.add_output(ops.squeeze(part, [0]) if stop == start + 1 else part)

    expected = (x.float() * x.float().sum(2, keepdim=True)).to(dtype)
    fd = define(definition)
    for _ in range(2):
        outputs = fd.execute([x])
        for out, (start, stop) in zip(outputs, ranges, strict=True):
            part = expected[start] if stop == start + 1 else expected[start:stop]
            assert out.is_contiguous()
            assert difference(out, part, rtol=2e-2, atol=1e-3) is None
        first = outputs[2].data_ptr()
        assert (outputs[0].data_ptr() - first) // x.element_size() == 96
        assert (outputs[1].data_ptr() - first) // x.element_size() == 4 * 96
    assert len(kernels(fd, [x])) == 1


def test_some_parts_take_their_own_memory() -> None:
    x = values(6, 32)

    def definition(fd: FusionDefinition) -> None:
        y = fd.ops.exp(fd.from_pytorch(x))
        fd.add_output(fd.ops.slice(y, [0, 0], [1, 32]))
        fd.add_output(fd.ops.slice(y, [4, 0], [6, 32]))

    fd = define(definition)
    outputs = fd.execute([x])
    for out, part in zip(outputs, (x[:1], x[4:]), strict=True):
        assert out.untyped_storage().nbytes() < x.untyped_storage().nbytes()
        assert difference(out, part.exp(), rtol=1e-5, atol=1e-6) is None


@pytest.mark.parametrize("returned_too", [False, True])
def test_parts_of_a_product_lie_in_it(returned_too: bool) -> None:
    """The gradients of weights that were stacked for one product."""
    x, w = values(6, 16), values(16, 24)

    def definition(fd: FusionDefinition) -> None:
        y = fd.ops.matmul(fd.from_pytorch(x), fd.from_pytorch(w))
        if returned_too:
            fd.add_output(y)
        for start in (0, 3):
            fd.add_output(fd.ops.slice(y, [start, 0], [start + 3, 24]))

    fd = define(definition)
    for _ in range(2):
        outputs = fd.execute([x, w])
        expected = x @ w
        for out, part in zip(outputs[-2:], expected.split(3), strict=True):
            assert difference(out, part, rtol=1e-4, atol=1e-4) is None
        assert outputs[-1].data_ptr() - outputs[-2].data_ptr() == 3 * 24 * x.element_size()
        assert not returned_too or outputs[0].data_ptr() == outputs[1].data_ptr()


def test_what_is_written_in_place_is_no_other_result() -> None:
    x, y = values(4, 8), values(4, 8)
    before, old = x.clone(), y.clone()
    with FusionDefinition() as fd:
        a, b = fd.from_pytorch(x), fd.from_pytorch(y)
        updated = fd.ops.add(a, b)
        fd.add_output(updated, a)
        fd.add_output(fd.ops.reshape(updated, [8, 4]))
    (out,) = fd.execute([x, y])
    assert torch.equal(x, before + old)
    assert torch.equal(out, (before + old).reshape(8, 4))
    out.zero_()
    assert torch.equal(x, before + old)


@pytest.mark.parametrize("cut", [slice(0, 6), slice(1, 7)])
def test_rows_with_gaps_between_them(cut: slice) -> None:
    """Which may be merged where the gaps are, or not."""
    x = values(3, 8, 10)[:, cut]
    with FusionDefinition() as fd:
        t = fd.from_pytorch(x)
        fd.add_output(fd.ops.exp(fd.ops.reshape(t, [3, 60])))
        fd.add_output(fd.ops.neg(fd.ops.reshape(t, [18, 10])))
    merged, rows = fd.execute([x])
    assert difference(merged, x.reshape(3, 60).exp(), rtol=1e-5, atol=1e-6) is None
    assert torch.equal(rows, -x.reshape(18, 10))


def test_without_elements() -> None:
    x = values(2, 0, 8)
    with FusionDefinition() as fd:
        y = softmax_of_rows(fd, fd.ops.reshape(fd.from_pytorch(x), [0, 8]))
        fd.add_output(y)
        fd.add_output(fd.ops.reshape(y, [2, 0, 8]))
    assert [tuple(y.shape) for y in fd.execute([x])] == [(0, 8), (2, 0, 8)]


def test_plans_from_the_disk(tmp_path: Path) -> None:
    program = f"""
    import torch
    from nvfuse_direct import FusionDefinition
    x = torch.arange(96.0).reshape(1, 4, 24).to({str(DEVICE)!r})
    with FusionDefinition() as fd:
        rows = fd.ops.exp(fd.ops.reshape(fd.from_pytorch(x), [8, 12]))
        fd.add_output(rows)
        fd.add_output(fd.ops.reshape(rows, [4, 24]))
    a, b = fd.execute([x])
    assert a.data_ptr() == b.data_ptr()
    assert torch.allclose(a, x.reshape(8, 12).exp()) and torch.equal(b, a.reshape(4, 24))
    """
    for _ in range(2):
        result = run_python(program, {"NVFUSER_CACHE_DIR": str(tmp_path)})
        assert result.returncode == 0, result.stderr


def test_results_of_a_library() -> None:
    x, w = values(2, 5, 16), values(8, 16)
    with FusionDefinition() as fd:
        y = fd.ops.linear(fd.from_pytorch(x), fd.from_pytorch(w))
        fd.add_output(fd.ops.reshape(y, [10, 2, 4]))
    (out,) = fd.execute([x, w])
    expected = torch.nn.functional.linear(x, w).reshape(10, 2, 4)
    assert difference(out, expected, rtol=1e-4, atol=1e-5) is None
    assert kernels(fd, [x, w]) == ["expr_eval"]


@pytest.mark.machine("hopper")
def test_a_squeezed_dimension_does_not_keep_vectors_away() -> None:
    """The input is read with it as well, so that it is no view."""
    x = values(1, 64, 256, dtype=torch.bfloat16)

    def definition(fd: FusionDefinition) -> None:
        ops = fd.ops
        t = fd.from_pytorch(x, static_sizes=True)
        rows = ops.cast(ops.squeeze(t, [0]), DataType.Float)
        low, high = ops.slice(rows, [0, 0], [64, 128]), ops.slice(rows, [0, 128], [64, 256])
        turned = ops.cat([ops.neg(high), low], -1)
        fd.add_output(ops.cast(ops.add(rows, turned), DataType.BFloat16))
        fd.add_output(ops.cast(ops.neg(t), DataType.BFloat16))

    fd = define(definition)
    out, negative = fd.execute([x])
    wide = x[0].float()
    turned = torch.cat([-wide[:, 128:], wide[:, :128]], -1)
    assert torch.equal(out, (wide + turned).bfloat16())
    assert torch.equal(negative, -x)
    if not ON_CUDA:
        text = fd.fec.get_cuda_kernel([x])
        assert re.search(r"loadGlobal<__bfloat, 8", text), text
        assert not re.search(r"= T0\[", text), text
