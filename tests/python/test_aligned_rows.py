# SPDX-License-Identifier: BSD-3-Clause
"""Rows whose length is no multiple of a vector are accessed by vectors that begin before them."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
import torch
from helpers import DEVICE
from nvfuse_direct import DataType, FusionDefinition

pytestmark = pytest.mark.machine("hopper")

TYPES = {
    torch.bfloat16: DataType.BFloat16,
    torch.half: DataType.Half,
    torch.float: DataType.Float,
}
TOLERANCE = {torch.bfloat16: 2.0**-7, torch.half: 2.0**-10, torch.float: 1e-5}


@pytest.fixture
def device() -> torch.device:
    return DEVICE


def softmax(fd: FusionDefinition, x, *_):
    o = fd.ops
    e = o.exp(o.sub(x, o.max(x, [-1], keepdim=True)))
    return o.div(e, o.sum(e, [-1], keepdim=True))


def rms_norm(fd: FusionDefinition, x, weight, width):
    o = fd.ops
    square = o.div(o.sum(o.mul(x, x), [-1], keepdim=True), float(width))
    return o.mul(o.mul(x, o.rsqrt(o.add(square, 1e-5))), weight)


def layer_norm(fd: FusionDefinition, x, weight, _):
    o = fd.ops
    var, mean = o.var_mean(x, [-1], 0, True)
    return o.add(o.mul(o.mul(o.sub(x, mean), o.rsqrt(o.add(var, 1e-5))), weight), weight)


def reference(pattern: Callable, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    x, w = x.double(), w.double()
    if pattern is softmax:
        return torch.softmax(x, -1)
    if pattern is rms_norm:
        return torch.nn.functional.rms_norm(x, [x.size(-1)], w, 1e-5)
    return torch.nn.functional.layer_norm(x, [x.size(-1)], w, w, 1e-5)


def define(pattern: Callable, x: torch.Tensor, w: torch.Tensor, out: torch.dtype):
    with FusionDefinition() as fd:
        t, weight = (fd.ops.cast(fd.from_pytorch(v), DataType.Float) for v in (x, w))
        weight = fd.ops.broadcast_in_dim(weight, list(x.shape), [x.dim() - 1])
        fd.add_output(fd.ops.cast(pattern(fd, t, weight, x.size(-1)), TYPES[out]))
    return fd


def check(out: torch.Tensor, expected: torch.Tensor) -> None:
    error = (out.double() - expected).abs().max() / expected.abs().max()
    assert error <= TOLERANCE[out.dtype], f"{error:.2e}"


def params(fd: FusionDefinition, inputs: list):
    (report,) = fd.fec._segment_reports(inputs)
    return report["params"]


def rows_and_weight(sizes: list[int], dtype: torch.dtype, device: torch.device):
    generator = torch.Generator().manual_seed(sum(sizes))
    x, w = (torch.randn(s, generator=generator).to(device, dtype) for s in (sizes, sizes[-1:]))
    return x, w


@pytest.mark.parametrize("pattern", [softmax, rms_norm, layer_norm])
@pytest.mark.parametrize("width", [1537, 1538, 2047, 3001, 8191, 10007])
def test_values(pattern: Callable, width: int, device: torch.device) -> None:
    for rows, dtype, out in (
        (2, torch.bfloat16, torch.bfloat16),
        (9, torch.half, torch.float),
        (11, torch.float, torch.half),
    ):
        x, w = rows_and_weight([rows, width], dtype, device)
        fd = define(pattern, x, w, out)
        check(fd.execute([x, w])[0], reference(pattern, x, w))
        assert fd.fec._num_fallbacks == 0
        aligned = width % 2 == 1 or dtype != torch.float
        assert params(fd, [x, w]).align_rows == aligned, dtype


@pytest.mark.parametrize("pattern", [softmax, rms_norm, layer_norm])
def test_whole_vectors_are_copied_at_once(pattern: Callable, device: torch.device) -> None:
    x, w = rows_and_weight([7, 3001], torch.bfloat16, device)
    fd = define(pattern, x, w, torch.bfloat16)
    fd.execute([x, w])
    text = fd.fec.get_cuda_kernel([x, w])
    assert "loadGlobal<__bfloat, 8>" in text
    assert "storeGlobal<__bfloat, 8>" in text
    assert ("loadUnaligned<__bfloat, 8>" in text) == (pattern is not softmax)


def run_with(fd: FusionDefinition, inputs: list, changes: dict) -> torch.Tensor:
    fd.execute(inputs)
    (report,) = fd.fec._segment_reports(inputs)
    fd.fec._set_params({report["segment_id"]: report["chosen"]._with(changes)})
    (out,) = fd.execute(inputs)
    return out


@pytest.mark.machine("h200")
@pytest.mark.parametrize(
    ("rows", "width", "threads"),
    [(1600, 5002, 192), (1200, 7682, 128), (600, 11010, 64), (40, 11010, 128), (1200, 12290, 128)],
)
def test_threads_of_several_weights(
    rows: int, width: int, threads: int, device: torch.device
) -> None:
    """Few threads with many elements for longer rows, fewer still where half of them are busier."""
    x, w = rows_and_weight([rows, width], torch.bfloat16, device)
    b = torch.randn(width, device=device).to(torch.bfloat16)
    with FusionDefinition() as fd:
        inputs = [fd.define_tensor(list(v.shape), True, DataType.BFloat16) for v in (x, w, b)]
        wide = [fd.ops.cast(v, DataType.Float) for v in inputs]
        var, mean = fd.ops.var_mean(wide[0], [-1], 0, True)
        normal = fd.ops.mul(fd.ops.sub(wide[0], mean), fd.ops.rsqrt(fd.ops.add(var, 1e-5)))
        out = fd.ops.add(fd.ops.mul(normal, wide[1]), wide[2])
        fd.add_output(fd.ops.cast(out, DataType.BFloat16))
    expected = torch.nn.functional.layer_norm(x.float(), [width], w.float(), b.float(), 1e-5)
    check(fd.execute([x, w, b])[0], expected)
    assert params(fd, [x, w, b]).lparams.bdimx == threads


@pytest.mark.parametrize("pattern", [softmax, rms_norm, layer_norm])
@pytest.mark.parametrize("changes", [(4, 128), (8, 96), (2, 224), (3, 160), (7, 64)], ids=str)
def test_rows_shared_by_clusters(
    pattern: Callable, changes: tuple[int, int], device: torch.device
) -> None:
    cluster, threads = changes
    x, w = rows_and_weight([3, 16385], torch.bfloat16, device)
    fd = define(pattern, x, w, torch.bfloat16)
    edited = {"cluster_size": cluster, "gdimy": cluster, "bdimx": threads}
    for staged in (False, True):
        out = run_with(fd, [x, w], {**edited, "stage_shared_inputs": staged})
        check(out, reference(pattern, x, w))
        assert params(fd, [x, w]).cluster_size == cluster


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.half, torch.float])
@pytest.mark.parametrize("width", [10001, 10002, 10007])
def test_weights_in_shared_memory(
    width: int, dtype: torch.dtype, device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each thread reads what its neighbour has copied: all shifts, threads in any order."""
    monkeypatch.setenv("NVFUSER_HOST_ADVERSARIAL", "3")
    x, w = rows_and_weight([9, width], dtype, device)
    if dtype == torch.float and width % 2 == 0:
        return  # vectors of half the size are whole
    for pattern in (rms_norm, layer_norm):
        fd = define(pattern, x, w, dtype)
        changes = {"cluster_size": 2, "gdimy": 2, "bdimx": 160, "stage_shared_inputs": True}
        check(run_with(fd, [x, w], changes), reference(pattern, x, w))
        text = fd.fec.get_cuda_kernel([x, w])
        # Ends of the weight, and the vector before the first one: with the first batch alone.
        assert len(re.findall(r"copyAsync<.*", text)) * 2 == len(re.findall(r"copyEnd<.*", text))
        assert re.search(r"if \(\(tx < 1\) && \(j\d+ < 1\)\) \{\n *nvf::copyEnd<", text)
        assert "loadShifted<" in text


