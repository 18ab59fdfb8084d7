# SPDX-License-Identifier: BSD-3-Clause
"""Random graphs against torch: none may differ, raise or crash, also under an adversary."""

from __future__ import annotations

import os
from collections.abc import Sequence

import pytest
import torch
from graph_generator import generate, run_seeds, shrink, smaller, without_dead_code
from helpers import DEVICE, LONG, ON_CUDA

WORKERS = max(1, min(os.cpu_count() or 1, 8))


def check(seeds: Sequence[int], env: dict[str, str] | None = None, mix: str = "pointwise") -> None:
    outcome = run_seeds(seeds, WORKERS, str(DEVICE), env=env, progress=LONG, mix=mix)
    assert not outcome.failures, "\n\n".join(
        [f"{len(outcome.failures)} of {len(seeds)} graphs fail", *outcome.failures[:10]]
    )
    assert outcome.passed == len(seeds)


def test_graphs_equal_torch() -> None:
    check(range(2000) if LONG else range(160))


def test_graphs_with_reductions_equal_torch() -> None:
    check(range(1000) if LONG else range(60), mix="reduction")


def test_graphs_that_depend_on_sizes_equal_torch() -> None:
    check(range(1000) if LONG else range(80), mix="sizes")


def test_the_first_schedule_is_legal() -> None:
    """No kernel is refused and replaced by simpler ones."""
    no_fallbacks = {"NVFUSER_TEST_NO_FALLBACKS": "1"}
    once_refused = [447, 551, 1408, 1460, 1592, 1773, 1861]
    check([*once_refused, *(range(2000) if LONG else range(40))], no_fallbacks)
    check([111, 166, 608], no_fallbacks, mix="reduction")


@pytest.mark.skipif(ON_CUDA, reason="a switch of the host target")
@pytest.mark.parametrize("adversary", [1, 2])
def test_graphs_equal_torch_under_an_adversary(adversary: int) -> None:
    """Threads in random order, shared memory poisoned, accesses checked for races."""
    first = 10_000 * adversary
    count = 500 if LONG else 20
    check(range(first, first + count), {"NVFUSER_HOST_ADVERSARIAL": str(adversary)})


# ---- the generator itself


def test_the_generator_repeats_itself() -> None:
    for seed in range(50):
        assert generate(seed).script() == generate(seed).script()


def test_the_generator_reaches_every_op() -> None:
    graphs = [generate(seed) for seed in range(400)]
    seen = {node.op for graph in graphs for node in graph.nodes}
    expected = {
        "neg",
        "exp",
        "floor",
        "add",
        "mul",
        "add_scalar",
        "lt",
        "where",
        "cast",
        "permute",
        "slice",
        "pad",
        "cat",
        "reshape",
        "broadcast",
        "expand",
        "squeeze",
        "stride_order",
        "triu",
        "full",
        "iota",
    }
    assert expected <= seen, expected - seen
    assert any(graph.aliases for graph in graphs)
    assert any(graph.scalars for graph in graphs)
    dtypes = {each.dtype for graph in graphs for each in graph.inputs}
    assert len(dtypes) == 8
    extents = {n for graph in graphs for each in graph.inputs for n in each.sizes}
    assert {0, 1, 7, 64} <= extents


def test_the_reference_agrees_with_torch() -> None:
    """The float64 reference and its bound hold for torch's own float32 arithmetic."""
    x = torch.linspace(-3, 3, 101)
    for name in ("sin", "tanh", "sigmoid", "erf", "atan"):
        exact = getattr(torch, name)(x.double())
        assert (
            (getattr(torch, name)(x).double() - exact).abs()
            <= 8 * 2.0**-23 * (exact.abs() + 1e-30) + 1e-37
        ).all()


def test_shrinking_keeps_what_fails() -> None:
    graph = next(
        g
        for g in map(generate, range(100, 400))
        if any(n.op == "pad" for n in g.nodes) and len(g.nodes) > 6
    )

    def fails(candidate: object) -> bool:
        return any(node.op == "pad" for node in candidate.nodes)

    small = shrink(without_dead_code(graph), lambda g: fails(g), seconds=20)
    if fails(without_dead_code(graph)):
        assert fails(small)
        assert len(small.nodes) <= len(graph.nodes)
        assert not any(
            fails(without_dead_code(each)) and len(without_dead_code(each).nodes) < len(small.nodes)
            for each in smaller(small)
        )
    small.evaluate()


