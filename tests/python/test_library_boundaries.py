# SPDX-License-Identifier: BSD-3-Clause
"""What kernels compute between libraries takes the same kernels as if it were a definition of its
own: results of libraries are inputs for them, and operands outputs."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers import DEVICE, difference, run_python
from nvfuse_direct import DataType, FusionDefinition, explain

Tensor = torch.Tensor
EVALUATED = "expr_eval"


def values(*sizes: int) -> Tensor:
    generator = torch.Generator().manual_seed(sum(sizes))
    return torch.randn(sizes, generator=generator).to(DEVICE)


def kernels(fd: FusionDefinition, inputs: list[Tensor]) -> list[str]:
    """Schedulers of the segments that a library does not evaluate."""
    segments = explain(fd, inputs, measure=False).segments
    return [segment.scheduler for segment in segments if segment.scheduler != EVALUATED]


def rms_norm(fd: FusionDefinition, x: Any, rank: int) -> Any:
    ops = fd.ops
    total = ops.sum(ops.mul(x, x), [rank - 1])
    mean = ops.div(total, ops.cast(ops.shape(x)[rank - 1], DataType.Double))
    scale = ops.broadcast(ops.rsqrt(ops.add(mean, 1e-5)), [False] * (rank - 1) + [True])
    return ops.mul(x, scale)


def rotated(fd: FusionDefinition, x: Any, sizes: list[int]) -> Any:
    """Halves of rows, one of them negated and in the other's place."""
    ops = fd.ops
    half = sizes[-1] // 2
    zeros = [0] * len(sizes)
    low = ops.slice(x, zeros, [*sizes[:-1], half])
    high = ops.slice(x, [*zeros[:-1], half], sizes)
    return ops.add(x, ops.cat([ops.neg(high), low], -1))


def heads(fd: FusionDefinition, x: Any) -> Any:
    """[2, 5, 64] -> [2, 4, 5, 16], normalized and rotated."""
    y = rms_norm(fd, fd.ops.reshape(x, [2, 5, 4, 16]), 4)
    return rotated(fd, fd.ops.permute(y, [0, 2, 1, 3]), [2, 4, 5, 16])


def eager_heads(x: Tensor) -> Tensor:
    y = x.reshape(2, 5, 4, 16)
    y = (y * torch.rsqrt((y * y).mean(-1, keepdim=True) + 1e-5)).transpose(1, 2)
    return y + torch.cat([-y[..., 8:], y[..., :8]], -1)


def groups(fd: FusionDefinition, x: Any) -> Any:
    """[2, 5, 64], normalized in groups of 40."""
    ops = fd.ops
    rows = ops.reshape(x, [16, 40])
    return ops.reshape(rms_norm(fd, rows, 2), [10, 64])


def eager_groups(x: Tensor) -> Tensor:
    rows = x.reshape(16, 40)
    return (rows * torch.rsqrt((rows * rows).mean(-1, keepdim=True) + 1e-5)).reshape(10, 64)


def gated(fd: FusionDefinition, x: Any) -> Any:
    ops = fd.ops
    value = ops.slice(x, [0, 0, 0], [2, 5, 32])
    gate = ops.slice(x, [0, 0, 32], [2, 5, 64])
    return ops.reshape(ops.mul(value, ops.sigmoid(gate)), [10, 32])


def eager_gated(x: Tensor) -> Tensor:
    return (x[..., :32] * torch.sigmoid(x[..., 32:])).reshape(10, 32)


def looked_up(fd: FusionDefinition, x: Any) -> Any:
    ops = fd.ops
    rows = ops.reshape(x, [10, 64])
    positions = ops.iota(10, 3, 5)
    index = ops.broadcast(positions, [False, True])
    return ops.sub(rows, ops.gather(rows, index, 1))


def eager_looked_up(x: Tensor) -> Tensor:
    rows = x.reshape(10, 64)
    return rows - rows.gather(1, (3 + 5 * torch.arange(10, device=x.device))[:, None])


LAYERS: dict[str, tuple[Callable[..., Any], Callable[[Tensor], Tensor]]] = {
    "heads": (heads, eager_heads),
    "groups": (groups, eager_groups),
    "gated": (gated, eager_gated),
    "looked up": (looked_up, eager_looked_up),
}


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("is_read_by_library", [False, True])
def test_kernels_are_those_of_a_definition_by_itself(name: str, is_read_by_library: bool) -> None:
    layer, eager = LAYERS[name]
    x = values(2, 5, 24)
    weight = values(64, 24)
    with FusionDefinition() as alone:
        alone.add_output(layer(alone, alone.from_pytorch(values(2, 5, 64), static_sizes=True)))
    expected = eager(torch.nn.functional.linear(x, weight))
    last = values(7, expected.shape[-1])

    with FusionDefinition() as fd:
        tensors = [fd.from_pytorch(t, static_sizes=True) for t in (x, weight, last)]
        y = layer(fd, fd.ops.linear(tensors[0], tensors[1]))
        if is_read_by_library:
            y = fd.ops.linear(y, tensors[2])
        fd.add_output(y)
    if is_read_by_library:
        expected = torch.nn.functional.linear(expected, last)
    inputs = [x, weight, last]
    for _ in range(2):
        (out,) = fd.execute(inputs)
        assert difference(out, expected, rtol=1e-4, atol=1e-4) is None
    assert kernels(fd, inputs) == kernels(alone, [values(2, 5, 64)])


