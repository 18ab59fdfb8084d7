# SPDX-License-Identifier: BSD-3-Clause
"""Block-scaled operations in a fusion: quantization, the layout of scales, products of groups. What
the functions compute is tested in test_block_scaled.py; here it is how plans pass it on."""

from __future__ import annotations

import pytest
import torch
from helpers import DEVICE
from nvfuse_direct import DataType, FusionDefinition, block_scaled
from test_library_ops import rebuilt, values

Tensor = torch.Tensor

needs_float4 = pytest.mark.skipif(
    not hasattr(torch, "float4_e2m1fn_x2"), reason="this torch has no fp4"
)


def same_bits(a: Tensor, b: Tensor) -> bool:
    return a.shape == b.shape and torch.equal(a.view(torch.uint8), b.view(torch.uint8))


def storage_of(scales: Tensor, count: int) -> Tensor:
    """What lies in memory from the first element on."""
    return scales.as_strided((count,), (1,))


@needs_float4
@pytest.mark.parametrize("dtype", [torch.float, torch.half, torch.bfloat16], ids=str)
@pytest.mark.parametrize("with_scale", [False, True])
def test_nvfp4_quantization(dtype: torch.dtype, with_scale: bool) -> None:
    x, scale = values(3, 6, 64, dtype=dtype), torch.tensor(2.5, device=DEVICE)
    with FusionDefinition() as fd:
        t, s = fd.from_pytorch(x), fd.from_pytorch(scale)
        for out in fd.ops.nv_block_quantize(t, s if with_scale else None):
            fd.add_output(out)
    want = block_scaled.block_quantize(x, scale if with_scale else None)
    for definition in (fd, rebuilt(fd)):
        out = definition.execute([x, scale])
        assert all(same_bits(a, b) for a, b in zip(out, want, strict=True))
    fd.validate([x, scale])


def test_mxfp8_quantization() -> None:
    x = values(5, 96)
    with FusionDefinition() as fd:
        out = fd.ops.nv_block_quantize(
            fd.from_pytorch(x), block_size=32, dtype=DataType.Float8_e4m3fn
        )
        for tv in out:
            fd.add_output(tv)
    assert "block_size=32, dtype=DataType.Float8_e4m3fn" in repr(fd)
    want = block_scaled.block_quantize(x, block_size=32, dtype="e4m3")
    for definition in (fd, rebuilt(fd)):
        out = definition.execute([x])
        assert all(same_bits(a, b) for a, b in zip(out, want, strict=True))


