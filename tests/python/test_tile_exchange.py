# SPDX-License-Identifier: BSD-3-Clause
"""Normalizations of which some tensors are contiguous along the rows and some across them.

Those across the rows pass through a tile of shared memory: all are accessed by vectors, once.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import nvfuse_direct
import pytest
import torch
from helpers import DEVICE
from nvfuse_direct import DataType, FusionDefinition, ReductionParams, SchedulerType
from test_normalizations import TYPES

Tensor = torch.Tensor
OUTER = SchedulerType.outer_persistent
TOLERANCE = {torch.bfloat16: 3e-2, torch.half: 4e-3, torch.float: 1e-4, torch.double: 1e-9}


@pytest.fixture
def adversarial(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads in random order, copies as late as may be, and a report of races."""
    monkeypatch.setenv("NVFUSER_HOST_ADVERSARIAL", "3")


def image(sizes: tuple[int, ...], last: bool, dtype: torch.dtype) -> Tensor:
    """Channels (the second size) are the second or the last dimension, contiguous."""
    generator = torch.Generator().manual_seed(len(sizes) + sum(sizes))
    x = torch.randn(sizes, generator=generator, dtype=torch.double).to(dtype).to(DEVICE)
    return x.movedim(1, -1).contiguous() if last else x


def rows_of(x: Tensor, last: bool) -> Tensor:
    return x.double() if last else x.double().movedim(1, -1)


class Channels:
    """A fusion over the channels of images, which are permuted to be last."""

    def __init__(self, fd: FusionDefinition, rank: int, dtype: torch.dtype) -> None:
        self.fd, self.o, self.rank, self.dtype = fd, fd.ops, rank, dtype
        self.wide = DataType.Double if dtype == torch.double else DataType.Float

    def rows(self, tensor, last: bool):
        if not last:
            tensor = self.o.permute(tensor, [0, *range(2, self.rank), 1])
        return self.o.cast(tensor, self.wide)

    def along(self, vector):
        return self.o.broadcast(self.o.cast(vector, self.wide), [True] * (self.rank - 1) + [False])

    def add_output(self, rows, last: bool) -> None:
        out = self.o.cast(rows, TYPES[self.dtype])
        if not last:
            out = self.o.set(self.o.permute(out, [0, self.rank - 1, *range(1, self.rank - 1)]))
        self.fd.add_output(out)


def norm(
    x: Tensor, weight: Tensor, layouts: tuple[bool, bool], static: bool = False
) -> FusionDefinition:
    """Whether x and y have their channels last."""
    with FusionDefinition() as fd:
        c = Channels(fd, x.dim(), x.dtype)
        o = c.o
        rows = c.rows(fd.from_pytorch(x, static_sizes=static), layouts[0])
        scale = fd.from_pytorch(weight, static_sizes=static)
        var, mean = o.var_mean(rows, [x.dim() - 1], correction=0, keepdim=True)
        y = o.mul(o.sub(rows, mean), o.rsqrt(o.add(var, 1e-5)))
        c.add_output(o.mul(y, c.along(scale)), layouts[1])
    return fd


def normalized(x: Tensor, weight: Tensor, layouts: tuple[bool, bool]) -> Tensor:
    rows = rows_of(x, layouts[0])
    y = torch.nn.functional.layer_norm(rows, (rows.size(-1),), weight.double())
    return y if layouts[1] else y.movedim(-1, 1)


def close(got: Tensor, expected: Tensor, scale: float = 1.0) -> None:
    tolerance = TOLERANCE[got.dtype]
    torch.testing.assert_close(got.double(), expected, rtol=tolerance, atol=tolerance * scale)


def exchanged(fd: FusionDefinition, inputs: list[Tensor]) -> list[list[int]]:
    """By kernel, the positions of the tensors that pass through tiles."""
    report = nvfuse_direct.explain(fd, inputs, measure=False)
    return [segment.parameters.get("exchanged", []) for segment in report.segments]


SIZES = [
    (3, 24, 4, 4),
    (2, 192, 4, 6),
    (3, 7, 3, 3),
    (1, 50, 5, 7),
    (2, 33, 2, 3),
    (5, 96, 7, 7),
    (2, 600, 4, 4),
    (40, 16, 5, 5),
    (3, 40, 37),
    (2, 17, 3, 2, 5),
]


