"""Meshes of devices and sharding."""

import collections.abc
import typing
from . import BroadcastOp, CacheOp, CommunicatorBackend, CompileParams, DataType, DeviceMesh, DisjointValSets, Expr, Fusion, FusionExecutorCache, FusionGuard, FusionProfile, HeuristicParams, IdMappingMode, IdModel, IterDomain, KernelExecutor, KernelProfile, LRUCache, LaunchParams, LoadStoreOpType, MemoryType, Merge, ParallelType, PointwiseParams, ReshapeOp, SchedulerType, Split, SqueezeOp, Statement, TensorDomain, TensorView, TransposeParams, Val, ValGraph, _FusionDefinitionBase

class DeviceMesh:
    """Device ids in a grid of any rank."""
    def __init__(self: multidevice.DeviceMesh, devices: object) -> None: ...
    @property
    def size(self) -> int: ...
    @property
    def shape(self) -> list[int]: ...
    def __repr__(self: multidevice.DeviceMesh) -> str: ...
