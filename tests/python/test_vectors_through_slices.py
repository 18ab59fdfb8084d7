# SPDX-License-Identifier: BSD-3-Clause
"""Slices, pads and cats that begin and end between two vectors are read in vectors."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import pytest
import torch
from helpers import DEVICE, ON_CUDA, TORCH, assert_same, define, row_major, run_python
from nvfuse_direct import DataType, FusionDefinition

Build = Callable[[FusionDefinition, Sequence[object]], object]


def data(*sizes: int, dtype: str = "Float", seed: int = 1) -> torch.Tensor:
    return row_major(sizes).fill(TORCH[dtype], seed)


def check(definition: Build, inputs: Sequence[torch.Tensor], expected: torch.Tensor) -> str:
    """The kernel's text, after the result was compared."""

    def whole(fd: FusionDefinition) -> None:
        fd.add_output(definition(fd, [fd.from_pytorch(each) for each in inputs]))

    fd = define(whole)
    (actual,) = fd.execute(list(inputs), device=DEVICE)
    assert_same(actual, expected)
    return fd.fec.get_cuda_kernel(list(inputs))


def scalar_reads(text: str) -> list[str]:
    """Accesses of one element of an input or output; none where the C++ compiler makes vectors of
    them, in kernels for the host itself."""
    if "#define NVF_THREADS_IN_LOOPS" in text:
        return []
    parameters = "|".join(re.findall(r"Tensor<[^>]*> (T\d+)", text))
    return re.findall(rf"(?<!&)\b(?:{parameters})\[[^]]*\]", text)


def rotate(x: torch.Tensor, half: int) -> torch.Tensor:
    return torch.cat([-x[..., half:], x[..., :half]], -1)


def rope(fd: FusionDefinition, t: Sequence[object], sizes: Sequence[int], half: int) -> object:
    x, cos, sin = (fd.ops.cast(each, DataType.Float) for each in t)
    low = fd.ops.slice(x, [0, 0, 0, 0], [*sizes[:-1], half])
    high = fd.ops.slice(x, [0, 0, 0, half], list(sizes))
    rotated = fd.ops.cat([fd.ops.neg(high), low], -1)
    wide = [True, True, False, False]
    straight = fd.ops.mul(x, fd.ops.broadcast(cos, wide))
    turned = fd.ops.mul(rotated, fd.ops.broadcast(sin, wide))
    return fd.ops.cast(fd.ops.add(straight, turned), DataType.BFloat16)


@pytest.mark.machine("hopper")
@pytest.mark.parametrize(
    ("sizes", "half", "in_vectors"),
    [
        ((2, 3, 16, 128), 64, True),
        ((2, 8, 33, 64), 32, True),
        ((1, 2, 5, 16), 8, True),
        ((2, 3, 7, 24), 12, False),
        ((2, 3, 7, 32), 8, True),
        ((2, 3, 7, 10), 5, False),
        ((2, 3, 7, 2), 1, False),
    ],
)
def test_rope(sizes: tuple[int, ...], half: int, in_vectors: bool) -> None:
    x = data(*sizes, dtype="BFloat16")
    cos, sin = (data(*sizes[-2:], dtype="BFloat16", seed=seed) for seed in (2, 3))
    wide = [each.float() for each in (x, cos, sin)]
    # Fused multiply-adds round once less.
    expected = (wide[0] * wide[1] + rotate(wide[0], half) * wide[2]).to(torch.bfloat16)

    def whole(fd: FusionDefinition) -> None:
        fd.add_output(rope(fd, [fd.from_pytorch(each) for each in (x, cos, sin)], sizes, half))

    fd = define(whole)
    (actual,) = fd.execute([x, cos, sin], device=DEVICE)
    torch.testing.assert_close(actual, expected, rtol=2**-7, atol=1e-6)
    text = fd.fec.get_cuda_kernel([x, cos, sin])
    if in_vectors:
        assert not scalar_reads(text)
        assert re.search(r"nvf::loadGlobal<__bfloat, \d+>\(&T\d+\[[^]]*\], &T0\[", text)


