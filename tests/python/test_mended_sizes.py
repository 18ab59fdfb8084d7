# SPDX-License-Identifier: BSD-3-Clause
"""Kernels that could not be made for some sizes, and what was in their way, minimized."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from helpers import DEVICE, assert_all_same, assert_same, define, tensor
from nvfuse_direct import DataType, FusionDefinition

Definition = Callable[[FusionDefinition], None]


def run_at_all(definition: Definition, calls: list[list[torch.Tensor]]) -> list[list[torch.Tensor]]:
    """One definition at several sizes, without a kernel that had to be replaced."""
    fd = define(definition)
    results = [fd.execute(inputs, device=DEVICE) for inputs in calls]
    assert fd.fec._num_fallbacks == 0, "a kernel that could not be made was replaced by others"
    return results


# ---------------------------------------------- one value that is broadcast by several operations


@pytest.mark.parametrize("where", ["before", "after", "around"])
@pytest.mark.parametrize("statistic", ["min", "sum"])
def test_row_beside_its_statistic_by_other_broadcasts(where: str, statistic: str) -> None:
    """The loops of the row are those of the statistic's operand, not of the statistic itself."""
    new = {
        "before": [True, True, False],
        "after": [False, True, True],
        "around": [True, False, True],
    }
    flags = new[where]
    dim = flags.index(False)

    def definition(fd: FusionDefinition) -> None:
        o = fd.ops
        y = o.neg(fd.define_tensor(shape=[-1], contiguity=True))
        row, other = o.broadcast(y, flags), o.broadcast(y, flags)
        value = getattr(o, statistic)(other, [dim], keepdim=True)
        fd.add_output(o.add(value, row))

    calls = [[tensor(n)] for n in (1, 7, 300)]
    for (x,), (out,) in zip(calls, run_at_all(definition, calls), strict=True):
        y = -x
        expected = y + (y.sum() if statistic == "sum" else y.min())
        shape = [1, 1, 1]
        shape[dim] = len(x)
        assert_same(out, expected.reshape(shape), rtol=1e-4, atol=1e-4)


def test_expanded_row_beside_its_maximum() -> None:
    def definition(fd: FusionDefinition) -> None:
        o = fd.ops
        x = fd.define_tensor(shape=[-1, -1, 1], contiguity=True)
        wide = o.expand(o.slice(x, [2, 0, 0], [3, 7, 1]), [5, 7, 1])
        row = o.broadcast(wide, [False, True, False, False])
        value = o.max(o.broadcast(wide, [True, False, False, False]), [1, 2], keepdim=True)
        fd.add_output(o.add(value, row))

    x = tensor(3, 7, 1)
    row = x[2:3].expand(5, 7, 1)
    ((out,),) = run_at_all(definition, [[x]])
    assert_same(out, row[:, None] + row.max())


# --------------------------------------------------------------- sizes that happen to be 1


def test_sizes_of_one_beside_dimensions_declared_so() -> None:
    """Where all sizes are 1 a reshape leaves nothing of them: they are broadcasts everywhere."""

    def definition(fd: FusionDefinition) -> None:
        o = fd.ops
        e = fd.define_tensor(shape=[-1, -1, 1], contiguity=True, dtype=DataType.Half)
        d = fd.define_tensor(shape=[-1, -1, -1], contiguity=True, dtype=DataType.Half)
        sizes = [o.size(d, i) for i in range(3)]
        fd.add_output(o.cast(o.add(e, o.mul(d, 0.5)), DataType.Half))
        fd.add_output(o.cast(o.sum(o.cast(d, DataType.Float), [0, 1, 2]), DataType.Half))
        flat = o.reshape(d, [o.mul(o.mul(*sizes[:2]), sizes[2])])
        fd.add_output(o.cast(o.neg(flat), DataType.Half))

    shapes = [(1, 1, 1), (2, 3, 4), (1, 3, 1), (1, 1, 1), (2, 1, 5)]
    calls = [[tensor(*s[:2], 1).half(), tensor(*s).half()] for s in shapes]
    for (e, d), outputs in zip(calls, run_at_all(definition, calls), strict=True):
        expected = [(e + 0.5 * d.float()).half(), d.float().sum().half(), -d.flatten()]
        assert_all_same(outputs, expected, rtol=1e-2, atol=1e-2)


