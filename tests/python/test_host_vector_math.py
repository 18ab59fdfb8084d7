# SPDX-License-Identifier: BSD-3-Clause
"""The host's functions: their errors over all floats, and that loops over them become vector code.

They are compiled as a kernel is (host_loops.py). References are float64 functions of torch. With
--long all 2^32 floats are tried, against the double functions of the C library;
docs/measurements/host_vector_math.md has the results.
"""

from __future__ import annotations

import contextlib
import ctypes
import pathlib
import platform
import re
import shutil
import subprocess
from collections.abc import Callable

import pytest
import torch
from host_loops import (
    COMPILER,
    CPP,
    Loop,
    compile_loops,
    compile_text,
    compiler_major,
    is_clang,
    kernel_flags,
    library_text,
    run_loop,
    unary,
)

pytestmark = pytest.mark.skipif(COMPILER is None, reason="needs a C++ compiler")

Tensor = torch.Tensor
F32, F64, BOOL = torch.float32, torch.float64, torch.bool
HALVES = (torch.float16, torch.bfloat16)
SMALL = (*HALVES, torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e8m0fnu)
INTS = (torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64)
OVERFLOW = 88.722835  # exp of the next float is infinite


def sigmoid(x: Tensor) -> Tensor:
    """0 where exp(-x) is infinite in float, as torch has it."""
    return torch.where(x < -OVERFLOW, 0.0, torch.sigmoid(x))


def silu(x: Tensor) -> Tensor:
    return x * sigmoid(x)


# Name: reference for float64, largest error in ulp of the float result.
UNARY: dict[str, tuple[Callable[[Tensor], Tensor], float]] = {
    **{
        name: (getattr(torch, name), 2.0)
        for name in (
            "acos asin atan cosh erf exp exp2 expm1 log log10 log1p log2 rsqrt sinh tanh".split()
        )
    },
    **{
        name: (getattr(torch, name), 0.51)
        for name in "acosh asinh atanh cos erfc reciprocal sin sqrt tan".split()
    },
    **{name: (getattr(torch, name), 0.5) for name in "abs ceil floor frac round trunc".split()},
    "sigmoid": (sigmoid, 2.0),
    "silu": (silu, 2.0),
}
# For 16-bit results, with the errors that cuda/approx.h states; subnormal results may be 0.
APPROXIMATE: dict[str, tuple[Callable[[Tensor], Tensor], float]] = {
    "exp2": (torch.exp2, 2.0),
    "exp": (torch.exp, 2.0**8),
    "expm1": (torch.expm1, 2.0**8),
    "log1p": (torch.log1p, 2.0**6),
    "cosh": (torch.cosh, 2.0**8),
    "tanh": (torch.tanh, 2.0**9),
    "tanhFast": (torch.tanh, 2.0**13),
    "sigmoid": (sigmoid, 2.0**8),
    "silu": (silu, 2.0**8),
    "erf": (torch.erf, 2.0),
    "sqrt": (torch.sqrt, 0.5),
    "rsqrt": (torch.rsqrt, 2.0),
    "reciprocal": (torch.reciprocal, 0.5),
}
SPECIAL = [
    0.0, 1e-45, 3e-42, 1.17549435e-38, 1e-30, 1e-8, 0.03125, 0.5, 0.5625, 0.625, 0.921875, 1.0,
    1.5, 2.0, 4.0, 9.01, 10.05, 16777216.0, 33554432.0, 86.0, 87.4, 88.7228, 88.7229, 88.73, 89.07,
    89.41598, 89.41599, 89.5, 103.97, 104.1, 126.0, 126.5, 127.99999, 128.0, 149.0, 150.1,
    4.8357033e24, 7.729178919452902e28, 3.4028235e38, float("inf"), float("nan"),
]  # fmt: skip


def function_loops() -> dict[str, Loop]:
    loops = {name: unary(name, F32) for name in UNARY}
    for name in APPROXIMATE:
        loops["approx::" + name] = unary("approx::" + name, F32)
    for name in ("pow", "atan2", "fmod", "remainder"):
        loops[name] = Loop(f"{name}_float32", (F32, F32), F32, f"nvf::{name}(a[i], b[i])")
    for target in SMALL:
        for source in (F32, F64):
            loops[f"{source} to {target}"] = cast(source, target)
        loops[f"{target} to {F32}"] = cast(target, F32)
    return loops


