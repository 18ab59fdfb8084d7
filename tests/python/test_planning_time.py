# SPDX-License-Identifier: BSD-3-Clause
"""Planning and compiling of what users write: a stack of linear layers, a whole transformer. What
has no operation of a library is in tests/cpp/test_planning_time.cpp. Times are CPU times."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from helpers import DEVICE

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"
on_host = pytest.mark.skipif(DEVICE.type != "cpu", reason="the same on every device")


def run(script: str, *arguments: str) -> str:
    # As users have it: optimized, and the IR is not verified.
    environment = {**os.environ, "NVFUSER_MACHINE": "host"}
    environment.pop("NVFUSER_HOST_OPT_LEVEL", None)
    environment.pop("NVFUSER_ENABLE")
    done = subprocess.run(
        [sys.executable, FOLDER / script, *arguments, "--no-nvrtc"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@on_host
def test_linear_layers_are_planned_in_proportion_to_their_number(tmp_path: Path) -> None:
    """From 10 to 80, no faster than n^1.2; others on the machine may only make times longer."""
    few, many = 10, 80
    found = tmp_path / "points.json"
    best: dict[int, float] = {}
    for _ in range(4):
        run(
            "scaling.py",
            *("--families", "linear_relu", "--sizes", f"{few},{many}", "--json", str(found)),
        )
        for point in json.loads(found.read_text()):
            size = point["size"]
            best[size] = min(best.get(size, point["plan"]), point["plan"])
            assert point["distinct"] == 1
        if best[many] <= best[few] * (many / few) ** 1.2:
            return
    raise AssertionError(f"seconds: {best}")


@on_host
def test_a_transformer_of_32_layers() -> None:
    """Half a minute cold on two cores, and a second from the disk."""
    least: dict[str, float] = {}
    for _ in range(3):
        for line in run("transformer.py").splitlines():
            match = re.search(r"([0-9.]+) s of CPU", line)
            assert match is not None, line
            name = line[:10].strip()
            least[name] = min(least.get(name, math.inf), float(match[1]))
        if least["cold"] / 2 < 30 and least["from disk"] < 1:
            return
    raise AssertionError(f"seconds: {least}")
