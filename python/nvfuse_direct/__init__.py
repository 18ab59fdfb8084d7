# SPDX-License-Identifier: BSD-3-Clause
"""A fusion compiler for PyTorch: define a graph of tensor operations, get fast kernels.

    from nvfuse_direct import FusionDefinition

    with FusionDefinition() as fd:
        a = fd.from_pytorch(x)
        b = fd.from_pytorch(y)
        fd.add_output(fd.ops.relu(fd.ops.add(a, b)))
    (out,) = fd.execute([x, y])

Tensors may be on a GPU or on the CPU, and of torch or any library that speaks DLPack.
"""

from __future__ import annotations

import sys
import warnings

_legacy = sys.modules.get("nvfuser")
if _legacy is not None and not getattr(_legacy, "__nvfuse_direct_shim__", False):
    warnings.warn(
        "Another package called nvfuser is imported already; be careful to mix objects of the two.",
        UserWarning,
        stacklevel=2,
    )

from . import _C_DIRECT, _name_clash, _toolchain, failures, fallback  # noqa: E402
from ._C_DIRECT import *  # noqa: E402, F403
from ._C_DIRECT import idm, multidevice, ops, schedule  # noqa: E402
from .autotuning import TuningReport, autotune  # noqa: E402
from .definition import FusionDefinition  # noqa: E402
from .distributed import execute_with_dtensors  # noqa: E402
from .explanation import Explanation, explain  # noqa: E402
from .lru_cache import LruFusionCache  # noqa: E402
from .minimizing import Minimized, minimize  # noqa: E402
from .nvfuser_direct_version import NvfuserVersion, __version__  # noqa: E402
from .profiler import PythonProfiler  # noqa: E402
from .validation import get_val_tolerances, validate_with_auto_inferred_outputs  # noqa: E402

_name_clash.warn_about_others()
_toolchain.configure(_C_DIRECT)
fallback.install()
failures.install()


def version() -> NvfuserVersion:
    """Version of the API, comparable with strings."""
    return __version__


__all__ = [
    *(name for name in dir(_C_DIRECT) if not name.startswith("_")),
    "Explanation",
    "FusionDefinition",
    "LruFusionCache",
    "Minimized",
    "PythonProfiler",
    "TuningReport",
    "__version__",
    "autotune",
    "execute_with_dtensors",
    "explain",
    "get_val_tolerances",
    "idm",
    "minimize",
    "multidevice",
    "ops",
    "schedule",
    "validate_with_auto_inferred_outputs",
    "version",
]
