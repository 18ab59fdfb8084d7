# SPDX-License-Identifier: BSD-3-Clause
"""What programs written to the contract alone found: wrong values, and errors that were missing."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from helpers import DEVICE, define
from nvfuse_direct import DataType, FusionDefinition

Tensor = torch.Tensor
Builder = Callable[[FusionDefinition], None]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize(("length", "keys"), [(5, 5), (1, 3), (5, 7)])
def test_a_mask_of_bools_is_no_number(
    causal: bool, with_bias: bool, length: int, keys: int
) -> None:
    torch.manual_seed(0)
    q = torch.randn(2, 3, length, 8, device=DEVICE)
    k, v = (torch.randn(2, 3, keys, 8, device=DEVICE) for _ in range(2))
    mask = torch.rand(2, 3, length, keys, device=DEVICE) < 0.7
    mask[..., 0] = True
    bias = torch.randn(2, 3, length, keys, device=DEVICE) if with_bias else None
    given = [x for x in (q, k, v, bias, mask) if x is not None]

    def body(fd: FusionDefinition) -> None:
        handles = [fd.from_pytorch(x) for x in given]
        handle = handles[3] if with_bias else None
        out, logsumexp, *_ = fd.ops.sdpfa_fwd(
            *handles[:3], handle, handles[-1], is_causal=fd.define_scalar(causal)
        )
        fd.add_output(out)
        fd.add_output(logsumexp)

    out, logsumexp = define(body).execute(given)
    keep = (
        mask & torch.ones(length, keys, dtype=torch.bool, device=DEVICE).tril() if causal else mask
    )
    scores = q.double() @ k.double().mT * 8**-0.5 + (0 if bias is None else bias.double())
    scores = scores.masked_fill(~keep, -torch.inf)
    torch.testing.assert_close(out.double(), scores.softmax(-1) @ v.double(), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(logsumexp.double(), scores.logsumexp(-1), atol=1e-5, rtol=1e-5)


def test_the_largest_of_no_bools_is_false() -> None:
    def body(fd: FusionDefinition) -> None:
        x = fd.define_tensor(shape=[-1, -1], dtype=DataType.Bool)
        for out in (fd.ops.max(x, 0), fd.ops.max(x), fd.ops.min(x, 0)):
            fd.add_output(out)

    fd = define(body)
    none = torch.zeros(0, 2, dtype=torch.bool, device=DEVICE)
    assert [out.tolist() for out in fd.execute([none])] == [[False] * 2, False, [True] * 2]
    some = torch.tensor([[True, False], [False, False]], device=DEVICE)
    assert [out.tolist() for out in fd.execute([some])] == [[True, False], True, [False] * 2]


def expand(fd: FusionDefinition, x: object, n: object) -> object:
    return fd.ops.expand(x, [-1, n])


def expand_with_new_dimension(fd: FusionDefinition, x: object, n: object) -> object:
    return fd.ops.expand(x, [5, -1, n])


def broadcast_in_dim(fd: FusionDefinition, x: object, n: object) -> object:
    return fd.ops.broadcast_in_dim(x, [5, 2, n], [1, 2])


@pytest.mark.parametrize("shape", [[-1, -1], [-1, 4], [2, 4]])
@pytest.mark.parametrize("wrong", [0, 3, 9])
@pytest.mark.parametrize("build", [expand, expand_with_new_dimension, broadcast_in_dim])
def test_a_size_given_at_run_time_must_be_the_tensors(
    build: Callable, shape: list[int], wrong: int
) -> None:
    def body(fd: FusionDefinition) -> None:
        x = fd.define_tensor(shape=shape)
        fd.add_output(build(fd, x, fd.define_scalar(DataType.Int)))

    fd = define(body)
    x = torch.arange(8.0, device=DEVICE).reshape(2, 4)
    assert torch.equal(fd.execute([x, 4])[0], x.expand(fd.execute([x, 4])[0].shape))
    with pytest.raises(RuntimeError, match="size"):
        fd.execute([x, wrong])


def test_elements_that_are_one_in_memory_are_not_updated() -> None:
    def body(fd: FusionDefinition) -> None:
        x = fd.define_tensor(shape=[-1])
        fd.add_output(fd.ops.add(x, fd.ops.iota(5, 0.0, 1.0, DataType.Float)), x)

    fd = define(body)
    with pytest.raises(RuntimeError, match="input 0 is written in place"):
        fd.execute([torch.full((1,), 0.5, device=DEVICE).expand(5)])
    x = torch.full((5,), 0.5, device=DEVICE)
    fd.execute([x])
    assert x.tolist() == [0.5, 1.5, 2.5, 3.5, 4.5]


def test_a_sum_of_equal_complex_numbers_is_a_real_multiple() -> None:
    inf = float("inf")
    x = torch.tensor([complex(inf, 0), complex(1, -inf), 1 + 2j], device=DEVICE)

    def body(fd: FusionDefinition) -> None:
        t = fd.ops.broadcast(fd.from_pytorch(x), [True, False])
        fd.add_output(fd.ops.sum(fd.ops.expand(t, [3, -1]), [0]))

    (out,) = define(body).execute([x])
    wanted = torch.tensor([complex(inf, 0), complex(3, -inf), 3 + 6j])
    assert torch.equal(torch.view_as_real(out.cpu()), torch.view_as_real(wanted))
