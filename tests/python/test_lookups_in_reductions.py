# SPDX-License-Identifier: BSD-3-Clause
"""Lookups (gather, index_select, select, embedding) in the kernels of reductions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from helpers import DEVICE
from nvfuse_direct import DataType, FusionDefinition, explain

TYPES = {torch.float: DataType.Float, torch.bfloat16: DataType.BFloat16}


def run(fd: FusionDefinition, inputs: list[Any], kernels: list[str]) -> list[torch.Tensor]:
    """The outputs, of which the kernels are made by these schedulers."""
    outputs = fd.execute(inputs)
    schedulers = [str(s.scheduler) for s in explain(fd, inputs).segments]
    assert schedulers == kernels, str(explain(fd, inputs))
    return outputs


def expect(actual: torch.Tensor, expected: torch.Tensor) -> None:
    tolerance = 2e-2 if actual.dtype == torch.bfloat16 else 2e-5
    torch.testing.assert_close(actual.double(), expected, rtol=tolerance, atol=tolerance)


def log_sum_exp(fd: FusionDefinition, x: Any) -> Any:
    top = fd.ops.max(x, [1])
    e = fd.ops.exp(fd.ops.sub(x, fd.ops.broadcast(top, [False, True])))
    return fd.ops.add(fd.ops.log(fd.ops.sum(e, [1])), top)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("rows, width", [(7, 130), (3, 1000), (2, 70000)])
def test_cross_entropy_of_rows_is_one_kernel(dtype: torch.dtype, rows: int, width: int) -> None:
    x = torch.randn(rows, width, device=DEVICE).to(dtype)
    label = torch.randint(0, width, (rows,), device=DEVICE)
    with FusionDefinition() as fd:
        logits, target = fd.from_pytorch(x), fd.from_pytorch(label)
        wide = fd.ops.cast(logits, DataType.Float)
        index = fd.ops.broadcast(target, [False, True])
        chosen = fd.ops.squeeze(fd.ops.take_along_axis(wide, index, 1), [1])
        fd.add_output(fd.ops.sub(log_sum_exp(fd, wide), chosen))
    (loss,) = run(fd, [x, label], ["reduction"])
    expect(loss, torch.nn.functional.cross_entropy(x.double(), label, reduction="none"))


@pytest.mark.parametrize("open_sizes", [False, True])
@pytest.mark.parametrize("dtype", TYPES)
def test_attention_over_gathered_neighbours(dtype: torch.dtype, open_sizes: bool) -> None:
    """Features of the neighbours of each node (graph attention): rows of a table, seen as nodes,
    neighbours and heads, are read by the kernels that reduce them, and are not written."""
    nodes, neighbours, heads, width = 33, 5, 4, 8
    x = torch.randn(nodes, heads * width, device=DEVICE).to(dtype)
    index = torch.randint(0, nodes, (nodes * neighbours,), device=DEVICE)
    weight = torch.randn(heads, width, device=DEVICE)
    with FusionDefinition() as fd:
        ops = fd.ops
        table, at = (fd.from_pytorch(t, static_sizes=not open_sizes) for t in (x, index))
        w = fd.from_pytorch(weight)
        rows = ops.reshape(ops.index_select(table, at, 0), [nodes, neighbours, heads, width])
        wide = ops.cast(rows, DataType.Float)
        score = ops.sum(ops.mul(wide, ops.broadcast(w, [True, True, False, False])), [3])
        e = ops.exp(ops.sub(score, ops.broadcast(ops.max(score, [1]), [False, True, False])))
        share = ops.div(e, ops.broadcast(ops.sum(e, [1]), [False, True, False]))
        found = ops.mul(wide, ops.broadcast(share, [False, False, False, True]))
        fd.add_output(ops.sum(found, [1]))
    (out,) = fd.execute([x, index, weight])
    v = x.double()[index].reshape(nodes, neighbours, heads, width)
    p = torch.softmax((v * weight.double()).sum(-1), 1)
    expect(out, (v * p[..., None]).sum(1))
    moved = sum(s.output_bytes for s in explain(fd, [x, index, weight], measure=False).segments)
    assert moved < nodes * neighbours * heads * width * x.element_size()


@pytest.mark.parametrize("lookup", ["index_select", "embedding_fwd"])
def test_rows_of_a_mean_of_layers(lookup: str) -> None:
    """What is found for a few users is computed for them alone (light graph convolutions)."""
    layers = [torch.randn(40, 16, device=DEVICE) for _ in range(3)]
    index = torch.tensor([3, 39, 3, -1, 40, 0], device=DEVICE)
    with FusionDefinition() as fd:
        ops = fd.ops
        tables = [fd.from_pytorch(x, static_sizes=True) for x in layers]
        at = fd.from_pytorch(index, static_sizes=True)
        stacked = ops.reshape(ops.cat(tables, 1), [40, 3, 16])
        mean = ops.exp(ops.div(ops.sum(stacked, [1]), 3.0))
        found = (
            ops.index_select(mean, at, 0)
            if lookup == "index_select"
            else ops.embedding_fwd(at, mean)
        )
        fd.add_output(ops.sum(ops.mul(found, found), [1]))
    (out,) = run(fd, [*layers, index], ["reduction"])
    rows = torch.exp(sum(x.double() for x in layers) / 3.0)
    rows = torch.cat([rows, torch.zeros(1, 16, dtype=torch.double, device=DEVICE)])
    at_or_zero = torch.where((index >= 0) & (index < 40), index, 40)
    expect(out, (rows[at_or_zero] ** 2).sum(1))


@pytest.mark.parametrize("bias_is_computed", [False, True])
@pytest.mark.parametrize("rows, width", [(7, 130), (3, 70000)])
def test_logits_with_a_bias_of_each_class(rows: int, width: int, bias_is_computed: bool) -> None:
    """Adjusted logits (long-tailed classes, sampled softmax): the table is not written."""
    x = torch.randn(rows, width, device=DEVICE)
    prior = torch.rand(width, device=DEVICE) + 0.5
    label = torch.randint(0, width, (rows,), device=DEVICE)
    label[0] = width - 1
    with FusionDefinition() as fd:
        ops = fd.ops
        logits, bias, target = (fd.from_pytorch(each) for each in (x, prior, label))
        bias = ops.log(bias) if bias_is_computed else bias
        wide = ops.add(logits, ops.broadcast(bias, [True, False]))
        index = ops.broadcast(target, [False, True])
        chosen = ops.squeeze(ops.take_along_axis(wide, index, 1), [1])
        fd.add_output(ops.sub(log_sum_exp(fd, wide), chosen))
    inputs = [x, prior, label]
    (loss,) = fd.execute(inputs)
    reports = fd.fec._segment_reports(inputs)
    written = [r["output_bytes"] for r in reports if r["segment_id"] >= 0]
    assert max(written) <= 4 * max(rows, width)
    wide = x.double() + (prior.double().log() if bias_is_computed else prior)
    expect(loss, torch.nn.functional.cross_entropy(wide, label, reduction="none"))


@pytest.mark.parametrize("rows, width", [(300, 130), (20000, 8)])
def test_mean_of_the_losses_that_count(rows: int, width: int) -> None:
    """Their sum and their number share the second kernel."""
    x = torch.randn(rows, width, device=DEVICE)
    label = torch.randint(0, width, (rows,), device=DEVICE)
    label[::7] = -100
    with FusionDefinition() as fd:
        ops = fd.ops
        logits, target = fd.from_pytorch(x), fd.from_pytorch(label)
        counts = ops.ne(target, -100)
        index = ops.broadcast(ops.where(counts, target, 0), [False, True])
        chosen = ops.squeeze(ops.take_along_axis(logits, index, 1), [1])
        losses = ops.where(counts, ops.sub(log_sum_exp(fd, logits), chosen), 0.0)
        number = ops.sum(ops.cast(counts, DataType.Float), [0])
        fd.add_output(ops.div(ops.sum(losses, [0]), number))
    (loss,) = run(fd, [x, label], ["reduction", "reduction"])
    expect(loss, torch.nn.functional.cross_entropy(x.double(), label))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("rows, width", [(7, 130), (2, 70000)])
def test_negative_log_likelihood_of_log_softmax(dtype: torch.dtype, rows: int, width: int) -> None:
    """The lookup in what is computed moves to the input."""
    x = torch.randn(rows, width, device=DEVICE).to(dtype)
    label = torch.randint(0, width, (rows,), device=DEVICE)
    with FusionDefinition() as fd:
        logits, target = fd.from_pytorch(x), fd.from_pytorch(label)
        wide = fd.ops.cast(logits, DataType.Float)
        shift = fd.ops.broadcast(log_sum_exp(fd, wide), [False, True])
        index = fd.ops.broadcast(target, [False, True])
        chosen = fd.ops.take_along_axis(fd.ops.sub(wide, shift), index, 1)
        fd.add_output(fd.ops.neg(fd.ops.squeeze(chosen, [1])))
    (loss,) = run(fd, [x, label], ["reduction"])
    expect(loss, torch.nn.functional.cross_entropy(x.double(), label, reduction="none"))


Lookup = Callable[[FusionDefinition, Any, Any], Any]
LOOKUPS: dict[str, Lookup] = {
    "embedding": lambda fd, table, index: fd.ops.embedding_fwd(index, table),
    "index_select": lambda fd, table, index: fd.ops.index_select(table, index, 0),
}


@pytest.mark.parametrize("lookup", LOOKUPS)
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("width", [96, 1000])
def test_rms_norm_of_embedding(lookup: str, dtype: torch.dtype, width: int) -> None:
    table = torch.randn(50, width, device=DEVICE).to(dtype)
    token = torch.randint(0, 50, (17,), device=DEVICE)
    with FusionDefinition() as fd:
        weight, index = fd.from_pytorch(table, static_sizes=True), fd.from_pytorch(token)
        x = fd.ops.cast(LOOKUPS[lookup](fd, weight, index), DataType.Float)
        square = fd.ops.sum(fd.ops.mul(x, x), [1], keepdim=True)
        scale = fd.ops.rsqrt(fd.ops.add(fd.ops.div(square, float(width)), 1e-5))
        y = fd.ops.mul(x, fd.ops.broadcast_in_dim(scale, [17, width], [0, 1]))
        fd.add_output(fd.ops.cast(y, TYPES[dtype]))
    (out,) = run(fd, [table, token], ["inner_persistent"])
    rows = table.double()[token]
    expect(out, rows * (rows.square().mean(1, keepdim=True) + 1e-5).rsqrt())


@pytest.mark.parametrize("dims, shape", [([2], (3, 5, 40)), ([1], (4, 30, 6)), ([0, 1], (3, 4, 9))])
def test_reductions_of_what_is_looked_up(dims: list[int], shape: tuple[int, ...]) -> None:
    table = torch.randn(11, *shape[1:], device=DEVICE)
    token = torch.randint(0, 11, (shape[0],), device=DEVICE)
    with FusionDefinition() as fd:
        weight, index = fd.from_pytorch(table), fd.from_pytorch(token)
        rows = fd.ops.mul(fd.ops.index_select(weight, index, 0), 2.0)
        fd.add_output(fd.ops.sum(rows, dims))
    (out,) = run(fd, [table, token], ["reduction"])
    expect(out, (table.double()[token] * 2.0).sum(dims))


def test_row_that_is_gathered_element_by_element() -> None:
    """Positions for each element of the row; what is found is normalized."""
    x = torch.randn(6, 200, device=DEVICE)
    order = torch.stack([torch.randperm(200, device=DEVICE) for _ in range(6)])
    with FusionDefinition() as fd:
        source, index = fd.from_pytorch(x), fd.from_pytorch(order)
        found = fd.ops.take_along_axis(source, index, 1)
        top = fd.ops.broadcast(fd.ops.max(found, [1]), [False, True])
        e = fd.ops.exp(fd.ops.sub(found, top))
        fd.add_output(fd.ops.div(e, fd.ops.broadcast(fd.ops.sum(e, [1]), [False, True])))
    (out,) = run(fd, [x, order], ["inner_persistent"])
    expect(out, x.double().gather(1, order).softmax(1))


def test_selected_row_and_several_gathered_elements() -> None:
    x = torch.randn(6, 64, device=DEVICE)
    picks = torch.randint(0, 64, (6, 3), device=DEVICE)
    with FusionDefinition() as fd:
        source, index = fd.from_pytorch(x), fd.from_pytorch(picks)
        row = fd.ops.broadcast(fd.ops.select(source, 2, 0), [True, False])
        total = fd.ops.sum(fd.ops.mul(source, row), [1])
        fd.add_output(total)
        # Elements that are no dimension of the rows take a kernel of their own.
        found = fd.ops.take_along_axis(source, index, 1)
        fd.add_output(fd.ops.sub(found, fd.ops.broadcast(total, [False, True])))
    first, second = fd.execute([x, picks])
    expected = (x.double() * x[2].double()).sum(1)
    expect(first, expected)
    expect(second, x.double().gather(1, picks) - expected[:, None])


def test_position_that_a_reduction_finds() -> None:
    """The lookup comes after the reduction: the greatest position of each row, read there."""
    x = torch.randn(5, 48, device=DEVICE)
    marks = torch.randint(0, 48, (5, 48), device=DEVICE)
    with FusionDefinition() as fd:
        source, numbers = fd.from_pytorch(x), fd.from_pytorch(marks)
        last = fd.ops.max(numbers, [1], keepdim=True)
        fd.add_output(fd.ops.squeeze(fd.ops.take_along_axis(source, last, 1), [1]))
    (out,) = fd.execute([x, marks])
    torch.testing.assert_close(out, x.gather(1, marks.amax(1, keepdim=True))[:, 0])


def test_table_that_is_an_output_too() -> None:
    x = torch.randn(9, 70, device=DEVICE)
    label = torch.randint(0, 70, (9,), device=DEVICE)
    with FusionDefinition() as fd:
        source, target = fd.from_pytorch(x), fd.from_pytorch(label)
        shift = fd.ops.broadcast(log_sum_exp(fd, source), [False, True])
        log_softmax = fd.ops.sub(source, shift)
        index = fd.ops.broadcast(target, [False, True])
        fd.add_output(log_softmax)
        fd.add_output(fd.ops.take_along_axis(log_softmax, index, 1))
    whole, chosen = run(fd, [x, label], ["inner_persistent"])
    expected = x.double().log_softmax(1)
    expect(whole, expected)
    expect(chosen, expected.gather(1, label[:, None]))


def test_lookup_in_an_exponential_of_a_product() -> None:
    """Operands with all dimensions are looked up, each in its own input."""
    x, y = (torch.randn(12, 33, device=DEVICE) for _ in range(2))
    position = torch.randint(0, 33, (12, 4), device=DEVICE)
    with FusionDefinition() as fd:
        a, b, index = (fd.from_pytorch(t) for t in (x, y, position))
        table = fd.ops.exp(fd.ops.mul(a, fd.ops.add(b, 1.0)))
        fd.add_output(fd.ops.gather(table, index, 1))
    (out,) = run(fd, [x, y, position], ["pointwise"])
    expect(out, (x.double() * (y.double() + 1)).exp().gather(1, position))


def test_gathered_rows_that_are_fewer() -> None:
    x = torch.randn(12, 33, device=DEVICE)
    position = torch.randint(0, 33, (5, 4), device=DEVICE)
    with FusionDefinition() as fd:
        a, index = fd.from_pytorch(x), fd.from_pytorch(position)
        shift = fd.ops.broadcast(log_sum_exp(fd, a), [False, True])
        fd.add_output(fd.ops.gather(fd.ops.sub(a, shift), index, 1))
    (out,) = fd.execute([x, position])
    expect(out, x.double().log_softmax(1)[:5].gather(1, position))


def test_input_that_is_updated_while_it_is_looked_up() -> None:
    x = torch.randn(8, 40, device=DEVICE)
    position = torch.randint(0, 40, (8, 1), device=DEVICE)
    with FusionDefinition() as fd:
        a, index = fd.from_pytorch(x), fd.from_pytorch(position)
        chosen = fd.ops.take_along_axis(a, index, 1)
        shift = fd.ops.broadcast(fd.ops.sum(a, [1]), [False, True])
        fd.add_output(chosen)
        fd.add_output(fd.ops.sub(a, shift), alias_input=a)
    before = x.double()
    (out,) = fd.execute([x, position])
    expect(out, before.gather(1, position))
    expect(x, before - before.sum(1, keepdim=True))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("index_type", [torch.int64, torch.int32])
def test_rows_and_columns_as_one_position(dtype: torch.dtype, index_type: torch.dtype) -> None:
    """x[rows, columns] as frontends spell it: no table is written, whatever the positions are."""
    rows, width = 6, 130
    x = torch.randn(2, rows // 2, width, device=DEVICE).to(dtype)
    column = torch.randint(0, width, (rows,), device=DEVICE).to(index_type)
    column[0], column[3], column[5] = width + 5, -7, width  # of other rows, and none
    with FusionDefinition() as fd:
        logits, label = fd.from_pytorch(x), fd.from_pytorch(column)
        wide = fd.ops.cast(logits, DataType.Float)
        top = fd.ops.broadcast(fd.ops.max(wide, [2]), [False, False, True])
        table = fd.ops.reshape(fd.ops.exp(fd.ops.sub(wide, top)), [rows, width])
        table = fd.ops.reshape(table, [rows * width])
        first = fd.ops.mul(fd.ops.iota(rows, dtype=DataType.Int), width)
        fd.add_output(fd.ops.index_select(table, fd.ops.add(first, label), 0))
    (found,) = run(fd, [x, column], ["reduction", "pointwise"])
    written = explain(fd, [x, column]).segments[0].output_bytes
    assert written < x.numel(), "the table is written"
    wide = x.double().reshape(rows, width)
    flat = (wide - wide.amax(1, keepdim=True)).exp().flatten()
    at = torch.arange(rows, device=DEVICE) * width + column
    expect(found, torch.where(at < rows * width, flat[at.clamp(max=rows * width - 1)], 0.0))
