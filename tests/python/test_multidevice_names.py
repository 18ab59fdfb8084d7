# SPDX-License-Identifier: BSD-3-Clause
"""The multi-device names in one process with one device; more is refused."""

from __future__ import annotations

import pytest
import torch
from helpers import run_python
from nvfuse_direct import FusionDefinition, ParallelType, multidevice

Communicator, DeviceMesh = multidevice.Communicator, multidevice.DeviceMesh


def test_communicator_of_one_process() -> None:
    communicator = Communicator.instance()
    assert not communicator.is_available()
    assert (communicator.size(), communicator.rank()) == (1, 0)
    assert (communicator.local_size(), communicator.local_rank()) == (1, 0)
    communicator.barrier()


def test_communicator_of_several_processes_is_refused() -> None:
    done = run_python(
        """
import os
os.environ["WORLD_SIZE"] = "2"
from nvfuse_direct import multidevice
try:
    multidevice.Communicator.instance()
except RuntimeError as error:
    print(error)
"""
    )
    assert "WORLD_SIZE = 2: several devices are not supported yet" in done.stdout


def test_mesh_cuts_a_tensor() -> None:
    x = torch.arange(24).reshape(4, 6)
    assert torch.equal(DeviceMesh([0, 1]).shard_tensor(x, -1), x[:, :3])
    assert torch.equal(DeviceMesh([1, 0]).shard_tensor(x, 0), x[2:])
    assert torch.equal(DeviceMesh([5, 7]).shard_tensor(x, 0), x[:2])
    assert DeviceMesh(range(2)).shard_tensor(x, 1).is_contiguous()
    with pytest.raises(RuntimeError, match="not divisible by the 3 devices"):
        DeviceMesh([0, 1, 2]).shard_tensor(x, 0)
    with pytest.raises(RuntimeError, match="1-D mesh"):
        DeviceMesh(torch.tensor([[0, 1]])).shard_tensor(x, 0)


def define(mesh: DeviceMesh | None) -> FusionDefinition:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], contiguity=True)
        if mesh is not None:
            x.set_device_mesh(mesh)
        fd.add_output(fd.ops.neg(x))
    return fd


def test_fusion_on_a_mesh_of_one_device() -> None:
    x = torch.randn(3, 4)
    for mesh in (None, DeviceMesh([0])):
        fd = define(mesh)
        tv = fd.fusion.inputs()[0]
        if mesh is None:
            with pytest.raises(RuntimeError, match="has no device mesh"):
                multidevice.shard_tensor(x, tv)
        else:
            assert multidevice.shard_tensor(x, tv) is x
        (y,) = fd.execute([x])
        assert torch.equal(y, -x)
        shardings = fd.fec.get_output_shardings()
        assert len(shardings) == (0 if mesh is None else 1)
        for sharding in shardings:
            assert sharding.mesh.size == 1
            assert sharding.axis_sharded_on(ParallelType.mesh_x) == -1


def test_several_devices_are_refused() -> None:
    with pytest.raises(RuntimeError, match="several devices are not supported yet"):
        define(DeviceMesh([0, 1]))
