# SPDX-License-Identifier: BSD-3-Clause
"""explain(): the report about a fusion's kernels."""

from __future__ import annotations

import dataclasses
import inspect
import re
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

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


# ------------------------------------------------------- operations, boundaries and the picture


def normalization(fd: FusionDefinition) -> None:
    a, b = (fd.define_tensor([-1, -1], [True, True], DataType.Float) for _ in range(2))
    centred = fd.ops.sub(a, fd.ops.broadcast(fd.ops.sum(a, [1]), [False, True]))
    cut = fd.ops.segment_set(centred)
    fd.ops.tan(b)
    fd.add_output(fd.ops.exp(fd.ops.add(cut, b)))
    fd.add_output(fd.ops.permute(a, [1, 0]))


def line_of(text: str, function: object = normalization) -> str:
    """file:line of the line of the function that has the text."""
    lines, first = inspect.getsourcelines(function)
    (offset,) = [i for i, line in enumerate(lines) if text in line]
    return f"{inspect.getsourcefile(function)}:{first + offset}"


def test_each_segment_lists_its_operations_with_their_lines() -> None:
    report = explain(define(normalization), pair(), measure=False)
    assert len(report.segments) == 2
    first, second = report.segments
    where = {operation.kind: operation.source for operation in first.contents}
    for kind in ("sum", "broadcast", "sub"):
        assert where[kind] == line_of("centred = ")
    assert {operation.kind for operation in second.contents} >= {"add", "exp"}
    assert all(
        operation.source == line_of("fd.ops.exp(")
        for operation in second.contents
        if operation.kind in ("add", "exp")
    )
    text = report.text(width=400)
    for segment in report.segments:
        for operation in segment.contents:
            assert operation.text in text
            assert f"[{operation.line}]" in text


def test_each_boundary_has_a_reason() -> None:
    report = explain(define(normalization), pair(), measure=False)
    (boundary,) = report.boundaries
    assert (boundary.producer, boundary.consumer) == (0, 1)
    assert boundary.tensor in report.segments[0].outputs
    assert boundary.tensor in report.segments[1].inputs
    assert "segment_set" in boundary.why
    assert f"{boundary.tensor} goes from segment 0 to segment 1: {boundary.why}" in str(report)


def test_what_became_of_each_operation() -> None:
    report = explain(define(normalization), pair(), measure=False)
    fates = {operation.kind: fate for operation, fate in report.fates}
    assert fates["sum"] == fates["broadcast"] == fates["sub"] == "segment 0"
    assert fates["add"] == fates["exp"] == "segment 1"
    assert fates["tan"] == "no output needs it: not computed"
    assert "view" in fates["permute"]
    text = str(report)
    assert re.search(r"tan\(.*\): no output needs it: not computed", text)


def test_composite_operations_have_their_line_too() -> None:
    def build(fd: FusionDefinition) -> None:
        x = fd.define_tensor([-1, -1], [True, True], DataType.Half)
        fd.add_output(fd.ops.var(fd.ops.cast(x, DataType.Float), [1], 1, True))

    inputs = [torch.randn(64, 96, device=DEVICE).half()]
    report = explain(define(build), inputs, measure=False)
    operations = [operation for segment in report.segments for operation in segment.contents]
    assert len(operations) > 3
    assert {operation.source for operation in operations} == {line_of("fd.ops.var(", build)}


def parse(picture: str) -> tuple[list[str], ElementTree.Element]:
    root = ElementTree.fromstring(picture)
    space = "{http://www.w3.org/2000/svg}"
    assert root.tag == f"{space}svg"
    return [text.text or "" for text in root.iter(f"{space}text")], root


def test_the_picture_has_a_box_for_each_segment(tmp_path: Path) -> None:
    report = explain(define(normalization), pair())
    file = tmp_path / "segments.svg"
    picture = report.svg(file)
    assert file.read_text() == picture
    texts, root = parse(picture)
    for segment in report.segments:
        assert any(
            text.startswith(f"segment {segment.index}: {segment.scheduler}") for text in texts
        )
        for operation in segment.contents:
            assert any(text.startswith(operation.text[:60]) for text in texts)
    assert report.boundaries[0].tensor in texts
    titles = [title.text for title in root.iter("{http://www.w3.org/2000/svg}title")]
    assert report.boundaries[0].why in titles
    width, height = (float(root.get(name, "0")) for name in ("width", "height"))
    boxes = [box for box in root.iter("{http://www.w3.org/2000/svg}rect") if box.get("x")]
    assert len(boxes) == len(report.segments)
    for box in boxes:
        x, y, w, h = (float(box.get(name, "0")) for name in ("x", "y", "width", "height"))
        assert x >= 0 and y >= 0 and x + w <= width and y + h <= height


