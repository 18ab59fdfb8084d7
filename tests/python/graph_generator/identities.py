# SPDX-License-Identifier: BSD-3-Clause
"""The same graph, spelled in another way: identities that hold exactly, put in where an operation
reads an operand. Both definitions compute the same and are to become the same kernels.

    python -m graph_generator.identities --count 2000        (in tests/python)
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import time
from collections.abc import Callable
from typing import Any

import torch

from .check import check
from .mixes import MIXES, generate
from .model import OPS, Graph, Value

# Outputs that are views of inputs need no kernel, and would with something before them; lookups
# read in memory, and scatters write.
COMPUTING = {
    *("neg", "abs", "relu", "sin", "cos", "tanh", "sigmoid", "atan", "erf", "asinh", "exp"),
    *("add", "sub", "mul", "minimum", "maximum", "where", "cast"),
    *("add_scalar", "sub_scalar", "mul_scalar", "lt", "le", "gt", "ge", "logical_not"),
    *("sum", "max", "min", "mean", "var"),
}
REDUCING = {"sum", "max", "min", "mean", "var"}
FULL = ("Float", "Double")
WIDER = {"Half": "Float", "BFloat16": "Float", "Float": "Double", "Int32": "Int", "Bool": "Float"}


def _call(name: str, *operands: str) -> str:
    return f"fd.ops.{name}({', '.join(operands)})"


def _twice(name: str) -> Callable[[str, Value], str]:
    return lambda x, value: _call(name, _call(name, x))


def _with(name: str, scalar: str) -> Callable[[str, Value], str]:
    return lambda x, value: _call(name, x, scalar)


def _there_and_back(x: str, value: Value) -> str:
    wide = f"fd.ops.cast({x}, DataType.{WIDER[value.dtype]})"
    return f"fd.ops.cast({wide}, DataType.{value.dtype})"


def _permuted_twice(x: str, value: Value) -> str:
    rank = len(value.sizes)
    order = [*range(1, rank), 0]
    back = [rank - 1, *range(rank - 1)]
    return f"fd.ops.permute(fd.ops.permute({x}, {order}), {back})"


def _unsqueezed(x: str, value: Value) -> str:
    flags = [True] + [False] * len(value.sizes)
    return f"fd.ops.squeeze(fd.ops.broadcast({x}, {flags}), [0])"


def _plus_minus_zero(x: str, value: Value) -> str:
    full = f"fd.ops.full(fd.ops.shape({x}), -0.0, DataType.{value.dtype})"
    return _call("add", x, full)


FILLED = "plus a tensor of -0.0"
Identity = tuple[Callable[[Value], bool], Callable[[str, Value], str]]
IDENTITIES: dict[str, Identity] = {
    "neg neg": (lambda v: v.dtype in (*FULL, "Int", "Int32"), _twice("neg")),
    "times 1": (lambda v: v.dtype in (*FULL, "Int"), _with("mul", "1")),
    "times 1.0": (lambda v: v.dtype in FULL, _with("mul", "1.0")),
    "by 1.0": (lambda v: v.dtype in FULL, _with("truediv", "1.0")),
    "minus 0.0": (lambda v: v.dtype in FULL, _with("sub", "0.0")),
    "pow 1": (lambda v: v.dtype in FULL, _with("pow", "1.0")),
    FILLED: (
        lambda v: v.dtype in FULL and 0 not in v.sizes and True not in v.broadcast,
        _plus_minus_zero,
    ),
    "wider and back": (lambda v: v.dtype in WIDER, _there_and_back),
    "permuted and back": (lambda v: len(v.sizes) > 1, _permuted_twice),
    "unsqueezed and squeezed": (lambda v: True, _unsqueezed),
    "a copy": (lambda v: True, lambda x, v: _call("set", x)),
    "not not": (lambda v: v.dtype == "Bool", _twice("logical_not")),
    "the greater of both": (lambda v: v.dtype in FULL, lambda x, v: _call("maximum", x, x)),
    "where either way": (
        lambda v: v.dtype in FULL,
        lambda x, v: _call("where", _call("lt", x, "0.0"), x, x),
    ),
}


class Respelling:
    """`graph` with identities at some operands: its definition as text."""

    def __init__(self, graph: Graph, seed: int) -> None:
        self.graph = graph
        self.values = graph.evaluate()
        self.random = random.Random(seed)
        self.used: list[str] = []
        # A sum with a tensor that has all elements has them too.
        self.expands = any(True in each.expanded for each in graph.inputs) or any(
            node.op == "expand" for node in graph.nodes
        )

    def text(self) -> str:
        lines = self.graph.definition_text().splitlines()
        out = []
        for line in lines:
            number = line.strip().split(" = ")[0]
            at = int(number[1:]) - len(self.graph.inputs) if number[1:].isdigit() else -1
            if number[0] == "t" and 0 <= at:
                line = self.respelled(line, at)
            out.append(line)
        return "\n".join(out) + "\n"

    def respelled(self, line: str, at: int) -> str:
        """Each operand once as it is, or by an identity of it."""
        node = self.graph.nodes[at]
        if node.op not in COMPUTING or self.may_be_view(at):
            return line
        operands = [self.operand(number) for number in node.operands]
        target = line.split(" = ")[0]
        return f"{target} = {OPS[node.op].text(operands, node.extra)}"

    def may_be_view(self, at: int) -> bool:
        """Of what has a size of 1, a reduction may be a view; a cast to the same type is one."""
        node = self.graph.nodes[at]
        operands = [self.values[number] for number in node.operands]
        if node.op == "cast":
            return operands[0].dtype == self.values[len(self.graph.inputs) + at].dtype
        return node.op in REDUCING and any(1 in each.sizes for each in operands)

    def operand(self, number: int) -> str:
        name, value = f"t{number}", self.values[number]
        # What is computed once may as well be computed again.
        at = number - len(self.graph.inputs)
        if at >= 0 and self.graph.nodes[at].op in COMPUTING and self.random.random() < 0.15:
            node = self.graph.nodes[at]
            name = OPS[node.op].text([f"t{i}" for i in node.operands], node.extra)
            self.used.append("again")
        while self.random.random() < 0.5:
            fitting = [key for key, (fits, _) in IDENTITIES.items() if fits(value)]
            if self.expands and FILLED in fitting:
                fitting.remove(FILLED)
            key = self.random.choice(fitting)
            name = IDENTITIES[key][1](name, value)
            self.used.append(key)
        return name


class Difference(Exception):
    """The two spellings became different kernels."""


def run(graph: Graph, text: str) -> tuple[int, int]:
    """Checks the values; kernels and the bytes that they move."""
    from nvfuse_direct import DataType, FusionDefinition

    scope: dict[str, Any] = {"DataType": DataType, "torch": torch}
    exec(text, scope)
    with FusionDefinition() as fd:
        scope["nvfuser_fusion"](fd)
    device = torch.device("cpu")
    tensors = [each.make(device) for each in graph.inputs]
    outputs = fd.execute([*tensors, *graph.scalars], device=device)
    values = graph.evaluate()
    for position, (output, number) in enumerate(zip(outputs, graph.outputs, strict=True)):
        check(output, values[number], f"output {position} (t{number})")
    reports = [r for r in fd.fec._most_recent_segment_reports() if r["segment_id"] >= 0]
    return len(reports), sum(r["input_bytes"] + r["output_bytes"] for r in reports)


def failure(seed: int, mix: str) -> str | None:
    """What is different at the seed, with both texts; None if nothing is."""
    graph = generate(seed, mix)
    respelling = Respelling(graph, seed)
    text = respelling.text()
    try:
        plain, spelled = run(graph, graph.definition_text()), run(graph, text)
        if plain != spelled:
            raise Difference(f"{plain} kernels and bytes as it was, {spelled} as it is spelled")
    except Exception as error:
        return (
            f"seed {seed} ({mix}): {type(error).__name__}: {error}\n{graph.definition_text()}{text}"
        )
    return None


def main() -> int:
    parser = argparse.ArgumentParser(prog="graph_generator.identities", description=__doc__)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--mix", default="pointwise", choices=[*MIXES])
    options = parser.parse_args()
    begin = time.monotonic()
    failures = []
    for seed in range(options.first, options.first + options.count):
        if found := failure(seed, options.mix):
            failures.append(found)
            print(found, flush=True)
    seconds = round(time.monotonic() - begin, 1)
    summary = {"count": options.count, "failures": len(failures), "seconds": seconds}
    print(json.dumps(summary))
    return 1 if failures else 0


if __name__ == "__main__":
    os.environ.setdefault("NVFUSER_MACHINE", "h200")
    sys.exit(main())
