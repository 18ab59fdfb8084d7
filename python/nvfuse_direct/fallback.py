# SPDX-License-Identifier: BSD-3-Clause
"""What runs where there is no kernel: library segments, and fusions op by op, both with torch,
which is not imported before."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from . import _C_DIRECT
from ._C_DIRECT import DataType, Fusion

# Library operations that torch writes into tensors that are there; it allocates what others make.
LIBRARY_WRITES = frozenset({"matmul", "linear", "topk", "argsort"})

_warning_lock = threading.Lock()
_warned = False


def _warn_without_compiler() -> None:
    global _warned
    with _warning_lock:
        if _warned:
            return
        _warned = True
    warnings.warn(
        "No C++ compiler was found, so fusions on the CPU are evaluated by torch, one operation "
        "after the other. Install g++ or clang++, or set NVFUSER_HOST_CXX or CXX, for fused "
        "kernels.",
        RuntimeWarning,
        stacklevel=3,
    )


def evaluate_into(
    fusion: Fusion, inputs: list[Any], outputs: list[Any], seed: int, offset: int
) -> None:
    """Writes the outputs of the fusion into `outputs`, which may share memory with inputs.

    Args: the state of the random generator is what the fusion's stateful ops draw from.
    """
    import torch

    from .block_scaled import pack_float4
    from .reference import Evaluator

    if outputs[0].device.type == "cpu" and not _C_DIRECT._interop.toolchain()["host_compiler"]:
        _warn_without_compiler()
    with torch.no_grad():
        values = Evaluator(fusion, inputs, rng=(seed, offset)).run()
        borrowed = {x.untyped_storage().data_ptr() for x in inputs if isinstance(x, torch.Tensor)}
        # Everything is read before anything is written.
        values = [x.clone() if x.untyped_storage().data_ptr() in borrowed else x for x in values]
        float4 = (DataType.Float4_e2m1fn, DataType.Float4_e2m1fn_x2)
        tensors: list[Any] = fusion.outputs()
        for declared, value, out in zip(tensors, values, outputs, strict=True):
            if declared.dtype() in float4:
                value = pack_float4(value)
            # Bits: torch copies few of the small types between devices or layouts.
            if value.dtype == out.dtype and value.dtype.itemsize == 1:
                value, out = value.view(torch.uint8), out.view(torch.uint8)
            out.copy_(value)


def prepare_library_segment(segment: Fusion) -> Callable[..., Any]:
    """A callable for a fusion with one library operation (library.py)."""
    from .library import prepare

    return prepare(segment)


def copy_results(outs: Sequence[Any], results: Sequence[Any]) -> None:
    from .library import copy_results

    copy_results(outs, results)


def define(text: str) -> Fusion:
    """The fusion of which translate_fusion() gave the text."""
    import torch

    from .definition import FusionDefinition

    names: dict[str, Any] = {
        "torch": torch,
        "FusionDefinition": FusionDefinition,
        "DataType": DataType,
    }
    exec(text, names)
    with FusionDefinition() as fd:
        names["nvfuser_fusion"](fd)
    return fd.fusion


def install() -> None:
    """To be called once, when the package is imported."""
    _C_DIRECT._set_fusion_evaluator(evaluate_into, define)
    _C_DIRECT._set_library("torch", prepare_library_segment, copy_results, LIBRARY_WRITES)
