# SPDX-License-Identifier: BSD-3-Clause
"""Small promises of the contract: methods and fields, CPU inputs, in-place updates in manual
schedules, what importing may touch, settings that name what is not there."""

from __future__ import annotations

import sys
import types
from pathlib import Path

import pytest
import torch
from helpers import DEVICE, ON_CUDA, assert_same, define, run_python, tensor
from nvfuse_direct import (
    CommunicatorBackend,
    DataType,
    FusionDefinition,
    MatmulParams,
    MmaMacroArch,
    MmaMacroEncode,
    ParallelType,
    TensorDomain,
    multidevice,
    pytorch_utils,
)

# ------------------------------------------------------------------------------------ TensorView


def test_domain_and_has_root_are_methods() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], True)
        y = fd.ops.permute(x, [1, 0])
        fd.add_output(y)
        assert isinstance(x.domain(), TensorDomain)
        assert x.domain() == x.domain()
        assert str(x.domain()) in str(x) or "[" in str(x.domain())
        assert not x.has_root()
        assert y.has_root()


def test_swizzle1d_by_the_only_device() -> None:
    x = tensor(4, 6)
    with FusionDefinition() as fd:
        t = fd.from_pytorch(x)
        y = fd.ops.neg(t)
        fd.add_output(y)
        y.split(0, 2, inner_split=False)
        assert y.swizzle1d(0, ParallelType.mesh_x) is y
        y.axis(0).parallelize(ParallelType.stream)
        with pytest.raises(RuntimeError, match=r"swizzle1d of the .*parallel type of devices"):
            y.swizzle1d(0, ParallelType.block_x)
        with pytest.raises(RuntimeError):
            y.swizzle1d(7, ParallelType.mesh_x)
    assert_same(fd.execute([x])[0], -x)


def test_swizzle1d_leaves_a_kernel_as_it_is() -> None:
    x = tensor(4, 6)
    texts = []
    for rotated in (True, False):
        with FusionDefinition() as fd:
            y = fd.ops.neg(fd.from_pytorch(x))
            fd.add_output(y)
            y.split(0, 2)
            if rotated:
                y.swizzle1d(1, ParallelType.mesh_x).swizzle1d(-1, ParallelType.mesh_y)
            y.axis(0).parallelize(ParallelType.grid_x)
            with pytest.raises(RuntimeError, match="axis 0 is parallelized already"):
                y.swizzle1d(0, ParallelType.mesh_x)
        assert_same(fd.manual_execute([x])[0], -x)
        texts.append(fd.fusion.print_kernel())
    assert texts[0] == texts[1]


# ---------------------------------------------------------------------------------- multi-device


def test_multi_device_executor_on_one_device() -> None:
    params = multidevice.MultiDeviceExecutorParams()
    assert params.use_allocation_cache is False
    assert params.number_of_streams == 4
    assert params.backend_type == CommunicatorBackend.nccl
    assert params.offset_stream_indexing_by_rank is False
    assert params.inter_stream_synchronization is False
    params.backend_type = CommunicatorBackend.cuda
    params.number_of_streams = 2

    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], True)
        y = fd.ops.sum(fd.ops.exp(x), [1])
        fd.add_output(y)
        fd.add_output(fd.ops.neg(x))
    executor = multidevice.MultiDeviceExecutor(fd.fusion, params)
    a = tensor(5, 7)
    total, negated = executor.run([a])
    assert_same(total, a.exp().sum(1), rtol=1e-5)
    assert_same(negated, -a)
    assert "exp" in str(executor)
    # The fusion was copied: it can be executed, and changed, by its owner.
    assert_same(fd.execute([a])[1], -a)


def test_multi_device_executor_refuses_what_needs_devices() -> None:
    params = multidevice.MultiDeviceExecutorParams()
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], True)
        y = fd.ops.neg(x)
        fd.add_output(y)
        y.axis(0).parallelize(ParallelType.mesh_x)
    with pytest.raises(RuntimeError, match=r"MultiDeviceExecutor: T1.*several devices"):
        multidevice.MultiDeviceExecutor(fd.fusion, params)
    params.number_of_streams = 0
    with pytest.raises(RuntimeError, match="number_of_streams must be positive"):
        multidevice.MultiDeviceExecutor(fd.fusion, params)


