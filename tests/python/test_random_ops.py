# SPDX-License-Identifier: BSD-3-Clause
"""Random ops (section 2.11): distribution, determinism, seeds and offsets, the generator."""

from __future__ import annotations

import math

import pytest
import torch
from helpers import DEVICE, FLOATS, ON_CUDA, TORCH, assert_same, data_type, define, row_major, run
from nvfuse_direct import DataType, FusionDefinition

COUNT = 200_003


def draw(
    name: str,
    parameters: tuple[float, float],
    dtype: str = "Float",
    count: int = COUNT,
    seed: int = 7,
) -> torch.Tensor:
    def build(fd: FusionDefinition) -> None:
        distribution = getattr(fd.ops, name)
        options = {
            "rng_seed": fd.define_scalar(DataType.Int),
            "rng_offset": fd.define_scalar(DataType.Int),
        }
        fd.add_output(distribution(*parameters, [count], **options, dtype=data_type(dtype)))

    (actual,) = define(build).execute([seed, 3], device=DEVICE)
    return actual


def check_uniform(sample: torch.Tensor, low: float, high: float) -> None:
    x = sample.double().cpu()
    width, n = high - low, x.numel()
    assert x.min() >= low
    assert x.max() < high
    # Five standard errors of each moment.
    assert abs(x.mean() - (low + high) / 2) < 5 * width / math.sqrt(12 * n)
    assert abs(x.var() - width**2 / 12) < 5 * width**2 / math.sqrt(180 * n)
    bins = torch.histc((x - low) / width, bins=20, min=0, max=1)
    assert ((bins - n / 20) ** 2 / (n / 20)).sum() < 60  # chi-squared, 19 degrees: p = 4e-6


def check_normal(sample: torch.Tensor, mean: float, std: float) -> None:
    x = (sample.double().cpu() - mean) / std
    n = x.numel()
    assert torch.isfinite(x).all()
    assert abs(x.mean()) < 5 / math.sqrt(n)
    assert abs(x.var() - 1) < 5 * math.sqrt(2 / n)
    assert abs((x**3).mean()) < 5 * math.sqrt(15 / n)
    assert abs((x**4).mean() - 3) < 5 * math.sqrt(96 / n)
    for level in (0.5, 1.0, 2.0, 3.0):
        share = (x.abs() < level).double().mean()
        expected = math.erf(level / math.sqrt(2))
        assert abs(share - expected) < 5 * math.sqrt(expected * (1 - expected) / n)


@pytest.mark.parametrize("dtype", ["Double", "Float"])
@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (-2.5, 4.0)])
def test_uniform_distribution(dtype: str, low: float, high: float) -> None:
    sample = draw("uniform", (low, high), dtype)
    assert sample.dtype == TORCH[dtype]
    check_uniform(sample, low, high)


@pytest.mark.parametrize("dtype", ["Double", "Float"])
@pytest.mark.parametrize(("mean", "std"), [(0.0, 1.0), (3.0, 0.25)])
def test_normal_distribution(dtype: str, mean: float, std: float) -> None:
    sample = draw("normal", (mean, std), dtype)
    assert sample.dtype == TORCH[dtype]
    check_normal(sample, mean, std)


@pytest.mark.parametrize("dtype", ["Half", "BFloat16"])
def test_uniform_bounds_in_low_precision(dtype: str) -> None:
    """Half-open in the output dtype too: rounding must not reach the upper bound."""
    sample = draw("uniform", (0.0, 1.0), dtype, count=2_000_000)
    assert sample.dtype == TORCH[dtype]
    assert sample.min() >= 0
    one = torch.ones((), dtype=sample.dtype, device=DEVICE)
    zero = torch.zeros((), dtype=sample.dtype, device=DEVICE)
    below_one = torch.tensor(1 - 2.0 ** (-11 if dtype == "Half" else -8), device=DEVICE).to(
        sample.dtype
    )
    assert (sample < one).all()
    assert sample.max() == below_one
    assert sample.min() < 0.01
    assert zero <= sample.min()
    assert abs(sample.double().mean() - 0.5) < 0.01


