# SPDX-License-Identifier: BSD-3-Clause
"""Memory of outputs on the CPU: what callers free is used again, what they hold is theirs."""

from __future__ import annotations

import pickle

import pytest
import torch
from nvfuse_direct import DataType, FusionDefinition

LARGE = 1 << 19  # float32 values: 2 MB


def doubled(dtype: DataType = DataType.Float) -> FusionDefinition:
    with FusionDefinition() as fd:
        x = fd.define_tensor(shape=[-1], contiguity=[True], dtype=dtype)
        fd.add_output(fd.ops.cast(fd.ops.add(x, x), dtype))
    return fd


def test_freed_outputs_are_used_again():
    fd, x = doubled(), torch.ones(LARGE)
    (first,) = fd.execute([x])
    address = first.data_ptr()
    del first
    (second,) = fd.execute([x])
    assert second.data_ptr() == address
    (third,) = fd.execute([x])
    assert third.data_ptr() != address
    (off,) = fd.execute([x], _disable_options=["host_memory_pool"])
    assert torch.equal(off, second)


def test_views_keep_the_memory():
    fd = doubled()
    view = fd.execute([torch.ones(LARGE)])[0][10:20]
    others = [fd.execute([torch.full((LARGE,), 3.0)])[0] for _ in range(3)]
    assert torch.equal(view, torch.full((10,), 2.0))
    assert all(bool((each == 6).all()) for each in others)


@pytest.mark.parametrize(
    "dtype", ["float64", "float16", "bfloat16", "int64", "int32", "bool", "complex64"]
)
def test_outputs_are_ordinary_tensors(dtype: str):
    torch_dtype = getattr(torch, dtype)
    with FusionDefinition() as fd:
        x = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=torch_dtype)
        fd.add_output(fd.ops.permute(fd.ops.set(x), [1, 0]))
    given = torch.randn(1 << 10, 1 << 11).to(torch_dtype)
    (out,) = fd.execute([given])
    assert type(out) is torch.Tensor
    assert out.dtype == torch_dtype and out.device.type == "cpu" and not out.requires_grad
    assert torch.equal(out, given.t())
    assert torch.equal(pickle.loads(pickle.dumps(out)), out)
    if out.is_floating_point():
        out.requires_grad_().sum().backward()
        assert out.grad is not None
    shared = out.detach().share_memory_()
    assert torch.equal(shared, out.detach())
    in_place = out.detach()
    in_place[:] = in_place.new_zeros(())
    assert not bool(in_place.any())
