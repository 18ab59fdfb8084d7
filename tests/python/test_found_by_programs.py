# SPDX-License-Identifier: BSD-3-Clause
"""What random programs found, minimized: wrong results, refusals, kernels that were not made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from helpers import DEVICE, assert_all_same, assert_same, define
from nvfuse_direct import DataType, FusionDefinition, TensorView
from nvfuse_direct.pytorch_utils import torch_dtype_to_nvfuser_dtype
from program_generator.check import check
from program_generator.statements import generate

Definition = Callable[[FusionDefinition], None]


def run_without_fallback(definition: Definition, *inputs: torch.Tensor) -> list[torch.Tensor]:
    fd = define(definition)
    outputs = fd.execute([x.to(DEVICE) for x in inputs], device=DEVICE)
    assert fd.fec._num_fallbacks == 0, "a kernel that could not be made was replaced by others"
    return [x.cpu() for x in outputs]


@pytest.mark.parametrize("shape", [(1, 1), (1, 3), (4, 1), (2, 3)])
def test_flattened_dimensions_that_happen_to_be_one(shape: tuple[int, int]) -> None:
    """What is computed before the reshape has loops over sizes that are only known to be 1."""

    def definition(fd: FusionDefinition) -> None:
        x = fd.define_tensor([-1, -1], [True, True])
        y = fd.define_tensor([-1, -1], [True, True])
        z = fd.ops.neg(fd.ops.add(fd.ops.neg(y), fd.ops.permute(fd.ops.permute(x, [1, 0]), [1, 0])))
        flat = fd.ops.reshape(z, [fd.ops.mul(fd.ops.size(x, 0), fd.ops.size(x, 1))])
        fd.add_output(fd.ops.mul(flat, flat))

    x, y = torch.randn(shape), torch.randn(shape)
    (out,) = run_without_fallback(definition, x, y)
    assert_same(out, (y - x).flatten() ** 2, rtol=1e-5, atol=1e-6)


def test_one_definition_before_and_after_sizes_of_one() -> None:
    """Sizes of 1 that became constants hold for these inputs alone."""

    def definition(fd: FusionDefinition) -> None:
        x = fd.define_tensor([-1, -1], [True, True], dtype=DataType.Half)
        fd.add_output(fd.ops.reshape(fd.ops.cast(x, DataType.Float), [-1]))

    fd = define(definition)
    for shape in [(2, 3), (1, 1), (3, 1), (0, 1), (1, 1), (1, 5), (2, 3)]:
        x = torch.randn(shape).half().to(DEVICE)
        (out,) = fd.execute([x], device=DEVICE)
        assert_same(out, x.float().flatten())
    assert fd.fec._num_fallbacks == 0


@pytest.mark.parametrize("shape", [(3, 0), (0, 3), (3, 5)])
@pytest.mark.parametrize("reduced", [False, True])
def test_a_kernel_hands_on_what_is_expanded_to_nothing(
    shape: tuple[int, int], reduced: bool
) -> None:
    """The second kernel has an element to compute for which the first one has none."""

    def definition(fd: FusionDefinition) -> None:
        o = fd.ops
        x = fd.define_tensor([-1, -1], [True, True])
        rows, columns = o.size(x, 0), o.size(x, 1)
        row = o.sum(x, [1]) if reduced else o.iota(rows, dtype=DataType.Float)
        wide = o.expand(o.broadcast(row, [False, True]), [rows, columns])
        passed = o.exp(o.segment_set(wide))
        fd.add_output(o.sum(passed, [1]))
        fd.add_output(o.sum(passed, [0]))

    x = torch.randn(shape).to(DEVICE)
    row = x.sum(1) if reduced else torch.arange(shape[0], device=DEVICE).float()
    passed = row[:, None].expand(shape).exp()
    outputs = define(definition).execute([x], device=DEVICE)
    assert_all_same(outputs, [passed.sum(1), passed.sum(0)], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("stop", [1, 2, 3, 4])
def test_slices_of_expanded_dimensions_beside_a_size_known_late(stop: int) -> None:
    """The other slice decides at run time what its dimension is; this one is known all along."""

    def definition(fd: FusionDefinition) -> None:
        o = fd.ops
        c = fd.define_tensor([4], [None])
        d = fd.define_tensor([-1], [True])
        size = o.size(d, 0)
        fd.add_output(o.neg(o.slice(d, [o.minimum(1, size)], [size])))
        fd.add_output(o.exp(o.slice(c, [0], [stop])))
        fd.add_output(o.add(o.slice(c, [0], [2]), o.slice(o.exp(c), [2], [4])))

    c = torch.randn(1).to(DEVICE).expand(4)
    for count in (5, 2, 1):
        d = torch.randn(count).to(DEVICE)
        outputs = define(definition).execute([c, d], device=DEVICE)
        expected = [-d[min(1, count) :], c[:stop].exp(), c[:2] + c.exp()[2:]]
        assert_all_same(outputs, expected, rtol=1e-5, atol=1e-6)


# ------------------------------------------------- deviations of a product from its mean

PRODUCTS = {
    "mul": lambda o, a, b: o.mul(a, b),
    "square": lambda o, a, b: o.mul(a, a),
    "negated": lambda o, a, b: o.neg(o.mul(a, b)),
    "scaled": lambda o, a, b: o.mul(a, 1.3),
    "silu": lambda o, a, b: o.silu(a),
    "of_sum": lambda o, a, b: o.mul(o.add(a, b), b),
}


def deviation(o: Any, kind: str, x: Any, dims: list[int]) -> Any:
    if kind == "var":
        return o.var(x, dims, 1, True)
    count = 1.0
    for d in dims:
        count = o.mul(o.size(x, d), count)
    mean = o.div(o.sum(x, dims, keepdim=True), count)
    if kind == "spelled":
        centred = o.sub(x, mean)
        return o.div(o.sum(o.mul(centred, centred), dims, keepdim=True), o.sub(count, 1.0))
    centred = o.sub(mean, x)
    return o.div(centred, o.sum(o.abs(centred), dims, keepdim=True))


@pytest.mark.parametrize(("sizes", "dims"), [((40, 1), [1]), ((1, 1), [0, 1])])
@pytest.mark.parametrize(
    ("kind", "product"),
    [*(("var", product) for product in PRODUCTS), ("spelled", "mul"), ("normalized", "square")],
)
def test_the_deviation_of_one_product_is_zero(
    kind: str, product: str, sizes: tuple[int, int], dims: list[int]
) -> None:
    """The product that the mean is made of is rounded; the one it is subtracted from is as well."""
    dtype = DataType.Double if product in ("square", "scaled") else DataType.Float
    declared = [-1, -1] if len(dims) == 1 else list(sizes)
    with FusionDefinition() as fd:
        a, b = (fd.define_tensor(declared, [True, True], dtype=dtype) for _ in range(2))
        fd.add_output(deviation(fd.ops, kind, PRODUCTS[product](fd.ops, a, b), dims))
    torch_dtype = torch.float32 if dtype == DataType.Float else torch.float64
    for _ in range(4):
        values = [torch.randn(sizes, dtype=torch_dtype, device=DEVICE) for _ in range(2)]
        (out,) = fd.execute(values, device=DEVICE)
        assert out.isnan().all(), out


def test_deviations_of_products_of_many() -> None:
    for n in (2, 7, 1000, 5000):

        def definition(fd: FusionDefinition) -> None:
            a, b = (fd.define_tensor([-1, -1], [True, True]) for _ in range(2))
            x = fd.ops.mul(a, b)
            fd.add_output(fd.ops.var(x, [1], 1, True))
            fd.add_output(deviation(fd.ops, "normalized", x, [1]))

        a, b = torch.randn(3, n), torch.randn(3, n)
        outputs = run_without_fallback(definition, a, b)
        x = a.double() * b.double()
        centred = x.mean(1, keepdim=True) - x
        expected = [x.var(1, keepdim=True), centred / centred.abs().sum(1, keepdim=True)]
        assert_all_same(outputs, [y.float() for y in expected], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    "seed",
    [
        # A pad that two segments repeat, until one of them cannot: the other one had its input from
        # nowhere.
        971135,
        # A branch of a block that computes what all threads then compute with.
        1300312,
        # Sums of columns beside something that is as long by a promise of the inputs alone: one
        # input, broadcast along a part of the rows, would be loaded once for both.
        1202416,
        # Flattened expanded tensors.
        2003456,
        2400318,
        # An output that is a view of another one, which lies in another order.
        9054534,
        # The reciprocal of what is mostly rounding.
        9002528,
    ],
)
def test_programs_without_fallbacks(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NVFUSER_TEST_NO_FALLBACKS", "1")
    finding, runs = check(generate(seed))
    assert finding is None
    assert runs > 0


@pytest.mark.parametrize(("start", "stop"), [(3, 4), (15, 16), (12, 15), (3, 13)])
@pytest.mark.parametrize("static", [False, True])
def test_elements_of_flattened_rows_find_their_rows(static: bool, start: int, stop: int) -> None:
    """What a row has one of is read at the row of the element, not at its position."""
    x = torch.randn(8, 2, device=DEVICE)
    with FusionDefinition() as fd:
        t = fd.from_pytorch(x, static_sizes=static)
        rows = fd.ops.sum(fd.ops.mul(t, t), [1], keepdim=True)
        scaled = fd.ops.mul(t, fd.ops.rsqrt(fd.ops.add(rows, 1e-3)))
        flat = fd.ops.reshape(scaled, [fd.ops.mul(fd.ops.size(t, 0), fd.ops.size(t, 1))])
        part = fd.ops.slice(flat, [start], [stop])
        fd.add_output(fd.ops.sub(flat, part) if stop - start == 1 else fd.ops.neg(part))
    (actual,) = fd.execute([x])
    expected = (x * torch.rsqrt(x.square().sum(1, keepdim=True) + 1e-3)).flatten()
    expected = expected - expected[start] if stop - start == 1 else -expected[start:stop]
    torch.testing.assert_close(actual, expected)
    assert fd.fec._num_fallbacks == 0


def test_one_element_of_flattened_repetitions() -> None:
    """A row, repeated along another dimension: in its own loops it is shorter than what is cut."""

    def definition(fd: FusionDefinition) -> None:
        o = fd.ops
        x = fd.define_tensor([3], [True])
        repeated = o.exp(o.expand(o.broadcast(o.neg(o.exp(x)), [True, False]), [2, 3]))
        flat = o.reshape(repeated, [6])
        fd.add_output(o.cat([o.slice(flat, [5], [6]), o.slice(flat, [0], [5])], 0))

    x = torch.randn(3)
    (out,) = run_without_fallback(definition, x)
    assert_same(out, (-x.exp()).exp().repeat(2).roll(1), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("n", [40, 1024, 1025])
def test_scales_of_groups_of_rows_in_several_loops(n: int) -> None:
    """Computed once for all loops over a row, and in the block of each row of the group."""

    def definition(fd: FusionDefinition) -> None:
        o = fd.ops
        x = fd.define_tensor([2, 4, -1], [True, True, True])
        w = fd.define_tensor([2], [True])
        scale = o.broadcast(o.div(w, 3.0), [False, True, True])
        scaled = o.mul(scale, x)
        mean = o.div(o.sum(scaled, [2], keepdim=True), o.size(x, 2))
        fd.add_output(o.exp(scaled))
        fd.add_output(o.add(scale, o.mul(o.sub(scaled, mean), scale)))

    x, w = torch.randn(2, 4, n), torch.randn(2)
    outputs = run_without_fallback(definition, x, w)
    scale = (w / 3)[:, None, None]
    scaled = scale * x
    expected = [scaled.exp(), scale + (scaled - scaled.mean(2, keepdim=True)) * scale]
    assert_all_same(outputs, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("width", [1, 3, 513])
def test_a_sum_and_its_flattened_form_are_both_returned(width: int) -> None:
    """The second of two outputs with the same memory is a copy, which has no axis of the sum."""
    with FusionDefinition() as fd:
        t = fd.define_tensor([2, 8, -1], [True] * 3)
        squares = fd.ops.sum(fd.ops.mul(t, t), [2], keepdim=True)
        summed = fd.ops.sum(fd.ops.mul(t, fd.ops.rsqrt(squares)), [1])
        length = fd.ops.mul(fd.ops.size(summed, 0), fd.ops.size(summed, 1))
        fd.add_output(fd.ops.reshape(summed, [length]))
        fd.add_output(summed)
    x = torch.randn(2, 8, width, device=DEVICE)
    flat, rows = fd.execute([x])
    expected = (x * torch.rsqrt(x.square().sum(2, keepdim=True))).sum(1)
    torch.testing.assert_close(rows, expected)
    torch.testing.assert_close(flat, expected.flatten())


def test_what_is_expanded_to_one_element_broadcasts() -> None:
    """A slice of one element, expanded to [2, 1]: its second dimension is of size 1."""
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1], [True])
        y = fd.define_tensor([3], [True])
        one = fd.ops.slice(x, [0], [1])
        expanded = fd.ops.broadcast_in_dim(one, [2, 1], [1])
        fd.add_output(fd.ops.mul(expanded, y))
        fd.add_output(fd.ops.add(expanded, fd.ops.exp(one)))
    x, y = torch.randn(5, device=DEVICE), torch.randn(3, device=DEVICE)
    product, total = fd.execute([x, y])
    expanded = x[:1].expand(2, 1)
    torch.testing.assert_close(product, expanded * y)
    torch.testing.assert_close(total, expanded + x[:1].exp())


@pytest.mark.parametrize("given", [True, False])
@pytest.mark.parametrize("size", [1, 4])
def test_what_is_expanded_to_a_computed_size_of_one_broadcasts(size: int, given: bool) -> None:
    """As a slice that happens to be of size 1 does; a size is computed or an input of its own."""
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1], [True])
        y = fd.define_tensor([4], [True])
        if given:
            wanted = fd.define_scalar(None, DataType.Int)
        else:
            rest = fd.ops.slice(y, [0], [fd.ops.sub(fd.ops.size(x, 0), 2)])
            wanted = fd.ops.size(rest, 0)
        column = fd.ops.broadcast(fd.ops.exp(x), [False, True])
        expanded = fd.ops.expand(column, [-1, wanted])
        fd.add_output(fd.ops.mul(expanded, fd.ops.broadcast(y, [True, False])))
        fd.add_output(fd.ops.sum(expanded, [1]))
        fd.add_output(fd.ops.reshape(expanded, [-1]))
        fd.add_output(expanded)
    x, y = torch.randn(2 + size, device=DEVICE), torch.randn(4, device=DEVICE)
    product, total, flat, plain = fd.execute([x, y, size] if given else [x, y])
    expanded = x.exp()[:, None].expand(-1, size)
    torch.testing.assert_close(product, expanded * y)
    torch.testing.assert_close(total, expanded.sum(1))
    torch.testing.assert_close(flat, expanded.reshape(-1))
    torch.testing.assert_close(plain, expanded)


def test_two_computed_sizes_of_which_one_is_one() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1], [True])
        m, n = fd.define_scalar(None, DataType.Int), fd.define_scalar(None, DataType.Int)
        column = fd.ops.broadcast(x, [False, True])
        left = fd.ops.expand(column, [-1, m])
        right = fd.ops.expand(fd.ops.sin(column), [-1, n])
        total = fd.ops.add(left, right)
        fd.add_output(total)
        fd.add_output(fd.ops.reshape(total, [-1]))
        fd.add_output(fd.ops.sum(total, [1]))
    x = torch.randn(5, device=DEVICE)
    for m, n in [(3, 3), (1, 3), (3, 1), (1, 1)]:
        total, flat, sums = fd.execute([x, m, n])
        expected = x[:, None].expand(-1, m) + x.sin()[:, None].expand(-1, n)
        torch.testing.assert_close(total, expected)
        torch.testing.assert_close(flat, expected.reshape(-1))
        torch.testing.assert_close(sums, expected.sum(1))


@pytest.mark.parametrize("size", [8, 128, 1000])
@pytest.mark.parametrize("spelling", ["neg", "product", "difference"])
def test_extremes_of_negated_integers(spelling: str, size: int) -> None:
    """CUDA's assembler forgets a sign where it makes one instruction of two extremes (6700153)."""

    def negated(fd: FusionDefinition, x: TensorView) -> TensorView:
        if spelling == "neg":
            return fd.ops.neg(x)
        return fd.ops.mul(x, -1) if spelling == "product" else fd.ops.sub(0, x)

    def definition(fd: FusionDefinition) -> None:
        o = fd.ops
        x = fd.define_tensor([-1], [True], DataType.Int32)
        y = negated(fd, x)
        fd.add_output(o.max(y, [0]))
        fd.add_output(o.min(y, [0]))
        fd.add_output(o.maximum(o.maximum(x, y), negated(fd, o.add(x, 2))))
        fd.add_output(o.minimum(o.minimum(x, y), negated(fd, o.add(x, 2))))
        larger = o.where(o.gt(x, y), x, y)
        other = negated(fd, o.sub(x, 3))
        fd.add_output(o.where(o.gt(larger, other), larger, other))

    x = torch.randint(-3, 6, (size,), dtype=torch.int32)
    x[0] = 5
    results = run_without_fallback(definition, x)
    expected = [
        (-x).amax(),
        (-x).amin(),
        torch.maximum(torch.maximum(x, -x), -(x + 2)),
        torch.minimum(torch.minimum(x, -x), -(x + 2)),
        torch.maximum(torch.maximum(x, -x), -(x - 3)),
    ]
    for result, wanted in zip(results, expected, strict=True):
        assert_same(result, wanted)