@pytest.mark.machine("hopper")
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("last", [False, True])
def test_shapes_and_dtypes(adversarial: None, dtype: torch.dtype, last: bool) -> None:
    """From channels first to last, and back."""
    for number, sizes in enumerate(SIZES):
        x, weight = image(sizes, last, dtype), image((1, sizes[1]), False, dtype)[0]
        fd = norm(x, weight, (last, not last), static=number % 2 == 0)
        (out,) = fd.execute([x, weight])
        close(out, normalized(x, weight, (last, not last)))
        assert exchanged(fd, [x, weight]) == [[2] if last else [0]], sizes


@pytest.mark.parametrize("sizes", SIZES)
def test_any_machine(sizes: tuple[int, ...]) -> None:
    x, weight = image(sizes, False, torch.bfloat16), image((1, sizes[1]), False, torch.bfloat16)[0]
    (out,) = norm(x, weight, (False, True)).execute([x, weight])
    close(out, normalized(x, weight, (False, True)))


@pytest.mark.machine("hopper")
def test_other_sizes_with_the_same_kernel() -> None:
    weight = image((1, 48), False, torch.bfloat16)[0]
    fd = None
    for sizes in [(9, 48, 8, 8), (7, 48, 16, 8), (1, 48, 8, 8)]:
        x = image(sizes, False, torch.bfloat16)
        fd = fd or norm(x, weight, (False, True))
        (out,) = fd.execute([x, weight])
        close(out, normalized(x, weight, (False, True)))
    assert fd.fec._num_kernels <= 2


@pytest.mark.machine("hopper")
def test_equal_layouts_have_no_tiles() -> None:
    for last in (False, True):
        x, weight = image((3, 24, 4, 4), last, torch.half), image((1, 24), False, torch.half)[0]
        assert exchanged(norm(x, weight, (last, last)), [x, weight]) == [[]]


@pytest.mark.machine("hopper")
def test_rows_that_no_tile_holds() -> None:
    sizes = (1, 16000, 5, 4)
    x, weight = image(sizes, False, torch.float), image((1, sizes[1]), False, torch.float)[0]
    fd = norm(x, weight, (False, True))
    (out,) = fd.execute([x, weight])
    close(out, normalized(x, weight, (False, True)))
    assert all(tiles == [] for tiles in exchanged(fd, [x, weight]))


@pytest.mark.machine("hopper")
@pytest.mark.parametrize("layouts", list(itertools.product([False, True], repeat=2)))
def test_several_inputs_and_outputs(adversarial: None, layouts: tuple[bool, bool]) -> None:
    """Softmax of a sum, returned in both layouts with the sum."""
    x = image((5, 40, 6, 3), layouts[0], torch.bfloat16)
    y = image((5, 40, 6, 3), layouts[1], torch.float)
    with FusionDefinition() as fd:
        c = Channels(fd, 4, torch.float)
        o = c.o
        total = o.add(
            c.rows(fd.from_pytorch(x), layouts[0]), c.rows(fd.from_pytorch(y), layouts[1])
        )
        shifted = o.exp(o.sub(total, o.max(total, [3], keepdim=True)))
        soft = o.div(shifted, o.sum(shifted, [3], keepdim=True))
        c.add_output(soft, last=True)
        c.add_output(soft, last=False)
        c.add_output(total, last=False)
    out = fd.execute([x, y])
    total = rows_of(x, layouts[0]) + rows_of(y, layouts[1])
    soft = total.softmax(-1)
    expected = (soft, soft.movedim(-1, 1), total.movedim(-1, 1))
    for got, wanted in zip(out, expected, strict=True):
        close(got, wanted)
    across = [i for i, last in enumerate(layouts) if not last]
    assert exchanged(fd, [x, y]) == [[*across, 3, 4]]


