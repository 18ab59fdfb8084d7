# SPDX-License-Identifier: BSD-3-Clause
"""explain(): what became of a fusion, kernel by kernel, and why."""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from . import _C_DIRECT
from ._C_DIRECT import FusionExecutorCache
from .measure import KernelTimer, copy_bandwidth, device_of, flattened
from .segment_picture import Box, Edge, draw

if TYPE_CHECKING:
    from ._C_DIRECT import HeuristicParams
    from .definition import FusionDefinition

_CALLS = 7


@dataclass
class Operation:
    """One operation of a segment, or of the definition."""

    kind: str  # exp, sum, broadcast, ...
    text: str  # T3 = exp(T2)
    source: str  # file:line that defined it; empty if it was defined in C++
    results: list[str]  # names in the text

    @property
    def line(self) -> str:
        """The source without the folders that lead to the current one."""
        folder = os.getcwd() + os.sep
        return self.source.removeprefix(folder)


@dataclass
class Boundary:
    """A tensor that one segment writes and another reads, and why they are not one."""

    tensor: str
    producer: int
    consumer: int
    why: str


@dataclass
class SegmentExplanation:
    """One kernel."""

    index: int
    scheduler: str
    contents: list[Operation]  # producers first
    inputs: list[str]  # names of tensors
    outputs: list[str]
    note: str  # why it is a kernel of its own, and what had to be simplified
    rejections: dict[str, str]  # by scheduler
    params: HeuristicParams | None
    tuned: bool  # the parameters are not the heuristics' choice
    kernel_name: str
    launch: str
    registers: int
    spill_bytes: int
    compile_ms: float
    input_bytes: int
    output_bytes: int
    predicted_us: float  # at the bandwidth of a copy
    measured_us: float | None

    @property
    def operations(self) -> int:
        return len(self.contents)

    @property
    def by_line(self) -> list[tuple[str, list[str]]]:
        """Operations grouped by the lines that defined them, in order."""
        groups: list[tuple[str, list[str]]] = []
        for operation in self.contents:
            if not groups or groups[-1][0] != operation.line:
                groups.append((operation.line, []))
            groups[-1][1].append(operation.text)
        return groups

    @property
    def achieved_gb_per_s(self) -> float | None:
        if not self.measured_us:
            return None
        return (self.input_bytes + self.output_bytes) / self.measured_us / 1e3

    @property
    def parameters(self) -> dict[str, Any]:
        """Those that say something: unset and switched-off ones are left out."""
        fields = {} if self.params is None else self.params._fields()
        # Of the many factors of reductions most are 1.
        factor = 1 if "fastest_dim" in fields else 0
        return {
            name: value
            for name, value in fields.items()
            if value not in ([], -1)
            and (value is True or value not in (0, factor))
            and (name, value) != ("maxrregcount", 255)
        }

    def lines(self) -> list[tuple[str, str]]:
        """Pairs of a heading and a text."""
        origin = " (tuned)" if self.tuned else ""
        rows = [("kernel", f"{self.kernel_name}: {self.launch}")]
        if self.scheduler == "expr_eval":
            rows[0] = ("kernel", f"none: {self.launch}")
        if self.scheduler != "expr_eval" and (self.registers or self.spill_bytes):
            rows[0] = ("kernel", f"{rows[0][1]}, {self.registers} registers a thread")
        if self.spill_bytes:
            rows.append(("spills", f"{self.spill_bytes} bytes"))
        if self.parameters:
            text = ", ".join(f"{name} {_value(value)}" for name, value in self.parameters.items())
            rows.append(("parameters", text + origin))
        rows.append(
            ("bytes", f"{_size(self.input_bytes)} read, {_size(self.output_bytes)} written")
        )
        time = f"{self.predicted_us:.1f} us at copy bandwidth"
        if self.scheduler == "expr_eval":
            # It may be bound by arithmetic.
            time = f"{self.measured_us:.1f} us measured" if self.measured_us else ""
        elif self.measured_us and self.achieved_gb_per_s:
            percent = 100 * self.predicted_us / self.measured_us
            time += f", {self.measured_us:.1f} us measured"
            time += f": {self.achieved_gb_per_s:.1f} GB/s, {percent:.0f} %"
        if time:
            rows.append(("time", time))
        if self.note:
            rows.append(("why", self.note))
        rows += [("declined", f"{name}: {why}") for name, why in self.rejections.items()]
        for line, texts in self.by_line:
            rows.append(("computes", "; ".join(texts) + (f"  [{line}]" if line else "")))
        return rows


def _value(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _size(count: int) -> str:
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} bytes"


