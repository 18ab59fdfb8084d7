# SPDX-License-Identifier: BSD-3-Clause
"""Normalizations of long rows whose row groups reduce the next row while the blocks of a cluster
combine what they have of this one: values, the schedule's parameters, and the adversarial run.
"""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from helpers import DEVICE, run_python
from nvfuse_direct import DataType, FusionDefinition

pytestmark = pytest.mark.machine("hopper")

Tensor = torch.Tensor
TYPES = {torch.float: DataType.Float, torch.bfloat16: DataType.BFloat16}
TOLERANCE = {torch.float: 2e-5, torch.bfloat16: 1e-2}


def random(sizes: list[int], dtype: torch.dtype, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(sizes, generator=generator, dtype=torch.double).to(dtype).to(DEVICE)


# A GPU has so many multiprocessors that fewer rows have no row groups.
MORE_ROWS = 0 if DEVICE.type == "cpu" else 140


def layer_norm_inputs(rows: int, width: int, dtype: torch.dtype) -> list[Tensor]:
    rows += MORE_ROWS if rows > 1 else 0
    grad, x = random([rows, width], dtype, 1), random([rows, width], dtype, 2)
    weight = random([width], dtype, 3)
    variance, mean = torch.var_mean(x.float(), 1, correction=0)
    return [grad, x, weight, mean, (variance + 1e-5).rsqrt()]


def define_layer_norm_backward(inputs: list[Tensor], static: bool = True) -> FusionDefinition:
    """dx, dw and db, given the statistics."""
    dtype = TYPES[inputs[0].dtype]
    with FusionDefinition() as fd:
        o = fd.ops
        tensors = [fd.from_pytorch(t, static_sizes=static) for t in inputs]
        grad, x, weight, mean, scale = (o.cast(t, DataType.Float) for t in tensors)
        mean, scale = (o.broadcast(t, [False, True]) for t in (mean, scale))
        normal = o.mul(o.sub(x, mean), scale)
        weighted = o.mul(grad, o.broadcast(weight, [True, False]))
        share = 1.0 / inputs[0].shape[1]
        plain = o.mul(o.sum(weighted, [1], keepdim=True), share)
        across = o.mul(o.sum(o.mul(weighted, normal), [1], keepdim=True), share)
        dx = o.sub(o.sub(weighted, plain), o.mul(normal, across))
        fd.add_output(o.cast(o.mul(dx, scale), dtype))
        fd.add_output(o.cast(o.sum(o.mul(grad, normal), [0]), dtype))
        fd.add_output(o.cast(o.sum(grad, [0]), dtype))
    return fd


def layer_norm_backward(inputs: list[Tensor]) -> list[Tensor]:
    grad, x, weight, mean, scale = (t.double() for t in inputs)
    normal = (x - mean[:, None]) * scale[:, None]
    weighted = grad * weight
    across = weighted.mean(1, keepdim=True) + normal * (weighted * normal).mean(1, keepdim=True)
    return [(weighted - across) * scale[:, None], (grad * normal).sum(0), grad.sum(0)]


def define_rms_norm_backward(inputs: list[Tensor]) -> FusionDefinition:
    """dx and dw, given the scale."""
    dtype = TYPES[inputs[0].dtype]
    with FusionDefinition() as fd:
        o = fd.ops
        tensors = [fd.from_pytorch(t, static_sizes=True) for t in inputs]
        grad, x, weight, _, scale = (o.cast(t, DataType.Float) for t in tensors)
        normal = o.mul(x, o.broadcast(scale, [False, True]))
        weighted = o.mul(grad, o.broadcast(weight, [True, False]))
        mean = o.mul(o.sum(o.mul(weighted, normal), [1]), 1.0 / inputs[0].shape[1])
        dx = o.sub(weighted, o.mul(normal, o.broadcast(mean, [False, True])))
        fd.add_output(o.cast(o.mul(dx, o.broadcast(scale, [False, True])), dtype))
        fd.add_output(o.cast(o.sum(o.mul(grad, normal), [0]), dtype))
    return fd


def rms_norm_backward(inputs: list[Tensor]) -> list[Tensor]:
    grad, x, weight, _, scale = (t.double() for t in inputs)
    normal = x * scale[:, None]
    weighted = grad * weight
    dx = (weighted - normal * (weighted * normal).mean(1, keepdim=True)) * scale[:, None]
    return [dx, (grad * normal).sum(0)]


def chosen(fd: FusionDefinition, inputs: list[Tensor]) -> dict[str, Any]:
    """By segment."""
    reports = fd.fec._segment_reports(inputs)
    return {each["segment_id"]: each["chosen"] for each in reports if each["chosen"]}


def expect_close(outputs: list[Tensor], expected: list[Tensor]) -> None:
    for position, (out, want) in enumerate(zip(outputs, expected, strict=True)):
        off = (out.double() - want).abs().max() / want.abs().max()
        assert float(off) < TOLERANCE[out.dtype], f"output {position}: {off}"


# What needs clusters of so many blocks: registers hold up to 32 elements of a thread, shared memory
# three rows.
@pytest.mark.parametrize(
    ("width", "rows", "dtype", "cluster"),
    [
        (20480, 1, torch.bfloat16, 2),
        (20488, 7, torch.bfloat16, 2),
        (20480, 19, torch.bfloat16, 2),
        (24576, 16, torch.bfloat16, 2),
        (40960, 5, torch.bfloat16, 4),
        (16384, 11, torch.bfloat16, 2),
        (65536, 9, torch.bfloat16, 4),
        (262144, 5, torch.bfloat16, 16),
        (40000, 10, torch.float, 8),
        (131072, 3, torch.float, 16),
    ],
)
def test_layer_norm_backward(width: int, rows: int, dtype: torch.dtype, cluster: int) -> None:
    inputs = layer_norm_inputs(rows, width, dtype)
    fd = define_layer_norm_backward(inputs)
    expect_close(fd.execute(inputs), layer_norm_backward(inputs))
    params = next(iter(chosen(fd, inputs).values()))
    if rows > 1:  # of a single one there are no sums
        assert params.prefetch_reduction
        assert params.cluster_size == cluster
    assert fd.fec._num_fallbacks == 0


@pytest.mark.parametrize("width", [98304, 131072])
def test_rms_norm_backward(width: int) -> None:
    inputs = layer_norm_inputs(6, width, torch.bfloat16)
    fd = define_rms_norm_backward(inputs)
    expect_close(fd.execute(inputs), rms_norm_backward(inputs))
    assert next(iter(chosen(fd, inputs).values())).prefetch_reduction


def test_numbers_of_rows_that_only_the_launch_knows() -> None:
    inputs = layer_norm_inputs(9, 20480, torch.bfloat16)
    fd = define_layer_norm_backward(inputs, static=False)
    for rows in (9, 2, 3, 16, 33):
        inputs = layer_norm_inputs(rows, 20480, torch.bfloat16)
        expect_close(fd.execute(inputs), layer_norm_backward(inputs))


def test_parameters_can_be_edited() -> None:
    inputs = layer_norm_inputs(13, 20480, torch.bfloat16)
    fd = define_layer_norm_backward(inputs)
    first = fd.execute(inputs)
    params = chosen(fd, inputs)
    segment = next(iter(params))
    assert "prefetch_reduction: true" in str(params[segment])
    for changes in (
        {"prefetch_reduction": False},
        {"prefetch_reduction": False, "stage_rows": False},
        {"circular_buffer_stages": 3},
        {"circular_buffer_stages": 5},
        {"stage_rows": False},  # rows stay in registers from one half to the other
    ):
        fd.fec._set_params({**params, segment: params[segment]._with(changes)})
        for out, before in zip(fd.execute(inputs), first, strict=True):
            assert torch.allclose(out.float(), before.float(), rtol=1e-2, atol=1e-3), changes


@pytest.mark.parametrize(
    ("width", "dtype"), [(8192, torch.bfloat16), (32768, torch.bfloat16), (50264, torch.float)]
)
def test_rows_begin_with_a_line_of_shared_memory(width: int, dtype: torch.dtype) -> None:
    """Buffers that began 16 bytes after a line made kernels up to a fifth slower on a GPU."""
    inputs = layer_norm_inputs(5, width, dtype)
    fd = define_layer_norm_backward(inputs)
    expect_close(fd.execute(inputs), layer_norm_backward(inputs))
    text = fd.fec._segment_reports(inputs)[0]["kernel_text"]
    element = {torch.bfloat16: "__bfloat", torch.float: "float"}[dtype]
    offsets = re.findall(rf"reinterpret_cast<{element}\*>\(smem \+ (\d+)\)", text)
    assert len(offsets) == 2, text
    assert all(int(offset) % 128 == 0 for offset in offsets), offsets
    stages = re.findall(r"% \d\) \* (\d+);", text)
    assert stages, text
    assert all(int(stage) * inputs[0].element_size() % 128 == 0 for stage in stages), stages


def test_row_groups_without_sums_of_columns() -> None:
    """A softmax backward whose blocks are told to be persistent."""
    y, grad = random([11, 9000], torch.float, 4), random([11, 9000], torch.float, 5)
    with FusionDefinition() as fd:
        a, b = fd.from_pytorch(y), fd.from_pytorch(grad)
        total = fd.ops.sum(fd.ops.mul(a, b), [1], keepdim=True)
        fd.add_output(fd.ops.mul(a, fd.ops.sub(b, total)))
    fd.execute([y, grad])
    params = chosen(fd, [y, grad])
    (segment,) = params
    changes = {
        "row_groups": 2,
        "cluster_size": 2,
        "gdimy": 2,
        "bdimx": 320,
        "bdimy": 1,
        "stage_rows": True,
        "circular_buffer_stages": 4,
        "prefetch_reduction": True,
    }
    fd.fec._set_params({segment: params[segment]._with(changes)})
    (out,) = fd.execute([y, grad])
    want = y.double() * (grad.double() - (y.double() * grad.double()).sum(1, keepdim=True))
    expect_close([out], [want])
    assert "endClusterReduce" in fd.fec._segment_reports([y, grad])[0]["kernel_text"]


ADVERSARIAL = """
import torch
from test_prefetch_reductions import *

inputs = [t.cpu() for t in layer_norm_inputs(7, 17408, torch.bfloat16)]
fd = define_layer_norm_backward(inputs)
expect_close(fd.execute(inputs), layer_norm_backward(inputs))
assert next(iter(chosen(fd, inputs).values())).prefetch_reduction
print("passed")
"""


@pytest.mark.parametrize("seed", ["1", "2"])
def test_adversarial_run(seed: str) -> None:
    """Copies and partial results come as late as they may; races are reported."""
    done = run_python(ADVERSARIAL, {"NVFUSER_HOST_ADVERSARIAL": seed}, timeout=600)
    assert done.stdout.strip().endswith("passed"), done.stderr