# -------------------------------------------------------------------------------------- matmul


def test_fields_of_a_macro_can_be_set() -> None:
    macro = MmaMacroEncode(MmaMacroArch.hopper, 64, 128, 16).mma_macro()
    before = hash(macro)
    macro.n = 256
    assert (macro.arch, macro.m, macro.n, macro.k) == (MmaMacroArch.hopper, 64, 256, 16)
    assert macro == MmaMacroEncode(MmaMacroArch.hopper, 64, 256, 16).mma_macro()
    assert hash(macro) != before
    macro.arch, macro.m, macro.n, macro.k = MmaMacroArch.ampere, 16, 8, 16
    assert macro == MmaMacroEncode(MmaMacroArch.ampere, 16, 8, 16).mma_macro()
    params = MatmulParams()
    params.mma_macro = macro
    assert params.mma_macro == macro
    with pytest.raises(TypeError):
        macro.m = -1


# ------------------------------------------------------------------------------------ CPU inputs


def test_a_cpu_tensor_of_any_rank_can_be_declared() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], True, is_cpu=True)
        y = fd.define_tensor([-1], contiguity=[True], is_cpu=True)
        z = fd.define_tensor(sizes=[2, 3], strides=[3, 1], is_cpu=True)
        fd.add_output(fd.ops.add(fd.ops.add(x, y), z))
    a, b, c = torch.randn(2, 3), torch.randn(3), torch.randn(2, 3)
    assert_same(fd.execute([a, b, c])[0], a + b + c)
    scope: dict[str, object] = {"FusionDefinition": FusionDefinition, "DataType": DataType}
    exec(repr(fd), scope)
    with FusionDefinition() as again:
        scope["nvfuser_fusion"](again)
    assert again.fusion == fd.fusion


@pytest.mark.skipif(not ON_CUDA, reason="needs a CUDA device")
def test_cpu_tensors_are_not_mixed_with_cuda_tensors() -> None:
    for is_cpu in (False, True):
        with FusionDefinition() as fd:
            x = fd.define_tensor([-1, -1], True)
            y = fd.define_tensor([-1, -1], True, is_cpu=is_cpu)
            fd.add_output(fd.ops.add(x, y))
        with pytest.raises(RuntimeError, match=r"input 1.*only 0-d ones can be mixed with CUDA"):
            fd.execute([tensor(2, 3), torch.randn(2, 3)])
        both = tensor(2, 3)
        assert_same(fd.execute([both, both])[0], both + both)


# ------------------------------------------------------------------ in-place updates by hand


UPDATES = {
    "read_elsewhere": lambda fd, x, y: (
        fd.add_output(fd.ops.add(x, y), x),
        fd.add_output(fd.ops.neg(x)),
    ),
    "read_transposed": lambda fd, x, y: (
        fd.add_output(fd.ops.add(fd.ops.permute(x, [1, 0]), y), x),
        fd.add_output(fd.ops.mul(x, y)),
    ),
    "read_as_a_row": lambda fd, x, y: fd.add_output(
        fd.ops.sub(x, fd.ops.broadcast(fd.ops.sum(x, [1]), [False, True])), x
    ),
    "both": lambda fd, x, y: (
        fd.add_output(fd.ops.add(x, 1.0), y),
        fd.add_output(fd.ops.mul(y, 2.0), x),
    ),
}


@pytest.mark.parametrize(
    ("name", "layout"),
    # Of two outputs in shared rows the last one would win.
    [
        (name, layout)
        for name in UPDATES
        for layout in ("dense", "strided", "shared")
        if (name, layout) != ("both", "shared")
    ],
)
def test_manual_execution_updates_what_execute_updates(name: str, layout: str) -> None:
    """The kernel reads old values while others are overwritten."""

    def build(fd: FusionDefinition) -> None:
        x, y = (fd.define_tensor([-1, -1], [False, False]) for _ in range(2))
        UPDATES[name](fd, x, y)

    def fresh() -> list[torch.Tensor]:
        if layout == "dense":
            return [tensor(9, 9), tensor(9, 9, seed=1)]
        if layout == "strided":
            return [tensor(9, 18)[:, ::2], tensor(18, 9, seed=1)[::2]]
        both = tensor(12, 9)
        return [both[:9], both[3:]]

    automatic, manual = fresh(), fresh()
    expected = define(build).execute(automatic)
    fd = define(build)
    for _ in range(2):
        actual = fd.manual_execute(manual)
        for got, want in zip(actual, expected, strict=True):
            assert_same(got, want, rtol=1e-5, atol=1e-5)
        for got, want in zip(manual, automatic, strict=True):
            assert_same(got, want, rtol=1e-5, atol=1e-5)
        manual = fresh()


