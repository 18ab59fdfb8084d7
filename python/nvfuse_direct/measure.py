# SPDX-License-Identifier: BSD-3-Clause
"""Device times of kernels and the bandwidth of copies, for explain() and autotune()."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from typing import Any

from ._C_DIRECT import FusionExecutorCache
from .profiler import PythonProfiler

_copy_bandwidths: dict[str, float] = {}


def flattened(inputs: Sequence[Any]) -> list[Any]:
    flat: list[Any] = []
    for each in inputs:
        flat.extend(each if isinstance(each, list | tuple) else [each])
    return flat


def device_of(inputs: Sequence[Any]) -> Any:
    """The torch device that a fusion with these inputs runs on."""
    import torch

    tensors = [each for each in inputs if isinstance(each, torch.Tensor)]
    for tensor in tensors:
        if tensor.device.type == "cuda":
            return tensor.device
    if not tensors and torch.cuda.is_available():
        return torch.device("cuda", torch.cuda.current_device())
    return torch.device("cpu")


def copy_bandwidth(device: Any) -> float:
    """Bytes per second, read and written, of a large copy; measured once for each device."""
    if str(device) not in _copy_bandwidths:
        _copy_bandwidths[str(device)] = _measure_copy(device)
    return _copy_bandwidths[str(device)]


def _measure_copy(device: Any) -> float:
    import torch

    on_cuda = device.type == "cuda"
    # More than the caches hold, those of a CPU too.
    source = torch.ones(1 << (28 if on_cuda else 26), dtype=torch.uint8, device=device)
    target = torch.zeros_like(source)
    seconds = []
    for _ in range(10):
        if on_cuda:
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            target.copy_(source)
            end.record()
            end.synchronize()
            seconds.append(start.elapsed_time(end) / 1e3)
        else:
            begin = time.perf_counter()
            target.copy_(source)
            seconds.append(time.perf_counter() - begin)
    # What else runs on a CPU makes a copy longer, never shorter.
    return 2 * source.numel() / (statistics.median(seconds) if on_cuda else min(seconds))


class KernelTimer:
    """Times of a fusion's kernels, each call with a cold L2 cache."""

    def __init__(self, device: Any) -> None:
        import torch

        self._flush = None
        if device.type == "cuda":
            l2_bytes = torch.cuda.get_device_properties(device).L2_cache_size
            self._flush = torch.ones(4 * l2_bytes, dtype=torch.uint8, device=device)

    def microseconds(
        self, cache: FusionExecutorCache, inputs: Sequence[Any], count: int
    ) -> dict[int, float]:
        """Medians of `count` calls, by segment. Segments that launch nothing are left out."""
        times: dict[int, list[float]] = {}
        for _ in range(count):
            if self._flush is not None:
                self._flush.max()
            with PythonProfiler() as profiler:
                cache.execute(inputs)
            for kernel in profiler.profile.kernel_profiles:
                times.setdefault(kernel.segment_id, []).append(kernel.time_ms * 1e3)
        return {segment: statistics.median(values) for segment, values in times.items()}