def test_a_clamped_position_beside_a_cat() -> None:
    """NVRTC must compile it (7001616)."""

    def definition(fd: FusionDefinition) -> None:
        o = fd.ops
        x = fd.define_tensor([1, 1], [None, None], DataType.BFloat16)
        at = fd.define_tensor([1, 1], [None, None], DataType.Int32)
        position = o.cast(o.clamp(at, 0, 0), DataType.Int)
        fd.add_output(o.cat([x, o.gather(x, position, 1), x], 1))

    x = torch.randn(1, 1, dtype=torch.bfloat16)
    (out,) = run_without_fallback(definition, x, torch.tensor([[3]], dtype=torch.int32))
    assert_same(out, x.expand(1, 3))


@pytest.mark.machine("h200")
def test_an_operand_of_a_reduction_is_broadcast_beside_its_result() -> None:
    """What it is broadcast to says how it is scheduled, not what the reduction reads of it."""

    def definition(fd: FusionDefinition) -> None:
        o = fd.ops
        b = fd.define_tensor([1, -1, -1], [None, True, True])
        parts = [fd.define_tensor([-1, -1, 1, -1], [True, True, None, True]) for _ in range(2)]
        x = fd.define_tensor([-1, -1, -1], [True] * 3)
        total = o.broadcast(o.add(b, x), [False, False, True, False])
        least = o.min(o.cat([*parts, total], 2), [0])
        beside = o.broadcast(b, [False, False, True, False])
        fd.add_output(o.mul(o.broadcast(least, [True, False, False, False]), beside))

    b, x = torch.randn(1, 6, 4), torch.randn(5, 6, 4)
    parts = [torch.randn(5, 6, 1, 4) for _ in range(2)]
    (out,) = run_without_fallback(definition, b, *parts, x)
    joined = torch.cat([*parts, (b + x).unsqueeze(2)], 2)
    assert_same(out, joined.amin(0, keepdim=True) * b.unsqueeze(2))


