# SPDX-License-Identifier: BSD-3-Clause
"""autotune(): measures other parameters than the heuristics' choice and keeps what is faster.

The search climbs: from the heuristics' choice it tries every neighbour (one parameter halved or
doubled, or two against each other), goes on from the fastest, and stops where nothing around is
faster. Every candidate is checked before it is timed: its results against the definition evaluated
by torch, the bytes around its outputs and intermediate tensors (red zones) against what they were
filled with, and its inputs against copies.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from . import _C_DIRECT
from ._C_DIRECT import FusionExecutorCache
from .measure import KernelTimer, device_of, flattened

if TYPE_CHECKING:
    import torch

    from ._C_DIRECT import HeuristicParams
    from .definition import FusionDefinition

Fields = dict[str, Any]

# Calls that a candidate is timed by; those that are much slower after the first few get no more.
_FEW, _MANY = 3, 12
_FAR_BEHIND = 1.25
# Pairs of which one is doubled while the other is halved.
_TRADED = (
    ("bdimx", "bdimy"),
    ("bdimx", "batches_per_block_inner_reduction"),
    ("bdimx", "unroll_factor_inner"),
    ("bdimx", "unroll_factor_top_of_vectorization"),
    ("bdimy", "unroll_factor_outer_reduction"),
    ("gdimy", "unroll_factor_outer_reduction"),
    ("tile_1", "tile_2"),
)


@dataclass
class Candidate:
    """Parameters that were tried, and what came of it."""

    changes: Fields  # against the heuristics' choice; empty for that itself
    fate: str  # ok, spills, same kernel, wrong result, wrote outside, refused, compile error
    note: str = ""
    microseconds: float | None = None
    ratio: float | None = None  # time of the heuristics' choice over this one's

    @property
    def usable(self) -> bool:
        return self.microseconds is not None


@dataclass
class SegmentTuning:
    """What was tried for one kernel."""

    index: int
    scheduler: str
    candidates: list[Candidate] = field(default_factory=list)
    best: Candidate | None = None  # the heuristics' choice if nothing is faster
    kept: bool = False  # the best is on record for later executions


@dataclass
class TuningReport:
    """What autotune() returns; print it."""

    device: str
    segments: list[SegmentTuning] = field(default_factory=list)
    seconds: float = 0.0
    # The best parameters of every segment that has some.
    params: dict[int, HeuristicParams] = field(default_factory=dict)

    def __str__(self) -> str:
        if not self.segments:
            return "No kernel of this fusion has parameters to tune."
        parts = []
        for segment in self.segments:
            parts.append(f"segment {segment.index}: {segment.scheduler} on {self.device}")
            rows = [("candidate", "us", "ratio", "fate", "")]
            for each in segment.candidates:
                rows.append(
                    (
                        _text(each.changes) or "as the heuristics choose",
                        "-" if each.microseconds is None else f"{each.microseconds:.1f}",
                        "-" if each.ratio is None else f"{each.ratio:.2f}",
                        each.fate,
                        each.note,
                    )
                )
            widths = [max(len(row[i]) for row in rows) for i in range(4)]
            for row in rows:
                cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
                parts.append(("  " + "  ".join([*cells, row[4]])).rstrip())
            if segment.best is not None:
                chosen = _text(segment.best.changes) or "as the heuristics choose"
                parts.append(f"  best: {chosen}{' (kept)' if segment.kept else ''}")
        return "\n".join([*parts, f"{self.seconds:.1f} s"])


def _text(changes: Fields) -> str:
    return ", ".join(f"{name} {value}" for name, value in changes.items())


# ---------------------------------------------------------------------------------------- red zones


class RedZones:
    """Allocates tensors between bytes of a known value, and tells whether those were changed."""

    MARGIN = 4096
    ALIGNMENT = 256
    FILLING = 0xA5

    def __init__(self) -> None:
        self._zones: list[torch.Tensor] = []

    def allocate(self, sizes: list[int], strides: list[int], dtype: Any, device: str) -> Any:
        """A tensor with a red zone on either side; bytes if the dtype is None."""
        import torch

        from .pytorch_utils import nvfuser_dtype_to_torch_dtype

        kind = torch.uint8 if dtype is None else nvfuser_dtype_to_torch_dtype(dtype)
        steps = [(size - 1) * stride for size, stride in zip(sizes, strides, strict=True)]
        elements = 0 if 0 in sizes else 1 + sum(steps)
        length = elements * kind.itemsize
        total = length + 2 * self.MARGIN + self.ALIGNMENT
        buffer = torch.full((total,), self.FILLING, dtype=torch.uint8, device=device)
        begin = self.MARGIN + -(buffer.data_ptr() + self.MARGIN) % self.ALIGNMENT
        # The tensor itself may end anywhere: what follows it at once belongs to the zone.
        self._zones += [buffer[:begin], buffer[begin + length :]]
        # A view as another type needs a whole number of elements.
        return buffer[begin : begin + length].view(kind).as_strided(sizes, strides)

    def intact(self) -> bool:
        return all(bool((zone == self.FILLING).all()) for zone in self._zones)


# ------------------------------------------------------------------------------------------- checks


def _error(result: torch.Tensor, reference: torch.Tensor) -> float:
    """Largest error, relative to the value or the root mean square; infinite where unlike."""
    import torch

    if result.shape != reference.shape:
        return float("inf")
    if not (result.is_floating_point() or result.is_complex()):
        return 0.0 if torch.equal(result, reference.to(result.dtype)) else float("inf")
    wide = torch.complex128 if result.is_complex() else torch.float64
    result, reference = result.to(wide), reference.to(wide)
    finite = reference[reference.isfinite()].abs()
    if finite.numel() == 0:
        return 0.0
    scale = reference.abs().clamp(min=max(finite.square().mean().sqrt().item(), 1e-300))
    same = (result == reference) | (result.isnan() & reference.isnan())
    error = torch.where(same, 0.0, (result - reference).abs() / scale)
    return float(error.nan_to_num(float("inf")).max())


class _Trials:
    """Runs, checks and times a fusion with given parameters."""

    def __init__(self, fd: FusionDefinition, inputs: list[Any]) -> None:
        from .definition import _copies_of_updated
        from .validation import _visible

        self.fusion = fd.fusion
        self.cache = FusionExecutorCache(self.fusion)
        self.inputs = inputs
        self.device = device_of(inputs)
        self.timer = KernelTimer(self.device)
        self.copies = lambda: _copies_of_updated(self.fusion, inputs)
        self.visible = _visible(self.fusion)
        self.reports = self.cache._segment_reports(inputs)
        self.reference: list[torch.Tensor] = []
        self.allowed: list[float] = []

    def find_reference(self, chosen: dict[int, HeuristicParams]) -> None:
        """By torch, op by op; by the heuristics' choice where that cannot be."""
        from .reference import evaluate

        self.cache._set_params(chosen)
        results = self.cache.execute(self.copies())
        try:
            everything = evaluate(self.fusion, self.copies())
            self.reference = [everything[position] for position in self.visible]
        except (NotImplementedError, AttributeError):
            self.reference = results
        tolerances = _C_DIRECT._output_tolerances(self.fusion, list(self.inputs))
        for position, result, reference in zip(self.visible, results, self.reference, strict=True):
            # What the order of a long sum does to the heuristics' choice it may do to others.
            own = _error(result, reference)
            self.allowed.append(max(tolerances[position][1], 4 * own))

    def check(self) -> tuple[str, str]:
        """Fate and note of the parameters that are set."""
        import torch

        zones = RedZones()
        inputs = self.copies()
        kept = [each.clone() if isinstance(each, torch.Tensor) else each for each in inputs]
        try:
            results = self.cache._execute_with(inputs, zones.allocate)
            self._synchronize()
        except RuntimeError as error:
            return _failure(str(error))
        if not zones.intact():
            return "wrote outside", "a red zone around an output was changed"
        for own, before, after in zip(self.inputs, kept, inputs, strict=True):
            untouched = own is after and isinstance(own, torch.Tensor)
            if untouched and not torch.equal(_bytes(before), _bytes(after)):
                return "wrote outside", "an input was changed"
        for index, result in enumerate(results):
            worst = _error(result, self.reference[index])
            if not worst <= self.allowed[index]:
                return "wrong result", f"output {index}: error {worst:.3g}"
        return "ok", ""

    def _synchronize(self) -> None:
        import torch

        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def kernel(self, segment: int) -> tuple[str, str]:
        """Text and launch; neither names the parameters."""
        report = self._report(segment)
        return report["kernel_text"].replace(report["kernel_name"], ""), report["launch"]

    def _report(self, segment: int) -> dict[str, Any]:
        reports = self.cache._segment_reports(self.inputs)
        return next(each for each in reports if each["segment_id"] == segment)

    def microseconds(self, segment: int, count: int) -> float:
        times = self.timer.microseconds(self.cache, self.copies(), count)
        return times.get(segment, 0.0)

    def spill_bytes(self, segment: int) -> int:
        return self._report(segment)["spill_bytes"]


