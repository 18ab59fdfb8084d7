# SPDX-License-Identifier: BSD-3-Clause
"""Elements that loops read one by one come in whole vectors, and equal ones are computed once."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import pytest
import torch
from helpers import DEVICE, TORCH, assert_same, define, row_major
from nvfuse_direct import DataType, FusionDefinition

Build = Callable[[FusionDefinition, Sequence[object]], object]
pytestmark = pytest.mark.machine("hopper")


def data(*sizes: int, dtype: str = "BFloat16", seed: int = 1) -> torch.Tensor:
    return row_major(sizes).fill(TORCH[dtype], seed)


def check(definition: Build, inputs: Sequence[torch.Tensor], *expected: torch.Tensor) -> str:
    """The kernels' text, after the results were compared."""

    def whole(fd: FusionDefinition) -> None:
        results = definition(fd, [fd.from_pytorch(each, static_sizes=True) for each in inputs])
        for result in results if isinstance(results, list) else [results]:
            fd.add_output(result)

    fd = define(whole)
    for actual, wanted in zip(fd.execute(list(inputs), device=DEVICE), expected, strict=True):
        assert_same(actual, wanted.to(actual.dtype))
    return fd.fec.get_cuda_kernel(list(inputs))


def scalar_reads(text: str, tensor: str = r"T\d+") -> list[str]:
    parameters = set(re.findall(r"Tensor<[^>]*> (T\d+)", text))
    reads = re.findall(rf"(?<!&)\b({tensor})\[", text.split("{", 1)[1])
    return [name for name in reads if name in parameters]


