# SPDX-License-Identifier: BSD-3-Clause
"""The maximum and the sum of exponentials of a softmax in one pass, against float64."""

from __future__ import annotations

import math

import pytest
import torch
from helpers import DEVICE, define
from nvfuse_direct import DataType, FusionDefinition

SHAPES = [(3, 5), (4, 64), (2, 1000), (2, 4096), (1, 40000), (3, 16392), (7, 1), (1, 1), (5, 33)]
CONTENTS = ["normal", "large", "infinite", "masked", "all masked", "nan"]


def log_sum_exp(dim: int, also_softmax: bool = False) -> FusionDefinition:
    """max, sum of exp(x - max), log-softmax; `also_softmax` reads the exponentials once more."""

    def build(fd: FusionDefinition) -> None:
        ops = fd.ops
        x = fd.define_tensor([-1, -1], [True, True], DataType.Float)
        top = ops.max(x, [dim], True)
        difference = ops.sub(x, top)
        powers = ops.exp(difference)
        total = ops.sum(powers, [dim], True)
        fd.add_output(top)
        fd.add_output(total)
        fd.add_output(ops.sub(difference, ops.log(total)))
        if also_softmax:
            fd.add_output(ops.div(powers, total))

    return define(build)


def fill(shape: tuple[int, int], content: str) -> torch.Tensor:
    x = torch.randn(shape, generator=torch.Generator().manual_seed(7), dtype=torch.float64)
    if content == "large":
        x *= 1000
    if content == "infinite":
        x[0, 0] = math.inf
    if content == "masked":
        x[:, ::2] = -math.inf
    if content == "all masked":
        x[0] = -math.inf
    if content == "nan":
        x[-1, -1] = math.nan
    return x.float()


@pytest.mark.parametrize("content", CONTENTS)
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: "x".join(map(str, shape)))
def test_equals_two_reductions(shape: tuple[int, int], content: str) -> None:
    x = fill(shape, content)
    wide = x.double()
    for dim in (0, 1):
        fusion = log_sum_exp(dim)
        top, total, result = (each.double().cpu() for each in fusion.execute([x.to(DEVICE)]))
        expected = wide.amax(dim, True)
        powers = (wide - expected).exp()
        torch.testing.assert_close(top, expected, equal_nan=True, rtol=0, atol=0)
        sums = powers.sum(dim, True)
        torch.testing.assert_close(total, sums, equal_nan=True, rtol=4e-6, atol=0)
        torch.testing.assert_close(
            result, wide - expected - sums.log(), equal_nan=True, rtol=2e-6, atol=1e-5
        )
        assert fusion.fec._num_fallbacks == 0


@pytest.mark.machine("hopper")
def test_one_reduction_reads_whole_vectors() -> None:
    fusion = log_sum_exp(1)
    x = torch.randn(8, 4096, device=DEVICE)
    fusion.execute([x])
    text = fusion.fec.get_cuda_kernel([x])
    assert text.count("nvf::softmaxStep<4>(") == 1
    assert text.count("nvf::blockReduce<") == 1


def test_exponentials_that_are_read_again_are_kept() -> None:
    fusion = log_sum_exp(1, also_softmax=True)
    x = torch.randn(8, 4096, device=DEVICE)
    result = fusion.execute([x])[3]
    torch.testing.assert_close(result, x.softmax(1))
    assert "softmaxStep" not in fusion.fec.get_cuda_kernel([x])


def test_repeats_bit_for_bit() -> None:
    fusion = log_sum_exp(1)
    x = torch.randn(4, 70000, device=DEVICE)
    first = fusion.execute([x])
    for _ in range(9):
        assert all(torch.equal(a, b) for a, b in zip(first, fusion.execute([x]), strict=True))


@pytest.mark.machine("hopper")
def test_running_means_share_their_count() -> None:
    """Welford along outer dimensions takes neighbouring columns together."""

    def build(fd: FusionDefinition) -> None:
        x = fd.define_tensor([-1, -1], [True, True], DataType.Float)
        for output in fd.ops.var_mean(x, [0], 1):
            fd.add_output(output)

    fusion = define(build)
    for rows, columns in ((1000, 256), (37, 8), (2, 4), (513, 33)):
        x = torch.randn(rows, columns, device=DEVICE) + 100
        variance, mean = (each.double() for each in fusion.execute([x]))
        torch.testing.assert_close(variance, x.double().var(0), rtol=2e-5, atol=0)
        torch.testing.assert_close(mean, x.double().mean(0), rtol=1e-6, atol=0)
    x = torch.randn(1000, 256, device=DEVICE)
    fusion.execute([x])
    assert "nvf::welfordSteps<4>(" in fusion.fec.get_cuda_kernel([x])
