# SPDX-License-Identifier: BSD-3-Clause
"""A script as a user writes it, with the types that a type checker is to infer.

test_typing.py checks it with mypy and runs it.
"""

from __future__ import annotations

import copy
import pickle

import torch
from nvfuse_direct import DataType, FusionDefinition, TensorView, Val
from typing_extensions import assert_type


class RmsNorm:
    """x / sqrt(mean(x^2) + epsilon) * weight over the last dimension."""

    def __init__(self, epsilon: float) -> None:
        with FusionDefinition() as fd:
            x = fd.define_tensor([-1, -1], True, torch.bfloat16, name="x")
            weight = fd.define_tensor([-1], [True], "float32", name="weight")
            wide = fd.ops.cast(x, DataType.Float)
            square = fd.ops.sum(wide * wide, [1], keepdim=True) / x.size(1)
            out = wide * fd.ops.rsqrt(square + epsilon) * weight
            fd.add_output(fd.ops.cast(out, x.dtype()))
        self.fd = fd

    def __call__(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        outputs = self.fd.execute([x, weight], device=x.device if x.is_cuda else None)
        assert_type(outputs, list[torch.Tensor])
        return outputs[0]


def types_of_ops() -> None:
    with FusionDefinition() as fd:
        assert_type(fd, FusionDefinition)
        a = fd.from_pytorch(torch.ones(4, 5))
        b = fd.define_tensor(sizes=[4, 5], strides=[5, 1], dtype="float32")
        n = fd.define_scalar(torch.int64, name="n")
        assert_type(a, TensorView)
        assert_type(n, Val)
        assert_type(fd.define_vector(2), list[Val])
        assert_type(fd.ops.add(a, b), TensorView)
        assert_type(fd.ops.add(2, b), TensorView)
        assert_type(fd.ops.add(n, 2.0), Val)
        assert_type(fd.ops.where(a < b, 1, n), TensorView)
        assert_type(fd.ops.where(n < 1, 1, n), Val)
        assert_type(fd.ops.clamp(a, None, 1), TensorView)
        assert_type(fd.ops.exp(n), Val)
        assert_type(fd.ops.cast(n, "float64"), Val)
        assert_type(fd.ops.cast(a, torch.half), TensorView)
        assert_type(a + 1, TensorView)
        assert_type(1 - a, TensorView)
        assert_type(n * a, TensorView)
        assert_type(a // n, TensorView)
        assert_type(2**n, Val)
        assert_type(-n, Val)
        assert_type(~(a < b) & (a > 1), TensorView)
        assert_type(a == b, bool)
        assert_type(a.size(0) % 2, Val)
        assert_type(fd.ops.shape(a), list[Val])
        assert_type(fd.ops.matmul(a, fd.ops.permute(b, (1, 0))), TensorView)
        assert_type(a @ fd.ops.permute(b, [1, 0]), TensorView)
        assert_type(fd.ops.sum(a), TensorView)
        assert_type(fd.ops.max(a, 1, keepdim=True), TensorView)
        variance, mean = fd.ops.var_mean(a, [1])
        assert_type(variance, TensorView)
        assert_type(mean, TensorView)
        values, positions = fd.ops.topk(a, 2, dim=-1)
        assert_type(values, TensorView)
        assert_type(positions, TensorView)
        assert_type(fd.ops.reshape(a, [a.size(1), -1]), TensorView)
        assert_type(fd.ops.full((2, n), 0.5, "float32"), TensorView)
        fd.add_output(a)
    assert_type(copy.deepcopy(fd), FusionDefinition)
    pickle.dumps(fd)


def main() -> None:
    x, weight = torch.randn(8, 64).bfloat16(), torch.rand(64)
    expected = torch.nn.functional.rms_norm(x.float(), (64,), weight, 1e-5)
    torch.testing.assert_close(RmsNorm(1e-5)(x, weight).float(), expected, rtol=1e-2, atol=1e-2)
    types_of_ops()


if __name__ == "__main__":
    main()
