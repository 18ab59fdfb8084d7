"""Compares the elementwise functions of the device library's host half with torch on the CPU.

All pieces of the library and a loop for each function and type are compiled into one shared object. It
needs a C++ compiler and torch, nothing else of the project.
"""

import ctypes
import itertools
import os
import pathlib
import re
import shutil
import subprocess

import pytest
import torch

DEVICE = pathlib.Path(__file__).parents[2] / "csrc" / "device"
COMPILER = os.environ.get("CXX") or shutil.which("g++") or shutil.which("clang++")

pytestmark = pytest.mark.skipif(COMPILER is None, reason="needs a C++ compiler")

CPP = {
    torch.float32: "float",
    torch.float64: "double",
    torch.int32: "int",
    torch.int64: "int64_t",
    torch.uint64: "uint64_t",
    torch.bool: "bool",
    torch.float16: "__half",
    torch.bfloat16: "__bfloat",
    torch.float8_e4m3fn: "__e4m3",
    torch.float8_e5m2: "__e5m2",
    torch.float8_e8m0fnu: "__e8m0",
    torch.complex64: "nvf::complex<float>",
    torch.complex128: "nvf::complex<double>",
}
FLOATS = (torch.float32, torch.float64)
HALVES = (torch.float16, torch.bfloat16)
INTS = (torch.int32, torch.int64)
COMPLEX = (torch.complex64, torch.complex128)
BOOL = (torch.bool,)


def library_text() -> str:
    """Every piece of the host target, in the order of embed.cmake."""
    order = re.findall(r"^    ((?:common|host)/\w+\.h)", (DEVICE / "embed.cmake").read_text(), re.M)
    parts = ["using nvfuser_index_t = int;\n"]
    for name in order:
        lines = (DEVICE / name).read_text().splitlines()
        skipped = ("#pragma", "#include")
        parts.extend(x for x in lines if not x.startswith(skipped) or x == "#pragma GCC ivdep")
    return "\n".join(parts)


class Case:
    """One function of the library for one combination of operand types."""

    def __init__(self, name, operands, result, reference, ulps=0, expression=None, values=None):
        self.name, self.operands, self.result = name, operands, result
        self.reference, self.ulps, self.values = reference, ulps, values
        arguments = ", ".join("abc"[i] + "[i]" for i in range(len(operands)))
        self.expression = expression or f"nvf::{name}({arguments})"
        types = [str(t).removeprefix("torch.") for t in (*operands, result)]
        self.id = "_".join([re.sub(r"\W+", "_", name), *types])

    def source(self) -> str:
        parameters = "".join(f"const {CPP[t]}* {n}, " for t, n in zip(self.operands, "abc"))
        return (
            f'extern "C" void {self.id}({parameters}{CPP[self.result]}* out, long n) {{\n'
            f"  for (long i = 0; i < n; ++i) out[i] = {self.expression};\n}}\n"
        )


CASES: list[Case] = []


def unary(name, types, *, reference=None, result=None, ulps=0, values=None):
    reference = reference or getattr(torch, name)
    for t in types:
        out = result(t) if callable(result) else result or t
        CASES.append(Case(name, (t,), out, reference, ulps, values=values))


def binary(name, types, *, reference=None, result=None, ulps=0, values=None):
    reference = reference or getattr(torch, name)
    for t in types:
        CASES.append(Case(name, (t, t), result or t, reference, ulps, values=values))


def real_of(t):
    return {torch.complex64: torch.float32, torch.complex128: torch.float64}.get(t, t)


unary("abs", FLOATS + HALVES + INTS)
unary("abs", COMPLEX, result=real_of, ulps=2)
for op in ("ceil", "floor", "trunc", "round", "frac"):
    unary(op, FLOATS + HALVES)
for op in ("acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "sin", "sinh", "tan",
           "tanh", "exp", "exp2", "expm1", "log", "log10", "log1p", "log2", "sigmoid"):  # fmt: skip
    unary(op, FLOATS, ulps=4)
    unary(op, COMPLEX, ulps=16)
for op in ("sqrt", "rsqrt", "reciprocal", "neg"):
    unary(op, FLOATS, ulps=2)
    unary(op, COMPLEX, ulps=16)
