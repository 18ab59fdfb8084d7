"""The benchmark runner runs, checks its results, and covers the table of cases."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

RUNNER = Path(__file__).resolve().parents[2] / "benchmarks" / "run.py"
RUNNABLE = ["pointwise_mul", "bias_gelu", "silu_mul", "transpose_add", "rope"]


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    device = os.environ.get("NVFUSER_TEST_DEVICE", "cpu")
    command = [sys.executable, RUNNER, "--smoke", "--no-compile", "--device", device, *arguments]
    return subprocess.run(
        list(map(str, command)), capture_output=True, text=True, check=False, timeout=300
    )


def test_smoke_run_measures_every_runnable_case(tmp_path: Path) -> None:
    result = run("--out", tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr
    report = json.loads((tmp_path / "benchmarks.json").read_text())
    assert {"date", "torch", "device", "version"} <= report["environment"].keys()
    measured = {case["name"]: case for case in report["cases"] if "results" in case}
    assert list(measured) == RUNNABLE
    for case in measured.values():
        assert case["results"]["ours"]["microseconds"] > 0
        assert case["results"]["eager"]["percent_of_copy"] > 0
    assert len(report["cases"]) == 19
    assert {row["name"] for row in report["host"]} >= {
        "fd.execute relu(a+b)*2",
        "eager a+b",
        "cold compile",
        "new shape, kernel reused",
    }
    assert "bias_gelu" in (tmp_path / "benchmarks.txt").read_text()


def test_one_case_alone(tmp_path: Path) -> None:
    result = run("silu_mul", "--out", tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr
    report = json.loads((tmp_path / "benchmarks.json").read_text())
    assert [case["name"] for case in report["cases"]] == ["silu_mul"]
    assert report["host"] == []


def test_unknown_case_is_named() -> None:
    result = run("no_such_case")
    assert result.returncode == 2
    assert "no_such_case" in result.stderr


@pytest.fixture
def runner_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(RUNNER.parent))


def test_a_wrong_result_is_not_timed(runner_modules: None) -> None:
    import dataclasses

    import cases
    import run as benchmark
    import torch

    def define_wrong(fd, inputs) -> None:
        a, b = (fd.from_pytorch(tensor) for tensor in inputs)
        fd.add_output(fd.ops.cast(fd.ops.add(a, b), cases.DataType.BFloat16))

    device = torch.device(os.environ.get("NVFUSER_TEST_DEVICE", "cpu"))
    wrong = dataclasses.replace(cases.CASES[0], define=define_wrong)
    row = benchmark.Runner(device, smoke=True, with_compile=False).case(wrong)
    assert "wrong result" in row["error"]
    assert "results" not in row
