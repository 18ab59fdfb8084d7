# SPDX-License-Identifier: BSD-3-Clause
"""Formats, scale layout, quantization and products of python/nvfuse_direct/block_scaled.py.

The oracle here is written from the formats' specifications in plain Python, one element at a time:
Python floats are float64, and `f32` rounds to float32, so that a float32 operation is the rounded
float64 operation (exact for one +, *, / of float32 operands).
"""

from __future__ import annotations

import functools
import itertools
import math
import struct
from collections.abc import Sequence

import pytest
import torch
from helpers import DEVICE
from nvfuse_direct.block_scaled import (
    block_quantize,
    grouped_block_quantize,
    nvfp4_grouped_mm,
    pack_float4,
    preprocess_grouped_scales,
    round_to_float4,
    scaled_grouped_mm,
    scaled_mm,
    swizzle_scales,
    unpack_float4,
    unswizzle_scales,
)

Tensor = torch.Tensor
FP4 = torch.float4_e2m1fn_x2
E4M3, E5M2, E8M0 = torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e8m0fnu
INF, NAN = math.inf, math.nan
FLOAT32_MAX = (2 - 2.0**-23) * 2.0**127

# ---------------------------------------------------------------------------------------- oracle


def f32(x: float) -> float:
    """float64 rounded to float32."""
    try:
        return struct.unpack("f", struct.pack("f", x))[0]
    except OverflowError:
        return math.copysign(INF, x)


def e2m1_value(code: int) -> float:
    sign, exponent, mantissa = code >> 3, code >> 1 & 3, code & 1
    magnitude = mantissa * 0.5 if exponent == 0 else (1 + mantissa / 2) * 2.0 ** (exponent - 1)
    return -magnitude if sign else magnitude


def e4m3_value(code: int) -> float:
    sign, exponent, mantissa = code >> 7, code >> 3 & 15, code & 7
    if exponent == 15 and mantissa == 7:
        return NAN
    magnitude = mantissa * 2.0**-9 if exponent == 0 else (1 + mantissa / 8) * 2.0 ** (exponent - 7)
    return -magnitude if sign else magnitude


def e8m0_value(code: int) -> float:
    return NAN if code == 255 else 2.0 ** (code - 127)


def nearest_code(x: float, magnitudes: Sequence[float], sign_bit: int) -> int:
    """Code of the nearest magnitude, ties to the even code, saturating, with the sign of x."""
    magnitude = min(abs(x), magnitudes[-1])
    code = min(range(len(magnitudes)), key=lambda c: (abs(magnitudes[c] - magnitude), c % 2))
    return code | (sign_bit if math.copysign(1.0, x) < 0 else 0)


E2M1_MAGNITUDES = [e2m1_value(code) for code in range(8)]
E4M3_MAGNITUDES = [e4m3_value(code) for code in range(127)]


def e2m1_code(x: float) -> int:
    return 7 if math.isnan(x) else nearest_code(x, E2M1_MAGNITUDES, 8)


@functools.cache
def e4m3_code(x: float) -> int:
    return nearest_code(x, E4M3_MAGNITUDES, 128)


def nvfp4_block(x: Sequence[float], global_scale: float) -> tuple[list[int], int]:
    """Codes of one block's elements and of its scale."""
    largest = max((abs(each) for each in x if not math.isnan(each)), default=0.0)
    target = f32(f32(largest / 6.0) * global_scale)
    scale = e4m3_code(min(max(target, 2.0**-6), 448.0))
    factor = min(f32(global_scale / e4m3_value(scale)), FLOAT32_MAX)
    return [e2m1_code(f32(each * factor)) for each in x], scale


def mxfp8_block(x: Sequence[float]) -> tuple[list[int | None], int]:
    """Codes of one block's elements (None: any NaN) and of its scale."""
    largest = max((abs(each) for each in x if not math.isnan(each)), default=0.0)
    wanted = f32(largest * f32(1 / 448))
    exponent = next((e for e in range(255) if e8m0_value(e) >= wanted), 254)
    # Multiplying by a power of two: rounded to float32 as the hardware's product is.
    scaled = [f32(each * 2.0 ** (127 - exponent)) for each in x]
    return [None if math.isnan(each) else e4m3_code(each) for each in scaled], exponent