@pytest.mark.parametrize(("i", "j"), [(0, 0), (1, 3)])
def test_one_element_of_a_product_of_one_tensor(i: int, j: int) -> None:
    """The tensor is read at two elements of one dimension, of which the result has none."""

    def definition(fd: FusionDefinition) -> None:
        o = fd.ops
        x = o.exp(fd.define_tensor([-1, 32], [True, True]))
        rows = o.broadcast(x, [False, True, False])
        columns = o.broadcast(x, [True, False, False])
        one = o.slice(o.mul(rows, columns), [i, j, 0], [i + 1, j + 1, 32])
        fd.add_output(o.squeeze(one, [0, 1]))

    x = torch.randn(5, 32)
    (out,) = run_without_fallback(definition, x)
    assert_same(out, x[i].exp() * x[j].exp(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "seed",
    [
        2003687,  # the sum is of one element, and the loops come to what it is padded with
        2201661,  # rows of two elements are transposed without vectors
        1201853,  # what no thread of a warp loads is divided
    ],
)
def test_whole_programs(seed: int) -> None:
    finding, _ = check(generate(seed), DEVICE)
    assert finding is None, finding


@pytest.mark.parametrize("at", [1, 5, 11])
@pytest.mark.parametrize("rows", [1, 3])
def test_one_element_of_flattened_rows_that_are_stacked(rows: int, at: int) -> None:
    """One operand has only a part of the dimension that the element is cut out of."""

    def definition(fd: FusionDefinition) -> None:
        o = fd.ops
        x = fd.define_tensor([-1, -1, -1], [True, True, True])
        y = fd.define_tensor([-1, -1, 1], [False, True, None])
        flat = o.reshape(o.add(x, y), [o.size(x, 0), o.mul(o.size(x, 1), o.size(x, 2))])
        flat = o.broadcast(flat, [False, True, False])
        stacked = o.cat([flat, o.neg(flat)], 1)
        fd.add_output(o.slice(stacked, [0, 0, at], [o.size(x, 0), 2, at + 1]))

    x, y = torch.randn(4, rows, 12, device=DEVICE), torch.randn(4, 7, 1, device=DEVICE)[:, :rows]
    (out,) = run_without_fallback(definition, x, y)
    flat = (x + y).flatten(1)
    assert_same(out, torch.stack([flat, -flat], 1)[..., at : at + 1])


@pytest.mark.parametrize("sizes", [(8, 8), (5, 11), (3, 1)])
def test_flattened_tensors_whose_repeated_dimensions_agree(sizes: tuple[int, int]) -> None:
    """The sizes of two expanded dimensions are one number, as the two meet in an operation."""

    def definition(fd: FusionDefinition) -> None:
        o = fd.ops
        x = fd.define_tensor([-1, -1], [True, None])
        y = fd.define_tensor([-1, -1], [None, None])
        z = fd.define_tensor([-1, 1], [True, None])
        kept = o.where(o.gt(x, 0.0), y, 2.0)
        length = [o.mul(o.size(x, 0), o.size(x, 1))]
        flat = o.reshape(o.maximum(kept, z), length)
        fd.add_output(o.sub(o.reshape(o.mul(o.add(y, kept), x), length), flat))
        fd.add_output(flat)

    column, one, z = torch.randn(sizes[0], 1), torch.randn(1, 1), torch.randn(sizes[0], 1)
    expanded = [t.to(DEVICE).expand(sizes) for t in (column, one)]
    difference, flat = run_without_fallback(definition, *expanded, z)
    x, y = column.expand(sizes), one.expand(sizes)
    kept = torch.where(x > 0, y, 2.0)
    assert_same(flat, torch.maximum(kept, z).flatten())
    assert_same(difference, ((y + kept) * x).flatten() - flat, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("size", [0, 1, 3, 40])
def test_flattened_tensors_of_equal_width_have_as_many_rows(size: int) -> None:
    """n * w elements are as many as m * w, so m is n, which nothing else says."""

    def definition(fd: FusionDefinition) -> None:
        o = fd.ops
        x = fd.define_tensor([-1], [True])
        n = fd.define_scalar(DataType.Int)
        rows = o.expand(o.broadcast(x, [True, False]), [n, o.size(x, 0)])
        products = o.mul(o.broadcast(x, [True, False]), o.broadcast(x, [False, True]))
        flat = o.reshape(products, [o.mul(o.size(x, 0), o.size(x, 0))])
        fd.add_output(o.sub(o.reshape(rows, [o.mul(n, o.size(x, 0))]), flat))

    x = torch.randn(size)
    fd = define(definition)
    (out,) = fd.execute([x.to(DEVICE), size], device=DEVICE)
    assert fd.fec._num_fallbacks == 0, "a kernel that could not be made was replaced by others"
    expected = x.expand(size, size).flatten() - (x * x[:, None]).flatten()
    assert_same(out.cpu(), expected, rtol=1e-5, atol=1e-6)


def test_an_operand_without_rows_has_any_stride() -> None:
    def definition(fd: FusionDefinition) -> None:
        o = fd.ops
        x = fd.define_tensor([-1, -1], [False, True], DataType.BFloat16)
        y = fd.define_tensor([-1, -1], [True, True], DataType.BFloat16)
        fd.add_output(o.cat([o.cast(o.neg(y), DataType.BFloat16), x], 0))

    x = torch.randn(1, 21).bfloat16()[:0, :8]
    y = torch.randn(4, 8).bfloat16()
    (out,) = run_without_fallback(definition, x, y)
    assert_same(out, -y)


def test_one_of_an_expanded_dimension_beside_a_reduction_of_all() -> None:
    """The size of the slice is 1, that of the dimension is not."""

    def definition(fd: FusionDefinition) -> None:
        o = fd.ops
        x = fd.define_tensor([-1, -1], [True, True])
        expanded = o.broadcast_in_dim(o.min(x, [0, 1]), [o.size(x, 0), o.size(x, 1)], [])
        part = o.slice(o.sum(expanded, [0]), [0], [o.sub(o.size(x, 1), 3)])
        fd.add_output(o.sum(o.mul(x, x), [0, 1]))
        fd.add_output(o.abs(part))

    x = torch.randn(4, 4)
    squares, part = run_without_fallback(definition, x)
    assert_same(squares, (x * x).sum(), rtol=1e-5, atol=1e-6)
    assert_same(part, (x.min() * 4).abs().expand(1), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("sizes", [(8, 12, 16), (2, 4, 2), (5, 12, 1), (1, 1, 1)])
def test_a_part_of_an_input_around_a_dimension_of_one(sizes: tuple[int, int, int]) -> None:
    """Whether memory is contiguous is asked past dimensions of size 1."""

    def definition(fd: FusionDefinition) -> None:
        o = fd.ops
        x = fd.define_tensor([-1, -1, -1], [True, True, True], stride_order=[2, 0, 1])
        half = o.div(o.size(x, 1), fd.define_scalar(2))
        part = o.slice(x, [0, 0, 0], [o.size(x, 0), half, o.size(x, 2)])
        y = fd.define_tensor([-1], [True])
        fd.add_output(o.add(part, o.max(y, [0])))

    first, second, third = sizes
    x = torch.randn(first, third, second).transpose(1, 2)
    y = torch.randn(40)
    (out,) = run_without_fallback(definition, x, y)
    assert_same(out, x[:, : second // 2] + y.max())


def test_what_a_cat_of_three_chooses_from_is_exact() -> None:
    """Only the first operand of the nested choice was asked for all bits of a float32."""

    def definition(fd: FusionDefinition) -> None:
        x = fd.define_tensor([-1, -1], [True, True])
        y = fd.ops.broadcast(fd.ops.tanh(x), [True, False, False])
        fd.add_output(fd.ops.cat([y, y, y], 0))

    x = torch.rand(8, 2048) * 0.02
    (out,) = run_without_fallback(definition, x)
    assert_same(out.double(), torch.tanh(x.double()).expand(3, 8, 2048), rtol=1e-6, atol=0)


MACHINES = [pytest.param(m, marks=pytest.mark.machine(m)) for m in ("host", "h200")]


def exponentials(o: Any, x: Any, axis: int) -> Any:
    """A softmax without its division."""
    return o.exp(o.sub(x, o.max(x, [axis], keepdim=True)))


def expected_exponentials(x: torch.Tensor, axis: int) -> torch.Tensor:
    return (x - x.amax(axis, keepdim=True)).exp()


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("columns", [1, 7, 130])
def test_norms_of_rows_that_are_made_again(columns: int, machine: str) -> None:
    """Each pass has versions of its own of a pad or a stack. They have the same loops, whether the
    inputs that they are made of lead to those or not."""

    def definition(fd: FusionDefinition) -> None:
        o = fd.ops
        x = fd.define_tensor([-1, -1], [True, True])
        ones = o.full([o.size(x, 0), o.size(x, 1)], fd.define_scalar(1.0), DataType.Float)
        parts = [o.broadcast(part, [True, False, False]) for part in (o.sin(x), x)]
        padded = o.pad(o.broadcast(o.sin(x), [False, True, False]), [1, 0, 1, 0])
        half = o.slice(x, [0, 0], [o.div(o.size(x, 0), fd.define_scalar(2)), o.size(x, 1)])
        fd.add_output(exponentials(o, o.pad(ones, [1, 0]), 1))
        fd.add_output(exponentials(o, o.cat(parts, 0), 2))
        fd.add_output(exponentials(o, padded, 2))
        fd.add_output(exponentials(o, o.permute(half, [1, 0]), 1))

    x = torch.randn(6, columns)
    pad = torch.nn.functional.pad
    expected = [
        expected_exponentials(pad(torch.ones_like(x), (1, 0)), 1),
        expected_exponentials(torch.stack([x.sin(), x]), 2),
        expected_exponentials(pad(x.sin()[:, None], (1, 0, 1, 0)), 2),
        expected_exponentials(x[:3].T, 1),
    ]
    outputs = run_without_fallback(definition, x)
    assert_all_same(outputs, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("columns", [1, 7, 130])
def test_what_is_padded_is_expanded(columns: int, machine: str) -> None:
    """The pad has loops over elements that are all one where it is read otherwise."""

    def definition(fd: FusionDefinition) -> None:
        o = fd.ops
        x = fd.define_tensor([-1, -1], [True, None])
        y = fd.define_tensor([-1], [None])
        mean = o.sum(o.mul(x, x), [1], keepdim=True)
        scaled = o.mul(x, o.rsqrt(mean))
        size = o.size(y, 0)
        half = o.div(size, fd.define_scalar(2))
        parts = [o.slice(y, [half], [size]), o.slice(y, [0], [half])]
        fd.add_output(o.sum(o.cat([x, mean], 1), [1]))
        fd.add_output(o.sum(o.sub(o.pad(x, [1, 1, 1, 1]), o.sum(mean, [0, 1])), [0, 1]))
        fd.add_output(exponentials(o, o.pad(scaled, [2, 0]), 1))
        fd.add_output(o.prod(o.cat(parts, 0), [0]))

    x = torch.randn(6, 1).expand(6, columns)
    y = torch.tensor([1.01]).expand(columns)
    squares = (x * x).sum(1, keepdim=True)
    pad = torch.nn.functional.pad
    expected = [
        torch.cat([x, squares], 1).sum(1),
        (pad(x, (1, 1, 1, 1)) - squares.sum()).sum(),
        expected_exponentials(pad(x * squares.rsqrt(), (2, 0)), 1),
        y.prod(),
    ]
    fd = define(definition)
    own_x = x[:, :1].to(DEVICE).expand(6, columns)
    own_y = y[:1].to(DEVICE).expand(columns)
    outputs = fd.execute([own_x, own_y], device=DEVICE)
    assert fd.fec._num_fallbacks == 0, "a kernel that could not be made was replaced by others"
    assert_all_same([out.cpu() for out in outputs], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("machine", MACHINES)
def test_an_output_beside_a_norm_of_columns(machine: str) -> None:
    """What it is computed of besides is needed as early as the first pass of the norm."""

    def definition(fd: FusionDefinition) -> None:
        o = fd.ops
        x = fd.define_tensor([-1, -1], [True, True])
        y = fd.define_tensor([-1, -1], [True, True])
        e = exponentials(o, y, 0)
        fd.add_output(o.add(y, o.mul(x, x)))
        fd.add_output(o.div(e, o.sum(e, [0], keepdim=True)))

    x, y = torch.randn(2, 129, 129)
    outputs = run_without_fallback(definition, x, y)
    assert_all_same(outputs, [y + x * x, y.softmax(0)], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("size", [(5, 8, 3), (64, 512, 64)])
def test_the_first_row_beside_all_rows_of_a_transposed_input(
    machine: str, size: tuple[int, int, int]
) -> None:
    """The row's own tile in shared memory is that of the blocks which read it."""
    n, m, k = size

    def definition(fd: FusionDefinition) -> None:
        o = fd.ops
        x = fd.define_tensor([-1, -1, k], [True] * 3)
        y = fd.define_tensor([-1, -1, k], [True] * 3, stride_order=[2, 0, 1])
        both = o.minimum(x, y)
        fd.add_output(o.add(both, o.slice(both, [0, 0, 0], [1, o.size(x, 1), k])))

    x, y = torch.randn(n, m, k), torch.randn(n, k, m).permute(0, 2, 1)
    outputs = run_without_fallback(definition, x, y)
    both = torch.minimum(x, y)
    assert_all_same(outputs, [both + both[:1]], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("shape", [(4, 1, 8), (4, 1, 1, 64), (4, 1, 7), (4, 3, 8), (1, 1, 8)])
def test_parts_of_a_result_whose_rows_are_in_dimensions_of_one(
    machine: str, shape: tuple[int, ...]
) -> None:
    """Rows lie apart by the stride of the whole, though a dimension of one element has none."""

    def definition(fd: FusionDefinition) -> None:
        o = fd.ops
        x = fd.define_tensor([-1] * len(shape), [True] * len(shape))
        negative = o.neg(x)
        fd.add_output(o.cat([negative, o.exp(x), negative], -1))

    x = torch.randn(shape)
    outputs = run_without_fallback(definition, x)
    assert_all_same(outputs, [torch.cat([-x, x.exp(), -x], -1)], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("machine", MACHINES)
def test_two_empty_dimensions_padded_to_one_element_each(machine: str) -> None:
    """Dimensions of one iteration are all the same loop; what was padded to them is not."""

    def definition(fd: FusionDefinition) -> None:
        o = fd.ops
        x = fd.define_tensor([-1, -1], [True, True])
        padded = o.pad(o.neg(x), [1, 0, 1, 0], fd.define_scalar(1.0))
        wide = o.broadcast(padded, [True, False, False])
        fd.add_output(o.expand(wide, [2, o.size(padded, 0), o.size(padded, 1)]))
        fd.add_output(padded)

    for shape in [(0, 0), (0, 2), (3, 0), (2, 2)]:
        x = torch.randn(shape)
        padded = torch.nn.functional.pad(-x, (1, 0, 1, 0), value=1.0)
        outputs = run_without_fallback(definition, x)
        assert_all_same(outputs, [padded.expand(2, -1, -1), padded])


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("size", [(6, 3), (11, 5), (70, 300)])
def test_a_mean_of_short_sums_beside_what_they_are_broadcast_to(
    machine: str, size: tuple[int, int]
) -> None:
    """The second sum is not made in the loop over the four elements of the first one."""

    def definition(fd: FusionDefinition) -> None:
        o = fd.ops
        x = fd.define_tensor([-1, 4, -1], [True] * 3)
        y = o.add(x, fd.define_scalar(0.5))
        short = o.broadcast(o.mul(o.sum(y, [1]), fd.define_scalar(0.25)), [False, True, False])
        fd.add_output(o.atan2(y, short))
        fd.add_output(o.sum(short, [2]))
        fd.add_output(short)

    x = torch.randn(size[0], 4, size[1])
    short = (x + 0.5).mean(1, keepdim=True)
    outputs = run_without_fallback(definition, x)
    expected = [torch.atan2(x + 0.5, short), short.sum(2), short]
    assert_all_same(outputs, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("machine", MACHINES)
def test_rows_of_any_length_of_what_each_thread_has_sixteen_of(machine: str) -> None:
    """A vector of positions is more than a thread usually has, and yet the least."""

    def definition(fd: FusionDefinition) -> None:
        o = fd.ops
        x = fd.define_tensor([16, -1], [True, True])
        e = exponentials(o, o.var(x, [0], 1), 0)
        fd.add_output(o.div(e, o.sum(e, [0], keepdim=True)))

    fd = define(definition)
    for columns in (5, 6, 4, 64, 33, 1000, 8192):
        x = torch.randn(16, columns)
        (out,) = fd.execute([x.to(DEVICE)], device=DEVICE)
        assert_same(out.cpu(), x.var(0).softmax(0), rtol=1e-4, atol=1e-6)
    assert fd.fec._num_fallbacks == 0


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("size", [(5, 5), (300, 40)])
def test_a_softmax_of_equal_elements_before_a_product_of_columns(
    machine: str, size: tuple[int, int]
) -> None:
    """What is squeezed is read by what has the loops over the dimension that goes, too."""
    rows, columns = size

    def definition(fd: FusionDefinition) -> None:
        o = fd.ops
        mask = fd.define_tensor([-1, -1], [True, True], dtype=DataType.Bool)
        x = fd.define_tensor([1, -1], [None, True])
        wide = o.permute(o.expand(x, [columns, -1]), [1, 0])
        e = o.exp(o.sub(wide, o.broadcast(o.squeeze(wide, [1], True), [False, True])))
        total = o.mul(o.squeeze(e, [1], True), o.size(wide, 1))
        softmax = o.div(e, o.broadcast(total, [False, True]))
        fd.add_output(o.prod(o.where(mask, softmax, 1.0), [0]))

    mask, x = torch.rand(rows, columns) > 0.9, torch.randn(1, rows)
    outputs = run_without_fallback(definition, mask, x)
    softmax = x.expand(columns, rows).t().softmax(1)
    assert_all_same(outputs, [torch.where(mask, softmax, 1.0).prod(0)], rtol=1e-4, atol=0)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("size", [(3, 5), (64, 300)])
def test_rows_of_an_expanded_input_in_a_sum_of_all(machine: str, size: tuple[int, int]) -> None:
    """One element of each row, and all of its dimensions, of the same input."""
    n, k = size

    def definition(fd: FusionDefinition) -> None:
        o = fd.ops
        x = fd.define_tensor([-1, -1, -1], [True, None, None], dtype=DataType.BFloat16)
        weight = fd.define_tensor([1, 1, -1], [None, None, True])
        wide = o.cast(x, DataType.Float)
        one = o.squeeze(wide, [2], True)
        root = o.rsqrt(o.add(o.mul(one, one), 0.1))
        scaled = o.mul(wide, o.broadcast(root, [False, False, True]))
        fd.add_output(o.sum(o.squeeze(o.mul(scaled, weight), [1], True), [0, 1]))
        rows = o.squeeze(wide, [1], True)
        fd.add_output(o.sum(o.mul(rows, o.squeeze(weight, [0, 1])), [0, 1]))

    x = torch.randn(n).bfloat16()
    weight = torch.randn(1, 1, k)
    fd = define(definition)
    own = x.to(DEVICE)[:, None, None].expand(n, 4, k)
    outputs = fd.execute([own, weight.to(DEVICE)], device=DEVICE)
    assert fd.fec._num_fallbacks == 0, "a kernel that could not be made was replaced by others"
    wide = x.float()
    scaled = wide * (wide * wide + 0.1).rsqrt()
    expected = [(scaled[:, None] * weight[0]).sum(), (wide[:, None] * weight[0]).sum()]
    assert_all_same([out.cpu() for out in outputs], expected, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("axis", [0, 1])
def test_an_input_of_one_column_in_loops_over_all_and_beside_them(machine: str, axis: int) -> None:
    """It is loaded in both, as an array of a row between them has no constant size."""

    def definition(fd: FusionDefinition) -> None:
        o = fd.ops
        contiguity = [True, None] if axis == 1 else [None, True]
        x = fd.define_tensor([-1, 1] if axis == 1 else [1, -1], contiguity)
        weight = fd.define_tensor([-1, -1], [True, True])
        scaled = o.mul(weight, o.neg(x))
        own = o.broadcast(o.exp(o.squeeze(x, [axis])), [axis == 0, axis == 1])
        fd.add_output(o.sum(o.mul(scaled, own), [1 - axis]))

    weight = torch.randn(64, 300)
    x = torch.randn(64, 1) if axis == 1 else torch.randn(1, 300)
    outputs = run_without_fallback(definition, x, weight)
    assert_all_same(outputs, [(-x * weight * x.exp()).sum(1 - axis)], rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize(
    ("machine", "seed"),
    [
        # A size that is 1 and a broadcast of the mean.
        pytest.param("h200", 3200144, marks=pytest.mark.machine("h200")),
        pytest.param("h200", 3400715, marks=pytest.mark.machine("h200")),
        # A transpose of one element.
        pytest.param("h200", 3400152, marks=pytest.mark.machine("h200")),
        # An operand of which one reader slices what it is broadcast to.
        pytest.param("h200", 3401550, marks=pytest.mark.machine("h200")),
        # A cast that is read by a choice and by the first pass of a norm.
        pytest.param("host", 3072, marks=pytest.mark.machine("host")),
        pytest.param("host", 3411621, marks=pytest.mark.machine("host")),
        # One of a row that is rolled, beside an operand that is the same for all.
        pytest.param("h200", 3610494, marks=pytest.mark.machine("h200")),
        # A slice of one element of expanded parts that are joined.
        pytest.param("host", 3610726, marks=pytest.mark.machine("host")),
        pytest.param("h200", 3600529, marks=pytest.mark.machine("h200")),
        pytest.param("host", 3601133, marks=pytest.mark.machine("host")),
        # Axes that are found to be one on the way.
        pytest.param("h200", 3900108, marks=pytest.mark.machine("h200")),
        # A scatter into what has the order of a transposed input.
        pytest.param("h200", 6300173, marks=pytest.mark.machine("h200")),
        # Transposed pieces whose second size is 1.
        pytest.param("h200", 6000845, marks=pytest.mark.machine("h200")),
        # One row of what is read across its rows, beside all of them.
        pytest.param("host", 6101736, marks=pytest.mark.machine("host")),
        # Sums of columns of eight rows.
        pytest.param("host", 6401373, marks=pytest.mark.machine("host")),
        # The root of a variance that is zero but for rounding.
        pytest.param("h200", 6001872, marks=pytest.mark.machine("h200")),
        # A vector of ones.
        pytest.param("h200", 3800658, marks=pytest.mark.machine("h200")),
        # One column of what is computed once for all.
        pytest.param("h200", 3801707, marks=pytest.mark.machine("h200")),
        # An expansion to a computed size that is 1.
        pytest.param("host", 6502541, marks=pytest.mark.machine("host")),
        # An operand that is read before and after a reduction, broadcast along another dimension.
        pytest.param("h200", 6503634, marks=pytest.mark.machine("h200")),
        # One element is loaded in a branch, before a scan that loads ahead.
        pytest.param("h200", 7201094, marks=pytest.mark.machine("h200")),
        # A row of equal elements beside a norm of it, both parts of one result.
        pytest.param("host", 7602953, marks=pytest.mark.machine("host")),
        pytest.param("host", 7605385, marks=pytest.mark.machine("host")),
        # Both results of a short softmax are computed again for a later pass.
        pytest.param("host", 7601966, marks=pytest.mark.machine("host")),
        # An output that lacks the dimensions of tiles.
        pytest.param("host", 7304512, marks=pytest.mark.machine("host")),
        # One element is read twice around the write of what takes its place.
        pytest.param("h200", 8208523, marks=pytest.mark.machine("h200")),
        # A rotation of a transposed input before a softmax.
        pytest.param("h200", 8209466, marks=pytest.mark.machine("h200")),
        # An expanded operand in the loops of two readers, each of which has its own.
        pytest.param("host", 7602644, marks=pytest.mark.machine("host")),
        # One element of what is read whole.
        pytest.param("host", 8301283, marks=pytest.mark.machine("host")),
        pytest.param("h200", 8301283, marks=pytest.mark.machine("h200")),
        pytest.param("h200", 8204521, marks=pytest.mark.machine("h200")),
        # Sums of columns over the rows in another order than a product of rows has them in.
        pytest.param("h200", 8100040, marks=pytest.mark.machine("h200")),
        # The angle of two equal numbers that are nothing but rounding.
        pytest.param("host", 8354652, marks=pytest.mark.machine("host")),
        # Running sums of equal numbers, whose errors are alike.
        pytest.param("host", 8355964, marks=pytest.mark.machine("host")),
        # An outer product of the rows of one row, flattened.
        pytest.param("h200", 8604166, marks=pytest.mark.machine("h200")),
        # A softmax of columns beside a mean of their outer products.
        pytest.param("host", 8654738, marks=pytest.mark.machine("host")),
        # Sums of an outer product, whose operands stay in its loops.
        pytest.param("host", 8750804, marks=pytest.mark.machine("host")),
        pytest.param("h200", 8702057, marks=pytest.mark.machine("h200")),
        # A statistic of channels beside what has no channels, both of which have parts of the rows.
        pytest.param("host", 8754736, marks=pytest.mark.machine("host")),
        # A half that overflows within the spread of the evaluations.
        pytest.param("host", 8706981, marks=pytest.mark.machine("host")),
        # Complex numbers are added in place, one part of which is infinite.
        pytest.param("host", 8701932, marks=pytest.mark.machine("host")),
        # Two softmaxes of columns, one after the other, before a norm of rows.
        pytest.param("h200", 9998407, marks=pytest.mark.machine("h200")),
        # The first row beside all rows, in dimensions that both are reinterpreted in.
        pytest.param("h200", 8811065, marks=pytest.mark.machine("h200")),
        # Reductions of all and of a part of what one thread has.
        pytest.param("h200", 8812221, marks=pytest.mark.machine("h200")),
        # A dimension that was expanded to one element is squeezed.
        pytest.param("host", 8303700, marks=pytest.mark.machine("host")),
        # A vector of what lies along a short dimension begins within one where that is sliced.
        pytest.param("h200", 9834134, marks=pytest.mark.machine("h200")),
    ],
)
def test_programs_of_one_machine(machine: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NVFUSER_TEST_NO_FALLBACKS", "1")
    finding, runs = check(generate(seed), DEVICE)
    assert finding is None
    assert runs > 0


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("columns", [11, 5000, 200000])
def test_an_input_that_a_later_pass_of_a_norm_reads_is_written_after_it(
    machine: str, columns: int
) -> None:
    """Each pass reads its inputs again where rows are not kept."""

    def definition(fd: FusionDefinition) -> None:
        o = fd.ops
        x = fd.define_tensor([-1, -1], [True, True])
        state = fd.define_tensor([-1, -1], [True, True])
        squares = o.sum(o.mul(x, x), [1], keepdim=True)
        fd.add_output(o.maximum(state, o.mul(x, o.rsqrt(squares))))
        fd.add_output(o.add(state, x), state)

    fd = define(definition)
    x, state = torch.randn(3, columns), torch.randn(3, columns)
    ours = state.to(DEVICE, copy=True)
    (out,) = fd.execute([x.to(DEVICE), ours], device=DEVICE)
    expected = torch.maximum(state, x * (x * x).sum(1, keepdim=True).rsqrt())
    assert_all_same([out.cpu(), ours.cpu()], [expected, state + x], rtol=1e-4, atol=1e-5)
    assert fd.fec._num_fallbacks == 0


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("returned", ["split whole", "whole split", "split split whole", "split"])
@pytest.mark.parametrize("reduced", [True, False])
def test_views_of_a_result_lie_in_memory_as_they_are_returned(
    machine: str, returned: str, reduced: bool
) -> None:
    """The result takes over the order of its inputs, and its views do not: one kernel makes all."""

    def definition(fd: FusionDefinition) -> None:
        o = fd.ops
        x = fd.define_tensor([8, -1, -1], [True] * 3, stride_order=[0, 2, 1])
        scale = o.sum(o.mul(x, x), [0], keepdim=True) if reduced else o.sqrt(o.abs(x))
        whole = o.div(x, o.add(scale, fd.define_scalar(1.0)))
        for name in returned.split():
            split = [4, 2, o.size(x, 1), o.size(x, 2)]
            fd.add_output(o.reshape(whole, split) if name == "split" else whole)

    x = torch.randn(6, 5, 8).permute(2, 0, 1)
    outputs = run_without_fallback(definition, x)
    scale = (x * x).sum(0, keepdim=True) if reduced else x.abs().sqrt()
    whole = x / (scale + 1)
    expected = [whole.reshape(4, 2, 6, 5) if n == "split" else whole for n in returned.split()]
    assert_all_same(outputs, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int32])
@pytest.mark.parametrize("sizes", [(8, 4, 2), (8, 5, 2), (3, 17, 2), (8, 9, 4), (40, 2)])
def test_a_pad_of_what_lies_in_another_order(
    machine: str, dtype: torch.dtype, sizes: tuple[int, ...]
) -> None:
    """Short rows of which some are guarded: a compiler vectorizes them across rows."""
    rank = len(sizes)

    def definition(fd: FusionDefinition) -> None:
        x = fd.define_tensor(
            list(sizes),
            [True] * rank,
            dtype=torch_dtype_to_nvfuser_dtype(dtype),
            stride_order=[*range(rank - 1, 1, -1), 0, 1],
        )
        fd.add_output(fd.ops.pad(x, [0, 0, 1, 0]))

    x = (100 * torch.randn(sizes)).to(dtype).transpose(-1, -2).contiguous().transpose(-1, -2)
    (out,) = run_without_fallback(definition, x)
    assert torch.equal(out, torch.nn.functional.pad(x, [0, 0, 1, 0]))


@pytest.mark.parametrize("machine", MACHINES)
def test_gathers_of_sums_that_lie_in_another_order(machine: str) -> None:
    """A compiler lost the mask of one of the gathers, and lanes had what a register held before."""

    def definition(fd: FusionDefinition) -> None:
        o = fd.ops
        x = fd.define_tensor([4, 8, 4], [True] * 3, dtype=DataType.BFloat16, stride_order=[1, 0, 2])
        size = o.abs(o.cast(x, DataType.Float))
        flat = o.reshape(size, [4, 32])
        scaled = o.div(size, o.add(o.sum(o.mul(size, size), [1], keepdim=True), 1.0))
        most = o.sin(o.max(scaled, [2], keepdim=True))
        fd.add_output(flat)
        fd.add_output(most)
        fd.add_output(o.permute(most, [1, 0, 2]))

    x = torch.randn(4, 4, 8).bfloat16().permute(1, 2, 0)
    outputs = run_without_fallback(definition, x)
    size = x.float().abs()
    most = (size / ((size * size).sum(1, keepdim=True) + 1)).amax(2, keepdim=True).sin()
    expected = [size.reshape(4, 32), most, most.permute(1, 0, 2)]
    assert_all_same(outputs, expected, rtol=1e-5, atol=1e-6)
