# SPDX-License-Identifier: BSD-3-Clause
"""Draws the statements of a program.

Each statement is tried on meta tensors at every case and probe: what torch refuses anywhere is
dropped, and the shapes and dtypes of its results are read off. Operands of different shapes are put
together only where their sizes agree at all cases and probes, or one is 1 at all of them: what
happens to be 1 at one case does not broadcast in a fusion.

A variable is *exact* if no rounding is involved in computing it. Functions that jump (comparisons,
floor, remainders, positions of a lookup) are applied to exact operands alone, so that two correct
programs agree on which side of the jump they are.
"""

from __future__ import annotations

import ast
import random
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType
from typing import Any

import torch
import torch.nn.functional

from .program import INTS, PROBES, Program

MOST_ELEMENTS = 30_000
Sizes = tuple[int, ...]  # one size of a tensor at all cases and probes


class Unsuitable(Exception):
    """The statement cannot be drawn here; another one may be."""


@dataclass
class Variable:
    name: str
    metas: list[torch.Tensor]
    exact: bool
    memory: frozenset[str]  # names of the variables whose storage it may share
    uses: int = 0

    @property
    def rank(self) -> int:
        return self.metas[0].dim()

    @property
    def dtype(self) -> torch.dtype:
        return self.metas[0].dtype

    @property
    def shape(self) -> list[Sizes]:
        return [tuple(m.shape[d] for m in self.metas) for d in range(self.rank)]

    @property
    def is_float(self) -> bool:
        return self.dtype.is_floating_point

    @property
    def is_int(self) -> bool:
        return self.dtype in INTS

    @property
    def is_bool(self) -> bool:
        return self.dtype == torch.bool


def is_one(sizes: Sizes) -> bool:
    return all(n == 1 for n in sizes)


def _compile(text: str) -> CodeType:
    return compile(text, "<statement>", "exec")


class Writer:
    """The program so far."""

    def __init__(self, program: Program, rng: random.Random) -> None:
        self.program = program
        self.rng = rng
        names = list(program.cases[0])
        probes = [dict(zip(names, probe, strict=False)) for probe in PROBES]
        self.cases = program.cases + probes
        self.variables: dict[str, Variable] = {}
        self.spaces: list[dict[str, Any]] = [
            {"torch": torch, "F": torch.nn.functional} for _ in self.cases
        ]
        for x in program.inputs:
            metas = [torch.empty(x.sizes(c), dtype=x.dtype, device="meta") for c in self.cases]
            self.variables[x.name] = Variable(x.name, metas, True, frozenset([x.name]))
            for space, meta in zip(self.spaces, metas, strict=True):
                space[x.name] = meta
        for number in program.numbers:
            for i, space in enumerate(self.spaces):
                space[number.name] = number.values[i % len(number.values)]
        self.count = 0

    # --- choosing

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def choice(self, *options: Any) -> Any:
        return self.rng.choice(options)

    def fresh(self) -> str:
        self.count += 1
        return f"t{self.count}"

    def pick(self, accepts: Callable[[Variable], bool] = lambda v: True) -> Variable:
        """A variable, rather a new one and one that is not used yet."""
        fitting = [v for v in self.variables.values() if accepts(v)]
        if not fitting:
            raise Unsuitable
        weights = [(2 + i) * (5 if v.uses == 0 else 1) for i, v in enumerate(fitting)]
        return self.rng.choices(fitting, weights)[0]

    def real(self, min_rank: int = 0) -> Variable:
        return self.pick(lambda v: v.is_float and v.rank >= min_rank)

    def dim(self, x: Variable, signed: bool = True) -> int:
        """A dimension, sometimes counted from the end."""
        if x.rank == 0:
            raise Unsuitable
        d = self.rng.randrange(x.rank)
        return d - x.rank if signed and self.chance(0.4) else d

    def dims(self, x: Variable) -> list[int]:
        if x.rank == 0:
            raise Unsuitable
        count = self.rng.choices([1, 2, x.rank], [6, 3, 1])[0]
        dims = sorted(self.rng.sample(range(x.rank), min(count, x.rank)))
        if self.chance(0.3):
            dims = [d - x.rank for d in dims]
        return dims

    def size_text(self, sizes: Sizes) -> str:
        """An expression with these sizes: a number or some variable's size."""
        if len(set(sizes)) == 1:
            return str(sizes[0])
        for v in sorted(self.variables.values(), key=lambda _: self.rng.random()):
            for d, each in enumerate(v.shape):
                if each == sizes:
                    return self.choice(f"{v.name}.size({d})", f"{v.name}.shape[{d}]")
        raise Unsuitable

    def fitted(self, y: Variable, x: Variable) -> str:
        """An expression of y that broadcasts against x."""
        if y.rank > x.rank:
            raise Unsuitable
        places: list[int] = []
        free = list(range(x.rank))
        ways: list[list[int]] = []

        def extend(i: int, first: int) -> None:
            if i == y.rank:
                ways.append(list(places))
                return
            for p in free[first:]:
                a, b = y.shape[i], x.shape[p]
                if a == b or is_one(a) or is_one(b):
                    places.append(p)
                    extend(i + 1, p + 1)
                    places.pop()

        extend(0, 0)
        if not ways:
            raise Unsuitable
        way = self.rng.choice(ways)
        if way == list(range(x.rank - y.rank, x.rank)):
            return y.name
        if len(way) + 1 == x.rank and self.chance(0.5):
            missing = next(d for d in range(x.rank) if d not in way)
            return f"{y.name}.unsqueeze({missing})"
        index = [":" if d in way else "None" for d in range(min([*way, x.rank]), x.rank)]
        return f"{y.name}[{', '.join(index)}]" if y.rank else y.name

    def partner(
        self, x: Variable, accepts: Callable[[Variable], bool] = lambda v: True
    ) -> tuple[str, Variable]:
        """Another operand for x and the text that broadcasts it."""
        names = [v for v in self.variables.values() if accepts(v)]
        self.rng.shuffle(names)
        names.sort(key=lambda v: v.rank == 0)
        for y in names:
            try:
                return self.fitted(y, x), y
            except Unsuitable:
                continue
        raise Unsuitable

    # --- writing

    def write(self, text: str, reads: list[Variable], exact: bool, view: bool = False) -> None:
        """Appends `text`, which assigns or updates; exact: does not round exact operands.

        view: the result may share memory with what it reads.
        """
        tree = ast.parse(text).body[0]
        targets = []
        if isinstance(tree, ast.Assign):
            first = tree.targets[0]
            nodes = first.elts if isinstance(first, ast.Tuple) else [first]
            targets = [n.id for n in nodes if isinstance(n, ast.Name) and n.id != "_"]
        results = self._run(text, targets)
        memory = frozenset().union(*(v.memory for v in reads)) if view else frozenset()
        exact = exact and all(v.exact for v in reads)
        for v in reads:
            v.uses += 1
        for name, metas in zip(targets, results, strict=True):
            for space, meta in zip(self.spaces, metas, strict=True):
                space[name] = meta
            is_exact = exact or not (metas[0].is_floating_point() or metas[0].is_complex())
            self.variables[name] = Variable(name, metas, is_exact, memory | {name})
        self.program.statements.append(text)

    def _run(self, text: str, targets: list[str]) -> list[list[torch.Tensor]]:
        """The results at all cases and probes, if torch takes it and they are small enough."""
        code = _compile(text)
        found: list[list[torch.Tensor]] = [[] for _ in targets]
        for i, space in enumerate(self.spaces):
            scope = dict(space)
            try:
                with torch.device("meta"):
                    exec(code, scope)
            except (RuntimeError, LookupError, TypeError, ValueError, ArithmeticError) as e:
                raise Unsuitable(str(e)) from e
            for name, metas in zip(targets, found, strict=True):
                meta = scope[name]
                if not isinstance(meta, torch.Tensor) or meta.dim() > 6:
                    raise Unsuitable
                if meta.dtype == torch.complex32:  # half and complex: no such type here
                    raise Unsuitable
                if i < len(self.program.cases) and meta.numel() > MOST_ELEMENTS:
                    raise Unsuitable
                metas.append(meta)
        for metas in found:
            if len({(m.dim(), m.dtype) for m in metas}) != 1:
                raise Unsuitable
        return found

    def update(self, x: Variable, text: str, reads: list[Variable], exact: bool) -> None:
        """Appends an in-place update of x; what may share its memory is not used any more."""
        self._run(text, [])
        x.exact = x.exact and exact and all(v.exact for v in reads)
        x.uses = 0
        for v in reads:
            v.uses += 1
        for name, v in list(self.variables.items()):
            if v is not x and v.memory & x.memory:
                del self.variables[name]
                for space in self.spaces:
                    space.pop(name, None)
        for each in self.program.inputs:
            if each.name == x.name:
                each.updated = True
        self.program.statements.append(text)


