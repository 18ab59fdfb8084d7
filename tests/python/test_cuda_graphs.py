# SPDX-License-Identifier: BSD-3-Clause
"""`fd.execute` in a CUDA graph that torch captures: warm, and cold (planned, compiled and loaded
while the stream is captured). Replays read what their inputs hold then."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable

import pytest
import torch
from nvfuse_direct import DataType, FusionDefinition

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

REPLAYS = 4
_numbers = iter(range(1, 1000))


def pointwise(fd: FusionDefinition, x, factor: float):
    return [fd.ops.mul(fd.ops.relu(x), factor)]


def row_sum(fd: FusionDefinition, x, factor: float):
    return [fd.ops.mul(fd.ops.sum(fd.ops.exp(x), [1]), factor)]


def whole_sum(fd: FusionDefinition, x, factor: float):
    """Partial results of many blocks go through a buffer, and blocks count each other."""
    return [fd.ops.mul(fd.ops.sum(x, [0, 1]), factor)]


def column_variance(fd: FusionDefinition, x, factor: float):
    var, mean = fd.ops.var_mean(x, [0], 0, False)
    return [fd.ops.mul(var, factor), mean]


def segments(fd: FusionDefinition, x, factor: float):
    """Several kernels, with memory for what lies between them."""
    y = fd.ops.segment_set(fd.ops.mul(fd.ops.exp(x), factor))
    columns = fd.ops.segment_set(fd.ops.sum(y, [0], True))
    return [fd.ops.add(y, columns), fd.ops.sum(y, [1])]


def views(fd: FusionDefinition, x, factor: float):
    return [fd.ops.permute(x, [1, 0]), x, fd.ops.mul(x, factor)]


REFERENCES: dict[Callable, Callable] = {
    pointwise: lambda x, f: [torch.relu(x) * f],
    row_sum: lambda x, f: [x.exp().sum(1) * f],
    whole_sum: lambda x, f: [x.sum() * f],
    column_variance: lambda x, f: [x.var(0, correction=0) * f, x.mean(0)],
    segments: lambda x, f: [x.exp() * f + (x.exp() * f).sum(0, True), (x.exp() * f).sum(1)],
    views: lambda x, f: [x.t(), x, x * f],
}


def define(build: Callable) -> tuple[FusionDefinition, float]:
    """A definition that no other test has: its kernels are not there yet."""
    factor = next(_numbers) + time.time_ns() % 1000 / 1000
    with FusionDefinition() as fd:
        x = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.Float)
        for output in build(fd, x, factor):
            fd.add_output(output)
    return fd, factor


def check(build: Callable, outputs: list[torch.Tensor], x: torch.Tensor, factor: float) -> None:
    wanted = REFERENCES[build](x.double(), factor)
    # Of two million numbers that cancel, the sum keeps fewer digits than each of them.
    slack = 1e-3 + 1e-8 * x.double().abs().sum().item() * abs(factor)
    for got, want in zip(outputs, wanted, strict=True):
        torch.testing.assert_close(got.double(), want, rtol=1e-4, atol=slack)


@pytest.mark.parametrize("warm", [True, False], ids=["warm", "cold"])
@pytest.mark.parametrize("mode", ["global", "thread_local", "relaxed"])
@pytest.mark.parametrize("build", REFERENCES, ids=lambda build: build.__name__)
@pytest.mark.parametrize("sizes", [(64, 96), (2048, 1024)], ids=["small", "large"])
def test_replays_read_their_inputs(build: Callable, warm: bool, mode: str, sizes) -> None:
    fd, factor = define(build)
    x = torch.randn(sizes, device="cuda")
    if warm:
        check(build, fd.execute([x]), x, factor)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode=mode):
        outputs = fd.execute([x])
    for _ in range(REPLAYS):
        x.copy_(torch.randn_like(x))
        graph.replay()
        check(build, outputs, x, factor)
    # Ordinary calls go on beside the graph, with counters that are zero.
    other = torch.randn_like(x)
    check(build, fd.execute([other]), other, factor)
    graph.replay()
    check(build, outputs, x, factor)


def test_several_calls_and_definitions_in_one_graph() -> None:
    (first, a), (second, b), (third, c) = define(segments), define(whole_sum), define(pointwise)
    x = torch.randn(256, 300, device="cuda")
    first.execute([x])
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = third.execute([x])[0]
        results = [first.execute([y]), second.execute([y]), first.execute([x])]
    for _ in range(REPLAYS):
        x.copy_(torch.randn_like(x))
        graph.replay()
        y = torch.relu(x) * c
        check(segments, results[2], x, a)
        torch.testing.assert_close(results[1][0], y.sum() * b, rtol=1e-3, atol=1e-2)


def test_an_update_in_place() -> None:
    factor = next(_numbers) / 1000
    with FusionDefinition() as fd:
        x = fd.define_tensor(shape=[-1], contiguity=[True], dtype=DataType.Float)
        fd.add_output(fd.ops.add(x, factor), x)
    x = torch.zeros(1000, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        fd.execute([x])
    for count in range(1, REPLAYS):
        graph.replay()
        torch.testing.assert_close(x, torch.full_like(x, count * factor))


def test_kernels_outlive_their_definition() -> None:
    """A graph launches kernels long after what they were made for is gone."""
    fd, factor = define(segments)
    x = torch.randn(64, 96, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        outputs = fd.execute([x])
    del fd
    gc.collect()
    for _ in range(20):
        other, number = define(pointwise)
        check(pointwise, other.execute([x]), x, number)
        del other
    x.copy_(torch.randn_like(x))
    graph.replay()
    check(segments, outputs, x, factor)


def test_other_threads_compile_while_one_captures() -> None:
    """In the strictest mode, where what another thread does could end the capture."""
    stop = threading.Event()
    errors: list[Exception] = []

    def compile_on() -> None:
        stream = torch.cuda.Stream()
        try:
            with torch.cuda.stream(stream):
                while not stop.is_set():
                    fd, _ = define(row_sum)
                    fec = fd._make_executor_cache()
                    fec.get_cuda_kernel([held])
        except Exception as error:
            errors.append(error)

    held = torch.randn(8, 8, device="cuda")
    fd, factor = define(pointwise)
    x = torch.randn(64, 96, device="cuda")
    torch.cuda.synchronize()
    thread = threading.Thread(target=compile_on)
    thread.start()
    try:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, capture_error_mode="global"):
            outputs = fd.execute([x])
            time.sleep(1.0)
    finally:
        stop.set()
        thread.join()
    assert not errors, errors
    x.copy_(torch.randn_like(x))
    graph.replay()
    check(pointwise, outputs, x, factor)


def test_random_numbers_of_given_seeds() -> None:
    with FusionDefinition() as fd:
        n = fd.define_scalar(None, dtype=DataType.Int)
        seed, offset = (fd.define_scalar(None, dtype=DataType.Int) for _ in range(2))
        fd.add_output(
            fd.ops.uniform(0.0, 1.0, [n], rng_seed=seed, rng_offset=offset, dtype=DataType.Float)
        )
    want = fd.execute([1000, 7, 4], device="cuda:0")[0].clone()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        got = fd.execute([1000, 7, 4], device="cuda:0")[0]
    for _ in range(2):
        graph.replay()
        assert torch.equal(got, want)


def test_random_numbers_of_the_generator_are_refused() -> None:
    """Their state would be the same in every replay: that is said, and nothing is broken."""
    with FusionDefinition() as fd:
        x = fd.define_tensor(shape=[-1], contiguity=[True], dtype=DataType.Float)
        size = fd.ops.size(x, 0)
        noise = fd.ops.uniform(0.0, 1.0, [size], dtype=DataType.Float)
        fd.add_output(fd.ops.add(x, noise))
    x = torch.zeros(1000, device="cuda")
    torch.manual_seed(5)
    want = fd.execute([x])[0]
    torch.manual_seed(5)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        with pytest.raises(RuntimeError, match=r"random numbers.*CUDA graph"):
            fd.execute([x])
        kept = x + 1
    graph.replay()
    assert torch.equal(kept, x + 1)
    assert torch.equal(fd.execute([x])[0], want), "the generator was not moved on"
