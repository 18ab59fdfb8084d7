# SPDX-License-Identifier: BSD-3-Clause
"""Check a wheel on a GPU machine: benchmarks, C++ tests, Python tests on the device, in one go.

    python benchmarks/gpu_check.py WHEEL --out FOLDER [--gtest TEST_BINARY]

Needs a Python with torch >= 2.10 (a CUDA build, which brings NVRTC), NumPy and pytest, and no
network. The wheel goes into a temporary folder, the environment stays as it is. A step that fails
or runs out of time does not keep the others from running; logs and figures go to one folder.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


@dataclass
class Outcome:
    """How a step ended; `note` is the line of its log that sums it up."""

    step: str
    result: str  # ok, failed, timed out
    seconds: float
    note: str


class Checker:
    """Runs the steps one after the other with the wheel on the path."""

    def __init__(self, out: Path, site: Path) -> None:
        self.out, self.site = out, site
        self.outcomes: list[Outcome] = []
        self.environment = dict(os.environ, PYTHONUNBUFFERED="1")
        self.environment["PYTHONPATH"] = os.pathsep.join(
            filter(None, [str(site), os.environ.get("PYTHONPATH")])
        )
        self.environment["LD_LIBRARY_PATH"] = os.pathsep.join(
            filter(None, [str(site / "nvfuse_direct" / "lib"), os.environ.get("LD_LIBRARY_PATH")])
        )

    def provide_nvrtc(self) -> None:
        """Points programs without Python at the NVRTC that the package found."""
        probe = "from nvfuse_direct._toolchain import nvrtc_directory as d; print(d() or '')"
        found = subprocess.run(
            [sys.executable, "-c", probe], env=self.environment, capture_output=True, text=True
        ).stdout.strip()
        if found:
            self.environment["NVFUSER_NVRTC_DIR"] = found

    def run(
        self, step: str, command: list[str], limit: float, summary: Callable[[str], bool]
    ) -> bool:
        """Run one step; the last line of its log that `summary` accepts sums it up."""
        print(f"== {step}: {' '.join(command)}", flush=True)
        log_path = self.out / f"{step}.log"
        start = time.monotonic()
        with log_path.open("w") as log:
            try:
                code = subprocess.run(
                    command,
                    cwd=ROOT,
                    env=self.environment,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    timeout=limit,
                    check=False,
                ).returncode
                result = "ok" if code == 0 else f"failed ({code})"
            except subprocess.TimeoutExpired:
                result = "timed out"
            except OSError as error:
                log.write(str(error))
                result = "failed"
        lines = log_path.read_text(errors="replace").splitlines()
        note = next((line for line in reversed(lines) if summary(line)), lines[-1] if lines else "")
        self.outcomes.append(
            Outcome(step, result, round(time.monotonic() - start, 1), note.strip())
        )
        if result != "ok":
            print("\n".join(lines[-30:]), flush=True)
        return result == "ok"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--gtest", type=Path, help="the C++ test binary")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--limit", type=float, default=280, help="seconds for each step")
    parser.add_argument("--smoke", action="store_true", help="tiny benchmarks")
    parser.add_argument(
        "--pytest-args", default="", help="more arguments for pytest, in one string"
    )
    parser.add_argument(
        "--jobs",
        type=int,
        default=min(8, os.cpu_count() or 1),
        help="pytest processes, if pytest-xdist is there",
    )
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)

    with tempfile.TemporaryDirectory(prefix="nvfuse_check_") as folder:
        checker = Checker(args.out.resolve(), Path(folder))
        install = [
            sys.executable,
            "-m",
            "pip",
            "install",
            "--no-deps",
            "--no-index",
            "--no-compile",
            "--target",
            folder,
        ]
        if checker.run(
            "install",
            [*install, str(args.wheel.resolve())],
            args.limit,
            lambda line: line.startswith("Success"),
        ):
            (checker.out / "install.log").unlink()  # says nothing when all went well
            probe = (
                "import nvfuse_direct as n, torch; print(n.version(), 'torch', torch.__version__)"
            )
            checker.run(
                "import", [sys.executable, "-c", probe], args.limit, lambda line: "torch" in line
            )
            bench = [
                sys.executable,
                "benchmarks/run.py",
                "--device",
                args.device,
                "--out",
                str(checker.out),
            ]
            bench += ["--budget", str(0.8 * args.limit)]
            bench += ["--small"] if args.smoke else []
            checker.run(
                "benchmarks", bench, args.limit, lambda line: line.startswith("Copy bandwidth")
            )
            if args.gtest:
                checker.provide_nvrtc()
                gtest = [str(args.gtest.resolve()), "--gtest_brief=1"]
                checker.run(
                    "cpp", gtest, args.limit, lambda line: "tests ran" in line or "PASSED" in line
                )
            tests = [
                sys.executable,
                "-m",
                "pytest",
                "tests/python",
                "-q",
                f"--device={args.device}",
            ]
            tests += ["-p", "no:cacheprovider"]
            if importlib.util.find_spec("xdist") and args.jobs > 1:
                tests += ["-n", str(args.jobs)]
            checker.run(
                "python",
                tests + args.pytest_args.split(),
                args.limit,
                lambda line: " in " in line and "=" in line,
            )

    table = args.out / "benchmarks.txt"
    if table.exists():
        print(table.read_text())
    (args.out / "summary.json").write_text(
        json.dumps([asdict(o) for o in checker.outcomes], indent=1) + "\n"
    )
    width = max(len(outcome.step) for outcome in checker.outcomes)
    for o in checker.outcomes:
        print(f"{o.step:<{width}}  {o.result:<12} {o.seconds:7.1f} s  {o.note[:140]}")
    return 0 if all(outcome.result == "ok" for outcome in checker.outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
