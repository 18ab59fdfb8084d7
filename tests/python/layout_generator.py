# SPDX-License-Identifier: BSD-3-Clause
"""Small random programs over inputs in any order of memory.

Views, rolls, pads, norms, parts beside the whole; several outputs.

A third generator, beside graph_generator and program_generator: each step is written twice, as
operations of a definition and as torch in float64, and what it takes is drawn while the shapes are
seen. Inputs are quarters of small integers, so that an element out of place differs by much more
than rounding. `python layout_generator.py --seed 5 --show` prints a program as steps and its
definition; `--count` and `--seconds` say how many are run, and each that is wrong is named.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from nvfuse_direct import DataType, FusionDefinition

SIZES = (1, 2, 2, 3, 4, 4, 5, 6, 7, 8, 8, 9, 12, 16, 24, 33, 64, 130)
LARGEST = 40_000  # elements of a value


@dataclass
class Value:
    """One value, in the definition and in torch."""

    fused: Any
    torch: torch.Tensor

    @property
    def shape(self) -> list[int]:
        return list(self.torch.shape)


@dataclass
class Program:
    """The steps of a seed, and what they are applied to."""

    seed: int
    steps: list[str] = field(default_factory=list)
    inputs: list[torch.Tensor] = field(default_factory=list)
    expected: list[torch.Tensor] = field(default_factory=list)
    definition: FusionDefinition = field(default_factory=FusionDefinition)


class Writer:
    def __init__(self, seed: int, device: str) -> None:
        self.random = random.Random(seed)
        self.program = Program(seed)
        self.fd = self.program.definition
        self.device = device
        self.generator = torch.Generator().manual_seed(seed)

    # ---- inputs

    def shape(self, rank: int) -> list[int]:
        while True:
            sizes = [self.random.choice(SIZES) for _ in range(rank)]
            if math.prod(sizes) <= LARGEST:
                return sizes

    def tensor(self, shape: list[int]) -> torch.Tensor:
        """Of quarters; in any order of memory, sometimes with gaps, or expanded."""
        chance = self.random
        order = list(range(len(shape)))
        if chance.random() < 0.5:
            chance.shuffle(order)
        stored = [shape[d] for d in order]
        if gap := chance.random() < 0.15:
            stored[-1] += chance.choice([1, 4])
        expanded = chance.randrange(len(shape)) if chance.random() < 0.08 else None
        if expanded is not None:
            stored[expanded] = 1
        data = torch.randint(-8, 9, stored, generator=self.generator).double() / 4
        dtype = torch.bfloat16 if chance.random() < 0.2 else torch.float32
        data = data.to(dtype).to(self.device)
        if gap and expanded != len(shape) - 1:
            data = data[..., : shape[order[-1]]]
        elif gap:
            data = data[..., :1]
        if expanded is not None:
            data = data.expand([shape[d] for d in order])
        return data.permute([order.index(d) for d in range(len(shape))])

    def new_input(self, shape: list[int]) -> Value:
        tensor = self.tensor(shape)
        fused = self.fd.from_pytorch(tensor, static_sizes=self.random.random() < 0.3)
        self.program.inputs.append(tensor)
        what = f"{tensor.dtype} {shape}, strides {list(tensor.stride())}"
        self.note(f"input {len(self.program.inputs) - 1}: {what}")
        if tensor.dtype != torch.float32:
            fused = self.fd.ops.cast(fused, DataType.Float)
        return Value(fused, tensor.cpu().double())

    def note(self, text: str) -> None:
        self.program.steps.append(text)

    # ---- steps: each returns a value, or None where it does not suit

    def dim(self, x: Value) -> int:
        return self.random.randrange(len(x.shape))

    def mean(self, fused: Any, shape: list[int], dims: list[int], keepdim: bool = True) -> Any:
        count = math.prod(shape[d] for d in dims)
        total = self.fd.ops.sum(fused, dims, keepdim=keepdim)
        if self.random.random() < 0.5:
            return self.fd.ops.div(total, float(count))
        return self.fd.ops.mul(total, 1.0 / count)

    def unary(self, x: Value, _: list[Value]) -> Value:
        name = self.random.choice(["neg", "tanh", "sigmoid", "abs", "relu", "exp_of_less"])
        if name == "exp_of_less":
            bounded = self.fd.ops.tanh(x.fused)
            return Value(self.fd.ops.exp(bounded), torch.exp(torch.tanh(x.torch)))
        return Value(getattr(self.fd.ops, name)(x.fused), getattr(torch, name)(x.torch))

    def combine(self, x: Value, y: Value) -> Value:
        name = self.random.choice(["add", "sub", "mul", "maximum", "where"])
        if name == "where":
            # Near each other both choices are alike: what is rounded may choose otherwise.
            less = self.fd.ops.sub(x.fused, y.fused)
            fused = self.fd.ops.where(self.fd.ops.gt(x.fused, y.fused), less, 0.0)
            return Value(fused, (x.torch - y.torch).clamp(min=0))
        fused = getattr(self.fd.ops, name)(x.fused, y.fused)
        return Value(fused, getattr(torch, name)(x.torch, y.torch))

    def beside_another(self, x: Value, values: list[Value]) -> Value | None:
        alike = [v for v in values if v is not x and v.shape == x.shape]
        return self.combine(x, self.random.choice(alike)) if alike else None

    def beside_an_input(self, x: Value, _: list[Value]) -> Value:
        rank = self.random.randint(1, len(x.shape))
        shape = [1 if self.random.random() < 0.2 else n for n in x.shape[len(x.shape) - rank :]]
        y = self.new_input(shape)
        if rank < len(x.shape):
            flags = [d < len(x.shape) - rank for d in range(len(x.shape))]
            y = Value(self.fd.ops.broadcast(y.fused, flags), y.torch)
        return self.combine(x, y)

    def beside_an_element(self, x: Value, _: list[Value]) -> Value:
        d = self.dim(x)
        n = self.random.randrange(x.shape[d])
        return self.combine(x, self.part(x, d, n, n + 1))

    def part(self, x: Value, d: int, start: int, end: int) -> Value:
        starts, ends = [0] * len(x.shape), x.shape
        starts[d], ends[d] = start, end
        return Value(
            self.fd.ops.slice(x.fused, starts, ends), x.torch.narrow(d, start, end - start)
        )

    def slice(self, x: Value, _: list[Value]) -> Value:
        d = self.dim(x)
        start = self.random.randrange(x.shape[d])
        return self.part(x, d, start, self.random.randint(start + 1, x.shape[d]))

    def joined(self, parts: list[Value], d: int) -> Value:
        fused = self.fd.ops.cat([p.fused for p in parts], d)
        return Value(fused, torch.cat([p.torch for p in parts], d))

    def roll(self, x: Value, _: list[Value]) -> Value | None:
        d = self.dim(x)
        if (n := x.shape[d]) < 2:
            return None
        at = self.random.randrange(1, n)
        return self.joined([self.part(x, d, at, n), self.part(x, d, 0, at)], d)

    def rotated_halves(self, x: Value, _: list[Value]) -> Value | None:
        d = self.dim(x)
        if (n := x.shape[d]) % 2:
            return None
        low, high = self.part(x, d, 0, n // 2), self.part(x, d, n // 2, n)
        return self.joined([Value(self.fd.ops.neg(high.fused), -high.torch), low], d)

    def cat(self, x: Value, values: list[Value]) -> Value:
        d = self.dim(x)
        fit = [v for v in values if len(v.shape) == len(x.shape)]
        fit = [v for v in fit if all(e == d or v.shape[e] == n for e, n in enumerate(x.shape))]
        parts = [x, *(self.random.choice(fit) for _ in range(self.random.randint(1, 2)))]
        return self.joined(parts, d)

    def pad(self, x: Value, _: list[Value]) -> Value:
        dims = self.random.randint(1, min(2, len(x.shape)))
        low = 0 if self.random.random() < 0.7 else -1
        widths = [self.random.randint(low, 3) for _ in range(2 * dims)]
        for i in range(dims):
            if x.shape[-1 - i] + widths[2 * i] + widths[2 * i + 1] < 1:
                widths[2 * i] = widths[2 * i + 1] = 1
        fused = self.fd.ops.pad(x.fused, widths)
        return Value(fused, torch.nn.functional.pad(x.torch, widths))

    def permute(self, x: Value, _: list[Value]) -> Value:
        order = list(range(len(x.shape)))
        self.random.shuffle(order)
        return Value(self.fd.ops.permute(x.fused, order), x.torch.permute(order))

    def reshaped(self, x: Value, shape: list[int]) -> Value:
        return Value(self.fd.ops.reshape(x.fused, shape), x.torch.reshape(shape))

    def merge(self, x: Value, _: list[Value]) -> Value | None:
        if len(x.shape) < 2:
            return None
        d = self.random.randrange(len(x.shape) - 1)
        return self.reshaped(x, [*x.shape[:d], x.shape[d] * x.shape[d + 1], *x.shape[d + 2 :]])

    def split(self, x: Value, _: list[Value]) -> Value | None:
        d = self.dim(x)
        factors = [f for f in (2, 3, 4, 8) if x.shape[d] % f == 0 and x.shape[d] > f]
        if not factors or len(x.shape) > 4:
            return None
        f = self.random.choice(factors)
        pair = [f, x.shape[d] // f]
        self.random.shuffle(pair)
        return self.reshaped(x, [*x.shape[:d], *pair, *x.shape[d + 1 :]])

    def regroup(self, x: Value, _: list[Value]) -> Value | None:
        """Dimensions in other places, as torch's view of all elements."""
        shape = x.shape
        self.random.shuffle(shape)
        return self.reshaped(x, shape) if shape != x.shape else None

    def dims(self, x: Value) -> list[int]:
        count = 1 if self.random.random() < 0.7 else self.random.randint(1, len(x.shape))
        if self.random.random() < 0.5:
            return list(range(len(x.shape) - count, len(x.shape)))
        return sorted(self.random.sample(range(len(x.shape)), count))

    def less_mean(self, x: Value, _: list[Value]) -> Value:
        dims = self.dims(x)
        mean = self.mean(x.fused, x.shape, dims)
        return Value(self.fd.ops.sub(x.fused, mean), x.torch - x.torch.mean(dims, keepdim=True))

    def rms_norm(self, x: Value, _: list[Value]) -> Value:
        dims, ops = self.dims(x), self.fd.ops
        square = self.mean(ops.mul(x.fused, x.fused), x.shape, dims)
        fused = ops.mul(x.fused, ops.rsqrt(ops.add(square, 0.25)))
        scale = torch.rsqrt((x.torch * x.torch).mean(dims, keepdim=True) + 0.25)
        return Value(fused, x.torch * scale)

    def normalized(self, x: Value, _: list[Value]) -> Value:
        dims, ops = self.dims(x), self.fd.ops
        var, mean = ops.var_mean(x.fused, dims, 0, True)
        fused = ops.mul(ops.sub(x.fused, mean), ops.rsqrt(ops.add(var, 0.25)))
        v, m = torch.var_mean(x.torch, dims, correction=0, keepdim=True)
        return Value(fused, (x.torch - m) * torch.rsqrt(v + 0.25))

    def softmax(self, x: Value, _: list[Value]) -> Value:
        d, ops = self.dim(x), self.fd.ops
        e = ops.exp(ops.sub(x.fused, ops.max(x.fused, [d], keepdim=True)))
        return Value(ops.div(e, ops.sum(e, [d], keepdim=True)), torch.softmax(x.torch, d))

    def reduce(self, x: Value, _: list[Value]) -> Value | None:
        if len(x.shape) < 2:
            return None
        dims = self.dims(x)
        if len(dims) == len(x.shape):
            return None
        name = self.random.choice(["mean", "amax", "amin"])
        if name == "mean":
            fused = self.mean(x.fused, x.shape, dims, keepdim=False)
        else:
            fused = getattr(self.fd.ops, name[1:])(x.fused, dims)
        return Value(fused, getattr(torch, name)(x.torch, dims))

    def outer(self, x: Value, values: list[Value]) -> Value | None:
        """x along new places beside another value."""
        rows = [v for v in values if len(v.shape) == 1 and v.shape[0] <= 64]
        if not rows or len(x.shape) > 3:
            return None
        row = self.random.choice(rows)
        if math.prod(x.shape) * row.shape[0] > LARGEST:
            return None
        column = self.fd.ops.broadcast(x.fused, [False] * len(x.shape) + [True])
        flat = self.fd.ops.broadcast(row.fused, [True] * len(x.shape) + [False])
        return Value(self.fd.ops.mul(column, flat), x.torch.unsqueeze(-1) * row.torch)

    def lower_triangle(self, x: Value, _: list[Value]) -> Value | None:
        if len(x.shape) < 2:
            return None
        ops, (n, m) = self.fd.ops, x.shape[-2:]
        place = []
        for size, other in ((n, -1), (m, -2)):
            index = ops.iota(self.fd.define_scalar(size, dtype=DataType.Int))
            flags = [True] * len(x.shape)
            flags[-2 if other == -1 else -1] = False
            place.append(ops.broadcast(index, flags))
        fused = ops.where(ops.ge(place[0], place[1]), x.fused, 0.0)
        return Value(fused, torch.tril(x.torch))

    def cumsum(self, x: Value, _: list[Value]) -> Value | None:
        d = self.dim(x)
        if x.shape[d] > 64:
            return None
        negated = self.fd.ops.segment_set(self.fd.ops.neg(x.fused))
        try:
            fused = self.fd.ops.cumsum(negated, d)
        except RuntimeError as error:
            if "which is expanded" not in str(error):
                raise
            return None  # the contract refuses those
        return Value(fused, torch.cumsum(-x.torch, d))

    # ---- programs

    STEPS = (
        ("unary", 3),
        ("beside_another", 4),
        ("beside_an_input", 3),
        ("beside_an_element", 1),
        ("slice", 2),
        ("roll", 3),
        ("rotated_halves", 2),
        ("cat", 2),
        ("pad", 3),
        ("permute", 4),
        ("merge", 3),
        ("split", 4),
        ("regroup", 2),
        ("less_mean", 1),
        ("rms_norm", 2),
        ("normalized", 2),
        ("softmax", 2),
        ("reduce", 2),
        ("outer", 1),
        ("lower_triangle", 1),
        ("cumsum", 0.5),
    )

    def write(self) -> Program:
        chance, program = self.random, self.program
        with self.fd:
            values = [self.new_input(self.shape(chance.randint(1, 4)))]
            if chance.random() < 0.4:
                values.append(self.new_input(values[0].shape))
            names, weights = zip(*self.STEPS, strict=True)
            for _ in range(chance.randint(2, 9)):
                name = chance.choices(names, weights)[0]
                x = values[-1] if chance.random() < 0.6 else chance.choice(values)
                place = len(program.steps)
                step: Callable[[Value, list[Value]], Value | None] = getattr(self, name)
                y = step(x, values)
                if y is None or y.torch.numel() > LARGEST:
                    continue
                program.steps.insert(place, f"{name} of {x.shape} gives {y.shape}")
                values.append(y)
            made = values[len(program.inputs) :] or values
            results = [values[-1], *chance.sample(made, min(len(made), chance.randint(0, 2)))]
            for result in results:
                self.fd.add_output(result.fused)
                program.expected.append(result.torch)
        return program


