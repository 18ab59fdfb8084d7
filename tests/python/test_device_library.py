# SPDX-License-Identifier: BSD-3-Clause
"""Compares the elementwise functions of the device library with torch on the CPU.

All pieces of a half of the library and a loop for each function and type are compiled into one
object: the host half by the C++ compiler, the CUDA half by NVRTC for several architectures, and run
where there is a GPU. It needs torch and a compiler, nothing else of the project.
"""

import ctypes
import functools
import importlib.util
import itertools
import pathlib
import re
import subprocess

import pytest
import torch
from host_loops import COMPILER, CPP, library_text, sanitizer_flags

needs_compiler = pytest.mark.skipif(COMPILER is None, reason="needs a C++ compiler")

FLOATS = (torch.float32, torch.float64)
HALVES = (torch.float16, torch.bfloat16)
INTS = (torch.int32, torch.int64)
COMPLEX = (torch.complex64, torch.complex128)
BOOL = (torch.bool,)


class Case:
    """One function of the library for one combination of operand types."""

    def __init__(self, name, operands, result, reference, ulps=0, expression=None, values=None):
        self.name, self.operands, self.result = name, operands, result
        self.reference, self.ulps, self.values = reference, ulps, values
        arguments = ", ".join("abc"[i] + "[i]" for i in range(len(operands)))
        self.expression = expression or f"nvf::{name}({arguments})"
        types = [str(t).removeprefix("torch.") for t in (*operands, result)]
        self.id = "_".join([re.sub(r"\W+", "_", name), *types])

    def cuda_source(self) -> str:
        parameters = "".join(
            f"const {CPP[t]}* {n}, " for t, n in zip(self.operands, "abc", strict=False)
        )
        return (
            f'extern "C" __global__ void {self.id}({parameters}{CPP[self.result]}* out, long n)\n'
            "{\n"
            "  long i = blockIdx.x * (long)blockDim.x + threadIdx.x;\n"
            f"  if (i < n) out[i] = {self.expression};\n}}\n"
        )

    def source(self) -> str:
        parameters = "".join(
            f"const {CPP[t]}* {n}, " for t, n in zip(self.operands, "abc", strict=False)
        )
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
unary("sech2", FLOATS, reference=lambda x: torch.cosh(x.double()).pow(-2).to(x.dtype), ulps=8)
unary("erf", FLOATS, ulps=4)
unary("erfc", FLOATS, ulps=8)
unary("erfinv", FLOATS, ulps=8)


# erfc(y) = 2 ndtr(-sqrt(2) y)
def erfcinv(x):
    return (-torch.special.ndtri(x.double() / 2) * 0.5**0.5).to(x.dtype)


unary("erfcinv", FLOATS, reference=erfcinv, ulps=8)
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
            ((x & mask) >> y if 0 <= y < width else 0) - ((1 << width) if y == 0 and x < 0 else 0)
            for x, y in zip(a.tolist(), b.tolist(), strict=True)
        ],
        dtype=a.dtype,
    )


binary("logical_right_shift", INTS, reference=logical_right_shift)

for t in FLOATS + HALVES + INTS:
    CASES.append(Case("where", (torch.bool, t, t), t, torch.where))
    CASES.append(
        Case(
            "clamp", (t,), t, lambda x: torch.clamp(x, -2, 3), expression="nvf::clamp(a[i], -2, 3)"
        )
    )
    CASES.append(
        Case(
            "threshold",
            (t,),
            t,
            lambda x: torch.nn.functional.threshold(x, 1, 7),
            expression="nvf::threshold(a[i], 1, 7)",
        )
    )
for t in FLOATS:
    CASES.append(
        Case("clamp_bounds", (t, t, t), t, torch.clamp, expression="nvf::clamp(a[i], b[i], c[i])")
    )
    CASES.append(Case("lerp", (t, t, t), t, torch.lerp, ulps=2))
    CASES.append(
        Case(
            "addcmul",
            (t, t, t),
            t,
            lambda a, b, c: torch.addcmul(a, b, c, value=0.5),
            ulps=2,
            expression="nvf::addcmul(a[i], b[i], c[i], 0.5)",
        )
    )


def torch_cast(x, target):
    if target == torch.float8_e4m3fn:
        x = x.clamp(-448, 448)  # torch saturates since 2.13; before it made NaN
    return x.to(target)


