# SPDX-License-Identifier: BSD-3-Clause
"""One program against torch: its fusion at every case, twice at the first, in various layouts."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional
from nvfuse_direct import FusionDefinition

from .program import Input, Program
from .shadow import NOISY_RUNS, Runs, Shadow, namespaces, smallest, unit_roundoff
from .translate import translate

# How much farther off than the noisy evaluations a result may be.
SPREADS = 8.0
# Evaluations that a difference is checked against once more before it is reported: the few of the
# first look happen to agree here and there, most of all where a result is cut off (relu, clamp).
# The largest of so many errors is twice that of a few, so that fewer times as much is allowed.
MORE_NOISY_RUNS = 40
SPREADS_OF_MORE = 4.0


@dataclass
class Inputs:
    """Tensors in program order, each a view of a storage of its own, then numbers."""

    tensors: list[torch.Tensor]
    numbers: list[Any]
    storages: list[torch.Tensor] = field(default_factory=list)

    def all(self) -> list[Any]:
        return [*self.tensors, *self.numbers]

    def copy(self, device: str = "cpu") -> Inputs:
        storages = [x.to(device, copy=True) for x in self.storages]
        tensors = [
            s.as_strided(x.shape, x.stride(), x.storage_offset())
            for s, x in zip(storages, self.tensors, strict=True)
        ]
        return Inputs(tensors, list(self.numbers), storages)


@dataclass
class Finding:
    """What went wrong: kind is wrong, error, memory, fallback, crash or hang."""

    kind: str
    message: str
    case: int = -1


# ---------------------------------------------------------------------------------------- inputs


def _strides(sizes: tuple[int, ...], order: list[int]) -> list[int]:
    """Dense strides with dims from slow to fast in `order`."""
    strides, step = [0] * len(sizes), 1
    for d in reversed(order):
        strides[d] = step
        step *= max(sizes[d], 1)
    return strides


def _arrange(x: Input, sizes: tuple[int, ...], variant: int) -> list[int]:
    """The strides of an input; `strided` ones are laid out differently by variant."""
    rank = len(sizes)
    order = list(range(rank))
    kind = x.layout.kind
    if kind == "permuted":
        return _strides(sizes, list(x.layout.order))
    if kind == "expanded":
        kept = tuple(1 if d in x.layout.expanded else n for d, n in enumerate(sizes))
        strides = _strides(kept, order)
        return [0 if d in x.layout.expanded else s for d, s in enumerate(strides)]
    if kind == "padded":
        strides = _strides(sizes, order)
        return [s + 3 + variant if d == 0 else s for d, s in enumerate(strides)]
    if kind == "strided":
        if variant % 4 == 1:
            return [2 * s for s in _strides(sizes, order)]
        if variant % 4 == 2:
            return _strides(sizes, order[::-1])
        if variant % 4 == 3 and not x.updated and rank:
            strides = _strides(sizes, order)
            strides[variant // 4 % rank] = 0
            return strides
    return _strides(sizes, order)


def _values(x: Input, count: int, generator: torch.Generator) -> torch.Tensor:
    if x.dtype == torch.bool:
        return torch.randint(0, 2, (count,), generator=generator).bool()
    if not (x.dtype.is_floating_point or x.dtype.is_complex) or x.values == "integers":
        return torch.randint(-3, 6, (count,), generator=generator).to(x.dtype)
    kind = torch.complex128 if x.dtype.is_complex else torch.float64
    return torch.randn(count, generator=generator, dtype=kind).to(x.dtype)


def realize(program: Program, case_index: int, round_number: int) -> Inputs:
    """The inputs of a case; another round has other values, layouts and offsets."""
    case = program.cases[case_index]
    generator = torch.Generator().manual_seed(program.seed * 97 + case_index * 7 + round_number)
    rng = random.Random(program.seed * 31 + case_index + 1000 * round_number)
    found = Inputs([], [number.values[case_index] for number in program.numbers])
    for x in program.inputs:
        sizes = x.sizes(case)
        strides = _arrange(x, sizes, case_index + 4 * rng.randrange(4) + round_number)
        offset = rng.choice([0, 0, 0, 1, 2, 4])
        reach = (
            sum((n - 1) * s for n, s in zip(sizes, strides, strict=True)) if 0 not in sizes else 0
        )
        storage = _values(x, offset + reach + 2, generator)
        found.storages.append(storage)
        found.tensors.append(storage.as_strided(sizes, strides, offset))
    return found


# ----------------------------------------------------------------------------------- evaluations


def compiled(program: Program) -> Callable[..., list[Any]]:
    scope: dict[str, Any] = {}
    exec(compile(program.source(), f"<program {program.seed}>", "exec"), scope)
    return scope["program"]


def run_eagerly(program: Program, inputs: Inputs) -> list[torch.Tensor]:
    """By torch, in the program's own dtypes; inputs that are updated change."""
    return compiled(program)(torch, torch.nn.functional, *inputs.all())