# ------------------------------------------------------------------------------ Python helpers


def test_get_device_index() -> None:
    index = FusionDefinition()._get_device_index
    assert index(None) is None
    assert index(3) == 3
    assert index("cuda:2") == 2
    assert index(torch.device("cuda", 1)) == 1
    for wrong in ("cpu", torch.device("cpu"), 256, -1):
        with pytest.raises((AssertionError, RuntimeError)):
            index(wrong)
    if ON_CUDA:
        assert index("cuda") == torch.cuda.current_device()


def test_outputs_of_a_call_are_checked() -> None:
    x = tensor(8)
    fd = define(lambda fd: fd.add_output(fd.ops.neg(fd.from_pytorch(x))))
    fd.execute([x])
    fd._validate([x], [-x])
    fd._validate([x], [-x], [-x])
    with pytest.raises(AssertionError):
        fd._validate([x], [x + 1])


def test_number_types() -> None:
    assert set(pytorch_utils.NumberTypeType.__args__) == {
        type[bool],
        type[int],
        type[float],
        type[complex],
    }


# ---------------------------------------------------------------------------------- importing

WITHOUT_CUDA = """
    import torch

    def refuse(name):
        def refused(*args, **kwargs):
            raise AssertionError(f"importing called torch.cuda.{name}")
        return refused

    for name in ("init", "_lazy_init", "current_device", "device_count", "is_available",
                 "get_device_properties", "get_device_name", "get_device_capability",
                 "set_device", "current_stream", "mem_get_info", "synchronize"):
        setattr(torch.cuda, name, refuse(name))
    for name in dir(torch._C):
        if name.startswith("_cuda_") and callable(getattr(torch._C, name)):
            setattr(torch._C, name, refuse(name))

    def opened_driver():
        with open("/proc/self/maps") as maps:
            return "libcuda.so" in maps.read()

    by_torch = opened_driver()
    import nvfuse_direct, nvfuser_direct, nvfuser
    import nvfuser_direct.pytorch_utils, nvfuser_direct.benchmark_utils
    import nvfuser_direct.nvfuser_direct_version, nvfuser_direct.version
    import nvfuser_common.utils
    assert callable(nvfuser_direct.version)
    assert by_torch or not opened_driver(), "importing opened the driver"
    print("imported")
"""


def test_importing_leaves_cuda_alone() -> None:
    done = run_python(WITHOUT_CUDA)
    assert "imported" in done.stdout, done.stderr


def test_device_properties_are_read_on_demand() -> None:
    from nvfuse_direct.pytorch_utils import DEVICE_PROPERTIES

    assert (DEVICE_PROPERTIES is not None) == torch.cuda.is_available()
    with pytest.raises(AttributeError, match="NO_SUCH_NAME"):
        _ = pytorch_utils.NO_SUCH_NAME


# --------------------------------------------------------------------------- wrong environment

ONE_KERNEL = """
    from helpers import *
    x = tensor(5)
    for run in ("execute", "manual_execute"):
        fd = define(lambda fd: fd.add_output(fd.ops.neg(fd.define_tensor([-1], True))))
        try:
            getattr(fd, run)([x])
        except RuntimeError as error:
            print(run, "refused:", error)
        else:
            print(run, "ran")
"""


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("NVFUSER_HOST_CXX", "/no/such/compiler", "there is no program /no/such/compiler"),
        ("NVFUSER_HOST_THREADS", "-1", "must be between 1 and 1024, got -1"),
        ("NVFUSER_HOST_THREADS", "0", "must be between 1 and 1024, got 0"),
        ("NVFUSER_HOST_THREADS", "many", 'must be an integer, got "many"'),
        ("NVFUSER_EXTERNAL_SRC", "/no/such/kernel.cu", "can not read /no/such/kernel.cu"),
    ],
)
def test_settings_that_mean_nothing_are_errors(variable: str, value: str, message: str) -> None:
    if ON_CUDA and variable.startswith("NVFUSER_HOST"):
        pytest.skip("settings of the host target")
    done = run_python(ONE_KERNEL, {variable: value})
    lines = done.stdout.splitlines()
    assert len(lines) == 2, done.stdout + done.stderr
    for line in lines:
        assert "refused" in line and variable in line and message in line, done.stdout