CASTABLE = (
    *FLOATS, *HALVES, *INTS, torch.uint64, torch.bool, *COMPLEX,
)  # fmt: skip
SMALL = (torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e8m0fnu)
for source, target in [
    *itertools.permutations(CASTABLE, 2),
    *itertools.product(SMALL, FLOATS + HALVES),
    *itertools.product(FLOATS + HALVES, SMALL),
]:
    CASES.append(
        Case(
            "cast",
            (source,),
            target,
            lambda x, t=target: torch_cast(x, t),
            expression=f"nvf::cast<{CPP[target]}>(a[i])",
        )
    )

for small in HALVES:
    pair = f"Array<{CPP[small]}, 2, 2>"
    for name, source, expression in [
        ("roundTo", torch.float32, f"nvf::roundTo<{CPP[small]}>(a[i])"),
        ("pack", small, f"nvf::pack<{CPP[small]}>(nvf::cast<float>(a[i]))"),
        ("floatAt", small, f"nvf::floatAt(*reinterpret_cast<const {pair}*>(a + i / 2 * 2), i % 2)"),
    ]:
        result = small if name == "pack" else torch.float32
        case = Case(
            name, (source,), result, lambda x, t=small: x.to(t).float(), expression=expression
        )
        case.id += f"_{CPP[small]}"
        CASES.append(case)
    for name, operation in (("add", torch.add), ("sub", torch.sub), ("mul", torch.mul)):
        operands = "nvf::cast<float>(a[i]), nvf::cast<float>(b[i])"
        case = Case(
            f"{name}In",
            (small, small),
            torch.float32,
            lambda x, y, f=operation: f(x, y).float(),
            expression=f"nvf::{name}In<{CPP[small]}>({operands})",
        )
        case.id += f"_{CPP[small]}"
        CASES.append(case)


