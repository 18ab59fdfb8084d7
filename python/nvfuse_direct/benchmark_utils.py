# SPDX-License-Identifier: BSD-3-Clause
"""Timers for benchmarks: by the clock, by CUPTI, and by this package's profiler.

CUPTI and the demangler come from the packages cupti-python and cxxfilt, which are imported when
they are first needed.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from typing import Any


def _need(module: str, package: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(
            f"nvfuse_direct.benchmark_utils needs the module {module}: pip install {package}"
        ) from error


class Timer:
    """Accumulates seconds between calls; a call gives the total so far."""

    def __init__(self) -> None:
        self.current_time = 0.0
        self._last = time.perf_counter()

    def __call__(self) -> float:
        now = time.perf_counter()
        self.current_time += now - self._last
        self._last = now
        return self.current_time

    def cleanup(self) -> None:
        self.current_time = 0.0


class FusionProfileTimer(Timer):
    """Accumulates the host time of the last profile of a FusionDefinition."""

    def __init__(self) -> None:
        super().__init__()
        self.fd: Any = None
        self._started = False

    def set_fd(self, fd: Any) -> None:
        self.fd = fd

    def __call__(self) -> float:
        from ._C_DIRECT import get_fusion_profile

        if self._started:
            self.current_time += get_fusion_profile().host_time_ms / 1e3
        self._started = not self._started
        return self.current_time


def demangle_kernel_name(name: str) -> str:
    """The C++ name of a kernel symbol; other names stay as they are.

    ImportError: the name is mangled and cxxfilt is not installed.
    """
    return _need("cxxfilt", "cxxfilt").demangle(name) if name.startswith("_Z") else name


def cupti_call_safe(function: Callable[..., Any], *args: Any) -> Any:
    """function(*args) of CUPTI. RuntimeError, naming the function, if it fails."""
    try:
        return function(*args)
    except Exception as error:
        name = getattr(function, "__name__", str(function))
        raise RuntimeError(f"CUPTI call {name} failed: {error}") from error


class CuptiProfiler:
    """Records the kernels that run between start() and stop(), of the whole process.

    CUPTI has one subscriber in a process, so there is one profiler at a time (RuntimeError): the
    next can be made after teardown_cupti(). ImportError: cupti-python is not installed.
    """

    _active: CuptiProfiler | None = None
    _BUFFER_BYTES = 8 << 20

    def __init__(self) -> None:
        if CuptiProfiler._active is not None:
            raise RuntimeError("there is a CuptiProfiler already; call its teardown_cupti() first")
        self._cupti = _need("cupti.cupti", "cupti-python")
        self._kernels: list[tuple[str, float]] = []
        self._recording = False
        cupti_call_safe(
            self._cupti.activity_register_callbacks, self._buffer_requested, self._buffer_completed
        )
        CuptiProfiler._active = self

    def _buffer_requested(self) -> tuple[int, int]:
        """Size of a buffer, and how many records it may hold (0: as many as fit)."""
        return self._BUFFER_BYTES, 0

    def _buffer_completed(self, activities: list[Any]) -> None:
        kind = self._cupti.ActivityKind.CONCURRENT_KERNEL
        for activity in activities:
            if activity.kind == kind:
                seconds = (activity.end - activity.start) / 1e9
                self._kernels.append((demangle_kernel_name(activity.name), seconds))

    def start(self) -> None:
        """RuntimeError if it is recording already, or was torn down."""
        if CuptiProfiler._active is not self or self._recording:
            raise RuntimeError("this CuptiProfiler is recording already, or was torn down")
        cupti_call_safe(self._cupti.activity_flush_all, 1)
        self._kernels.clear()
        cupti_call_safe(self._cupti.activity_enable, self._cupti.ActivityKind.CONCURRENT_KERNEL)
        self._recording = True

    def stop(self) -> list[tuple[str, float]]:
        """(name, seconds) of every kernel since start(), which have all ended (RuntimeError if it
        is not recording)."""
        if not self._recording:
            raise RuntimeError("this CuptiProfiler is not recording: call start() first")
        import torch

        torch.cuda.synchronize()
        cupti_call_safe(self._cupti.activity_disable, self._cupti.ActivityKind.CONCURRENT_KERNEL)
        cupti_call_safe(self._cupti.activity_flush_all, 0)
        self._recording = False
        return list(self._kernels)

    def teardown_cupti(self) -> None:
        """Gives CUPTI back; nothing if that was done."""
        if CuptiProfiler._active is self:
            CuptiProfiler._active = None
            self._recording = False
            cupti_call_safe(self._cupti.finalize)


class CuptiTimer(Timer):
    """Calls alternate between starting and stopping; a call gives the seconds that kernels ran
    between starts and stops so far."""

    def __init__(self) -> None:
        super().__init__()
        self.cupti_profiler = CuptiProfiler()
        self.is_running = False

    def __call__(self) -> float:
        if self.is_running:
            self.current_time += sum(seconds for _, seconds in self.cupti_profiler.stop())
        else:
            self.cupti_profiler.start()
        self.is_running = not self.is_running
        return self.current_time

    def cleanup(self) -> None:
        """Forgets the time and gives CUPTI back."""
        super().cleanup()
        self.is_running = False
        self.cupti_profiler.teardown_cupti()