@dataclass
class Explanation:
    """What explain() returns; print it."""

    device: str
    copy_gb_per_s: float
    segments: list[SegmentExplanation] = field(default_factory=list)
    # Outputs for which nothing is computed, in words.
    without_kernel: list[str] = field(default_factory=list)
    # How often a scheduler's kernel was refused and something simpler was made.
    fallbacks: int = 0
    # What passes from kernel to kernel.
    boundaries: list[Boundary] = field(default_factory=list)
    # The operations of the definition, and what became of each, in words.
    fates: list[tuple[Operation, str]] = field(default_factory=list)
    # Kernels that the definition has compiled so far, for these inputs and for others.
    compiles: int = 0
    # What a call allocates at its peak: results, tensors between the kernels, and workspaces.
    # What torch takes for itself while it evaluates an operation is not in it.
    peak_bytes: int = 0

    @property
    def predicted_us(self) -> float:
        return sum(segment.predicted_us for segment in self.segments)

    @property
    def measured_us(self) -> float | None:
        times = [segment.measured_us for segment in self.segments]
        return None if None in times else sum(time or 0.0 for time in times)

    def svg(self, path: str | os.PathLike[str] | None = None) -> str:
        """A picture of the segments, their operations and the tensors between them, as SVG.

        With a path it is written to that file as well. OSError: the file can't be written.
        """
        boxes = []
        for segment in self.segments:
            title = f"segment {segment.index}: {segment.scheduler}"
            if segment.measured_us:
                title += f", {segment.measured_us:.1f} us"
            rows = [
                f"{text}  [{line}]" if line else text
                for line, texts in segment.by_line
                for text in texts
            ]
            boxes.append(Box(title, rows, segment.note, segment.inputs, segment.outputs))
        edges = [Edge(b.producer, b.consumer, b.tensor, b.why) for b in self.boundaries]
        picture = draw(boxes, edges)
        if path is not None:
            with open(path, "w", encoding="utf-8") as file:
                file.write(picture)
        return picture

    def text(self, colour: bool = False, width: int = 110) -> str:
        """The report; headings in colour if asked for."""
        bold, dim, plain = ("\033[1m", "\033[2m", "\033[0m") if colour else ("", "", "")
        count = len(self.segments)
        summary = f"{count} kernel{'' if count == 1 else 's'} on {self.device}"
        summary += f", {self.predicted_us:.1f} us at the {self.copy_gb_per_s:.4g} GB/s of a copy"
        if self.measured_us:
            summary += f", {self.measured_us:.1f} us measured"
        if self.compiles > count:
            summary += f", {self.compiles} compiled for all inputs so far"
        if self.fallbacks:
            summary += f", {self.fallbacks} fallback{'' if self.fallbacks == 1 else 's'}"
        parts = [f"{bold}{summary}{plain}"]
        parts.append(f"peak memory: {_size(self.peak_bytes)} beyond inputs")
        for segment in self.segments:
            operations = f"{segment.operations} operation{'' if segment.operations == 1 else 's'}"
            title = f"segment {segment.index}: {segment.scheduler}, {operations}"
            parts.append(f"\n{bold}{title}{plain}")
            for heading, body in segment.lines():
                wrapped = textwrap.wrap(" ".join(body.split()), width - 13) or [""]
                parts.append(f"  {dim}{heading:<10}{plain} {wrapped[0]}")
                parts += [" " * 13 + line for line in wrapped[1:]]
        if self.boundaries:
            parts.append(f"\n{bold}between the kernels{plain}")
            for b in self.boundaries:
                way = f"  {b.tensor} goes from segment {b.producer} to segment {b.consumer}"
                parts.append(way + (f": {' '.join(b.why.split())}" if b.why else ""))
        elsewhere = [(op, fate) for op, fate in self.fates if not fate.startswith("segment ")]
        if elsewhere:
            parts.append(f"\n{bold}operations without a kernel{plain}")
            for operation, fate in elsewhere:
                where = f"  [{operation.line}]" if operation.line else ""
                parts.append(f"  {operation.text}: {fate}{where}")
        if self.without_kernel:
            parts.append("")
            parts += self.without_kernel
        return "\n".join(parts)

    def __str__(self) -> str:
        return self.text(colour=sys.stdout.isatty() and "NO_COLOR" not in os.environ)


