# SPDX-License-Identifier: BSD-3-Clause
"""The profiler: kernels of a call by name, with times, bytes and launches."""

from __future__ import annotations

import threading

import pytest
import torch
from helpers import DEVICE, ON_CUDA, define, tensor
from nvfuse_direct import (
    DataType,
    FusionDefinition,
    FusionProfile,
    KernelProfile,
    PythonProfiler,
    get_fusion_profile,
    reset_profiler,
)


def two_reductions(fd: FusionDefinition) -> None:
    x = fd.define_tensor([-1, -1, -1], True)
    fd.add_output(fd.ops.sum(fd.ops.exp(fd.ops.sum(x, [0])), [1]))


def profiled(fd: FusionDefinition, inputs: list[torch.Tensor], **options: bool) -> FusionProfile:
    run = fd.execute if options.get("auto_scheduled", True) else fd.manual_execute
    with PythonProfiler(**options) as profiler:
        run(inputs)
    return profiler.profile


def check_kernel(kernel: KernelProfile, position: int) -> None:
    assert kernel.name.startswith("nvfuser_")
    assert kernel.segment_id == position
    assert kernel.device == (DEVICE.index or 0)
    assert isinstance(kernel.stream, int)
    assert kernel.time_ms > 0
    assert kernel.input_bytes > 0 and kernel.output_bytes > 0
    bandwidth = (kernel.input_bytes + kernel.output_bytes) / kernel.time_ms * 1e-6
    assert kernel.effective_bandwidth_gbs == pytest.approx(bandwidth)
    assert kernel.percentage_peak_bandwidth > 0
    for text in (kernel.grid_str, kernel.block_str, kernel.cluster_str):
        assert text.startswith("[") and text.count(",") == 2
    assert kernel.shared_mem_str.startswith("[")
    assert kernel.registers > 0 or not ON_CUDA
    assert kernel.compile_time_ms >= 0
    assert kernel.name in repr(kernel) and kernel.scheduler in repr(kernel)


def test_two_kernels() -> None:
    fd = define(two_reductions)
    x = tensor(7, 65, 130)
    for _ in range(2):  # a call that plans, and one from the cache
        profile = profiled(fd, [x])
        assert profile.segments == 2
        kernels = profile.kernel_profiles
        assert len(kernels) == 2
        for position, kernel in enumerate(kernels):
            check_kernel(kernel, position)
        assert len({kernel.name for kernel in kernels}) == 2
        assert kernels[0].correlation_id < kernels[1].correlation_id
        assert {kernel.scheduler for kernel in kernels} <= {
            "reduction",
            "inner_persistent",
            "outer_persistent",
            "pointwise",
        }
        assert kernels[0].input_bytes == x.numel() * 4
        assert kernels[1].output_bytes == 65 * 4
        assert profile.input_bytes == x.numel() * 4
        assert profile.output_bytes == 65 * 4
        assert profile.kernel_time_ms == pytest.approx(sum(k.time_ms for k in kernels))
        assert profile.cuda_evt_time_ms >= profile.kernel_time_ms * 0.99
        assert profile.host_time_ms > 0
        assert profile.compile_time_ms == pytest.approx(sum(k.compile_time_ms for k in kernels))
        assert profile.effective_bandwidth_gbs > 0
        assert profile.percentage_peak_bandwith == profile.percentage_peak_bandwidth > 0
        assert profile.verbose is False
        assert profile.fusion_id >= 0
        for kernel in kernels:
            assert kernel.name in repr(profile)


def test_kernels_have_the_names_of_their_texts() -> None:
    fd = define(two_reductions)
    x = tensor(7, 65, 130)
    profile = profiled(fd, [x])
    text = fd.fec.get_cuda_kernel([x])
    for kernel in profile.kernel_profiles:
        assert kernel.name in text


def test_times_grow_with_the_work() -> None:
    fd = define(lambda fd: fd.add_output(fd.ops.exp(fd.define_tensor([-1], True))))
    small, large = tensor(1 << 8), tensor(1 << 22)
    for x in (small, large):
        fd.execute([x])
    quick = min(profiled(fd, [small]).kernel_time_ms for _ in range(5))
    slow = min(profiled(fd, [large]).kernel_time_ms for _ in range(5))
    assert slow > quick


def test_manual_schedule() -> None:
    x = tensor(6, 32)
    fd = define(lambda fd: fd.add_output(fd.ops.neg(fd.define_tensor([-1, -1], True))))
    profile = profiled(fd, [x], auto_scheduled=False)
    (kernel,) = profile.kernel_profiles
    assert kernel.scheduler == "user"
    assert kernel.time_ms > 0
    assert profile.segments == 1


def test_nothing_was_profiled() -> None:
    reset_profiler()
    with pytest.raises(RuntimeError, match="Nothing was profiled"):
        get_fusion_profile()
    with PythonProfiler() as profiler:
        pass
    with pytest.raises(RuntimeError, match="Nothing was profiled"):
        _ = profiler.profile
    fd = define(lambda fd: fd.add_output(fd.ops.neg(fd.define_tensor([-1], True))))
    fd.execute([tensor(4)])  # outside of a profiler
    with pytest.raises(RuntimeError, match="Nothing was profiled"):
        get_fusion_profile()


def test_the_last_call_counts_and_a_failed_one_leaves_nothing() -> None:
    fd = define(lambda fd: fd.add_output(fd.ops.neg(fd.define_tensor([-1], True))))
    with PythonProfiler() as profiler:
        fd.execute([tensor(16)])
        fd.execute([tensor(64)])
        assert profiler.profile.input_bytes == 256
        with pytest.raises(RuntimeError):
            fd.execute([tensor(64).double()])
    assert profiler.profile.input_bytes == 256
    assert get_fusion_profile().input_bytes == 256


def test_outputs_without_a_kernel() -> None:
    fd = define(lambda fd: fd.add_output(fd.ops.permute(fd.define_tensor([-1, -1], True), [1, 0])))
    profile = profiled(fd, [tensor(3, 4)])
    assert profile.segments == 0
    assert profile.kernel_profiles == []
    assert profile.kernel_time_ms == 0


def test_threads_are_profiled_apart() -> None:
    fd = define(lambda fd: fd.add_output(fd.ops.neg(fd.define_tensor([-1], True, DataType.Float))))
    fd.execute([tensor(16)])
    sizes: dict[int, int] = {}

    def call(count: int) -> None:
        with PythonProfiler() as profiler:
            fd.execute([tensor(count)])
        sizes[count] = profiler.profile.input_bytes

    threads = [threading.Thread(target=call, args=(count,)) for count in (16, 32, 64)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sizes == {16: 64, 32: 128, 64: 256}
