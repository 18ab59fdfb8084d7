# SPDX-License-Identifier: BSD-3-Clause
"""Drawing a graph by seed: the "pointwise" and the "reduction" mix of ops."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

from .model import FLOATS, INTS, Graph, Input, Node, Value, input_value
from .ops import JUMPS, OPS, SMOOTH

EXTENTS = (0, 1, 1, 2, 3, 4, 5, 7, 8, 13, 16, 32, 64)
MAX_ELEMENTS = 20_000
MAX_MAGNITUDE = 1e4


def compatible(a: Value, b: Value) -> bool:
    """Whether two values broadcast together, a size of 1 only where the definition knows it."""
    for (n, f), (m, g) in zip(
        zip(reversed(a.sizes), reversed(a.broadcast), strict=False),
        zip(reversed(b.sizes), reversed(b.broadcast), strict=False),
        strict=False,
    ):
        if n != m and not (n == 1 and f) and not (m == 1 and g):
            return False
    return True


class Generator:
    """Draws a graph; evaluates as it goes, so that every choice is legal and every value tame."""

    def __init__(self, seed: int) -> None:
        self.pick = random.Random(seed)
        self.seed = seed
        pick = self.pick
        rank = pick.choice([0, 1, 1, 2, 2, 2, 3, 3, 4])
        while True:
            self.base = [pick.choice(EXTENTS) for _ in range(rank)]
            if math.prod(self.base) <= MAX_ELEMENTS // 8:
                break
        if 0 in self.base and pick.random() < 0.7:
            self.base = [n or 3 for n in self.base]
        self.static = pick.random() < 0.4
        self.values: list[Value] = []
        self.inputs: list[Input] = []
        self.scalars: list[float | int] = []
        self.nodes: list[Node] = []

    def draw_dtype(self) -> str:
        return self.pick.choice(
            ["Float"] * 8
            + ["Half", "Half", "BFloat16", "Double", "Int", "Int32", "Bool", "ComplexFloat"]
        )

    def draw_input(self) -> Input:
        pick = self.pick
        keep = len(self.base) if pick.random() < 0.7 else pick.randrange(len(self.base) + 1)
        sizes = [1 if pick.random() < 0.15 else n for n in self.base[len(self.base) - keep :]]
        rank = len(sizes)
        order = list(range(rank))
        declaration = pick.choice(["contiguous", "contiguous", "strided", "exact"])
        expanded, padding, step, offset = [False] * rank, 0, 1, 0
        if declaration != "contiguous":
            if pick.random() < 0.4:
                pick.shuffle(order)
            if pick.random() < 0.3 and rank:
                expanded[pick.randrange(rank)] = True
            padding = pick.choice([0, 0, 1, 3, 8])
            step = pick.choice([1, 1, 1, 2, 3])
        if pick.random() < 0.25:
            offset = pick.choice([1, 2, 3, 4, 8])
        return Input(
            tuple(sizes),
            self.draw_dtype(),
            tuple(order),
            tuple(expanded),
            padding,
            step,
            offset,
            declaration,
            self.static,
            pick.randrange(100),
        )

    def build(self) -> Graph:
        pick = self.pick
        for _ in range(pick.choice([1, 1, 2, 2, 3, 4])):
            each = self.draw_input()
            self.inputs.append(each)
            self.values.append(input_value(each))
        for _ in range(pick.choice([0, 0, 1, 2])):
            self.scalars.append(pick.choice([2, 3, -1, 0.5, -1.25, 2.0]))
        target = pick.randrange(2, 18)
        for _ in range(10 * target):
            if len(self.nodes) >= target:
                break
            node = self.draw_node()
            if node is not None:
                self.accept(node)
        return self.finish()

    def accept(self, node: Node) -> None:
        value = OPS[node.op].evaluate(
            [self.values[i] for i in node.operands], node.extra, self.scalars
        )
        if value.data.numel() > MAX_ELEMENTS or len(value.sizes) > 6:
            return
        if value.magnitude > MAX_MAGNITUDE:
            return
        if value.error.numel() and float(value.error.max()) > 0.25 * (1 + value.magnitude):
            return
        self.nodes.append(node)
        self.values.append(value)

    def any_value(self, accept: Callable[[Value], bool] = lambda value: True) -> int | None:
        legal = [i for i, value in enumerate(self.values) if accept(value)]
        if not legal:
            return None
        # Recent values make deep graphs.
        return self.pick.choice(legal[-4:] if self.pick.random() < 0.6 else legal)

    def partner(self, first: int, accept: Callable[[Value], bool]) -> int | None:
        return self.any_value(lambda value: accept(value) and compatible(self.values[first], value))

    def draw_node(self) -> Node | None:
        kind = self.pick.choices(
            ["unary", "jump", "binary", "scalar", "compare", "where", "cast", "shape", "create"],
            weights=[5, 1, 6, 3, 1, 2, 2, 8, 0.7],
        )[0]
        return getattr(self, "draw_" + kind)()

    def draw_unary(self) -> Node | None:
        i = self.any_value(lambda v: v.dtype not in ("Bool", "ComplexFloat"))
        if i is None:
            return None
        x = self.values[i]
        names = ["neg", "abs", "relu", "set"]
        if x.dtype in FLOATS:
            names += [*SMOOTH]
            if x.magnitude <= 4:
                names.append("exp")
        return Node(self.pick.choice(names), (i,))

    def draw_jump(self) -> Node | None:
        i = self.any_value(lambda v: v.dtype in FLOATS and v.exact)
        return None if i is None else Node(self.pick.choice(JUMPS), (i,))

    def draw_binary(self) -> Node | None:
        first = self.any_value()
        if first is None:
            return None
        a = self.values[first]
        complex_too = a.dtype == "ComplexFloat"
        second = self.partner(
            first,
            lambda v: (
                (v.dtype == "ComplexFloat" or v.dtype == "Float")
                if complex_too
                else v.dtype != "ComplexFloat"
            ),
        )
        if second is None:
            return None
        b = self.values[second]
        if a.dtype == b.dtype == "Bool":
            names = ["bitwise_and", "bitwise_or", "bitwise_xor", "logical_and", "logical_or"]
        elif a.dtype in (*INTS, "Bool") and b.dtype in (*INTS, "Bool"):
            names = ["add", "sub", "mul", "minimum", "maximum", "bitwise_and", "bitwise_xor"]
        elif complex_too:
            names = ["add", "sub", "mul"]
        else:
            names = ["add", "add", "sub", "mul", "mul", "minimum", "maximum"]
        if (len(a.sizes) == 0) != (len(b.sizes) == 0) and a.dtype != b.dtype:
            return None  # rank-0 operands have a lower priority, which test_promotion.py covers
        operands = (first, second) if self.pick.random() < 0.5 else (second, first)
        return Node(self.pick.choice(names), operands)

    def draw_scalar(self) -> Node | None:
        i = self.any_value(lambda v: v.dtype != "Bool")
        if i is None:
            return None
        names = ["add", "sub", "mul"]
        if self.values[i].dtype != "ComplexFloat":
            names += ["minimum", "maximum"]
        first = self.pick.random() < 0.4
        if self.scalars and self.pick.random() < 0.5:
            extra: tuple[object, ...] = ("symbolic", self.pick.randrange(len(self.scalars)), first)
        else:
            extra = ("constant", self.pick.choice([2, -3, 0.5, -1.5, 0.25]), first)
        return Node(self.pick.choice(names) + "_scalar", (i,), extra)

    def draw_compare(self) -> Node | None:
        tame = lambda v: v.exact and v.dtype not in ("Bool", "ComplexFloat")  # noqa: E731
        first = self.any_value(tame)
        if first is None:
            return None
        if self.pick.random() < 0.2:
            return (
                Node(self.pick.choice(["logical_not", "isfinite"]), (first,))
                if self.values[first].dtype in FLOATS
                else Node("logical_not", (first,))
            )
        second = self.partner(first, lambda v: tame(v) and v.dtype == self.values[first].dtype)
        if second is None:
            return None
        return Node(self.pick.choice(["lt", "le", "gt", "ge", "eq", "ne"]), (first, second))

    def draw_where(self) -> Node | None:
        condition = self.any_value(lambda v: v.dtype == "Bool")
        if condition is None:
            return self.draw_compare()
        first = self.partner(condition, lambda v: True)
        if first is None:
            return None
        both = lambda v: v.dtype == self.values[first].dtype  # noqa: E731
        second = self.any_value(
            lambda v: (
                both(v)
                and compatible(self.values[condition], v)
                and compatible(self.values[first], v)
            )
        )
        return None if second is None else Node("where", (condition, first, second))

    def draw_cast(self) -> Node | None:
        i = self.any_value(lambda v: v.dtype != "ComplexFloat")
        if i is None:
            return None
        x = self.values[i]
        targets = ["Float", "Half", "BFloat16", "Double"]
        if x.exact and x.magnitude < 1000:
            targets += ["Int", "Int32", "Bool"]
        if x.dtype == "Double" and not x.exact:
            targets = ["Float", "Double"]
        return Node("cast", (i,), (self.pick.choice(targets),))

    def draw_create(self) -> Node | None:
        pick = self.pick
        if pick.random() < 0.5:
            dtype = pick.choice(["Float", "Half", "Int", "Double"])
            shape = tuple(self.base) if pick.random() < 0.7 else tuple(self.base[1:])
            return Node("full", (), (shape, pick.choice([1, -2, 3]), dtype))
        if not self.base:
            return None
        return Node("iota", (), (self.base[-1], pick.choice([0, 1, -4]), pick.choice([1, 2, -3])))

    def draw_shape(self) -> Node | None:
        pick = self.pick
        name = pick.choice(
            [
                "permute",
                "slice",
                "slice",
                "pad",
                "pad",
                "cat",
                "cat",
                "reshape",
                "reshape",
                "broadcast",
                "expand",
                "squeeze",
                "stride_order",
                "triu",
            ]
        )
        i = self.any_value()
        if i is None:
            return None
        x = self.values[i]
        rank = len(x.sizes)
        if name in ("permute", "stride_order"):
            order = list(range(rank))
            pick.shuffle(order)
            return Node(name, (i,), tuple(order)) if rank else None
        if name == "slice":
            starts = [pick.randrange(n + 1) if pick.random() < 0.4 else 0 for n in x.sizes]
            ends = [
                pick.randrange(a, n + 1) if pick.random() < 0.4 else n
                for a, n in zip(starts, x.sizes, strict=False)
            ]
            if 0 not in x.sizes and pick.random() < 0.9:
                starts = [min(a, n - 1) for a, n in zip(starts, x.sizes, strict=False)]
                ends = [max(b, a + 1) for a, b in zip(starts, ends, strict=False)]
            return Node("slice", (i,), (tuple(starts), tuple(ends))) if rank else None
        if name == "pad":
            return self.draw_pad(i, x)
        if name == "cat":
            return self.draw_cat(i, x)
        if name == "reshape":
            return Node("reshape", (i,), self.draw_factors(x.data.numel()))
        if name == "broadcast":
            flags = [False] * rank
            for _ in range(pick.choice([1, 1, 2])):
                flags.insert(pick.randrange(len(flags) + 1), True)
            return Node("broadcast", (i,), tuple(flags))
        if name == "expand":
            shape = [
                pick.choice([2, 3, 5, 8]) if flag and pick.random() < 0.7 else n
                for flag, n in zip(x.broadcast, x.sizes, strict=False)
            ]
            return Node("expand", (i,), tuple(shape)) if tuple(shape) != x.sizes else None
        if name == "squeeze":
            dims = [d for d, flag in enumerate(x.broadcast) if flag and pick.random() < 0.7]
            return Node("squeeze", (i,), tuple(dims)) if dims else None
        if rank < 2:
            return None
        return Node("triu", (i,), (pick.choice([-2, -1, 0, 1, 2]),))

    def draw_pad(self, i: int, x: Value) -> Node | None:
        pick = self.pick
        if not x.sizes:
            return None
        widths: list[int] = []
        for dim in range(pick.randrange(1, len(x.sizes) + 1)):
            n = x.sizes[len(x.sizes) - 1 - dim]
            left, right = pick.choice([0, 0, 1, 2, 5]), pick.choice([0, 0, 1, 3])
            if n > 3 and pick.random() < 0.3:
                left = -pick.choice([1, 2])
            if n > 3 and pick.random() < 0.2:
                right = -1
            widths += [left, right]
        value: object = None
        if pick.random() < 0.5:
            if x.dtype in FLOATS:
                value = pick.choice([1.5, -2.0, 0.25])
            elif x.dtype in INTS:
                value = pick.choice([3, -1])
        return Node("pad", (i,), (tuple(widths), value))

    def draw_cat(self, i: int, x: Value) -> Node | None:
        if not x.sizes:
            return None
        dim = self.pick.randrange(len(x.sizes))

        def fits(v: Value) -> bool:
            return (
                v.dtype == x.dtype
                and len(v.sizes) == len(x.sizes)
                and all(
                    d == dim or (a == b and f == g)
                    for d, (a, b, f, g) in enumerate(
                        zip(v.sizes, x.sizes, v.broadcast, x.broadcast, strict=False)
                    )
                )
            )

        members = [i]
        for _ in range(self.pick.choice([1, 1, 2])):
            other = self.any_value(fits)
            if other is not None:
                members.append(other)
        self.pick.shuffle(members)
        return Node("cat", tuple(members), (dim,))

    def draw_factors(self, count: int) -> tuple[int, ...]:
        pick = self.pick
        if count == 0:
            shape = [pick.choice([1, 2, 3]) for _ in range(pick.choice([0, 1, 2]))]
            shape.insert(pick.randrange(len(shape) + 1), 0)
            return tuple(shape)
        factors: list[int] = []
        rest = count
        for _ in range(pick.choice([0, 1, 1, 2, 3])):
            divisors = [d for d in range(1, min(rest, 64) + 1) if rest % d == 0]
            factors.append(pick.choice(divisors))
            rest //= factors[-1]
        factors.insert(pick.randrange(len(factors) + 1), rest)
        return tuple(factors)

    def finish(self) -> Graph:
        pick = self.pick
        used = {i for node in self.nodes for i in node.operands}
        leaves = [i for i in range(len(self.inputs), len(self.values)) if i not in used]
        others = [i for i in range(len(self.values)) if i not in leaves]
        outputs = leaves[-5:]
        outputs += [i for i in others if pick.random() < 0.08][:2]
        if pick.random() < 0.05 and outputs:
            outputs.append(outputs[0])
        if not outputs:
            outputs = [len(self.values) - 1]
        pick.shuffle(outputs)
        aliases: list[tuple[int, int]] = []
        if pick.random() < 0.25:
            aliases = self.draw_aliases(outputs)
        return Graph(
            self.seed,
            tuple(self.inputs),
            tuple(self.scalars),
            tuple(self.nodes),
            tuple(outputs),
            tuple(aliases),
        )

    def draw_aliases(self, outputs: list[int]) -> list[tuple[int, int]]:
        pairs = [
            (i, k)
            for k, each in enumerate(self.inputs)
            for i in range(len(self.inputs), len(self.values))
            if self.values[i].dtype == each.dtype
            and self.values[i].sizes == each.sizes
            and not any(flag and n > 1 for flag, n in zip(each.expanded, each.sizes, strict=False))
        ]
        if not pairs:
            return []
        pair = self.pick.choice(pairs)
        # The updated input itself is no output here: test_definition_api.py has that.
        outputs[:] = [i for i in outputs if i not in pair] or [
            i for i in range(len(self.inputs), len(self.values)) if i != pair[0]
        ][:1]
        return [pair]


class ReducingGenerator(Generator):
    """Adds reductions, normalizations, scans and lookups."""

    def draw_node(self) -> Node | None:
        kind = self.pick.choices(
            ["reduction", "normalization", "scan", "lookup", "other"], weights=[4, 2, 1, 2, 9]
        )[0]
        return super().draw_node() if kind == "other" else getattr(self, "draw_" + kind)()

    def draw_dims(self, rank: int) -> tuple[int, ...]:
        count = self.pick.choice([1, 1, 1, 2, rank])
        return tuple(sorted(self.pick.sample(range(rank), min(count, rank))))

    def draw_reduction(self) -> Node | None:
        pick = self.pick
        name = pick.choice(["sum", "sum", "max", "min"])
        i = self.any_value(
            lambda v: (
                bool(v.sizes)
                and (
                    name == "sum" or (v.dtype not in ("Bool", "ComplexFloat") and 0 not in v.sizes)
                )
            )
        )
        if i is None:
            return None
        dims = self.draw_dims(len(self.values[i].sizes))
        return Node(name, (i,), (dims, pick.random() < 0.5))

    def draw_normalization(self) -> Node | None:
        """The graphs of softmax and layer norm but for their divisions."""
        i = self.any_value(lambda v: bool(v.sizes) and v.dtype in FLOATS and 0 not in v.sizes)
        if i is None:
            return None
        x = self.values[i]
        dims = self.draw_dims(len(x.sizes))
        softmax = self.pick.random() < 0.5

        def add(op: str, operands: tuple[int, ...], extra: tuple = ()) -> int | None:
            count = len(self.values)
            self.accept(Node(op, operands, extra))
            return count if len(self.values) > count else None

        statistic = add("max" if softmax else "sum", (i,), (dims, True))
        if statistic is None:
            return None
        if not softmax:
            count = math.prod(x.sizes[d] for d in dims)
            statistic = add("mul_scalar", (statistic,), ("constant", 1 / count, False))
            if statistic is None:
                return None
        centred = add("sub", (i, statistic))
        if centred is None:
            return None
        if softmax and self.values[centred].magnitude > 4:
            return None
        terms = add("exp", (centred,)) if softmax else add("mul", (centred, centred))
        if terms is None:
            return None
        total = add("sum", (terms,), (dims, True))
        if total is None:
            return None
        return Node("mul", (terms if softmax else centred, total))

    def draw_scan(self) -> Node | None:
        i = self.any_value(lambda v: bool(v.sizes) and v.dtype != "Bool")
        if i is None:
            return None
        # An expanded dimension can't be scanned, and what is one can't be seen here.
        dims = [d for d, n in enumerate(self.values[i].sizes) if self.is_real(i, d)]
        return Node("cumsum", (i,), (self.pick.choice(dims),)) if dims else None

    def is_real(self, number: int, dim: int) -> bool:
        """Whether no expand can have made the dimension: it is one of an input."""
        return number < len(self.inputs) and not self.inputs[number].expanded[dim]

    def draw_lookup(self) -> Node | None:
        i = self.any_value(lambda v: bool(v.sizes))
        if i is None:
            return None
        x = self.values[i]
        dim = self.pick.randrange(len(x.sizes))
        if self.pick.random() < 0.5:
            index = self.any_value(lambda v: v.dtype in INTS and len(v.sizes) == 1)
            if index is None or self.pick.random() < 0.5:
                index = len(self.values)
                start, step = self.pick.choice([(0, 1), (1, 2), (-1, 1), (x.sizes[dim], -1)])
                self.accept(Node("iota", (), (self.pick.choice([1, 3, 7]), start, step)))
            return Node("index_select", (i, index), (dim,))
        index = self.any_value(
            lambda v: (
                v.dtype in INTS
                and len(v.sizes) == len(x.sizes)
                and all(
                    d == dim or n == m or (n == 1 and f) or (m == 1 and g)
                    for d, (n, m, f, g) in enumerate(
                        zip(v.sizes, x.sizes, v.broadcast, x.broadcast, strict=True)
                    )
                )
            )
        )
        return None if index is None else Node("take_along_axis", (i, index), (dim,))
