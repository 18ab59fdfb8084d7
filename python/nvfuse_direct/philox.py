# SPDX-License-Identifier: BSD-3-Clause
"""Random numbers as the kernels make them (csrc/device/common/random.h), with torch's integers."""

from __future__ import annotations

import math

import torch

_WORD = 0xFFFFFFFF


def _multiply(x: torch.Tensor, factor: int) -> tuple[torch.Tensor, torch.Tensor]:
    """High and low word of a product of two words; wrapping does not change its 64 bits."""
    product = x * factor
    return (product >> 32) & _WORD, product & _WORD


def philox(seed: int, subsequence: torch.Tensor, offset: int) -> list[torch.Tensor]:
    """The four words of Philox 4x32-10 for each subsequence (int64 holding 32 bits)."""
    x = torch.full_like(subsequence, offset & _WORD)
    y = torch.full_like(subsequence, (offset >> 32) & _WORD)
    z, w = subsequence & _WORD, (subsequence >> 32) & _WORD
    key0, key1 = seed & _WORD, (seed >> 32) & _WORD
    for _ in range(10):
        high_a, low_a = _multiply(x, 0xD2511F53)
        high_b, low_b = _multiply(z, 0xCD9E8D57)
        x, y, z, w = high_b ^ y ^ key0, low_b, high_a ^ w ^ key1, low_a
        key0, key1 = (key0 + 0x9E3779B9) & _WORD, (key1 + 0xBB67AE85) & _WORD
    return [x, y, z, w]


def _closed_float(x: torch.Tensor) -> torch.Tensor:
    """(0, 1] in float32."""
    return x.float() * 2.3283064365386963e-10 + 1.1641532182693481e-10


def _closed_double(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """(0, 1] in float64, from 53 bits of two words."""
    return (x ^ (y << 21)).double() * 2.0**-53 + 2.0**-54


def _interleave(parts: list[torch.Tensor], count: int) -> torch.Tensor:
    return torch.stack(parts, dim=-1).flatten()[:count]


def _uniform(words: list[torch.Tensor], count: int, double: bool) -> torch.Tensor:
    x, y, z, w = words
    parts = (
        [_closed_double(x, y), _closed_double(z, w)]
        if double
        else [_closed_float(word) for word in words]
    )
    u = _interleave(parts, count)
    return torch.where(u == 1.0, 0.0, u)


def _normal(words: list[torch.Tensor], count: int, double: bool) -> torch.Tensor:
    x, y, z, w = words
    if double:
        radius = torch.sqrt(-2.0 * torch.log(_closed_double(x, y)))
        angle = 2.0 * math.pi * _closed_double(z, w)
        return _interleave([radius * angle.sin(), radius * angle.cos()], count)
    parts = []
    for first, second in ((x, y), (z, w)):
        radius = torch.sqrt(-2.0 * torch.log(_closed_float(first)))
        angle = 2.0 * math.pi * _closed_float(second).double()
        parts += [radius * angle.sin().float(), radius * angle.cos().float()]
    return _interleave(parts, count)


def _below(value: torch.Tensor, high: float, low: float, dtype: torch.dtype) -> torch.Tensor:
    """In the type of the result; what rounding took to `high` is put back into the interval."""
    rounded = value.to(dtype)
    if dtype.itemsize >= 4:
        return torch.where(value >= high, torch.tensor(low, dtype=dtype), rounded)
    bits = rounded.view(torch.int16)
    down = (bits - torch.sign(rounded).to(torch.int16)).view(dtype)
    return torch.where(rounded.float() >= high, down, rounded)


def random_tensor(
    kind: str,
    shape: list[int],
    a: float,
    b: float,
    dtype: torch.dtype,
    seed: int,
    offset: int,
    device: torch.device,
) -> torch.Tensor:
    """kind "uniform": in [a, b); "normal": of mean a and standard deviation b."""
    count = math.prod(shape)
    double = dtype == torch.float64
    blocks = -(-count // (2 if double else 4))
    words = philox(seed, torch.arange(blocks, device=device), offset)
    if kind == "normal":
        return (_normal(words, count, double) * b + a).to(dtype).reshape(shape)
    u = _uniform(words, count, double)
    return _below(u * (b - a) + a, b, a, dtype).reshape(shape)