def cast(source: torch.dtype, target: torch.dtype) -> Loop:
    name = re.sub("torch.", "", f"cast_{source}_{target}")
    return Loop(name, (source,), target, f"nvf::cast<{CPP[target]}>(a[i])")


@pytest.fixture(scope="module")
def functions(tmp_path_factory):
    loops = function_loops()
    library, _ = compile_loops(list(loops.values()), tmp_path_factory.mktemp("functions"))
    return lambda name, *inputs: run_loop(library, loops[name], *inputs)


def floats(step: int):
    """Every step-th float of all, in blocks; the special ones first."""
    special = torch.tensor(SPECIAL)
    neighbours = (
        special.view(torch.int32)[:, None] + torch.arange(-2, 3, dtype=torch.int32)
    ).ravel()
    yield torch.cat([special, -special, neighbours.view(F32), -neighbours.view(F32)])
    block = step << 19
    for begin in range(-(2**31), 2**31, block):
        bits = torch.arange(begin, min(begin + block, 2**31), step, dtype=torch.int64)
        yield bits.to(torch.int32).view(F32)


def ulps(ours: Tensor, expected: Tensor) -> Tensor:
    """The error in units of the last place of the result; infinite where only one is NaN."""
    largest = 2.0**128
    near = expected.clamp(-largest, largest)
    bits = near.to(F32).view(torch.int32) & 0x7F800000
    unit = bits.clamp(0x00800000, 0x7F000000).view(F32).double() * 2.0**-23
    error = (ours.double().clamp(-largest, largest) - near).abs() / unit
    return torch.where(ours.isnan() & expected.isnan(), 0.0, error).nan_to_num(nan=torch.inf)


def assert_within(name: str, x: Tensor, ours: Tensor, expected: Tensor, bound: float) -> None:
    error = ulps(ours, expected)
    worst = int(error.argmax())
    detail = (
        f"{name}({x[worst].tolist()!r}): {ours[worst].item()!r}, not {expected[worst].item()!r}"
    )
    assert error[worst] <= bound, f"{detail}: {error[worst].item():.3f} ulp"


@pytest.mark.parametrize("name", UNARY)
def test_errors(functions, name):
    reference, bound = UNARY[name]
    for x in floats(1009):
        ours, expected = functions(name, x), reference(x.double())
        assert_within(name, x, ours, expected, bound)
        zeros = (ours == 0) & (expected == 0) & (ours.signbit() != expected.signbit())
        assert not zeros.any(), f"sign of {name}({x[zeros][0].item()!r})"