def test_sizes_of_one_still_meet_no_other_size() -> None:
    def definition(fd: FusionDefinition) -> None:
        o = fd.ops
        x = fd.define_tensor(shape=[-1], contiguity=True)
        y = fd.define_tensor(shape=[-1], contiguity=True)
        fd.add_output(o.add(x, y))
        fd.add_output(o.neg(o.reshape(x, [1, o.size(x, 0)])))
        fd.add_output(o.neg(o.reshape(o.neg(x), [o.size(x, 0), 1, 1])))

    fd = define(definition)
    x = tensor(1)
    for output in fd.execute([x, x], device=DEVICE):
        assert abs(output.flatten()[0].item()) <= 2 * abs(x.item())
    with pytest.raises(RuntimeError, match="Sizes do not agree"):
        fd.execute([x, tensor(5)], device=DEVICE)


@pytest.mark.parametrize("kind", ["view", "computed", "size only"])
@pytest.mark.parametrize(("start", "stop"), [(3, 4), (1, 4), (0, 4)])
def test_slices_that_are_not_clamped_stay_within_the_tensor(
    kind: str, start: int, stop: int
) -> None:
    """Positions given with manual_normalization are a promise, which a shorter input breaks."""

    def definition(fd: FusionDefinition) -> None:
        o = fd.ops
        x = fd.define_tensor(shape=[-1, -1], contiguity=True)
        part = o.slice(x, [start, 0], [stop, o.size(x, 1)], manual_normalization=True)
        if kind == "view":
            fd.add_output(part)
        elif kind == "computed":
            fd.add_output(o.neg(part))
        else:
            fd.add_output(o.full([o.size(part, 0)], 1.0, DataType.Float))
            fd.add_output(o.neg(x))

    fd = define(definition)
    for n in (5, 4, 2, 1, 0, 9):
        x = tensor(n, 3)
        if kind == "size only":  # the slice is computed nowhere
            assert fd.execute([x], device=DEVICE)[0].shape == (stop - start,)
        elif n < stop:
            with pytest.raises(RuntimeError, match=rf"slice: the range from {start} to 4 is not"):
                fd.execute([x], device=DEVICE)
        else:
            part = x[start:stop]
            expected = part if kind == "view" else -part
            assert_same(fd.execute([x], device=DEVICE)[0], expected)


@pytest.mark.parametrize("symbolic", [False, True])
def test_positions_that_are_not_clamped_may_be_scalars(symbolic: bool) -> None:
    def definition(fd: FusionDefinition) -> None:
        x = fd.define_tensor(shape=[-1 if symbolic else 7], contiguity=True)
        start, stop = (fd.define_scalar(dtype=DataType.Int) for _ in range(2))
        fd.add_output(fd.ops.neg(fd.ops.slice(x, [start], [stop], manual_normalization=True)))

    fd = define(definition)
    x = tensor(7)
    for start, stop in [(0, 7), (2, 3), (7, 7), (6, 7), (0, 0)]:
        assert_same(fd.execute([x, start, stop], device=DEVICE)[0], -x[start:stop])
    for start, stop in [(0, 8), (7, 8), (-1, 3), (9, 9)]:
        with pytest.raises(RuntimeError, match=rf"slice: the range from {start} to {stop} is not"):
            fd.execute([x, start, stop], device=DEVICE)


def test_known_sizes_are_checked_in_the_definition() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor(shape=[2], contiguity=True)
        fd.add_output(fd.ops.slice(x, [0], [3]))
        with pytest.raises(RuntimeError, match="end index 3 of dimension 0 is more than its size"):
            fd.ops.slice(x, [0], [3], manual_normalization=True)
    assert fd.execute([tensor(2)], device=DEVICE)[0].shape == (2,)


# ------------------------------------------------------- tiles of what a reshape split


