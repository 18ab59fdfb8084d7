# SPDX-License-Identifier: BSD-3-Clause
"""When memory runs out the user sees the exception of torch's allocator, unchanged: callers catch
torch.OutOfMemoryError, free memory and call again.
"""

from __future__ import annotations

import pytest
import torch
from helpers import DEVICE, assert_same, define, run_python
from nvfuse_direct import _C_DIRECT, DataType, FusionDefinition

# 2 TiB of float32, which no machine has.
HUGE = 1 << 39


def test_the_error_of_the_allocator_is_the_users() -> None:
    def filled(fd: FusionDefinition) -> None:
        n = fd.define_scalar(DataType.Int)
        fd.add_output(fd.ops.full(shape=[n], fill_value=2.0, dtype=DataType.Float))

    fd = define(filled)
    with pytest.raises(RuntimeError) as expected:
        torch.empty(HUGE, dtype=torch.float32, device=DEVICE)
    for _ in range(2):
        with pytest.raises(RuntimeError) as info:
            fd.execute([HUGE], device=DEVICE)
        assert type(info.value) is type(expected.value)
        assert str(info.value)[:60] == str(expected.value)[:60]
    assert_same(fd.execute([3], device=DEVICE)[0], torch.full((3,), 2.0, device=DEVICE))


def test_memory_of_the_driver() -> None:
    """What the driver refuses reaches the user as torch's error too."""
    with pytest.raises(torch.OutOfMemoryError, match="CUDA_ERROR_OUT_OF_MEMORY"):
        _C_DIRECT._run_out_of_device_memory()


REFUSING_ALLOCATOR = """
    import torch
    from torch._C._dynamo import guards

    refused = None

    def refusing(allocate):
        def allocator(sizes, strides, dtype):
            if dtype == refused:
                raise torch.OutOfMemoryError("no memory left\\nsecond line")
            return allocate(sizes, strides, dtype)
        return allocator

    for name in ("_empty_strided_cpu", "_empty_strided_cuda"):
        setattr(guards, name, refusing(getattr(guards, name)))
    from helpers import *

    def two_kernels(fd):
        x = fd.define_tensor([-1, -1], True)
        fd.add_output(fd.ops.sum(fd.ops.segment_set(fd.ops.exp(x)), [0]))

    x = tensor(5, 6)
    fd = define(two_kernels)
    for dtype in (torch.uint8, torch.float32):  # the intermediate tensors' memory; an output
        for call in range(2):  # planning, and a cached call
            refused = dtype
            for run in (fd.execute, lambda inputs: fd.fec.execute(inputs)):
                try:
                    run([x])
                except torch.OutOfMemoryError as error:
                    assert str(error) == "no memory left\\nsecond line", error
                    assert error.__traceback__ is not None
                else:
                    raise AssertionError("the allocator's error was lost")
            refused = None
            assert_same(fd.execute([x])[0], x.exp().sum(0), rtol=1e-5)
    print("raised")
"""


def test_outputs_and_workspaces() -> None:
    """Calls after the one that failed are right."""
    done = run_python(REFUSING_ALLOCATOR)
    assert "raised" in done.stdout, done.stdout + done.stderr
