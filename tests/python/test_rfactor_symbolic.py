# SPDX-License-Identifier: BSD-3-Clause
"""Several reductions that share producers, factored and inlined by hand: what works for constant
extents works for symbolic ones too, unless registers would need a size that no constant gives."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from helpers import DEVICE, LONG
from nvfuse_direct import DataType, FusionDefinition, MemoryType, ParallelType

SHAPE = (6, 300)
Program = tuple[Any, list[Any], list[Any]]  # what is scheduled, reductions, shared values


class TorchOps:
    """The operations of a program, on tensors in double precision."""

    @staticmethod
    def mul(a: Any, b: Any) -> Any:
        return a * b

    @staticmethod
    def add(a: Any, b: Any) -> Any:
        return a + b

    @staticmethod
    def sub(a: Any, b: Any) -> Any:
        return a - b

    @staticmethod
    def div(a: Any, b: Any) -> Any:
        return a / b

    @staticmethod
    def exp(a: Any) -> Any:
        return a.exp()

    @staticmethod
    def broadcast(a: Any, _: list[bool]) -> Any:
        return a[:, None]

    @staticmethod
    def sum(a: Any, _: list[int]) -> Any:
        return a.sum(1)

    @staticmethod
    def max(a: Any, _: list[int]) -> Any:
        return a.amax(1)

    @staticmethod
    def welford(a: Any, _: list[int]) -> Any:
        return a.mean(1), a.var(1, correction=0) * a.shape[1], None


def wide(ops: Any, tv: Any) -> Any:
    return ops.broadcast(tv, [False, True])


def softmax(ops: Any, x: Any, out: Callable[[Any], None]) -> Program:
    doubled = ops.mul(x, 2.0)
    top = ops.max(doubled, [1])
    power = ops.exp(ops.sub(doubled, wide(ops, top)))
    total = ops.sum(power, [1])
    y = ops.div(power, wide(ops, total))
    out(y)
    return y, [top, total], [doubled, power]


def normalized(ops: Any, x: Any, out: Callable[[Any], None]) -> Program:
    doubled = ops.mul(x, 2.0)
    mean, m2, _ = ops.welford(doubled, [1])
    y = ops.div(ops.sub(doubled, wide(ops, mean)), wide(ops, m2))
    out(y)
    return y, [mean], [doubled]


def two_sums(ops: Any, x: Any, out: Callable[[Any], None]) -> Program:
    doubled = ops.mul(x, 2.0)
    total, top = ops.sum(doubled, [1]), ops.max(doubled, [1])
    out(ops.mul(top, 0.5))
    y = ops.sub(doubled, wide(ops, total))
    out(y)
    return y, [total, top], [doubled]


def one_after_the_other(ops: Any, x: Any, out: Callable[[Any], None]) -> Program:
    doubled = ops.mul(x, 2.0)
    total = ops.sum(doubled, [1])
    away = ops.sub(doubled, wide(ops, ops.mul(total, 1 / SHAPE[1])))
    squares = ops.sum(ops.mul(away, away), [1])
    out(ops.mul(total, 3.0))
    y = ops.add(away, wide(ops, squares))
    out(y)
    return y, [total, squares], [doubled, away]


PROGRAMS = [softmax, normalized, two_sums, one_after_the_other]


def expected(program: Callable, x: torch.Tensor) -> list[torch.Tensor]:
    results: list[torch.Tensor] = []
    program(TorchOps, x.double(), results.append)
    return results


def check(
    program: Callable, sizes: list[int], schedule: Callable[[FusionDefinition, Program], None]
) -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor(shape=sizes, contiguity=True, dtype=DataType.Float)
        schedule(fd, program(fd.ops, x, fd.add_output))
    value = torch.randn(SHAPE, device=DEVICE)
    results = [each.double() for each in fd.manual_execute([value])]
    torch.testing.assert_close(results, expected(program, value), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("axis", [1, 2])
@pytest.mark.parametrize("bound", [False, True])
@pytest.mark.parametrize("sizes", [[-1, -1], [6, -1], [-1, 300]])
def test_shared_values_stay_in_shared_memory(
    program: Callable, axis: int, bound: bool, sizes: list[int]
) -> None:
    def schedule(fd: FusionDefinition, built: Program) -> None:
        y, reductions, shared = built
        y.split(1, 64)
        if bound:
            y.axis(0).parallelize(ParallelType.grid_x)
            y.axis(2).parallelize(ParallelType.block_x)
        fd.sched.transform_like(y)
        for tv in reductions:
            tv.rfactor([axis])
        fd.sched.parallelize_like(y)
        for tv in shared:
            tv.set_memory_type(MemoryType.shared)
        fd.sched.inline_most()

    check(program, sizes, schedule)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("axis", [1, 2])
def test_blocks_of_any_number_of_threads(program: Callable, axis: int) -> None:
    """Shared memory for a reduction over 64 columns is taken for the threads that there are."""

    def schedule(fd: FusionDefinition, built: Program) -> None:
        y, reductions, shared = built
        y.split(1, 64)
        y.axis(1).parallelize(ParallelType.block_x)
        fd.sched.transform_like(y)
        fd.sched.parallelize_like(y)
        for tv in reductions:
            tv.rfactor([axis])
        for tv in shared:
            tv.set_memory_type(MemoryType.shared)
        fd.sched.inline_most()

    check(program, [-1, -1], schedule)


class RandomProgram:
    """One to three reductions of what has been computed so far."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def __call__(self, ops: Any, x: Any, out: Callable[[Any], None]) -> Program:
        pick = random.Random(self.seed)
        values = [ops.mul(x, 2.0) if pick.random() < 0.7 else x]
        shared = [] if values[0] is x else list(values)
        reductions: list[Any] = []
        for _ in range(pick.choice([1, 2, 2, 3])):
            value = pick.choice(values)
            if reductions and pick.random() < 0.6:
                value = ops.sub(value, wide(ops, pick.choice(reductions)))
                values.append(value)
                shared.append(value)
            if pick.random() < 0.3:
                mean, m2, _ = ops.welford(value, [1])
                reductions.append(mean)
                out(ops.mul(m2, 3.0))
            else:
                reductions.append(getattr(ops, pick.choice(["sum", "max"]))(value, [1]))
        y = pick.choice(values)
        for tv in reductions:
            y = ops.add(y, wide(ops, ops.mul(tv, 0.25)))
        out(ops.mul(y, 3.0))
        return y, reductions, shared


