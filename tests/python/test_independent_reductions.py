# SPDX-License-Identifier: BSD-3-Clause
"""Reductions of different dimensions: equal shapes share a kernel, all others have their own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from helpers import DEVICE, ON_CUDA, define, run_python
from nvfuse_direct import FusionDefinition

Tensor = torch.Tensor


def values(sizes: list[int], seed: int, dtype: torch.dtype = torch.float) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(sizes, generator=generator).to(DEVICE, dtype)


@dataclass
class Case:
    inputs: list[Tensor]
    outputs: Callable  # (fd, *tensors) -> outputs
    expected: Callable  # the same of float64 tensors
    kernels: int
    static: bool = True

    def define(self) -> FusionDefinition:
        def definition(fd: FusionDefinition) -> None:
            tensors = [fd.from_pytorch(x, static_sizes=self.static) for x in self.inputs]
            for out in self.outputs(fd, *tensors):
                fd.add_output(out)

        return define(definition)

    def check(self) -> None:
        fd = self.define()
        outs = fd.execute(self.inputs, device=DEVICE)
        exact = self.expected(*(x.double() for x in self.inputs))
        assert len(outs) == len(exact)
        for out, expected in zip(outs, exact, strict=True):
            tolerance = 2e-2 if out.dtype in (torch.half, torch.bfloat16) else 1e-3
            assert out.shape == expected.shape
            error = (out.double() - expected).abs().max() if out.numel() else 0.0
            scale = max(1.0, float(expected.abs().max())) if out.numel() else 1.0
            assert error <= tolerance * scale, (float(error), scale)
        # Equal kernels are compiled once, so launches are counted.
        assert fd.fec.get_cuda_kernel(self.inputs).count("NVF_KERNEL(") == self.kernels


def sums(dims: list[list[int]]) -> tuple[Callable, Callable]:
    """Of each input over dimensions of its own."""

    def outputs(fd: FusionDefinition, *tensors: object) -> list:
        return [fd.ops.sum(t, d) for t, d in zip(tensors, dims, strict=True)]

    return outputs, lambda *xs: [x.sum(d) for x, d in zip(xs, dims, strict=True)]


def two_sums(sizes: list[int], dims: list[int], kernels: int = 1, **dtypes: torch.dtype) -> Case:
    kinds = list(dtypes.values()) or [torch.float, torch.float]
    inputs = [values(sizes, k, dtype) for k, dtype in enumerate(kinds)]
    return Case(inputs, *sums([dims] * len(inputs)), kernels)


def transposed(sizes: list[int], seed: int) -> Tensor:
    return values(sizes[::-1], seed).permute(*range(len(sizes))[::-1])


def statistics(fd: FusionDefinition, x: object, y: object) -> list:
    var, mean = fd.ops.var_mean(x, [0], correction=0)
    return [var, mean, fd.ops.max(fd.ops.neg(y), [0])]


def meeting(fd: FusionDefinition, x: object, y: object) -> list:
    return [fd.ops.div(fd.ops.sum(fd.ops.mul(x, x), [1]), fd.ops.sum(fd.ops.exp(y), [1]))]


def meeting_columns(fd: FusionDefinition, x: object, y: object) -> list:
    return [fd.ops.div(fd.ops.sum(fd.ops.mul(x, x), [0]), fd.ops.sum(fd.ops.exp(y), [0]))]


def of_all(fd: FusionDefinition, x: object, y: object) -> list:
    return [fd.ops.mul(fd.ops.sum(x, [0, 1]), fd.ops.sum(fd.ops.exp(y), [0, 1]))]


def with_outputs(fd: FusionDefinition, x: object, y: object) -> list:
    wide = fd.ops.exp(y)
    return [fd.ops.sum(x, [0]), wide, fd.ops.sum(wide, [0]), fd.ops.neg(fd.ops.sum(wide, [0]))]


def weighted(fd: FusionDefinition, x: object, y: object, w: object) -> list:
    ops = fd.ops
    return [
        ops.sum(ops.mul(t, ops.broadcast_in_dim(w, list(sizes), [1])), [0])
        for t, sizes in ((x, (96, 64)), (y, (96, 64)))
    ]


def weighted_once(fd: FusionDefinition, x: object, y: object, w: object) -> list:
    row = fd.ops.broadcast(w, [True, False])
    return [fd.ops.sum(fd.ops.mul(t, row), [0]) for t in (x, y)]


def feeding(fd: FusionDefinition, x: object, y: object) -> list:
    ops = fd.ops
    total = ops.sum(x, [1], keepdim=True)
    return [ops.sum(ops.add(y, total), [1])]


def normalized(ops: Any, x: Any) -> Any:
    var, mean = ops.var_mean(x, [1], correction=0, keepdim=True)
    return ops.mul(ops.sub(x, mean), ops.rsqrt(ops.add(var, 1e-3)))


def norms(fd: FusionDefinition, x: object, y: object) -> list:
    return [normalized(fd.ops, x), normalized(fd.ops, y)]


def layer_norms(x: Tensor, y: Tensor) -> list[Tensor]:
    return [torch.nn.functional.layer_norm(t, t.shape[1:], eps=1e-3) for t in (x, y)]


def restyled(fd: FusionDefinition, x: object, y: object) -> list:
    """One with the mean of the other, and what that takes of the other itself."""
    ops = fd.ops
    _, mean = ops.var_mean(y, [1], correction=0, keepdim=True)
    return [ops.add(normalized(ops, x), mean), ops.mul(ops.sub(y, mean), ops.max(x, [1], True))]


def restyled_exactly(x: Tensor, y: Tensor) -> list[Tensor]:
    mean = y.mean(1, keepdim=True)
    return [layer_norms(x, y)[0] + mean, (y - mean) * x.amax(1, keepdim=True)]


def pair(rows: int, length: int, dtype: torch.dtype = torch.float) -> list[Tensor]:
    return [values([rows, length], k, dtype) for k in (1, 2)]


def crossing(fd: FusionDefinition, x: object, y: object) -> list:
    return [fd.ops.sum(x, [0]), fd.ops.sum(y, [1])]


FLOAT_BF16 = {"first": torch.float, "second": torch.bfloat16}
SUM_OF_FIVE = {f"x{k}": torch.float for k in range(5)}

CASES = {
    "outer": two_sums([96, 64], [0]),
    "inner": two_sums([96, 64], [1]),
    "all": two_sums([33, 65], [0, 1]),
    "outer_and_middle": two_sums([7, 12, 40], [0, 1]),
    "middle": two_sums([7, 31, 24], [1]),
    "inner_and_outer": two_sums([7, 31, 24], [0, 2]),
    "odd": two_sums([257, 131], [0]),
    "odd_rows": two_sums([131, 257], [1]),
    "columns_over_the_grid": two_sums([40000, 8], [0]),
    "rows_over_the_grid": two_sums([3, 200000], [1]),
    "one_row": two_sums([1, 64], [1]),
    # Both are the same zeros, so one kernel writes them.
    "no_rows": two_sums([0, 64], [0]),
    "ones": two_sums([6, 1, 32], [0]),
    "mixed_dtypes": two_sums([96, 64], [0], **FLOAT_BF16),
    "mixed_dtypes_of_rows": two_sums([96, 200], [1], **FLOAT_BF16),
    "five": two_sums([24, 32], [0], 2, **SUM_OF_FIVE),
    "other_sizes": Case([values([96, 64], 1), values([95, 64], 2)], *sums([[0], [0]]), 2),
    "other_dims": Case([values([64, 64], 1), values([64, 64], 2)], *sums([[0], [1]]), 2),
    "other_order_in_memory": Case(
        [values([96, 64], 1), transposed([96, 64], 2)], *sums([[0], [0]]), 2
    ),
    "open_sizes": Case(
        [values([96, 64], 1), values([96, 64], 2)], *sums([[0], [0]]), 1, static=False
    ),
    "other_open_sizes": Case(
        [values([96, 64], 1), values([96, 65], 2)], *sums([[0], [0]]), 2, static=False
    ),
    "two_and_two": Case([values([48, 32], k) for k in range(4)], *sums([[0], [1], [0], [1]]), 2),
    "variance_and_maximum": Case(
        [values([300, 40], 1), values([300, 40], 2)],
        statistics,
        lambda x, y: [x.var(0, correction=0), x.mean(0), (-y).amax(0)],
        1,
    ),
    "variance_over_the_grid": Case(
        [values([30000, 4], 1), values([30000, 4], 2)],
        statistics,
        lambda x, y: [x.var(0, correction=0), x.mean(0), (-y).amax(0)],
        1,
    ),
    "results_meet": Case(
        [values([50, 70], 1), values([50, 70], 2)],
        meeting,
        lambda x, y: [(x * x).sum(1) / y.exp().sum(1)],
        1,
    ),
    "results_over_the_grid_meet": Case(
        [values([2, 100000], 1), values([2, 100000], 2)],
        meeting,
        lambda x, y: [(x * x).sum(1) / y.exp().sum(1)],
        1,
    ),
    "columns_over_the_grid_meet": Case(
        [values([30000, 16], 1, torch.bfloat16), values([30000, 16], 2, torch.bfloat16)],
        meeting_columns,
        lambda x, y: [(x * x).sum(0) / y.exp().sum(0)],
        1,
    ),
    "results_of_everything_meet": Case(
        [values([300, 500], 1), values([300, 500], 2)],
        of_all,
        lambda x, y: [x.sum() * y.exp().sum()],
        1,
    ),
    "outputs_before_and_after": Case(
        [values([96, 64], 1), values([96, 64], 2)],
        with_outputs,
        lambda x, y: [x.sum(0), y.exp(), y.exp().sum(0), -y.exp().sum(0)],
        1,
    ),
    "a_shared_weight": Case(
        [values([96, 64], 1), values([96, 64], 2), values([64], 3)],
        weighted,
        lambda x, y, w: [(x * w).sum(0), (y * w).sum(0)],
        1,
    ),
    "a_shared_row": Case(
        [values([96, 64], 1), values([96, 64], 2), values([64], 3)],
        weighted_once,
        lambda x, y, w: [(x * w).sum(0), (y * w).sum(0)],
        1,
    ),
    "a_shared_row_of_other_sizes": Case(
        [values([96, 64], 1), values([41, 64], 2), values([64], 3)],
        weighted_once,
        lambda x, y, w: [(x * w).sum(0), (y * w).sum(0)],
        1,
    ),
    "one_feeds_the_other": Case(
        [values([40, 64], 1), values([40, 64], 2)],
        feeding,
        lambda x, y: [(y + x.sum(1, keepdim=True)).sum(1)],
        1,
    ),
    "norms": Case(pair(65, 130), norms, layer_norms, 1),
    "norms_of_odd_rows": Case(pair(31, 257), norms, layer_norms, 1),
    "norms_of_long_rows": Case(pair(3, 16384), norms, layer_norms, 2),
    "five_norms": Case(
        [values([33, 64], k) for k in range(5)],
        lambda fd, *xs: [normalized(fd.ops, x) for x in xs],
        lambda *xs: [layer_norms(x, x)[0] for x in xs],
        2,
    ),
    "restyled": Case(pair(40, 64), restyled, restyled_exactly, 1),
    "restyled_odd": Case(pair(7, 1001), restyled, restyled_exactly, 1),
    "restyled_long": Case(pair(2, 40000), restyled, restyled_exactly, 1),
    "rows_and_columns": Case(
        [values([64, 64], 1), values([64, 64], 2)], crossing, lambda x, y: [x.sum(0), y.sum(1)], 2
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_values_and_kernels(name: str) -> None:
    CASES[name].check()


@pytest.mark.parametrize("reads", [False, True])
def test_an_update_in_place_beside_another_reduction(reads: bool) -> None:
    x, y, state = values([96, 64], 1), values([96, 64], 2), values([64], 3)

    def definition(fd: FusionDefinition) -> None:
        ops = fd.ops
        a, b, s = (fd.from_pytorch(t, static_sizes=True) for t in (x, y, state))
        fd.add_output(ops.add(ops.mul(s, 0.9), ops.sum(a, [0])), s)
        factor = ops.broadcast_in_dim(s, [96, 64], [1]) if reads else 2.0
        fd.add_output(ops.sum(ops.mul(b, factor), [0]))

    before = state.clone()
    (total,) = define(definition).execute([x, y, state], device=DEVICE)
    torch.testing.assert_close(state, 0.9 * before + x.sum(0))
    torch.testing.assert_close(total, (y * (before if reads else 2.0)).sum(0), atol=1e-4, rtol=1e-4)


ADVERSARIAL = """
from test_independent_reductions import CASES
from test_independent_reductions import test_an_update_in_place_beside_another_reduction as update
for name, case in CASES.items():
    if "grid" not in name or "meet" in name:
        case.check()
for reads in (False, True):
    update(reads)
"""


@pytest.mark.skipif(ON_CUDA, reason="the host run orders threads")
@pytest.mark.parametrize("seed", ["1", "2"])
def test_any_order_of_threads(seed: str) -> None:
    done = run_python(ADVERSARIAL, {"NVFUSER_HOST_ADVERSARIAL": seed}, timeout=600)
    assert done.returncode == 0, done.stderr
