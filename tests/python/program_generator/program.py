# SPDX-License-Identifier: BSD-3-Clause
"""What a random program is: inputs with declared layouts, the shapes it runs at, statements, text.

A program has a few symbolic extents (A, B, ...). A *case* gives each of them a number; a program
runs at all its cases from one fusion definition. Two *probes* are further cases with large primes
at which nothing is computed: sizes that agree at all cases and probes are the same expression.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import torch

EXTENTS = "ABCD"
PROBES = ((101, 103, 107, 109), (211, 223, 227, 229))

FLOATS = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
INTS = (torch.int64, torch.int32)

Case = dict[str, int]


@dataclass(frozen=True)
class Layout:
    """What an input declares of its memory, and so what layouts it may come with.

    kind: `contiguous` (row-major), `permuted` (dense, in the order `order`, slow to fast), `padded`
    (rows dense, a gap between them), `expanded` (stride 0 along `expanded`, the rest dense) or
    `strided` (anything: each case has another layout).
    """

    kind: str
    order: tuple[int, ...] = ()
    expanded: tuple[int, ...] = ()


@dataclass
class Input:
    """A tensor input. dims: expressions over the extents, one for each dimension."""

    name: str
    dims: tuple[str, ...]
    dtype: torch.dtype
    layout: Layout
    values: str = "uniform"  # or `integers`: few different ones, with zeros and ties
    updated: bool = False  # a statement writes to it in place

    def sizes(self, case: Case) -> tuple[int, ...]:
        return tuple(eval(dim, dict(case)) for dim in self.dims)

    def declared_shape(self) -> list[int]:
        return [int(dim) if dim.isdigit() else -1 for dim in self.dims]


@dataclass
class Number:
    """A Python number as input; values: one for each case."""

    name: str
    values: tuple[float, ...]


@dataclass
class Program:
    seed: int
    cases: list[Case]
    inputs: list[Input] = field(default_factory=list)
    numbers: list[Number] = field(default_factory=list)
    statements: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)

    def source(self) -> str:
        """The text of a function of the namespaces `torch` and `F` and of the inputs."""
        names = [x.name for x in self.inputs] + [x.name for x in self.numbers]
        lines = [f"def program({', '.join(['torch', 'F', *names])}):", *self.statements]
        lines.append(f"return [{', '.join(self.outputs)}]")
        return "\n    ".join(lines) + "\n"

    def description(self) -> str:
        """The text with the inputs and the cases, as comments."""
        lines = [f"# seed {self.seed}"]
        for x in self.inputs:
            layout = x.layout.kind
            layout += f" {x.layout.order or x.layout.expanded or ''}".rstrip()
            updated = ", updated" if x.updated else ""
            lines.append(f"# {x.name}: {x.dtype} [{', '.join(x.dims)}] {layout}{updated}")
        lines += [f"# {x.name}: {x.values}" for x in self.numbers]
        lines += [f"# case {i}: {case}" for i, case in enumerate(self.cases)]
        return "\n".join(lines) + "\n" + self.source()


def draw_cases(rng: random.Random, extents: str) -> list[Case]:
    """Four cases: ordinary sizes, primes, some 0 or 1, one about a block or a vector wide."""
    few = len(extents) <= 2
    ordinary = [2, 3, 4, 5, 6, 8, 12, 16, 32] if few else [2, 3, 4, 5, 6, 8]
    primes = [2, 3, 5, 7, 11, 13, 17, 31, 37, 61, 127] if few else [2, 3, 5, 7, 11]
    wide = [15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257, 511, 513, 1023, 1025]

    def draw(values: list[int]) -> Case:
        return {extent: rng.choice(values) for extent in extents}

    degenerate = draw(ordinary)
    for extent in rng.sample(extents, rng.randint(1, len(extents))):
        degenerate[extent] = rng.choice([0, 1, 1])
    blocks = draw([2, 3, 4, 7])
    blocks[rng.choice(extents)] = rng.choice(wide if few else wide[:14])
    return [draw(ordinary), draw(primes), degenerate, blocks]


def draw_layout(rng: random.Random, dims: tuple[str, ...]) -> Layout:
    rank = len(dims)
    kind = rng.choices(
        ["contiguous", "permuted", "padded", "expanded", "strided"], [5, 2, 1, 2, 4]
    )[0]
    if rank == 0 or kind == "contiguous":
        return Layout("contiguous")
    if kind == "permuted":
        order = list(range(rank))
        rng.shuffle(order)
        return Layout(kind, order=tuple(order))
    if kind == "expanded":
        candidates = [d for d in range(rank) if dims[d] != "1"]
        if not candidates:
            return Layout("contiguous")
        chosen = rng.sample(candidates, rng.randint(1, min(2, len(candidates))))
        return Layout(kind, expanded=tuple(sorted(chosen)))
    if kind == "padded" and rank < 2:
        return Layout("contiguous")
    return Layout(kind)


def draw_dims(rng: random.Random, base: tuple[str, ...], first: bool) -> tuple[str, ...]:
    """Dims of an input: the program's base shape, with some missing, 1, or in another order."""
    if first or rng.random() < 0.35:
        return base
    shape = list(base)
    choice = rng.random()
    if choice < 0.25:
        return tuple(shape[rng.randint(1, len(shape)) :])
    if choice < 0.5:
        shape = [dim if rng.random() < 0.5 else "1" for dim in shape]
        return tuple(shape)
    if choice < 0.65:
        kept = sorted(rng.sample(range(len(shape)), rng.randint(1, len(shape))))
        return tuple(shape[d] for d in kept)
    if choice < 0.85:
        rng.shuffle(shape)
        return tuple(shape[: rng.randint(1, len(shape))])
    shape[rng.randrange(len(shape))] = str(rng.choice([2, 3, 4, 7, 8, 16, 33]))
    return tuple(shape)


def draw_inputs(rng: random.Random, program: Program, extents: str) -> None:
    """One to five tensors, mostly of one floating-point dtype, and up to two numbers."""
    rank = rng.choices([1, 2, 3, 4], [2, 5, 4, 1])[0]
    base = tuple(
        rng.choices(
            [
                rng.choice(extents),
                f"{rng.choice(extents)}*{rng.choice([2, 4])}",
                str(rng.choice([1, 3, 4, 8, 32])),
            ],
            [8, 1, 1],
        )[0]
        for _ in range(rank)
    )
    main = rng.choices(FLOATS, [10, 4, 3, 3])[0]
    for i in range(rng.randint(1, 5)):
        kind = rng.random() if i else 0.0
        if kind < 0.72:
            dtype = main if rng.random() < 0.85 else rng.choice(FLOATS)
        elif kind < 0.88:
            dtype = rng.choice(INTS)
        elif kind < 0.95:
            dtype = torch.bool
        else:
            dtype = torch.complex64
        dims = draw_dims(rng, base, i == 0)
        layout = draw_layout(rng, dims)
        values = rng.choices(["uniform", "integers"], [3, 1])[0]
        program.inputs.append(Input("abcdefgh"[i], dims, dtype, layout, values))
    if rng.random() < 0.15:
        program.numbers.append(
            Number("s", tuple(rng.choice([-1.5, 0.25, 2.0, 3.0]) for _ in program.cases))
        )
    if rng.random() < 0.15:
        program.numbers.append(Number("k", tuple(rng.choice([1, 2, 3, -2]) for _ in program.cases)))