def every(fd: FusionDefinition, x: object, step: int, at: int, sizes: Sequence[int]) -> object:
    rows, width = sizes
    split = fd.ops.reshape(x, [rows, width // step, step])
    part = fd.ops.slice(split, [0, 0, at], [rows, width // step, at + 1])
    return fd.ops.squeeze(part, [2])


@pytest.mark.parametrize(
    ("sizes", "step", "dtype", "in_vectors"),
    [
        ((64, 128), 2, "BFloat16", True),
        ((64, 128), 2, "Float", True),
        ((64, 256), 4, "BFloat16", True),
        ((64, 240), 3, "BFloat16", True),
        ((64, 512), 4, "Float", False),  # as many vectors as elements
        ((7, 34), 2, "BFloat16", False),
    ],
)
def test_interleaved_parts(sizes: tuple[int, int], step: int, dtype: str, in_vectors: bool) -> None:
    x = data(*sizes, dtype=dtype)
    text = check(
        lambda fd, t: fd.ops.where(
            fd.ops.gt(every(fd, t[0], step, 0, sizes), every(fd, t[0], step, step - 1, sizes)),
            every(fd, t[0], step, 0, sizes),
            every(fd, t[0], step, step - 1, sizes),
        ),
        [x],
        torch.maximum(x[:, 0::step], x[:, step - 1 :: step]),
    )
    assert (not scalar_reads(text)) == in_vectors


def test_an_input_that_begins_anywhere_is_read_element_by_element() -> None:
    memory = data(64 * 128 + 8)

    def whole(fd: FusionDefinition) -> None:
        x = fd.from_pytorch(memory[:-8].view(64, 128), static_sizes=True)
        fd.add_output(fd.ops.neg(every(fd, x, 2, 1, (64, 128))))

    fd = define(whole)
    for begin in (0, 1, 8, 4, 0):
        x = memory[begin : begin + 64 * 128].view(64, 128)
        (actual,) = fd.execute([x], device=DEVICE)
        assert_same(actual, -x[:, 1::2].to(actual.dtype))
        assert bool(scalar_reads(fd.fec.get_cuda_kernel([x]))) == (begin % 8 != 0)


@pytest.mark.parametrize(("channels", "in_vectors"), [(96, True), (24, True), (12, False)])
def test_weights_of_channels_in_loops_over_everything(channels: int, in_vectors: bool) -> None:
    x, w = data(6, 8, channels), data(channels, seed=2)
    per_sample = data(6, seed=3)

    def definition(fd: FusionDefinition, t: Sequence[object]) -> object:
        kept = fd.ops.broadcast(t[2], [False, True, True])
        y = fd.ops.mul(fd.ops.mul(t[0], fd.ops.broadcast(t[1], [True, True, False])), kept)
        return [fd.ops.cast(y, DataType.BFloat16), fd.ops.neg(t[2])]

    y = (x.float() * w.float() * per_sample.float()[:, None, None]).to(torch.bfloat16)
    text = check(definition, [x, w, per_sample], y, -per_sample)
    assert ("T1" not in scalar_reads(text)) == in_vectors


@pytest.mark.parametrize("rows", [1, 3, 40])
@pytest.mark.parametrize(("width", "in_vectors"), [(64, True), (12, True), (9, False)])
def test_lines_of_a_table(rows: int, width: int, in_vectors: bool) -> None:
    table, x = data(50, width), data(rows, width, seed=2)
    index = (data(rows, dtype="Int", seed=3) % 50).abs()
    text = check(
        lambda fd, t: fd.ops.neg(fd.ops.add(fd.ops.index_select(t[0], t[1], 0), t[2])),
        [table, index, x],
        -(table[index].float() + x.float()),
    )
    assert ("T0" not in scalar_reads(text)) == in_vectors


def test_positions_outside_of_a_table_are_zero() -> None:
    table = data(50, 64)
    index = torch.tensor([3, -1, 50, 49, 2**40], device=DEVICE)
    expected = torch.zeros(5, 64, dtype=torch.bfloat16, device=DEVICE)
    expected[0], expected[3] = -table[3], -table[49]
    text = check(
        lambda fd, t: fd.ops.neg(fd.ops.index_select(t[0], t[1], 0)), [table, index], expected + 0
    )
    assert "T0" not in scalar_reads(text)


def test_lines_of_a_table_in_a_reduction() -> None:
    table, index = data(50, 256, dtype="Float"), (data(30, dtype="Int", seed=3) % 50).abs()

    def definition(fd: FusionDefinition, t: Sequence[object]) -> object:
        found = fd.ops.index_select(t[0], t[1], 0)
        most = fd.ops.max(found, [1], keepdim=True)
        return fd.ops.sub(found, most)

    found = table[index]
    text = check(definition, [table, index], found - found.amax(1, keepdim=True))
    assert "T0" not in scalar_reads(text)


def test_positions_along_an_outer_dimension_are_computed_once() -> None:
    """Three turns of a dimension of 19: more runs than a concatenation would have."""
    x = data(5, 19, 96)

    def definition(fd: FusionDefinition, t: Sequence[object]) -> object:
        positions = fd.ops.fmod(fd.ops.add(fd.ops.iota(57, 0, 1, DataType.Int), 3), 19)
        return fd.ops.neg(fd.ops.index_select(t[0], positions, 1))

    text = check(definition, [x], -torch.roll(x.repeat(1, 3, 1), -3, 1))
    assert text.count("nvf::fmod") == 1
    assert "T0" not in scalar_reads(text)


@pytest.mark.parametrize("heads", [16, 4, 3])
@pytest.mark.parametrize("width", [80, 64, 24])
def test_what_rows_of_a_thread_share_is_computed_once(heads: int, width: int) -> None:
    x, angles = data(300, heads, width), data(300, width, dtype="Float", seed=2)

    def definition(fd: FusionDefinition, t: Sequence[object]) -> object:
        turned = fd.ops.floor(fd.ops.broadcast(t[1], [False, True, False]))
        return fd.ops.mul(fd.ops.cast(t[0], DataType.Float), turned)

    text = check(definition, [x, angles], x.float() * angles.floor()[:, None, :])
    if heads == 16:  # all rows of a thread are of one token
        before = text[: text.index("nvf::floor")].splitlines()
        assert sum(line.strip().startswith("for (") for line in before[-4:]) <= 1


def test_rows_that_only_begin_equal_stay_apart() -> None:
    """The running value differs although what it begins with does not."""
    x, y = data(64, 8, 64, dtype="Float"), data(64, 64, dtype="Float", seed=2)

    def definition(fd: FusionDefinition, t: Sequence[object]) -> object:
        shared = fd.ops.broadcast(fd.ops.neg(t[1]), [False, True, False])
        return [fd.ops.sub(shared, t[0]), fd.ops.mul(shared, t[0])]

    shared = -y[:, None, :]
    check(definition, [x, y], shared - x, shared * x)


@pytest.mark.parametrize("width", [80, 96, 12 * 8, 100 * 8, 13 * 8, 3 * 8])
@pytest.mark.parametrize("rows", [1, 5, 1000])
def test_no_thread_is_idle_in_rows_of_any_length(rows: int, width: int) -> None:
    x, w = data(rows, 8, width), data(8, width, seed=2)
    text = check(
        lambda fd, t: fd.ops.add(t[0], fd.ops.broadcast(t[1], [True, False, False])),
        [x, w],
        x.float() + w.float(),
    )
    assert f"if (tx < {width // 8})" not in text


@pytest.mark.parametrize("dtype", ["BFloat16", "Float"])
def test_selections_pass_approximations_on(dtype: str) -> None:
    """A masked exponential that is rounded to 16 bits; the mask itself compares exact values."""
    x, mask = data(64, 128, dtype=dtype), data(64, 128, dtype="Bool", seed=2)
    y = data(64, 128, dtype=dtype, seed=3)

    def definition(fd: FusionDefinition, t: Sequence[object]) -> object:
        wide = fd.ops.cast(t[0], DataType.Float)
        chosen = fd.ops.where(t[1], fd.ops.exp(wide), 0.0)
        hidden = fd.ops.gt(fd.ops.sin(wide), fd.ops.cast(t[2], DataType.Float))
        both = fd.ops.where(hidden, fd.ops.neg(chosen), chosen)
        return fd.ops.cast(both, DataType.BFloat16 if dtype == "BFloat16" else DataType.Float)

    def whole(fd: FusionDefinition) -> None:
        fd.add_output(definition(fd, [fd.from_pytorch(each) for each in (x, mask, y)]))

    chosen = torch.where(mask, x.double().exp(), 0.0)
    expected = torch.where(x.double().sin() > y.double(), -chosen, chosen).to(x.dtype)
    fd = define(whole)
    (actual,) = fd.execute([x, mask, y], device=DEVICE)
    torch.testing.assert_close(actual, expected, rtol=2**-7, atol=1e-6)
    text = fd.fec.get_cuda_kernel([x, mask, y])
    assert ("nvf::approx::exp" in text) == (dtype == "BFloat16")
    assert "nvf::approx::sin" not in text


@pytest.mark.parametrize("dtype", ["BFloat16", "Float"])
def test_quotients_by_constants_are_products_for_16_bits(dtype: str) -> None:
    """Half an ulp of float32 does not show there; a divisor without a normal reciprocal stays."""
    x = data(64, 128, dtype=dtype)

    def definition(fd: FusionDefinition) -> None:
        wide = fd.ops.cast(fd.from_pytorch(x), DataType.Float)
        for divisor in (768.0, 3e38):
            quotient = fd.ops.div(wide, fd.define_scalar(divisor))
            fd.add_output(fd.ops.cast(quotient, getattr(DataType, dtype)))

    fd = define(definition)
    small, _ = fd.execute([x], device=DEVICE)
    torch.testing.assert_close(small, (x.double() / 768).to(x.dtype), rtol=2**-7, atol=0)
    text = fd.fec.get_cuda_kernel([x])
    assert ("* 0.0013020834f" in text) == (dtype == "BFloat16")
    assert ("nvf::approx::div(" in text) == (dtype == "BFloat16")
