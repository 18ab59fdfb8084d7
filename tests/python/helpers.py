# SPDX-License-Identifier: BSD-3-Clause
"""What the Python tests share: dtypes, tensors of every layout class, comparison, type rules.

Nothing here calls the compiler except `define` and `run`; the type rules are a second writing of
the contract, not a copy of the compiler's.
"""

from __future__ import annotations

import functools
import os
import subprocess
import textwrap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import pytest
import torch
from nvfuse_direct import DataType, FusionDefinition
from processes import run_script

DEVICE = torch.device(os.environ.get("NVFUSER_TEST_DEVICE", "cpu"))
if DEVICE.type == "cuda" and DEVICE.index is None:
    DEVICE = torch.device("cuda", 0)
ON_CUDA = DEVICE.type == "cuda"
LONG = bool(os.environ.get("NVFUSER_TEST_LONG"))

needs_cuda = pytest.mark.skipif(not ON_CUDA, reason="needs a CUDA device")

TORCH: dict[str, torch.dtype] = {
    "Double": torch.double,
    "Float": torch.float,
    "Half": torch.half,
    "BFloat16": torch.bfloat16,
    "Int": torch.int64,
    "Int32": torch.int32,
    "UInt64": torch.uint64,
    "Bool": torch.bool,
    "ComplexFloat": torch.complex64,
    "ComplexDouble": torch.complex128,
    "Float8_e4m3fn": torch.float8_e4m3fn,
    "Float8_e5m2": torch.float8_e5m2,
    "Float8_e8m0fnu": torch.float8_e8m0fnu,
}

FULL_FLOATS = ("Double", "Float")
LOW_FLOATS = ("Half", "BFloat16")
FLOATS = FULL_FLOATS + LOW_FLOATS
FP8 = ("Float8_e4m3fn", "Float8_e5m2")
INTS = ("Int", "Int32")
COMPLEX = ("ComplexDouble", "ComplexFloat")
TINY_FLOATS = (*FP8, "Float8_e8m0fnu", "Float4_e2m1fn")

# Units in the last place of 1.0, the scale of a rounding error.
EPSILON = {
    torch.double: 2.0**-52,
    torch.float: 2.0**-23,
    torch.half: 2.0**-10,
    torch.bfloat16: 2.0**-7,
    torch.complex64: 2.0**-23,
    torch.complex128: 2.0**-52,
    torch.float8_e4m3fn: 2.0**-3,
    torch.float8_e5m2: 2.0**-2,
}


def supported_on_device(name: str) -> bool:
    """The hardware floors of section 2.7; the host target has none."""
    if not ON_CUDA:
        return True
    major = torch.cuda.get_device_capability(DEVICE)[0]
    if name in ("Float8_e8m0fnu", "Float4_e2m1fn", "Float4_e2m1fn_x2"):
        return major >= 10
    if name in FP8:
        return major >= 9
    return True


def data_type(name: str) -> DataType:
    return getattr(DataType, name)


def name_of(dtype: torch.dtype) -> str:
    return next(name for name, each in TORCH.items() if each == dtype)


# ---------------------------------------------------------------------------------------- values


def special_values(dtype: torch.dtype) -> torch.Tensor:
    """Zeros of both signs, infinities, nan, denormals, limits of `dtype`."""
    if dtype.is_floating_point:
        info = torch.finfo(dtype)
        numbers = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 2.0, -3.0]
        numbers += [float("inf"), float("-inf"), float("nan")]
        numbers += [info.max, -info.max, info.tiny, -info.tiny]
        if hasattr(info, "smallest_normal"):
            numbers += [info.smallest_normal / 4, -info.smallest_normal / 4]
        return torch.tensor(numbers, dtype=torch.double).to(dtype)
    if dtype == torch.bool:
        return torch.tensor([False, True])
    if dtype.is_complex:
        return torch.tensor([0j, 1, -1, 1j, -1j, 0.5 + 2j], dtype=dtype)
    info = torch.iinfo(dtype)
    return torch.tensor([0, 1, -1, 2, -7, info.max, info.min], dtype=dtype)


