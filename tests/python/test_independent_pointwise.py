# SPDX-License-Identifier: BSD-3-Clause
"""Elementwise operations that nothing connects: those of one size share a kernel."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from helpers import DEVICE
from nvfuse_direct import DataType, FusionDefinition
from test_independent_reductions import Case, values


def steps(fd: FusionDefinition, *tensors: object) -> list:
    """An optimizer's, of pairs of a weight and its gradient."""
    pairs = zip(tensors[::2], tensors[1::2], strict=True)
    return [fd.ops.sub(w, fd.ops.mul(g, 0.1)) for w, g in pairs]


def cut(fd: FusionDefinition, x: object, y: object) -> list:
    return [fd.ops.neg(fd.ops.slice(x, [0, 1], [40, 65])), fd.ops.exp(y)]


def padded(fd: FusionDefinition, x: object, y: object) -> list:
    return [fd.ops.neg(fd.ops.pad(x, [2, 3])), fd.ops.exp(fd.ops.pad(y, [2, 3]))]


def reshaped(fd: FusionDefinition, x: object, y: object) -> list:
    return [fd.ops.exp(fd.ops.reshape(x, [40, 8, 8])), fd.ops.neg(fd.ops.reshape(y, [40, 8, 8]))]


def transposed(fd: FusionDefinition, x: object, y: object) -> list:
    return [fd.ops.permute(fd.ops.exp(x), [1, 0]), fd.ops.neg(y)]


def with_others(fd: FusionDefinition, x: object, y: object, b: object) -> list:
    row = fd.ops.broadcast(b, [True, False])
    return [fd.ops.exp(x), fd.ops.neg(x), fd.ops.mul(y, row), fd.ops.cast(y, DataType.Half)]


def stepped(*tensors: torch.Tensor) -> list[torch.Tensor]:
    return [w - 0.1 * g for w, g in zip(tensors[::2], tensors[1::2], strict=True)]


pad = torch.nn.functional.pad
CASES = {
    "steps": Case([values([40, 64], k) for k in range(8)], steps, stepped, 1),
    "steps_of_two_sizes": Case([values([40, 64 + k // 4], k) for k in range(8)], steps, stepped, 2),
    "steps_of_odd_sizes": Case([values([7, 11, 13], k) for k in range(4)], steps, stepped, 1),
    "cut": Case(
        [values([40, 65], 1), values([40, 64], 2)], cut, lambda x, y: [-x[:, 1:], y.exp()], 1
    ),
    "padded": Case(
        [values([40, 64], 1), values([40, 64], 2)],
        padded,
        lambda x, y: [-pad(x, (2, 3)), pad(y, (2, 3)).exp()],
        1,
    ),
    "reshaped": Case(
        [values([40, 64], 1), values([40, 64], 2)],
        reshaped,
        lambda x, y: [x.exp().view(40, 8, 8), -y.view(40, 8, 8)],
        1,
    ),
    "transposed": Case(
        [values([64, 64], 1), values([64, 64], 2)],
        transposed,
        lambda x, y: [x.exp().t(), -y],
        2,  # tiles of one, vectors of the other
    ),
    "with_others": Case(
        [values([40, 64], 1), values([40, 64], 2), values([64], 3)],
        with_others,
        lambda x, y, b: [x.exp(), -x, y * b, y],
        1,
    ),
    "empty": Case([values([0, 64], k) for k in range(4)], steps, stepped, 0),
}


@pytest.mark.parametrize("name", CASES)
def test_values_and_kernels(name: str) -> None:
    CASES[name].check()


def kernels_and_tensors(definition: Callable, tensors: list[torch.Tensor]) -> tuple[int, list]:
    """Those of a definition that updates its inputs, and what they are after it."""
    with FusionDefinition() as fd:
        definition(fd, *(fd.from_pytorch(t, static_sizes=True) for t in tensors))
    tensors = [t.clone().to(DEVICE) for t in tensors]
    outs = fd.execute(tensors, device=DEVICE)
    assert fd.fec._num_fallbacks == 0
    return fd.fec.get_cuda_kernel(tensors).count("NVF_KERNEL"), [*tensors, *outs]


def test_inputs_that_are_updated_share_a_kernel() -> None:
    tensors = values([40, 64], 0), values([40, 64], 1), values([40, 64], 2), values([40, 64], 3)

    def definition(fd: FusionDefinition, *all_of_them: object) -> None:
        for new, old in zip(steps(fd, *all_of_them), all_of_them[::2], strict=True):
            fd.add_output(new, old)

    kernels, after = kernels_and_tensors(definition, list(tensors))
    assert kernels == 1
    for got, expected in zip(after[:4:2], stepped(*tensors), strict=True):
        torch.testing.assert_close(got.cpu(), expected.cpu())


@pytest.mark.parametrize("reads", ["columns", "other_shape", "transposed"])
def test_an_input_that_others_read_is_updated_after_that(reads: str) -> None:
    w, g, x, h = (values([64, 64], k) for k in range(4))

    def read(w: torch.Tensor) -> torch.Tensor:
        return {"columns": w.sum(0), "other_shape": -w.view(4096), "transposed": 2 * w.t()}[reads]

    def definition(fd: FusionDefinition, w: object, g: object, x: object, h: object) -> None:
        o = fd.ops
        fd.add_output(o.sub(w, o.mul(g, 0.1)), w)
        fd.add_output(o.sub(x, o.mul(h, 0.1)), x)
        of_w = {
            "columns": lambda: o.sum(w, [0]),
            "other_shape": lambda: o.neg(o.reshape(w, [4096])),
            "transposed": lambda: o.mul(o.permute(w, [1, 0]), 2.0),
        }
        fd.add_output(of_w[reads]())

    _, after = kernels_and_tensors(definition, [w, g, x, h])
    expected = [w - 0.1 * g, g, x - 0.1 * h, h, read(w)]
    for got, exact in zip([*after[:4], after[-1]], expected, strict=True):
        torch.testing.assert_close(got.cpu(), exact.cpu(), rtol=1e-4, atol=1e-4)