def _failure(message: str) -> tuple[str, str]:
    """Fate and note of a candidate of which no kernel could be made."""
    lines = message.strip().splitlines() or [""]
    if not re.search(r"nvrtc|ptxas|compiler|\berror:", message, re.IGNORECASE):
        return "refused", lines[0][:100]
    line = next((line for line in lines if re.search(r"\berror:", line)), lines[0])
    return "compile error", line[line.find("error:") :][:100] if "error:" in line else line[:100]


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    import torch

    return tensor.contiguous().reshape(-1).view(torch.uint8)


# ------------------------------------------------------------------------------------------- search


def read_by_schedule(scheduler: str, fields: Fields) -> tuple[str, ...]:
    """The numbers that a schedule with these parameters reads: they are halved and doubled."""
    if scheduler == "pointwise":
        rows = ("unroll_factor_outer",) if fields["break_point"] > 0 else ()
        return ("vectorization_factor", "unroll_factor_inner", "bdimx", *rows)
    if scheduler == "transpose":
        return ("tile_1", "tile_2", "threads", "vectorization_1", "vectorization_2")
    if "fastest_dim" not in fields:
        return ()
    shares = ("cluster_size", "bdimx", "bdimy", "gdimy")
    if not fields["fastest_dim"]:
        return ("unroll_factor_iter_dom", "unroll_factor_outer_reduction", *shares)
    at_once: tuple[str, ...]
    if not fields["persistent_kernel"]:
        at_once = ("unroll_factor_top_of_vectorization",)
    else:  # a row of one length leaves as many batches as its threads need
        at_once = ("batches_per_block_inner_reduction",) if fields["any_extent"] else ()
    return ("unroll_factor_inner_reduction", *at_once, *shares)