def values(
    count: int, dtype: torch.dtype, seed: int = 0, low: float = -3.0, high: float = 3.0
) -> torch.Tensor:
    """`count` repeatable numbers of `dtype` between low and high, on the CPU."""
    generator = torch.Generator().manual_seed(seed)

    def uniform(kind: torch.dtype) -> torch.Tensor:
        return torch.rand(count, generator=generator, dtype=kind) * (high - low) + low

    if dtype == torch.bool:
        return torch.randint(0, 2, (count,), generator=generator).bool()
    if dtype == torch.uint64:
        bits = torch.randint(-(2**63), 2**63 - 1, (count,), generator=generator)
        return bits.view(torch.uint64)
    if dtype.is_complex:
        part = torch.float if dtype == torch.complex64 else torch.double
        return torch.complex(uniform(part), uniform(part))
    if dtype == torch.float8_e8m0fnu:
        return torch.exp2(torch.randint(-4, 5, (count,), generator=generator).float()).to(dtype)
    if dtype.is_floating_point:
        return uniform(torch.double if dtype == torch.double else torch.float).to(dtype)
    return torch.randint(int(low), int(high) + 1, (count,), generator=generator).to(dtype)


# --------------------------------------------------------------------------------------- layouts


@dataclass(frozen=True)
class Layout:
    """Sizes, strides and storage offset of a tensor."""

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0

    @property
    def storage_length(self) -> int:
        if 0 in self.sizes:
            return self.offset + 1
        reach = sum((size - 1) * step for size, step in zip(self.sizes, self.strides, strict=False))
        return self.offset + reach + 1

    def view(self, storage: torch.Tensor) -> torch.Tensor:
        return storage.as_strided(self.sizes, self.strides, self.offset)

    def fill(self, dtype: torch.dtype, seed: int = 0, **limits: float) -> torch.Tensor:
        storage = values(self.storage_length, dtype, seed, **limits)
        return self.view(storage.to(DEVICE))


def row_major(sizes: Sequence[int], offset: int = 0) -> Layout:
    strides: list[int] = []
    step = 1
    for size in reversed(sizes):
        strides.insert(0, step)
        step *= max(size, 1)
    return Layout(tuple(sizes), tuple(strides), offset)


# Rank 3 layouts that one symbolic, non-contiguous definition serves.
LAYOUTS: dict[str, Layout] = {
    "odd": row_major((3, 5, 7)),
    "even": row_major((4, 6, 32)),
    "one_sized": row_major((1, 7, 1)),
    "ones": row_major((1, 1, 1)),
    "empty": row_major((5, 0, 3)),
    "strided": Layout((3, 5, 7), (140, 14, 2)),
    "expanded": Layout((3, 5, 7), (7, 0, 1)),
    "expanded_all": Layout((3, 5, 7), (0, 0, 0)),
    "permuted": Layout((3, 5, 7), (5, 1, 15)),
    "offset": row_major((4, 6, 32), offset=1),
}


# ------------------------------------------------------------------------------------ type rules


def _is_low(name: str) -> bool:
    return name in LOW_FLOATS or name in TINY_FLOATS


def _is_float(name: str) -> bool:
    return name in FULL_FLOATS or _is_low(name)


def _is_integer(name: str) -> bool:
    return name in ("Int", "Int32", "UInt64", "Index")


class PromotionError(Exception):
    """The rules have no common dtype for the operands."""


def fold(a: str, b: str) -> str:
    """Pairwise fold of section 2.0.1."""
    if a == b:
        return a
    pair = {a, b}
    if "Index" in pair and all(map(_is_integer, pair)):
        return "Index"
    if pair & set(COMPLEX):
        wide = bool(pair & {"ComplexDouble", "Double"})
        if "UInt64" in pair:
            raise PromotionError(f"{a}, {b}")
        return "ComplexDouble" if wide else "ComplexFloat"
    if _is_float(a) and _is_float(b):
        return "Double" if "Double" in pair else "Float"
    if "UInt64" in pair:
        raise PromotionError(f"{a}, {b}")
    for name in (a, b):
        if _is_float(name):
            return name
    return "Int" if "Int" in pair else "Int32"


def combine(higher: str | None, lower: str | None) -> str | None:
    """Result of a group of operands with the group of next lower priority."""
    if higher is None or lower is None:
        return higher or lower
    if higher in COMPLEX:
        return higher
    if lower in COMPLEX:
        if not _is_float(higher):
            return lower
        return "ComplexDouble" if higher == "Double" else "ComplexFloat"
    if _is_float(higher):
        return higher
    if higher == "Bool" or _is_float(lower):
        return fold(higher, lower)
    return higher


@dataclass(frozen=True)
class Operand:
    """dtype of an operand and its priority: `tensor`, `zero_dim` or `scalar`."""

    dtype: str
    kind: str = "tensor"


