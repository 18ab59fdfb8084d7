# SPDX-License-Identifier: BSD-3-Clause
"""Runs programs in processes of their own: one that dies or hangs is a finding."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

SECONDS = 180.0  # after which a program hangs

_SERVE = "from program_generator.workers import serve; serve()"


def serve() -> None:
    """Of a worker: a seed for each line read; lines of JSON out, the last one with the result."""
    import torch

    from .check import check
    from .statements import generate

    torch.set_num_threads(1)
    device = os.environ.get("NVFUSER_TEST_DEVICE", "cpu")
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what is printed elsewhere does not come between

    def say(message: dict[str, Any]) -> None:
        out.write(json.dumps(message) + "\n")
        out.flush()

    for line in sys.stdin:
        seed = int(line)
        say({"step": "generate"})
        program = generate(seed)
        finding, runs = check(program, device, lambda step: say({"step": step}))
        result: dict[str, Any] = {"done": seed, "runs": runs, "statements": len(program.statements)}
        if finding is not None:
            result["finding"] = vars(finding)
        say(result)


class Worker:
    """A process that checks programs, started anew when it ends."""

    def __init__(self, device: str, environment: dict[str, str]) -> None:
        here = str(Path(__file__).parent.parent)
        path = os.pathsep.join(p for p in (here, os.environ.get("PYTHONPATH", "")) if p)
        self.environment = {
            **os.environ,
            "PYTHONPATH": path,
            "NVFUSER_TEST_DEVICE": device,
            **environment,
        }
        self.process: subprocess.Popen[bytes] | None = None
        self.buffer = b""

    def check(self, seed: int, seconds: float) -> dict[str, Any]:
        """The result of a seed's program: of the process, or about its end."""
        if self.process is None:
            self.process = subprocess.Popen(
                [sys.executable, "-X", "faulthandler", "-c", _SERVE],
                env=self.environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
            self.buffer = b""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{seed}\n".encode())
        self.process.stdin.flush()
        deadline, step = time.monotonic() + seconds, "start"
        while True:
            message = self._read(deadline)
            if message is None or message == {}:
                kind = "hang" if message == {} else "crash"
                self.stop()
                finding = {"kind": kind, "message": step, "case": -1}
                return {"done": seed, "runs": 0, "statements": 0, "finding": finding}
            if "done" in message:
                return message
            step = message["step"]

    def _read(self, deadline: float) -> dict[str, Any] | None:
        """The next message; None at the end of the process, {} at the deadline."""
        assert self.process is not None and self.process.stdout is not None
        while b"\n" not in self.buffer:
            left = deadline - time.monotonic()
            ready, _, _ = select.select([self.process.stdout], [], [], max(left, 0.0))
            if not ready:
                return {}
            data = os.read(self.process.stdout.fileno(), 65536)
            if not data:
                return None
            self.buffer += data
        line, self.buffer = self.buffer.split(b"\n", 1)
        return json.loads(line)

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


def run_seeds(
    seeds: Iterable[int],
    workers: int = 1,
    device: str = "cpu",
    environment: dict[str, str] | None = None,
    each: Callable[[dict[str, Any]], None] = lambda _: None,
    seconds: float = SECONDS,
) -> list[dict[str, Any]]:
    """Results in the order in which they come; `each` is called with every one.

    A seed is asked for when a worker is free: `seeds` may end early.
    """
    waiting = iter(seeds)
    results: list[dict[str, Any]] = []
    lock = threading.Lock()

    def work() -> None:
        worker = Worker(device, environment or {})
        try:
            while True:
                with lock:
                    seed = next(waiting, None)
                if seed is None:
                    return
                result = worker.check(seed, seconds)
                with lock:
                    results.append(result)
                    each(result)
        finally:
            worker.stop()

    threads = [threading.Thread(target=work) for _ in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results
