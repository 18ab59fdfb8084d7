# SPDX-License-Identifier: BSD-3-Clause
"""NVFUSER_ENABLE=tma_pointwise, tma_inner_persistent, tma_reduction and ws_normalization: inputs
come into shared memory by bulk copies where they are one piece of memory, and as ever elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pytest
import torch
from helpers import DEVICE, ON_CUDA, run_python
from nvfuse_direct import DataType, FusionDefinition, PointwiseParams, ReductionParams

HAS_BULK = not ON_CUDA or torch.cuda.get_device_capability(DEVICE)[0] >= 9
pytestmark = [
    pytest.mark.machine("hopper"),
    pytest.mark.skipif(not HAS_BULK, reason="needs compute capability 9.0"),
]

TYPES = {torch.float: DataType.Float, torch.bfloat16: DataType.BFloat16}
TOLERANCE = {torch.float: 1e-5, torch.bfloat16: 1e-2}
Tensors = Sequence[torch.Tensor]


def softmax(fd: FusionDefinition, x):
    o = fd.ops
    e = o.exp(o.sub(x, o.max(x, [-1], keepdim=True)))
    return o.div(e, o.sum(e, [-1], keepdim=True))


def layer_norm(fd: FusionDefinition, x, weight, bias):
    o = fd.ops
    var, mean = o.var_mean(x, [-1], 0, True)
    normal = o.mul(o.sub(x, mean), o.rsqrt(o.add(var, 1e-5)))
    return o.add(
        o.mul(normal, o.broadcast(weight, [True, False])), o.broadcast(bias, [True, False])
    )


def residual_norm(fd: FusionDefinition, x, y):
    o = fd.ops
    total = o.add(x, y)
    return o.mul(total, o.rsqrt(o.sum(o.mul(total, total), [-1], keepdim=True)))


def sum_of_rows(fd: FusionDefinition, x):
    return fd.ops.sum(x, [1])


def weighted_sum(fd: FusionDefinition, x, weight):
    return fd.ops.sum(fd.ops.mul(x, fd.ops.broadcast(weight, [True, False])), [1])


def sum_of_planes(fd: FusionDefinition, x):
    return fd.ops.sum(x, [1, 2])


def sum_of_all(fd: FusionDefinition, x):
    return fd.ops.sum(x, [0, 1])


def silu(fd: FusionDefinition, x):
    return fd.ops.mul(x, fd.ops.sigmoid(x))


def product(fd: FusionDefinition, x, y):
    return fd.ops.mul(x, y)


def biased(fd: FusionDefinition, x, bias):
    return fd.ops.tanh(fd.ops.add(x, fd.ops.broadcast(bias, [True, False])))


def with_slices(fd: FusionDefinition, x):
    rows, columns = 64, 256
    left = fd.ops.slice(x, [0, 0], [rows, columns])
    return fd.ops.mul(left, fd.ops.slice(x, [0, columns], [rows, 2 * columns]))


REFERENCES: dict[Callable, Callable[..., torch.Tensor]] = {
    softmax: lambda x: torch.softmax(x, -1),
    layer_norm: lambda x, w, b: torch.nn.functional.layer_norm(x, w.shape, w, b),
    residual_norm: lambda x, y: (x + y) / (x + y).norm(dim=-1, keepdim=True),
    sum_of_rows: lambda x: x.sum(1),
    weighted_sum: lambda x, w: (x * w).sum(1),
    sum_of_planes: lambda x: x.sum([1, 2]),
    sum_of_all: lambda x: x.sum(),
    silu: torch.nn.functional.silu,
    product: lambda x, y: x * y,
    biased: lambda x, b: torch.tanh(x + b),
    with_slices: lambda x: x[:64, :256] * x[:64, 256:512],
}


@dataclass
class Case:
    option: str
    pattern: Callable
    sizes: list[list[int]]
    dtype: torch.dtype
    in_bulk: bool = True
    offset: int = 0  # elements that the first input begins after an aligned address

    def inputs(self) -> list[torch.Tensor]:
        torch.manual_seed(0)
        out = []
        for i, sizes in enumerate(self.sizes):
            offset = self.offset if i == 0 else 0
            count = torch.Size(sizes).numel()
            values = torch.randn(count + offset, dtype=torch.double).to(self.dtype).to(DEVICE)
            out.append(values[offset:].view(sizes))
        return out

    def define(self, inputs: Tensors, static: bool = False) -> FusionDefinition:
        with FusionDefinition() as fd:
            tensors = [
                fd.ops.cast(fd.from_pytorch(t, static_sizes=static), DataType.Float) for t in inputs
            ]
            fd.add_output(fd.ops.cast(self.pattern(fd, *tensors), TYPES[self.dtype]))
        return fd

    def check(self, out: torch.Tensor, inputs: Tensors) -> None:
        expected = REFERENCES[self.pattern](*(t.double() for t in inputs))
        off = (out.double() - expected).abs().max() / expected.abs().max()
        assert float(off) < TOLERANCE[self.dtype], float(off)


BF16, F32 = torch.bfloat16, torch.float
PERSISTENT, WARPS = "tma_inner_persistent", "ws_normalization"
REDUCTION, POINTWISE = "tma_reduction", "tma_pointwise"
CASES = [
    Case(PERSISTENT, softmax, [[5, 1000]], F32),
    Case(PERSISTENT, softmax, [[301, 40]], BF16),  # several rows in a block, the last one has fewer
    Case(PERSISTENT, softmax, [[2, 3, 5, 256]], BF16),
    Case(PERSISTENT, softmax, [[3, 40000]], BF16),  # a cluster, whose last block has less
    Case(PERSISTENT, layer_norm, [[20, 16384], [16384], [16384]], BF16),  # rows are read again
    Case(PERSISTENT, layer_norm, [[9, 3072], [3072], [3072]], F32),
    Case(PERSISTENT, residual_norm, [[9, 4096], [9, 4096]], BF16),
    Case(PERSISTENT, softmax, [[5, 8190]], BF16, in_bulk=False),
    Case(PERSISTENT, softmax, [[5, 1024]], BF16, in_bulk=False, offset=4),
    Case(REDUCTION, sum_of_rows, [[5, 100000]], F32),
    Case(REDUCTION, sum_of_rows, [[30, 40008]], BF16),
    Case(REDUCTION, weighted_sum, [[7, 30000], [30000]], F32),
    Case(REDUCTION, sum_of_planes, [[3, 250, 400]], F32),
    Case(REDUCTION, sum_of_all, [[500, 2000]], F32),
    Case(REDUCTION, sum_of_rows, [[5, 100001]], F32, in_bulk=False),
    Case(REDUCTION, sum_of_rows, [[70, 96]], F32, in_bulk=False),  # one iteration
    Case(POINTWISE, silu, [[65, 96]], F32),
    Case(POINTWISE, product, [[65, 1000], [65, 1000]], BF16),
    Case(POINTWISE, biased, [[1030, 1000], [1000]], BF16),
    Case(POINTWISE, product, [[3, 7, 5, 24], [3, 7, 5, 24]], F32),
    Case(POINTWISE, silu, [[3, 77]], F32, in_bulk=False),
    Case(POINTWISE, silu, [[64, 64]], F32, in_bulk=False, offset=1),
    Case(POINTWISE, with_slices, [[64, 512]], F32, in_bulk=False),
    Case(WARPS, softmax, [[131, 2048]], BF16),
    Case(WARPS, layer_norm, [[67, 4096], [4096], [4096]], BF16),
    Case(WARPS, layer_norm, [[41, 5000], [5000], [5000]], F32),
    Case(WARPS, residual_norm, [[71, 3000], [71, 3000]], BF16),
    Case(WARPS, softmax, [[5, 2048]], BF16, in_bulk=False),
    Case(WARPS, softmax, [[41, 65536]], BF16, in_bulk=False),
]
OPTIONS = [PERSISTENT, REDUCTION, POINTWISE, WARPS]
# How many times the rows a GPU gets, so that its many processors each have several iterations.
MORE_ROWS = {WARPS: 60, REDUCTION: 40}

# Options are read when the first kernel is made.
RUN_CASES = """
from test_bulk_loads import CASES, run_case