unary("neg", INTS)
unary("erf", FLOATS, ulps=4)
unary("erfc", FLOATS, ulps=8)
unary("erfinv", FLOATS, ulps=8)
# erfc(y) = 2 ndtr(-sqrt(2) y)
unary("erfcinv", FLOATS, ulps=8,
      reference=lambda x: (-torch.special.ndtri(x.double() / 2) * 0.5**0.5).to(x.dtype))  # fmt: skip
unary("lgamma", FLOATS, ulps=16)
unary("logical_not", FLOATS + HALVES + INTS + BOOL + COMPLEX, result=torch.bool)
unary("bitwise_not", INTS + BOOL)
unary("relu", FLOATS + HALVES + INTS)
unary("sign", FLOATS + HALVES + INTS)
unary("signbit", FLOATS + HALVES + INTS, result=torch.bool)
unary("silu", FLOATS, reference=torch.nn.functional.silu, ulps=8)
unary("silu", HALVES, reference=torch.nn.functional.silu, ulps=1)
for op in ("isfinite", "isinf", "isnan", "isreal"):
    unary(op, FLOATS + HALVES + INTS + COMPLEX, result=torch.bool)
for op in ("isneginf", "isposinf"):
    unary(op, FLOATS + HALVES + INTS, result=torch.bool)
unary("real", FLOATS + COMPLEX, result=real_of)
unary("imag", COMPLEX, result=real_of)

NUMBERS = FLOATS + INTS + COMPLEX
for op in ("add", "sub", "mul"):
    binary(op, FLOATS + INTS)
binary("mul", COMPLEX, ulps=4)
binary("add", COMPLEX)
binary("div", FLOATS)
binary("div", COMPLEX, ulps=16)
binary("truediv", FLOATS, reference=torch.true_divide)
NONZERO = lambda a, b: b != 0  # noqa: E731  (torch raises)
NO_TRAP = lambda a, b: (b != 0) & (b != -1)  # noqa: E731  (torch crashes on min / -1)
binary("div", INTS, reference=lambda a, b: torch.div(a, b, rounding_mode="trunc"), values=NO_TRAP)
MODERATE = lambda a, b: ~((a / b).abs() > 1e30)  # noqa: E731  (torch's vectorized fmod gives NaN)
binary("fmod", FLOATS, values=MODERATE)
binary("fmod", INTS, values=NO_TRAP)
binary("remainder", FLOATS, values=MODERATE)
binary("remainder", INTS, values=NO_TRAP)
binary("pow", FLOATS, ulps=4)
binary("pow", INTS, values=lambda a, b: b >= 0)
binary("pow", COMPLEX, ulps=256)
for op in ("minimum", "maximum"):
    binary(op, FLOATS + INTS)
binary("atan2", FLOATS, ulps=4)
binary("nextafter", FLOATS)
binary("gcd", INTS, values=lambda a, b: (a > -(2**30)) & (b > -(2**30)))
for op in ("eq", "ne"):
    binary(op, NUMBERS + BOOL, result=torch.bool)
for op in ("ge", "gt", "le", "lt"):
    binary(op, FLOATS + INTS, result=torch.bool)
for op in ("logical_and", "logical_or"):
    binary(op, NUMBERS + BOOL, result=torch.bool)
for op in ("bitwise_and", "bitwise_or", "bitwise_xor"):
    binary(op, INTS + BOOL)
for op in ("bitwise_left_shift", "bitwise_right_shift"):
    binary(op, INTS)


def logical_right_shift(a, b):
    width = 8 * a.element_size()
    mask = (1 << width) - 1
    return torch.tensor(
        [
            ((x & mask) >> y if 0 <= y < width else 0)
            - ((1 << width) if y == 0 and x < 0 else 0)
            for x, y in zip(a.tolist(), b.tolist())
        ],
        dtype=a.dtype,
    )


binary("logical_right_shift", INTS, reference=logical_right_shift)

for t in FLOATS + HALVES + INTS:
    CASES.append(Case("where", (torch.bool, t, t), t, torch.where))
    CASES.append(
        Case("clamp", (t,), t, lambda x: torch.clamp(x, -2, 3), expression="nvf::clamp(a[i], -2, 3)")
    )
    CASES.append(
        Case("threshold", (t,), t, lambda x: torch.nn.functional.threshold(x, 1, 7),
             expression="nvf::threshold(a[i], 1, 7)")  # fmt: skip
    )
