"""Schedule operators; also reachable as fd.sched."""

import collections.abc
import typing
from . import Fusion, HeuristicParams, ParallelType, SchedulerType, TensorView

def bounded_transform_backward(__from: TensorView, pos: typing.SupportsIndex, to: collections.abc.Sequence[TensorView], propagate_parallel_type: bool = False) -> None:
    """Replays the first `pos` loop axes of `from` (-1: all) on what lies between it and the tensors in `to`, which are left as they are.
    """

def can_schedule(fusion: Fusion, scheduler_type: SchedulerType, inputs: collections.abc.Iterable[typing.Any]) -> tuple[bool, str]:
    """Whether a scheduler takes the fusion, and if not, why."""

def compute_heuristics(fusion: Fusion, scheduler_type: SchedulerType, inputs: collections.abc.Iterable[typing.Any]) -> HeuristicParams:
    """Parameters for these inputs. RuntimeError: the scheduler can't take the fusion."""

def find_compatible_schedulers(fusion: Fusion, inputs: collections.abc.Iterable[typing.Any]) -> list[SchedulerType]: ...

def inline_at(reference_tv: TensorView, pos: typing.SupportsIndex = -1, best_effort: bool = False, selected_tensors: collections.abc.Sequence[TensorView] = []) -> None:
    """Inlines at the positions that correspond to the reference's first `pos` loop axes."""

def inline_most(selected_tensors: collections.abc.Sequence[TensorView] = []) -> None:
    """Inlines all (or the selected) tensors as deep as is legal."""

def parallelize_like(reference_tv: TensorView, pos: typing.SupportsIndex = -1, selected_tensors: collections.abc.Sequence[TensorView] = [], selected_parallel_types: set[ParallelType] = ..., propagate_padding: bool = True) -> None:
    """Copies the reference's parallel types to the corresponding axes of the other tensors."""

@typing.overload
def schedule(fusion: Fusion, scheduler_type: SchedulerType, heuristic_params: HeuristicParams) -> None:
    """Schedules with given parameters."""
@typing.overload
def schedule(fusion: Fusion, scheduler_type: SchedulerType, inputs: collections.abc.Iterable[typing.Any]) -> HeuristicParams:
    """Schedules for inputs; returns the parameters."""

def transform_like(reference_tv: TensorView, selected_tensors: collections.abc.Sequence[TensorView] = []) -> None:
    """Replays the reference's loop transforms on all (or the selected) tensors."""

def warp_specialize(tv: TensorView, number_of_stages: typing.SupportsIndex, prefetch_distance: typing.SupportsIndex, parallel_type: ParallelType, num_registers: tuple[typing.SupportsIndex, typing.SupportsIndex] | None = None) -> None:
    """Loads the tensor into a circular buffer by extra warps along a thread dimension. `num_registers`: of each of their threads, and of each thread that computes.
    """