for case in CASES:
    if case.option == "{option}" and (case.in_bulk or not {seed}):
        try:
            run_case(case)
        except Exception as error:
            print("failed:", case, error)
print("done")
"""


def run_case(case: Case) -> None:
    if ON_CUDA and case.in_bulk:
        factor = MORE_ROWS.get(case.option, 1)
        case.sizes = [[factor * s[0], *s[1:]] if len(s) > 1 else s for s in case.sizes]
    inputs = case.inputs()
    fd = case.define(inputs)
    case.check(fd.execute(inputs)[0], inputs)
    assert fd.fec._num_fallbacks == 0
    text = fd.fec.get_cuda_kernel(inputs)
    assert ("BulkToShared(" in text) == case.in_bulk, text
    assert ("syncAllThreads" in text) == (case.option == WARPS and case.in_bulk), text
    if not ON_CUDA and case.in_bulk:
        compile_for_the_gpu(text)


def compile_for_the_gpu(text: str) -> None:
    import nvfuse_direct._C_DIRECT as extension

    if not extension._nvrtc_error():
        assert extension._compile_cubin(text, 90, False)["spill_store_bytes"] == 0


@pytest.mark.parametrize("seed", ["0"] if ON_CUDA else ["0", "3"])
@pytest.mark.parametrize("option", OPTIONS)
def test_option(option: str, seed: str) -> None:
    environment = {"NVFUSER_ENABLE": option, "NVFUSER_HOST_ADVERSARIAL": seed}
    done = run_python(RUN_CASES.format(option=option, seed=seed), environment, timeout=600)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "done", done.stdout


@pytest.mark.parametrize("case", [c for c in CASES if c.in_bulk][::4])
def test_for_one_call(case: Case) -> None:
    inputs = case.inputs()
    fd = case.define(inputs, static=True)
    case.check(fd.execute(inputs, _enable_options=[case.option])[0], inputs)
    assert "iB" in fd.fec.get_most_recent_scheduled_ir() or case.option == WARPS
    case.check(fd.execute(inputs)[0], inputs)


def edited(case: Case, changes: dict) -> tuple[FusionDefinition, Tensors]:
    inputs = case.inputs()
    fd = case.define(inputs)
    fd.execute(inputs)
    (report,) = (r for r in fd.fec._segment_reports(inputs) if r["chosen"])
    fd.fec._set_params({report["segment_id"]: report["chosen"]._with(changes)})
    return fd, inputs


@pytest.mark.parametrize(
    ("case", "changes"),
    [
        (Case("", softmax, [[5, 1000]], F32), {"bulk_loads": True}),
        (Case("", softmax, [[5, 1000]], F32), {"bulk_loads": True, "stage_rows": True}),
        (
            Case("", softmax, [[50, 4096]], BF16),
            {"bulk_loads": True, "row_groups": 6, "circular_buffer_stages": 3},
        ),
        (
            Case("", layer_norm, [[50, 4096], [4096], [4096]], BF16),
            {"bulk_loads": True, "row_groups": 6, "warp_specialized": True, "stage_rows": True},
        ),
        (
            Case("", sum_of_rows, [[5, 100000]], F32),
            {"bulk_loads": True, "circular_buffer_stages": 4},
        ),
        (Case("", product, [[65, 96], [65, 96]], F32), {"bulk_loads": [1]}),
        (Case("", biased, [[1030, 1000], [1000]], BF16), {"bulk_loads": [0]}),
    ],
)
def test_edited_parameters(case: Case, changes: dict, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NVFUSER_HOST_ADVERSARIAL", "7")
    fd, inputs = edited(case, changes)
    case.check(fd.execute(inputs)[0], inputs)
    assert "BulkToShared(" in fd.fec.get_cuda_kernel(inputs)


@pytest.mark.parametrize(
    ("case", "changes", "message"),
    [
        (Case("", sum_of_rows, [[5, 100002]], F32), {"bulk_loads": True}, "multiples of 16 bytes"),
        (Case("", softmax, [[5, 1024]], BF16, offset=4), {"bulk_loads": True}, "not aligned"),
        (Case("", biased, [[1030, 1000], [1000]], BF16), {"bulk_loads": [2]}, "bulk_loads"),
    ],
)
def test_refused_parameters(case: Case, changes: dict, message: str) -> None:
    fd, inputs = edited(case, changes)
    with pytest.raises(Exception, match=message):
        fd.execute(inputs)


@pytest.mark.machine("host")
@pytest.mark.skipif(ON_CUDA, reason="kernels of CPU tensors")
@pytest.mark.parametrize("pattern", [softmax, sum_of_rows])
def test_kernels_for_the_host_itself_copy_nothing_in_bulk(pattern: Callable) -> None:
    for more in ({}, {"stage_rows": True}):
        fd, inputs = edited(Case("", pattern, [[5, 1000]], F32), {"bulk_loads": True, **more})
        with pytest.raises(Exception, match="bulk_loads: not where one thread of the host runs"):
            fd.execute(inputs)


def test_params_are_printed_and_compared() -> None:
    for kind, value in ((PointwiseParams, [0]), (ReductionParams, True)):
        params, usual = kind(), kind()
        params.bulk_loads = value
        assert params != usual
        assert params.hash() != usual.hash()
        assert "bulk" in repr(params)
        assert "bulk" not in repr(usual)