@pytest.mark.parametrize("factor", [2, 3])
@pytest.mark.parametrize("expanded", [False, True])
def test_transpose_of_the_parts_of_one_dimension(factor: int, expanded: bool) -> None:
    """Both axes of the tile are parts of one dimension of the input; the inner one is faster."""

    def definition(fd: FusionDefinition) -> None:
        o = fd.ops
        x = fd.define_tensor(shape=[-1], contiguity=True)
        rows = o.reshape(x, [factor, o.div(o.size(x, 0), factor)])
        if expanded:
            fd.add_output(o.reciprocal(x))
            rows = o.expand(o.broadcast(rows, [True, False, False]), [5, -1, -1])
            fd.add_output(o.neg(o.permute(rows, [0, 2, 1])))
        else:
            fd.add_output(o.neg(o.permute(rows, [1, 0])))

    calls = [[tensor(factor * n)] for n in (1, 6, 33, 1000)]
    for (x,), outputs in zip(calls, run_at_all(definition, calls), strict=True):
        columns = -x.reshape(factor, -1).t()
        if expanded:
            assert_all_same(outputs, [x.reciprocal(), columns.expand(5, -1, -1)], rtol=1e-6)
        else:
            assert_same(outputs[0], columns)


def test_transpose_of_a_merged_and_split_dimension() -> None:
    def definition(fd: FusionDefinition) -> None:
        o = fd.ops
        x = fd.define_tensor(shape=[-1, -1], contiguity=True, dtype=DataType.Bool)
        a, b = o.size(x, 0), o.size(x, 1)
        wide = o.expand(o.broadcast(x, [True, False, False]), [2, a, b])
        fd.add_output(o.permute(o.reshape(wide, [b, a, 2]), [1, 2, 0]))

    calls = [[tensor(*shape, dtype=torch.bool)] for shape in ((3, 5), (17, 7), (64, 3))]
    for (x,), (out,) in zip(calls, run_at_all(definition, calls), strict=True):
        a, b = x.shape
        assert_same(out, x.expand(2, a, b).reshape(b, a, 2).permute(1, 2, 0))


# ------------------------------------------------------- loops that would be needed twice


def test_a_small_operand_of_two_outputs_of_which_one_needs_the_other() -> None:
    """Its vector stands in no loop with both: the second one runs when the first is stored."""

    def definition(fd: FusionDefinition) -> None:
        o = fd.ops
        x = fd.define_tensor(shape=[-1], contiguity=True)
        y = fd.define_tensor(shape=[1], contiguity=[None], dtype=DataType.Half)
        small = o.atan(y)
        opposite = o.neg(small)
        first = o.maximum(o.ne(x, x), opposite)
        for output in (opposite, first, o.mul(small, first)):
            fd.add_output(output)

    calls = [[tensor(n), tensor(1).half()] for n in (16, 1, 1024)]
    for (x, y), outputs in zip(calls, run_at_all(definition, calls), strict=True):
        small = y.float().atan()
        first = torch.zeros_like(x).maximum(-small)
        outputs = [each.float() for each in outputs]
        assert_all_same(outputs, [-small, first, small * first], rtol=2e-3, atol=1e-6)


def test_an_operand_of_a_chain_of_outputs() -> None:
    def definition(fd: FusionDefinition) -> None:
        o = fd.ops
        x = fd.define_tensor(shape=[1, 2], contiguity=True, dtype=DataType.ComplexFloat)
        y = fd.define_tensor(shape=[], contiguity=True, dtype=DataType.ComplexFloat)
        start = o.sub(x, x)
        second = o.mul(start, y)
        third = o.mul(second, y)
        for output in (o.add(third, start), second, third):
            fd.add_output(output)

    x, y = tensor(1, 2, dtype=torch.complex64), tensor(dtype=torch.complex64)
    (outputs,) = run_at_all(definition, [[x, y]])
    assert_all_same(outputs, [torch.zeros_like(x)] * 3)


def test_a_row_of_three_passes_and_outputs_that_need_each_other() -> None:
    def definition(fd: FusionDefinition) -> None:
        o = fd.ops
        x = o.set(fd.define_tensor(shape=[-1], contiguity=True, dtype=DataType.Half))
        wide = [o.cast(x, DataType.Float) for _ in range(3)]
        power = o.exp(o.sub(wide[1], o.max(wide[0], [0], keepdim=True)))
        share = o.div(power, o.sum(power, [0], keepdim=True))
        angle = o.asin(o.mul(o.tanh(share), 0.9))
        first = o.mul(o.div(1.0, o.add(o.abs(angle), 0.5)), 3.0)
        fd.add_output(o.min(o.maximum(wide[2], angle), [0]))
        fd.add_output(first)
        fd.add_output(o.add(first, o.mul(share, share)))
        fd.add_output(o.broadcast(angle, [False, True]))

    calls = [[tensor(n, dtype=torch.half)] for n in (8, 24, 200)]
    for (x,), outputs in zip(calls, run_at_all(definition, calls), strict=True):
        share = x.double().softmax(0)
        angle = (share.tanh() * 0.9).asin()
        first = 3 / (angle.abs() + 0.5)
        expected = [x.double().maximum(angle).min(), first, first + share**2, angle[:, None]]
        assert_all_same(outputs, [each.float() for each in expected], rtol=1e-4, atol=1e-5)