@pytest.mark.parametrize("sizes", [[5, 1543], [9, 1549], [4, 1567]], ids=str)
def test_weights_of_one_vector_each(sizes: list[int], device: torch.device) -> None:
    x, w = rows_and_weight(sizes, torch.bfloat16, device)
    fd = define(layer_norm, x, w, torch.bfloat16)
    changes = {"cluster_size": 3, "gdimy": 3, "bdimx": 96, "batches_per_block_inner_reduction": 1}
    out = run_with(fd, [x, w], {**changes, "stage_shared_inputs": True})
    check(out, reference(layer_norm, x, w))
    assert "loadShifted<" in fd.fec.get_cuda_kernel([x, w])


@pytest.mark.machine("h200")
def test_weights_within_bounds_are_not_compared_with_them(device: torch.device) -> None:
    x, w = rows_and_weight([2200, 2050], torch.bfloat16, device)
    fd = define(layer_norm, x, w, torch.bfloat16)
    check(fd.execute([x, w])[0], reference(layer_norm, x, w))
    text = fd.fec.get_cuda_kernel([x, w])
    assert re.search(r"loadUnaligned<.*, 2050, \((\w+) >= 1\) && \(\1 < 2\)\)", text), text


def test_rows_of_several_dimensions(device: torch.device) -> None:
    x, w = rows_and_weight([3, 5, 2051], torch.bfloat16, device)
    fd = define(rms_norm, x, w, torch.bfloat16)
    check(fd.execute([x, w])[0], reference(rms_norm, x, w))
    assert params(fd, [x, w]).align_rows


