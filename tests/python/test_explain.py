"""explain(): the report about a fusion's kernels."""

from __future__ import annotations

import dataclasses
import sys

import pytest
import torch
from helpers import DEVICE, define
from nvfuse_direct import DataType, FusionDefinition, explain


def pair(rows: int = 64, columns: int = 96) -> list[torch.Tensor]:
    return [torch.randn(rows, columns, device=DEVICE) for _ in range(2)]


def pointwise(fd: FusionDefinition) -> None:
    a, b = (fd.define_tensor([-1, -1], [True, True], DataType.Float) for _ in range(2))
    fd.add_output(fd.ops.relu(fd.ops.add(a, b)))


def test_one_kernel_is_described() -> None:
    report = explain(define(pointwise), pair())
    (segment,) = report.segments
    assert segment.scheduler == "pointwise"
    assert segment.operations == 2
    assert segment.input_bytes == 2 * 64 * 96 * 4
    assert segment.output_bytes == 64 * 96 * 4
    assert segment.predicted_us > 0
    assert segment.measured_us and segment.measured_us > 0
    assert segment.achieved_gb_per_s and segment.achieved_gb_per_s > 0
    assert segment.parameters["vectorization_factor"] >= 1
    assert not segment.tuned
    assert "transpose" in segment.rejections
    assert "pointwise" not in segment.rejections
    assert report.fallbacks == 0
    text = report.text()
    for word in ("pointwise", "vectorization_factor", "declined", "grid [", "copy", "measured"):
        assert word in text


def test_without_measuring_nothing_runs() -> None:
    fusion = define(pointwise)
    report = explain(fusion, pair(), measure=False)
    assert report.segments[0].measured_us is None
    assert report.measured_us is None
    assert "measured" not in str(report)


def test_cuts_and_outputs_without_a_kernel_are_named() -> None:
    def build(fd: FusionDefinition) -> None:
        a, b = (fd.define_tensor([-1, -1], [True, True], DataType.Float) for _ in range(2))
        fd.add_output(fd.ops.relu(a))
        fd.add_output(fd.ops.relu(fd.ops.segment_set(fd.ops.add(b, 1.0))))
        fd.add_output(fd.ops.permute(a, [1, 0]))

    report = explain(define(build), pair())
    assert len(report.segments) >= 2
    assert any("segment_set" in segment.note for segment in report.segments)
    assert any("view of input 0" in line for line in report.without_kernel)
    assert "view of input 0" in str(report)


def test_an_evaluated_segment_has_no_kernel() -> None:
    (segment,) = explain(define(pointwise), pair(), measure=False).segments
    evaluated = dataclasses.replace(
        segment, scheduler="expr_eval", params=None, launch="torch evaluates matmul"
    )
    lines = dict(evaluated.lines())
    assert lines["kernel"] == "none: torch evaluates matmul"
    assert "parameters" not in lines
    assert "time" not in lines  # copy bandwidth says nothing of it


def test_updated_inputs_are_left_alone() -> None:
    def build(fd: FusionDefinition) -> None:
        a = fd.define_tensor([-1], [True], DataType.Float)
        fd.add_output(fd.ops.add(a, 1.0), alias_input=a)

    x = torch.zeros(100, device=DEVICE)
    explain(define(build), [x])
    assert not x.any()


def test_colour_only_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    report = explain(define(pointwise), pair(), measure=False)
    print(report)
    assert "\033[" not in capsys.readouterr().out
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert "\033[1m" in str(report)
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\033[" not in str(report)
