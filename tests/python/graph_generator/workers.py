# SPDX-License-Identifier: BSD-3-Clause
"""Many graphs, in processes of their own, so that a crash is a result."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch

from .check import failure, run_graph
from .mixes import generate
from .model import Graph
from .shrink import shrink, without_dead_code


def kind_of(message: str) -> str:
    """Failures of one kind are shrunk as one: a mismatch must not turn into another error."""
    return message.split(":", 1)[0]


def report(
    seed: int, device: torch.device, shrink_seconds: float, mix: str = "pointwise"
) -> tuple[str | None, int]:
    """None, or what fails at `seed` with a script; and how many kernels were refused."""
    try:
        graph = generate(seed, mix)
    except Exception as error:
        return f"seed {seed}: the generator itself failed: {error!r}", 0
    try:
        return None, run_graph(graph, device)
    except Exception as error:
        message = f"{type(error).__name__}: {error}"

    def fails(candidate: Graph) -> bool:
        try:
            candidate.evaluate()
        except Exception:
            return False
        other = failure(candidate, device)
        return other is not None and kind_of(other) == kind_of(message)

    small = shrink(without_dead_code(graph), fails, shrink_seconds) if shrink_seconds else graph
    final = failure(small, device) or message
    commented = "\n".join(f"# {line}" for line in final.splitlines()[:12])
    return f"seed {seed}: {message[:400]}\n{commented}\n{small.script()}", 0


@dataclass
class Outcome:
    """What `run_seeds` found: seeds that passed, reports of those that did not, refused kernels."""

    passed: int = 0
    fallbacks: int = 0
    failures: list[str] = field(default_factory=list)


def run_seeds(
    seeds: Sequence[int],
    workers: int,
    device: str,
    shrink_seconds: float = 30.0,
    env: dict[str, str] | None = None,
    progress: bool = False,
    mix: str = "pointwise",
) -> Outcome:
    """Runs the seeds in worker processes; one that dies is reported with its seed and replaced."""
    outcome = Outcome()
    queues = [list(seeds[start::workers]) for start in range(workers)]
    running = {
        index: start_worker(queue, device, shrink_seconds, env, mix)
        for index, queue in enumerate(queues)
        if queue
    }
    while running:
        for index, process in list(running.items()):
            line = process.stdout.readline() if process.stdout else ""
            if not line:
                process.wait()
                queue = queues[index]
                del running[index]
                if queue:
                    seed = queue.pop(0)
                    errors = process.stderr.read() if process.stderr else ""
                    outcome.failures.append(
                        f"seed {seed}: the process ended with {process.returncode}\n"
                        f"{errors[-3000:]}\n" + generate(seed, mix).script()
                    )
                    if queue:
                        running[index] = start_worker(queue, device, shrink_seconds, env, mix)
                continue
            message = json.loads(line)
            queues[index].remove(message["seed"])
            outcome.fallbacks += message["fallbacks"]
            if message["failure"] is None:
                outcome.passed += 1
            else:
                outcome.failures.append(message["failure"])
            if progress:
                show_progress(outcome, len(seeds))
    if progress:
        print(file=sys.stderr)
    return outcome


def show_progress(outcome: Outcome, total: int) -> None:
    done = outcome.passed + len(outcome.failures)
    if not sys.stderr.isatty() and done % max(1, total // 20) and done != total:
        return
    filled = 40 * done // total
    bar = "#" * filled + "." * (40 - filled)
    print(
        f"\r[{bar}] {done}/{total}, {len(outcome.failures)} failed",
        end="",
        file=sys.stderr,
        flush=True,
    )


def start_worker(
    seeds: Sequence[int],
    device: str,
    shrink_seconds: float,
    env: dict[str, str] | None,
    mix: str,
) -> subprocess.Popen[str]:
    environment = {**os.environ, **(env or {})}
    folder = str(Path(__file__).resolve().parents[1])
    paths = [folder, environment.get("PYTHONPATH", "")]
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    arguments = ["--worker", "--device", device, "--shrink", str(shrink_seconds)]
    arguments += ["--mix", mix, "--list", ",".join(map(str, seeds))]
    return subprocess.Popen(
        [sys.executable, "-X", "faulthandler", "-m", "graph_generator", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )


def work(seeds: Sequence[int], device: torch.device, shrink_seconds: float, mix: str) -> None:
    """A worker: one JSON line a seed on the real stdout; what else is printed goes to stderr."""
    torch.set_num_threads(1)
    channel = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for seed in seeds:
        failed, fallbacks = report(seed, device, shrink_seconds, mix)
        line = json.dumps({"seed": seed, "failure": failed, "fallbacks": fallbacks})
        print(line, file=channel, flush=True)