def neighbours(scheduler: str, fields: Fields) -> Iterator[Fields]:
    """Changes that lead to parameters next to these."""
    scaled = [
        name
        for name in read_by_schedule(scheduler, fields)
        if isinstance(fields.get(name), int) and fields[name] >= 1
    ]
    for name in scaled:
        yield {name: fields[name] * 2}
        if fields[name] % 2 == 0:
            yield {name: fields[name] // 2}
    for a, b in _TRADED:
        if a in scaled and b in scaled:
            for up, down in ((a, b), (b, a)):
                if fields[down] % 2 == 0:
                    yield {up: fields[up] * 2, down: fields[down] // 2}
    widths = fields.get("vector_widths")
    if widths and any(width > 1 for width in widths):
        yield {"vector_widths": [max(width // 2, 1) for width in widths]}


class _Search:
    """Climbs from the heuristics' choice for one segment."""

    def __init__(
        self,
        trials: _Trials,
        report: dict[str, Any],
        others: dict[int, HeuristicParams],
        limit: int,
        deadline: float,
    ) -> None:
        self.trials, self.others = trials, others
        self.limit, self.deadline = limit, deadline
        self.chosen: HeuristicParams = report["chosen"]
        self.start: Fields = self.chosen._fields()
        self.tuning = SegmentTuning(report["segment_id"], report["scheduler"])
        self.seen: list[Fields] = []
        self.kernels: list[tuple[str, str]] = []
        self.base_us: float | None = None
        self.best_us: float | None = None

    def run(self) -> HeuristicParams:
        """The fastest parameters; the chosen ones if no candidate gains enough."""
        best = self.try_fields(self.start)
        if best is None or not best.usable:
            return self.chosen
        here = self.start
        while (better := self.climb(here)) is not None:
            best, here = better
        self.tuning.best = best
        return self.chosen._with(best.changes)

    def climb(self, here: Fields) -> tuple[Candidate, Fields] | None:
        """The fastest neighbour that is faster than anything before."""
        found = None
        for changes in neighbours(self.tuning.scheduler, here):
            fields = here | changes
            if fields in self.seen:
                continue
            before = self.best_us
            candidate = self.try_fields(fields)
            if candidate is None:
                break
            took, least = candidate.microseconds, before
            if candidate.usable and took is not None and least is not None and took < least:
                found = candidate, fields
        return found

    def try_fields(self, fields: Fields) -> Candidate | None:
        """None when the limits are reached."""
        if self.seen and (len(self.seen) >= self.limit or time.monotonic() > self.deadline):
            return None
        self.seen.append(fields)
        changes = {name: value for name, value in fields.items() if self.start[name] != value}
        candidate = Candidate(changes, "ok")
        self.tuning.candidates.append(candidate)
        index = self.tuning.index
        self.trials.cache._set_params(self.others | {index: self.chosen._with(changes)})
        try:
            kernel = self.trials.kernel(index)
        except RuntimeError as error:
            candidate.fate, candidate.note = _failure(str(error))
            return candidate
        if kernel in self.kernels:
            candidate.fate = "same kernel"
            return candidate
        self.kernels.append(kernel)
        candidate.fate, candidate.note = self.trials.check()
        if candidate.fate != "ok":
            return candidate
        spills = self.trials.spill_bytes(index)
        if spills:
            candidate.fate, candidate.note = "spills", f"{spills} bytes"
        time_us = self.trials.microseconds(index, _FEW)
        if self.best_us is None or time_us < _FAR_BEHIND * self.best_us:
            time_us = self.trials.microseconds(index, _MANY)
        candidate.microseconds = time_us
        self.base_us = self.base_us if changes else time_us
        self.best_us = min(self.best_us or time_us, time_us)
        if self.base_us and time_us:
            candidate.ratio = self.base_us / time_us
        return candidate


def autotune(
    fd: FusionDefinition,
    inputs: Sequence[Any],
    *,
    candidates: int = 48,
    seconds: float = 120.0,
    gain: float = 1.02,
    keep: bool = True,
) -> TuningReport:
    """Looks for faster parameters of each kernel of a fusion, for inputs like these.

    At most `candidates` are tried for each kernel, for `seconds` in all. What is faster by the
    factor `gain` is kept on disk, next to the compiled kernels, for the same kernel at shapes for
    which the heuristics choose the same, on the same kind of device: `fd` uses it from its next
    call on, other fusions and processes when they plan such a call. With keep=False nothing is
    changed.
    """
    begin = time.monotonic()
    trials = _Trials(fd, flattened(inputs))
    tunable = [
        report
        for report in trials.reports
        if report["chosen"] is not None and report["chosen"]._fields()
    ]
    tuning = TuningReport(str(trials.device))
    if not tunable:
        return tuning
    best = {report["segment_id"]: report["chosen"] for report in tunable}
    trials.find_reference(best)
    for count, report in enumerate(tunable):
        index = report["segment_id"]
        # Each segment gets its share of what is left.
        left = seconds - (time.monotonic() - begin)
        deadline = time.monotonic() + left / (len(tunable) - count)
        others = {other: params for other, params in best.items() if other != index}
        search = _Search(trials, report, others, candidates, deadline)
        winner = search.run()
        result = search.tuning
        tuning.segments.append(result)
        if result.best is not None and result.best.changes and (result.best.ratio or 0) >= gain:
            best[index] = winner
            if keep:
                _C_DIRECT._store_tuned_params(report["tuning_key"], winner)
                result.kept = True
        else:
            result.best = next((each for each in result.candidates if not each.changes), None)
            if keep:
                _C_DIRECT._erase_tuned_params(report["tuning_key"])
    if keep and hasattr(fd, "fec"):
        fd.fec._set_params({})  # plans are made anew
    tuning.params = best
    tuning.seconds = time.monotonic() - begin
    return tuning