def test_boxes_of_the_picture_do_not_overlap() -> None:
    from nvfuse_direct.segment_picture import Box, Edge, draw

    boxes = [
        Box(f"segment {i} <&>", ["T1 = exp(T0)"] * (i * 9), "", ["T0"], ["T1"]) for i in range(6)
    ]
    edges = [
        Edge(0, 1, "T1", ""),
        Edge(0, 2, "T2", ""),
        Edge(1, 3, "T3", "a < b"),
        Edge(2, 3, "T4", ""),
        Edge(0, 3, "T5", ""),
        Edge(3, 5, "T6", ""),
    ]
    texts, _ = parse(draw(boxes, edges))
    assert any(text.startswith("... and ") for text in texts)
    for i, a in enumerate(boxes):
        for b in boxes[i + 1 :]:
            beside = a.x + a.width <= b.x or b.x + b.width <= a.x
            above = a.y + a.height <= b.y or b.y + b.height <= a.y
            assert beside or above
    for edge in edges:
        a, b = boxes[edge.producer], boxes[edge.consumer]
        assert a.y + a.height <= b.y


def test_a_fusion_without_kernels_has_an_empty_picture() -> None:
    def build(fd: FusionDefinition) -> None:
        fd.add_output(fd.ops.permute(fd.define_tensor([-1, -1], True), [1, 0]))

    report = explain(define(build), pair()[:1], measure=False)
    assert report.segments == []
    parse(report.svg())


def test_long_chains_of_slices_are_explained_in_lines() -> None:
    """Each size contains the one before several times: written out they would be exponential."""
    count = 60

    def build(fd: FusionDefinition) -> None:
        x = fd.define_tensor([-1], [True], DataType.Float)
        for i in range(count):
            x = fd.ops.neg(fd.ops.slice(x, [1], [999 - i]))
        fd.add_output(x)

    report = explain(define(build), [torch.randn(1000, device=DEVICE)], measure=False)
    assert sum(segment.operations for segment in report.segments) == 2 * count
    assert len(report.fates) == 2 * count
    assert len(report.text()) < 200 * count


def test_a_cut_is_explained_by_the_scheduler_that_is_meant() -> None:
    """Reductions by what refuses reductions, scans by what refuses scans."""

    def sums(fd: FusionDefinition) -> None:
        x = fd.define_tensor([-1, -1], [True, True], DataType.Float)
        away = fd.ops.sub(x, fd.ops.broadcast(fd.ops.sum(x, [1]), [False, True]))
        fd.add_output(fd.ops.sum(fd.ops.exp(away), [0]))
        fd.add_output(fd.ops.sum(fd.ops.reshape(fd.ops.exp(away), [-1, 2]), [0]))

    def scans(fd: FusionDefinition) -> None:
        x = fd.define_tensor([-1, -1], [True, True], DataType.Float)
        fd.add_output(fd.ops.cumsum(fd.ops.cumsum(fd.ops.neg(x), 0), 1))

    x = torch.randn(64, 96, device=DEVICE)
    for definition, meant in ((sums, "persistent"), (scans, "greedy")):
        report = explain(define(definition), [x], measure=False)
        assert len(report.segments) > 1
        assert any(meant in boundary.why for boundary in report.boundaries), str(report)
        assert not any("_pointwise_" in boundary.why for boundary in report.boundaries)


def test_bytes_of_what_is_read_in_part() -> None:
    """Slices and lookups read what they give, not the whole input."""
    table = torch.randn(5000, 64, device=DEVICE)
    index = torch.randint(0, 5000, (8,), device=DEVICE)
    row = 64 * 4

    def looked_up(fd: FusionDefinition) -> None:
        t, i = fd.from_pytorch(table), fd.from_pytorch(index)
        fd.add_output(fd.ops.neg(fd.ops.index_select(t, i, 0)))

    def sliced(fd: FusionDefinition) -> None:
        t = fd.from_pytorch(table)
        parts = [fd.ops.slice(t, [begin, 0], [begin + 10, 64]) for begin in (0, 100)]
        fd.add_output(fd.ops.add(*parts))

    def computed(fd: FusionDefinition) -> None:
        t = fd.ops.exp(fd.from_pytorch(table))
        fd.add_output(fd.ops.neg(fd.ops.slice(t, [0, 0], [10, 64])))

    for definition, inputs, expected in (
        (looked_up, [table, index], 8 * row + 8 * 8),
        (sliced, [table], 20 * row),
        (computed, [table], 10 * row),
    ):
        (segment,) = explain(define(definition), inputs, measure=False).segments
        assert segment.input_bytes == expected