# The functions for 16-bit results, with the errors that cuda/approx.h states in units of 2^-23.
APPROXIMATE = [
    Case(name, (torch.float32,), torch.float32, reference, ulps, f"nvf::approx::{name}(a[i])")
    for name, reference, ulps in [
        ("exp", torch.exp, 2**8),
        ("exp2", torch.exp2, 4),
        ("expm1", torch.expm1, 2**8),
        ("log1p", torch.log1p, 2**6),
        ("cosh", torch.cosh, 2**8),
        ("tanh", torch.tanh, 2**9),
        ("sech2", lambda x: torch.cosh(x).pow(-2), 2**9),
        ("tanhFast", torch.tanh, 2**13),
        ("sigmoid", torch.sigmoid, 2**8),
        ("silu", torch.nn.functional.silu, 2**8),
        ("erf", torch.erf, 4),
        ("sqrt", torch.sqrt, 2),
        ("rsqrt", torch.rsqrt, 4),
        ("reciprocal", torch.reciprocal, 2),
    ]
]
for approximate in APPROXIMATE:
    approximate.id = "approx_" + approximate.id


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    folder = tmp_path_factory.mktemp("device_library")
    source = folder / "functions.cpp"
    source.write_text(library_text("host") + "\n" + "".join(c.source() for c in CASES))
    target = folder / "functions.so"
    command = [
        COMPILER, "-std=c++20", "-O1", "-Wall", "-Werror", "-Wno-unknown-pragmas", "-shared",
        "-fPIC", "-fwrapv", "-ffp-contract=off", "-fno-math-errno", *sanitizer_flags(), "-o",
        str(target), str(source), "-lm",
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
        small = [
            6e-8,
            3e-8,
            2.0**-127,
            1.5 * 2.0**-127,
            1e-30,
            1e-5,
            7e-3,
            info.tiny,
            info.tiny / 8,
        ]
        around = [0.0, 0.5, 0.9999, 1.0, 1.0001, 1.5, 2.0, 2.5, 3.0, 3.14159, 3.5, 87.0, 89.0]
        limits = [448.0, 464.0, 465.0, 480.0, 57344.0, 61439.0, 61440.0, 65504.0, 65519.0, 65520.0]
        large = [1e5, 8388609.5, 1e30, info.max, float("inf"), float("nan")]
        special = small + around + limits + large
        special = torch.tensor(special, dtype=dtype)
        random = torch.randn(2000, dtype=dtype, generator=generator)
        spread = torch.exp2(40 * random[:1000]) * random[1000:]
        unit = torch.rand(500, dtype=dtype, generator=generator) * 2 - 1
        return torch.cat([special, -special, random, spread, unit])
    if dtype == torch.uint64:
        values = [0, 1, 2, 3, 255, 2**31, 2**32 + 1, 2**53 + 1, 2**63 - 1, 2**63 - 511]
        return torch.tensor(values, dtype=dtype)
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
        both_nan = a.float().isnan() & b.float().isnan()
        bad = (a.view(torch.uint8) != b.view(torch.uint8)) & ~both_nan
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
        if case.name == "sigmoid":  # below that torch may give 0: its exp(-x) is infinite there
            allowed = allowed.clamp_min(info.smallest_normal)
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


def compare(case, inputs, ours):
    expected = case.reference(*inputs)
    if expected.dtype != case.result:
        expected = expected.to(case.result)
    assert_same(case, ours, expected, inputs)


def inputs_of(case):
    inputs = operands(case)
    if case.name == "cast":
        inputs = [inputs[0][comparable_cast(case, inputs[0])].contiguous()]
    return inputs


@needs_compiler
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_matches_torch(library, case):
    inputs = inputs_of(case)
    n = inputs[0].numel()
    ours = torch.empty(n, dtype=case.result)
    pointers = [ctypes.c_void_p(t.data_ptr()) for t in (*inputs, ours)]
    getattr(library, case.id)(*pointers, ctypes.c_long(n))
    compare(case, inputs, ours)


# What a kernel uses besides elementwise functions.
CUDA_KERNEL = r"""
NVF_KERNEL(everything_else, 128,
    (float* o, double* d, __half* h, __bfloat* b, __e2m1* q, unsigned* u, int n)) {
  const nvf::PhiloxBlock p = nvf::philox(u[0], threadIdx.x, 3);
  h[0] = nvf::uniform<__half>(p, n, 0.0, 1.0);
  b[0] = nvf::normal<__bfloat>(p, n, 0.0f, 1.0f);
  d[0] = nvf::uniform<double>(p, n, d[1], d[2]) + nvf::normal<double>(p, n, d[1], d[2]);
  Array<__e2m1, 16, 16> r;
  nvf::loadFp4<16>(&r[0], q, threadIdx.x * 16);
  nvf::loadFp4<1>(&r[0], q, n);
#pragma unroll
  for (int i = 0; i < 16; ++i) {
    r[i] = nvf::cast<__e2m1>(nvf::cast<float>(r[i]) * 2.0f);
  }
  nvf::storeFp4<16>(q, threadIdx.x * 16, &r[0]);
  nvf::storeFp4<1>(q, n, &r[5]);
  Array<float, 8, 8> v;
  nvf::loadGlobal<float, 8>(&v[0], o + 8 * threadIdx.x);
  nvf::waitForLoads(v);
  nvf::storeGlobal<float, 8, nvf::CacheOp::Streaming>(o + 8 * threadIdx.x, &v[0]);
  nvf::loadGlobal<float, 8, nvf::CacheOp::Streaming>(&v[0], o + 8 * threadIdx.x + 8000);
  nvf::storeGlobal<float, 4, nvf::CacheOp::Global>(o + 8 * threadIdx.x, &v[4]);
  nvf::loadGlobal<float, 4, nvf::CacheOp::AllLevels>(&v[0], o + 4 * threadIdx.x);
  nvf::storeGlobal<float, 4, nvf::CacheOp::AllLevels>(o + 4 * threadIdx.x, &v[0]);
  NVF_DYNAMIC_SHARED(smem);
  nvf::copyVector<float, 4>(reinterpret_cast<float*>(smem) + threadIdx.x * 4, &v[0]);
  nvf::syncBlock();
  nvf::sharedWrite(smem[threadIdx.x]) = 3;
  o[4] = nvf::sharedRead(smem[n]);
  const auto z = nvf::complex(o[1], o[2]);
  o[5] = nvf::real(z) + nvf::abs(z * 2.0f) + nvf::quietNan<float>() + nvf::approx::div(o[6], o[7]);
}

NVF_KERNEL(order_and_small_copies, 128, (float* o, const float* x)) {
  __shared__ nvf::MBarrier barriers[2];
  __shared__ alignas(16) float tile[4 * 128];
  nvf::waitForPreviousKernel();
  nvf::letNextKernelStart();
  if (threadIdx.x == 0) {
    nvf::initMBarrier(&barriers[0], 128);
    nvf::initMBarrier(&barriers[1], 128);
    nvf::fenceMBarrierInit();
  }
  nvf::syncBlock();
  nvf::copyAsync<16>(&tile[4 * threadIdx.x], x + 4 * threadIdx.x);
  nvf::arriveAfterCopies(&barriers[0]);
  nvf::waitForPhase(&barriers[0], 0);
  nvf::arrive(&barriers[1]);
  nvf::copyAsync<4>(&tile[threadIdx.x], x + threadIdx.x, threadIdx.x < 100);
  nvf::commitCopies();
  nvf::waitForCopies<0>();
  nvf::syncWarp();
  o[threadIdx.x] = tile[threadIdx.x ^ 1];
}
"""


@functools.cache
def nvrtc():
    """NVRTC of the Python package, or None."""
    spec = importlib.util.find_spec("nvidia")
    for root in spec.submodule_search_locations if spec else ():
        folder = pathlib.Path(root) / "cu13" / "lib"
        if (folder / "libnvrtc.so.13").exists():
            for builtins in folder.glob("libnvrtc-builtins.so.13.*"):
                ctypes.CDLL(str(builtins))  # it has no search path of its own
            return ctypes.CDLL(str(folder / "libnvrtc.so.13"))
    return None


needs_nvrtc = pytest.mark.skipif(nvrtc() is None, reason="needs nvidia-cuda-nvrtc")


def compile_for_cuda(arch: str) -> bytes:
    text = library_text("cuda") + "\n" + CUDA_KERNEL
    text += "".join(c.cuda_source() for c in CASES + APPROXIMATE)
    program = ctypes.c_void_p()
    nvrtc().nvrtcCreateProgram(ctypes.byref(program), text.encode(), b"library.cu", 0, None, None)
    flags = (ctypes.c_char_p * 3)(f"-arch={arch}".encode(), b"--std=c++20", b"--minimal")
    status = nvrtc().nvrtcCompileProgram(program, 3, flags)
    size = ctypes.c_size_t()
    nvrtc().nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    nvrtc().nvrtcGetProgramLog(program, log)
    assert status == 0 and log.value.strip() == b"", log.value.decode()[:10000]
    nvrtc().nvrtcGetCUBINSize(program, ctypes.byref(size))
    cubin = ctypes.create_string_buffer(size.value)
    nvrtc().nvrtcGetCUBIN(program, cubin)
    nvrtc().nvrtcDestroyProgram(ctypes.byref(program))
    return cubin.raw


@needs_nvrtc
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_100a"])
def test_cuda_half_compiles_without_a_warning(arch):
    assert compile_for_cuda(arch)


@pytest.fixture(scope="module")
def cuda_functions():
    """name -> CUfunction for the present GPU."""
    torch.cuda.init()
    torch.zeros(1, device="cuda")  # makes the primary context current
    major, minor = torch.cuda.get_device_capability()
    arch = f"sm_{major}{minor}" + ("a" if major >= 9 else "")
    cubin = compile_for_cuda(arch)
    driver = ctypes.CDLL("libcuda.so.1")
    module = ctypes.c_void_p()
    assert driver.cuModuleLoadData(ctypes.byref(module), cubin) == 0

    def launch(name, arguments):
        function = ctypes.c_void_p()
        assert driver.cuModuleGetFunction(ctypes.byref(function), module, name.encode()) == 0
        pointers = (ctypes.c_void_p * len(arguments))(*(ctypes.addressof(a) for a in arguments))
        blocks = (arguments[-1].value + 127) // 128
        shape = (blocks, 1, 1, 128, 1, 1)
        assert driver.cuLaunchKernel(function, *shape, 0, None, pointers, None) == 0
        torch.cuda.synchronize()

    return launch


@needs_nvrtc
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("case", CASES + APPROXIMATE, ids=lambda c: c.id)
def test_cuda_matches_torch_on_the_cpu(cuda_functions, case):
    inputs = inputs_of(case)
    if (
        case in APPROXIMATE
    ):  # they take subnormal numbers as 0, and their range ends a little earlier
        x = inputs[0]
        inputs = [x[(x == 0) | ((x.abs() > 2.0**-100) & (x.abs() < 80))]]
    on_gpu = [t.cuda() for t in inputs]
    n = inputs[0].numel()
    ours = torch.empty(n, dtype=case.result, device="cuda")
    arguments = [ctypes.c_void_p(t.data_ptr()) for t in (*on_gpu, ours)]
    cuda_functions(case.id, [*arguments, ctypes.c_long(n)])
    # CUDA contracts multiplications and additions, and its functions have their own error bounds.
    divides = case.name in ("div", "truediv", "reciprocal") and case.result == torch.float32
    ulps = 3 if divides else 2 * case.ulps  # see nvf::divideFloats
    relaxed = Case(case.name, case.operands, case.result, case.reference, ulps)
    relaxed.id = case.id
    compare(relaxed, inputs, ours.cpu())
