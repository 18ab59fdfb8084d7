# SPDX-License-Identifier: BSD-3-Clause
"""Block-scaled formats (NVFP4, MXFP8) on torch tensors: packing, quantization, the swizzled layout
of scales, and the products of scaled matrices. Works on every device, without reading device memory
back except where a function says so.

Formats: OCP Microscaling Formats specification 1.0 (e2m1, e8m0, block 32) and NVIDIA's NVFP4
(e2m1 with one e4m3 scale for 16 elements and a float32 scale outside). Two e2m1 values lie in a
byte, the even index in the low half (`torch.float4_e2m1fn_x2`).

Every product of two decoded values is exact in float32: e2m1 * e4m3 has at most 6 significant bits,
e4m3 * e8m0 at most 4. Sums are float32.
"""

from __future__ import annotations

import torch

Tensor = torch.Tensor

# Magnitudes of e2m1, by code (OCP Microscaling Formats specification 1.0, table 5).
_E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
_E2M1_MAX = 6.0
_E4M3_MAX = 448.0
# The smallest normal e4m3: scales of NVFP4 are not smaller, as in torchao (`E4M3_EPS` of its
# mx_formats), so that blocks of zeros have a scale that can be divided by.
_E4M3_TINY = 2.0**-6
_FLOAT32_MAX = torch.finfo(torch.float32).max

# Elements that share a scale, by what they are quantized to.
_BLOCK_SIZES = {"e2m1": 16, "e4m3": 32}
# The same by the dtype of the scales.
_BLOCK_SIZE_OF_SCALE = {torch.float8_e4m3fn: 16, torch.float8_e8m0fnu: 32}

# A tile of the swizzled layout: 128 rows by 4 scales of a row, 512 consecutive bytes (cuBLAS, "1D
# Block Scaling Factors Layout").
_TILE_ROWS = 128
_TILE_COLUMNS = 4
_TILE_SIZE = _TILE_ROWS * _TILE_COLUMNS

_FLOAT8 = (torch.float8_e4m3fn, torch.float8_e5m2)


def _check(condition: bool, op: str, message: str) -> None:
    if not condition:
        raise RuntimeError(f"{op}: {message}")