def place(r: int, c: int, columns: int) -> int:
    """Byte of the scale of row r, column c of one matrix."""
    tile = (r // 128) * math.ceil(columns / 4) + c // 4
    return tile * 512 + (r % 32) * 16 + (r // 32 % 4) * 4 + c % 4


def rounded(n: int, multiple: int) -> int:
    return math.ceil(n / multiple) * multiple


def codes_of(packed: Tensor) -> list[int]:
    """Four-bit codes in order, low half of a byte first."""
    return [half for byte in bytes_of(packed) for half in (byte & 15, byte >> 4)]


def bytes_of(x: Tensor) -> list[int]:
    return x.contiguous().view(torch.uint8).flatten().tolist()


def packed(codes: Tensor) -> Tensor:
    """uint8 codes [..., 2n] as pairs."""
    return (codes[..., 0::2] | codes[..., 1::2] << 4).contiguous().view(FP4)


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def random_fp4(shape: Sequence[int], seed: int) -> Tensor:
    """[..., k] values in [..., k / 2] bytes."""
    return packed(torch.randint(0, 16, tuple(shape), generator=generator(seed)).to(torch.uint8))


def random_fp8(shape: Sequence[int], seed: int, dtype: torch.dtype = E4M3) -> Tensor:
    return torch.randn(tuple(shape), generator=generator(seed)).to(dtype)


def random_scales(shape: Sequence[int], seed: int, dtype: torch.dtype) -> Tensor:
    """Scales between 2^-6 and 2^6 or so."""
    low, high = (0x08, 0x70) if dtype == E4M3 else (121, 134)
    codes = torch.randint(low, high, tuple(shape), generator=generator(seed))
    return codes.to(torch.uint8).view(dtype)


def decoded(x: Tensor, scales: Tensor | None = None) -> Tensor:
    """float64 values of rows, times linear block scales."""
    x = x.cpu()
    if x.dtype == FP4:
        table = torch.tensor([e2m1_value(code) for code in range(16)], dtype=torch.double)
        wide = table[torch.tensor(codes_of(x), dtype=torch.long)]
        wide = wide.view(*x.shape[:-1], 2 * x.shape[-1])
    else:
        wide = x.double()
    if scales is None:
        return wide
    value = e4m3_value if scales.dtype == E4M3 else e8m0_value
    factors = torch.tensor([value(code) for code in range(256)], dtype=torch.double)
    scale = factors[scales.cpu().contiguous().view(torch.uint8).long()]
    return wide * scale.repeat_interleave(wide.shape[-1] // max(scale.shape[-1], 1), -1)


def assert_near(actual: Tensor, expected: Tensor, dtype: torch.dtype) -> None:
    """Within rounding of the result; sums are float32."""
    assert actual.dtype == dtype
    rtol = {torch.float32: 2e-6, torch.float16: 1e-3, torch.bfloat16: 8e-3}[dtype]
    scale = float(expected.abs().max()) if expected.numel() else 0.0
    torch.testing.assert_close(actual.cpu().double(), expected, rtol=rtol, atol=2e-6 * scale)


# ------------------------------------------------------------------------------------------ e2m1


def test_every_pair_of_codes_unpacks_and_packs() -> None:
    every_byte = torch.arange(256, dtype=torch.uint8).view(16, 16).view(FP4).to(DEVICE)
    values = unpack_float4(every_byte)
    assert values.dtype == torch.float32 and values.shape == (16, 32)
    expected = [e2m1_value(code) for code in codes_of(every_byte)]
    assert values.flatten().tolist() == expected
    assert torch.signbit(values).flatten().tolist() == [math.copysign(1, x) < 0 for x in expected]
    assert bytes_of(pack_float4(values)) == list(range(256))


def test_rounding_to_e2m1() -> None:
    """Values, midpoints and their neighbours in float32, beyond the range, infinities, NaN."""
    numbers = [0.0, 2.0**-149, 6.1, 7.0, 1e30, INF]
    for low, high in itertools.pairwise(E2M1_MAGNITUDES):
        middle = torch.tensor((low + high) / 2)
        numbers += [low, high, float(middle)]
        numbers += [float(torch.nextafter(middle, torch.tensor(x))) for x in (low, high)]
    numbers += [-x for x in numbers]
    actual = round_to_float4(torch.tensor(numbers, device=DEVICE))
    codes = [e2m1_code(x) for x in numbers]
    assert actual.tolist() == [e2m1_value(code) for code in codes]
    assert torch.signbit(actual).tolist() == [code > 7 for code in codes]
    # NaN has no sign here: it becomes +6, as in the hardware's conversion.
    nans = torch.tensor([NAN, -NAN], device=DEVICE)
    assert round_to_float4(torch.copysign(nans, nans.new_tensor([1.0, -1.0]))).tolist() == [6, 6]


def test_packing_refuses_an_odd_extent() -> None:
    with pytest.raises(RuntimeError, match=r"pack_float4: values must be even .* \[2, 3\]"):
        pack_float4(torch.zeros(2, 3))


# ------------------------------------------------------------------------------ layout of scales


@pytest.mark.parametrize("rows,columns", [(1, 1), (128, 4), (129, 5), (37, 3), (300, 12), (256, 8)])
def test_every_scale_lies_where_the_layout_says(rows: int, columns: int) -> None:
    scales = torch.arange(rows * columns).remainder(251).add(1).to(torch.uint8)
    scales = scales.view(rows, columns).view(E4M3).to(DEVICE)
    storage = swizzle_scales(scales)
    assert storage.shape == (rounded(rows, 128), rounded(columns, 4)) and storage.dtype == E4M3
    expected = [0] * storage.numel()
    for r, c in itertools.product(range(rows), range(columns)):
        expected[place(r, c, columns)] = (r * columns + c) % 251 + 1
    assert bytes_of(storage) == expected
    assert bytes_of(unswizzle_scales(storage, rows, columns)) == bytes_of(scales)


@pytest.mark.parametrize("dtype", [torch.uint8, E4M3, E8M0, E5M2])
def test_layout_of_every_type_of_scale(dtype: torch.dtype) -> None:
    scales = torch.arange(130 * 5).remainder(256).to(torch.uint8).view(130, 5).view(dtype)
    storage = swizzle_scales(scales.to(DEVICE))
    assert storage.dtype == dtype
    for view in (storage, storage.flatten(), storage.view(2, 512, 2), storage.t()):
        linear = unswizzle_scales(view, 130, 5)
        assert linear.dtype == dtype and bytes_of(linear) == bytes_of(scales)


def test_layout_of_a_transposed_and_of_an_empty_matrix() -> None:
    scales = torch.arange(12, dtype=torch.uint8, device=DEVICE).view(4, 3)
    assert bytes_of(swizzle_scales(scales.t())) == bytes_of(swizzle_scales(scales.t().contiguous()))
    for shape in ((0, 3), (3, 0)):
        storage = swizzle_scales(torch.zeros(shape, dtype=torch.uint8))
        assert storage.shape == (rounded(shape[0], 128), rounded(shape[1], 4))
        assert unswizzle_scales(storage, *shape).shape == shape


def test_layout_refuses_other_sizes() -> None:
    with pytest.raises(RuntimeError, match=r"130 x 5 .* 256 x 8 bytes .* storage has 650"):
        unswizzle_scales(torch.zeros(650, dtype=torch.uint8), 130, 5)
    with pytest.raises(RuntimeError, match="swizzle_scales: scales must be a matrix of one-byte"):
        swizzle_scales(torch.zeros(4, 4))


GROUPS = {
    "ragged": (500, [0, 100, 250, 350], [0, 128, 384, 512]),
    "one": (5, [0], [0]),
    "empty_groups": (9, [0, 5, 5, 9], [0, 128, 128, 256]),
    "all_in_the_second": (130, [0, 0], [0, 0]),
    "later_start": (7, [3], [0]),
    "spread": (40, [0, 20], [128, 0]),
}


def offsets_of(*lists: Sequence[int], dtype: torch.dtype = torch.int32) -> list[Tensor]:
    return [torch.tensor(each, dtype=dtype, device=DEVICE) for each in lists]


def grouped_bytes(
    scales: Sequence[int], rows: int, columns: int, starts: list[int], firsts: list[int]
) -> list[int]:
    """The storage of ragged groups, one scale at a time."""
    width = rounded(columns, 4)
    storage = [0] * ((rows + 127 * len(starts)) * width)
    for g, (start, end) in enumerate(zip(starts, [*starts[1:], rows], strict=True)):
        for r, c in itertools.product(range(start, end), range(columns)):
            storage[firsts[g] * width + place(r - start, c, columns)] = scales[r * columns + c]
    return storage


@pytest.mark.parametrize("columns", [4, 5])
@pytest.mark.parametrize("case", GROUPS)
def test_scales_of_ragged_groups(case: str, columns: int) -> None:
    rows, starts, firsts = GROUPS[case]
    codes = torch.randint(1, 120, (rows, columns), generator=generator(1)).to(torch.uint8)
    for dtype in (torch.int32, torch.int64):
        offsets = offsets_of(starts, firsts, dtype=dtype)
        storage = preprocess_grouped_scales(codes.view(E4M3).to(DEVICE), *offsets)
        assert storage.shape == (rows + 127 * len(starts), rounded(columns, 4))
        assert storage.dtype == E4M3
        expected = grouped_bytes(codes.flatten().tolist(), rows, columns, starts, firsts)
        assert bytes_of(storage) == expected


def test_scales_of_no_group_and_out_of_the_storage() -> None:
    scales = torch.ones(6, 4, dtype=torch.uint8, device=DEVICE)
    empty = offsets_of([], [])
    assert not preprocess_grouped_scales(scales, *empty).any()
    assert preprocess_grouped_scales(scales[:0], *offsets_of([0], [0])).shape == (127, 4)
    # The contract gives a group of n rows n + 127 rows of storage: tiles that begin at 4096 have no
    # place in it.
    assert not preprocess_grouped_scales(scales, *offsets_of([0], [4096])).any()


def test_ragged_groups_refuse_wrong_arguments() -> None:
    scales = torch.ones(6, 4, dtype=torch.uint8, device=DEVICE)
    op = "preprocess_grouped_matmul_input_sf"
    with pytest.raises(RuntimeError, match=f"{op}: input must be a matrix"):
        preprocess_grouped_scales(scales[0], *offsets_of([0], [0]))
    with pytest.raises(RuntimeError, match=f"{op}: input_offsets must be a vector of Int or Int32"):
        preprocess_grouped_scales(scales, torch.zeros(1, device=DEVICE), *offsets_of([0]))
    with pytest.raises(RuntimeError, match=f"{op}: input_offsets and output_offsets .* 2 and 1"):
        preprocess_grouped_scales(scales, *offsets_of([0, 3], [0]))
    with pytest.raises(RuntimeError, match=f"{op}: scales of one byte"):
        preprocess_grouped_scales(scales.float(), *offsets_of([0], [0]))


# ---------------------------------------------------------------------------------- quantization

# Rows of 16 that reach every branch of the rule.
NVFP4_ROWS = {
    "zeros": [0.0] * 16,
    "minus_zeros": [-0.0] * 16,
    "subnormal": [2.0**-149 * i for i in range(16)],
    "below_the_smallest_scale": [2.0**-9 * i for i in range(16)],
    "ordinary": [math.sin(i) * 3 for i in range(16)],
    "large": [1e5 * (i - 8) for i in range(16)],
    "huge": [3e38, -3e38] + [1e37 * i for i in range(14)],
    "infinite": [INF, 1.0, 2688.0, 5000.0] + [0.0] * 12,
    "minus_infinite": [-INF] + [448.0 * i for i in range(15)],
    "nan": [NAN, 1.0, -2.0, 6.0] + [0.5] * 12,
    "all_nan": [NAN] * 16,
    "every_tie": [x / 4 * (1 if x % 2 else -1) for x in range(9, 25)],
    "scale_between_codes": [6.0 * 1.0625] + [0.3 * i for i in range(15)],
}


def check_nvfp4(x: Tensor, global_scale: float | None) -> None:
    factor = None if global_scale is None else torch.tensor(global_scale, device=DEVICE)
    quantized, scales = block_quantize(x.to(DEVICE), factor)
    assert quantized.dtype == FP4 and scales.dtype == E4M3
    assert quantized.shape == (*x.shape[:-1], x.shape[-1] // 2)
    assert scales.shape == (*x.shape[:-1], x.shape[-1] // 16)
    expected = [
        nvfp4_block(block, 1.0 if global_scale is None else f32(global_scale))
        for block in x.double().reshape(-1, 16).tolist()
    ]
    assert bytes_of(scales) == [scale for _, scale in expected]
    assert codes_of(quantized) == [code for codes, _ in expected for code in codes]


@pytest.mark.parametrize("global_scale", [None, 1.0, 0.37, 2688.0, 1e-30, 1e30, 3e38])
def test_nvfp4_of_special_rows(global_scale: float | None) -> None:
    check_nvfp4(torch.tensor(list(NVFP4_ROWS.values())), global_scale)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_nvfp4_of_random_values(dtype: torch.dtype) -> None:
    x = torch.randn(40, 64, generator=generator(2)) * torch.logspace(-3, 3, 40).unsqueeze(1)
    check_nvfp4(x.to(dtype), None)
    check_nvfp4(x.to(dtype), 448.0 * 6 / float(x.abs().max()))


def test_nvfp4_of_every_scale() -> None:
    """Blocks whose largest value is 6 times every e4m3 scale: the scale is met exactly."""
    scales = torch.tensor([e4m3_value(code) for code in range(0x08, 0x7F)])
    x = scales.unsqueeze(1) * torch.tensor([e2m1_value(code) for code in range(16)])
    quantized, actual = block_quantize(x.to(DEVICE))
    assert bytes_of(actual) == list(range(0x08, 0x7F))
    # Every product of code and scale is represented: it comes back as it went.
    assert codes_of(quantized) == list(range(16)) * len(scales)


MXFP8_ROWS = {
    "zeros": [0.0] * 32,
    "subnormal": [2.0**-149 * i for i in range(32)],
    "scale_at_2^-127": [448.0 * 2.0**-127] + [2.0**-127 * i for i in range(31)],
    "scale_above_2^-127": [449.0 * 2.0**-127] + [2.0**-127 * i for i in range(31)],
    "scale_at_2^-126": [448.0 * 2.0**-126] + [2.0**-126 * i for i in range(31)],
    "ordinary": [math.sin(i) * 3 for i in range(32)],
    "exactly_448": [448.0] + [float(i) for i in range(31)],
    "above_448": [math.nextafter(448.0, 500.0)] + [float(i) for i in range(31)],
    "one_ulp_above_448": [448.00003] + [i / 7 for i in range(31)],
    "huge": [3.4e38, -3.4e38] + [1e37 * i for i in range(30)],
    "infinite": [INF, -INF, 1.0, 3e38] + [0.0] * 28,
    "nan": [NAN, 1.0, -2.0, 6.0] + [0.5] * 28,
    "all_nan": [NAN] * 32,
}


def check_mxfp8(x: Tensor) -> None:
    quantized, scales = block_quantize(x.to(DEVICE), block_size=32, dtype="e4m3")
    assert quantized.dtype == E4M3 and scales.dtype == E8M0
    assert quantized.shape == x.shape and scales.shape == (*x.shape[:-1], x.shape[-1] // 32)
    expected = [mxfp8_block(block) for block in x.double().reshape(-1, 32).tolist()]
    assert bytes_of(scales) == [scale for _, scale in expected]
    want = [code for codes, _ in expected for code in codes]
    got = [None if byte & 127 == 127 else byte for byte in bytes_of(quantized)]
    assert got == want


def test_mxfp8_of_special_rows() -> None:
    check_mxfp8(torch.tensor(list(MXFP8_ROWS.values())))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_mxfp8_of_random_values(dtype: torch.dtype) -> None:
    x = torch.randn(24, 96, generator=generator(3)) * torch.logspace(-4, 4, 24).unsqueeze(1)
    check_mxfp8(x.to(dtype))


def test_mxfp8_scale_around_every_power_of_two() -> None:
    """amax / 448 at a power of two, one float32 below it and one above."""
    edges = torch.tensor([448.0 * 2.0**e for e in range(-140, 119)])
    near = [edges, torch.nextafter(edges, edges * 0), torch.nextafter(edges, edges * 2)]
    x = torch.zeros(3 * len(edges), 32)
    x[:, 0] = torch.cat(near)
    check_mxfp8(x)


@pytest.mark.parametrize("shape", [(32,), (0, 64), (3, 0), (2, 3, 64), (2, 1, 5, 32)])
def test_quantized_shapes(shape: tuple[int, ...]) -> None:
    x = torch.randn(shape, generator=generator(4))
    check_nvfp4(x, None)
    check_mxfp8(x)


def test_quantization_of_a_strided_input() -> None:
    x = torch.randn(64, 40, generator=generator(5)).to(DEVICE)
    view = x.t()[1:, :32]
    for options in ({}, {"block_size": 32, "dtype": "e4m3"}):
        pairs = zip(
            block_quantize(view, **options),
            block_quantize(view.contiguous(), **options),
            strict=True,
        )
        assert all(bytes_of(a) == bytes_of(b) for a, b in pairs)


@pytest.mark.parametrize("shape", [(130, 80), (256, 128), (2, 3, 64), (64,), (0, 64)])
def test_swizzled_scales_of_quantization(shape: tuple[int, ...]) -> None:
    x = torch.randn(shape, generator=generator(6)).to(DEVICE)
    for options in ({}, {"block_size": 32, "dtype": "e4m3"}):
        if shape[-1] % options.get("block_size", 16):
            continue
        quantized, linear = block_quantize(x, **options)
        again, swizzled = block_quantize(x, swizzle=True, **options)
        assert bytes_of(quantized) == bytes_of(again) and linear.dtype == swizzled.dtype
        columns = linear.shape[-1]
        rows = linear.shape[:-1].numel()
        padded = (rounded(rows, 128), rounded(columns, 4))
        assert swizzled.shape == (linear.shape if padded == (rows, columns) else padded)
        assert bytes_of(unswizzle_scales(swizzled, rows, columns)) == bytes_of(linear)


@pytest.mark.parametrize(
    "x,options,message",
    [
        (torch.zeros(3, 24), {}, "multiple of block_size 16, but has extent 24"),
        (
            torch.zeros(3, 48),
            {"block_size": 32, "dtype": "e4m3"},
            "multiple of block_size 32, but has extent 48",
        ),
        (torch.zeros(()), {}, "input must have at least one dimension"),
        (torch.zeros(16, dtype=torch.double), {}, "input must be Float, BFloat16 or Half"),
        (torch.zeros(16, dtype=torch.int32), {}, "input must be Float, BFloat16 or Half"),
        (torch.zeros(32), {"block_size": 32}, "block_size must be 16 for e2m1, not 32"),
        (torch.zeros(32), {"dtype": "e4m3"}, "block_size must be 32 for e4m3, not 16"),
        (torch.zeros(32), {"dtype": "e5m2"}, "dtype must be e2m1 or e4m3, not e5m2"),
        (
            torch.zeros(32),
            {"block_size": 32, "dtype": "e4m3", "global_scale": torch.ones(())},
            "global_scale belongs to e2m1",
        ),
        (torch.zeros(16), {"global_scale": torch.ones(2)}, "global_scale must be one Float"),
        (
            torch.zeros(16),
            {"global_scale": torch.ones((), dtype=torch.double)},
            "global_scale must be one Float",
        ),
    ],
)
def test_quantization_refuses(x: Tensor, options: dict[str, object], message: str) -> None:
    with pytest.raises(RuntimeError, match=f"nv_block_quantize: .*{message}"):
        block_quantize(x, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("global_scale", [None, 3.5])
@pytest.mark.parametrize("case", GROUPS)
def test_quantization_of_ragged_groups(case: str, global_scale: float | None) -> None:
    rows, starts, firsts = GROUPS[case]
    x = torch.randn(rows, 80, generator=generator(7)).to(DEVICE)
    factor = None if global_scale is None else torch.tensor(global_scale, device=DEVICE)
    quantized, storage = grouped_block_quantize(x, *offsets_of(starts, firsts), factor)
    values, scales = block_quantize(x, factor)
    assert bytes_of(quantized) == bytes_of(values) and storage.dtype == E4M3
    assert bytes_of(storage) == grouped_bytes(bytes_of(scales), rows, 5, starts, firsts)


def test_quantization_of_ragged_groups_refuses() -> None:
    op = "nv_grouped_block_quantize"
    offsets = offsets_of([0], [0])
    with pytest.raises(RuntimeError, match=f"{op}: input must be a matrix"):
        grouped_block_quantize(torch.zeros(2, 2, 16), *offsets)
    with pytest.raises(RuntimeError, match=f"{op}: block_size must be 16 for e2m1"):
        grouped_block_quantize(torch.zeros(2, 32), *offsets, block_size=32)
    with pytest.raises(RuntimeError, match=f"{op}: the last dimension of input must be a multiple"):
        grouped_block_quantize(torch.zeros(2, 24), *offsets)


# -------------------------------------------------------------------------------------- products


@pytest.mark.parametrize("dtype", [E4M3, E8M0])
def test_one_product_of_every_code_and_scale_is_exact(dtype: torch.dtype) -> None:
    """a @ identity: every e2m1 code with every finite scale comes out exactly, in float32."""
    value, count = (e4m3_value, 0x7F) if dtype == E4M3 else (e8m0_value, 0xF8)
    block = 16 if dtype == E4M3 else 32
    scales = torch.arange(count, dtype=torch.uint8).view(count, 1).view(dtype)
    codes = torch.arange(16, dtype=torch.uint8).repeat(count, block // 16)
    one = torch.zeros(block, block, dtype=torch.uint8).fill_diagonal_(2)
    ones = torch.full((block, 1), 0x38 if dtype == E4M3 else 127, dtype=torch.uint8).view(dtype)
    out = scaled_mm(
        packed(codes).to(DEVICE),
        packed(one).to(DEVICE).t(),
        swizzle_scales(scales.to(DEVICE)),
        swizzle_scales(ones.to(DEVICE)),
        out_dtype=torch.float32,
    )
    expected = [f32(e2m1_value(c % 16) * value(s)) for s in range(count) for c in range(block)]
    assert out.flatten().tolist() == expected


def test_one_product_of_every_e4m3_and_scale_is_exact() -> None:
    codes = torch.tensor([c for c in range(256) if c & 127 != 127] + [0, 0], dtype=torch.uint8)
    count = 247
    scales = torch.arange(count, dtype=torch.uint8).view(count, 1).repeat(1, 8).view(E8M0)
    one = torch.zeros(256, 256).fill_diagonal_(1).to(E4M3)
    ones = torch.full((256, 8), 127, dtype=torch.uint8).view(E8M0)
    out = scaled_mm(
        codes.view(E4M3).repeat(count, 1).to(DEVICE),
        one.to(DEVICE).t(),
        swizzle_scales(scales.to(DEVICE)),
        swizzle_scales(ones.to(DEVICE)),
        out_dtype=torch.float32,
    )
    numbers = [e4m3_value(c) for c in codes.tolist()]
    assert out.flatten().tolist() == [f32(x * e8m0_value(s)) for s in range(count) for x in numbers]


SIZES = [(5, 48, 64), (130, 16, 96), (1, 33, 32), (256, 128, 128), (0, 16, 32), (7, 9, 0)]


@pytest.mark.parametrize("kind", ["nvfp4", "mxfp4", "mxfp8"])
@pytest.mark.parametrize("m,n,k", SIZES)
def test_block_scaled_product(kind: str, m: int, n: int, k: int) -> None:
    block, scale_dtype = (16, E4M3) if kind == "nvfp4" else (32, E8M0)
    make = random_fp8 if kind == "mxfp8" else random_fp4
    a, b = make((m, k), 8), make((n, k), 9)
    scale_a = random_scales((m, k // block), 10, scale_dtype)
    scale_b = random_scales((n, k // block), 11, scale_dtype)
    expected = decoded(a, scale_a) @ decoded(b, scale_b).t()
    operands = (a.to(DEVICE), b.to(DEVICE).t())
    storages = [swizzle_scales(scale.to(DEVICE)) for scale in (scale_a, scale_b)]
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        scale = 2.0**-8 if dtype == torch.float16 else 1.0
        out = scaled_mm(*operands, *storages, alpha=scale, out_dtype=dtype)
        assert out.shape == (m, n)
        assert_near(out, expected * scale, dtype)
    # Scales as flat storage, and as a transposed view of it, are the same memory.
    for other in (lambda s: s.flatten(), lambda s: s.t()):
        again = scaled_mm(*operands, *map(other, storages), out_dtype=torch.float32)
        assert torch.equal(again, scaled_mm(*operands, *storages, out_dtype=torch.float32))


def as_result(storage: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Swizzled scales as a fusion returns them: the logical shape, in rows of whole fours."""
    width = rounded(shape[-1], 4)
    strides = (shape[-2] * width, width, 1)[-len(shape) :]
    return storage.flatten().as_strided(shape, strides)


@pytest.mark.parametrize("m,n,k", [(130, 5, 80), (128, 128, 64), (3, 200, 128)])
def test_scales_of_the_logical_shape_before_the_rest_of_their_storage(
    m: int, n: int, k: int
) -> None:
    a, b = random_fp4((m, k), 36).to(DEVICE), random_fp4((n, k), 37).to(DEVICE)
    shapes = [(m, k // 16), (n, k // 16)]
    storages = [swizzle_scales(random_scales(each, 38, E4M3).to(DEVICE)) for each in shapes]
    views = [as_result(each, shape) for each, shape in zip(storages, shapes, strict=True)]
    out = scaled_mm(a, b.t(), *views, out_dtype=torch.float32)
    assert torch.equal(out, scaled_mm(a, b.t(), *storages, out_dtype=torch.float32))
    # Scales that were not swizzled have no padding after them.
    if storages[0].numel() > m * k // 16:
        linear = random_scales(shapes[0], 38, E4M3).to(DEVICE)
        with pytest.raises(RuntimeError, match="scale1 must hold"):
            scaled_mm(a, b.t(), linear, storages[1])


def test_grouped_scales_of_the_logical_shape() -> None:
    arguments, expected = nvfp4_groups([3, 130, 7], 24, 48)
    arguments[2] = as_result(arguments[2], (140, 3))
    arguments[3] = as_result(arguments[3], (3, 24, 3))
    assert_near(nvfp4_grouped_mm(*arguments, out_dtype=torch.float32), expected, torch.float32)


def test_padding_of_scales_is_not_read() -> None:
    """The bytes after the last row and column may be NaN."""
    a, b = random_fp4((3, 16), 12).to(DEVICE), random_fp4((5, 16), 13).to(DEVICE)
    scales = [random_scales((rows, 1), 14, E4M3).to(DEVICE) for rows in (3, 5)]
    clean = [swizzle_scales(scale) for scale in scales]
    dirty = []
    for storage, rows in zip(clean, (3, 5), strict=True):
        bytes_ = torch.full_like(storage.view(torch.uint8), 0x7F).flatten()
        kept = torch.tensor([place(r, 0, 1) for r in range(rows)], device=DEVICE)
        bytes_[kept] = storage.view(torch.uint8).flatten()[kept]
        dirty.append(bytes_.view(E4M3))
    out = scaled_mm(a, b.t(), *dirty, out_dtype=torch.float32)
    assert torch.equal(out, scaled_mm(a, b.t(), *clean, out_dtype=torch.float32))


def test_quantized_operands_multiply_to_what_they_approximate() -> None:
    """A whole NVFP4 and MXFP8 linear: quantize, multiply, undo the global scales with alpha."""
    a = torch.randn(64, 256, generator=generator(15)).to(DEVICE)
    b = torch.randn(48, 256, generator=generator(16)).to(DEVICE)
    exact = (a.double() @ b.double().t()).cpu()
    largest = [448 * 6 / x.abs().max() for x in (a, b)]
    (qa, sa), (qb, sb) = (
        block_quantize(x, scale.float(), swizzle=True)
        for x, scale in zip((a, b), largest, strict=True)
    )
    out = scaled_mm(qa, qb.t(), sa, sb, alpha=1 / (largest[0] * largest[1]))
    assert (out.double().cpu() - exact).norm() < 0.16 * exact.norm()
    (qa, sa), (qb, sb) = (
        block_quantize(x, block_size=32, dtype="e4m3", swizzle=True) for x in (a, b)
    )
    out = scaled_mm(qa, qb.t(), sa, sb)
    assert (out.double().cpu() - exact).norm() < 0.05 * exact.norm()


@pytest.mark.parametrize("dtypes", [(E4M3, E4M3), (E4M3, E5M2), (E5M2, E4M3)])
@pytest.mark.parametrize("scales", ["tensor", "zero_dim", "rows"])
def test_float8_product_equals_torch(scales: str, dtypes: tuple[torch.dtype, torch.dtype]) -> None:
    m, n, k = 32, 48, 64
    a, b = (
        random_fp8((m, k), 17, dtypes[0]).to(DEVICE),
        random_fp8((n, k), 18, dtypes[1]).to(DEVICE),
    )
    shapes = {"tensor": ((1,), (1,)), "zero_dim": ((), ()), "rows": ((m, 1), (1, n))}[scales]
    factors = [torch.rand(shape, generator=generator(19)).to(DEVICE) + 0.5 for shape in shapes]
    out = scaled_mm(a, b.t(), *factors)
    wide = [factor.double().cpu() for factor in factors]
    expected = decoded(a) @ decoded(b).t() * wide[0] * wide[1]
    try:
        theirs = torch._scaled_mm(a, b.t(), *factors, out_dtype=torch.bfloat16).double().cpu()
    except RuntimeError as error:
        # torch 2.11 scales rows on GPUs alone.
        if DEVICE.type != "cpu" or "only supports per-tensor scaling" not in str(error):
            raise
        theirs = expected
    # Tensor cores keep some 14 bits of a sum of products of float8.
    largest = (decoded(a).abs() @ decoded(b).abs().t() * wide[0] * wide[1]).max().item()
    slack = 2.0**-12 * largest if DEVICE.type == "cuda" else 1e-6
    torch.testing.assert_close(out.double().cpu(), theirs, rtol=2.0**-7, atol=slack)
    assert_near(scaled_mm(a, b.t(), *factors, out_dtype=torch.float32), expected, torch.float32)


def test_alpha_bias_and_beta() -> None:
    a, b = random_fp8((6, 32), 20).to(DEVICE), random_fp8((5, 32), 21).to(DEVICE)
    one = torch.ones((), device=DEVICE)
    product = (decoded(a) @ decoded(b).t()).to(DEVICE)
    for bias in (torch.randn(5, device=DEVICE), torch.randn(6, 5, device=DEVICE).bfloat16()):
        wide = bias.double()
        for alpha, beta in itertools.product((None, 0.75), (None, -2.5)):
            want = product * (1 if alpha is None else alpha) + wide * (1 if beta is None else beta)
            for wrap in (lambda x: x, lambda x: None if x is None else one * x):
                factors = {"alpha": wrap(alpha), "beta": wrap(beta)}
                out = scaled_mm(a, b.t(), one, one, bias=bias, out_dtype=torch.float32, **factors)
                assert_near(out, want.cpu(), torch.float32)


def test_scaled_mm_refuses() -> None:
    a, b, one = random_fp8((6, 32), 22), random_fp8((5, 32), 23).t(), torch.ones(())
    f4, g4 = random_fp4((6, 32), 24), random_fp4((5, 32), 25).t()
    blocks = swizzle_scales(random_scales((6, 1), 26, E8M0))
    cases = [
        (lambda: scaled_mm(a[0], b, one, one), "mat1 and mat2 must be matrices"),
        (lambda: scaled_mm(a.float(), b, one, one), "mat1 must be Float8"),
        (lambda: scaled_mm(a, g4, one, one), "mat1 and mat2 must agree"),
        (lambda: scaled_mm(a, b[:16], one, one), r"mat1 \[6, 32\] and mat2 \[16, 5\] differ in k"),
        (lambda: scaled_mm(a, b, torch.ones(5, 1), one), r"scale1 must be one Float.*\[6, 1\]"),
        (lambda: scaled_mm(a, b, one, torch.ones(5)), r"scale2 must be one Float.*\[1, 5\]"),
        (lambda: scaled_mm(a, b, one.double(), one), "scale1 must be one Float"),
        (lambda: scaled_mm(a, b, one, one, beta=2.0), "beta needs bias"),
        (lambda: scaled_mm(a, b, one, one, alpha=torch.ones(2)), "alpha must be one value"),
        (lambda: scaled_mm(a, b, one, one, bias=torch.ones(7)), r"bias \[7\] does not broadcast"),
        (lambda: scaled_mm(a, b, one, one, bias=torch.ones(2, 6, 5)), "does not broadcast"),
        (lambda: scaled_mm(a, b, blocks, one), "scale1 and scale2 must have one dtype"),
        (lambda: scaled_mm(a, b, blocks.view(E4M3), blocks.view(E4M3)), "scales of Float8_e4m3fn"),
        (lambda: scaled_mm(a, b, blocks.flatten()[:6], blocks), "scale1 must hold 6 x 1 scales"),
        (lambda: scaled_mm(a, b, blocks, blocks[:64]), "scale2 must hold 5 x 1 scales"),
        (
            lambda: scaled_mm(f4[:, :10], g4[:10], blocks.view(E4M3), blocks.view(E4M3)),
            "k must be a multiple of the block size 16, but is 20",
        ),
    ]
    for call, message in cases:
        with pytest.raises(RuntimeError, match=f"scaled_mm: .*{message}"):
            call()


# ------------------------------------------------------------------------------- grouped products

ENDS = {"ragged": [3, 10, 16], "empty": [0, 5, 5, 16], "short": [4, 9], "one": [16], "none": [0]}


def grouped_operands(
    form: str, ends: Sequence[int]
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """a, b, scales and the expected float64 result of one form."""
    g, divided, m, n, k = len(ends), 16, 6, 5, 32
    shape_a, shape_b = {
        "rows": ((divided, k), (g, n, k)),
        "columns": ((g, m, k), (divided, k)),
        "k": ((m, divided), (n, divided)),
    }[form]
    a, b = random_fp8(shape_a, 27), random_fp8(shape_b, 28, E5M2)
    many_a = (g, *shape_a[-2:-1], 1) if form == "k" else (*shape_a[:-1], 1)
    many_b = (g, 1, n) if form == "k" else (*shape_b[:-2], 1, shape_b[-2])
    scale_a = torch.rand(many_a, generator=generator(29)) + 0.5
    scale_b = torch.rand(many_b, generator=generator(30)) + 0.5
    wide_a, wide_b = decoded(a), decoded(b).transpose(-1, -2)
    shape = {"rows": (divided, n), "columns": (m, divided), "k": (g, m, n)}[form]
    expected = torch.zeros(shape, dtype=torch.double)
    for i, (start, end) in enumerate(zip([0, *ends[:-1]], ends, strict=True)):
        part = slice(start, end)
        if form == "rows":
            expected[part] = wide_a[part] @ wide_b[i] * scale_a[part] * scale_b[i]
        elif form == "columns":
            expected[:, part] = wide_a[i] @ wide_b[:, part] * scale_a[i] * scale_b[:, part]
        else:
            expected[i] = wide_a[:, part] @ wide_b[part] * scale_a[i] * scale_b[i]
    return a, b.transpose(-1, -2), scale_a, scale_b, expected


@pytest.mark.parametrize("ends", ENDS)
@pytest.mark.parametrize("form", ["rows", "columns", "k"])
def test_grouped_product(form: str, ends: str) -> None:
    a, b, scale_a, scale_b, expected = grouped_operands(form, ENDS[ends])
    operands = [x.to(DEVICE) for x in (a, b)]
    scales = [x.to(DEVICE) for x in (scale_a, scale_b)]
    (offsets,) = offsets_of(ENDS[ends])
    for dtype in (torch.float32, torch.bfloat16):
        out = scaled_grouped_mm(*operands, offsets, *scales, out_dtype=dtype)
        assert out.shape == expected.shape
        assert_near(out, expected, dtype)
    bias = torch.randn(expected.shape[-1], device=DEVICE)
    out = scaled_grouped_mm(
        *operands, offsets, *scales, alpha=0.5, bias=bias, beta=3.0, out_dtype=torch.float32
    )
    assert_near(out, 0.5 * expected + 3 * bias.double().cpu(), torch.float32)


def test_grouped_product_refuses() -> None:
    a, b, scale_a, scale_b, _ = grouped_operands("rows", [3, 16])

    def call(*ends: int, **other: Tensor) -> Tensor:
        args = {"a": a, "b": b, "scale_a": scale_a, "scale_b": scale_b, **other}
        offsets = torch.tensor(ends, dtype=torch.int32)
        return scaled_grouped_mm(
            args["a"], args["b"], offsets, args["scale_a"], args["scale_b"], alpha=None
        )

    cases = [
        (lambda: call(10, 3), r"offsets must ascend from 0 to at most 16, but are \[10, 3\]"),
        (lambda: call(3, 17), "offsets must ascend"),
        (lambda: call(-1, 3), "offsets must ascend"),
        (lambda: call(3), "mat2 has 2 matrices for 1 groups"),
        (lambda: call(3, 16, a=a[0]), "mat1 and mat2 must have 2 or 3 dimensions"),
        (lambda: call(3, 16, a=a.view(2, 8, 32)), "must be a matrix and a batch"),
        (lambda: call(3, 16, a=a.float()), "mat1 must be Float8"),
        (lambda: call(3, 16, scale_a=scale_a[:3]), r"scale1 must be Float of shape \[16, 1\]"),
        (lambda: call(3, 16, scale_b=scale_b[0]), r"scale2 must be Float of shape \[2, 1, 5\]"),
        (lambda: call(3, 16, scale_a=scale_a.double()), "scale1 must be Float of shape"),
    ]
    for refused, message in cases:
        with pytest.raises(RuntimeError, match=f"grouped_mm: .*{message}"):
            refused()
    with pytest.raises(RuntimeError, match="grouped_mm: offsets must be a vector of Int32"):
        scaled_grouped_mm(a, b, torch.tensor([3.0, 16.0]), scale_a, scale_b)


def nvfp4_groups(sizes: Sequence[int], n: int, k: int) -> tuple[list[Tensor], Tensor]:
    """Arguments of nvfp4_grouped_mm on the device, and the expected float64 result."""
    m, g = sum(sizes), len(sizes)
    starts = [sum(sizes[:i]) for i in range(g)]
    firsts = [sum(rounded(each, 128) for each in sizes[:i]) for i in range(g)]
    a, b = random_fp4((m, k), 31), random_fp4((g, n, k), 32)
    scale_a = random_scales((m, k // 16), 33, E4M3)
    scale_b = random_scales((g, n, k // 16), 34, E4M3)
    alpha = torch.rand(g, generator=generator(35)) + 0.5
    wide_a, wide_b = decoded(a, scale_a), decoded(b, scale_b).transpose(-1, -2)
    rows = [
        wide_a[start : start + size] @ wide_b[i] * alpha[i].double()
        for i, (start, size) in enumerate(zip(starts, sizes, strict=True))
    ]
    input_offsets, sf_offsets = offsets_of(starts, firsts)
    arguments = [
        a.to(DEVICE),
        b.to(DEVICE).transpose(-1, -2),
        preprocess_grouped_scales(scale_a.to(DEVICE), input_offsets, sf_offsets),
        torch.stack([swizzle_scales(each).view(torch.uint8) for each in scale_b])
        .view(E4M3)
        .to(DEVICE),
        alpha.to(DEVICE),
        torch.tensor([[size, n, k] for size in sizes], dtype=torch.int32, device=DEVICE),
        input_offsets,
        sf_offsets,
    ]
    return arguments, torch.cat(rows)


@pytest.mark.parametrize(
    "sizes,n,k",
    [([3, 130, 7], 24, 64), ([0, 5, 0], 128, 128), ([1], 5, 48), ([128, 128], 130, 80)],
)
def test_nvfp4_product_of_ragged_groups(sizes: list[int], n: int, k: int) -> None:
    arguments, expected = nvfp4_groups(sizes, n, k)
    for dtype in (torch.float32, torch.bfloat16):
        out = nvfp4_grouped_mm(*arguments, out_dtype=dtype)
        assert out.shape == expected.shape
        assert_near(out, expected, dtype)


def test_nvfp4_product_of_ragged_groups_refuses() -> None:
    arguments, _ = nvfp4_groups([3, 4], 24, 64)
    names = ["a", "b", "scale_a", "scale_b", "alpha", "sizes", "starts", "firsts"]
    good = dict(zip(names, arguments, strict=True))
    cases = [
        ({"a": good["a"].view(torch.uint8)}, "mat1 and mat2 must be Float4_e2m1fn_x2"),
        ({"b": good["b"][0]}, "mat1 and mat2 must be Float4_e2m1fn_x2"),
        ({"a": good["a"][:, :16]}, "differ in k"),
        ({"alpha": good["alpha"][:1]}, "alpha must have 2 entries"),
        ({"starts": good["starts"][:1]}, "expert_offsets must have 2 entries"),
        ({"sizes": good["sizes"][:, :2]}, r"problem_sizes must be \[2, 3\]"),
        ({"sizes": good["sizes"] + 1}, "group 0 of size .* does not fit m = 7, n = 24, k = 64"),
        ({"starts": good["starts"] + 5}, "group 0 of size .* at row 5 does not fit"),
        ({"firsts": good["firsts"] + 256}, r"sf_offsets\[0\] = 256: scale1 .* ends before"),
        ({"firsts": good["firsts"] - 128}, r"sf_offsets\[0\] = -128: scale1"),
        ({"scale_b": good["scale_b"][:1]}, "scale2 must hold 24 x 4 scales .* each of 2 groups"),
        ({"scale_a": good["scale_a"].view(E8M0)}, "scale1 must be Float8_e4m3fn"),
    ]
    for changed, message in cases:
        with pytest.raises(RuntimeError, match=f"cutlass_nvfp4_grouped_mm: .*{message}"):
            nvfp4_grouped_mm(*{**good, **changed}.values())
