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