def _round_up(n: int, multiple: int) -> int:
    return -(-n // multiple) * multiple


# ------------------------------------------------------------------------------------------ e2m1


def unpack_float4(packed: Tensor) -> Tensor:
    """float4_e2m1fn_x2 [..., n] as float32 [..., 2n]; the low half of a byte comes first."""
    codes = packed.view(torch.uint8).to(torch.int64)
    pairs = torch.stack((codes & 15, codes >> 4), dim=-1).flatten(-2)
    table = torch.tensor([*_E2M1, *(-m for m in _E2M1)], device=packed.device)
    return table[pairs]


def round_to_float4(x: Tensor) -> Tensor:
    """The nearest values of e2m1 (ties to even codes), as float32; saturates at 6, NaN becomes +6.

    As cvt.rn.satfinite.e2m1x2.f32 (PTX ISA).
    """
    x = x.float().nan_to_num(_E2M1_MAX, _E2M1_MAX, -_E2M1_MAX)
    magnitude = x.abs().clamp(max=_E2M1_MAX)
    # Between neighbours of step s: round half to even in units of s.
    step = torch.where(magnitude < 2.0, 0.5, torch.where(magnitude < 4.0, 1.0, 2.0))
    return torch.copysign(torch.round(magnitude / step) * step, x)


def pack_float4(values: Tensor) -> Tensor:
    """Inverse of unpack_float4 for values of e2m1 [..., 2n]."""
    _check(
        values.dim() > 0 and values.shape[-1] % 2 == 0,
        "pack_float4",
        f"values must be even along the last dimension, but their shape is {list(values.shape)}",
    )
    m = values.abs()
    codes = torch.where(m < 2.0, 2 * m, torch.where(m < 4.0, m + 2, m / 2 + 4)).to(torch.uint8)
    codes = codes + 8 * torch.signbit(values).to(torch.uint8)
    return (codes[..., 0::2] | (codes[..., 1::2] << 4)).view(torch.float4_e2m1fn_x2)


# ------------------------------------------------------------------------------ layout of scales


def swizzle_scales(scales: Tensor) -> Tensor:
    """Scales [rows, columns] of one byte each in the 128x4 layout that block-scaled products read.

    Returns [rows rounded up to 128, columns rounded up to 4], contiguous, to be read as memory: the
    scale of (r, c) lies at byte
    (r / 128 * (columns / 4) + c / 4) * 512 + r % 32 * 16 + r / 32 % 4 * 4 + c % 4,
    and the padding is zero.
    """
    _check(
        scales.dim() == 2 and scales.dtype.itemsize == 1,
        "swizzle_scales",
        f"scales must be a matrix of one-byte values, not {scales.dtype} {list(scales.shape)}",
    )
    rows, columns = scales.shape
    padded = (_round_up(rows, _TILE_ROWS), _round_up(columns, _TILE_COLUMNS))
    storage = torch.zeros(padded, dtype=torch.uint8, device=scales.device)
    storage[:rows, :columns] = scales.view(torch.uint8)
    tiles = storage.view(padded[0] // _TILE_ROWS, 4, 32, padded[1] // _TILE_COLUMNS, 4)
    return tiles.permute(0, 3, 2, 1, 4).reshape(padded).view(scales.dtype)


def unswizzle_scales(storage: Tensor, rows: int, columns: int) -> Tensor:
    """Inverse of swizzle_scales: [rows, columns] of a storage of any shape; padding is dropped.

    A tensor of the logical shape that is followed by the rest of its storage will do as well, see
    _storage_of.
    """
    padded = (_round_up(rows, _TILE_ROWS), _round_up(columns, _TILE_COLUMNS))
    whole = _storage_of(storage)[: padded[0] * padded[1]]
    _check(
        whole.numel() == padded[0] * padded[1]
        and storage.numel() in (whole.numel(), rows * columns),
        "unswizzle_scales",
        f"{rows} x {columns} scales take {padded[0]} x {padded[1]} bytes in the 128x4 layout, but "
        f"the storage has {storage.numel()}",
    )
    tiles = whole.view(torch.uint8)
    tiles = tiles.view(padded[0] // _TILE_ROWS, padded[1] // _TILE_COLUMNS, 32, 4, 4)
    linear = tiles.permute(0, 3, 2, 1, 4).reshape(padded)
    return linear[:rows, :columns].contiguous().view(storage.dtype)


def _storage_of(scales: Tensor) -> Tensor:
    """The bytes of swizzled scales as they lie in memory, [at least numel].

    A transposed view of a storage is thereby the storage itself. Results of a fusion have the
    logical shape, rows of whole fours, and more of their storage behind them.
    """
    if scales.dim() > 1:
        *_, rows, columns = scales.shape
        strides = scales.stride()
        in_fours = strides[-1] == 1 and strides[-2] == _round_up(columns, _TILE_COLUMNS)
        behind = scales.untyped_storage().nbytes() - scales.storage_offset()
        if in_fours and rows > 0 and behind > scales.numel():
            return scales.as_strided((behind,), (1,))
    order = sorted(range(scales.dim()), key=scales.stride().__getitem__, reverse=True)
    return scales.view(torch.uint8).permute(order).reshape(-1).view(scales.dtype)


def _grouped_positions(
    rows: int, columns: int, input_offsets: Tensor, output_offsets: Tensor
) -> Tensor:
    """Where the scales of [rows, columns] lie in the storage of ragged groups; int64.

    Group g has the rows from input_offsets[g] to the next group's, and its tiles begin at row
    output_offsets[g] of the storage. Rows before the first group have negative positions.
    """
    device = input_offsets.device
    starts = input_offsets.long()
    row = torch.arange(rows, device=device)
    group = torch.searchsorted(starts, row, right=True) - 1
    outside = group < 0
    group = group.clamp(min=0)
    row = row - starts[group]
    column = torch.arange(columns, device=device)
    tiles = _round_up(columns, _TILE_COLUMNS) // _TILE_COLUMNS
    first = output_offsets.long()[group] * (tiles * _TILE_COLUMNS)
    in_row = row // _TILE_ROWS * tiles * _TILE_SIZE + row % 32 * 16 + row // 32 % 4 * 4
    in_column = column // _TILE_COLUMNS * _TILE_SIZE + column % _TILE_COLUMNS
    positions = (first + in_row).unsqueeze(1) + in_column
    return positions.masked_fill(outside.unsqueeze(1), -1)


def _check_group_offsets(op: str, rows_of: Tensor, input_offsets: Tensor, output: Tensor) -> None:
    _check(
        rows_of.dim() == 2,
        op,
        f"input must be a matrix, but its shape is {list(rows_of.shape)}",
    )
    for name, offsets in (("input_offsets", input_offsets), ("output_offsets", output)):
        _check(
            offsets.dim() == 1 and offsets.dtype in (torch.int32, torch.int64),
            op,
            f"{name} must be a vector of Int or Int32, not {offsets.dtype} {list(offsets.shape)}",
        )
    _check(
        input_offsets.numel() == output.numel(),
        op,
        f"input_offsets and output_offsets must have one entry per group, but have "
        f"{input_offsets.numel()} and {output.numel()}",
    )


def preprocess_grouped_scales(
    scales: Tensor, input_offsets: Tensor, output_offsets: Tensor
) -> Tensor:
    """The scales of ragged groups of rows, each group padded and swizzled on its own.

    Args:
      scales: [rows, columns], one byte each.
      input_offsets: [groups] int32 or int64, the first row of each group, ascending; a group ends
        where the next one begins, the last at `rows`.
      output_offsets: [groups], the row of the storage where the group's tiles begin: multiples of
        128, a group of n rows takes n rounded up to 128.
    Returns:
      [rows + 127 * groups, columns rounded up to 4], zero where no scale lies; to be read as
      memory. Scales whose place would be outside are dropped.
    """
    op = "preprocess_grouped_matmul_input_sf"
    _check_group_offsets(op, scales, input_offsets, output_offsets)
    _check(scales.dtype.itemsize == 1, op, f"scales of one byte are expected, not {scales.dtype}")
    rows, columns = scales.shape
    groups = input_offsets.numel()
    shape = (rows + groups * (_TILE_ROWS - 1), _round_up(columns, _TILE_COLUMNS))
    size = shape[0] * shape[1]
    # One element more takes what must not be written.
    storage = torch.zeros(size + 1, dtype=torch.uint8, device=scales.device)
    if groups > 0:
        positions = _grouped_positions(rows, columns, input_offsets, output_offsets)
        positions = torch.where((positions < 0) | (positions >= size), size, positions)
        storage[positions.flatten()] = scales.view(torch.uint8).flatten()
    return storage[:size].view(shape).view(scales.dtype)


# ---------------------------------------------------------------------------------- quantization


def _block_maxima(blocks: Tensor) -> Tensor:
    """Largest magnitudes along the last dimension, as fmax finds them: NaN does not count."""
    return blocks.abs().nan_to_num(0.0, float("inf")).amax(-1)


def _to_float8_saturated(x: Tensor) -> Tensor:
    """e4m3 as cvt.rn.satfinite rounds; NaN stays. torch before 2.13 does not saturate."""
    return x.clamp(-_E4M3_MAX, _E4M3_MAX).to(torch.float8_e4m3fn)


def _quantize_nvfp4(blocks: Tensor, global_scale: Tensor | None) -> tuple[Tensor, Tensor]:
    """float32 [..., 16] to values of e2m1 (float32) and scales of e4m3 [...].

    scale = e4m3(amax / 6 * global_scale) and value = x * (global_scale / scale): NVIDIA's NVFP4
    recipe (Transformer Engine's documentation, "NVFP4"), as nvFuser's and torchao's
    nvfp4_quantize evaluate it.
    """
    factor = torch.ones((), device=blocks.device) if global_scale is None else global_scale
    target = _block_maxima(blocks) / _E2M1_MAX * factor
    scales = target.nan_to_num(_E4M3_TINY).clamp(_E4M3_TINY, _E4M3_MAX).to(torch.float8_e4m3fn)
    inverse = (factor / scales.float()).clamp(max=_FLOAT32_MAX)
    return round_to_float4(blocks * inverse.unsqueeze(-1)), scales


def _ceil_to_e8m0(x: Tensor) -> Tensor:
    """The smallest power of two that is not below x >= 0 (float32), as e8m0.

    As cvt.rp.satfinite.ue8m0x2.f32 (PTX ISA), which Transformer Engine uses: what is not above
    2^-127, zero included, is 2^-127; infinity is 2^127; NaN is NaN.
    """
    bits = x.float().view(torch.int32)
    exponent, mantissa = bits >> 23, bits & 0x7FFFFF
    # 2^-127 itself is a subnormal number of float32 with this mantissa.
    above = torch.where(exponent == 0, mantissa > 0x400000, mantissa > 0)
    codes = (exponent + above).clamp(max=254)
    return codes.masked_fill(torch.isnan(x), 255).to(torch.uint8).view(torch.float8_e8m0fnu)


def _quantize_mxfp8(blocks: Tensor) -> tuple[Tensor, Tensor]:
    """float32 [..., 32] to e4m3 and scales of e8m0 [...]; bit for bit as Transformer Engine.

    The scale is amax times float32(1 / 448), rounded up to a power of two.
    """
    # The reciprocal is rounded to float32 before the product: Transformer Engine multiplies.
    reciprocal = torch.tensor(1.0 / _E4M3_MAX, dtype=torch.float32, device=blocks.device)
    scales = _ceil_to_e8m0(_block_maxima(blocks) * reciprocal)
    # 1 / 2^(code - 127): a normal number, except 2^-127.
    code = scales.view(torch.uint8).to(torch.int32)
    inverse = torch.where(code == 254, 0x400000, (254 - code) << 23).view(torch.float32)
    return _to_float8_saturated(blocks * inverse.unsqueeze(-1)), scales


def _check_quantized(
    op: str, x: Tensor, global_scale: Tensor | None, block_size: int, dtype: str
) -> None:
    _check(
        x.dtype in (torch.float32, torch.bfloat16, torch.float16),
        op,
        f"input must be Float, BFloat16 or Half, not {x.dtype}",
    )
    _check(x.dim() > 0, op, "input must have at least one dimension")
    _check(dtype in _BLOCK_SIZES, op, f"dtype must be e2m1 or e4m3, not {dtype}")
    _check(
        block_size == _BLOCK_SIZES[dtype],
        op,
        f"block_size must be {_BLOCK_SIZES[dtype]} for {dtype}, not {block_size}",
    )
    _check(
        x.shape[-1] % block_size == 0,
        op,
        f"the last dimension of input must be a multiple of block_size {block_size}, but has "
        f"extent {x.shape[-1]}",
    )
    if global_scale is not None:
        _check(dtype == "e2m1", op, "global_scale belongs to e2m1: e4m3 blocks have none")
        _check(
            global_scale.numel() == 1 and global_scale.dtype == torch.float32,
            op,
            f"global_scale must be one Float, not {global_scale.dtype} {list(global_scale.shape)}",
        )


def _quantize(
    op: str, x: Tensor, global_scale: Tensor | None, block_size: int, dtype: str
) -> tuple[Tensor, Tensor]:
    """Packed or e4m3 values, and scales of the shape of x with the last dimension / block_size."""
    _check_quantized(op, x, global_scale, block_size, dtype)
    shape = [*x.shape[:-1], x.shape[-1] // block_size]
    blocks = x.float().reshape([*shape, block_size])
    if dtype == "e4m3":
        values, scales = _quantize_mxfp8(blocks)
        return values.view(torch.uint8).reshape(x.shape).view(torch.float8_e4m3fn), scales
    factor = None if global_scale is None else global_scale.to(x.device).reshape(())
    values, scales = _quantize_nvfp4(blocks, factor)
    return pack_float4(values.reshape(x.shape)), scales


def block_quantize(
    x: Tensor,
    global_scale: Tensor | None = None,
    *,
    block_size: int = 16,
    dtype: str = "e2m1",
    swizzle: bool = False,
) -> tuple[Tensor, Tensor]:
    """Quantizes blocks of `block_size` along the last dimension.

    Args:
      x: [..., k] float32, bfloat16 or float16; k is a multiple of block_size.
      global_scale: one float32 by which block scales are multiplied (448 * 6 / amax of the tensor
        uses all of e4m3), for e2m1 only; absent is 1.
      block_size: 16 for e2m1, 32 for e4m3.
      dtype: "e2m1" (NVFP4: scales are e4m3) or "e4m3" (MXFP8: scales are e8m0).
      swizzle: scales in the layout of swizzle_scales, rows being all dimensions but the last.
    Returns:
      quantized: e2m1: float4_e2m1fn_x2 [..., k / 2]; e4m3: float8_e4m3fn [..., k].
      scales: [..., k / block_size]; swizzled ones that need padding are the matrix that
      swizzle_scales returns.
    Infinities saturate and their blocks have the largest scale; NaN does not count for the scale
    and becomes 6 in e2m1, NaN in e4m3.
    """
    quantized, scales = _quantize("nv_block_quantize", x, global_scale, block_size, dtype)
    if swizzle:
        rows = scales.view(scales.shape[:-1].numel(), scales.shape[-1])
        storage = swizzle_scales(rows)
        scales = storage.view(scales.shape) if storage.shape == rows.shape else storage
    return quantized, scales


def grouped_block_quantize(
    x: Tensor,
    input_offsets: Tensor,
    output_offsets: Tensor,
    global_scale: Tensor | None = None,
    *,
    block_size: int = 16,
) -> tuple[Tensor, Tensor]:
    """NVFP4 of ragged groups of rows; the scales are stored as preprocess_grouped_scales does.

    Args: x [m, k]; offsets as for preprocess_grouped_scales; the rest as for block_quantize.
    Returns: float4_e2m1fn_x2 [m, k / 2] and the storage of the scales,
      [m + 127 * groups, k / block_size rounded up to 4] of float8_e4m3fn.
    """
    op = "nv_grouped_block_quantize"
    _check_group_offsets(op, x, input_offsets, output_offsets)
    quantized, scales = _quantize(op, x, global_scale, block_size, "e2m1")
    return quantized, preprocess_grouped_scales(scales, input_offsets, output_offsets)


# -------------------------------------------------------------------------------------- products


def _is_float4(x: Tensor) -> bool:
    return x.dtype == torch.float4_e2m1fn_x2


def _decoded(x: Tensor, scales: Tensor | None = None) -> Tensor:
    """Values of rows [r, k] (float4: [r, k / 2]), times linear scales [r, k / block] if given.

    The dtype is the narrowest that is exact on a GPU, where narrow products are far faster.
    """
    values = unpack_float4(x) if _is_float4(x) else x.float()
    exact_in_bfloat16 = True
    if scales is not None:
        # e8m0 reaches beyond the normal numbers of bfloat16, e4m3 does not.
        exact_in_bfloat16 = scales.dtype == torch.float8_e4m3fn
        blocks = values.view(*scales.shape, _BLOCK_SIZE_OF_SCALE[scales.dtype])
        values = (blocks * scales.float().unsqueeze(-1)).view(values.shape)
    return values.bfloat16() if exact_in_bfloat16 and x.device.type == "cuda" else values


def _product(a: Tensor, b: Tensor) -> Tensor:
    """a [m, k] times b [n, k] transposed, accumulated in float32."""
    if a.dtype == b.dtype == torch.bfloat16 and hasattr(torch.ops.aten.mm, "dtype"):
        return torch.mm(a, b.t(), out_dtype=torch.float32)
    return a.float() @ b.float().t()


def _rows_of(b: Tensor) -> Tensor:
    """b [k, n] as rows [n, k]; float4 pairs lie along k, which therefore must be the last."""
    return b.t().contiguous()


def _logical_columns(x: Tensor) -> int:
    return x.shape[-1] * (2 if _is_float4(x) else 1)


def _check_operands(op: str, a: Tensor, b: Tensor) -> None:
    """Dtypes of a scaled product and equal extents of k: the last of a, the last but one of b."""
    for name, x in (("mat1", a), ("mat2", b)):
        _check(
            x.dtype in _FLOAT8 or _is_float4(x),
            op,
            f"{name} must be Float8_e4m3fn, Float8_e5m2 or Float4_e2m1fn_x2, not {x.dtype}",
        )
    _check(_is_float4(a) == _is_float4(b), op, f"mat1 and mat2 must agree: {a.dtype} and {b.dtype}")
    _check(
        a.shape[-1] == b.shape[-2],
        op,
        f"mat1 {list(a.shape)} and mat2 {list(b.shape)} differ in k",
    )


def _epilogue(
    op: str,
    product: Tensor,
    alpha: Tensor | float | None,
    bias: Tensor | None,
    beta: Tensor | float | None,
    out_dtype: torch.dtype,
) -> Tensor:
    """alpha * product + beta * bias in float32, rounded once; absent factors are 1."""
    _check(bias is not None or beta is None, op, "beta needs bias")
    result = product
    if alpha is not None:
        result = result * _factor(op, "alpha", alpha, result)
    if bias is not None:
        addend = bias.to(torch.float32)
        _check(
            bias.dim() <= result.dim()
            and all(
                n in (1, m) for n, m in zip(bias.shape[::-1], result.shape[::-1], strict=False)
            ),
            op,
            f"bias {list(bias.shape)} does not broadcast to the result {list(result.shape)}",
        )
        result = result + (addend if beta is None else _factor(op, "beta", beta, result) * addend)
    return (
        _to_float8_saturated(result) if out_dtype == torch.float8_e4m3fn else result.to(out_dtype)
    )


def _factor(op: str, name: str, factor: Tensor | float, like: Tensor) -> Tensor | float:
    if not isinstance(factor, Tensor):
        return factor
    _check(factor.numel() == 1, op, f"{name} must be one value, not {list(factor.shape)}")
    return factor.to(device=like.device, dtype=torch.float32).reshape(())


def _block_scaled_product(
    op: str, a: Tensor, b: Tensor, scale_a: Tensor, scale_b: Tensor
) -> Tensor:
    block = _BLOCK_SIZE_OF_SCALE[scale_a.dtype]
    k = _logical_columns(a)
    _check(
        scale_b.dtype == scale_a.dtype,
        op,
        f"scale1 and scale2 must have one dtype, not {scale_a.dtype} and {scale_b.dtype}",
    )
    _check(
        _is_float4(a) or block == 32,
        op,
        "scales of Float8_e4m3fn belong to Float4_e2m1fn_x2 operands",
    )
    _check(k % block == 0, op, f"k must be a multiple of the block size {block}, but is {k}")
    decoded = []
    for name, x, scales in (("scale1", a, scale_a), ("scale2", _rows_of(b), scale_b)):
        rows, columns = x.shape[0], k // block
        size = _round_up(rows, _TILE_ROWS) * _round_up(columns, _TILE_COLUMNS)
        _check(
            scales.numel() in (size, rows * columns) and _storage_of(scales).numel() >= size,
            op,
            f"{name} must hold {rows} x {columns} scales in the 128x4 layout, {size} of them with "
            f"the padding, but has the shape {list(scales.shape)}",
        )
        decoded.append(_decoded(x, unswizzle_scales(scales, rows, columns)))
    return _product(*decoded)


def scaled_mm(
    a: Tensor,
    b: Tensor,
    scale_a: Tensor,
    scale_b: Tensor,
    *,
    alpha: Tensor | float | None = None,
    bias: Tensor | None = None,
    beta: Tensor | float | None = None,
    out_dtype: torch.dtype = torch.bfloat16,
) -> Tensor:
    """alpha * (decoded a @ decoded b) + beta * bias, [m, n] of out_dtype.

    Args:
      a: [m, k] float8, or float4_e2m1fn_x2 [m, k / 2].
      b: [k, n] float8, or float4_e2m1fn_x2 [k / 2, n] with pairs along k.
      scale_a, scale_b: float32, one value each (per tensor) or [m, 1] and [1, n] (by row and
        column), as torch._scaled_mm takes them; or scales of blocks along k of a's rows and b's
        columns in the layout of swizzle_scales: float8_e4m3fn for 16 float4 (NVFP4), float8_e8m0fnu
        for 32 float8 (MXFP8) or float4 (MXFP4).
      alpha, beta: one float, default 1.
      bias: broadcasts to [m, n].
    """
    op = "scaled_mm"
    _check(
        a.dim() == 2 and b.dim() == 2,
        op,
        f"mat1 and mat2 must be matrices, but have the shapes {list(a.shape)} and {list(b.shape)}",
    )
    _check_operands(op, a, b)
    if scale_a.dtype in _BLOCK_SIZE_OF_SCALE:
        product = _block_scaled_product(op, a, b, scale_a, scale_b)
    else:
        m, n = a.shape[0], b.shape[1]
        for name, scale, whole in (("scale1", scale_a, (m, 1)), ("scale2", scale_b, (1, n))):
            _check(
                scale.dtype == torch.float32 and (scale.numel() == 1 or scale.shape == whole),
                op,
                f"{name} must be one Float, Floats of shape {list(whole)}, or block scales of "
                f"Float8_e4m3fn or Float8_e8m0fnu; it is {scale.dtype} {list(scale.shape)}",
            )
        product = _product(_decoded(a), _decoded(_rows_of(b)))
        for scale in (scale_a, scale_b):
            product = product * (scale.reshape(()) if scale.numel() == 1 else scale)
    return _epilogue(op, product, alpha, bias, beta, out_dtype)


def _group_ends(op: str, offsets: Tensor, extent: int) -> list[int]:
    """Reads the offsets back from the device, and checks them."""
    _check(
        offsets.dim() == 1 and offsets.dtype in (torch.int32, torch.int64),
        op,
        f"offsets must be a vector of Int32, not {offsets.dtype} {list(offsets.shape)}",
    )
    ends = offsets.tolist()
    _check(
        all(
            0 <= low <= high <= extent
            for low, high in zip([0, *ends], [*ends, extent], strict=True)
        ),
        op,
        f"offsets must ascend from 0 to at most {extent}, but are {ends}",
    )
    return ends


def _group_slices(
    op: str, a: Tensor, b: Tensor, offsets: Tensor
) -> tuple[list[int], list[tuple[slice, int]]]:
    """Shape of the result, and per group: which part of the divided dimension, and its number."""
    m, n = a.shape[-2], b.shape[-1]
    divided = {(2, 2): a.shape[-1], (3, 2): n, (2, 3): m}
    extent = divided.get((a.dim(), b.dim()))
    _check(
        extent is not None,
        op,
        f"mat1 and mat2 must be a matrix and a batch, a batch and a matrix or two matrices, but "
        f"have the shapes {list(a.shape)} and {list(b.shape)}",
    )
    assert extent is not None
    ends = _group_ends(op, offsets, extent)
    for name, x in (("mat1", a), ("mat2", b)):
        _check(
            x.dim() == 2 or x.shape[0] == len(ends),
            op,
            f"{name} has {x.shape[0]} matrices for {len(ends)} groups",
        )
    shape = [len(ends), m, n] if a.dim() == b.dim() else [m, n]
    starts = [0, *ends[:-1]]
    return shape, [(slice(s, e), g) for g, (s, e) in enumerate(zip(starts, ends, strict=True))]


def scaled_grouped_mm(
    a: Tensor,
    b: Tensor,
    offsets: Tensor,
    scale_a: Tensor,
    scale_b: Tensor,
    *,
    alpha: Tensor | float | None = None,
    bias: Tensor | None = None,
    beta: Tensor | float | None = None,
    out_dtype: torch.dtype = torch.bfloat16,
) -> Tensor:
    """One scaled product per group, as torch._scaled_grouped_mm; reads the offsets back.

    Args:
      a, b: float8. [m, k] and [g, k, n]: groups of rows, result [m, n]; [g, m, k] and [k, n]:
        groups of columns, result [m, n]; [m, k] and [k, n]: groups along k, result [g, m, n].
      offsets: [g] int32, where each group ends.
      scale_a, scale_b: float32 of the shape of a's rows and b's columns with k being 1: [m, 1] or
        [g, m, 1] and [1, n] or [g, 1, n]; both have a dimension g for groups along k.
      alpha, bias, beta: as for scaled_mm, of the whole result.
    Rows and columns after the last group are zero before alpha and bias.
    """
    op = "grouped_mm"
    _check(
        a.dim() >= 2 and b.dim() >= 2,
        op,
        f"mat1 and mat2 must have 2 or 3 dimensions: {list(a.shape)}, {list(b.shape)}",
    )
    _check_operands(op, a, b)
    _check(not _is_float4(a), op, "mat1 and mat2 must be Float8_e4m3fn or Float8_e5m2")
    shape, groups = _group_slices(op, a, b, offsets)
    m, n, count = a.shape[-2], b.shape[-1], len(groups)
    along_k = a.dim() == b.dim() == 2
    want_a = (count, m, 1) if along_k or a.dim() == 3 else (m, 1)
    want_b = (count, 1, n) if along_k or b.dim() == 3 else (1, n)
    for name, scale, want in (("scale1", scale_a, want_a), ("scale2", scale_b, want_b)):
        _check(
            scale.dtype == torch.float32 and scale.shape == want,
            op,
            f"{name} must be Float of shape {list(want)}, not {scale.dtype} {list(scale.shape)}",
        )
    product = torch.zeros(shape, dtype=torch.float32, device=a.device)
    for part, g in groups:
        if along_k:
            x, y, out = a[:, part], b[part], product[g]
            factors = scale_a[g], scale_b[g]
        elif a.dim() == 3:
            x, y, out = a[g], b[:, part], product[:, part]
            factors = scale_a[g], scale_b[:, part]
        else:
            x, y, out = a[part], b[g], product[part]
            factors = scale_a[part], scale_b[g]
        out.copy_(_product(_decoded(x), _decoded(_rows_of(y))) * factors[0] * factors[1])
    return _epilogue(op, product, alpha, bias, beta, out_dtype)


def _check_nvfp4_groups(
    op: str, a: Tensor, b: Tensor, alpha: Tensor, problem_sizes: Tensor, *offsets: Tensor
) -> None:
    _check(
        _is_float4(a) and _is_float4(b) and a.dim() == 2 and b.dim() == 3,
        op,
        f"mat1 and mat2 must be Float4_e2m1fn_x2 [m, k] and [g, k, n], not {a.dtype} "
        f"{list(a.shape)} and {b.dtype} {list(b.shape)}",
    )
    _check_operands(op, a, b)
    groups = b.shape[0]
    _check(
        problem_sizes.shape == (groups, 3),
        op,
        f"problem_sizes must be [{groups}, 3], not {list(problem_sizes.shape)}",
    )
    names = ("alpha", "expert_offsets", "sf_offsets")
    for name, x in zip(names, (alpha, *offsets), strict=True):
        _check(x.shape == (groups,), op, f"{name} must have {groups} entries, not {list(x.shape)}")


def nvfp4_grouped_mm(
    a: Tensor,
    b: Tensor,
    scale_a: Tensor,
    scale_b: Tensor,
    alpha: Tensor,
    problem_sizes: Tensor,
    expert_offsets: Tensor,
    sf_offsets: Tensor,
    *,
    out_dtype: torch.dtype = torch.bfloat16,
) -> Tensor:
    """One NVFP4 product per group of rows, [m, n] of out_dtype; reads sizes and offsets back.

    Args:
      a: float4_e2m1fn_x2 [m, k / 2], the rows of all groups.
      b: float4_e2m1fn_x2 [g, k / 2, n] with pairs along k.
      scale_a: float8_e4m3fn, the storage that preprocess_grouped_scales returns.
      scale_b: float8_e4m3fn, per group the storage that swizzle_scales makes of [n, k / 16].
      alpha: [g] float32, multiplies the product of each group.
      problem_sizes: [g, 3] int32: rows of the group, n, k.
      expert_offsets: [g] int32, the first row of each group in a and in the result.
      sf_offsets: [g] int32, the row of scale_a where the group's tiles begin.
    Rows of no group are zero.
    """
    op = "cutlass_nvfp4_grouped_mm"
    _check_nvfp4_groups(op, a, b, alpha, problem_sizes, expert_offsets, sf_offsets)
    for name, scale in (("scale1", scale_a), ("scale2", scale_b)):
        _check(
            scale.dtype == torch.float8_e4m3fn,
            op,
            f"{name} must be Float8_e4m3fn, not {scale.dtype}",
        )
    groups, m, n, k = b.shape[0], a.shape[0], b.shape[2], _logical_columns(a)
    _check(k % 16 == 0, op, f"k must be a multiple of the block size 16, but is {k}")
    columns = k // 16
    width = _round_up(columns, _TILE_COLUMNS)
    size_b = _round_up(n, _TILE_ROWS) * width
    storage_a, storage_b = _storage_of(scale_a), _storage_of(scale_b)
    _check(
        scale_b.numel() in (groups * size_b, groups * n * columns)
        and storage_b.numel() >= groups * size_b,
        op,
        f"scale2 must hold {n} x {columns} scales in the 128x4 layout for each of {groups} groups, "
        f"{groups * size_b} with the padding, but has the shape {list(scale_b.shape)}",
    )
    out = torch.zeros(m, n, dtype=torch.float32, device=a.device)
    sizes, starts, firsts = (x.tolist() for x in (problem_sizes, expert_offsets, sf_offsets))
    for g in range(groups):
        rows, start, first = sizes[g][0], starts[g], firsts[g] * width
        size_a = _round_up(rows, _TILE_ROWS) * width
        _check(
            sizes[g][1:] == [n, k] and 0 <= rows and 0 <= start <= m - rows,
            op,
            f"group {g} of size {sizes[g]} at row {start} does not fit m = {m}, n = {n}, k = {k}",
        )
        _check(
            0 <= first <= storage_a.numel() - size_a,
            op,
            f"sf_offsets[{g}] = {firsts[g]}: scale1 of shape {list(scale_a.shape)} ends before "
            f"the group's {_round_up(rows, _TILE_ROWS)} rows do",
        )
        scales = unswizzle_scales(storage_a[first : first + size_a], rows, columns)
        x = _decoded(a[start : start + rows], scales)
        scales = unswizzle_scales(storage_b[g * size_b : (g + 1) * size_b], n, columns)
        product = _product(x, _decoded(_rows_of(b[g]), scales))
        out[start : start + rows] = product * alpha[g]
    return _epilogue(op, out, None, None, None, out_dtype)
