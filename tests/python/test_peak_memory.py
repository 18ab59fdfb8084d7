# SPDX-License-Identifier: BSD-3-Clause
"""Memory of a call: explain() knows its peak, tensors between kernels lie in results that are
written later or over what they are computed of, and results of torch are taken as they are."""

from __future__ import annotations

import argparse
import sys
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers import DEVICE, define
from nvfuse_direct import DataType, FusionDefinition, explain, fallback, library
from torch.profiler import ProfilerActivity, profile

# Behind the folder of the tests: a script has the name of their package `spellings`.
sys.path.insert(1, str(Path(__file__).resolve().parents[2] / "benchmarks"))

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


def test_one_tensor_serves_a_chain_of_kernels() -> None:
    """The result, which each kernel but the first reads and writes, whatever their number."""
    inputs = [torch.randn(256, 256, device=DEVICE)]
    fd = define(chain)
    estimate = explain(fd, inputs, measure=False).peak_bytes
    assert inputs[0].nbytes <= estimate <= inputs[0].nbytes + SLACK
    (out,) = fd.execute(inputs)
    torch.testing.assert_close(out, (inputs[0] + 15).relu(), rtol=1e-6, atol=1e-5)


def test_the_report_shows_it() -> None:
    report = explain(define(chain), [torch.randn(500, 500, device=DEVICE)], measure=False)
    assert "peak memory: 1.0 MB beyond inputs" in report.text()


def norm_gradient(fd: FusionDefinition, sizes: list[int]) -> None:
    """Of an RMS norm: of x, which is a result of that size, and of the weight."""
    rows, last = sizes[:-1], len(sizes) - 1
    x, g = (fd.define_tensor(sizes, True, DataType.BFloat16) for _ in range(2))
    weight = fd.define_tensor(sizes[-1:], True, DataType.Float)
    root = fd.define_tensor([*rows, 1], [*[True] * last, None], DataType.Float)
    normal = fd.ops.mul(fd.ops.cast(x, DataType.Float), root)
    wide = fd.ops.cast(g, DataType.Float)
    scaled = fd.ops.mul(wide, fd.ops.broadcast_in_dim(weight, sizes, [last]))
    share = fd.ops.sum(fd.ops.mul(scaled, normal), [last], keepdim=True)
    share = fd.ops.mul(share, 1.0 / sizes[-1])
    dx = fd.ops.mul(fd.ops.sub(scaled, fd.ops.mul(normal, share)), root)
    fd.add_output(fd.ops.cast(dx, DataType.BFloat16))
    fd.add_output(fd.ops.sum(fd.ops.mul(wide, normal), list(range(last))))


@pytest.mark.machine("h200")
@pytest.mark.parametrize("sizes", [[4096, 8192], [2, 2048, 8192]], ids=str)
def test_sums_of_columns_lie_in_the_result(sizes: list[int]) -> None:
    """132 blocks have sums of the columns: 4.3 MB, where the last rows will be."""
    fd = define(partial(norm_gradient, sizes=sizes))
    x, g = (torch.randn(sizes, device=DEVICE, dtype=torch.bfloat16) for _ in range(2))
    weight = torch.randn(sizes[-1], device=DEVICE)
    root = torch.rand([*sizes[:-1], 1], device=DEVICE) + 0.5
    inputs = [x, g, weight, root]
    out, sums = fd.execute(inputs)
    assert explain(fd, inputs, measure=False).peak_bytes <= out.nbytes + sums.nbytes + SLACK
    wide, normal = g.float(), x.float() * root
    scaled = wide * weight
    dx = (scaled - normal * (scaled * normal).mean(-1, keepdim=True)) * root
    torch.testing.assert_close(out, dx.bfloat16(), rtol=2**-7, atol=2**-7)
    expected = (wide * normal).double().flatten(0, -2).sum(0).float()
    torch.testing.assert_close(sums, expected, rtol=1e-4, atol=1e-2)


class Counted:
    """Makes the memory of a call, and counts what is there at a time."""

    def __init__(self) -> None:
        self.now = self.peak = self.requests = 0

    def __call__(self, sizes: list[int], strides: list[int], dtype: Any, device: str) -> Any:
        torch_dtype = torch.uint8 if dtype is None else torch.float32
        tensor = torch.empty_strided(sizes, strides, dtype=torch_dtype, device=device)
        self.now += tensor.nbytes
        self.peak = max(self.peak, self.now)
        self.requests += 1
        weakref.finalize(tensor, self.forget, tensor.nbytes)
        return tensor

    def forget(self, count: int) -> None:
        self.now -= count


def narrowed(fd: FusionDefinition) -> None:
    """A tensor of which smaller results are made, one after the other."""
    x = fd.define_tensor([-1, -1], [True, True], DataType.Double)
    y = fd.ops.segment_set(fd.ops.add(x, 1.0))
    z = fd.ops.segment_set(fd.ops.cast(y, DataType.Float))
    fd.add_output(z)
    fd.add_output(fd.ops.neg(z))
    fd.add_output(fd.ops.abs(z))


