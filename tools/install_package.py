# SPDX-License-Identifier: BSD-3-Clause
"""Build the package and install it into the environment that runs this script, with visible
progress.

`pip install` hides the compiler's progress unless it also prints pages of other things. This keeps
the whole output in a log, shows the step counter of the build, and prints the end of the log when
something fails.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import time
from pathlib import Path

STEP = re.compile(r"\[(\d+)/(\d+)\]\s+(.*)")


def show(step: re.Match[str], last_percent: int) -> int:
    """Print one build step: on one line of a terminal, or every tenth part elsewhere."""
    done, total, what = int(step[1]), int(step[2]), step[3]
    percent = 100 * done // total
    if sys.stdout.isatty():
        what = what.replace("Building CXX object ", "").split("/CMakeFiles/")[-1]
        print(
            f"\r\033[K[{done}/{total}] {what[-90:]}", end="\n" if done == total else "", flush=True
        )
    elif done and (percent // 10 != last_percent // 10 or done == total):
        print(f"  built {done} of {total} ({percent} %)", flush=True)
    return percent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build-dir", type=Path, required=True)
    parser.add_argument("--define", action="append", default=[], help="CMake definition NAME=VALUE")
    args = parser.parse_args()

    root = Path(__file__).resolve().parent.parent
    args.build_dir.mkdir(parents=True, exist_ok=True)
    log_path = args.build_dir / "install.log"
    command = [sys.executable, "-m", "pip", "install", "-v", "--disable-pip-version-check"]
    # The build requirements are in the environment: an isolated build would compile the bindings
    # anew each time.
    command += ["--no-build-isolation", "--no-deps", "--force-reinstall"]
    settings = [f"build-dir={args.build_dir}", "build.targets=nvfuser;_C_DIRECT"]
    settings += [f"cmake.define.{define}" for define in args.define]
    command += [f"--config-settings={setting}" for setting in settings]
    command.append(str(root))

    print(f"Building and installing the package (log: {log_path})", flush=True)
    start, percent = time.monotonic(), -1
    with log_path.open("w") as log:
        process = subprocess.Popen(
            command, cwd=root, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        assert process.stdout
        for line in process.stdout:
            log.write(line)
            if step := STEP.search(line):
                percent = show(step, percent)
    if process.wait() != 0:
        lines = log_path.read_text().splitlines()
        first_error = next(
            (i for i, line in enumerate(lines) if re.search(r"\b(error|FAILED):", line)), len(lines)
        )
        print(
            "\n".join(
                lines[max(0, first_error - 2) : first_error + 60]
                if first_error < len(lines)
                else lines[-60:]
            )
        )
        sys.exit(f"The build failed; the whole log is {log_path}")
    print(f"Installed in {time.monotonic() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main()