@pytest.mark.machine("hopper")
def test_in_place(adversarial: None) -> None:
    x = image((3, 24, 4, 5), False, torch.float)
    y = image((3, 24, 4, 5), True, torch.float)
    with FusionDefinition() as fd:
        c = Channels(fd, 4, torch.float)
        o = c.o
        tx = fd.from_pytorch(x)
        total = o.add(c.rows(tx, False), c.rows(fd.from_pytorch(y), True))
        soft = o.sub(total, o.sum(total, [3], keepdim=True))
        fd.add_output(o.permute(soft, [0, 3, 1, 2]), tx)
    expected = x.double() + rows_of(y, True).movedim(-1, 1)
    expected = expected - expected.sum(1, keepdim=True)
    fd.execute([x, y])
    close(x, expected, 10)


def edited(x: Tensor, weight: Tensor, edit: Callable[[ReductionParams], None]) -> Tensor:
    """Deviations from the mean, from channels first to last, with other parameters."""
    fd = FusionDefinition()
    with fd:
        c = Channels(fd, x.dim(), x.dtype)
        o = c.o
        rows = c.rows(fd.from_pytorch(x), False)
        mean = o.sum(o.mul(rows, 1 / x.size(1)), [x.dim() - 1], keepdim=True)
        c.add_output(o.mul(o.sub(rows, mean), c.along(fd.from_pytorch(weight))), True)
        params = fd.sched.compute_heuristics(fd.fusion, OUTER, [x, weight])
        edit(params)
        fd.sched.schedule(fd.fusion, OUTER, params)
    return fd.manual_execute([x, weight], params)[0]


@pytest.mark.machine("hopper")
@pytest.mark.parametrize("stages", [2, 3, 4])
@pytest.mark.parametrize("sizes", [(40, 24, 6, 4), (29, 24, 5, 5)])
def test_edited_parameters(adversarial: None, sizes: tuple[int, ...], stages: int) -> None:
    """Row groups, which load tiles ahead, and other numbers of rows in a tile."""
    x, weight = image(sizes, False, torch.float), image((1, 24), False, torch.float)[0]

    def edit(params: ReductionParams) -> None:
        assert params.exchanged == [0]
        params.lparams.bdimy = 8
        params.row_groups = 8 * 11
        params.circular_buffer_stages = stages

    rows = rows_of(x, False)
    close(edited(x, weight, edit), (rows - rows.mean(-1, keepdim=True)) * weight.double())


@pytest.mark.machine("hopper")
@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda params: setattr(params.lparams, "bdimy", 12), "a power of two"),
        (lambda params: setattr(params.lparams, "bdimy", 2), "as long as a block has rows"),
        (lambda params: setattr(params, "cluster_size", 2), "that no blocks share"),
        (lambda params: setattr(params, "exchanged", [1]), "has not all dimensions"),
    ],
)
def test_parameters_that_do_not_fit(edit: Callable[[ReductionParams], None], message: str) -> None:
    x, weight = image((40, 24, 6, 4), False, torch.float), image((1, 24), False, torch.float)[0]
    with pytest.raises(RuntimeError, match=message):
        edited(x, weight, edit)


def backward(
    tensors: list[Tensor], layouts: tuple[bool, bool, bool], static: bool = False
) -> FusionDefinition:
    x, _, weight = tensors[:3]
    with FusionDefinition() as fd:
        c = Channels(fd, x.dim(), x.dtype)
        o = c.o
        tx, tg, tw, tm, tr = (fd.from_pytorch(t, static_sizes=static) for t in tensors)
        dy = c.rows(tg, layouts[1])
        hat = o.mul(o.sub(c.rows(tx, layouts[0]), tm), tr)
        scaled = o.mul(dy, c.along(tw))
        row = [x.dim() - 1]
        mean_of = [o.sum(t, row, keepdim=True) for t in (scaled, o.mul(scaled, hat))]
        n = float(weight.size(0))
        inner = o.sub(o.sub(o.mul(scaled, n), mean_of[0]), o.mul(hat, mean_of[1]))
        c.add_output(o.mul(o.div(tr, n), inner), layouts[2])
        columns = list(range(x.dim() - 1))
        fd.add_output(o.cast(o.sum(o.mul(dy, hat), columns), TYPES[x.dtype]))
        fd.add_output(o.cast(o.sum(dy, columns), TYPES[x.dtype]))
    return fd


