# SPDX-License-Identifier: BSD-3-Clause
"""Random graphs against torch: runs seeds in worker processes, with a progress bar, prints a script
for each seed that fails, shrunk, and ends with one line of JSON (count, failures, fallbacks,
seconds). With --adversary 1 host kernels run with threads in random order, on seeds of their own;
with --no-fallbacks a kernel that was refused and replaced is a failure.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import tempfile
import time
from pathlib import Path

import torch
from sanitizers import SANITIZERS, environment_of, fixed_addresses, reports

from .mixes import MIXES, generate
from .workers import run_seeds, work


def main() -> int:
    parser = argparse.ArgumentParser(prog="graph_generator", description=__doc__)
    parser.add_argument("--seeds", default="", help="first:last")
    parser.add_argument("--count", type=int, default=200, help="number of seeds if none are given")
    parser.add_argument("--adversary", type=int, default=0, help="NVFUSER_HOST_ADVERSARIAL")
    parser.add_argument("--sanitize", choices=SANITIZERS, help="kernels for the host, built so")
    parser.add_argument("--no-fallbacks", action="store_true", help="a refused kernel is a failure")
    parser.add_argument("--list", default="", help="seeds by number, with commas")
    parser.add_argument("--device", default=os.environ.get("NVFUSER_TEST_DEVICE", "cpu"))
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--shrink", type=float, default=30.0, help="seconds to shrink each failure")
    parser.add_argument("--mix", default="pointwise", choices=[*MIXES])
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--show", action="store_true", help="print the scripts and run nothing")
    options = parser.parse_args()
    if options.list:
        seeds = [int(each) for each in options.list.split(",")]
    elif options.seeds:
        start, stop = map(int, options.seeds.split(":"))
        seeds = list(range(start, stop))
    else:
        first = 10_000 * options.adversary
        seeds = list(range(first, first + options.count))
    if options.show:
        for seed in seeds:
            print(generate(seed, options.mix).script())
        return 0
    if options.worker:
        work(seeds, torch.device(options.device), options.shrink, options.mix)
        return 0
    env: dict[str, str] = {}
    if options.adversary:
        env["NVFUSER_HOST_ADVERSARIAL"] = str(options.adversary)
    if options.no_fallbacks:
        env["NVFUSER_TEST_NO_FALLBACKS"] = "1"
    folder = Path(tempfile.mkdtemp(prefix="sanitized-")) if options.sanitize else None
    if folder is not None:
        env.update(environment_of(options.sanitize, folder))
    shrink = 0.0 if folder is not None else options.shrink  # what fails ends its process
    begin = time.monotonic()
    with fixed_addresses() if folder is not None else contextlib.nullcontext():
        outcome = run_seeds(
            seeds, options.workers, options.device, shrink, env, progress=True, mix=options.mix
        )
    if folder is not None:
        print(reports(folder))
    for each in outcome.failures:
        print(each)
    summary = {
        "count": len(seeds),
        "failures": len(outcome.failures),
        "fallbacks": outcome.fallbacks,
        "seconds": round(time.monotonic() - begin, 1),
    }
    print(json.dumps(summary))
    return 1 if outcome.failures else 0


if __name__ == "__main__":
    sys.exit(main())