@pytest.mark.parametrize("begin", [0, 4, 8, 3, 6])
@pytest.mark.parametrize("end", [64, 60, 61, 12])
def test_slice(begin: int, end: int) -> None:
    x, y = data(20, 64), data(20, end - begin, seed=2)
    text = check(
        lambda fd, t: fd.ops.add(fd.ops.slice(t[0], [0, begin], [20, end]), t[1]),
        [x, y],
        x[:, begin:end] + y,
    )
    if begin % 4 == 0 and end % 4 == 0:
        assert not scalar_reads(text)


@pytest.mark.parametrize(
    ("left", "right"), [(4, 8), (0, 4), (4, 0), (3, 1), (0, 5), (-4, 8), (-2, 6)]
)
def test_pad(left: int, right: int) -> None:
    x = data(20, 64)
    check(
        lambda fd, t: fd.ops.neg(fd.ops.pad(t[0], [left, right], fd.define_scalar(2.0))),
        [x],
        -torch.nn.functional.pad(x, [left, right], value=2.0),
    )


@pytest.mark.parametrize("widths", [(8, 16, 24), (4, 4), (3, 5, 8), (1, 63), (64,)])
def test_cat(widths: tuple[int, ...]) -> None:
    parts = [data(10, width, seed=width) for width in widths]
    text = check(lambda fd, t: fd.ops.neg(fd.ops.cat(list(t), 1)), parts, -torch.cat(parts, 1))
    if all(width % 4 == 0 for width in widths):
        assert not scalar_reads(text)


def test_cat_of_rows() -> None:
    parts = [data(rows, 64, seed=rows) for rows in (3, 1, 5)]
    text = check(lambda fd, t: fd.ops.neg(fd.ops.cat(list(t), 0)), parts, -torch.cat(parts, 0))
    assert not scalar_reads(text)


def test_shift_by_one_vector_and_by_one_element() -> None:
    """x[i] - x[i - n] along a row, zero before it."""
    for n in (1, 4):
        x = data(6, 40)

        def definition(fd: FusionDefinition, t: Sequence[object], n: int = n) -> object:
            shifted = fd.ops.pad(fd.ops.slice(t[0], [0, 0], [6, 40 - n]), [n, 0])
            return fd.ops.sub(t[0], shifted)

        check(definition, [x], x - torch.nn.functional.pad(x[:, : 40 - n], [n, 0]))


def test_slice_of_a_computed_and_reshaped_tensor() -> None:
    x = data(6, 4, 16)

    def definition(fd: FusionDefinition, t: Sequence[object]) -> object:
        flat = fd.ops.reshape(fd.ops.neg(t[0]), [6, 64])
        return fd.ops.mul(fd.ops.slice(flat, [1, 16], [6, 48]), 2.0)

    check(definition, [x], -x.reshape(6, 64)[1:, 16:48] * 2.0)


def test_other_shapes_of_one_definition() -> None:
    x = data(8, 64)
    with FusionDefinition() as fd:
        t = fd.from_pytorch(x)
        first = fd.ops.slice(t, [0, 8], [8, 40])
        fd.add_output(fd.ops.neg(first))
    for width in (64, 40, 41, 44, 20, 10, 9):
        y = data(8, width, seed=width)
        (actual,) = fd.execute([y], device=DEVICE)
        assert_same(actual, -y[:, 8:40])


def test_quotients_of_what_a_row_alone_has() -> None:
    """In threads of other rows, the registers that are divided are never loaded."""
    with FusionDefinition() as fd:
        x = fd.define_tensor(shape=[-1, -1], contiguity=True, dtype=DataType.Float)
        row = fd.define_tensor(shape=[-1], contiguity=True, dtype=DataType.Float)
        quotient = fd.ops.div(row, fd.ops.size(x, 1))
        y = fd.ops.sub(x, fd.ops.broadcast(quotient, [False, True]))
        fd.add_output(fd.ops.cat([y, y, y], 0))
    for rows, width in ((6, 4), (31, 62), (3, 1026), (5, 1026), (3, 515)):
        inputs = [data(rows, width), data(rows, seed=width)]
        (actual,) = fd.execute(inputs, device=DEVICE)
        expected = inputs[0] - (inputs[1] / width).unsqueeze(1)
        assert_same(actual, torch.cat([expected] * 3), rtol=1e-6, atol=1e-6)