def random_schedule(seed: int) -> Callable[[FusionDefinition, Program], None]:
    def schedule(fd: FusionDefinition, built: Program) -> None:
        pick = random.Random(seed)
        y, reductions, shared = built
        outer = 1
        if pick.random() < 0.4:
            y.split(0, pick.choice([1, 2, 4]))
            outer = 2
        y.split(outer, pick.choice([2, 8, 32, 64]), inner_split=pick.random() < 0.75)
        if pick.random() < 0.3:
            y.split(outer, 4)
        axes = len(y.get_loop_domain())
        if pick.random() < 0.3:
            y.reorder({outer: outer + 1, outer + 1: outer})
        fd.sched.transform_like(y)
        if pick.random() < 0.5:
            y.axis(0).parallelize(ParallelType.grid_x)
        if pick.random() < 0.7:
            y.axis(pick.randrange(outer, axes)).parallelize(ParallelType.block_x)
        fd.sched.parallelize_like(y)
        factored = pick.randrange(outer, axes)
        for tv in reductions:
            if pick.random() < 0.8:
                tv.rfactor([factored])
        if pick.random() < 0.8:
            for tv in shared:
                tv.set_memory_type(MemoryType.shared)
        fd.sched.inline_most()

    return schedule


@pytest.mark.parametrize("seed", range(200 if LONG else 30))
def test_random_schedules(seed: int) -> None:
    program = RandomProgram(seed)
    check(program, list(SHAPE), random_schedule(seed))
    try:
        check(program, [-1, -1], random_schedule(seed))
    except RuntimeError as error:
        # Registers for each of so many iterations: no place of the loops around them helps.
        assert "which is not a constant" in str(error), error
