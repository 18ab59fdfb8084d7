# SPDX-License-Identifier: BSD-3-Clause
"""x * x[:1] where x is computed: one kernel has all of a dimension and one element of it.

The loops of the product run over the dimension, what is computed for the element is at one place of
it, and both are made by the same transforms (views, pads, rotations). See Indexer in
csrc/id_model/indexer.h.
"""

from __future__ import annotations

import random

import pytest
import torch
from helpers import DEVICE
from program_generator.check import check, realize, run_eagerly
from program_generator.program import Input, Layout, Program

MACHINES = [pytest.param(m, marks=pytest.mark.machine(m)) for m in ("host", "h200")]
SHAPES = [
    ("4",),
    ("A",),
    ("4", "4"),
    ("A", "B"),
    ("4", "B"),
    ("A", "6"),
    ("2", "4", "6"),
    ("A", "B", "4"),
]
CASES = [{"A": 6, "B": 8}, {"A": 2, "B": 4}, {"A": 16, "B": 130}]


def program(dims: tuple[str, ...], statements: list[str], outputs: list[str]) -> Program:
    sizes = {"a": dims, "b": dims, "d": ("1",)}
    inputs = [Input(name, s, torch.float32, Layout("contiguous")) for name, s in sizes.items()]
    return Program(0, CASES, inputs, [], statements, outputs)


def expect_right(what: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NVFUSER_TEST_NO_FALLBACKS", "1")
    finding, runs = check(what, DEVICE)
    assert finding is None, what.source()
    assert runs > 0


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(
    "dims, x, element",
    [
        (("4",), "(a * d).unflatten(0, (-1, 2))", "x[1:2]"),
        (("A", "B"), "(a * d).flatten()", "x[:1]"),
        (("A", "B"), "(a * d).flatten()", "x[-1:]"),
        (("A", "B"), "(a * d).unflatten(0, (2, -1))", "x[1:2]"),
        (("A", "B"), "(a * d).unflatten(1, (2, -1))", "x[..., 1:2]"),
        (("4", "4"), "F.pad(a * d, (4, 4)).unflatten(1, (-1, 2))", "x[:, 1:2]"),
        (("4",), "torch.roll(a * a.sum(), 2, 0).unflatten(0, (2, -1))", "x[1:2]"),
        # Written and read through tiles in shared memory.
        (("A", "B", "4"), "(a * d).unflatten(1, (2, -1)).transpose(0, -1)", "x[:, :1]"),
        (("A", "B"), "F.layer_norm(a, (a.size(-1),)).flatten()", "x[1:2]"),
    ],
)
def test_times_one_of_its_elements(
    machine: str, dims: tuple[str, ...], x: str, element: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    expect_right(program(dims, [f"x = {x}", f"y = x * {element}"], ["y"]), monkeypatch)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(
    "first, second",
    [("x[1:2]", "y[:1]"), ("x[:1]", "y[-1:]"), ("x[-1:]", "y[-1:] * 2")],
)
def test_twice_by_different_elements(
    machine: str, first: str, second: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One element of what was computed with another: each chain has places of its own."""
    statements = ["x = (a * d).flatten()", f"y = x - {first}", f"z = y * {second}"]
    expect_right(program(("A", "B"), statements, ["z"]), monkeypatch)


def random_chain(rng: random.Random) -> Program:
    """Views of a computed tensor, and elements that are combined with all of it."""
    dims = rng.choice(SHAPES)
    rank = len(dims)
    statements = [f"x0 = {rng.choice(['a * d', 'a * b', 'a.sin() + d', 'a * a.sum()'])}"]
    name = "x0"

    def write(text: str) -> None:
        nonlocal name
        name = f"x{len(statements)}"
        statements.append(f"{name} = {text}")

    def view() -> None:
        nonlocal rank
        kind = rng.choice(["flatten", "unflatten", "pad", "roll", "transpose", "none", "none"])
        if kind == "flatten" and rank > 1:
            write(f"{name}.flatten()")
            rank = 1
        elif kind == "unflatten" and rank < 4:
            write(f"{name}.unflatten({rng.randrange(rank)}, {rng.choice(['(2, -1)', '(-1, 2)'])})")
            rank += 1
        elif kind == "pad":
            write(f"F.pad({name}, {rng.choice(['(4, 4)', '(0, 4)', '(2, 2)'])})")
        elif kind == "roll":
            write(f"torch.roll({name}, {rng.choice([1, 2])}, {rng.randrange(rank)})")
        elif kind == "transpose" and rank > 1:
            write(f"{name}.transpose(0, -1)")

    for _ in range(rng.randrange(3)):
        view()
    for _ in range(rng.randint(1, 2)):
        index = [":"] * rank
        for _ in range(rng.choice([1, 1, 2])):
            index[rng.randrange(rank)] = rng.choice(["1:2", ":1", "-1:"])
        element = f"{name}[{', '.join(index)}]" + rng.choice(["", "", " * 2"])
        write(
            rng.choice(
                [f"{name} * ({element})", f"{element} - {name}", f"{name}.sigmoid() + {element}"]
            )
        )
        for _ in range(rng.randrange(2)):
            view()
    if rng.random() < 0.4:
        write(f"{name}.{rng.choice(['sum(-1)', 'softmax(-1)', 'sum(0)'])}")
    earlier = [f"x{rng.randrange(len(statements))}"] if rng.random() < 0.3 else []
    return program(dims, statements, list(dict.fromkeys([name, *earlier])))


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("seed", range(12))
def test_random_chains(machine: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed + 100 * (machine == "host"))
    while True:
        chain = random_chain(rng)
        try:
            for i in range(len(CASES)):
                run_eagerly(chain, realize(chain, i, 0))
        except (RuntimeError, IndexError):
            continue  # torch does not run it at these sizes
        break
    expect_right(chain, monkeypatch)