def run_shadows(
    program: Program, inputs: Inputs, seed: int, noisy_runs: int = NOISY_RUNS
) -> list[Shadow]:
    """The outputs, then the inputs as the program leaves them."""
    runs = Runs(seed, noisy_runs)
    lifted = [runs.lift(x) for x in inputs.tensors]
    outputs = compiled(program)(*namespaces(runs), *lifted, *inputs.numbers)
    return [*outputs, *lifted]


def difference(actual: torch.Tensor, expected: Shadow) -> str | None:
    """What is wrong with `actual`, if anything."""
    work = expected.work
    if actual.dtype != work.dtype:
        return f"dtype {actual.dtype}, expected {work.dtype}"
    if actual.shape != work.shape:
        return f"shape {tuple(actual.shape)}, expected {tuple(work.shape)}"
    actual = actual.detach().cpu()
    if not (work.is_floating_point() or work.is_complex()):
        wrong = actual != work
        accepted = work
    elif work.is_complex():
        wrong = torch.zeros(work.shape, dtype=torch.bool)
        for part in (torch.real, torch.imag):
            pieces = [part(x) for x in expected.tensors]
            pieces[0] = pieces[0].contiguous()
            wrong |= _differs(part(actual), pieces, work.dtype, expected.runs.most)
        # A number one part of which is NaN is NaN. (Torch multiplies the second operand of a sum by
        # a complex 1, which makes NaN of both parts.)
        wrong &= ~(actual.isnan() & work.isnan())
        accepted = expected.tensors[1]
    else:
        wrong = _differs(actual, expected.tensors, work.dtype, expected.runs.most)
        accepted = expected.tensors[1]
    if not bool(wrong.any()):
        return None
    places = wrong.nonzero()
    first = tuple(int(i) for i in places[0])
    spread = [x[first].item() for x in expected.tensors[: 2 + NOISY_RUNS]]
    return (
        f"{len(places)} of {wrong.numel()} elements differ, first at {first}: "
        f"{actual[first].item()!r}, expected {accepted[first].item()!r} (evaluations: {spread})"
    )


def _differs(
    actual: torch.Tensor, tensors: list[torch.Tensor], dtype: torch.dtype, most: float
) -> torch.Tensor:
    """Elements that no rounding explains; real tensors: work, ideal, noisy ones.

    most: the largest number of the smallest dtype that the program has.
    """
    got, work, ideal = actual.double(), tensors[0].double(), tensors[1]
    noisy = torch.stack(tensors[1:])
    finite = noisy.isfinite()
    spread = (noisy - ideal).abs().amax(0)
    floor = spread[spread.isfinite()].median() if spread.isfinite().any() else 0.0
    own = (work - ideal).abs()
    spreads = SPREADS if len(noisy) <= 1 + NOISY_RUNS else SPREADS_OF_MORE
    tolerance = spreads * spread + 4 * own + floor + 4 * unit_roundoff(dtype) * ideal.abs()
    tolerance = tolerance + 4 * smallest(dtype)
    close = (got - ideal).abs() <= tolerance
    same = (got == work) | (got.isnan() & work.isnan())
    # Infinite or not a number in every evaluation, and in each the same one; else anything goes.
    stable = ((noisy == ideal) | (noisy.isnan() & ideal.isnan())).all(0) & (
        (work == ideal) | (work.isnan() & ideal.isnan())
    )
    unsettled = ~finite.all(0) & ~stable | finite.all(0) & ~work.isfinite()
    # Huge and of either sign: the reciprocal of what is zero but for its rounding.
    all_runs = torch.cat([work.unsqueeze(0).to(noisy.dtype), noisy])
    is_pole = (all_runs.amin(0) < 0) & (all_runs.amax(0) > 0)
    is_pole &= all_runs.abs().amin(0) > unit_roundoff(dtype) ** -0.5
    # Or that of what differs by more than itself. (Not of zero and its rounding.)
    is_pole |= spread > ideal.abs().clamp(min=1.0)
    # On the border of what a dtype holds, some evaluations are infinite and others are not.
    largest = torch.maximum(all_runs.abs().amax(0), ideal.abs() + tolerance)
    is_at_border = (largest >= most) & (ideal.abs() <= 2 * most)
    is_at_border |= largest >= torch.finfo(dtype).max
    overflows = got.isinf() & is_at_border & (got.sign() == ideal.sign())
    return ~(close | same | unsettled | is_pole & got.isinf() | overflows)


