# SPDX-License-Identifier: BSD-3-Clause
"""Random programs against torch: prints what is found, then a line of JSON."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from sanitizers import SANITIZERS, environment_of, fixed_addresses, reports

from .statements import generate
from .workers import run_seeds


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="program_generator", description=__doc__)
    parser.add_argument("--count", type=int, default=100, help="programs")
    parser.add_argument("--seed", type=int, default=0, help="of the first program")
    parser.add_argument("--device", default="cpu", help="where the fusions run: cpu or cuda")
    parser.add_argument("--workers", type=int, default=1, help="processes")
    parser.add_argument(
        "--adversary", type=int, default=0, help="threads in random order by this seed (cpu)"
    )
    parser.add_argument("--sanitize", choices=SANITIZERS, help="kernels for the host, built so")
    parser.add_argument("--seconds", type=float, default=0.0, help="begin no program after these")
    parser.add_argument("--show", action="store_true", help="print the programs, run nothing")
    return parser.parse_args()


def main() -> int:
    options = parse()
    seeds = range(options.seed, options.seed + options.count)
    if options.show:
        for seed in seeds:
            print(generate(seed).description())
        return 0
    environment = {"NVFUSER_TEST_NO_FALLBACKS": "1"}
    folder = Path(tempfile.mkdtemp(prefix="sanitized-")) if options.sanitize else None
    if folder is not None:
        environment.update(environment_of(options.sanitize, folder))
    if options.adversary:
        environment["NVFUSER_HOST_ADVERSARIAL"] = str(options.adversary)
    totals = {"programs": 0, "runs": 0, "statements": 0}
    findings: list[dict[str, Any]] = []
    start = time.monotonic()

    def each(result: dict[str, Any]) -> None:
        totals["programs"] += 1
        totals["runs"] += result["runs"]
        totals["statements"] += result["statements"]
        finding = result.get("finding")
        if finding is not None:
            findings.append({"seed": result["done"], **finding})
            head = f"seed {result['done']}: {finding['kind']} (case {finding['case']})"
            print(f"\r{head}: {finding['message']}", flush=True)
        if sys.stderr.isatty():
            done = totals["programs"]
            bar = "#" * (40 * done // len(seeds))
            line = f"\r[{bar:<40}] {done}/{len(seeds)} programs, {len(findings)} findings "
            print(line, end="", file=sys.stderr, flush=True)

    def begun() -> Any:
        for seed in seeds:
            if options.seconds and time.monotonic() - start > options.seconds:
                return
            yield seed

    with fixed_addresses() if folder is not None else contextlib.nullcontext():
        run_seeds(begun(), options.workers, options.device, environment, each)
    if folder is not None:
        print(reports(folder))
    elapsed = round(time.monotonic() - start, 1)
    print("\r" + json.dumps({**totals, "seconds": elapsed, "findings": findings}))
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
