# SPDX-License-Identifier: BSD-3-Clause
"""Generated kernels compile with NVRTC for every supported generation: no GPU, no spills."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import pytest
import torch
from helpers import (
    DEVICE,
    LAYOUTS,
    TORCH,
    Layout,
    data_type,
    define,
    row_major,
    tensor,
)
from nvfuse_direct import DataType, FusionDefinition, SchedulerType
from op_table import BINARY, SCALAR_BOUNDED, TERNARY, UNARY

extension = pytest.importorskip("nvfuse_direct._C_DIRECT")

Definition = Callable[[FusionDefinition, Sequence[object]], object]
ARCHITECTURES = (80, 90, 100)
NAMES = {torch.bfloat16: DataType.BFloat16, torch.float: DataType.Float}


@pytest.fixture(scope="module", autouse=True)
def nvrtc() -> None:
    reason = extension._nvrtc_error()
    if reason:
        pytest.skip(f"no NVRTC: {reason}")


def kernels_of(build: Definition, inputs: list[object]) -> list[str]:
    """The texts of all kernels that a fusion was cut into."""

    def definition(fd: FusionDefinition) -> None:
        build(fd, [fd.from_pytorch(each) for each in inputs])

    inputs = [each.to(DEVICE) if isinstance(each, torch.Tensor) else each for each in inputs]
    fusion = define(definition)
    fusion.execute(inputs, device=DEVICE)
    text = fusion.fec.get_cuda_kernel(inputs)
    parts = re.split(r"(?=^NVF_KERNEL\()", text, flags=re.MULTILINE)
    kernels = [part for part in parts if part.startswith("NVF_KERNEL(")]
    assert kernels, text
    return kernels


def compile_all(build: Definition, inputs: list[object], arch: int, spills: bool = False) -> None:
    for text in kernels_of(build, inputs):
        for wide_index in (False, True):
            resources = extension._compile_cubin(text, arch, wide_index)
            assert resources["cubin_bytes"] > 0
            assert resources["registers"] > 0
            if not spills:
                assert resources["spill_store_bytes"] == 0, text
                assert resources["spill_load_bytes"] == 0, text


def gelu(fd: FusionDefinition, x: object) -> object:
    inner = fd.ops.mul(
        fd.ops.add(x, fd.ops.mul(fd.ops.mul(fd.ops.mul(x, x), x), 0.044715)), 0.7978845608
    )
    return fd.ops.mul(fd.ops.mul(x, 0.5), fd.ops.add(fd.ops.tanh(inner), 1.0))


def rows_of(fd: FusionDefinition, places: object, sizes: list[int]) -> object:
    """One position for all elements of a row."""
    return fd.ops.expand(fd.ops.broadcast(places, [False, True]), sizes)


def bf16(*sizes: int) -> torch.Tensor:
    return tensor(*sizes, dtype=torch.bfloat16)


def outputs(
    function: Callable[[FusionDefinition, Sequence[object]], object], low: str = ""
) -> Definition:
    def build(fd: FusionDefinition, tvs: Sequence[object]) -> None:
        result = function(fd, tvs)
        fd.add_output(fd.ops.cast(result, data_type(low)) if low else result)

    return build


# The cases of the benchmarks at small sizes, then one for each part of code generation.
SLICE: dict[str, tuple[Definition, Callable[[], list[object]]]] = {
    "pointwise_mul": (
        outputs(lambda fd, t: fd.ops.mul(t[0], t[1]), "BFloat16"),
        lambda: [bf16(256, 512), bf16(256, 512)],
    ),
    "silu_mul": (
        outputs(lambda fd, t: fd.ops.mul(fd.ops.mul(t[0], fd.ops.sigmoid(t[0])), t[1]), "BFloat16"),
        lambda: [bf16(256, 512), bf16(256, 512)],
    ),
    "variance_of_product": (
        lambda fd, t: fd.add_output(fd.ops.var(fd.ops.mul(t[0], t[1]), [1], 1)),
        lambda: [bf16(256, 520).float(), bf16(256, 520).float()],
    ),
    "bias_gelu": (
        outputs(lambda fd, t: gelu(fd, fd.ops.add(t[0], t[1])), "BFloat16"),
        lambda: [bf16(256, 512), bf16(512)],
    ),
    "relu_add_mul": (
        outputs(lambda fd, t: fd.ops.mul(fd.ops.relu(fd.ops.add(t[0], t[1])), 2.0)),
        lambda: [tensor(256, 512), tensor(256, 512)],
    ),
    "double": (
        outputs(lambda fd, t: fd.ops.exp(t[0])),
        lambda: [tensor(64, 64, dtype=torch.double)],
    ),
    "half_odd": (
        outputs(lambda fd, t: fd.ops.tanh(t[0]), "Half"),
        lambda: [tensor(37, 41, dtype=torch.half)],
    ),
    "outer_broadcast": (
        outputs(lambda fd, t: fd.ops.add(t[0], t[1])),
        lambda: [tensor(64, 1), tensor(1, 96)],
    ),
    "transposed": (
        outputs(lambda fd, t: fd.ops.add(t[0], t[1])),
        lambda: [tensor(96, 64).t(), tensor(64, 96)],
    ),
    "strided": (
        outputs(lambda fd, t: fd.ops.neg(t[0])),
        lambda: [Layout((33, 7), (28, 3), 1).fill(torch.float)],
    ),
    "reshape_permute": (
        outputs(
            lambda fd, t: fd.ops.permute(fd.ops.reshape(fd.ops.neg(t[0]), [12, 8, 16]), [1, 0, 2])
        ),
        lambda: [tensor(96, 16)],
    ),
    "pad_slice_cat": (
        outputs(
            lambda fd, t: fd.ops.cat(
                [
                    fd.ops.pad(fd.ops.neg(t[0]), [1, 2]),
                    fd.ops.pad(fd.ops.slice(t[0], [1, 0], [5, 16]), [3, 0]),
                ],
                0,
            )
        ),
        lambda: [tensor(9, 16)],
    ),
    "uniform": (
        outputs(lambda fd, t: fd.ops.mul(t[0], fd.ops.rand_like(t[0]))),
        lambda: [tensor(64, 64)],
    ),
    "normal": (
        outputs(lambda fd, t: fd.ops.add(t[0], fd.ops.randn_like(t[0]))),
        lambda: [tensor(64, 64)],
    ),
    "iota_where": (
        outputs(lambda fd, t: fd.ops.triu(t[0], 1)),
        lambda: [tensor(33, 65)],
    ),
    "complex": (
        outputs(lambda fd, t: fd.ops.exp(fd.ops.mul(t[0], t[0]))),
        lambda: [tensor(33, 65, dtype=torch.complex64)],
    ),
    "integers": (
        outputs(lambda fd, t: fd.ops.remainder(fd.ops.mul(t[0], 3), 7)),
        lambda: [tensor(33, 65, dtype=torch.int64)],
    ),
    "embedding": (
        outputs(lambda fd, t: fd.ops.embedding_fwd(t[0], t[1])),
        lambda: [torch.arange(12).reshape(3, 4), bf16(12, 64)],
    ),
    "take_along_axis": (
        outputs(lambda fd, t: fd.ops.take_along_axis(t[0], t[1], 1)),
        lambda: [tensor(8, 33), torch.zeros(8, 1, dtype=torch.int32)],
    ),
    "cumsum": (
        outputs(lambda fd, t: fd.ops.cumsum(t[0], 1)),
        lambda: [bf16(300, 33)],
    ),
    "scatter": (
        outputs(lambda fd, t: fd.ops.scatter(t[0], t[1], t[0], 1)),
        lambda: [tensor(300, 33), torch.zeros(300, 5, dtype=torch.int64)],
    ),
    "topk": (
        lambda fd, t: [fd.add_output(out) for out in fd.ops.topk(t[0], 8, 1, True, True)],
        lambda: [bf16(300, 128)],
    ),
    "scatter of short lines": (
        outputs(lambda fd, t: fd.ops.scatter(t[0], t[1], t[0], 1)),
        lambda: [tensor(300, 6), torch.zeros(300, 2, dtype=torch.int64)],
    ),
    "scatter of rows": (
        outputs(lambda fd, t: fd.ops.scatter(t[0], rows_of(fd, t[1], [50, 64]), t[2], 0)),
        lambda: [bf16(300, 64), torch.zeros(50, dtype=torch.int64), bf16(50, 64)],
    ),
}


@pytest.mark.machine("hopper")
@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize("name", SLICE)
def test_slice(name: str, arch: int) -> None:
    build, make_inputs = SLICE[name]
    compile_all(build, make_inputs(), arch)


def columns_over(blocks: int, grid: bool) -> str:
    """The kernel of a softmax of columns that blocks of a cluster or of the grid share."""
    x = torch.empty(96 * blocks, 32, dtype=torch.bfloat16)
    with FusionDefinition() as fd:
        ops, tv = fd.ops, fd.ops.cast(fd.from_pytorch(x), DataType.Float)
        exponential = ops.exp(ops.sub(tv, ops.max(tv, [0], keepdim=True)))
        total = ops.sum(exponential, [0], keepdim=True)
        fd.add_output(ops.cast(ops.div(exponential, total), DataType.BFloat16))
        kind = SchedulerType.outer_persistent
        params = fd.sched.compute_heuristics(fd.fusion, kind, [x])
        params.cross_grid_outer_reduction = grid
        params.cluster_size = 1 if grid else blocks
        params.lparams.bdimx, params.lparams.bdimy = 16, 32
        params.lparams.gdimy = blocks
        fd.sched.schedule(fd.fusion, kind, params)
    return fd.fusion.print_kernel()


@pytest.mark.parametrize(
    ("blocks", "grid", "oldest"),
    [(1, False, 80), (2, False, 90), (16, False, 90), (2, True, 80), (33, True, 80)],
)
def test_shared_columns(blocks: int, grid: bool, oldest: int) -> None:
    text = columns_over(blocks, grid)
    for arch in ARCHITECTURES:
        if arch >= oldest:
            resources = extension._compile_cubin(text, arch, False)
            assert resources["spill_store_bytes"] == resources["stack_bytes"] == 0, text


def kernel_in_a_row_of_kernels(text: str) -> str:
    """The text that the same kernel has on a GPU whose kernels start before the ones before end."""
    head, body = text.split(" {\n", 1)
    return f"{head} {{\n  nvf::waitForPreviousKernel();\n  nvf::letNextKernelStart();\n{body}"


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_kernels_that_follow_each_other_compile_for_gpus_that_do_not_overlap_them(
    arch: int,
) -> None:
    build, make_inputs = SLICE["scatter"]
    (text, *_) = kernels_of(build, make_inputs())
    resources = extension._compile_cubin(kernel_in_a_row_of_kernels(text), arch, False)
    assert resources["cubin_bytes"] > 0


@pytest.mark.machine("hopper")
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float])
def test_loads_that_are_evicted_last(dtype: torch.dtype) -> None:
    """With guards too: the row is no whole number of blocks.

    They cost no registers: the hardware gives a thread whole groups of eight.
    """
    rows = 1 << 9 if DEVICE.type == "cpu" else 1 << 14
    x, weight = tensor(rows, 10248, dtype=dtype), tensor(10248, dtype=dtype)

    def build(fd: FusionDefinition, tvs: Sequence[object]) -> None:
        a, w = (fd.ops.cast(each, DataType.Float) for each in tvs)
        mean = fd.ops.mul(fd.ops.sum(fd.ops.mul(a, a), [1], keepdim=True), 1 / 10248)
        scaled = fd.ops.mul(a, fd.ops.rsqrt(fd.ops.add(mean, 1e-5)))
        out = fd.ops.mul(scaled, fd.ops.broadcast(w, [True, False]))
        fd.add_output(fd.ops.cast(out, NAMES[dtype]))

    (text,) = kernels_of(build, [x, weight])
    last = ", nvf::CacheOp::EvictLast"
    assert last in text
    for arch in (90, 100):  # rows may be shared by clusters
        with_hint, without = (
            -(-extension._compile_cubin(each, arch, False)["registers"] // 8)
            for each in (text, text.replace(last, ""))
        )
        assert with_hint <= without, arch


def test_fp8_kernels_compile_where_the_hardware_has_it() -> None:
    x = tensor(64, 64).to(torch.float8_e4m3fn)

    def build(fd: FusionDefinition, tvs: Sequence[object]) -> None:
        y = fd.ops.mul(tvs[0], 2.0)
        fd.add_output(fd.ops.cast(y, DataType.Float8_e5m2))
        fd.add_output(fd.ops.cast(y, DataType.Float8_e4m3fn))

    for arch in (90, 100):
        compile_all(build, [x], arch)


def test_fp4_and_e8m0_kernels_compile_for_blackwell() -> None:
    x = tensor(64, 64)

    def build(fd: FusionDefinition, tvs: Sequence[object]) -> None:
        fd.add_output(fd.ops.cast(tvs[0], DataType.Float4_e2m1fn))
        fd.add_output(fd.ops.cast(fd.ops.abs(tvs[0]), DataType.Float8_e8m0fnu))

    compile_all(build, [x], 100)


@pytest.mark.parametrize(
    "dtype", ["Float", "Half", "Double", "Int", "Int32", "Bool", "ComplexFloat"]
)
@pytest.mark.parametrize("table", ["unary", "binary", "ternary"])
def test_every_op_compiles(table: str, dtype: str) -> None:
    """All ops of a dtype in one kernel (which may spill: no user writes it)."""
    ops = {"unary": [*UNARY, *SCALAR_BOUNDED], "binary": BINARY, "ternary": TERNARY}[table]
    chosen = [op for op in ops if dtype in op.dtypes()]
    if not chosen:
        return
    arity = {"unary": 1, "binary": 2, "ternary": 3}[table]
    small = {"low": 1.0, "high": 3.0} if dtype in ("Int", "Int32") else {}
    inputs: list[object] = [
        LAYOUTS["even"].fill(TORCH[dtype], seed, **small) for seed in range(arity)
    ]

    def build(fd: FusionDefinition, tvs: Sequence[object]) -> None:
        for op in chosen:
            arguments = tvs[:1] if table == "unary" else tvs
            fd.add_output(getattr(fd.ops, op.name)(*arguments, *op.extra))

    compile_all(build, inputs, 90, spills=True)


def test_zero_dim_and_scalars() -> None:
    def build(fd: FusionDefinition) -> None:
        x = fd.from_pytorch(row_major(()).fill(torch.float))
        s = fd.define_scalar(DataType.Double)
        fd.add_output(fd.ops.mul(x, s))

    fusion = define(build)
    inputs = [row_major(()).fill(torch.float), 2.0]
    fusion.execute(inputs)
    text = fusion.fec.get_cuda_kernel(inputs)
    for arch in ARCHITECTURES:
        assert (
            extension._compile_cubin(text[text.index("NVF_KERNEL(") :], arch, False)["registers"]
            > 0
        )


def test_text_is_readable_and_repeats() -> None:
    """Same input, same text; no include; one statement a line."""
    build, make_inputs = SLICE["bias_gelu"]
    first, second = (kernels_of(build, make_inputs()) for _ in range(2))
    assert [re.sub(r"_f\d+_c\d+_r\d+_g\d+", "", text) for text in first] == [
        re.sub(r"_f\d+_c\d+_r\d+_g\d+", "", text) for text in second
    ]
    for text in first:
        assert "#include" not in text
        assert max(map(len, text.splitlines())) < 240


def test_limits_of_registers_are_kept() -> None:
    """Of a user, and of a schedule where little is spilled for it."""

    def build(fd: FusionDefinition, tvs: Sequence[object]) -> None:
        x = fd.ops.cast(tvs[0], DataType.Float)
        rows = fd.ops.broadcast(fd.ops.sum(x, [1]), [False, True])
        fd.add_output(fd.ops.cast(fd.ops.mul(fd.ops.exp(x), rows), DataType.BFloat16))

    (text,) = kernels_of(build, [bf16(64, 8192)])

    def registers(**limits: int) -> int:
        return extension._compile_cubin(text, 90, False, **limits)["registers"]

    usual = registers()
    assert usual > 32
    assert registers(most_registers=usual - 8) <= usual - 8
    assert registers(wanted_registers=usual) == usual
    assert registers(wanted_registers=usual - 8) <= usual
    assert registers(wanted_registers=16) == usual


@pytest.mark.machine("hopper")
def test_rows_are_converted_again_for_more_blocks() -> None:
    """Of threads with 64 elements of a row, which the compiler would keep as floats beside them."""

    def build(fd: FusionDefinition, tvs: Sequence[object]) -> None:
        x = fd.ops.cast(tvs[0], DataType.Float)
        top = fd.ops.broadcast(fd.ops.max(x, [1]), [False, True])
        power = fd.ops.exp(fd.ops.sub(x, top))
        total = fd.ops.broadcast(fd.ops.sum(power, [1]), [False, True])
        part = fd.ops.mul(power, fd.ops.reciprocal(total))
        fd.add_output(fd.ops.cast(part, DataType.BFloat16))

    (text,) = kernels_of(build, [bf16(512, 262144)])
    again = re.sub(r"nvf::renewWords\(\w+\);", "", text)
    assert again != text

    def blocks(kernel: str) -> int:
        registers = extension._compile_cubin(kernel, 90, False)["registers"]
        return 65536 // (threads * -(-registers // 8) * 8)

    threads = int(re.findall(r"NVF_KERNEL\(\w+, (\d+)", text)[0])
    assert blocks(text) > blocks(again)