@pytest.mark.parametrize(("size", "results"), [(64, 5), (1024, 3)])
def test_large_tensors_come_and_go(size: int, results: int) -> None:
    """Small ones lie in one block for all of a call, large ones are there while they are needed."""
    fd = define(narrowed)
    x = torch.randn(size, size, device=DEVICE).double()
    estimate = explain(fd, [x], measure=False).peak_bytes
    assert estimate == results * x.nbytes // 2
    fd.execute([x])
    counted = Counted()
    outs = fd.fec._execute_with([x], counted)
    assert estimate <= counted.peak <= estimate + SLACK
    expected = (x + 1).float()
    for out, each in zip(outs, [expected, -expected, expected.abs()], strict=True):
        torch.testing.assert_close(out, each)
    del outs, out, each
    assert counted.now == 0


def attention(fd: FusionDefinition) -> None:
    q, k, v = (fd.define_tensor([-1] * 4, [True] * 4, DataType.BFloat16) for _ in range(3))
    out, _, _, _ = fd.ops.sdpfa_fwd(q, k, v, is_causal=True)
    fd.add_output(out)
    fd.add_output(fd.ops.cast(fd.ops.neg(out), DataType.BFloat16))


def heads() -> list[torch.Tensor]:
    return [torch.randn(2, 3, 32, 16, device=DEVICE).bfloat16() for _ in range(3)]


def recorded(monkeypatch: pytest.MonkeyPatch, change: Callable[..., Any]) -> list[Any]:
    """What torch makes of attention, after `change`."""
    made: list[Any] = []
    whole = library.attention.forward

    def forward(*operands: Any, **options: Any) -> Any:
        out, *rest = whole(*operands, **options)
        made.append(change(out))
        return made[-1], *rest

    monkeypatch.setitem(library._FUNCTIONS, "sdpfa_fwd", forward)
    return made


def test_what_torch_makes_is_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    """In every call, and in those of several threads at once."""
    made = recorded(monkeypatch, lambda out: out)
    fd = define(attention)
    inputs = heads()
    reference = torch.nn.functional.scaled_dot_product_attention(*inputs, is_causal=True)
    with ThreadPoolExecutor(4) as pool:
        calls = [fd.execute(inputs), fd.execute(inputs)]
        calls += pool.map(lambda _: fd.execute(inputs), range(8))
    assert {out.data_ptr() for out, _ in calls} == {out.data_ptr() for out in made}
    for out, negated in calls:
        torch.testing.assert_close(out, reference)
        torch.testing.assert_close(negated, -reference)


@pytest.mark.parametrize(
    "change",
    [
        lambda out: out.transpose(1, 2).contiguous().transpose(1, 2),
        lambda out: out.float(),
        lambda out: torch.cat([out, out])[:2],
    ],
    ids=["other strides", "other type", "part of more"],
)
def test_what_does_not_lie_as_it_should_is_copied(
    monkeypatch: pytest.MonkeyPatch, change: Callable[[torch.Tensor], torch.Tensor]
) -> None:
    made = recorded(monkeypatch, change)
    fd = define(attention)
    inputs = heads()
    reference = torch.nn.functional.scaled_dot_product_attention(*inputs, is_causal=True)
    for _ in range(2):
        out, negated = fd.execute(inputs)
        assert out.data_ptr() != made[-1].data_ptr()
        assert out.is_contiguous() and out.dtype == torch.bfloat16
        assert out.untyped_storage().nbytes() == out.nbytes
        torch.testing.assert_close(out, reference)
        torch.testing.assert_close(negated, -reference)


def test_an_operand_that_is_returned_is_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    """The caller's tensor is not the result."""
    inputs = heads()
    monkeypatch.setitem(
        library._FUNCTIONS, "sdpfa_fwd", lambda *operands, **_: (operands[0], None, None, None)
    )
    out, negated = define(attention).execute(inputs)
    assert out.data_ptr() != inputs[0].data_ptr()
    torch.testing.assert_close(out, inputs[0])
    torch.testing.assert_close(negated, -inputs[0])


def test_who_allocates_results_is_known_without_torch() -> None:
    assert set(library._WRITERS) == fallback.LIBRARY_WRITES