# ---- what they found


def run_definition(define, *inputs: torch.Tensor) -> list[torch.Tensor]:
    from nvfuse_direct import FusionDefinition

    with FusionDefinition() as fd:
        define(fd)
    return fd.execute(list(inputs), device=DEVICE)


def test_output_that_another_output_repeats_is_written_whole() -> None:
    """A [2] written in the loops of a [2, 2] that is split at the inner 2."""
    from nvfuse_direct import DataType

    def define(fd):
        x = fd.define_tensor(shape=[2], contiguity=True)
        square = fd.ops.mul(x, x)
        column = fd.ops.reshape(x, [1, 2, 1, 1])
        fd.add_output(fd.ops.add(fd.ops.gt(fd.ops.full([2], -2.0, DataType.Float), square), column))
        fd.add_output(square)

    x = torch.tensor([1.5, -3.0], device=DEVICE)
    big, square = run_definition(define, x)
    assert torch.equal(square, x * x)
    assert torch.equal(big, (x * x < -2).float() + x.reshape(1, 2, 1, 1))


def test_expanded_value_fills_the_input_that_it_is_written_to() -> None:
    from nvfuse_direct import DataType

    def define(fd):
        target = fd.define_tensor(shape=[-1], contiguity=True)
        value = fd.define_tensor(sizes=[3], strides=[0], dtype=DataType.Float, static_sizes=False)
        fd.add_output(fd.ops.add(value, value), target)

    target = torch.arange(3.0, device=DEVICE)
    run_definition(define, target, torch.full((1,), 1.5, device=DEVICE).expand(3))
    assert target.tolist() == [3.0, 3.0, 3.0]


def test_output_beside_a_shift_of_its_input() -> None:
    """The second output's loops come from the input itself, not from it as the shift reads it."""
    from nvfuse_direct import DataType

    def define(fd):
        x = fd.define_tensor(shape=[-1], contiguity=True, dtype=DataType.Float)
        fd.add_output(fd.ops.mul(fd.ops.pad(x, [-1, 1]), x))
        fd.add_output(fd.ops.neg(x))

    x = torch.arange(1.0, 14.0, device=DEVICE)
    product, negated = run_definition(define, x)
    assert torch.equal(negated, -x)
    assert torch.equal(product, torch.nn.functional.pad(x, [-1, 1]) * x)


def test_loops_that_are_shared_at_different_depths() -> None:
    """The mask is read by two `where`s, one of which stands in one loop more than the other."""
    from nvfuse_direct import DataType

    def define(fd):
        x = fd.define_tensor(shape=[2, 32], contiguity=True, dtype=DataType.Float)
        mask = fd.define_tensor(shape=[1, 32], contiguity=True, dtype=DataType.Bool)
        masked = fd.ops.where(mask, x, x)
        wide = fd.ops.neg(fd.ops.broadcast(masked, [False, True, False]))
        fd.add_output(fd.ops.where(mask, wide, wide))
        fd.add_output(fd.ops.maximum(wide, masked))

    x = torch.arange(64.0, device=DEVICE).reshape(2, 32) - 20
    first, second = run_definition(define, x, torch.arange(32, device=DEVICE).reshape(1, 32) > 3)
    assert torch.equal(first, -x[:, None])
    assert torch.equal(second, torch.maximum(-x[:, None], x))


def test_padding_of_nothing() -> None:
    from nvfuse_direct import DataType

    def define(fd):
        x = fd.define_tensor(shape=[3, 7, 1], contiguity=True, dtype=DataType.Float)
        empty = fd.define_tensor(shape=[3, 7, 0], contiguity=True, dtype=DataType.Float)
        fd.add_output(fd.ops.pad(fd.ops.add(x, empty), [2, 3, 0, 1]))
        fd.add_output(fd.ops.neg(x))

    x = torch.arange(21.0, device=DEVICE).reshape(3, 7, 1)
    padded, negated = run_definition(define, x, torch.empty(3, 7, 0, device=DEVICE))
    assert torch.equal(padded, torch.zeros(3, 8, 5, device=DEVICE))
    assert torch.equal(negated, -x)