def test_a_broadcast_that_meets_a_scan_and_another_size() -> None:
    """The line of the scan is not the dimension of the other output."""

    def definition(fd: FusionDefinition) -> None:
        o = fd.ops
        mask = fd.define_tensor(shape=[-1], contiguity=True, dtype=DataType.Bool)
        one = fd.define_tensor(shape=[1], contiguity=[None])
        line = fd.define_tensor(shape=[18], contiguity=True)
        chosen = o.where(mask, 1.0, one)
        fd.add_output(o.div(chosen, o.add(o.abs(chosen), 0.5)))
        fd.add_output(o.cumsum(o.sub(line, one), 0))

    one, line = tensor(1), tensor(18)
    calls = [[tensor(n, dtype=torch.bool), one, line] for n in (3, 18, 85)]
    for (mask, _, _), outputs in zip(calls, run_at_all(definition, calls), strict=True):
        chosen = torch.where(mask, 1.0, one)
        expected = [chosen / (chosen.abs() + 0.5), (line - one).cumsum(0)]
        assert_all_same(outputs, expected, rtol=1e-5, atol=1e-5)


# ------------------------------------------------------------------- nothing, and scalars


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_a_scan_of_no_elements_on_the_way_to_some(dim: int) -> None:
    """What is handed on is empty for certain: no kernel is launched for it."""

    def definition(fd: FusionDefinition) -> None:
        o = fd.ops
        x = fd.define_tensor(shape=[3, 13, 0], contiguity=True, dtype=DataType.Int32)
        fd.add_output(o.pad(o.cumsum(x, dim), [5, 3], 3))
        fd.add_output(o.sum(o.cumsum(x, dim), [2]))

    x = tensor(3, 13, 0, dtype=torch.int32)
    (outputs,) = run_at_all(definition, [[x]])
    padded = torch.full((3, 13, 8), 3, dtype=outputs[0].dtype, device=DEVICE)
    assert_all_same(outputs, [padded, torch.zeros(3, 13, dtype=torch.int64, device=DEVICE)])


@pytest.mark.parametrize("dtype", ["Double", "Int", "ComplexDouble"])
def test_copies_of_scalars(dtype: str) -> None:
    number = {"Double": 0.75, "Int": 3, "ComplexDouble": 0.5 + 0.25j}[dtype]

    def definition(fd: FusionDefinition) -> None:
        o = fd.ops
        mask = fd.define_tensor(shape=[-1], contiguity=True, dtype=DataType.Bool)
        scalar = fd.define_scalar(dtype=getattr(DataType, dtype))
        fd.add_output(o.where(mask, o.set(scalar), o.neg(o.set(o.set(scalar)))))

    mask = tensor(5, dtype=torch.bool)
    fd = define(definition)
    (out,) = fd.execute([mask, number], device=DEVICE)
    assert fd.fec._num_fallbacks == 0
    assert out.tolist() == [number if each else -number for each in mask.tolist()]


@pytest.mark.parametrize("shape", [(0, 16), (3, 0), (2, 3)])
@pytest.mark.parametrize("computed", [False, True])
def test_reductions_of_what_is_expanded_twice(shape: tuple[int, int], computed: bool) -> None:
    """One dimension is expanded to nothing, what is left of the other one is reduced as well."""

    def definition(fd: FusionDefinition) -> None:
        o = fd.ops
        x = fd.define_tensor(shape=[-1, -1], contiguity=[None, None])
        total = o.sum(o.neg(x) if computed else x, [0])
        fd.add_output(total)
        fd.add_output(o.sum(total, [0], keepdim=True))

    x = tensor(1, 1).expand(shape)
    total = (-x if computed else x).sum(0)
    (outputs,) = run_at_all(definition, [[x]])
    assert_all_same(outputs, [total, total.sum(0, keepdim=True)], rtol=1e-5, atol=1e-6)