def test_reduced_dimensions_that_are_merged(device: torch.device) -> None:
    x = torch.randn(6, 37, 53, device=device).to(torch.bfloat16)
    w = torch.randn(37, 53, device=device).to(torch.bfloat16)
    with FusionDefinition() as fd:
        o = fd.ops
        t, weight = (o.cast(fd.from_pytorch(v), DataType.Float) for v in (x, w))
        total = o.sum(t, [1, 2], keepdim=True)
        along = o.broadcast_in_dim(weight, list(x.shape), [1, 2])
        fd.add_output(o.cast(o.mul(o.sub(t, total), along), DataType.BFloat16))
    expected = (x.double() - x.double().sum([1, 2], keepdim=True)) * w.double()
    check(fd.execute([x, w])[0], expected)
    assert fd.fec._num_fallbacks == 0
    assert params(fd, [x, w]).align_rows


def test_what_lies_otherwise_is_read_by_elements(device: torch.device) -> None:
    """Rows that are part of longer ones, next to rows that are not."""
    x, _ = rows_and_weight([6, 3001], torch.bfloat16, device)
    y = rows_and_weight([6, 4000], torch.bfloat16, device)[0][:, 5:3006]
    with FusionDefinition() as fd:
        o = fd.ops
        wide = [o.cast(fd.from_pytorch(v), DataType.Float) for v in (x, y)]
        fd.add_output(o.cast(softmax(fd, o.add(*wide)), DataType.BFloat16))
    (out,) = fd.execute([x, y])
    check(out, torch.softmax(x.double() + y.double(), -1))
    chosen = params(fd, [x, y])
    assert chosen.align_rows
    assert list(chosen.vector_widths) == [8, 1, 8]


def test_a_tensor_that_begins_within_a_vector(device: torch.device) -> None:
    whole, _ = rows_and_weight([6 * 3001 + 1], torch.bfloat16, device)
    x = whole[1:].view(6, 3001)
    w = torch.ones(3001, dtype=torch.bfloat16, device=device)
    fd = define(softmax, x, w, torch.bfloat16)
    for rows in (x, x.clone(), x):
        check(fd.execute([rows, w])[0], torch.softmax(x.double(), -1))


def test_an_input_that_is_updated(device: torch.device) -> None:
    """Vectors that hold elements of other rows, which other blocks write, are not read."""
    x, _ = rows_and_weight([40, 1543], torch.bfloat16, device)
    expected = torch.softmax(x.double(), -1)
    with FusionDefinition() as fd:
        t = fd.from_pytorch(x)
        out = fd.ops.cast(softmax(fd, fd.ops.cast(t, DataType.Float)), DataType.BFloat16)
        fd.add_output(out, t)
    fd.execute([x])
    check(x, expected)


