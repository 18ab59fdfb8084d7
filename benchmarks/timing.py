# SPDX-License-Identifier: BSD-3-Clause
"""Timers: device time with a cold L2, host time and memory of a call, copy bandwidth as the
yardstick, and a run over the parts of a benchmark."""

from __future__ import annotations

import argparse
import math
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import report as reports
import torch

Call = Callable[[], object]


def synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


class DeviceTimer:
    """Times single calls, each with the L2 cache emptied before it.

    The cache is emptied by reading a buffer several times its size: that also writes back what the
    previous call left dirty, which would otherwise be written back inside the measured time. The
    buffer is read as often as it takes for the host to enqueue the call behind it meanwhile, so
    that host time does not leak into the device time. The host is never more than one call ahead:
    behind a long queue the same call takes 0.4 us more between its events (H200), which would
    count against what is cheap to enqueue.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        if device.type == "cuda":
            l2_bytes = torch.cuda.get_device_properties(device).L2_cache_size
            self.buffer = torch.ones(max(1 << 29, 4 * l2_bytes) // 4, device=device)

    def samples(self, call: Call, count: int) -> list[float]:
        """Seconds of `count` calls."""
        return self._cuda(call, count) if self.device.type == "cuda" else self._cpu(call, count)

    def in_turns(self, calls: dict[str, Call], rounds: int, count: int) -> dict[str, list[float]]:
        """Seconds of each call, `count` of them in each of some rounds over all. Every other round
        is in the opposite order: products run at the clock that the power drawn before leaves."""
        seconds: dict[str, list[float]] = {name: [] for name in calls}
        for call in calls.values():
            self.samples(call, 2)
        for number in range(rounds):
            names = list(calls) if number % 2 == 0 else list(reversed(calls))
            for name in names:
                seconds[name] += self.samples(calls[name], count)
        return seconds

    def _cuda(self, call: Call, count: int) -> list[float]:
        reads = self._reads_meanwhile(call)
        pairs: list[tuple[torch.cuda.Event, torch.cuda.Event]] = []
        for _ in range(count):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            for _ in range(reads):
                self.buffer.sum()
            start.record()
            call()
            end.record()
            if pairs:
                pairs[-1][1].synchronize()
            pairs.append((start, end))
        synchronize(self.device)
        return [start.elapsed_time(end) / 1e3 for start, end in pairs]

    def _reads_meanwhile(self, call: Call) -> int:
        """Reads of the buffer that take twice as long as enqueueing the call."""
        most = 8
        host = enqueue_seconds(call, self.device)
        read = wall_seconds(self.buffer.sum, self.device)
        return min(max(math.ceil(2 * host / read), 1), most)

    def _cpu(self, call: Call, count: int) -> list[float]:
        seconds = []
        for _ in range(count):
            start = time.perf_counter()
            call()
            seconds.append(time.perf_counter() - start)
        return seconds

    def copy_bandwidth(self, size: int, count: int) -> float:
        """Bytes per second, read and written, of a copy of `size` bytes."""
        source = torch.ones(size // 4, device=self.device)
        target = torch.empty_like(source)
        self.samples(lambda: target.copy_(source), 3)
        seconds = statistics.median(self.samples(lambda: target.copy_(source), count))
        return 2 * source.numel() * 4 / seconds


def host_seconds(
    calls: dict[str, Call], device: torch.device, batches: int, count: int
) -> dict[str, float]:
    """Median wall seconds of one call of many back to back; the queue is drained in between.

    The calls take turns batch by batch, so that what disturbs the machine disturbs all of them.
    """
    per_call: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        call()
    for _ in range(batches):
        for name, call in calls.items():
            synchronize(device)
            start = time.perf_counter()
            for _ in range(count):
                call()
            per_call[name].append((time.perf_counter() - start) / count)
    synchronize(device)
    return {name: statistics.median(times) for name, times in per_call.items()}


def peak_memory(call: Call, device: torch.device) -> int:
    """Bytes that a call allocates at its peak; of the second call, nothing is set up then."""
    call()
    if device.type != "cuda":
        return 0
    synchronize(device)
    before = torch.cuda.memory_allocated(device)
    torch.cuda.reset_peak_memory_stats(device)
    call()
    synchronize(device)
    return torch.cuda.max_memory_allocated(device) - before


def wall_seconds(call: Call, device: torch.device) -> float:
    """Wall seconds of one call until its result is there."""
    synchronize(device)
    start = time.perf_counter()
    call()
    synchronize(device)
    return time.perf_counter() - start


def enqueue_seconds(call: Call, device: torch.device) -> float:
    """Wall seconds of one call on an idle device, without waiting for its result."""
    synchronize(device)
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


class Stopwatch:
    """A run over the parts of a benchmark, as its options ask for: rows of each part, with time and
    memory of calls that take turns."""

    turns = (3, 15)  # rounds over all calls, samples of each

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.device = torch.device(args.device)
        self.deadline = time.monotonic() + args.budget
        self.timer = None if args.plan else DeviceTimer(self.device)
        fast = args.small or self.device.type == "cpu"
        self.rounds, self.samples = (1, 2) if fast else self.turns
        self.copy_bandwidth = math.nan
        if self.timer:
            copy_bytes = 1 << (20 if fast else 30)
            self.copy_bandwidth = self.timer.copy_bandwidth(copy_bytes, 5 if fast else 40)

    def rows(self, part: Any) -> list[dict[str, Any]]:
        """What the table says of a part."""
        raise NotImplementedError

    def measure(self, calls: dict[str, Call]) -> dict[str, dict[str, float]]:
        """Median microseconds, and bytes at the peak, of each call."""
        assert self.timer is not None
        memory = {name: peak_memory(call, self.device) for name, call in calls.items()}
        seconds = self.timer.in_turns(calls, self.rounds, self.samples)
        return {
            name: {
                "microseconds": statistics.median(seconds[name]) * 1e6,
                "memory": memory[name],
            }
            for name in calls
        }

    def run(self, parts: Sequence[Any], text: Callable[[dict[str, Any]], str]) -> int:
        """Takes the rows of all parts, what goes wrong being one; prints and writes the report. The
        exit status."""
        progress = reports.Progress(len(parts))
        rows: list[dict[str, Any]] = []
        for part in parts:
            progress.step(part.name)
            if time.monotonic() > self.deadline:
                rows.append({"name": part.name, "error": "not run: the time budget is spent"})
                continue
            try:
                rows += self.rows(part)
            except Exception as error:
                rows.append({"name": part.name, "error": reports.one_line(error)})
            if self.device.type == "cuda":
                torch.cuda.empty_cache()
        progress.close()
        report = {
            "environment": reports.environment(self.device),
            "small": self.args.small,
            "plan": self.args.plan,
            "copy_gb_per_s": self.copy_bandwidth / 1e9,
            "rows": rows,
        }
        reports.hand_out(report, text(report), self.args.out, self.args.stem)
        return 1 if any("wrong result" in row.get("error", "") for row in rows) else 0