# Largest error over a range of bit patterns, and where. The reference is the C library's function
# for double, of vectors where it has those: their errors are 4 units of a double.
WORST = """
#if defined(REFERENCE_IN_VECTORS) && defined(__AVX512F__)
typedef double Doubles __attribute__((vector_size(64)));
#define OF_VECTORS(name) _ZGVeN8v_##name
#elif defined(REFERENCE_IN_VECTORS) && defined(__AVX2__)
typedef double Doubles __attribute__((vector_size(32)));
#define OF_VECTORS(name) _ZGVdN4v_##name
#else
typedef double Doubles;
#define OF_VECTORS(name) name
#endif
extern "C" Doubles OF_VECTORS(%(function)s)(Doubles);
extern "C" double worst_%(name)s(unsigned long long begin, unsigned long long end, float* at) {
  double worst = 0.0;
  for (unsigned long long first = begin; first < end; first += 4096) {
    float x[4096], ours[4096];
    double expected[4096], error[4096];
    alignas(64) double of_function[4096];
    for (int i = 0; i < 4096; ++i) {
      x[i] = nvf::bitsOf<float>(static_cast<unsigned>(first + i));
    }
    for (int i = 0; i < 4096; ++i) {
      ours[i] = nvf::%(name)s(x[i]);
    }
    for (int i = 0; i < 4096; ++i) {
      const double wide = x[i];
      of_function[i] = %(argument)s;
    }
    constexpr int kLanes = sizeof(Doubles) / sizeof(double);
    for (int i = 0; i < 4096 && %(has_function)d; i += kLanes) {
      auto& values = reinterpret_cast<Doubles&>(of_function[i]);
      values = OF_VECTORS(%(function)s)(values);
    }
    for (int i = 0; i < 4096; ++i) {
      const double wide = x[i], result = of_function[i];
      expected[i] = %(expected)s;
    }
    for (int i = 0; i < 4096; ++i) {
      const double near = nvf::between(-0x1p128, expected[i], 0x1p128);
      const double mine = nvf::between(-0x1p128, static_cast<double>(ours[i]), 0x1p128);
      const int bits = nvf::bitsOf<int>(static_cast<float>(near)) & 0x7f800000;
      const int exponent = bits < 0x00800000 ? 0x00800000 : bits > 0x7f000000 ? 0x7f000000 : bits;
      const double difference = __builtin_fabs(mine - near);
      const double both = mine != mine && near != near ? 0.0 : difference;
      error[i] = both / (nvf::bitsOf<float>(exponent) * 0x1p-23);
    }
    for (int i = 0; i < 4096; ++i) {
      if (!(error[i] <= worst)) {
        worst = error[i];
        *at = x[i];
        if (worst != worst) {
          return worst;
        }
      }
    }
  }
  return worst;
}
"""
# What becomes of an argument without a function, or of the result of one for -x.
OF_ARGUMENT = {
    "abs": "::fabs(wide)",
    "ceil": "::ceil(wide)",
    "floor": "::floor(wide)",
    "frac": "wide - ::trunc(wide)",
    "reciprocal": "1.0 / wide",
    "round": "::rint(wide)",
    "rsqrt": "1.0 / ::sqrt(wide)",
    "sqrt": "::sqrt(wide)",
    "trunc": "::trunc(wide)",
}
OF_EXP = {
    "sigmoid": f"wide < -{OVERFLOW} ? 0.0 : 1.0 / (1.0 + result)",
    "silu": f"wide < -{OVERFLOW} ? wide * 0.0 : wide / (1.0 + result)",
}


def worst_over_all(name: str, folder: pathlib.Path) -> tuple[float, float]:
    """The largest error over all floats, and an argument that has it."""
    text = library_text("host") + WORST % {
        "name": name,
        "function": "exp" if name in OF_EXP or name in OF_ARGUMENT else name,
        "argument": "-wide" if name in OF_EXP else "wide",
        "has_function": name not in OF_ARGUMENT,
        "expected": {**OF_ARGUMENT, **OF_EXP}.get(name, "result"),
    }
    flags = kernel_flags()
    with contextlib.suppress(OSError):
        ctypes.CDLL("libmvec.so.1", mode=ctypes.RTLD_GLOBAL)
        flags.append("-DREFERENCE_IN_VECTORS")
    library = compile_text(text, folder, flags)[0]
    worst = getattr(library, f"worst_{name}")
    worst.restype = ctypes.c_double
    at = ctypes.c_float()
    error = worst(ctypes.c_ulonglong(0), ctypes.c_ulonglong(2**32), ctypes.byref(at))
    return error, at.value


@pytest.mark.parametrize("name", UNARY)
def test_errors_over_all_floats(name, long_mode, tmp_path):
    if not long_mode:
        pytest.skip("long mode only")
    error, at = worst_over_all(name, tmp_path)
    print(f"{name}: {error:.3f} ulp at {at!r}")
    assert error <= UNARY[name][1], at


@pytest.mark.parametrize("name", APPROXIMATE)
def test_errors_of_approximate_functions(functions, name):
    reference, bound = APPROXIMATE[name]
    tiny = torch.finfo(F32).tiny
    for x in floats(4001):
        ours, expected = functions("approx::" + name, x), reference(x.double())
        if bound > 2:  # exp of more than 80 has lost the digits of its product
            keep = ~(x.abs() > 80)
            x, ours, expected = x[keep], ours[keep], expected[keep]
        flushed = (expected.abs() < tiny) & (ours == 0)
        assert_within(name, x, ours, torch.where(flushed, 0.0, expected), bound)


