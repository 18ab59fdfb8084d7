# SPDX-License-Identifier: BSD-3-Clause
"""Kernels for the host itself: one of its threads runs a block, in loops that g++ vectorizes."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import nvfuse_direct._C_DIRECT as extension
import pytest
import torch
from graph_generator import run_seeds
from helpers import LONG, ON_CUDA
from nvfuse_direct import DataType, FusionDefinition

pytestmark = pytest.mark.skipif(ON_CUDA, reason="kernels of CPU tensors")

Define = Callable[[FusionDefinition, list[torch.Tensor]], None]
DTYPES = {torch.float32: DataType.Float, torch.bfloat16: DataType.BFloat16}
WIDTHS = [1, 3, 10, 16, 63, 64, 65, 257, 1000, 1024, 4099]


def wide(fd: FusionDefinition, x: torch.Tensor) -> Any:
    tv = fd.from_pytorch(x)
    return tv if x.dtype == torch.float32 else fd.ops.cast(tv, DataType.Float)


def output(fd: FusionDefinition, tv: Any, dtype: torch.dtype) -> None:
    fd.add_output(tv if dtype == torch.float32 else fd.ops.cast(tv, DTYPES[dtype]))


def kernels(fd: FusionDefinition, inputs: list[torch.Tensor]) -> str:
    return fd.fec.get_cuda_kernel(inputs)


def run(
    define: Define, inputs: list[torch.Tensor], expected: Sequence[torch.Tensor]
) -> tuple[FusionDefinition, str]:
    with extension._ScheduledFor("host"):
        with FusionDefinition() as fd:
            define(fd, inputs)
        for _ in range(2):
            outputs = fd.execute(inputs)
            for ours, theirs in zip(outputs, expected, strict=True):
                # Sums of many values differ by the order of the additions.
                atol = 1e-4 if ours.dtype == torch.float32 else None
                rtol = 1e-5 if ours.dtype == torch.float32 else None
                torch.testing.assert_close(ours, theirs, atol=atol, rtol=rtol)
        assert fd.fec._num_fallbacks == 0
        return fd, kernels(fd, inputs)


def assert_no_threads(text: str) -> None:
    """No thread of the block is anything but an iteration of a loop."""
    assert "#define NVF_THREADS_IN_LOOPS" in text
    for of_threads in ("threadIdx", "syncBlock", "blockReduce"):
        assert of_threads not in text


def softmax(fd: FusionDefinition, inputs: list[torch.Tensor]) -> None:
    x = wide(fd, inputs[0])
    e = fd.ops.exp(fd.ops.sub(x, fd.ops.max(x, [1], keepdim=True)))
    output(fd, fd.ops.div(e, fd.ops.sum(e, [1], keepdim=True)), inputs[0].dtype)


def layer_norm(fd: FusionDefinition, inputs: list[torch.Tensor]) -> None:
    x, weight, bias = (wide(fd, t) for t in inputs)
    var, mean = fd.ops.var_mean(x, [1], 0, True)
    normed = fd.ops.mul(fd.ops.sub(x, mean), fd.ops.rsqrt(fd.ops.add(var, 1e-5)))
    scaled = fd.ops.mul(normed, fd.ops.broadcast(weight, [True, False]))
    output(fd, fd.ops.add(scaled, fd.ops.broadcast(bias, [True, False])), inputs[0].dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("width", WIDTHS)
def test_softmax(width: int, dtype: torch.dtype) -> None:
    x = torch.randn(37, width).to(dtype)
    _, text = run(softmax, [x], [torch.softmax(x, 1)])
    assert_no_threads(text)


def threads_of(text: str) -> int:
    """Of a block: 64 with AVX-512, fewer where vectors are shorter."""
    (threads,) = re.findall(r"(?:NVF_KERNEL\(|^)\w+, (\d+),", text)
    return int(threads)


def kept_rows(text: str, width: int) -> list[str]:
    """Names of registers for a whole row."""
    threads = threads_of(text)
    elements = -(-width // threads) * threads
    return re.findall(rf"Array<float, {elements}, 16> (T\d+)(?:_room)?;", text)


@pytest.mark.parametrize("width", [1000, 1024, 4099])
def test_exponentials_lie_in_the_output(width: int) -> None:
    """As far as it has room for them, and nobody else reads its memory."""
    x = torch.randn(37, width)
    _, text = run(softmax, [x], [torch.softmax(x, 1)])
    assert not kept_rows(text, width)
    assert re.search(r"T\d+\[\w+\] = nvf::exp", text), text

    _, text = run(softmax, [x.bfloat16()], [torch.softmax(x.bfloat16(), 1)])
    assert len(kept_rows(text, width)) == 1


@pytest.mark.parametrize("width", [100, 130, 1000, 4099])
@pytest.mark.parametrize("rows", [1, 37])
def test_rows_have_loops_for_whole_pieces(rows: int, width: int) -> None:
    """Where sums are made, a constant number of threads, if there are two such iterations."""
    inputs = [torch.randn(rows, width), torch.randn(width), torch.randn(width)]
    expected = torch.nn.functional.layer_norm(inputs[0], (width,), inputs[1], inputs[2], 1e-5)
    _, text = run(layer_norm, inputs, [expected])
    threads = threads_of(text)
    sums = [
        loop.startswith(f"for (nvfuser_index_t tx = 0; tx < {threads};")
        for loop in re.split(r"(?=for \(nvfuser_index_t tx)", text)
        if " = T0[" in loop and re.search(r"(T\d+\[tx\]) = \1 \+", loop)
    ]
    assert sums.count(False) > 0, text
    assert sums.count(True) == (sums.count(False) if width >= 2 * threads else 0), text


def test_functions_are_computed_where_their_operands_were_loaded() -> None:
    """Of a row that ends within a vector the loop that loads has them: no other one, no array."""
    x = torch.randn(5, 1000).bfloat16()
    _, text = run(softmax, [x], [torch.softmax(x, 1)])
    (loop,) = (part for part in text.split("#pragma GCC ivdep") if "exp(" in part)
    assert " = T0[" in loop and f"tx < nvf::minimum({threads_of(text)}, " in loop, text


def test_exponentials_do_not_lie_in_an_output_that_is_read_or_lies_otherwise() -> None:
    x = torch.randn(37, 1024)

    def of_the_input(fd: FusionDefinition, inputs: list[torch.Tensor]) -> None:
        """The last loop reads the input beside the exponentials."""
        tv = fd.from_pytorch(inputs[0])
        e = fd.ops.exp(tv)
        fd.add_output(fd.ops.mul(tv, fd.ops.mul(e, fd.ops.sum(e, [1], keepdim=True))), tv)

    e = x.exp()
    expected = x * e * e.sum(1, keepdim=True)
    with extension._ScheduledFor("host"):
        with FusionDefinition() as fd:
            of_the_input(fd, [x])
        updated = x.clone()
        fd.execute([updated])
        torch.testing.assert_close(updated, expected, atol=1e-4, rtol=1e-5)

    def two_outputs(fd: FusionDefinition, inputs: list[torch.Tensor]) -> None:
        """The first is written before the last loop reads the exponentials."""
        e = fd.ops.exp(fd.from_pytorch(inputs[0]))
        total = fd.ops.sum(e, [1], keepdim=True)
        scaled = fd.ops.div(e, total)
        fd.add_output(scaled)
        fd.add_output(fd.ops.mul(fd.ops.add(e, scaled), total))

    p = e / e.sum(1, keepdim=True)
    run(two_outputs, [x], [p, (e + p) * e.sum(1, keepdim=True)])

    def across(fd: FusionDefinition, inputs: list[torch.Tensor]) -> None:
        """Neighbours of a row are not neighbours in the output."""
        x = fd.from_pytorch(inputs[0])
        e = fd.ops.exp(x)
        y = fd.ops.div(e, fd.ops.sum(e, [1], keepdim=True))
        fd.add_output(fd.ops.stride_order(y, [0, 1]))

    run(across, [x], [p])


def test_exponentials_do_not_lie_over_what_the_last_loop_reads() -> None:
    """The output may be written over an intermediate tensor that is read there the last time."""
    x, y, w = torch.randn(37, 1024), torch.randn(37, 1024), torch.eye(1024)

    def define(fd: FusionDefinition, inputs: list[torch.Tensor]) -> None:
        x, y, w = (fd.from_pytorch(t) for t in inputs)
        e = fd.ops.exp(fd.ops.sub(x, fd.ops.max(x, [1], keepdim=True)))
        scaled = fd.ops.div(e, fd.ops.sum(e, [1], keepdim=True))
        fd.add_output(fd.ops.mul(scaled, fd.ops.matmul(y, w)))

    _, text = run(define, [x, y, w], [torch.softmax(x, 1) * y])
    (rows,) = (kernel for kernel in text.split("NVF_KERNEL(") if "exp(" in kernel)
    assert len(kept_rows(rows, 1024)) == 1, text

    def of_one(fd: FusionDefinition, inputs: list[torch.Tensor]) -> None:
        """This one is read before the exponentials are written."""
        e = fd.ops.exp(fd.ops.cumsum(fd.from_pytorch(inputs[0]), 1))
        fd.add_output(fd.ops.div(e, fd.ops.sum(e, [1], keepdim=True)))

    _, text = run(of_one, [x / 100], [torch.softmax(x.cumsum(1) / 100, 1)])
    (rows,) = (kernel for kernel in text.split("NVF_KERNEL(") if "exp(" in kernel)
    assert not kept_rows(rows, 1024), text


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("width", [width for width in WIDTHS if width > 1])
def test_layer_norm(width: int, dtype: torch.dtype) -> None:
    inputs = [torch.randn(19, width), torch.randn(width), torch.randn(width)]
    inputs = [t.to(dtype) for t in inputs]
    expected = torch.nn.functional.layer_norm(inputs[0], (width,), inputs[1], inputs[2], 1e-5)
    _, text = run(layer_norm, inputs, [expected])
    assert_no_threads(text)


@pytest.mark.parametrize("dims", [[0], [1], [0, 1]], ids=["columns", "rows", "all"])
@pytest.mark.parametrize("shape", [(1, 5), (5, 1), (300, 7), (7, 3000), (2000, 600)], ids=str)
def test_sums(shape: tuple[int, int], dims: list[int]) -> None:
    x = torch.rand(shape)  # sums of both signs have no relative error

    def define(fd: FusionDefinition, inputs: list[torch.Tensor]) -> None:
        tv = fd.from_pytorch(inputs[0])
        fd.add_output(fd.ops.sum(tv, dims))
        fd.add_output(fd.ops.max(fd.ops.neg(tv), dims))

    _, text = run(define, [x], [x.sum(dims), -x.amin(dims)])
    if 1 not in shape:  # sums of one element are no reductions
        assert_no_threads(text)


@pytest.mark.parametrize("op", ["sum", "max"])
@pytest.mark.parametrize("rows", [8, 15, 33, 1000, 4099])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_columns_take_several_rows_at_a_time(op: str, rows: int, dtype: torch.dtype) -> None:
    """Their accumulators lie in memory, and are read and written once for all of these."""
    x = torch.randn(rows, 1000).to(dtype)

    def columns(fd: FusionDefinition, inputs: list[torch.Tensor]) -> None:
        fd.add_output(getattr(fd.ops, op)(wide(fd, inputs[0]), [0]))

    # The result is as exact as float32 allows.
    expected = getattr(torch, {"sum": "sum", "max": "amax"}[op])(x.double(), 0).float()
    _, text = run(columns, [x], [expected])
    assert re.search(r"for \(nvfuser_index_t tx = 0; .*\n *for \(nvfuser_index_t u\d+ = 0;", text)


def test_sums_of_columns_alone_are_visible_to_the_compiler() -> None:
    """Which keeps them in registers for several rows, as no other tensor can be them."""
    x = torch.rand(512, 4096)
    text = run(lambda fd, inputs: fd.add_output(fd.ops.sum(fd.from_pytorch(inputs[0]), [0])), [x],
               [x.sum(0)])[1]  # fmt: skip
    assert "nvf::apart" not in text


def test_blocks_share_what_one_core_would_be_alone_with() -> None:
    x = torch.rand(1 << 22)

    def define(fd: FusionDefinition, inputs: list[torch.Tensor]) -> None:
        fd.add_output(fd.ops.sum(fd.from_pytorch(inputs[0]), [0]))

    _, text = run(define, [x], [x.sum()])
    if torch.get_num_threads() > 1:
        assert "nvf::reduceThreadsOfGrid" in text


def test_gradients_of_a_layer_norm() -> None:
    """Sums of columns beside those of rows: the rows of a group lie next to each other."""
    rows, width = 403, 520
    grad, x, weight = torch.randn(rows, width), torch.randn(rows, width), torch.randn(width)
    mean, rstd = x.mean(1, keepdim=True), torch.rsqrt(x.var(1, correction=0, keepdim=True) + 1e-5)

    def define(fd: FusionDefinition, inputs: list[torch.Tensor]) -> None:
        g, a, w, m, r = (fd.from_pytorch(t) for t in inputs)
        normed = fd.ops.mul(fd.ops.sub(a, m), r)
        scaled = fd.ops.mul(g, fd.ops.broadcast(w, [True, False]))
        share = 1.0 / width
        first = fd.ops.mul(fd.ops.sum(scaled, [1], keepdim=True), share)
        second = fd.ops.mul(fd.ops.sum(fd.ops.mul(scaled, normed), [1], keepdim=True), share)
        inner = fd.ops.sub(fd.ops.sub(scaled, first), fd.ops.mul(normed, second))
        fd.add_output(fd.ops.mul(inner, r))
        fd.add_output(fd.ops.sum(fd.ops.mul(g, normed), [0]))
        fd.add_output(fd.ops.sum(g, [0]))

    expected = torch.ops.aten.native_layer_norm_backward(
        grad, x, [width], mean, rstd, weight, torch.zeros(width), [True, True, True]
    )
    _, text = run(define, [grad, x, weight, mean, rstd], expected)
    assert_no_threads(text)
    # One loop has all sums: it reads both tensors once, the loop for dx once more, and that for the
    # sums of the ends of rows. Accumulators of the row are not to be confused with those of
    # columns, which are hidden from the compiler.
    for tensor in ("T0", "T1"):
        assert len(re.findall(rf" = {tensor}\[", text.split("NVF_KERNEL(")[1])) == 3, text
    assert text.count(" = nvf::apart(") == 2, text


def test_registers_of_a_row_are_computed_once_for_all_threads() -> None:
    """What follows from results that all threads share stands outside of the loops over them."""
    x = torch.randn(8, 1024)

    def define(fd: FusionDefinition, inputs: list[torch.Tensor]) -> None:
        tv = fd.from_pytorch(inputs[0])
        norm = fd.ops.rsqrt(fd.ops.sum(fd.ops.mul(tv, tv), [1], keepdim=True))
        fd.add_output(fd.ops.mul(tv, norm))

    _, text = run(define, [x], [x * torch.rsqrt((x * x).sum(1, keepdim=True))])
    (line,) = (line for line in text.splitlines() if "rsqrt(" in line)
    assert "[tx]" not in line


def test_schedules_of_one_width_serve_others() -> None:
    with extension._ScheduledFor("host"):
        with FusionDefinition() as fd:
            x = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.Float)
            e = fd.ops.exp(fd.ops.sub(x, fd.ops.max(x, [1], keepdim=True)))
            fd.add_output(fd.ops.div(e, fd.ops.sum(e, [1], keepdim=True)))
        for width in range(1100, 2000, 90):
            rows = torch.randn(5, width)
            torch.testing.assert_close(fd.execute([rows])[0], torch.softmax(rows, 1))
        assert len(fd.fec._segment_reports([rows])) == 1


@pytest.mark.parametrize("mix", ["pointwise", "reduction", "sizes"])
def test_random_graphs(mix: str) -> None:
    seeds = range(20_000, 20_500 if LONG else 20_030)
    outcome = run_seeds(seeds, 2, "cpu", env={"NVFUSER_MACHINE": "host"}, progress=LONG, mix=mix)
    assert not outcome.failures, "\n\n".join(outcome.failures[:10])
    assert outcome.passed == len(seeds)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_rows_that_are_cut_have_loops_of_their_own(dtype: torch.dtype) -> None:
    """In a loop over merged dimensions each element would divide its position."""
    x = torch.randn(2, 3, 40, 128).to(dtype)

    def define(fd: FusionDefinition, inputs: list[torch.Tensor]) -> None:
        tv = wide(fd, inputs[0])
        low = fd.ops.slice(tv, [0, 0, 0, 0], [2, 3, 40, 64])
        high = fd.ops.slice(tv, [0, 0, 0, 64], [2, 3, 40, 128])
        rotated = fd.ops.cat([fd.ops.neg(high), low], -1)
        output(fd, fd.ops.add(tv, rotated), dtype)

    low, high = x.float().chunk(2, -1)
    _, text = run(define, [x], [(x.float() + torch.cat((-high, low), -1)).to(dtype)])
    assert_no_threads(text)
    assert not [line for line in text.splitlines() if "tx" in line and "%" in line]


TRANSPOSED = [torch.bool, torch.bfloat16, torch.float32, torch.int64, torch.complex64]
TRANSPOSED += [torch.complex128]


@pytest.mark.parametrize("sizes", [(64, 128), (63, 130), (129, 77), (500, 19)], ids=str)
@pytest.mark.parametrize("dtype", TRANSPOSED, ids=str)
def test_transposes(dtype: torch.dtype, sizes: tuple[int, int]) -> None:
    """Squares are transposed in registers, what a tile has beyond them element by element."""
    given = torch.randint(0, 100, (3, *sizes)).to(dtype)
    other = torch.randint(0, 2, (3, *reversed(sizes))).to(dtype)

    def define(fd: FusionDefinition, inputs: list[torch.Tensor]) -> None:
        tv, summand = (fd.from_pytorch(each) for each in inputs)
        exchanged = fd.ops.permute(tv, [0, 2, 1])
        fd.add_output(fd.ops.cast(fd.ops.add(exchanged, summand), tv.dtype()))

    _, text = run(define, [given, other], [given.transpose(1, 2) + other])
    assert_no_threads(text)
    assert "nvf::copyTransposed(" in text


@pytest.mark.parametrize("op", ["where", "logical_not", "cast"])
def test_bools_in_memory_are_read_as_bytes(op: str) -> None:
    """Values that another library wrote are true unless they are zero."""
    bits = torch.tensor([0, 1, 1, 0, 1] * 300, dtype=torch.uint8).view(torch.bool)
    x = torch.randn(1500)

    def define(fd: FusionDefinition, inputs: list[torch.Tensor]) -> None:
        mask, values = (fd.from_pytorch(each) for each in inputs)
        chosen = {
            "where": lambda: fd.ops.where(mask, values, 0.0),
            "logical_not": lambda: fd.ops.where(fd.ops.logical_not(mask), 0.0, values),
            "cast": lambda: fd.ops.mul(fd.ops.cast(mask, DataType.Float), values),
        }
        fd.add_output(chosen[op]())
        fd.add_output(fd.ops.gt(values, 0.5))

    run(define, [bits, x], [torch.where(bits, x, 0.0), x > 0.5])


@pytest.mark.parametrize(
    ("shape", "dims", "most"),
    [
        ((20_000_000,), [0], 6e-7),
        ((400_000, 16), [0], 6e-7),
        ((2, 4_000_000), [1], 6e-7),
        ((8192, 1024), [0], 3e-7),
    ],
    ids=str,
)
def test_long_sums_are_as_exact_as_short_ones(
    shape: tuple[int, ...], dims: list[int], most: float
) -> None:
    """Errors do not grow with the number of values: no accumulator is added to very often."""
    x = torch.rand(shape)
    with extension._ScheduledFor("host"):
        with FusionDefinition() as fd:
            fd.add_output(fd.ops.sum(fd.from_pytorch(x), dims))
        torch.testing.assert_close(
            fd.execute([x])[0].double(), x.double().sum(dims), rtol=most, atol=0
        )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("n", [1, 1000])
def test_approximate_functions_are_for_small_floats(dtype: torch.dtype, n: int) -> None:
    """Whatever loops over threads the uses of their results are in. The variance of one is 0."""

    def define(fd: FusionDefinition, inputs: list[torch.Tensor]) -> None:
        x = fd.define_tensor([-1], [True], dtype=DTYPES[dtype])
        x = x if dtype == torch.float32 else fd.ops.cast(x, DataType.Float)
        added = fd.ops.add(fd.ops.exp(x), fd.ops.size(x, 0))
        output(fd, fd.ops.var(added, [0], 0, True), dtype)

    for _ in range(3):
        x = torch.randn(n).to(dtype)
        expected = (x.double().exp() + n).var(0, correction=0, keepdim=True).to(dtype)
        _, text = run(define, [x], [expected])
        assert ("nvf::approx::" in text) == (dtype == torch.bfloat16)