@pytest.mark.parametrize("pattern", [softmax, rms_norm, layer_norm])
def test_threads_in_any_order(
    pattern: Callable, device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NVFUSER_HOST_ADVERSARIAL", "5")
    for sizes in ([5, 1543], [3, 20011]):
        x, w = rows_and_weight(sizes, torch.bfloat16, device)
        fd = define(pattern, x, w, torch.bfloat16)
        check(fd.execute([x, w])[0], reference(pattern, x, w))


def test_random_numbers_are_those_of_other_schedules(device: torch.device) -> None:
    x, _ = rows_and_weight([5, 1543], torch.float, device)
    with FusionDefinition() as fd:
        o = fd.ops
        t = fd.from_pytorch(x)
        seed, offset = (fd.define_scalar(None, dtype=DataType.Int) for _ in range(2))
        drawn = o.uniform(
            0.0, 1.0, [5, 1543], rng_seed=seed, rng_offset=offset, dtype=DataType.Float
        )
        fd.add_output(o.sub(o.add(t, drawn), o.sum(o.add(t, drawn), [1], keepdim=True)))
    (aligned,) = fd.execute([x, 7, 3])
    (report,) = fd.fec._segment_reports([x, 7, 3])
    assert report["chosen"].align_rows
    plain = {"align_rows": False, "vector_widths": [1] * 4, "unroll_factor_inner_reduction": 1}
    fd.fec._set_params({report["segment_id"]: report["chosen"]._with(plain)})
    (other,) = fd.execute([x, 7, 3])
    torch.testing.assert_close(aligned, other, rtol=1e-4, atol=1e-3)


def test_what_does_not_go_with_it_is_refused(device: torch.device) -> None:
    x, w = rows_and_weight([4, 3001], torch.bfloat16, device)
    fd = define(rms_norm, x, w, torch.bfloat16)
    for name, message in (
        ("stage_rows", "align_rows: only for rows"),
        ("load_shared_inputs_early", "align_rows: only for rows"),
        ("load_rows_early", "align_rows: only for rows"),
        ("stage_shared_inputs", "only for rows that several blocks share"),
    ):
        with pytest.raises(Exception, match=message):
            run_with(fd, [x, w], {name: True})
        fd = define(rms_norm, x, w, torch.bfloat16)


@pytest.mark.parametrize("width", [3001, 10007])
def test_weights_that_several_passes_read(width: int, device: torch.device) -> None:
    """They begin elsewhere in each row and would be kept: such rows are not aligned."""
    x, w = rows_and_weight([5, width], torch.half, device)
    with FusionDefinition() as fd:
        t, weight = (fd.ops.cast(fd.from_pytorch(v), DataType.Float) for v in (x, w))
        weight = fd.ops.broadcast_in_dim(weight, list(x.shape), [1])
        product = fd.ops.mul(t, weight)
        largest = fd.ops.max(fd.ops.abs(product), [1], keepdim=True)
        fd.add_output(fd.ops.cast(fd.ops.div(product, largest), DataType.Half))
        fd.add_output(fd.ops.cast(product, DataType.Half))
    scaled, product = fd.execute([x, w])
    expected = x.double() * w.double()
    check(product, expected)
    check(scaled, expected / expected.abs().amax(1, keepdim=True))
    assert not params(fd, [x, w]).align_rows
    assert fd.fec._num_fallbacks == 0


@pytest.mark.parametrize("has_bias", [False, True], ids=["no bias", "bias"])
@pytest.mark.parametrize(
    "sizes", [[7, 3001], [1, 5, 1543], [3, 4, 2047], [2, 3, 57, 31], [300, 1537]], ids=str
)
@pytest.mark.parametrize("types", [(torch.bfloat16,) * 2, (torch.half, torch.float)], ids=str)
def test_pointwise(
    sizes: list[int], types: tuple[torch.dtype, ...], has_bias: bool, device: torch.device
) -> None:
    """x, something for each row, perhaps a bias, and where the element is in its row."""
    x = torch.randn(sizes, device=device).to(types[0])
    row = torch.randn([*sizes[:-1], 1], device=device)
    bias = torch.randn(sizes[-1:], device=device).to(types[0])
    inputs = [x, row, bias] if has_bias else [x, row]
    last = len(sizes) - 1
    with FusionDefinition() as fd:
        o = fd.ops
        t, scale, *shift = (o.cast(fd.from_pytorch(v), DataType.Float) for v in inputs)
        for each in shift:
            t = o.add(t, o.broadcast_in_dim(each, sizes, [last]))
        place = o.cast(o.iota(sizes[-1], dtype=DataType.Int), DataType.Float)
        t = o.add(o.mul(t, scale), o.broadcast(place, [True] * last + [False]))
        fd.add_output(o.cast(t, TYPES[types[1]]))
    expected = (x.double() + (bias.double() if has_bias else 0)) * row.double()
    expected += torch.arange(sizes[-1], device=device)
    check(fd.execute(inputs)[0], expected)
    # Single elements of 4 bytes are wide enough beside a bias, and one of 31 elements is no row.
    is_aligned = sizes[-1] != 31 and (not has_bias or types[1] != torch.float)
    assert params(fd, inputs).align_rows == is_aligned
    if is_aligned and len(sizes) == 2:
        text = fd.fec.get_cuda_kernel(inputs)
        assert re.search(r"loadGlobal<\w+, [48]>", text)
        assert re.search(r"storeGlobal<\w+, [48]>", text)
        assert ("loadUnaligned" in text) == has_bias


@pytest.mark.parametrize("sizes", [[9, 1543], [1, 3, 5, 1537], [3, 3, 41, 43]], ids=str)
def test_pointwise_of_an_odd_number_of_elements(sizes: list[int], device: torch.device) -> None:
    """What has no rows is merged into one dimension, but where that leaves no vectors."""
    x, y = (torch.randn(sizes, device=device).to(torch.bfloat16) for _ in range(2))
    with FusionDefinition() as fd:
        wide = [fd.ops.cast(fd.from_pytorch(v), DataType.Float) for v in (x, y)]
        fd.add_output(fd.ops.cast(fd.ops.mul(*wide), DataType.BFloat16))
    check(fd.execute([x, y])[0], x.double() * y.double())
    assert params(fd, [x, y]).align_rows


def test_pointwise_with_what_lies_otherwise(device: torch.device) -> None:
    """No vectors, as half of what is read has none; the same for what begins within one."""
    x = torch.randn(7, 3001, device=device)
    row = torch.randn(7, 1, device=device)
    part = torch.randn(7, 4000, device=device)[:, 5:3006]
    late = torch.randn(7 * 3001 + 1, device=device)[1:].view(7, 3001)
    for other in (part, late):
        with FusionDefinition() as fd:
            a, b, r = (fd.from_pytorch(v) for v in (x, other, row))
            fd.add_output(fd.ops.mul(fd.ops.add(a, b), r))
        check(fd.execute([x, other, row])[0], (x.double() + other.double()) * row.double())
        assert not params(fd, [x, other, row]).align_rows


def test_pointwise_that_updates_its_input(device: torch.device) -> None:
    x, row = torch.randn(40, 1543, device=device), torch.randn(40, 1, device=device)
    expected = x.double() * row.double()
    with FusionDefinition() as fd:
        t = fd.from_pytorch(x)
        fd.add_output(fd.ops.mul(t, fd.from_pytorch(row)), t)
    fd.execute([x, row])
    check(x, expected)


def test_pointwise_for_one_row_at_once(device: torch.device) -> None:
    x, row = torch.randn(40, 1543, device=device), torch.randn(40, 1, device=device)
    for changes in ({"unroll_factor_outer": 2}, {"vectorization_factor": 1}):
        with FusionDefinition() as fd:
            fd.add_output(fd.ops.mul(fd.from_pytorch(x), fd.from_pytorch(row)))
        with pytest.raises(Exception, match="align_rows: only with vectors, and for one row"):
            run_with(fd, [x, row], changes)
