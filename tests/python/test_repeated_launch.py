# SPDX-License-Identifier: BSD-3-Clause
"""A call that is repeated is launched as a graph of one kernel: nobody must notice."""

import threading
import time

import pytest
import torch
from nvfuse_direct import DataType, FusionDefinition

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
CALLS = 12


def relu_sum(a, b):
    with FusionDefinition() as fd:
        x, y = fd.from_pytorch(a), fd.from_pytorch(b)
        fd.add_output(fd.ops.relu(fd.ops.add(x, y)))
    return fd


@pytest.fixture
def inputs():
    return torch.randn(33, 70, device="cuda"), torch.randn(33, 70, device="cuda")


def test_every_call_has_its_own_arguments(inputs):
    a, b = inputs
    fd = relu_sum(a, b)
    outputs = [fd.execute([a * i, b])[0] for i in range(CALLS)]
    for i, output in enumerate(outputs):
        assert torch.equal(output, torch.relu(a * i + b))


def test_scalars_change_too(inputs):
    with FusionDefinition() as fd:
        x, factor = fd.from_pytorch(inputs[0]), fd.define_scalar(None, dtype=DataType.Float)
        fd.add_output(fd.ops.mul(x, factor))
    for i in range(CALLS):
        assert torch.equal(fd.execute([inputs[0], float(i)])[0], inputs[0] * float(i))


def test_streams_take_turns(inputs):
    a, b = inputs
    fd = relu_sum(a, b)
    streams = [torch.cuda.Stream() for _ in range(3)]
    for turn in range(100):
        stream = streams[turn // 5 % 3] if turn < 30 else streams[0]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            shifted = a + turn
            output = fd.execute([shifted, b])[0]
            assert torch.equal(output, torch.relu(shifted + b))


def test_a_capture_takes_the_kernel_itself(inputs):
    a, b = inputs
    fd = relu_sum(a, b)
    for _ in range(CALLS):
        fd.execute([a, b])
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        output = fd.execute([a, b])[0]
    for _ in range(CALLS):
        fd.execute([b, b])
    a.copy_(torch.randn_like(a))
    graph.replay()
    assert torch.equal(output, torch.relu(a + b))


def test_a_capture_of_several_kernels(inputs):
    a, b = inputs
    with FusionDefinition() as fd:
        x, y = fd.from_pytorch(a), fd.from_pytorch(b)
        sums = fd.ops.segment_set(fd.ops.sum(x, [0]))
        total = fd.ops.broadcast_in_dim(sums, list(a.shape), [1])
        fd.add_output(fd.ops.add(fd.ops.mul(y, total), x))
    for _ in range(CALLS):
        fd.execute([a, b])
    assert fd.fec.get_cuda_kernel([a, b]).count("NVF_KERNEL") == 2
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        output = fd.execute([a, b])[0]
    a.copy_(torch.randn_like(a))
    for _ in range(3):
        graph.replay()
    torch.testing.assert_close(output, b * a.sum(0) + a, rtol=1e-4, atol=1e-4)


def test_a_capture_of_blocks_that_wait_for_each_other():
    x = torch.randn(25088, 64, device="cuda")
    with FusionDefinition() as fd:
        t = fd.from_pytorch(x)
        fd.add_output(fd.ops.sub(t, fd.ops.sum(t, [0], keepdim=True)))
    for _ in range(CALLS):
        fd.execute([x])
    assert "gridAllReduce" in fd.fec.get_cuda_kernel([x])
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        (output,) = fd.execute([x])
    streams = [torch.cuda.Stream() for _ in range(2)]
    for turn in range(6):
        with torch.cuda.stream(streams[turn % 2]):
            (other,) = fd.execute([x])
    torch.cuda.synchronize()
    torch.testing.assert_close(other, x - x.sum(0), rtol=1e-4, atol=1e-3)
    x.copy_(torch.randn_like(x))
    for _ in range(3):
        graph.replay()
    torch.testing.assert_close(output, x - x.sum(0), rtol=1e-4, atol=1e-3)


def test_kernels_of_one_call_see_what_was_written_before_it(inputs):
    """They start early, but read no input before the call itself may."""
    wide = torch.zeros(1 << 14, 512, device="cuda")
    with FusionDefinition() as fd:
        x = fd.from_pytorch(wide)
        total = fd.ops.broadcast_in_dim(fd.ops.sum(x, [0]), list(wide.shape), [1])
        fd.add_output(fd.ops.add(x, total))
    for turn in range(30):
        wide.fill_(turn)
        output = fd.execute([wide])[0]
        wide.fill_(-1)
        assert (output == turn * (wide.shape[0] + 1)).all(), turn


def test_a_host_that_is_ahead(inputs):
    """The stream still has work long after the last launch: the kernel itself is launched."""
    a, b = inputs
    fd = relu_sum(a, b)
    outputs = []
    for i in range(CALLS):
        torch.cuda._sleep(2_000_000)
        time.sleep(1e-4)
        outputs.append(fd.execute([a * i, b])[0])
    for i, output in enumerate(outputs):
        assert torch.equal(output, torch.relu(a * i + b))


def test_threads(inputs):
    a, b = inputs
    fd = relu_sum(a, b)
    wrong = []

    def work(number):
        for turn in range(50):
            factor = number * 100 + turn
            if not torch.equal(fd.execute([a * factor, b])[0], torch.relu(a * factor + b)):
                wrong.append(factor)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_clusters_and_workspaces():
    x = torch.randn(64, 65536, device="cuda", dtype=torch.bfloat16)
    with FusionDefinition() as fd:
        t = fd.ops.cast(fd.from_pytorch(x), DataType.Float)
        total = fd.ops.broadcast_in_dim(fd.ops.sum(t, [1]), list(x.shape), [0])
        fd.add_output(fd.ops.mul(t, total))
        fd.add_output(fd.ops.sum(t, [0, 1]))
    for i in range(CALLS):
        y = x * (i + 1)
        scaled, total = fd.execute([y])
        wide = y.double()
        reference = wide * wide.sum(1, keepdim=True)
        assert (scaled - reference).abs().max() < 1e-4 * reference.abs().max()
        assert abs(total - wide.sum()) < 1e-3 * wide.abs().sum() ** 0.5 * 10


def test_can_be_turned_off(inputs):
    a, b = inputs
    fd = relu_sum(a, b)
    for _ in range(CALLS):
        output = fd.execute([a, b], _disable_options=["launch_graph"])[0]
    assert torch.equal(output, torch.relu(a + b))
