# SPDX-License-Identifier: BSD-3-Clause
"""Memory of a call: explain() knows its peak, and tensors between kernels lie in results that are
written later."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers import DEVICE, define
from nvfuse_direct import DataType, FusionDefinition, explain
from torch.profiler import ProfilerActivity, profile

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

import block_cases
import blocks

# Of torch's allocator, for each of few tensors; an offset up to a multiple of 256.
SLACK = 4096


def allocated_at_peak(call: Callable[[], Any]) -> int:
    """Bytes, of the second call: then nothing is set up any more."""
    call()
    if DEVICE.type == "cuda":
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        call()
        return torch.cuda.max_memory_allocated() - before
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        kept = call()
    assert kept is not None
    events = [e for e in profiler.profiler.kineto_results.events() if e.name() == "[memory]"]
    now = peak = 0
    for event in sorted(events, key=lambda e: e.start_ns()):
        now += event.nbytes()
        peak = max(peak, now)
    return peak


def chain(fd: FusionDefinition) -> None:
    """Six kernels; the last one makes the only result."""
    x = fd.define_tensor([-1, -1], [True, True], DataType.Float)
    for step in range(6):
        x = fd.ops.segment_set(fd.ops.add(x, float(step)))
    fd.add_output(fd.ops.relu(x))


def statistics(fd: FusionDefinition) -> None:
    """Sums of rows, of columns and of all, of what a kernel before them writes."""
    x = fd.define_tensor([-1, -1], [True, True], DataType.Float)
    y = fd.ops.segment_set(fd.ops.exp(x))
    for dims in ([0], [1], [0, 1]):
        fd.add_output(fd.ops.sum(y, dims))


def layers(fd: FusionDefinition) -> None:
    """Products, each with a kernel of ours after it."""
    x, *weights = (fd.define_tensor([-1, -1], [True, True], DataType.Float) for _ in range(4))
    for weight in weights:
        x = fd.ops.relu(fd.ops.matmul(x, weight))
        fd.add_output(fd.ops.mul(x, 2.0))


CASES = {"chain": (chain, 1), "statistics": (statistics, 1), "layers": (layers, 4)}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("size", [64, 257])
def test_the_estimate_is_what_a_call_allocates(name: str, size: int) -> None:
    build, count = CASES[name]
    fd = define(build)
    inputs = [torch.randn(size, size, device=DEVICE) for _ in range(count)]
    estimate = explain(fd, inputs, measure=False).peak_bytes
    assert abs(allocated_at_peak(partial(fd.execute, inputs)) - estimate) <= SLACK


def test_two_tensors_serve_a_chain_of_kernels() -> None:
    """The result and one more, whatever the number of kernels."""
    inputs = [torch.randn(256, 256, device=DEVICE)]
    estimate = explain(define(chain), inputs, measure=False).peak_bytes
    assert 2 * inputs[0].nbytes <= estimate <= 2 * inputs[0].nbytes + SLACK


def test_the_report_shows_it() -> None:
    report = explain(define(chain), [torch.randn(500, 500, device=DEVICE)], measure=False)
    assert "peak memory: 2.0 MB beyond inputs" in report.text()


def calls_of(name: str) -> list[tuple[FusionDefinition, Sequence[torch.Tensor]]]:
    (block,) = (block for block in block_cases.BLOCKS if block.name == name)
    options = argparse.Namespace(device=str(DEVICE), small=True)
    ours = blocks.Ours(block, blocks.tensors_of(block, options), small=True, run=True)
    return [
        (ours.forward_definition.fd, [ours.tensors[n] for n in ours.forward_definition.inputs]),
        (ours.backward_definition.fd, [ours.read[n] for n in ours.backward_definition.inputs]),
    ]


@pytest.mark.parametrize("name", [block.name for block in block_cases.BLOCKS])
def test_a_block_allocates_the_estimate_and_what_torch_takes(name: str) -> None:
    """What lies between kernels of a block adds half of its results at most."""
    for fd, inputs in calls_of(name):
        estimate = explain(fd, inputs, measure=False).peak_bytes
        results = sum(x.nbytes for x in fd.execute(inputs))
        assert results <= estimate <= 3 * results // 2 + SLACK
        allocated = allocated_at_peak(partial(fd.execute, inputs))
        assert allocated >= estimate - SLACK
