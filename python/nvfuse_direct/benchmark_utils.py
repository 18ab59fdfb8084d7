"""Timers for benchmarks."""

from __future__ import annotations

import time
from typing import Any


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