def test_a_result_is_returned_in_any_shape_and_read() -> None:
    x, weight = values(3, 4, 16), values(12, 16)
    with FusionDefinition() as fd:
        a, b = fd.from_pytorch(x), fd.from_pytorch(weight)
        product = fd.ops.linear(a, b)
        rows = fd.ops.reshape(product, [6, 24])
        fd.add_output(rows)
        fd.add_output(product)
        fd.add_output(rms_norm(fd, rows, 2))
    expected = torch.nn.functional.linear(x, weight)
    normalized = torch.nn.functional.rms_norm(expected.reshape(6, 24), (24,), eps=1e-5)
    for _ in range(2):
        rows, product, out = fd.execute([x, weight])
        assert rows.data_ptr() == product.data_ptr()
        assert difference(product, expected, rtol=1e-4, atol=1e-4) is None
        assert torch.equal(rows, product.reshape(6, 24))
        assert difference(out, normalized, rtol=1e-4, atol=1e-4) is None
    assert len(kernels(fd, [x, weight])) == 1


def test_views_keep_a_result_until_they_were_read() -> None:
    """Other results of the same size could take its place before."""
    x = values(8, 64)
    weights = [values(64, 64) * 0.1 for _ in range(4)]
    with FusionDefinition() as fd:
        y = fd.from_pytorch(x)
        first = fd.ops.linear(y, fd.from_pytorch(weights[0]))
        for weight in weights[1:]:
            y = fd.ops.linear(fd.ops.sin(y), fd.from_pytorch(weight))
        halves = fd.ops.reshape(first, [16, 32])
        fd.add_output(fd.ops.add(rms_norm(fd, halves, 2), fd.ops.reshape(y, [16, 32])))

    def eager() -> Tensor:
        y = x
        first = torch.nn.functional.linear(x, weights[0])
        for weight in weights[1:]:
            y = torch.nn.functional.linear(torch.sin(y), weight)
        rows = first.reshape(16, 32)
        return torch.nn.functional.rms_norm(rows, (32,), eps=1e-5) + y.reshape(16, 32)

    expected = eager()
    for _ in range(3):
        (out,) = fd.execute([x, *weights])
        gc.collect()
        assert difference(out, expected, rtol=1e-4, atol=1e-4) is None


def test_for_any_sizes() -> None:
    with FusionDefinition() as fd:
        a = fd.define_tensor(shape=[-1, -1, -1])
        b = fd.define_tensor(shape=[-1, -1])
        product = fd.ops.linear(a, b)
        sizes = fd.ops.shape(product)
        tokens = fd.ops.mul(sizes[0], sizes[1])
        rows = fd.ops.reshape(product, [tokens, sizes[2]])
        fd.add_output(rms_norm(fd, rows, 2))
    for n, t, width in ((2, 3, 16), (1, 7, 33), (4, 1, 8), (1, 1, 1), (2, 0, 5)):
        x, weight = values(n, t, 12), values(width, 12)
        (out,) = fd.execute([x, weight])
        rows = torch.nn.functional.linear(x, weight).reshape(n * t, width)
        expected = torch.nn.functional.rms_norm(rows, (width,), eps=1e-5)
        assert difference(out, expected, rtol=1e-4, atol=1e-4) is None


def test_what_arguments_alone_decide_waits_for_who_reads_it() -> None:
    """A mask that is drawn is part of the kernel behind the product, though it could be before."""
    x, weight = values(6, 16), values(8, 16)
    with FusionDefinition() as fd:
        a, b = fd.from_pytorch(x), fd.from_pytorch(weight)
        shape = [fd.define_scalar(6), fd.define_scalar(8)]
        low, high = fd.define_scalar(0.0), fd.define_scalar(1.0)
        seed, offset = fd.define_scalar(3), fd.define_scalar(5)
        drawn = fd.ops.uniform(low, high, shape, rng_seed=seed, rng_offset=offset)
        mask = fd.ops.gt(drawn, 0.25)
        fd.add_output(mask)
        fd.add_output(fd.ops.where(mask, fd.ops.linear(a, b), 0.0))
    mask, out = fd.execute([x, weight])
    expected = torch.where(mask, torch.nn.functional.linear(x, weight), 0.0)
    assert difference(out, expected, rtol=1e-4, atol=1e-4) is None
    assert len(kernels(fd, [x, weight])) == 1