def pairs(count: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(3)
    special = torch.tensor([x for x in SPECIAL if x < 20 or x > 1e7 or x != x] + [3.0, 7.0, 0.7])
    special = torch.cat([special, -special])
    n = len(special)
    x = torch.randn(2, count, generator=generator) * 10
    spread = torch.randint(-(2**31), 2**31, (2, count), generator=generator).to(torch.int32)
    near = torch.exp(torch.randn(count, generator=generator) * 0.1)
    a = torch.cat([special.repeat_interleave(n), x[0], x[0].abs(), spread[0].view(F32), near])
    b = torch.cat([special.repeat(n), x[1].round(), x[1], spread[1].view(F32), x[1] * 100])
    return a, b


@pytest.mark.parametrize("name, bound", [("pow", 0.55), ("atan2", 2.0)])
def test_errors_of_two_operands(functions, name, bound):
    a, b = pairs(200000)
    ours, expected = functions(name, a, b), getattr(torch, name)(a.double(), b.double())
    assert_within(name, torch.stack([a, b], 1), ours, expected, bound)
    zeros = (ours == 0) & (expected == 0) & (ours.signbit() != expected.signbit())
    assert not zeros.any(), (a[zeros][0].item(), b[zeros][0].item())


@pytest.mark.parametrize("name", ["fmod", "remainder"])
def test_rests_are_exact(functions, name):
    a, b = pairs(20000)
    libm = ctypes.CDLL("libm.so.6").fmod
    libm.restype, libm.argtypes = ctypes.c_double, [ctypes.c_double] * 2
    rest = torch.tensor(list(map(libm, a.tolist(), b.tolist())), dtype=F64)
    if name == "remainder":
        other_sign = (rest != 0) & ((rest < 0) != (b < 0))
        rest = torch.where(other_sign, (rest.to(F32) + b).double(), rest)
    assert_within(name, torch.stack([a, b], 1), functions(name, a, b), rest, 0.0)


@pytest.mark.parametrize("target", SMALL, ids=str)
def test_casts_to_small_formats(functions, target):
    for x in floats(4001):
        # ties too: few bits
        x = torch.cat([x, (x.view(torch.int32) & ~0xFFF).view(F32)])
        x = x[x >= 0] if target == torch.float8_e8m0fnu else x
        bounded = x.clamp(-448, 448) if target == torch.float8_e4m3fn else x
        expected = bounded.to(target)
        for source in (F32, F64):
            ours = functions(f"{source} to {target}", x.to(source))
            bits = torch.int16 if target.itemsize == 2 else torch.int8
            same = ours.view(bits) == expected.view(bits)
            assert (same | (ours.float().isnan() & expected.float().isnan())).all()


@pytest.mark.parametrize("source", SMALL, ids=str)
def test_casts_from_small_formats(functions, source):
    bits, count = (torch.int16, 2**15) if source.itemsize == 2 else (torch.int8, 2**7)
    x = torch.arange(-count, count).to(bits).view(source)
    ours, expected = functions(f"{source} to {F32}", x), x.to(F32)
    assert torch.equal(ours.nan_to_num(nan=7e37), expected.nan_to_num(nan=7e37))
    assert torch.equal(ours.signbit()[~ours.isnan()], expected.signbit()[~ours.isnan()])


def random_loops() -> list[Loop]:
    return [
        Loop(
            f"{op}_{str(t).removeprefix('torch.')}", (F32,), t,
            f"nvf::{op}<{CPP[t]}>(nvf::philox(42ull, (int)i / 4, 3ull), (int)i % 4, -1.0f, 2.0f)",
        )
        for op in ("uniform", "normal")
        for t in (F32, *HALVES)
    ]  # fmt: skip


def test_random_numbers_do_not_depend_on_vectorization(tmp_path):
    (tmp_path / "scalar").mkdir()
    loops = random_loops()
    vector, _ = compile_loops(loops, tmp_path)
    scalar_flags = [x for x in kernel_flags() if "vect" not in x and x != "-O2"]
    scalar, _ = compile_loops(
        loops, tmp_path / "scalar", [*scalar_flags, "-O2", "-fno-tree-vectorize"]
    )
    unused = torch.zeros(100003)
    for loop in loops:
        ours, expected = run_loop(vector, loop, unused), run_loop(scalar, loop, unused)
        assert torch.equal(ours, expected), loop.name


# ---- Vector code ----


def vector_loops() -> list[Loop]:
    """Everything that a loop of a kernel may hold, less what no instruction set has."""
    loops = [x for x in function_loops().values() if not x.name.startswith("cast")]
    every = (F32, F64, *SMALL, *INTS, BOOL)
    loops += [cast(a, b) for a in every for b in every if a != b]
    loops += random_loops()

    def add(op, operands, result, arguments=None):
        names = arguments or ", ".join(f"{x}[i]" for x in "abc"[: len(operands)])
        kind = "_".join(str(t).removeprefix("torch.") for t in operands)
        loops.append(Loop(f"{op}_{kind}_", operands, result, f"nvf::{op}({names})"))

    for name in "exp exp2 expm1 log log2 log1p tanh sigmoid silu sqrt rsqrt".split():
        add(name, (F64,), F64)
    for t in (F32, F64, *(x for x in INTS if x.is_signed)):
        for name in "minimum maximum add sub mul".split():
            add(name, (t, t), t)
        for name in "eq ne lt le logical_and logical_or".split():
            add(name, (t, t), BOOL)
        for name in "abs neg relu sign".split():
            add(name, (t,), t)
        add("logical_not", (t,), BOOL)
        add("where", (BOOL, t, t), t)
        add("clamp", (t,), t, "a[i], -2, 3")
        add("threshold", (t,), t, "a[i], 1, 7")
        if t.is_floating_point:
            for name in "isnan isfinite isinf signbit".split():
                add(name, (t,), BOOL)
            add("div", (t, t), t)
            add("lerp", (t, t, t), t)
            add("addcmul", (t, t, t), t, "a[i], b[i], c[i], 0.5")
        else:
            for name in "bitwise_and bitwise_or bitwise_xor bitwise_left_shift".split():
                add(name, (t, t), t)
            if t.itemsize < 8:
                for name in "div fmod remainder".split():
                    add(name, (t, t), t)
    for name in "eq logical_and logical_or bitwise_and bitwise_xor".split():
        add(name, (BOOL, BOOL), BOOL)
    for name in "logical_not bitwise_not".split():
        add(name, (BOOL,), BOOL)
    for t in HALVES:
        for name in "relu abs silu".split():
            add(name, (t,), t)
    for exponent in ("2.0f", "3.0f", "0.7f", "(float)n"):
        name = "pow_" + re.sub(r"\W", "_", exponent)
        loops.append(Loop(name, (F32,), F32, f"nvf::pow(a[i], {exponent})"))
    return loops


def has_no_instruction(loop: Loop, arch: str) -> bool:
    """AVX2 converts no 64-bit integers, nor shifts small ones by different counts."""
    types = {*loop.operands, loop.result}
    wide = torch.int64 in types and any(t.is_floating_point for t in types)
    return arch == "haswell" and wide


@pytest.mark.skipif(COMPILER is not None and is_clang(), reason="reads the remarks of g++")
@pytest.mark.skipif(
    COMPILER is not None and compiler_major() != 12, reason="what g++ 12 vectorizes"
)
@pytest.mark.skipif(platform.machine() != "x86_64", reason="names architectures of x86-64")
@pytest.mark.parametrize("arch", ["haswell", "skylake-avx512"])
def test_loops_become_vector_code(arch, tmp_path):
    loops = [x for x in vector_loops() if not has_no_instruction(x, arch)]
    flags = [x for x in kernel_flags() if not x.startswith("-march")]
    _, remarks = compile_loops(loops, tmp_path, [*flags, f"-march={arch}"])
    vectorized = {int(x) for x in re.findall(r":(\d+):\d+: optimized: loop vectorized", remarks)}
    text = (tmp_path / "loops.cpp").read_text().splitlines()
    lines = {
        match[1]: number
        for number, line in enumerate(text, 1)
        if (match := re.match(r'extern "C" __attribute__\(\(noinline\)\) void (\w+)\(', line))
    }
    scalar = [x.name for x in loops if lines[x.name] + 1 not in vectorized]
    assert not scalar


# 64 values at once, as a loop of a kernel takes them.
BLOCKS = """
extern "C" void fp4_to_float(const __e2m1* __restrict a, float* __restrict out, long n) {
  for (long i = 0; i < n; i += 64) {
    Array<__e2m1, 64, 64> packed;
    Array<float, 64, 16> wide;
    nvf::loadFp4<64>(&packed[0], a, i);
    for (int k = 0; k < 64; ++k) wide[k] = nvf::cast<float>(packed[k]);
    nvf::storeGlobal<float, 64>(out + i, &wide[0]);
  }
}
extern "C" void float_to_fp4(const float* __restrict a, __e2m1* __restrict out, long n) {
  for (long i = 0; i < n; i += 64) {
    Array<__e2m1, 64, 64> packed;
    Array<float, 64, 16> wide;
    nvf::loadGlobal<float, 64>(&wide[0], a + i);
    for (int k = 0; k < 64; ++k) packed[k] = nvf::cast<__e2m1>(wide[k]);
    nvf::storeFp4<64>(out, i, &packed[0]);
  }
}
"""


def run_block(library: ctypes.CDLL, name: str, x: Tensor, out: Tensor, n: int) -> Tensor:
    pointers = (ctypes.c_void_p(t.data_ptr()) for t in (x, out))
    getattr(library, name)(*pointers, ctypes.c_long(n))
    return out


def test_fp4_by_blocks(tmp_path):
    library, remarks = compile_text(library_text("host") + BLOCKS, tmp_path)
    every = torch.arange(256).to(torch.uint8)
    values = run_block(library, "fp4_to_float", every, torch.empty(512), 512)
    known = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0])
    codes = torch.stack([every & 15, every >> 4], 1).ravel().long()
    expected = torch.cat([known, -known])[codes]
    assert torch.equal(values, expected) and torch.equal(values.signbit(), expected.signbit())
    assert torch.equal(
        run_block(library, "float_to_fp4", values, torch.empty_like(every), 512), every
    )
    if not is_clang() and platform.machine() == "x86_64":
        # two loops over bytes, two over values
        assert remarks.count("optimized: loop vectorized") >= 4, remarks