def generate(seed: int) -> Program:
    """The program of a seed; it runs on torch without an error at all its cases."""
    from .program import EXTENTS, draw_cases, draw_inputs
    from .templates import LATER, TEMPLATES

    rng = random.Random(seed)
    templates = [
        *TEMPLATES,
        *((function, weight) for first, function, weight in LATER if seed >= first),
    ]
    functions = [function for function, _ in templates]
    weights = [weight for _, weight in templates]
    while True:
        extents = EXTENTS[: rng.choices([1, 2, 3, 4], [2, 5, 4, 1])[0]]
        program = Program(seed, draw_cases(rng, extents))
        draw_inputs(rng, program, extents)
        if any(
            torch.Size(x.sizes(case)).numel() > MOST_ELEMENTS
            for x in program.inputs
            for case in program.cases
        ):
            continue
        writer = Writer(program, rng)
        wanted = rng.choices(
            [rng.randint(3, 8), rng.randint(8, 16), rng.randint(16, 25)], [5, 4, 2]
        )[0]
        for _ in range(20 * wanted):
            if len(program.statements) >= wanted:
                break
            try:
                rng.choices(functions, weights)[0](writer)
            except Unsuitable:
                continue
        _choose_outputs(program, writer, rng)
        if program.outputs and _runs(program):
            return program


def _choose_outputs(program: Program, writer: Writer, rng: random.Random) -> None:
    """Results that nothing reads, and now and then one that something does."""
    made = [v for v in writer.variables.values() if v.name.startswith("t")]
    unused = [v.name for v in made if v.uses == 0]
    rng.shuffle(unused)
    program.outputs = unused[: rng.randint(1, 6)]
    rest = [v.name for v in writer.variables.values() if v.name not in program.outputs]
    if rest and (rng.random() < 0.3 or not program.outputs):
        program.outputs.append(rng.choice(rest))
    if program.outputs and rng.random() < 0.03:
        program.outputs.append(program.outputs[0])


def _runs(program: Program) -> bool:
    """Whether the CPU has a kernel of torch for all of it."""
    from .check import realize, run_eagerly

    for index in range(len(program.cases)):
        try:
            run_eagerly(program, realize(program, index, 0))
        except (RuntimeError, IndexError, OverflowError):
            return False
    return True
