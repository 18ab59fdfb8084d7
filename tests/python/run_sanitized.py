# SPDX-License-Identifier: BSD-3-Clause
"""The Python tests with host kernels that a sanitizer checks: `make test-sanitized-kernels`.

`run_sanitized.py address,undefined -n 2 ...`: the sanitizers, and what pytest gets. A finding ends
the process that has it. With xdist this is a worker: its test fails, and another worker goes on.
Without a build: from a copy of the repository, with PYTHONPATH naming where a wheel is installed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from sanitizers import SANITIZERS, environment_of, fixed_addresses, reports, runtime_libraries

ROOT = Path(__file__).resolve().parents[2]
TESTS = "tests/python"

# As make test-host does: schedules are those of the host.
SELECTED = ["-m", "not machine"]
DESELECTED = [
    # Starts sanitized processes of its own.
    "test_host_sanitized.py",
    # Threads write to one place, where any of them wins.
    "test_scatters.py::test_of_equal_positions_one_wins",
    # Which loops the compiler vectorizes: none that are checked.
    "test_host_vector_math.py::test_loops_become_vector_code",
    "test_host_vector_math.py::test_fp4_by_blocks",
]


def main(arguments: list[str]) -> int:
    sanitizer, *options = arguments or [""]
    if not set(sanitizer.split(",")) <= set(SANITIZERS) or not runtime_libraries(sanitizer):
        print(f"Sanitizers: {', '.join(SANITIZERS)}, of a g++ that has them", file=sys.stderr)
        return 2
    # Their options are separated by commas too.
    folder = ROOT / "build" / "sanitized_kernels" / sanitizer.replace(",", "_")
    # Kernels stay for the next run, reports do not.
    folder.mkdir(parents=True, exist_ok=True)
    for report in folder.glob("report*"):
        report.unlink()
    deselected = [f"--deselect={TESTS}/{each}" for each in DESELECTED]
    command = [sys.executable, "-m", "pytest", *SELECTED, *deselected, *options]
    environment = {**os.environ, **environment_of(sanitizer, folder)}
    with fixed_addresses():
        status = subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode
    found = reports(folder)
    print(found or f"No reports of sanitizers ({sanitizer})", flush=True)
    return status or bool(found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