# -------------------------------------------------------------------------------------- checking


def _sum_products_in_float() -> None:
    """Otherwise cuBLAS may round partial sums of 16-bit products to 16 bits, as torch allows it to.

    Where they cancel, no bound on the rounding of the sum holds.
    """
    matmul = torch.backends.cuda.matmul
    matmul.allow_bf16_reduced_precision_reduction = False
    matmul.allow_fp16_reduced_precision_reduction = False


def check(
    program: Program,
    device: str = "cpu",
    report: Callable[[str], None] = lambda _: None,
    definition: FusionDefinition | None = None,
) -> tuple[Finding | None, int]:
    """The first finding of a program, if any, and the number of runs."""
    _sum_products_in_float()
    report("define")
    try:
        fd = translate(program) if definition is None else definition
    except Exception as error:
        return Finding("error", f"definition: {type(error).__name__}: {error}"), 0
    runs = 0
    rounds = [(i, 0) for i in range(len(program.cases))] + [(0, 1), (len(program.cases) - 1, 1)]
    for case_index, round_number in rounds:
        report(f"case {case_index}")
        inputs = realize(program, case_index, round_number)
        finding = check_case(program, fd, inputs, device)
        runs += 1
        if finding is not None:
            finding.case = case_index
            return finding, runs
    return None, runs


def check_case(
    program: Program, fd: FusionDefinition, inputs: Inputs, device: str
) -> Finding | None:
    expected = run_shadows(program, inputs, program.seed)
    ours = inputs.copy(device)
    try:
        outputs = fd.execute(ours.all(), device=device)
    except Exception as error:
        return Finding("error", f"{type(error).__name__}: {error}")
    names = [*program.outputs, *(x.name for x in program.inputs)]
    if len(outputs) != len(program.outputs):
        return Finding("error", f"{len(outputs)} outputs, expected {len(program.outputs)}")
    results = [*outputs, *ours.tensors]
    if _first_difference(names, results, expected) is not None:
        expected = run_shadows(program, inputs, program.seed, MORE_NOISY_RUNS)
        message = _first_difference(names, results, expected)
        if message is not None:
            return Finding("wrong", message)
    for x, before, after in zip(program.inputs, inputs.storages, ours.storages, strict=True):
        if _changed_outside(x, before, after, inputs.tensors[program.inputs.index(x)]):
            return Finding("memory", f"memory of {x.name} outside of it has changed")
    # A kernel that was replaced by simpler ones: right, but slower than it need be.
    if fd.fec._num_fallbacks and os.environ.get("NVFUSER_TEST_NO_FALLBACKS"):
        return Finding("fallback", f"{fd.fec._num_fallbacks} fallbacks")
    return None


def _first_difference(
    names: list[str], results: list[torch.Tensor], expected: list[Shadow]
) -> str | None:
    for name, actual, wanted in zip(names, results, expected, strict=True):
        message = difference(actual, wanted)
        if message is not None:
            return f"{name}: {message}"
    return None


def _changed_outside(
    x: Input, before: torch.Tensor, after: torch.Tensor, view: torch.Tensor
) -> bool:
    inside = torch.zeros(before.shape, dtype=torch.bool)
    if x.updated:
        inside.as_strided(view.shape, view.stride(), view.storage_offset()).fill_(True)
    after = after.cpu()
    same = (before == after) | ((before != before) & (after != after))
    return not bool((same | inside).all())