# ------------------------------------------------------- loops and dimensions of one iteration


def test_a_minimum_of_columns_and_a_mask_of_their_rows() -> None:
    """Of columns of one element the loop has the domain of the broadcast minimum."""

    def definition(fd: FusionDefinition) -> None:
        o = fd.ops
        mask = fd.define_tensor(shape=[-1, 1, 1], contiguity=True, dtype=DataType.Bool)
        x = fd.define_tensor(shape=[-1, -1, -1], contiguity=True)
        least = o.min(x, [0], keepdim=True)
        fd.add_output(least)
        fd.add_output(o.where(mask, least, x))

    sizes = [(1, 1, 1), (1, 2, 3), (5, 4, 3), (1, 64, 64)]
    calls = [[tensor(n[0], 1, 1, dtype=torch.bool), tensor(*n)] for n in sizes]
    for (mask, x), outputs in zip(calls, run_at_all(definition, calls), strict=True):
        least = x.min(0, keepdim=True).values
        assert_all_same(outputs, [least, torch.where(mask, least, x)])


def test_rows_that_meet_through_broadcasts_reshaped_twice() -> None:
    """A few elements take one block: its loop is over that of another tensor."""

    def definition(fd: FusionDefinition) -> None:
        o = fd.ops
        x = fd.define_tensor(shape=[1, -1, 4], contiguity=[None, False, False])
        y = fd.define_tensor(shape=[-1, -1], contiguity=True)
        value = o.sub(o.neg(x), o.broadcast(y, [False, True, False]))
        fd.add_output(o.reshape(o.reshape(value, [1, 1, 2, 2]), [1, 1, 2, 1, 2]))

    x, y = tensor(1, 1, 4), tensor(1, 4)
    ((out,),) = run_at_all(definition, [[x, y]])
    assert_same(out, (-x - y).reshape(1, 1, 2, 1, 2))


def test_a_scan_along_one_element_that_a_reshape_drops() -> None:
    """The line of the scan is made real: a broadcast where it was decided, with a loop here."""

    def definition(fd: FusionDefinition) -> None:
        o = fd.ops
        x = fd.define_tensor(shape=[-1, -1], contiguity=True)
        y = fd.define_tensor(shape=[1, 1], contiguity=[None, None])
        rows = o.size(x, 0)
        zeros = o.full([rows, 2], 0.0, DataType.Float)
        part = o.slice(o.expand(y, [rows, 4]), [0, 2], [rows, 4])
        line = o.cumsum(o.where(o.eq(zeros, zeros), part, zeros), 0)
        fd.add_output(o.reshape(o.reshape(line, [2, rows]), [o.mul(rows, 2)]))

    calls = [[tensor(n, 2), tensor(1, 1)] for n in (1, 3)]
    for (x, y), (out,) in zip(calls, run_at_all(definition, calls), strict=True):
        assert_same(out, y.expand(len(x), 2).cumsum(0).flatten(), rtol=1e-5, atol=1e-6)


def test_a_value_that_is_padded_squeezed_and_read() -> None:
    """What leads through the squeezed value, which has no loops, has none of those of the pad."""

    def definition(fd: FusionDefinition) -> None:
        o = fd.ops
        x = o.neg(o.sum(fd.define_tensor(shape=[-1], contiguity=True), [0], keepdim=True))
        y = fd.define_tensor(shape=[1], contiguity=[None])
        z = fd.define_tensor(shape=[-1], contiguity=True)
        fd.add_output(o.pad(x, [o.size(z, 0), 0], 0.0))
        one = o.broadcast(o.squeeze(x, [0]), [True])
        fd.add_output(o.add(one, o.add(o.exp(o.sub(x, y)), z)))

    calls = [[tensor(4), tensor(1), tensor(n)] for n in (2, 300)]
    for (w, y, z), outputs in zip(calls, run_at_all(definition, calls), strict=True):
        x = -w.sum(0, keepdim=True)
        expected = [torch.nn.functional.pad(x, [len(z), 0]), x + (x - y).exp() + z]
        assert_all_same(outputs, expected, rtol=1e-5, atol=1e-5)