for t in FLOATS:
    CASES.append(Case("clamp_bounds", (t, t, t), t, torch.clamp, expression="nvf::clamp(a[i], b[i], c[i])"))
    CASES.append(Case("lerp", (t, t, t), t, torch.lerp, ulps=2))
    CASES.append(
        Case("addcmul", (t, t, t), t, lambda a, b, c: torch.addcmul(a, b, c, value=0.5), ulps=2,
             expression="nvf::addcmul(a[i], b[i], c[i], 0.5)")  # fmt: skip
    )

def torch_cast(x, target):
    if target == torch.float8_e4m3fn:
        x = x.clamp(-448, 448)  # torch saturates since 2.13; before it made NaN
    return x.to(target)


CASTABLE = (
    torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.uint64,
    torch.bool, torch.complex64, torch.complex128,
)  # fmt: skip
SMALL = (torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e8m0fnu)
for source, target in [
    *itertools.permutations(CASTABLE, 2),
    *itertools.product(SMALL, FLOATS + HALVES),
    *itertools.product(FLOATS + HALVES, SMALL),
]:
    CASES.append(
        Case("cast", (source,), target, lambda x, t=target: torch_cast(x, t),
             expression=f"nvf::cast<{CPP[target]}>(a[i])")  # fmt: skip
    )


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    folder = tmp_path_factory.mktemp("device_library")
    source = folder / "functions.cpp"
    source.write_text(library_text() + "\n" + "".join(c.source() for c in CASES))
    target = folder / "functions.so"
    command = [
        COMPILER, "-std=c++17", "-O1", "-Wall", "-Wno-unknown-pragmas", "-Werror", "-ffp-contract=off",
        "-fno-math-errno", "-shared", "-fPIC", "-o", str(target), str(source), "-lm",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:10000]
    return ctypes.CDLL(str(target))


