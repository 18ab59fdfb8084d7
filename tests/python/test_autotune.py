# SPDX-License-Identifier: BSD-3-Clause
"""autotune(): candidates are checked, the faster ones kept and used again."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import nvfuse_direct
import nvfuse_direct.autotuning as module
import pytest
import torch
from helpers import DEVICE, define
from nvfuse_direct import DataType, FusionDefinition, autotune
from processes import run_script

extension = nvfuse_direct._C_DIRECT


def build(fd: FusionDefinition, factor: float = 2.0) -> None:
    a, b = (fd.define_tensor([-1, -1], [True, True], DataType.Float) for _ in range(2))
    fd.add_output(fd.ops.mul(fd.ops.relu(fd.ops.add(a, b)), factor))


def pair(rows: int = 256, columns: int = 512) -> list[torch.Tensor]:
    return [torch.randn(rows, columns, device=DEVICE) for _ in range(2)]


def expected(inputs: list[torch.Tensor], factor: float = 2.0) -> torch.Tensor:
    return torch.relu(inputs[0] + inputs[1]) * factor


@pytest.fixture
def trial_times(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """Times by the value of bdimx, in place of a clock; 100 for those that are not listed."""
    times: dict[str, float] = {}

    def microseconds(self: Any, segment: int, count: int) -> float:
        (report,) = self.cache._segment_reports(self.inputs)
        return times.get(str(report["params"]._fields()["bdimx"]), 100.0)

    monkeypatch.setattr(module._Trials, "microseconds", microseconds)
    return times


def test_every_candidate_has_a_fate() -> None:
    inputs = pair()
    report = autotune(define(build), inputs, candidates=8, keep=False)
    (segment,) = report.segments
    assert segment.scheduler == "pointwise"
    assert 2 <= len(segment.candidates) <= 8
    first, *others = segment.candidates
    assert not first.changes and first.ratio == 1.0 and first.fate in ("ok", "spills")
    assert all(each.changes for each in others)
    assert all(each.usable == (each.fate in ("ok", "spills")) for each in segment.candidates)
    text = str(report)
    assert "as the heuristics choose" in text and "ratio" in text and "best:" in text
    assert not segment.kept


REDUCTION = {
    "fastest_dim": True,
    "persistent_kernel": False,
    "any_extent": False,
    "unroll_factor_inner_reduction": 8,
    "unroll_factor_top_of_vectorization": 4,
    "batches_per_block_inner_reduction": 4,
    "unroll_factor_iter_dom": 4,
    "unroll_factor_outer_reduction": 4,
    "bdimx": 128,
}


@pytest.mark.parametrize(
    ("scheduler", "fields", "not_read"),
    [
        ("reduction", {}, "batches_per_block_inner_reduction unroll_factor_iter_dom"),
        ("reduction", {"fastest_dim": False}, "unroll_factor_inner_reduction"),
        (
            "inner_persistent",
            {"persistent_kernel": True},
            "unroll_factor_top_of_vectorization batches_per_block_inner_reduction",
        ),
        (
            "inner_persistent",
            {"persistent_kernel": True, "any_extent": True},
            "unroll_factor_top_of_vectorization",
        ),
        ("pointwise", {"break_point": 0, "unroll_factor_outer": 2}, "unroll_factor_outer"),
        ("greedy", {"threads_per_scan": 32}, "bdimx"),
    ],
)
def test_only_what_the_schedule_reads_is_tried(
    scheduler: str, fields: dict[str, Any], not_read: str
) -> None:
    start = {"bdimx": 128, **fields}
    if "reduction" in scheduler or "persistent" in scheduler:
        start = REDUCTION | fields
    tried = {name for each in module.neighbours(scheduler, start) for name in each}
    assert not tried & set(not_read.split())
    assert scheduler == "greedy" or "bdimx" in tried


def test_the_winner_is_kept_and_used_again(trial_times: dict[str, float]) -> None:
    inputs, factor = pair(), 2.125

    def definition(fd: FusionDefinition) -> None:
        build(fd, factor)

    fusion = define(definition)
    fusion.execute(inputs)
    (before,) = fusion.fec._segment_reports(inputs)
    fields = before["params"]._fields()
    faster = fields["bdimx"] // 2
    trial_times[str(faster)] = 50.0
    report = autotune(fusion, inputs, candidates=12)
    (segment,) = report.segments
    assert segment.kept and segment.best
    assert segment.best.changes["bdimx"] == faster
    assert segment.best.ratio == 2.0
    folder = Path(extension._tuned_params_directory())
    assert (folder / f"{before['tuning_key']}.txt").exists()
    try:
        for each in (fusion, define(definition)):
            torch.testing.assert_close(each.execute(inputs)[0], expected(inputs, factor))
            (after,) = each.fec._segment_reports(inputs)
            assert after["params"]._fields()["bdimx"] == faster
            assert after["chosen"] == before["chosen"]
        explanation = nvfuse_direct.explain(fusion, inputs, measure=False)
        assert explanation.segments[0].tuned
        assert "(tuned)" in str(explanation)
        check_in_another_process(factor, inputs[0].shape, faster)
        # Other sizes, for which something else was chosen, keep their parameters.
        small = pair(3, 5)
        torch.testing.assert_close(fusion.execute(small)[0], expected(small, factor))
        (other,) = fusion.fec._segment_reports(small)
        assert other["params"] == other["chosen"]
    finally:
        extension._erase_tuned_params(before["tuning_key"])
    assert not (folder / f"{before['tuning_key']}.txt").exists()


def check_in_another_process(factor: float, sizes: tuple[int, ...], bdimx: int) -> None:
    script = f"""
        import torch
        from nvfuse_direct import DataType, FusionDefinition

        with FusionDefinition() as fd:
            a, b = (fd.define_tensor([-1, -1], [True, True], DataType.Float) for _ in range(2))
            fd.add_output(fd.ops.mul(fd.ops.relu(fd.ops.add(a, b)), {factor}))
        inputs = [torch.randn({tuple(sizes)}, device="{DEVICE}") for _ in range(2)]
        fd.execute(inputs)
        (report,) = fd.fec._segment_reports(inputs)
        print(report["params"]._fields()["bdimx"])
    """
    result = run_script(textwrap.dedent(script))
    assert result.stdout.split() == [str(bdimx)], result.stdout + result.stderr


def test_nothing_faster_leaves_nothing_behind(trial_times: dict[str, float]) -> None:
    fusion, inputs = define(build), pair(128, 256)
    report = autotune(fusion, inputs, candidates=5)
    (segment,) = report.segments
    assert segment.best is segment.candidates[0]
    assert not segment.kept
    fusion.execute(inputs)
    (after,) = fusion.fec._segment_reports(inputs)
    assert after["params"] == after["chosen"]


def test_wrong_results_never_win(
    monkeypatch: pytest.MonkeyPatch, trial_times: dict[str, float]
) -> None:
    """All candidates but the first give wrong results, and would be faster."""
    find = module._Trials.find_reference
    calls = iter([0.0] + [1.0] * 100)
    execute = module._error

    def find_reference(self: Any, chosen: Any) -> None:
        find(self, chosen)
        monkeypatch.setattr(module, "_error", lambda a, b: execute(a, b) + next(calls))

    monkeypatch.setattr(module._Trials, "find_reference", find_reference)
    inputs = pair()
    for bdimx in (16, 32, 64, 256, 512):
        trial_times[str(bdimx)] = 1.0
    report = autotune(define(build), inputs, candidates=6, keep=False)
    first, *others = report.segments[0].candidates
    assert first.fate == "ok"
    assert {each.fate for each in others} <= {"wrong result", "refused", "same kernel"}
    assert report.segments[0].best is first


def test_red_zones_see_every_byte_around_a_tensor() -> None:
    zones = module.RedZones()
    tensor = zones.allocate([3, 5], [5, 1], DataType.Half, str(DEVICE))
    assert tensor.shape == (3, 5) and tensor.dtype == torch.half
    assert tensor.data_ptr() % zones.ALIGNMENT == 0
    tensor.fill_(1.0)
    assert zones.intact()
    for offset in (-1, 15):
        cell = tensor.as_strided([1], [1], tensor.storage_offset() + offset)
        old = cell.clone()
        cell.fill_(2.0)
        assert not zones.intact()
        cell.copy_(old)
        assert zones.intact()


def test_a_write_outside_an_output_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    allocate = module.RedZones.allocate

    def smaller(self: Any, sizes: Any, strides: Any, dtype: Any, device: str) -> Any:
        """The zone begins one row too early."""
        tensor = allocate(self, sizes, strides, dtype, device)
        self._zones.append(tensor[-1:].view(torch.uint8))
        return tensor

    monkeypatch.setattr(module.RedZones, "allocate", smaller)
    report = autotune(define(build), pair(), candidates=2, keep=False)
    assert report.segments[0].candidates[0].fate == "wrote outside"


def test_updated_inputs_are_left_alone() -> None:
    def in_place(fd: FusionDefinition) -> None:
        a = fd.define_tensor([-1], [True], DataType.Float)
        fd.add_output(fd.ops.add(a, 1.0), alias_input=a)

    x = torch.zeros(1000, device=DEVICE)
    report = autotune(define(in_place), [x], candidates=3, keep=False)
    assert report.segments[0].candidates[0].fate == "ok"
    assert not x.any()


def test_each_segment_is_tuned() -> None:
    def two(fd: FusionDefinition) -> None:
        a, b = (fd.define_tensor([-1, -1], [True, True], DataType.Float) for _ in range(2))
        total = fd.ops.segment_set(fd.ops.add(a, b))
        fd.add_output(fd.ops.relu(total))

    report = autotune(define(two), pair(), candidates=3, keep=False)
    assert [segment.index for segment in report.segments] == [0, 1]
    assert all(segment.candidates[0].fate == "ok" for segment in report.segments)


@pytest.mark.machine("hopper")
def test_a_normalization_is_tuned() -> None:
    def softmax(fd: FusionDefinition) -> None:
        x = fd.define_tensor([64, 256], [True, True], DataType.Float)
        exponential = fd.ops.exp(x)
        total = fd.ops.broadcast_in_dim(fd.ops.sum(exponential, [1]), [64, 256], [0])
        fd.add_output(fd.ops.div(exponential, total))

    report = autotune(
        define(softmax), [torch.randn(64, 256, device=DEVICE)], candidates=6, keep=False
    )
    (segment,) = report.segments
    assert segment.candidates[0].fate == "ok"
    assert len(segment.candidates) == 6


def test_nothing_to_tune_is_said() -> None:
    def view(fd: FusionDefinition) -> None:
        a = fd.define_tensor([-1, -1], [True, True], DataType.Float)
        fd.add_output(fd.ops.permute(a, [1, 0]))

    report = autotune(define(view), pair()[:1])
    assert report.segments == [] and report.params == {}
    assert "to tune" in str(report)


def test_parameters_are_read_and_changed_by_name() -> None:
    fusion, inputs = define(build), pair()
    fusion.execute(inputs)
    (report,) = fusion.fec._segment_reports(inputs)
    params = report["params"]
    fields = params._fields()
    assert params._with({}) == params
    changed = params._with({"bdimx": fields["bdimx"] * 2})
    assert changed != params
    assert changed._fields() == fields | {"bdimx": fields["bdimx"] * 2}
    with pytest.raises(RuntimeError, match="no parameter"):
        params._with({"no_such_field": 1})
    with pytest.raises(RuntimeError, match="another kind"):
        params._with({"bdimx": [1]})


def test_given_parameters_that_fail_are_an_error() -> None:
    fusion, inputs = define(build), pair()
    fusion.execute(inputs)
    (report,) = fusion.fec._segment_reports(inputs)
    fusion.fec._set_params({0: report["params"]._with({"bdimx": 1 << 20})})
    with pytest.raises(RuntimeError):
        fusion.execute(inputs)
    fusion.fec._set_params({})
    torch.testing.assert_close(fusion.execute(inputs)[0], expected(inputs))