@pytest.mark.parametrize("is_causal", [False, True])
def test_grouped_heads_are_not_repeated(is_causal: bool) -> None:
    """Nor are their gradients; both are what torch computes with fewer heads."""

    def repeated(fd: FusionDefinition, x: Any) -> Any:
        x = fd.ops.broadcast(x, [False, False, True, False, False])
        return fd.ops.reshape(fd.ops.expand(x, [2, 2, 3, 32, 16]), [2, 6, 32, 16])

    def summed(fd: FusionDefinition, x: Any) -> Any:
        x = fd.ops.cast(fd.ops.reshape(x, [2, 2, 3, 32, 16]), DataType.Float)
        return fd.ops.cast(fd.ops.sum(x, [2]), DataType.BFloat16)

    def both(fd: FusionDefinition) -> None:
        q, grad = (fd.define_tensor([2, 6, 32, 16], [True] * 4, DataType.BFloat16) for _ in "qg")
        k, v = (fd.define_tensor([2, 2, 32, 16], [True] * 4, DataType.BFloat16) for _ in "kv")
        keys, values = repeated(fd, k), repeated(fd, v)
        out, *rest = fd.ops.sdpfa_fwd(q, keys, values, is_causal=is_causal)
        logsumexp, seed, offset = rest
        arguments = (grad, q, keys, values, out, logsumexp, None, is_causal, seed, offset, None)
        of_q, of_k, of_v = fd.ops.sdpfa_bwd(*arguments)
        for tv in (out, of_q, summed(fd, of_k), summed(fd, of_v)):
            fd.add_output(tv)

    shapes = [(2, 6, 32, 16), (2, 6, 32, 16), (2, 2, 32, 16), (2, 2, 32, 16)]
    inputs = [torch.randn(shape, device=DEVICE).bfloat16() for shape in shapes]
    fd = define(both)
    outs = fd.execute(inputs)
    q, grad, k, v = (x.detach().requires_grad_() for x in inputs)
    reference = torch.nn.functional.scaled_dot_product_attention(
        q, k, v, is_causal=is_causal, enable_gqa=True
    )
    wanted = [reference, *torch.autograd.grad(reference, [q, k, v], grad)]
    for out, each in zip(outs, wanted, strict=True):
        torch.testing.assert_close(out, each, rtol=0.02, atol=0.06)
    segments = explain(fd, inputs, measure=False).segments
    kinds = [op.kind for segment in segments for op in segment.contents]
    assert not {"expand", "reshape", "sum"} & set(kinds)
    options = ["group_attention_heads"]
    for out, other in zip(
        outs, define(both).execute(inputs, _disable_options=options), strict=True
    ):
        torch.testing.assert_close(out, other, rtol=0.02, atol=0.06)


def calls_of(name: str) -> list[tuple[FusionDefinition, Sequence[torch.Tensor]]]:
    (block,) = (block for block in block_cases.BLOCKS if block.name == name)
    options = argparse.Namespace(device=str(DEVICE), small=True)
    ours = blocks.Ours(block, blocks.tensors_of(block, options), small=True, run=True)
    return [
        (ours.forward_definition.fd, [ours.tensors[n] for n in ours.forward_definition.inputs]),
        (ours.backward_definition.fd, [ours.read[n] for n in ours.backward_definition.inputs]),
        (ours.both_definition.fd, [ours.tensors[n] for n in ours.both_definition.inputs]),
    ]


@pytest.mark.parametrize("name", [block.name for block in block_cases.BLOCKS])
def test_a_block_allocates_the_estimate_and_what_torch_takes(name: str) -> None:
    """What lies between kernels of a block adds half of the results of the forward pass at most, as
    much as those of the backward pass, and half as much again of both, which keep what is
    between them."""
    for most, (fd, inputs) in zip((1.5, 2.0, 2.5), calls_of(name), strict=True):
        estimate = explain(fd, inputs, measure=False).peak_bytes
        results = sum(x.nbytes for x in fd.execute(inputs))
        assert results <= estimate <= most * results + SLACK
        allocated = allocated_at_peak(partial(fd.execute, inputs))
        assert allocated >= estimate - SLACK


def test_what_is_normalized_is_computed_again() -> None:
    """In one definition of both passes the kernel of a norm hands on its result and statistics; the
    backward pass computes of its input what it needs, which would be twice as much in float."""
    fd, inputs = calls_of("nanoGPT 768")[2]
    norm = explain(fd, inputs, measure=False).segments[0]
    assert "welford" in [op.kind for op in norm.contents]
    assert norm.output_bytes < 2 * inputs[0].nbytes


@pytest.mark.machine("hopper")
@pytest.mark.parametrize("rows, width, partial_sums", [(7, 200000, False), (600, 2000, True)])
def test_sums_of_columns_beside_few_long_rows(rows: int, width: int, partial_sums: bool) -> None:
    """Clusters that are as large as they may be would leave much of the device idle, and their sums
    of columns are much beside so few rows: these are read twice."""
    x, grad = (torch.randn(rows, width, device=DEVICE) / 8 for _ in range(2))
    with FusionDefinition() as fd:
        a, b = (fd.from_pytorch(t, static_sizes=True) for t in (x, grad))
        product = fd.ops.mul(a, b)
        of_rows = fd.ops.broadcast(fd.ops.sum(product, [1]), [False, True])
        fd.add_output(fd.ops.sub(b, fd.ops.mul(a, fd.ops.mul(of_rows, 1 / width))))
        fd.add_output(fd.ops.sum(product, [0]))
    first, second = fd.execute([x, grad])
    wide, product = x.double(), x.double() * grad.double()
    expected = grad.double() - wide * product.mean(1, keepdim=True)
    torch.testing.assert_close(first.double(), expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(second.double(), product.sum(0), rtol=1e-4, atol=1e-5)
    report = explain(fd, [x, grad], measure=False)
    assert len(report.segments) == 2
    beyond = report.peak_bytes - first.nbytes - second.nbytes
    assert (beyond > 4 * width) == partial_sums, beyond
