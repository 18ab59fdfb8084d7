# SPDX-License-Identifier: BSD-3-Clause
"""A graph as data (inputs, nodes, outputs), its text, and its value in float64 with error bounds.

What ops there are is in ops.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

Tensor = torch.Tensor

TORCH = {
    "Double": torch.double,
    "Float": torch.float,
    "Half": torch.half,
    "BFloat16": torch.bfloat16,
    "Int": torch.int64,
    "Int32": torch.int32,
    "Bool": torch.bool,
    "ComplexFloat": torch.complex64,
}
ULP = {
    "Double": 2.0**-52,
    "Float": 2.0**-23,
    "Half": 2.0**-10,
    "BFloat16": 2.0**-7,
    "ComplexFloat": 2.0**-22,
}
FLOATS = ("Double", "Float", "Half", "BFloat16")
INTS = ("Int", "Int32")


# ---------------------------------------------------------------------------------- reference value


@dataclass(frozen=True)
class Value:
    """float64 (int, bool, complex128) reference, its error bound, dtype, which dims broadcast."""

    data: Tensor
    error: Tensor
    dtype: str
    broadcast: tuple[bool, ...]

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(self.data.shape)

    @property
    def exact(self) -> bool:
        return not bool(self.error.any())

    @property
    def magnitude(self) -> float:
        return float(self.data.abs().max()) if self.data.numel() and self.dtype != "Bool" else 0.0


def rounded(data: Tensor, error: Tensor, dtype: str, slack: float = 1.0) -> tuple[Tensor, Tensor]:
    """Adds the rounding of a result to `dtype`; a result that is representable adds none."""
    if dtype not in ULP:
        return data, torch.zeros(data.shape, dtype=torch.double)
    stored = data.to(TORCH[dtype]).to(data.dtype)
    inexact = (stored != data) | (error > 0) | torch.tensor(slack > 1)
    tiny = torch.finfo(TORCH[dtype]).tiny
    extra = slack * ULP[dtype] * (data.abs() + error) + slack * tiny
    return data, error + torch.where(inexact, extra.double(), 0.0)


# -------------------------------------------------------------------------------------------- graph


@dataclass(frozen=True)
class Input:
    """A tensor input: its sizes, how it lies in memory and how it is declared."""

    sizes: tuple[int, ...]
    dtype: str
    order: tuple[int, ...]  # memory order, slow to fast
    expanded: tuple[bool, ...]
    padding: int  # extra elements at the end of each row of the fastest dimension
    step: int  # stride of the fastest dimension
    offset: int
    declaration: str  # contiguous, strided, exact; expanded: dimensions of stride 0 are declared
    static: bool
    salt: int
    null: bool = False  # no memory at all (of a tensor without elements)

    def strides(self) -> tuple[int, ...]:
        strides = [0] * len(self.sizes)
        reach = self.step
        for position, dim in enumerate(reversed(self.order)):
            if self.expanded[dim]:
                continue
            strides[dim] = reach
            reach = reach * max(self.sizes[dim], 1) + (self.padding if position == 0 else 0)
        return tuple(strides)

    def storage_text(self) -> str:
        length = self.offset + 1
        if self.null:
            length = 0
        elif 0 not in self.sizes:
            length += sum((n - 1) * s for n, s in zip(self.sizes, self.strides(), strict=False))
        number = f"((torch.arange({length}) * {2 * self.salt + 7} + {self.salt}) % 31 - 15)"
        if self.dtype == "Bool":
            return f"({number} % 3 == 0)"
        if self.dtype in INTS:
            return f"({number} // 3).to({TORCH[self.dtype]})"
        if self.dtype == "ComplexFloat":
            return f"torch.complex({number} / 8.0, {number}.flip(0) / 4.0)"
        return f"({number} / 8.0).to({TORCH[self.dtype]})"

    def text(self) -> str:
        view = f"as_strided({self.sizes}, {self.strides()}, {self.offset})"
        return f"{self.storage_text()}.to(device).{view}"

    def make(self, device: torch.device) -> Tensor:
        return eval(self.text(), {"torch": torch, "device": device})

    def declaration_text(self) -> str:
        dtype = f"dtype=DataType.{self.dtype}"
        if self.declaration == "exact":
            sizes, strides = list(self.sizes), list(self.strides())
            layout = f"sizes={sizes}, strides={strides}"
            return f"fd.define_tensor({layout}, {dtype}, static_sizes={self.static})"
        shape = [n if self.static or n == 1 else -1 for n in self.sizes]
        contiguous: object = self.declaration == "contiguous"
        if self.declaration == "expanded":
            contiguous = [
                None if n == 1 or expanded else False
                for n, expanded in zip(self.sizes, self.expanded, strict=True)
            ]
        return f"fd.define_tensor(shape={shape}, contiguity={contiguous}, {dtype})"


@dataclass(frozen=True)
class Node:
    """`op` on earlier values (by number); constants and attributes are in `extra`."""

    op: str
    operands: tuple[int, ...]
    extra: tuple[object, ...] = ()


@dataclass(frozen=True)
class Graph:
    """Values are numbered: inputs first, then nodes. `scalars` are symbolic scalar inputs."""

    seed: int
    inputs: tuple[Input, ...]
    scalars: tuple[float | int, ...]
    nodes: tuple[Node, ...]
    outputs: tuple[int, ...]
    aliases: tuple[tuple[int, int], ...] = ()  # (value, input it is written to)
    aliases_after: int = 0  # how many outputs are added before them

    def definition_text(self) -> str:
        lines = ["def nvfuser_fusion(fd):"]
        for number, each in enumerate(self.inputs):
            lines.append(f"    t{number} = {each.declaration_text()}")
        for number, scalar in enumerate(self.scalars):
            kind = "Int" if isinstance(scalar, int) else "Double"
            lines.append(f"    s{number} = fd.define_scalar(DataType.{kind})")
        for number, node in enumerate(self.nodes, start=len(self.inputs)):
            operands = [f"t{operand}" for operand in node.operands]
            lines.append(f"    t{number} = {OPS[node.op].text(operands, node.extra)}")
        added = [f"    fd.add_output(t{value})" for value in self.outputs]
        updates = [f"    fd.add_output(t{value}, t{target})" for value, target in self.aliases]
        lines += added[: self.aliases_after] + updates + added[self.aliases_after :]
        return "\n".join(lines) + "\n"

    def inputs_text(self) -> str:
        tensors = [f"    {each.text()},\n" for each in self.inputs]
        return (
            "inputs = [\n" + "".join(tensors) + "".join(f"    {s},\n" for s in self.scalars) + "]\n"
        )

    def script(self) -> str:
        return (
            f"# graph_generator, seed {self.seed}\n"
            "import torch\nfrom nvfuse_direct import DataType, FusionDefinition\n\n"
            'device = "cpu"\n\n\n' + self.definition_text() + "\n\n"
            "with FusionDefinition() as fd:\n    nvfuser_fusion(fd)\n\n"
            + self.inputs_text()
            + "for output in fd.execute(inputs):\n    print(output)\n"
        )

    def evaluate(self) -> list[Value]:
        values: list[Value] = []
        for each in self.inputs:
            values.append(input_value(each))
        for node in self.nodes:
            values.append(
                OPS[node.op].evaluate([values[i] for i in node.operands], node.extra, self.scalars)
            )
        return values


def input_value(each: Input) -> Value:
    tensor = each.make(torch.device("cpu"))
    if each.dtype in FLOATS:
        tensor = tensor.double()
    elif each.dtype == "ComplexFloat":
        tensor = tensor.to(torch.complex128)
    broadcast = tuple(n == 1 for n in each.sizes)
    return Value(
        tensor.clone(), torch.zeros(tensor.shape, dtype=torch.double), each.dtype, broadcast
    )


@dataclass(frozen=True)
class Op:
    """Text of the call, and the reference."""

    name: str
    text: Callable[[Sequence[str], tuple], str]
    evaluate: Callable[[Sequence[Value], tuple, Sequence[float | int]], Value]


OPS: dict[str, Op] = {}