@pytest.mark.parametrize("dtype", ["Half", "BFloat16"])
def test_normal_in_low_precision(dtype: str) -> None:
    sample = draw("normal", (0.0, 1.0), dtype)
    assert sample.dtype == TORCH[dtype]
    x = sample.double()
    assert abs(x.mean()) < 0.02
    assert abs(x.std() - 1) < 0.02


@pytest.mark.parametrize("name", ["uniform", "normal"])
@pytest.mark.parametrize("dtype", ["Double", "Float"])
def test_seed_and_offset_decide(name: str, dtype: str) -> None:
    first = draw(name, (0.0, 1.0), dtype, count=1000, seed=11)
    assert_same(draw(name, (0.0, 1.0), dtype, count=1000, seed=11), first)
    other = draw(name, (0.0, 1.0), dtype, count=1000, seed=12)
    assert (other != first).double().mean() > 0.99


@pytest.mark.parametrize("name", ["uniform", "normal"])
def test_offsets_give_independent_draws(name: str) -> None:
    def build(fd: FusionDefinition) -> None:
        seed = fd.define_scalar(DataType.Int)
        offset = fd.define_scalar(DataType.Int)
        fd.add_output(getattr(fd.ops, name)(0.0, 1.0, [4096], rng_seed=seed, rng_offset=offset))

    fusion = define(build)
    draws = [fusion.execute([5, k], device=DEVICE)[0].double() for k in range(4)]
    for i in range(4):
        for k in range(i):
            correlation = torch.corrcoef(torch.stack([draws[i], draws[k]]))[0, 1]
            assert abs(correlation) < 5 / 64


@pytest.mark.parametrize("name", ["uniform", "normal"])
def test_stateful_calls_step_through_the_offsets(name: str) -> None:
    """After manual_seed(s), the k-th draw equals explicit (s, k)."""

    def stateful(fd: FusionDefinition) -> None:
        for _ in range(2):
            fd.add_output(getattr(fd.ops, name)(0.0, 1.0, [5, 7]))

    def explicit(fd: FusionDefinition) -> None:
        seed = fd.define_scalar(DataType.Int)
        offset = fd.define_scalar(DataType.Int)
        fd.add_output(getattr(fd.ops, name)(0.0, 1.0, [5, 7], rng_seed=seed, rng_offset=offset))

    stateful_fusion, explicit_fusion = define(stateful), define(explicit)
    torch.manual_seed(29)
    drawn = [each for _ in range(3) for each in stateful_fusion.execute([], device=DEVICE)]
    for k, sample in enumerate(drawn):
        assert_same(explicit_fusion.execute([29, k], device=DEVICE)[0], sample, what=f"draw {k}")


def test_the_generator_restarts_with_the_seed() -> None:
    def build(fd: FusionDefinition) -> None:
        fd.add_output(fd.ops.uniform(0.0, 1.0, [64]))

    fusion = define(build)
    torch.manual_seed(3)
    first = [fusion.execute([], device=DEVICE)[0] for _ in range(3)]
    torch.manual_seed(3)
    again = [fusion.execute([], device=DEVICE)[0] for _ in range(3)]
    for a, b in zip(first, again, strict=False):
        assert_same(a, b)
    assert not torch.equal(first[0], first[1])


@pytest.mark.skipif(not ON_CUDA, reason="needs a CUDA device")
def test_the_cuda_generator_advances_by_one_philox_block_per_op() -> None:
    def build(fd: FusionDefinition) -> None:
        for _ in range(3):
            fd.add_output(fd.ops.uniform(0.0, 1.0, [64]))

    fusion = define(build)
    generator = torch.cuda.default_generators[DEVICE.index]
    generator.manual_seed(0)
    fusion.execute([], device=DEVICE)
    assert generator.get_offset() == 3 * 4