def test_misaligned_memory() -> None:
    x = row_major((8, 64), offset=1).fill(torch.float, 1)
    check(lambda fd, t: fd.ops.neg(fd.ops.slice(t[0], [0, 4], [8, 32])), [x], -x[:, 4:32])


ADVERSARIAL = """
import torch
from nvfuse_direct import FusionDefinition
for width, half in [(64, 32), (40, 20), (36, 16), (10, 5)]:
    x = torch.rand(5, width)
    with FusionDefinition() as fd:
        t = fd.from_pytorch(x)
        low = fd.ops.slice(t, [0, 0], [5, half])
        high = fd.ops.slice(t, [0, half], [5, width])
        fd.add_output(fd.ops.add(fd.ops.cat([fd.ops.neg(high), low], 1), t))
    (actual,) = fd.execute([x], device=torch.device("cpu"))
    assert torch.equal(actual, torch.cat([-x[:, half:], x[:, :half]], 1) + x)
print("clean")
"""


@pytest.mark.skipif(ON_CUDA, reason="the host target's checks")
def test_no_access_outside_or_across() -> None:
    done = run_python(ADVERSARIAL, {"NVFUSER_HOST_ADVERSARIAL": "3"})
    assert "clean" in done.stdout, done.stdout + done.stderr


def test_a_smaller_output_in_the_loops_of_a_broadcast_slice() -> None:
    # The second output lacks the dimensions that the slice adds to the loops: it is written in
    # their first iteration, which reads the slice's first element, not the sliced tensor's.
    x, y = data(16), data(16, seed=2)

    def whole(fd: FusionDefinition) -> None:
        a, b = fd.from_pytorch(x), fd.from_pytorch(y)
        part = fd.ops.reshape(fd.ops.slice(a, [10], [16]), [3, 2, 1, 1])
        fd.add_output(fd.ops.where(fd.ops.ge(b, b), part, a))
        fd.add_output(fd.ops.neg(b))

    wide, small = define(whole).execute([x, y], device=DEVICE)
    assert_same(wide, torch.where(y >= y, x[10:16].reshape(3, 2, 1, 1), x))
    assert_same(small, -y)


@pytest.mark.machine("hopper")
@pytest.mark.parametrize("rows", [8, 3])
def test_vectors_run_over_the_ends_of_contiguous_rows(rows: int) -> None:
    """Rows of 3 are no vectors, but what lies together between two ends of the cut may be."""
    a, b = (data(2, rows, 3, dtype="Half", seed=seed) for seed in (1, 2))

    def whole(fd: FusionDefinition) -> None:
        x, y = (
            fd.define_tensor(shape=[-1, -1, -1], contiguity=True, dtype=DataType.Half)
            for _ in range(2)
        )
        fd.add_output(fd.ops.cat([x, y, x], 0))

    fd = define(whole)
    (actual,) = fd.execute([a, b], device=DEVICE)
    assert_same(actual, torch.cat([a, b, a]))
    assert fd.fec._num_fallbacks == 0
    in_vectors = not scalar_reads(fd.fec.get_cuda_kernel([a, b]))
    assert in_vectors == (rows % 8 == 0)
    for other in (5, 8):
        a, b = (data(2, other, 3, dtype="Half", seed=seed) for seed in (3, 4))
        (actual,) = fd.execute([a, b], device=DEVICE)
        assert_same(actual, torch.cat([a, b, a]))
    assert fd.fec._num_fallbacks == 0


def test_vectors_of_an_expanded_tensor_that_is_reshaped() -> None:
    x = data(1, 16, 2, 3, dtype="Half")

    def definition(fd: FusionDefinition, t: Sequence[object]) -> object:
        expanded = fd.ops.expand(fd.ops.abs(t[0]), [2, 16, 2, 3])
        return fd.ops.reshape(expanded, [64, 3])

    text = check(definition, [x], x.abs().expand(2, 16, 2, 3).reshape(64, 3))
    assert not scalar_reads(text)
