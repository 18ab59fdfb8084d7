# SPDX-License-Identifier: BSD-3-Clause
"""minimize(): a failing definition becomes small, and fails in the same way."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import nvfuse_direct
import pytest
import torch
from helpers import DEVICE, row_major, run_python
from nvfuse_direct import FusionDefinition, minimize


def long_definition() -> tuple[FusionDefinition, list[torch.Tensor]]:
    """A few reductions, views and casts; in the midst an exp of a slice."""
    x = row_major((16, 64), offset=3).fill(torch.bfloat16)
    w = row_major((64,)).fill(torch.float)
    with FusionDefinition() as fd:
        a = fd.from_pytorch(x)
        b = fd.from_pytorch(w)
        y = fd.ops.cast(a, nvfuse_direct.DataType.Float)
        y = fd.ops.sub(y, fd.ops.max(y, [1], keepdim=True))
        y = fd.ops.mul(y, fd.ops.broadcast(b, [True, False]))
        part = fd.ops.slice(fd.ops.permute(y, [1, 0]), [2, 0], [30, 16])
        e = fd.ops.exp(part)
        total = fd.ops.sum(e, [0], keepdim=True)
        fd.add_output(fd.ops.div(e, total))
        fd.add_output(fd.ops.reshape(fd.ops.sin(y), [-1]))
        fd.add_output(fd.ops.tanh(b), b)
    return fd, [x, w]


def exp_of_a_slice(fd: FusionDefinition, inputs: Sequence[Any]) -> bool:
    """Stands for a wrong result: an exp whose operand comes from a slice at last."""
    reached: set[str] = set()
    for line in repr(fd).split("\n"):
        name, _, call = line.strip().partition(" = ")
        reads = any(
            each in call.replace(",", " ").replace(")", " ").split("(", 1)[-1].split()
            for each in reached
        )
        if "ops.exp(" in call and reads:
            return True
        if "ops.slice(" in call or (reads and "ops." in call):
            reached.add(name)
    return False


def test_a_slice_and_an_exp_are_left() -> None:
    fd, inputs = long_definition()
    before = [x.clone() for x in inputs]
    found = minimize(fd, inputs, exp_of_a_slice)
    assert found.failure == "fails"
    assert found.operations == 2 < found.operations_before
    assert exp_of_a_slice(found.fd, found.inputs)
    (x,) = found.inputs
    assert x.dtype == torch.float and x.is_contiguous() and x.storage_offset() == 0
    assert x.numel() <= 4
    assert all(torch.equal(x, y) for x, y in zip(inputs, before, strict=True)), "inputs stay"
    # The script stands for itself.
    found.fd.validate(found.inputs)
    done = run_python(str(found))
    assert done.returncode == 0, done.stderr
    assert "ops.exp(" in str(found) and "ops.slice(" in str(found)


def test_sizes_layouts_and_values_matter_only_where_they_do() -> None:
    def wide_and_strided(fd: FusionDefinition, inputs: list[Any]) -> bool:
        x = inputs[0]
        return "ops.sin(" in repr(fd) and x.dim() == 2 and x.shape[1] >= 5 and not x.is_contiguous()

    x = row_major((64, 12)).fill(torch.double).t()
    with FusionDefinition() as fd:
        a = fd.define_tensor([-1, -1], False, nvfuse_direct.DataType.Double)
        fd.add_output(fd.ops.neg(fd.ops.sin(fd.ops.neg(a))))
    found = minimize(fd, [x], wide_and_strided)
    assert found.operations == 1
    assert 5 <= found.inputs[0].shape[1] <= 8 and not found.inputs[0].is_contiguous()
    assert found.inputs[0].dtype == torch.float


def test_an_error_stays_the_same_error() -> None:
    """Sizes that do not agree; other errors on the way are not taken for it."""
    x, y = row_major((4, 6)).fill(torch.float), row_major((4, 5)).fill(torch.float)
    with FusionDefinition() as fd:
        a, b = (fd.define_tensor([-1, -1], [True, True]) for _ in range(2))
        c = fd.ops.sin(fd.ops.cos(a))
        fd.add_output(fd.ops.cat([c, c], 0))
        fd.add_output(fd.ops.mul(c, fd.ops.exp(b)))

    def fails(fd: FusionDefinition, inputs: list[Any]) -> bool:
        try:
            fd.execute(inputs)
        except RuntimeError as error:
            return "agree" in str(error)
        return False

    found = minimize(fd, [x, y], fails)
    assert found.operations == 1 and "ops.mul(" in str(found)
    found = minimize(fd, [x, y])
    assert found.failure.startswith("RuntimeError: ")
    assert found.operations == 1 and "ops.mul(" in str(found)


# A kernel that is exchanged for a wrong one: the difference is found by running.
WRONG_KERNEL = """
import os, re, sys, tempfile, torch
from nvfuse_direct import FusionDefinition, minimize
from nvfuse_direct.minimizing import outcome

def define():
    with FusionDefinition() as fd:
        a = fd.define_tensor([-1, -1], [True, True])
        b = fd.ops.add(fd.ops.sin(a), 1.0)
        fd.add_output(fd.ops.mul(fd.ops.add(b, fd.ops.neg(a)), 2.0))
        fd.add_output(fd.ops.sum(a, [0]))
    return fd

import nvfuse_direct.reference as reference
right = reference._OPS["neg"]
reference._OPS["neg"] = lambda x: -x * 1.5  # a reference that differs
x = torch.ones(8, 8)
assert outcome(define(), [x]) == "differs"
found = minimize(define(), [x])
print(found.failure, found.operations, "ops.neg(" in str(found))
"""


def test_a_difference_is_traced_to_its_operation() -> None:
    done = run_python(WRONG_KERNEL)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "differs 1 True"


# A process that dies where a reciprocal is compiled: as by a bug of the compiler.
DYING = """
import torch
from nvfuse_direct import FusionDefinition, minimize

with FusionDefinition() as fd:
    a = fd.define_tensor([-1, -1], [True, True])
    fd.add_output(fd.ops.add(fd.ops.reciprocal(fd.ops.sin(a)), 1.0))
    fd.add_output(fd.ops.tanh(a))
found = minimize(fd, [torch.ones(8, 8)], isolate=True, seconds=100)
print(found.failure, found.operations, "ops.reciprocal(" in str(found))
"""
SITE = """
import nvfuse_direct
execute = nvfuse_direct.FusionDefinition.execute
def dying(self, inputs, **kwargs):
    if "ops.reciprocal(" in repr(self):
        import os
        os.abort()
    return execute(self, inputs, **kwargs)
nvfuse_direct.FusionDefinition.execute = dying
"""


def test_a_crash_is_minimized_in_another_process(tmp_path: Any) -> None:
    (tmp_path / "sitecustomize.py").write_text(SITE)
    search = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    done = run_python(DYING, {"PYTHONPATH": search})
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "dies 1 True"


def test_what_does_not_fail_is_refused() -> None:
    fd, inputs = long_definition()
    with pytest.raises(ValueError, match="does not fail"):
        minimize(fd, inputs, lambda fd, inputs: False)
    with pytest.raises(ValueError, match="isolate"):
        minimize(fd, inputs, exp_of_a_slice, isolate=True)


def test_time_is_kept() -> None:
    fd, inputs = long_definition()
    found = minimize(fd, inputs, exp_of_a_slice, seconds=0.0)
    assert found.operations == found.operations_before and found.tries == 1
    assert str(DEVICE.type) in {x.device.type for x in found.inputs}
