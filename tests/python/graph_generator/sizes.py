# SPDX-License-Identifier: BSD-3-Clause
"""The "sizes" mix: programs whose sizes decide what they are.

One value broadcast along two axes, slices that turn out to be broadcasts and are expanded and
scanned, empty and expanded inputs, selects, outputs added several times beside in-place updates.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from .draw import MAX_MAGNITUDE, ReducingGenerator, compatible
from .model import FLOATS, Graph, Input, Node, Value
from .ops import OPS, SMOOTH


class SizesGenerator(ReducingGenerator):
    """Adds what depends on sizes."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        if self.base and self.pick.random() < 0.2:
            self.base[self.pick.randrange(len(self.base))] = 0
        elif self.pick.random() < 0.7:
            self.base = [n or 3 for n in self.base]

    def draw_input(self) -> Input:
        pick = self.pick
        each = super().draw_input()
        rank = len(each.sizes)
        if pick.random() < 0.12:
            return dataclasses.replace(
                each, sizes=(), order=(), expanded=(), dtype=pick.choice(["Int", "Int32"])
            )
        if rank and pick.random() < 0.25:
            expanded = tuple(pick.random() < 0.5 for _ in range(rank))
            declaration = pick.choice(["exact", "expanded", "expanded"])
            each = dataclasses.replace(each, expanded=expanded, declaration=declaration)
        if pick.random() < 0.3:
            each = dataclasses.replace(each, offset=pick.choice([1, 2, 3, 4, 8]))
        if 0 in each.sizes and pick.random() < 0.5:
            each = dataclasses.replace(each, null=True, offset=0)
        return each

    def any_value(self, accept: Callable[[Value], bool] = lambda value: True) -> int | None:
        """Extrema of nothing are only used where they were made for."""
        return super().any_value(lambda v: v.magnitude <= MAX_MAGNITUDE and accept(v))

    def add(self, op: str, operands: tuple[int, ...], extra: tuple = ()) -> int | None:
        """The number of a new value, or None if it was too large or too inexact."""
        count = len(self.values)
        self.accept(Node(op, operands, extra))
        return count if len(self.values) > count else None

    def draw_node(self) -> Node | None:
        kind = self.pick.choices(
            ["two_axes", "late_expand", "select", "nothing", "other"], weights=[3, 3, 2, 1, 9]
        )[0]
        return super().draw_node() if kind == "other" else getattr(self, "draw_" + kind)()

    # ---- one value along two axes

    def draw_two_axes(self) -> Node | None:
        pick = self.pick
        i = self.any_value(
            lambda v: 0 < len(v.sizes) <= 3 and v.data.numel() <= 200 and v.dtype in FLOATS
        )
        if i is None:
            return None
        if pick.random() < 0.4:
            i = self.add(pick.choice(["neg", "set", *SMOOTH]), (i,)) or i
        rank = len(self.values[i].sizes) + 1
        first, second = pick.sample(range(rank), 2)
        one = self.add("broadcast", (i,), tuple(d == first for d in range(rank)))
        two = self.add("broadcast", (i,), tuple(d == second for d in range(rank)))
        if one is None or two is None:
            return None
        if pick.random() < 0.75:
            two = self.statistic(two)
        if two is not None and pick.random() < 0.3:
            two = self.add(pick.choice(["neg", "sin"]), (two,)) or two
        if two is None or not compatible(self.values[one], self.values[two]):
            return None
        pair = (one, two) if pick.random() < 0.5 else (two, one)
        return Node(pick.choice(["add", "sub", "mul"]), pair)

    def statistic(self, i: int) -> int | None:
        """Something about some of the dimensions, of size 1 along them."""
        pick = self.pick
        x = self.values[i]
        dims = self.draw_dims(len(x.sizes))
        if any(x.sizes[d] == 0 for d in dims):
            return self.add("sum", (i,), (dims, True))
        names = ["sum", "max", "min"] + (["var", "mean"] if x.dtype in ("Float", "Double") else [])
        return self.add(pick.choice(names), (i,), (dims, True))

    # ---- dimensions that turn out to be of size 1

    def draw_late_expand(self) -> Node | None:
        pick = self.pick
        i = self.any_value(lambda v: any(n > 1 for n in v.sizes) and v.dtype != "Bool")
        if i is None:
            return None
        x = self.values[i]
        dim = pick.choice([d for d, n in enumerate(x.sizes) if n > 1])
        at = pick.randrange(x.sizes[dim])
        starts = tuple(at if d == dim else 0 for d in range(len(x.sizes)))
        stops = tuple(at + 1 if d == dim else n for d, n in enumerate(x.sizes))
        scans = self.is_open(i, dim)
        cut = self.add("cut", (i,), (starts, stops))
        if cut is None or pick.random() < 0.2:
            return None
        size = pick.choice([0, 2, 3, 5, 8])
        shape = tuple(size if d == dim else n for d, n in enumerate(x.sizes))
        wide = self.add("expand", (cut,), shape)
        if wide is None or not scans or pick.random() < 0.4:
            return None
        return Node("cumsum", (wide,), (dim,))

    def is_open(self, number: int, dim: int) -> bool:
        """Whether the size is known only when the fusion runs: only then may it be scanned."""
        return number < len(self.inputs) and not self.inputs[number].static

    # ---- selects

    def draw_select(self) -> Node | None:
        pick = self.pick
        i = self.any_value(lambda v: any(v.sizes))
        if i is None:
            return None
        x = self.values[i]
        dim = pick.choice([d for d, n in enumerate(x.sizes) if n])
        n = x.sizes[dim]
        scalars = [
            ("symbolic", k, dim)
            for k, s in enumerate(self.scalars)
            if isinstance(s, int) and -n <= s < n
        ]
        index = self.any_value(
            lambda v: (
                v.sizes == () and v.dtype in ("Int", "Int32") and v.exact and -n <= int(v.data) < n
            )
        )
        kind = pick.choice(["constant", "symbolic", "tensor", "tensor"])
        if kind == "tensor" and index is not None:
            return Node("select", (i, index), ("tensor", None, dim))
        if kind == "symbolic" and scalars:
            return Node("select", (i,), pick.choice(scalars))
        return Node("select", (i,), ("constant", pick.randrange(-n, n), dim))

    # ---- reductions of nothing

    def draw_nothing(self) -> Node | None:
        """What a softmax makes of no elements."""
        i = self.any_value(lambda v: 0 in v.sizes and v.dtype in FLOATS)
        if i is None:
            return None
        x = self.values[i]
        dims = self.draw_dims(len(x.sizes))
        name = self.pick.choice(["max", "min", "sum"])
        extremum = len(self.values)
        node = Node(name, (i,), (dims, True))
        value = OPS[name].evaluate([x], node.extra, self.scalars)
        self.nodes.append(node)
        self.values.append(value)
        centred = self.add("sub", (i, extremum))
        if centred is None:
            return None
        power = self.add("exp", (centred,))
        return None if power is None else Node("sum", (power,), (dims, self.pick.random() < 0.5))

    # ---- outputs

    def finish(self) -> Graph:
        pick = self.pick
        graph = super().finish()
        outputs, aliases = list(graph.outputs), list(graph.aliases)
        if pick.random() < 0.3:
            aliases += self.draw_aliases(outputs)
        aliases = [
            pair for k, pair in enumerate(aliases) if pair[1] not in dict(aliases[:k]).values()
        ]
        for value, _ in aliases:
            if pick.random() < 0.6:
                outputs += [value] * pick.choice([1, 2, 3])
        if outputs and pick.random() < 0.15:
            outputs += [outputs[0], outputs[-1]]
        pick.shuffle(outputs)
        updated = {target for _, target in aliases}
        outputs = [i for i in outputs if i not in updated]
        return dataclasses.replace(
            graph,
            outputs=tuple(outputs),
            aliases=tuple(aliases),
            aliases_after=pick.randrange(len(outputs) + 1),
        )