def explain(fd: FusionDefinition, inputs: Sequence[Any], measure: bool = True) -> Explanation:
    """How a fusion is computed for these inputs: kernels, parameters, bytes, times, and why.

    Compiles what is not compiled yet. With `measure` the fusion is run a few times; inputs that it
    updates in place are copied before.
    """
    from .definition import _copies_of_updated

    cache: FusionExecutorCache = getattr(fd, "fec", None) or fd._make_executor_cache()
    flat = flattened(inputs)
    reports = cache._segment_reports(flat)
    device = device_of(flat)
    bandwidth = copy_bandwidth(device)
    times: dict[int, float] = {}
    if measure and any(report["segment_id"] >= 0 for report in reports):
        own = _copies_of_updated(fd.fusion, flat)
        times = KernelTimer(device).microseconds(cache, own, _CALLS)
    explanation = Explanation(
        str(device),
        bandwidth / 1e9,
        fallbacks=cache._num_fallbacks,
        compiles=cache._num_kernels,
        peak_bytes=cache._peak_bytes(flat),
    )
    for report in reports:
        index = report["segment_id"]
        if index < 0:
            explanation.without_kernel.append(report["note"])
            continue
        params, chosen = report["params"], report["chosen"]
        explanation.segments.append(
            SegmentExplanation(
                index=index,
                scheduler=report["scheduler"],
                contents=[Operation(*fields) for fields in report["operations"]],
                inputs=report["inputs"],
                outputs=report["outputs"],
                note=report["note"],
                rejections=report["rejections"],
                params=params,
                tuned=params is not None and chosen is not None and params != chosen,
                kernel_name=report["kernel_name"],
                launch=report["launch"],
                registers=report["registers"],
                spill_bytes=report["spill_bytes"],
                compile_ms=report["compile_ms"],
                input_bytes=report["input_bytes"],
                output_bytes=report["output_bytes"],
                predicted_us=(report["input_bytes"] + report["output_bytes"]) / bandwidth * 1e6,
                measured_us=times.get(index),
            )
        )
    explanation.boundaries = _boundaries(explanation.segments)
    explanation.fates = _fates(fd.fusion, explanation.segments)
    return explanation


def _boundaries(segments: list[SegmentExplanation]) -> list[Boundary]:
    maker = {name: segment for segment in segments for name in segment.outputs}
    return [
        Boundary(name, maker[name].index, segment.index, segment.note or maker[name].note)
        for segment in segments
        for name in segment.inputs
        if name in maker and maker[name] is not segment
    ]


def _definition(fusion: Any) -> list[tuple[Operation, bool]]:
    """The operations of a definition as they were written, and whether an output needs them."""
    live = {expr.output(0) for expr in _C_DIRECT._fusion_exprs(fusion)}
    seen: set[Any] = set()
    found = []
    for value in fusion.vals():
        expr = value.definition()
        if expr is None or not value.is_tensor():
            continue
        info = _C_DIRECT._expr_info(expr)
        if info["outputs"][0] in seen:
            continue
        seen.add(info["outputs"][0])
        kind = _C_DIRECT._op_name(expr)
        results = [_name(out) for out in info["outputs"]]
        text = f"{', '.join(results)} = {kind}({', '.join(map(_name, info['inputs']))})"
        source = _C_DIRECT._source_location(info["outputs"][0])
        found.append((Operation(kind, text, source, results), info["outputs"][0] in live))
    return found


def _name(value: Any) -> str:
    """T3 of a tensor; a scalar as it is printed."""
    text = str(value)
    return text.partition("_")[0] if value.is_tensor() else text


def _fates(fusion: Any, segments: list[SegmentExplanation]) -> list[tuple[Operation, str]]:
    """What became of each operation of the definition.

    Rewriting and cutting make new operations, which keep the line of the one that they come from:
    an operation is found again by its kind and its line.
    """
    places: dict[tuple[str, str], list[int]] = {}
    on_line: dict[str, list[str]] = {}
    for segment in segments:
        for operation in segment.contents:
            places.setdefault((operation.kind, operation.source), []).append(segment.index)
            if operation.source:
                on_line.setdefault(operation.source, []).append(
                    f"{operation.kind} of segment {segment.index}"
                )
    definition = _definition(fusion)
    written: dict[tuple[str, str], int] = {}
    for operation, is_live in definition:
        key = (operation.kind, operation.source)
        written[key] = written.get(key, 0) + is_live
    taken: dict[tuple[str, str], int] = {}
    fates = []
    for operation, is_live in definition:
        key = (operation.kind, operation.source)
        found = places.get(key, [])
        if not is_live:
            fate = "no output needs it: not computed"
        elif len(found) == written[key]:
            # One for each: they stand in the same order.
            fate = f"segment {found[taken.get(key, 0)]}"
            taken[key] = taken.get(key, 0) + 1
        elif found:
            fate = f"segment {', '.join(str(i) for i in sorted(set(found)))}"
        elif operation.source in on_line:
            fate = f"rewritten: {', '.join(dict.fromkeys(on_line[operation.source]))}"
        else:
            fate = "takes no time: a view of its operand, or its result is known without it"
        fates.append((operation, fate))
    return fates