@needs_float4
@pytest.mark.parametrize("sizes", [(128, 64), (130, 80), (1, 16), (2, 3, 48), (48,)], ids=str)
def test_swizzled_scales_are_a_view_of_their_storage(sizes: tuple[int, ...]) -> None:
    x = values(*sizes)
    with FusionDefinition() as fd:
        _, scales = fd.ops.nv_block_quantize(fd.from_pytorch(x), swizzle_block_scales=True)
        fd.add_output(scales)
    (out,) = fd.execute([x])
    assert out.shape == (*sizes[:-1], sizes[-1] // 16)
    _, want = block_scaled.block_quantize(x, swizzle=True)
    memory = storage_of(out, want.numel())
    assert same_bits(memory, want.reshape(-1))
    fd.validate([x])


@needs_float4
@pytest.mark.parametrize("rows", [128, 40])
def test_quantized_operands_of_a_product(rows: int) -> None:
    """Scales that need padding go from one segment to the next as memory."""
    x, w = values(rows, 64), values(48, 64, seed=1)

    def operand(fd: FusionDefinition, t: object) -> tuple[object, object]:
        return fd.ops.nv_block_quantize(t, swizzle_block_scales=True)

    with FusionDefinition() as fd:
        a, b = fd.from_pytorch(x), fd.from_pytorch(w)
        (qa, sa), (qb, sb) = operand(fd, fd.ops.relu(a)), operand(fd, b)
        out, scale, gamma = fd.ops.scaled_mm(qa, fd.ops.permute(qb, [1, 0]), sa, sb)
        assert scale is None
        assert gamma is None
        fd.add_output(fd.ops.mul(out, 2.0))
    (qa, sa), (qb, sb) = (block_scaled.block_quantize(t, swizzle=True) for t in (torch.relu(x), w))
    want = block_scaled.scaled_mm(qa, qb.t(), sa, sb).float() * 2.0
    (out,) = fd.execute([x, w])
    assert torch.allclose(out, want, rtol=1e-2, atol=1e-2)


def test_scaled_mm() -> None:
    a, b = values(32, 64).to(torch.float8_e4m3fn), values(16, 64, seed=1).to(torch.float8_e4m3fn)
    s = values(32, 1, seed=2).abs() + 0.5
    t = values(1, 16, seed=3).abs() + 0.5
    with FusionDefinition() as fd:
        operands = [fd.from_pytorch(x) for x in (a, b.t(), s, t)]
        fd.add_output(fd.ops.scaled_mm(*operands)[0])
    want = (a.float() @ b.float().t()) * s * t
    for definition in (fd, rebuilt(fd)):
        (out,) = definition.execute([a, b.t(), s, t])
        assert out.dtype == torch.bfloat16
        assert torch.allclose(out.float(), want, rtol=1e-2, atol=1e-2)
    with FusionDefinition() as fd:
        operands = [fd.from_pytorch(x) for x in (a, b.t(), s, t)]
        bias = fd.from_pytorch(values(16, seed=4))
        with pytest.raises(RuntimeError, match="beta needs bias"):
            fd.ops.scaled_mm(*operands, beta=bias)
        with pytest.raises(RuntimeError, match="not yet supported"):
            fd.ops.scaled_mm(*operands, output_block_scale_size=16)
        with pytest.raises(RuntimeError, match="output_gamma needs output_block_scale_size"):
            fd.ops.scaled_mm(*operands, output_gamma=True)


def test_scaled_grouped_mm() -> None:
    a = values(48, 32).to(torch.float8_e4m3fn)
    b = values(3, 16, 32, seed=1).to(torch.float8_e4m3fn).mT
    ends = torch.tensor([16, 16, 48], dtype=torch.int32, device=DEVICE)
    s = values(48, 1, seed=2).abs() + 0.5
    t = values(3, 1, 16, seed=3).abs() + 0.5
    inputs = [a, b, ends, s, t]
    with FusionDefinition() as fd:
        out, _, _ = fd.ops.grouped_mm(*(fd.from_pytorch(x) for x in inputs))
        fd.add_output(out)
    assert "tv5, _, _ = fd.ops.grouped_mm(tv0, tv1, tv2, tv3, tv4)" in repr(fd)
    want = block_scaled.scaled_grouped_mm(*inputs)
    for definition in (fd, rebuilt(fd)):
        (got,) = definition.execute(inputs)
        assert torch.allclose(got.float(), want.float(), rtol=2e-2, atol=2e-2)
    with FusionDefinition() as fd:
        operands = [fd.from_pytorch(x) for x in inputs]
        with pytest.raises(RuntimeError, match="bias and beta must be given together"):
            fd.ops.grouped_mm(*operands, bias=operands[3])
        with pytest.raises(RuntimeError, match="scale1 must be of rank 2"):
            fd.ops.grouped_mm(*operands[:3], operands[4], operands[4])


@needs_float4
def test_nvfp4_groups_from_quantization_to_product() -> None:
    """Thunder's mixture of experts: quantize rows in groups, then a product for each group."""
    sizes = [7, 0, 130]
    groups, rows, n, k = len(sizes), sum(sizes), 32, 64
    x, w = values(rows, k), values(groups, n, k, seed=1)
    starts = torch.tensor([0, 7, 7], dtype=torch.int32, device=DEVICE)
    tiles = torch.tensor([0, 128, 128], dtype=torch.int32, device=DEVICE)
    alpha = torch.tensor([1.0, 2.0, 0.5], device=DEVICE)
    problems = torch.tensor([[m, n, k] for m in sizes], dtype=torch.int32, device=DEVICE)
    quantized = [block_scaled.block_quantize(g, swizzle=True) for g in w]
    qw = torch.stack([q.view(torch.uint8) for q, _ in quantized]).view(torch.float4_e2m1fn_x2)
    sw = torch.stack([s.view(torch.uint8) for _, s in quantized]).view(torch.float8_e4m3fn)
    inputs = [x, qw.mT, sw, alpha, problems, starts, tiles]

    def ops(fd: FusionDefinition, two_steps: bool) -> object:
        tx, tw, ts, ta, tp, te, tt = (fd.from_pytorch(t, static_sizes=True) for t in inputs)
        if two_steps:
            q, linear_scales = fd.ops.nv_block_quantize(tx)
            scales = fd.ops.preprocess_grouped_matmul_input_sf(linear_scales, te, tt)
        else:
            q, scales = fd.ops.nv_grouped_block_quantize(tx, te, tt)
        fd.add_output(fd.ops.cutlass_nvfp4_grouped_mm(q, tw, scales, ts, ta, tp, te, tt))
        return scales

    qx, sx = block_scaled.grouped_block_quantize(x, starts, tiles)
    want = block_scaled.nvfp4_grouped_mm(qx, qw.mT, sx, sw, alpha, problems, starts, tiles)
    for two_steps in (False, True):
        with FusionDefinition() as fd:
            scales = ops(fd, two_steps)
            fd.add_output(scales)
        for definition in (fd, rebuilt(fd)):
            out, got = definition.execute(inputs)
            assert torch.equal(out, want)
            assert got.shape == (rows, k // 16)
            assert same_bits(storage_of(got, sx.numel()), sx.reshape(-1))
        fd.validate(inputs)


@needs_float4
def test_swizzled_scales_are_for_products_only() -> None:
    x = values(4, 64)
    with FusionDefinition() as fd:
        _, scales = fd.ops.nv_block_quantize(fd.from_pytorch(x), swizzle_block_scales=True)
        fd.add_output(fd.ops.cast(scales, dtype=DataType.Float))
    with pytest.raises(RuntimeError, match="stored in the 128x4 layout"):
        fd.execute([x])


def test_errors_of_quantization() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([4, 40], [True, True])
        wide = fd.define_tensor([4, 64], [True, True])
        scale = fd.define_tensor([1], [None])
        ints = fd.define_tensor([4, 64], [True, True], dtype=DataType.Int)
        offsets = fd.define_tensor([3], [True], dtype=DataType.Int32)
        cases = [
            (lambda: fd.ops.nv_block_quantize(x), "no multiple of the block size 16"),
            (lambda: fd.ops.nv_block_quantize(ints), "must be Float, Half or BFloat16"),
            (lambda: fd.ops.nv_block_quantize(wide, scale), "global_scale must be a Float tensor"),
            (lambda: fd.ops.nv_block_quantize(wide, block_size=32), "block_size must be 16"),
            (
                lambda: fd.ops.nv_block_quantize(wide, dtype=DataType.Half),
                "dtype must be Float4_e2m1fn or Float8_e4m3fn",
            ),
            (
                lambda: fd.ops.nv_grouped_block_quantize(wide, scale, offsets),
                "input_offsets must be Int32",
            ),
            (
                lambda: fd.ops.preprocess_grouped_matmul_input_sf(wide, offsets, offsets),
                "must hold scales of 8 bits",
            ),
        ]
        for make, message in cases:
            with pytest.raises(RuntimeError, match=message):
                make()
