# SPDX-License-Identifier: BSD-3-Clause
"""Mistakes of users that a type checker is to find: each line with a comment, and no other."""

from __future__ import annotations

import torch
from nvfuse_direct import DataType, FusionDefinition, ParallelType

with FusionDefinition() as fd:
    x = fd.define_tensor([-1, -1], True, DataType.Float)
    n = fd.define_scalar(DataType.Int)
    fd.define_tensor(["a"], True)  # error: strings as sizes
    fd.define_tensor([-1], True, dtype=3)  # error: a number as dtype
    fd.ops.ad(x, x)  # error: no such op
    fd.ops.add(x)  # error: an operand is missing
    fd.ops.add(x, "1")  # error: a string as operand
    fd.ops.add(x, torch.ones(3))  # error: a tensor of torch as operand
    fd.ops.sum(x, 1.5)  # error: a float as dimension
    fd.ops.sum(n)  # error: a scalar is reduced
    fd.ops.matmul(x, n)  # error: a scalar as matrix
    fd.ops.permute(x, [0.5, 1])  # error: floats as dimensions
    fd.ops.cast(x, int)  # error: a type of Python as dtype
    fd.ops.exp(n).split(0, 2)  # error: a scalar has no loops
    fd.add_output(n)  # error: a scalar as output
    x + "1"  # error: a string is added
    x @ 2  # error: a number as matrix
    x.axis(0).parallelize(DataType.Int)  # error: a dtype as parallel type
    fd.sched.inline_at(n)  # error: a scalar is inlined
    x.axis(0).parallelize(ParallelType.grid_x)
fd.execute(device=0)  # error: no inputs
fd.execute([], devise=0)  # error: no such keyword
_ = fd.execute([])[0].foo  # error: torch's tensors have no such attribute
