# SPDX-License-Identifier: BSD-3-Clause
"""Definitions whose inputs' sizes are open get the kernels of those that have them written out,
though gathers, slices and reshapes depend on sizes: a size is a constant until a call has another
one. From then on kernels serve other sizes as well.

Schedules are those for an H200, whatever the machine.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import torch
from helpers import DEVICE, run_python
from nvfuse_direct import DataType, FusionDefinition

Tensor = torch.Tensor


def cross_entropy(fd: Any, x: Any, label: Any) -> Any:
    x = fd.ops.cast(x, DataType.Float)
    most = fd.ops.max(x, [1], keepdim=True)
    shifted = fd.ops.sub(x, most)
    total = fd.ops.sum(fd.ops.exp(shifted), [1], keepdim=True)
    normal = fd.ops.sub(shifted, fd.ops.log(total))
    return fd.ops.neg(fd.ops.gather(normal, fd.ops.broadcast(label, [False, True]), 1))


def group_norm(fd: Any, x: Any, w: Any) -> Any:
    """Rows of a group as one dimension, as torch's decomposition has them."""
    n, c, h, wide = (int(each) for each in (4, 32, 8, 16))
    rows = fd.ops.reshape(fd.ops.cast(x, DataType.Float), [n, 8, c // 8 * h * wide])
    var, mean = fd.ops.var_mean(rows, [2], 0, True)
    inverse = fd.ops.rsqrt(fd.ops.add(var, fd.define_scalar(1e-5)))
    normal = fd.ops.reshape(fd.ops.mul(fd.ops.sub(rows, mean), inverse), [n, c, h, wide])
    return fd.ops.mul(normal, fd.ops.broadcast(w, [True, False, True, True]))


def halves(fd: Any, x: Any, scale: Any) -> Any:
    """[rows, 2, 64]: the halves change places, and one is scaled."""
    first = fd.ops.slice(x, [0, 0, 0], [10**6, 1, 64])
    second = fd.ops.slice(x, [0, 1, 0], [10**6, 2, 64])
    return fd.ops.cat([fd.ops.neg(second), fd.ops.mul(first, scale)], 1)


def inputs_of(name: str, rows: int, device: str = "cpu") -> list[Tensor]:
    generator = torch.Generator().manual_seed(rows)

    def rand(*sizes: int) -> Tensor:
        return torch.randn(sizes, generator=generator).to(device)

    if name == "cross_entropy":
        labels = torch.randint(0, 512, (rows,), generator=generator).to(device)
        return [rand(rows, 512).bfloat16(), labels]
    if name == "group_norm":
        return [rand(4, 32, 8, 16).bfloat16(), rand(32)]
    return [rand(rows, 2, 64), rand(rows, 1, 64)]


def reference(name: str, inputs: list[Tensor]) -> Tensor:
    x, y = (each.double() for each in inputs)
    if name == "cross_entropy":
        return -x.log_softmax(1).gather(1, inputs[1][:, None])
    if name == "group_norm":
        return torch.nn.functional.group_norm(x, 8, y)
    return torch.cat([-x[:, 1:], x[:, :1] * y], 1)


DEFINITIONS: dict[str, Callable[..., Any]] = {
    "cross_entropy": cross_entropy,
    "group_norm": group_norm,
    "halves": halves,
}


def define(name: str, inputs: list[Tensor], *, static_sizes: bool = False) -> FusionDefinition:
    with FusionDefinition() as fd:
        tensors = [fd.from_pytorch(each, static_sizes=static_sizes) for each in inputs]
        fd.add_output(DEFINITIONS[name](fd, *tensors))
    return fd


def costs(name: str) -> list[tuple[list[str], int]]:
    """Schedulers and bytes, with open sizes and with sizes that are written out."""
    from nvfuse_direct import explain

    found = []
    for static_sizes in (False, True):
        inputs = inputs_of(name, 48)
        fd = define(name, inputs, static_sizes=static_sizes)
        segments = explain(fd, inputs, measure=False).segments
        moved = sum(s.input_bytes + s.output_bytes for s in segments)
        found.append(([s.scheduler for s in segments], moved))
    return found


@pytest.mark.parametrize("name", DEFINITIONS)
def test_kernels_are_those_of_written_sizes(name: str) -> None:
    program = f"import json, test_open_sizes as t; print(json.dumps(t.costs({name!r})))"
    result = run_python(program, {"NVFUSER_MACHINE": "h200"}, timeout=600)
    assert result.returncode == 0, result.stderr
    opened, written = json.loads(result.stdout.splitlines()[-1])
    assert opened == written
    assert len(opened[0]) == 1


@pytest.mark.parametrize("name", ["cross_entropy", "halves"])
def test_kernels_of_open_sizes_serve_others(name: str) -> None:
    fd = define(name, inputs_of(name, 480, DEVICE))
    kernels = []
    for rows in (480, 480, 320, 256, 704, 480, 640, 224):
        inputs = inputs_of(name, rows, DEVICE)
        (out,) = fd.execute(inputs)
        torch.testing.assert_close(
            out.double(), reference(name, inputs), rtol=1e-2, atol=1e-2, check_dtype=False
        )
        kernels.append(fd.fec._num_kernels)
    assert kernels[:3] == [1, 1, 2], kernels
    assert kernels[-1] <= 4, kernels  # widths of vectors and numbers of threads depend on rows


def test_sizes_that_do_not_agree_are_an_error_as_before() -> None:
    inputs = inputs_of("halves", 48, DEVICE)
    fd = define("halves", inputs)
    wrong = [inputs[0], inputs[1][:47]]
    for _ in range(2):
        with pytest.raises(RuntimeError, match=r"Sizes do not agree: .*48.*47|.*47.*48"):
            fd.execute(wrong)
        (out,) = fd.execute(inputs)
        torch.testing.assert_close(out.double(), reference("halves", inputs))