def test_an_argument_that_is_updated() -> None:
    x, weight, sums = values(4, 16), values(8, 16), values(2, 16)
    before = sums.clone()
    with FusionDefinition() as fd:
        a, b, c = (fd.from_pytorch(t) for t in (x, weight, sums))
        rows = fd.ops.reshape(fd.ops.linear(a, b), [2, 16])
        fd.add_output(fd.ops.add(c, rows), c)
        fd.add_output(rms_norm(fd, rows, 2))
    expected = torch.nn.functional.linear(x, weight).reshape(2, 16)
    (out,) = fd.execute([x, weight, sums])
    assert difference(sums, before + expected, rtol=1e-4, atol=1e-4) is None
    normalized = torch.nn.functional.rms_norm(expected, (16,), eps=1e-5)
    assert difference(out, normalized, rtol=1e-4, atol=1e-4) is None


def test_plans_from_the_disk(tmp_path: Path) -> None:
    program = f"""
    import torch
    from nvfuse_direct import FusionDefinition
    device = {str(DEVICE)!r}
    x = torch.arange(96.0).reshape(2, 4, 12).to(device) / 50
    weight = torch.eye(12).to(device)
    with FusionDefinition() as fd:
        product = fd.ops.linear(fd.from_pytorch(x), fd.from_pytorch(weight))
        halves = fd.ops.slice(product, [0, 0, 6], [2, 4, 12])
        fd.add_output(fd.ops.exp(fd.ops.reshape(product, [16, 6])))
        fd.add_output(fd.ops.sum(halves, [2]))
    rows, sums = fd.execute([x, weight])
    assert torch.allclose(rows, x.reshape(16, 6).exp(), rtol=1e-4)
    assert torch.allclose(sums, x[..., 6:].sum(-1), rtol=1e-4)
    """
    for _ in range(2):
        result = run_python(program, {"NVFUSER_CACHE_DIR": str(tmp_path)})
        assert result.returncode == 0, result.stderr


def moved(fd: FusionDefinition, inputs: list[Tensor]) -> int:
    """Bytes that kernels write."""
    segments = explain(fd, inputs, measure=False).segments
    return sum(s.output_bytes for s in segments if s.scheduler != EVALUATED)


def test_operands_that_are_returned_are_written_once() -> None:
    """A scaled weight, its transpose twice (kept for the backward pass), heads and their views."""
    x, w = (torch.randn(*sizes, device=DEVICE) for sizes in ((48, 32), (64, 32)))
    with FusionDefinition() as fd:
        o = fd.ops
        tx, tw = (fd.from_pytorch(t, static_sizes=True) for t in (x, w))
        scaled = o.mul(tw, 0.5)
        transposed = o.permute(scaled, [1, 0])
        fd.add_output(o.matmul(tx, transposed))
        fd.add_output(o.permute(transposed, [1, 0]))
        fd.add_output(o.stride_order(transposed, [0, 1]))
    out = fd.execute([x, w])
    torch.testing.assert_close(out[0], x @ (w * 0.5).t())
    torch.testing.assert_close(out[1], w * 0.5)
    torch.testing.assert_close(out[2], (w * 0.5).t())
    assert out[2].stride() == (1, 32)
    assert out[1].data_ptr() == out[2].data_ptr()
    assert moved(fd, [x, w]) == w.numel() * 4


def test_heads_that_are_returned_in_another_order() -> None:
    """Keys of a product, kept transposed: views of what the kernel writes, through a reshape."""
    q, k = (torch.randn(2, 4, 24, 16, device=DEVICE) for _ in range(2))
    with FusionDefinition() as fd:
        o = fd.ops
        tq, tk = (fd.from_pytorch(t, static_sizes=True) for t in (q, k))
        keys = o.relu(tk)
        operand = o.reshape(o.permute(keys, [0, 1, 3, 2]), [8, 16, 24])
        fd.add_output(o.matmul(o.reshape(tq, [8, 24, 16]), operand))
        fd.add_output(o.permute(operand, [0, 2, 1]))
    out = fd.execute([q, k])
    torch.testing.assert_close(out[0], (q @ k.relu().transpose(2, 3)).view(8, 24, 24))
    torch.testing.assert_close(out[1], k.relu().view(8, 24, 16))
    assert moved(fd, [q, k]) == k.numel() * 4


