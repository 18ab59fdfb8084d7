# SPDX-License-Identifier: BSD-3-Clause
"""One element of a dimension that meets the whole of another one: the element stays where it is,
whatever is cut out of the dimension or added to it afterwards."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from helpers import DEVICE, assert_all_same, define
from nvfuse_direct import DataType, FusionDefinition, TensorView

Tensor = torch.Tensor

# What is done to the sum of an element and a dimension of 3.
AFTER: dict[
    str,
    tuple[
        Callable[[FusionDefinition, TensorView, TensorView], TensorView],
        Callable[[Tensor, Tensor], Tensor],
    ],
] = {
    "cut": (
        lambda fd, t, s: fd.ops.slice(t, [0, 1], [fd.ops.size(t, 0), 2]),
        lambda t, s: t[:, 1:2],
    ),
    "two": (
        lambda fd, t, s: fd.ops.slice(t, [0, 1], [fd.ops.size(t, 0), 3]),
        lambda t, s: t[:, 1:3],
    ),
    "padded": (
        lambda fd, t, s: fd.ops.pad(t, [1, 2], 5.0),
        lambda t, s: torch.nn.functional.pad(t, (1, 2), value=5.0),
    ),
    "cut and padded": (
        lambda fd, t, s: fd.ops.pad(fd.ops.slice(t, [0, 1], [fd.ops.size(t, 0), 2]), [3, 0], 1.0),
        lambda t, s: torch.nn.functional.pad(t[:, 1:2], (3, 0), value=1.0),
    ),
    "with the padded element": (
        lambda fd, t, s: fd.ops.add(fd.ops.pad(t, [1, 1], 5.0), fd.ops.pad(s, [3, 1], 2.0)),
        lambda t, s: (
            torch.nn.functional.pad(t, (1, 1), value=5.0)
            + torch.nn.functional.pad(s, (3, 1), value=2.0)
        ),
    ),
    "summed": (
        lambda fd, t, s: fd.ops.sum(fd.ops.slice(t, [0, 1], [fd.ops.size(t, 0), 3]), [1]),
        lambda t, s: t[:, 1:3].sum(1),
    ),
    "columns": (
        lambda fd, t, s: fd.ops.sum(fd.ops.slice(t, [0, 1], [fd.ops.size(t, 0), 2]), [0]),
        lambda t, s: t[:, 1:2].sum(0),
    ),
}


@pytest.mark.parametrize("after", AFTER)
@pytest.mark.parametrize("at", [0, 2])
@pytest.mark.parametrize("rows", [6, 300])
def test_an_element_that_meets_its_dimension(rows: int, at: int, after: str) -> None:
    built, expected = AFTER[after]

    def definition(fd: FusionDefinition) -> None:
        x = fd.define_tensor(shape=[-1, 3], contiguity=[True, True], dtype=DataType.Float)
        element = fd.ops.slice(fd.ops.neg(x), [0, at], [fd.ops.size(x, 0), at + 1])
        fd.add_output(built(fd, fd.ops.add(element, x), element))

    x = torch.randn(rows, 3)
    element = (-x)[:, at : at + 1]
    fd = define(definition)
    outputs = fd.execute([x.to(DEVICE)], device=DEVICE)
    assert fd.fec._num_fallbacks == 0
    assert_all_same(outputs, [expected(element + x, element)], rtol=1e-5, atol=1e-5)
