# SPDX-License-Identifier: BSD-3-Clause
"""Running fusions on DTensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .definition import FusionDefinition


def execute_with_dtensors(fd: FusionDefinition, in_dtensors: list[Any]) -> list[Any]:
    """Runs `fd` on the local shards of DTensors and wraps the outputs again.

    All inputs must have the same mesh dimension names (AssertionError otherwise).
    """
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Replicate, Shard

    from ._C_DIRECT import ParallelType

    names = {tuple(t.device_mesh.mesh_dim_names or ()) for t in in_dtensors}
    assert len(names) == 1, f"DTensors with different mesh dimension names: {sorted(names)}"
    outputs = fd.execute([t.to_local() for t in in_dtensors])
    shardings = fd.fec.get_output_shardings()
    assert len(outputs) == len(shardings), (
        f"{len(outputs)} outputs, but shardings of {len(shardings)}"
    )
    (mesh_dim_names,) = names
    result = []
    for output, sharding in zip(outputs, shardings, strict=True):
        mesh = init_device_mesh("cuda", tuple(sharding.mesh.shape), mesh_dim_names=mesh_dim_names)
        axis = sharding.axis_sharded_on(ParallelType.mesh_x)
        placement = Replicate() if axis == -1 else Shard(axis)
        result.append(DTensor.from_local(output, mesh, [placement]))
    return result
