# SPDX-License-Identifier: BSD-3-Clause
"""Tolerances grow with the number of elements that an output accumulates."""

from __future__ import annotations

import pytest
import torch
from helpers import DEVICE, data_type, define, row_major, tensor
from nvfuse_direct import DataType, FusionDefinition, get_val_tolerances

# Entries of the contract's table: float32, float16.
ENTRY = {
    4: (1.68222e-6, 0.00390625),
    8: (2.23704e-6, 0.0078125),
    16: (2.95788e-6, 0.0078125),
    128: (8.57934e-6, 0.0312042),
    256: (1.30594e-5, 0.0312548),
    2048: (5.78476e-5, 0.124686),
    2097152: (3.43043e-3, 3.99073),
}


def pairs(build, *inputs: object) -> list[tuple[float, float]]:
    fd = define(build)
    return get_val_tolerances(fd.fusion, list(inputs))


def grown(entry: float) -> object:
    return pytest.approx((entry, entry * 0.01), rel=1e-6)


@pytest.mark.parametrize(
    ("length", "entry"), [(2, 8), (4, 8), (5, 16), (64, 128), (65, 256), (1000, 2048)]
)
def test_one_reduction(length: int, entry: int) -> None:
    """The entry after the first that is long enough."""

    def build(fd: FusionDefinition) -> None:
        x = fd.define_tensor([-1, -1], True)
        fd.add_output(fd.ops.sum(x, [1]))
        fd.add_output(fd.ops.neg(x))

    reduced, plain = pairs(build, tensor(3, length))
    assert reduced == grown(ENTRY[entry][0])
    assert plain == pytest.approx((1.68222e-6, 2.23704e-6))


def test_past_the_end_of_the_table() -> None:
    def build(fd: FusionDefinition) -> None:
        fd.add_output(fd.ops.sum(fd.define_tensor([-1, -1], False), [0, 1]))

    (pair,) = pairs(build, tensor(1, 1).expand(2048, 2048))
    assert pair == grown(2 * ENTRY[2097152][0])


@pytest.mark.parametrize(
    ("dtype", "column", "scale"), [("Double", 0, 1), ("ComplexFloat", 0, 1), ("Half", 1, 1)]
)
def test_dtypes(dtype: str, column: int, scale: float) -> None:
    def build(fd: FusionDefinition) -> None:
        x = fd.define_tensor([-1], True, data_type(dtype))
        fd.add_output(fd.ops.cast(fd.ops.sum(x, [0]), data_type(dtype)))

    x = row_major((100,)).fill(
        {"Double": torch.double, "ComplexFloat": torch.cfloat}.get(dtype, torch.half), 0
    )
    assert pairs(build, x) == [grown(scale * ENTRY[256][column])]


def test_bfloat16_has_ten_times_what_half_has() -> None:
    def build(fd: FusionDefinition) -> None:
        x = fd.define_tensor([-1], True)
        fd.add_output(fd.ops.cast(fd.ops.sum(x, [0]), DataType.BFloat16))
        fd.add_output(fd.ops.cast(x, DataType.BFloat16))

    reduced, plain = pairs(build, tensor(100))
    assert reduced == grown(10 * ENTRY[256][1])
    assert plain == pytest.approx((0.0390625, 0.078125))


def test_integers_are_exact() -> None:
    def build(fd: FusionDefinition) -> None:
        fd.add_output(fd.ops.sum(fd.define_tensor([-1], True, DataType.Int), [0]))

    assert pairs(build, tensor(100, dtype=torch.long)) == [(0.0, 0.0)]


def test_lengths_multiply_along_a_path_and_the_longest_path_counts() -> None:
    def build(fd: FusionDefinition) -> None:
        x = fd.define_tensor([-1, -1], True)
        rows = fd.ops.sum(x, [1])  # 10
        fd.add_output(fd.ops.sum(rows, [0]))  # 10 * 10
        longer = fd.ops.broadcast(rows, [False, True])
        fd.add_output(fd.ops.add(x, fd.ops.cumsum(fd.ops.mul(x, longer), 1)))  # 10 * 10
        fd.add_output(fd.ops.max(fd.ops.neg(x), [0]))  # 10

    nested, scanned, short = pairs(build, tensor(10, 10))
    assert nested == grown(ENTRY[256][0])
    assert scanned == grown(ENTRY[256][0])
    assert short == grown(2.95788e-6 if 10 <= 8 else 4.4778e-6)


def test_products_of_matrices_accumulate_too() -> None:
    def build(fd: FusionDefinition) -> None:
        x, y = (fd.define_tensor([-1, -1], True) for _ in range(2))
        fd.add_output(fd.ops.matmul(x, y))
        fd.add_output(fd.ops.sum(fd.ops.linear(x, x), [1]))

    product, reduced = pairs(build, tensor(4, 100), tensor(100, 3))
    assert product == grown(ENTRY[256][0])
    assert reduced == grown(3.3451e-5)


def test_attention_accumulates_over_the_keys() -> None:
    def build(fd: FusionDefinition) -> None:
        q, k, v = (fd.define_tensor([2, 3, 16, 8], True, DataType.Half) for _ in range(3))
        fd.add_output(fd.ops.sdpfa_fwd(q, k, v)[0])

    inputs = [torch.zeros(2, 3, 16, 8, dtype=torch.half, device=DEVICE)] * 3
    assert pairs(build, *inputs) == [grown(ENTRY[256][1])]


def test_in_place_updates_have_no_entry() -> None:
    def build(fd: FusionDefinition) -> None:
        x = fd.define_tensor([-1], True)
        fd.add_output(fd.ops.neg(x), x)
        fd.add_output(fd.ops.sum(x, [0]))

    assert pairs(build, tensor(4)) == [grown(ENTRY[8][0])]


def test_arguments_must_fit() -> None:
    with pytest.raises(RuntimeError, match="Expected 1 input"):
        pairs(lambda fd: fd.add_output(fd.ops.neg(fd.define_tensor([-1], True))))


def test_a_long_sum_passes_its_own_check() -> None:
    """A sum of 2^20 normals is further from a sum in another order than one operation's error."""
    x = torch.randn(16, 1 << 20, generator=torch.Generator().manual_seed(0)).to(DEVICE)
    fd = define(lambda fd: fd.add_output(fd.ops.sum(fd.define_tensor([-1, -1], True), [1])))
    fd.validate([x])
    fd.validate([x], [x.double().sum(1).float()])
    with pytest.raises(AssertionError, match="differs from its reference"):
        fd.validate([x], [x.double().sum(1).float() + 0.1])
    manual = define(lambda fd: fd.add_output(fd.ops.sum(fd.define_tensor([-1, -1], True), [1])))
    manual.manual_validate([x[:, :256].contiguous()])