def check_backward(
    sizes: tuple[int, ...], layouts: tuple[bool, bool, bool], dtype: torch.dtype
) -> tuple[FusionDefinition, list[Tensor]]:
    """Whether x, dy and dx have their channels last."""
    x, g = image(sizes, layouts[0], dtype), image(sizes, layouts[1], dtype)
    weight = image((1, sizes[1]), False, dtype)[0]
    rows = rows_of(x, layouts[0])
    kind = torch.double if dtype == torch.double else torch.float
    mean = rows.mean(-1, keepdim=True).to(kind)
    rstd = (rows.var(-1, keepdim=True, correction=0) + 1e-5).rsqrt().to(kind)
    inputs = [x, g, weight, mean, rstd]
    fd = backward(inputs, layouts, static=sizes[0] % 2 == 0)
    out = fd.execute(inputs)
    dy = rows_of(g, layouts[1])
    hat = (rows - mean.double()) * rstd.double()
    scaled = dy * weight.double()
    inner = scaled - scaled.mean(-1, keepdim=True) - hat * (scaled * hat).mean(-1, keepdim=True)
    dx = rstd.double() * inner
    columns = tuple(range(len(sizes) - 1))
    close(out[0], dx if layouts[2] else dx.movedim(-1, 1))
    many = (x.numel() / sizes[1]) ** 0.5
    close(out[1], (dy * hat).sum(columns), many)
    close(out[2], dy.sum(columns), many)
    return fd, inputs


LAYOUTS = [layouts for layouts in itertools.product([False, True], repeat=3) if any(layouts)]


@pytest.mark.parametrize("layouts", LAYOUTS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float])
def test_backward(layouts: tuple[bool, bool, bool], dtype: torch.dtype) -> None:
    for sizes in [(24, 24, 20, 10), (30, 10, 13, 13), (3, 50, 5, 7), (9, 16, 5)]:
        check_backward(sizes, layouts, dtype)


@pytest.mark.machine("hopper")
@pytest.mark.parametrize("layouts", [each for each in LAYOUTS if not all(each)])
def test_backward_in_tiles(adversarial: None, layouts: tuple[bool, bool, bool]) -> None:
    """One kernel for the rows and the sums of each block's columns, one for all sums."""
    fd, inputs = check_backward((24, 24, 20, 20), layouts, torch.bfloat16)
    across = [i for i in (0, 1) if not layouts[i]] + ([] if layouts[2] else [5])
    assert exchanged(fd, inputs) == [across, []]


@pytest.mark.machine("hopper")
def test_backward_of_odd_images(adversarial: None) -> None:
    """Elements of two bytes that no asynchronous copy takes: loaded ahead into registers."""
    fd, inputs = check_backward((60, 16, 13, 13), (False, True, True), torch.bfloat16)
    assert exchanged(fd, inputs) == [[0], []]
    text = fd.fec.get_cuda_kernel(inputs)
    assert "copyAsync" in text


PATCHES = [(3, 24, 4, 8), (2, 48, 8, 8), (1, 144, 16, 4), (2, 20, 6, 10)]