def sample(dtype: torch.dtype) -> torch.Tensor:
    """Special values, then random ones of several magnitudes."""
    generator = torch.Generator().manual_seed(1)
    if dtype == torch.bool:
        return torch.tensor([False, True] * 8)
    if dtype in COMPLEX:
        parts = real_of(dtype)
        grid = torch.tensor([0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 2.5, -3.0, 1e-3, 30.0], dtype=parts)
        random = torch.randn(400, 2, dtype=parts, generator=generator)
        special = torch.complex(grid.repeat(10), grid.repeat_interleave(10))
        return torch.cat([special, torch.view_as_complex(random)])
    if dtype in SMALL:
        return torch.arange(256, dtype=torch.uint8).view(dtype)
    if dtype in HALVES:
        return torch.arange(-32768, 32768, dtype=torch.int32).to(torch.int16).view(dtype)
    if dtype.is_floating_point:
        info = torch.finfo(dtype)
        special = [0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 3.14159, 1e-30, 1e-5, 7e-3, 0.9999, 1.0001,
                   87.0, 89.0, 448.0, 464.0, 465.0, 480.0, 57344.0, 61439.0, 61440.0, 65504.0, 65519.0,
                   65520.0, 1e5, 1e30, info.tiny, info.tiny / 8, info.max, info.smallest_normal,
                   float("inf"), float("nan"), 6e-8, 3e-8, 2.0**-127, 1.5 * 2.0**-127, 8388609.5]  # fmt: skip
        special = torch.tensor(special, dtype=dtype)
        random = torch.randn(2000, dtype=dtype, generator=generator)
        spread = torch.exp2(40 * random[:1000]) * random[1000:]
        unit = torch.rand(500, dtype=dtype, generator=generator) * 2 - 1
        return torch.cat([special, -special, random, spread, unit])
    if dtype == torch.uint64:
        return torch.tensor([0, 1, 2, 3, 255, 2**31, 2**32 + 1, 2**53 + 1, 2**63 - 1, 2**63 - 511], dtype=dtype)
    info = torch.iinfo(dtype)
    special = [0, 1, 2, 3, 5, 12, 18, 31, 32, 33, 63, 64, 65, 1000, info.max, info.max // 2]
    special = torch.tensor([*special, *(-x for x in special), info.min], dtype=dtype)
    random = torch.randint(-10000, 10000, (200,), dtype=dtype, generator=generator)
    return torch.cat([special, random])


def operands(case: Case) -> list[torch.Tensor]:
    samples = [sample(t) for t in case.operands]
    if len(samples) == 1:
        return samples
    if len(samples) == 2:
        small = [s[:: max(1, len(s) // 150)] if len(s) > 200 else s for s in samples]
        n = [len(s) for s in small]
        pair = [small[0].repeat_interleave(n[1]), small[1].repeat(n[0])]
        if case.values is not None:
            keep = case.values(*pair)
            pair = [p[keep] for p in pair]
        return [p.contiguous() for p in pair]
    n = 5000
    generator = torch.Generator().manual_seed(2)
    picks = [s[torch.randint(0, len(s), (n,), generator=generator)] for s in samples]
    if samples[1].is_floating_point():  # sums near the largest number overflow in one order only
        keep = torch.stack([p.double().nan_to_num().abs() < 1e30 for p in picks]).all(0)
        picks = [p[keep] for p in picks]
    return [p.contiguous() for p in picks]


def comparable_cast(case: Case, x: torch.Tensor) -> torch.Tensor:
    """Float values that the integer type can hold: C++ and torch leave the rest undefined."""
    source, target = case.operands[0], case.result
    real = torch.view_as_real(x)[..., 0] if source in COMPLEX else x
    if target.is_floating_point or target.is_complex or target == torch.bool:
        return torch.ones(x.shape, dtype=torch.bool)
    if source.is_floating_point or source.is_complex:
        low = 0.0 if target == torch.uint64 else -(2.0 ** (8 * target.itemsize - 1))
        # strictly inside: the largest int64 is no float
        return (real.double() >= low) & (real.double() < 2.0 ** (8 * target.itemsize - 1) * 0.999)
    return torch.ones(x.shape, dtype=torch.bool)


def parts(x: torch.Tensor) -> torch.Tensor:
    return torch.view_as_real(x) if x.is_complex() else x


def assert_same(case: Case, ours: torch.Tensor, expected: torch.Tensor, inputs):
    assert ours.dtype == expected.dtype
    a, b = parts(ours), parts(expected)
    if not b.is_floating_point():
        bad = a != b
    elif case.name == "cast" and b.element_size() == 1:
        bad = (a.view(torch.uint8) != b.view(torch.uint8)) & ~(a.float().isnan() & b.float().isnan())
    else:
        wide_a, wide_b = a.double(), b.double()
        scale = wide_b.abs()
        if ours.is_complex():
            scale = scale.amax(-1, keepdim=True).expand_as(wide_b)
        if len(inputs) == 3 and case.ulps:  # sums: the error is relative to the terms
            scale = torch.stack([scale, *(x.double().abs() for x in inputs)]).amax(0)
            scale = torch.maximum(scale, inputs[1].double().abs() * inputs[2].double().abs())
        if case.name == "lgamma":
            scale = scale.clamp_min(1.0)  # it has zeros at 1, 2 and near the negative integers
        info = torch.finfo(b.dtype)
        allowed = case.ulps * (scale * info.eps).clamp_min(info.smallest_normal * info.eps)
        same = (wide_a == wide_b) | (wide_a.isnan() & wide_b.isnan())
        bad = ~same & ~((wide_a - wide_b).abs() <= allowed)
    if ours.is_complex():
        # Infinities in complex functions are not compared: libraries differ.
        defined = parts(expected).isfinite().all(-1, keepdim=True)
        bad = bad & defined
        bad = bad.any(-1)
    if bad.any():
        where = bad.nonzero()[:8, 0]
        rows = [(*(x[i].item() for x in inputs), ours[i].item(), expected[i].item()) for i in where]
        pytest.fail(f"{case.id}: {int(bad.sum())} differ; (operands, ours, torch): {rows}")


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_matches_torch(library, case):
    inputs = operands(case)
    if case.name == "cast":
        inputs = [inputs[0][comparable_cast(case, inputs[0])].contiguous()]
    n = inputs[0].numel()
    ours = torch.empty(n, dtype=case.result)
    pointers = [ctypes.c_void_p(t.data_ptr()) for t in (*inputs, ours)]
    getattr(library, case.id)(*pointers, ctypes.c_long(n))
    expected = case.reference(*inputs)
    if expected.dtype != case.result:
        expected = expected.to(case.result)
    assert_same(case, ours, expected, inputs)