@pytest.mark.parametrize("made", [False, True])
def test_operands_that_no_strides_describe_are_copied_by_a_kernel(made: bool) -> None:
    """[batch, length, heads, width] to [batch * heads, length, width]: torch would copy it."""
    x, w = torch.randn(2, 24, 64, device=DEVICE), torch.randn(64, 64, device=DEVICE)
    with FusionDefinition() as fd:
        o = fd.ops
        tx, tw = (fd.from_pytorch(t, static_sizes=True) for t in (x, w))
        y = o.matmul(tx, tw) if made else o.relu(tx)
        heads = o.permute(o.reshape(y, [2, 24, 4, 16]), [0, 2, 1, 3])
        operand = o.reshape(heads, [8, 24, 16])
        fd.add_output(o.matmul(operand, o.permute(operand, [0, 2, 1])))
    (out,) = fd.execute([x, w])
    y = x @ w if made else x.relu()
    heads = y.view(2, 24, 4, 16).transpose(1, 2).reshape(8, 24, 16)
    torch.testing.assert_close(out, heads @ heads.mT, rtol=1e-4, atol=1e-4)
    assert moved(fd, [x, w]) == x.numel() * 4


def test_norms_of_several_widths() -> None:
    """Gradients of a norm of heads and of one of hidden states: groups of rows for each width."""
    sizes = [(600, 512), (4800, 64)]
    inputs = [torch.randn(*s, device=DEVICE) for s in sizes for _ in range(2)]
    weight = torch.randn(512, 512, device=DEVICE)
    with FusionDefinition() as fd:
        o = fd.ops
        tensors = [fd.from_pytorch(t, static_sizes=True) for t in inputs]
        tw = fd.from_pytorch(weight, static_sizes=True)
        for x, g in (tensors[:2], tensors[2:]):
            product = o.mul(x, g)
            dx = o.sub(g, o.mul(x, o.sum(product, [1], keepdim=True)))
            fd.add_output(o.matmul(dx, tw) if x is tensors[0] else dx)
            fd.add_output(o.sum(product, [0]))
    out = fd.execute([*inputs, weight])
    for i in (0, 2):
        x, g = inputs[i : i + 2]
        dx = g - x * (x * g).sum(1, keepdim=True)
        expected = dx @ weight if i == 0 else dx
        torch.testing.assert_close(out[i], expected, rtol=1e-3, atol=1e-2)
        torch.testing.assert_close(out[i + 1], (x * g).sum(0), rtol=1e-3, atol=1e-3)


@pytest.mark.machine("hopper")
def test_short_rows_beside_long_ones_share_blocks() -> None:
    x, g = (torch.randn(256, 2048, device=DEVICE, dtype=torch.bfloat16) for _ in range(2))
    y, h = (torch.randn(8192, 128, device=DEVICE, dtype=torch.bfloat16) for _ in range(2))
    with FusionDefinition() as fd:
        o = fd.ops
        for pair in ((x, g), (y, h)):
            a, b = (o.cast(fd.from_pytorch(t, static_sizes=True), DataType.Float) for t in pair)
            product = o.mul(a, b)
            dx = o.sub(b, o.mul(a, o.sum(product, [1], keepdim=True)))
            fd.add_output(o.cast(dx, DataType.BFloat16))
            fd.add_output(o.sum(product, [0]))
    segments = explain(fd, [x, g, y, h], measure=False).segments
    threads = [
        segment.params.lparams.bdimx
        for segment in segments
        if segment.scheduler == "inner_outer_persistent"
    ]
    assert len(threads) == 2
    assert min(threads) <= 32, threads  # of a row of 128 elements


@pytest.mark.parametrize("reads", ["linear", "matmul", "both"])
def test_heads_that_are_joined_before_a_product(reads: str) -> None:
    """What is computed of heads is permuted and merged for a library, which reads it as rows."""
    x, w = values(2, 4, 7, 8), values(32, 32)
    with FusionDefinition() as fd:
        ops = fd.ops
        heads, weight = fd.define_tensor([2, 4, 7, 8], True), fd.define_tensor([32, 32], True)
        tokens = ops.reshape(ops.permute(ops.exp(heads), [0, 2, 1, 3]), [2, 7, 32])
        rows = ops.reshape(tokens, [14, 32])
        fd.add_output(ops.linear(tokens, weight) if reads == "linear" else ops.matmul(rows, weight))
        if reads == "both":
            fd.add_output(ops.sum(tokens, [0, 1]))
    expected = x.exp().transpose(1, 2).reshape(14, 32)
    product, *sums = fd.execute([x, w])
    by = w.t() if reads == "linear" else w
    torch.testing.assert_close(product.reshape(14, 32), expected @ by, rtol=1e-4, atol=1e-4)
    for each in sums:
        torch.testing.assert_close(each, expected.sum(0), rtol=1e-4, atol=1e-4)