def patched(x: Tensor) -> Tensor:
    """[n, c, h, w] to [n * 4, h / 2 * w / 2, c]: each 2 by 2 pixels belong to 4 sequences."""
    n, c, h, w = x.shape
    parts = x.reshape(n, c, h // 2, 2, w // 2, 2).permute(0, 3, 5, 2, 4, 1)
    return parts.reshape(4 * n, h * w // 4, c)


@pytest.mark.machine("hopper")
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float])
def test_rows_in_another_order_than_in_memory(adversarial: None, dtype: torch.dtype) -> None:
    """The kernel goes through the rows in the order of the tensor that lies across them."""
    for sizes in PATCHES:
        x = image(sizes, False, dtype)
        n, c, h, w = sizes
        with FusionDefinition() as fd:
            o = fd.ops
            parts = o.reshape(fd.from_pytorch(x, static_sizes=True), [n, c, h // 2, 2, w // 2, 2])
            rows = o.reshape(o.permute(parts, [0, 3, 5, 2, 4, 1]), [4 * n, h * w // 4, c])
            rows = o.cast(rows, DataType.Float)
            var, mean = o.var_mean(rows, [2], correction=0, keepdim=True)
            y = o.mul(o.sub(rows, mean), o.rsqrt(o.add(var, 1e-5)))
            fd.add_output(o.cast(y, TYPES[dtype]))
        (out,) = fd.execute([x])
        close(out, torch.nn.functional.layer_norm(patched(x).double(), (c,)))
        assert exchanged(fd, [x]) == [[0]], sizes


@pytest.mark.machine("hopper")
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float])
@pytest.mark.parametrize("sizes", [(3, 24, 8, 8), (2, 40, 7, 9), (4, 64, 28, 28), (2, 16, 5, 3)])
def test_sums_beside_a_result_in_another_order(
    adversarial: None, dtype: torch.dtype, sizes: tuple[int, ...]
) -> None:
    """Channels last to first, and the mean of each channel: a reduction of whole rows."""
    x = image(sizes, True, dtype)
    with FusionDefinition() as fd:
        o = fd.ops
        y = o.permute(o.relu(fd.from_pytorch(x, static_sizes=True)), [0, 3, 1, 2])
        fd.add_output(o.set(y))
        fd.add_output(o.sum(o.cast(y, DataType.Float), [2, 3]))
    out, total = fd.execute([x])
    expected = x.relu().movedim(-1, 1)
    assert torch.equal(out, expected)
    close(total, expected.double().sum((2, 3)), sizes[2] * sizes[3])
    assert exchanged(fd, [x]) == [[0]]


def repeated(x: Tensor, times: int, output_last: bool) -> FusionDefinition:
    """Norms of the channels [n, h, c, t] of each head, which `times` heads of the result have."""
    n, h, c, t = x.shape
    with FusionDefinition() as fd:
        o = fd.ops
        rows = o.permute(fd.from_pytorch(x, static_sizes=True), [0, 3, 1, 2])
        rows = o.broadcast_in_dim(rows, [n, t, h, times, c], [0, 1, 2, 4])
        rows = o.reshape(rows, [n, t, h * times, c])
        rows = o.cast(rows, DataType.Float)
        y = o.mul(rows, o.rsqrt(o.add(o.sum(o.mul(rows, rows), [3], keepdim=True), 1e-6)))
        y = o.cast(y, TYPES[x.dtype])
        fd.add_output(y if output_last else o.set(o.permute(y, [0, 2, 1, 3])))
    return fd


@pytest.mark.machine("hopper")
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float])
@pytest.mark.parametrize("output_last", [False, True])
def test_an_input_that_several_rows_read(
    adversarial: None, dtype: torch.dtype, output_last: bool
) -> None:
    """Heads of keys that several queries have: the tile has rows of one of them."""
    for sizes in [(2, 3, 64, 128), (1, 2, 128, 80), (2, 2, 96, 100)]:
        x = image(sizes, False, dtype)
        fd = repeated(x, 2, output_last)
        (out,) = fd.execute([x])
        rows = x.double().movedim(-1, 1)
        y = rows / (rows.square().sum(-1, keepdim=True) + 1e-6).sqrt()
        y = y.repeat_interleave(2, dim=2)
        close(out, y if output_last else y.transpose(1, 2))
        assert exchanged(fd, [x]) == [[0]], sizes


@pytest.mark.machine("hopper")
def test_a_narrow_bias_is_read_element_by_element() -> None:
    """Of few heads: what neighbours in a row read lies in one sector."""
    scores = image((4, 4, 32, 64), False, torch.float)
    bias = image((32, 64, 4), False, torch.bfloat16)
    with FusionDefinition() as fd:
        o = fd.ops
        s, b = (fd.from_pytorch(t, static_sizes=True) for t in (scores, bias))
        b = o.broadcast(o.cast(o.permute(b, [2, 0, 1]), DataType.Float), [True] + [False] * 3)
        e = o.exp(o.add(s, b))
        fd.add_output(o.div(e, o.sum(e, [3], keepdim=True)))
    (out,) = fd.execute([scores, bias])
    close(out, (scores + bias.float().permute(2, 0, 1)).double().softmax(-1))
    assert exchanged(fd, [scores, bias]) == [[]]