def promote(operands: Iterable[Operand], type_class: str) -> str:
    """Common dtype of the operands for type class D, F, C (operand dtype) or W (`where`)."""
    operands = list(operands)
    names = [operand.dtype for operand in operands]
    if len(set(names)) == 1:
        common: str | None = names[0]
    else:
        groups: list[str | None] = []
        for kind in ("tensor", "zero_dim", "scalar"):
            members = [operand.dtype for operand in operands if operand.kind == kind]
            if kind == "scalar":
                members = ["Float" if _is_low(name) else name for name in members]
            groups.append(functools.reduce(fold, members) if members else None)
        common = combine(groups[0], combine(groups[1], groups[2]))
    assert common is not None
    if type_class == "W":
        return common
    if _is_low(common):
        common = "Float"
    if type_class == "F" and (_is_integer(common) or common == "Bool"):
        common = "Float"
    return common


# ------------------------------------------------------------------------------------ comparison


def widen(tensor: torch.Tensor) -> torch.Tensor:
    """The same values in the widest dtype of the category, on the CPU, for comparing."""
    tensor = tensor.detach().cpu()
    if tensor.dtype.is_complex:
        return tensor.to(torch.complex128)
    if tensor.dtype in (torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e8m0fnu):
        return tensor.float().double()
    if tensor.dtype.is_floating_point:
        return tensor.double()
    if tensor.dtype == torch.uint64:
        return tensor.contiguous().view(torch.int64)
    return tensor


def difference(
    actual: torch.Tensor,
    expected: torch.Tensor,
    rtol: float = 0.0,
    atol: float = 0.0,
    where: torch.Tensor | None = None,
    sign_of_zero: bool = False,
) -> str | None:
    """None if both are equal (dtype, shape, values; nan equals nan), else what differs."""
    if actual.dtype != expected.dtype:
        return f"dtype {actual.dtype}, expected {expected.dtype}"
    if actual.shape != expected.shape:
        return f"shape {tuple(actual.shape)}, expected {tuple(expected.shape)}"
    got, want = widen(actual), widen(expected)
    if want.is_floating_point() or want.is_complex():
        same = torch.isclose(got, want, rtol=rtol, atol=atol, equal_nan=True)
        if want.is_complex():
            same |= torch.isnan(got) & torch.isnan(want)
        elif sign_of_zero:
            same &= (torch.signbit(got) == torch.signbit(want)) | torch.isnan(want)
    else:
        same = got == want
    if where is not None:
        same = same | ~where.cpu().broadcast_to(same.shape)
    if bool(same.all()):
        return None
    wrong = (~same).nonzero()
    first = tuple(int(i) for i in wrong[0])
    return (
        f"{len(wrong)} of {same.numel()} elements differ, first at {first}: "
        f"{got[first].item()!r}, expected {want[first].item()!r}"
    )


def assert_same(
    actual: torch.Tensor,
    expected: torch.Tensor,
    rtol: float = 0.0,
    atol: float = 0.0,
    what: str = "output",
) -> None:
    message = difference(actual, expected, rtol, atol)
    assert message is None, f"{what}: {message}"


def assert_all_same(
    actual: Sequence[torch.Tensor],
    expected: Sequence[torch.Tensor],
    rtol: float = 0.0,
    atol: float = 0.0,
) -> None:
    assert len(actual) == len(expected)
    for index, (got, want) in enumerate(zip(actual, expected, strict=False)):
        assert_same(got, want, rtol, atol, what=f"output {index}")


# ---------------------------------------------------------------------------------------- running


def define(definition: Callable[[FusionDefinition], object]) -> FusionDefinition:
    with FusionDefinition() as fd:
        definition(fd)
    return fd


def run(
    definition: Callable[[FusionDefinition], object], inputs: Sequence[object] = ()
) -> list[torch.Tensor]:
    """Define, then execute on the test device."""
    return define(definition).execute(list(inputs), device=DEVICE)


def tensor(*sizes: int, dtype: torch.dtype = torch.float, seed: int = 0) -> torch.Tensor:
    """A contiguous tensor of repeatable values on the test device."""
    return row_major(sizes).fill(dtype, seed)


def on_device(x: torch.Tensor) -> torch.Tensor:
    """On the device of the tests; what was expanded is expanded there."""
    own = tuple(slice(0, 1) if stride == 0 else slice(None) for stride in x.stride())
    return x[own].to(DEVICE).expand(x.shape)


# Each test twice: on the machine of the run, and on the schedules of the host.
on_both_machines = pytest.mark.parametrize(
    "machine", ["usual", pytest.param("host", marks=pytest.mark.machine("host"))]
)


def run_python(
    source: str, env: dict[str, str] | None = None, timeout: float = 180
) -> subprocess.CompletedProcess[str]:
    """Run `source` in a process of its own, which can import this module."""
    return run_script(textwrap.dedent(source), env=env, timeout=timeout)