def check(seed: int, device: str = "cpu") -> str | None:
    """What is wrong with the results of a seed's program, or None."""
    program = Writer(seed, device).write()
    for call in ("first", "second"):
        results = program.definition.execute(program.inputs)
        for i, (got, want) in enumerate(zip(results, program.expected, strict=True)):
            if list(got.shape) != list(want.shape):
                return f"output {i}: shape {list(got.shape)}, not {list(want.shape)} ({call} call)"
            scale = max(1.0, float(want.abs().max())) if want.numel() else 1.0
            wrong = (got.cpu().double() - want).abs() > 2e-3 * scale
            if bool(wrong.any()) or bool(got.isnan().any()):
                return f"output {i}: {int(wrong.sum())} of {want.numel()} elements ({call} call)"
    return None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="of the first program")
    parser.add_argument("--count", type=int, default=1, help="programs")
    parser.add_argument("--stride", type=int, default=1, help="from one seed to the next")
    parser.add_argument("--seconds", type=float, default=1e9, help="begin no program after these")
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--show", action="store_true", help="print the program and its definition")
    options = parser.parse_args()
    torch.set_num_threads(1)
    start, found, count = time.monotonic(), 0, 0
    for seed in range(options.seed, options.seed + options.count * options.stride, options.stride):
        if time.monotonic() - start > options.seconds:
            break
        if options.show:
            program = Writer(seed, options.device).write()
            print("\n".join(program.steps))
            print(program.definition)
        try:
            wrong = check(seed, options.device)
        except Exception as error:
            wrong = f"{type(error).__name__}: {str(error)[:300]}"
        count += 1
        if wrong:
            found += 1
            print(f"seed {seed}: {wrong}", flush=True)
    print(f"{count} programs, {found} wrong")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