@pytest.mark.parametrize("name", ["rand_like", "randn_like"])
@pytest.mark.parametrize("dtype", FLOATS)
def test_like(name: str, dtype: str) -> None:
    x = row_major((301, 7)).fill(TORCH[dtype])

    def build(fd: FusionDefinition) -> None:
        fd.add_output(getattr(fd.ops, name)(fd.from_pytorch(x)))

    torch.manual_seed(1)
    (actual,) = run(build, [x])
    assert actual.dtype == x.dtype
    assert actual.shape == x.shape
    mean, std = (0.5, math.sqrt(1 / 12)) if name == "rand_like" else (0.0, 1.0)
    assert abs(actual.double().mean() - mean) < 0.15
    assert abs(actual.double().std() - std) < 0.15


def test_two_draws_in_one_fusion_differ_and_uses_agree() -> None:
    x = row_major((33,)).fill(torch.float)

    def build(fd: FusionDefinition) -> None:
        tv = fd.from_pytorch(x)
        a, b = fd.ops.rand_like(tv), fd.ops.rand_like(tv)
        for each in (a, b, fd.ops.sub(a, b), fd.ops.sub(a, a)):
            fd.add_output(each)

    a, b, delta, zero = run(build, [x])
    assert not torch.equal(a, b)
    assert_same(delta, a - b)
    assert_same(zero, torch.zeros_like(x))


def test_dropout_pattern() -> None:
    x = row_major((64, 33)).fill(torch.float)

    def build(fd: FusionDefinition) -> None:
        tv = fd.from_pytorch(x)
        keep = fd.ops.lt(fd.ops.rand_like(tv), 0.75)
        fd.add_output(fd.ops.mul(fd.ops.mul(tv, keep), 1 / 0.75))
        fd.add_output(keep)

    out, keep = run(build, [x])
    assert keep.dtype == torch.bool
    assert abs(keep.double().mean() - 0.75) < 0.05
    assert_same(out, x * keep * (1 / 0.75), rtol=1e-6)


@pytest.mark.parametrize("sizes", [(), (0,), (1,), (3, 0, 2), (5, 1, 7)])
def test_shapes(sizes: tuple[int, ...]) -> None:
    def build(fd: FusionDefinition) -> None:
        fd.add_output(fd.ops.uniform(0.0, 1.0, list(sizes)))

    (actual,) = run(build)
    assert actual.shape == sizes


def test_symbolic_shape_and_bounds() -> None:
    def build(fd: FusionDefinition) -> None:
        x = fd.define_tensor([-1, -1], True)
        low = fd.define_scalar(DataType.Double)
        fd.add_output(fd.ops.uniform(low, 10.0, fd.ops.shape(x)))

    fusion = define(build)
    for sizes in ((3, 5), (128, 64)):
        (actual,) = fusion.execute([row_major(sizes).fill(torch.float), 9.0])
        assert actual.shape == sizes
        assert actual.min() >= 9.0
        assert actual.max() < 10.0


def test_errors() -> None:
    with FusionDefinition() as fd:
        seed = fd.define_scalar(1, DataType.Int)
        with pytest.raises(
            RuntimeError, match="Random distributions only create floating point types"
        ):
            fd.ops.uniform(0.0, 1.0, [3], dtype=DataType.Int)
        with pytest.raises(
            RuntimeError, match="Random distributions only create floating point types"
        ):
            fd.ops.normal(0.0, 1.0, [3], dtype=DataType.Bool)
        for options in ({"rng_seed": seed}, {"rng_offset": seed}):
            with pytest.raises(
                RuntimeError, match="rng_seed and rng_offset must be provided together!"
            ):
                fd.ops.uniform(0.0, 1.0, [3], **options)
        with pytest.raises((RuntimeError, TypeError)):
            fd.ops.rand_like(1.0)
        fd.add_output(fd.ops.uniform(0.0, 1.0, [3]))
    assert fd.execute([], device=DEVICE)[0].shape == (3,)