@pytest.mark.parametrize("flag", ["-march=x86-64", "-mno-avx512f"])
@pytest.mark.skipif(platform.machine() != "x86_64", reason="flags of x86-64")
def test_other_instruction_sets(flag, tmp_path):
    loops = [unary(name, F32) for name in ("exp", "tanh", "erf", "log1p", "sin", "asin")]
    flags = [
        x for x in kernel_flags() if not (flag.startswith("-march") and x.startswith("-march"))
    ]
    library, _ = compile_loops(loops, tmp_path, [*flags, flag])
    for loop in loops:
        name = loop.name.removesuffix("_float32")
        reference, bound = UNARY[name]
        for x in floats(40009):
            assert_within(name, x, run_loop(library, loop, x), reference(x.double()), bound + 0.5)


# Name: the compiler, and what it compiles for.
OTHER_PROCESSORS = {
    "x86-64": (COMPILER, "-march=x86-64"),
    "x86-64-v3": (COMPILER, "-march=x86-64-v3"),
    "aarch64": ("aarch64-linux-gnu-g++", "-march=armv8-a"),
    "aarch64 with SVE": ("aarch64-linux-gnu-g++", "-march=armv8.2-a+sve"),
}


@pytest.mark.parametrize("name", OTHER_PROCESSORS)
def test_compiles_for_other_processors_where_there_is_a_compiler(name, tmp_path):
    """The whole library, and a loop over each of its functions and conversions."""
    compiler, arch = OTHER_PROCESSORS[name]
    if shutil.which(compiler) is None:
        pytest.skip(f"there is no {compiler}")
    if name.startswith("x86") and platform.machine() != "x86_64":
        pytest.skip("not what this compiler compiles for")
    source = tmp_path / "loops.cpp"
    source.write_text(library_text("host") + "\n" + "".join(x.source() for x in vector_loops()))
    # Code is made, as instructions may be missing, but not fast code, which takes a minute.
    replaced = ("-march", "-O", "-ftree", "-funswitch", "-fpeel", "-fvect")
    flags = [x for x in kernel_flags() if not x.startswith(replaced)]
    done = subprocess.run(
        [compiler, *flags, "-O1", arch, "-c", "-o", "/dev/null", str(source)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[:10000]
