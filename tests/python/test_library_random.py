# SPDX-License-Identifier: BSD-3-Clause
"""Random programs that mix what torch evaluates with what kernels are generated for: each is
defined once and run at several sizes, in float64, against the same program in torch."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from helpers import DEVICE, LONG
from nvfuse_direct import DataType, FusionDefinition

Tensor = torch.Tensor


@dataclass
class Step:
    """One operation, written twice. Shapes are pairs of names of sizes."""

    fused: Callable[..., object]
    eager: Callable[..., Tensor]
    operands: tuple[int, ...]
    shape: tuple[str, str]


def softmax(fd: FusionDefinition, x: object) -> object:
    power = fd.ops.exp(fd.ops.sub(x, fd.ops.max(x, [1], keepdim=True)))
    return fd.ops.div(power, fd.ops.sum(power, [1], keepdim=True))


def column_norm(fd: FusionDefinition, x: object) -> object:
    total = fd.ops.sum(fd.ops.mul(x, x), [0], keepdim=True)
    return fd.ops.div(x, fd.ops.sqrt(fd.ops.add(total, 1.0)))


def sorted_rows(fd: FusionDefinition, x: object) -> object:
    return fd.ops.take_along_axis(x, fd.ops.argsort(x, 1, False, True), 1)


def upper_half(fd: FusionDefinition, x: object) -> object:
    rows = fd.ops.size(x, 0)
    ends = [fd.ops.div(fd.ops.add(rows, 1), 2), fd.ops.size(x, 1)]
    return fd.ops.slice(x, [fd.define_scalar(0), fd.define_scalar(0)], ends)


def through_heads(fd: FusionDefinition, x: object) -> object:
    """A reshape and a permutation there and back, which torch takes as views."""
    rows, columns = fd.ops.size(x, 0), fd.ops.size(x, 1)
    heads = fd.ops.permute(fd.ops.reshape(x, [rows, 1, columns]), [1, 0, 2])
    product = fd.ops.matmul(heads, fd.ops.permute(heads, [0, 2, 1]))
    return fd.ops.tanh(fd.ops.reshape(product, [rows, rows]))


# Of one operand [m, n]: the fused and the eager form, and the result's sizes.
UNARY = [
    (lambda fd, x: fd.ops.tanh(x), torch.tanh, "mn"),
    (lambda fd, x: fd.ops.relu(x), torch.relu, "mn"),
    (lambda fd, x: fd.ops.mul(x, -0.5), lambda x: x * -0.5, "mn"),
    (lambda fd, x: fd.ops.permute(x, [1, 0]), lambda x: x.t(), "nm"),
    (softmax, lambda x: torch.softmax(x, 1), "mn"),
    (column_norm, lambda x: x / ((x * x).sum(0, keepdim=True) + 1.0).sqrt(), "mn"),
    (sorted_rows, lambda x: torch.sort(x, dim=1, stable=True).values, "mn"),
    (
        lambda fd, x: fd.ops.topk(x, fd.define_scalar(1, dtype=DataType.Int), 1, True, True)[0],
        lambda x: torch.topk(x, 1, 1).values,
        "m1",
    ),
    (upper_half, lambda x: x[: (x.shape[0] + 1) // 2], "hn"),
    (through_heads, lambda x: torch.tanh(x @ x.t()), "mm"),
    (
        lambda fd, x: fd.ops.tanh(fd.ops.matmul(fd.ops.permute(x, [1, 0]), x)),
        lambda x: torch.tanh(x.t() @ x),
        "nn",
    ),
]


def program(seed: int) -> tuple[list[tuple[str, str]], list[Step], list[int]]:
    """Shapes of the inputs, steps, and which values are outputs."""
    choose = random.Random(seed)
    inputs = [("a", "b"), ("b", "c"), ("c", "b")]
    shapes = list(inputs)
    steps: list[Step] = []

    def add(fused, eager, operands: tuple[int, ...], shape: tuple[str, str]) -> None:
        steps.append(Step(fused, eager, operands, shape))
        shapes.append(shape)

    while len(steps) < choose.randint(4, 14):
        i = choose.randrange(len(shapes))
        m, n = shapes[i]
        kind = choose.random()
        if kind < 0.5:
            fused, eager, result = choose.choice(UNARY)
            # Rows halved once more, and results of one column, are sizes of their own.
            names = {"m": m, "n": n, "1": "1", "h": f"{m}/2"}
            add(fused, eager, (i,), (names[result[0]], names[result[1]]))
            continue
        same = [j for j, shape in enumerate(shapes) if shape == (m, n)]
        right = [j for j, shape in enumerate(shapes) if shape[0] == n]
        weights = [j for j, shape in enumerate(shapes) if shape[1] == n]
        if kind < 0.65:
            j = choose.choice(same)
            add(lambda fd, x, y: fd.ops.add(x, y), lambda x, y: x + y, (i, j), (m, n))
        elif kind < 0.85 and right:
            j = choose.choice(right)
            add(
                lambda fd, x, y: fd.ops.tanh(fd.ops.matmul(x, y)),
                lambda x, y: torch.tanh(x @ y),
                (i, j),
                (m, shapes[j][1]),
            )
        else:
            j = choose.choice(weights)
            add(
                lambda fd, x, y: fd.ops.linear(x, y),
                torch.nn.functional.linear,
                (i, j),
                (m, shapes[j][0]),
            )
    last = len(shapes) - 1
    outputs = sorted({last, *(choose.randrange(3, len(shapes)) for _ in range(2))})
    return inputs, steps, outputs


def run(seed: int) -> None:
    inputs, steps, outputs = program(seed)
    with FusionDefinition() as fd:
        values = [fd.define_tensor([-1, -1], [True, True], dtype=DataType.Double) for _ in inputs]
        for step in steps:
            values.append(step.fused(fd, *(values[i] for i in step.operands)))
        for i in outputs:
            fd.add_output(values[i])
    for sizes in [(4, 6, 5), (7, 3, 8), (2, 1, 1)]:
        extents = dict(zip("abc", sizes, strict=True))
        generator = torch.Generator().manual_seed(seed)
        tensors = [
            torch.randn(
                [extents[name] for name in shape], generator=generator, dtype=torch.double
            ).to(DEVICE)
            for shape in inputs
        ]
        expected = list(tensors)
        for step in steps:
            expected.append(step.eager(*(expected[i] for i in step.operands)))
        results = fd.execute(tensors)
        for i, result in zip(outputs, results, strict=True):
            assert result.shape == expected[i].shape, (seed, sizes, i)
            # Columns that become one differ in rounding only.
            torch.testing.assert_close(result, expected[i], rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("first", range(0, 400 if LONG else 20, 10))
def test_random_programs(first: int) -> None:
    for seed in range(first, first + 10):
        try:
            run(seed)
        except Exception as error:
            raise AssertionError(f"the program of seed {seed}") from error