# ------------------------------------------------------------------------------------- CUPTI


class Activity:
    def __init__(self, kind: str, name: str, start: int, end: int) -> None:
        self.kind, self.name, self.start, self.end = kind, name, start, end


class FakeCupti(types.ModuleType):
    """Reports two kernels and a copy whenever it is flushed while it records."""

    class ActivityKind:
        CONCURRENT_KERNEL = "kernel"

    def __init__(self) -> None:
        super().__init__("cupti.cupti")
        self.recording, self.calls = False, []

    def activity_register_callbacks(self, requested: object, completed: object) -> None:
        self.requested, self.completed = requested, completed

    def activity_enable(self, kind: str) -> None:
        self.recording = True

    def activity_disable(self, kind: str) -> None:
        self.completed(
            [
                Activity("kernel", "_Z3addv", 1000, 3000),
                Activity("copy", "memcpy", 0, 10**9),
                Activity("kernel", "nvfuser_pointwise", 5000, 6000),
            ]
        )

    def activity_flush_all(self, flag: int) -> None:
        self.calls.append(flag)

    def finalize(self) -> None:
        self.calls.append("finalize")


@pytest.fixture
def cupti(monkeypatch: pytest.MonkeyPatch) -> FakeCupti:
    module = FakeCupti()
    package = types.ModuleType("cupti")
    package.cupti = module
    demangler = types.ModuleType("cxxfilt")
    demangler.demangle = lambda name: {"_Z3addv": "add()"}[name]
    for name, value in (("cupti", package), ("cupti.cupti", module), ("cxxfilt", demangler)):
        monkeypatch.setitem(sys.modules, name, value)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    return module


def test_cupti_profiler(cupti: FakeCupti) -> None:
    from nvfuse_direct.benchmark_utils import CuptiProfiler

    profiler = CuptiProfiler()
    try:
        assert cupti.requested()[0] > 0
        with pytest.raises(RuntimeError, match="not recording"):
            profiler.stop()
        with pytest.raises(RuntimeError, match="there is a CuptiProfiler already"):
            CuptiProfiler()
        for _ in range(2):
            profiler.start()
            assert profiler.stop() == [
                ("add()", pytest.approx(2e-6)),
                ("nvfuser_pointwise", pytest.approx(1e-6)),
            ]
    finally:
        profiler.teardown_cupti()
    assert cupti.calls[-1] == "finalize"
    CuptiProfiler().teardown_cupti()


def test_cupti_timer(cupti: FakeCupti) -> None:
    from nvfuse_direct.benchmark_utils import CuptiTimer

    timer = CuptiTimer()
    assert timer() == 0.0
    assert timer() == pytest.approx(3e-6)
    assert timer() == pytest.approx(3e-6)
    assert timer() == pytest.approx(6e-6)
    timer.cleanup()
    assert timer.current_time == 0.0


def test_cupti_that_fails_or_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    from nvfuse_direct import benchmark_utils

    def cuptiSubscribe() -> None:
        raise ValueError("busy")

    with pytest.raises(RuntimeError, match="cuptiSubscribe failed: busy"):
        benchmark_utils.cupti_call_safe(cuptiSubscribe)
    assert benchmark_utils.cupti_call_safe(max, 1, 2) == 2
    for name in ("cupti", "cupti.cupti", "cxxfilt"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match="pip install cupti-python"):
        benchmark_utils.CuptiProfiler()
    with pytest.raises(ImportError, match="pip install cxxfilt"):
        benchmark_utils.demangle_kernel_name("_Z3addv")
    assert benchmark_utils.demangle_kernel_name("nvfuser_pointwise") == "nvfuser_pointwise"


def test_common_package_finds_the_library() -> None:
    from nvfuser_common.utils import cmake_prefix_path

    assert list(Path(cmake_prefix_path).rglob("nvfuser-config.cmake"))
    assert DEVICE.type in ("cpu", "cuda")
