# SPDX-License-Identifier: BSD-3-Clause
"""The drop-in name of nvfuse_direct: the same objects, nothing else."""

import sys

import nvfuse_direct
from nvfuse_direct import *  # noqa: F403
from nvfuse_direct import (
    _C_DIRECT,
    __version__,
    benchmark_utils,
    multidevice,
    nvfuser_direct_version,
    ops,
    pytorch_utils,
    schedule,
)

# Submodules under this name are the same modules.
for _name in (
    "_C_DIRECT",
    "benchmark_utils",
    "nvfuser_direct_version",
    "pytorch_utils",
    "version",
):
    sys.modules[f"{__name__}.{_name}"] = sys.modules[f"nvfuse_direct.{_name}"]

__all__ = [
    *nvfuse_direct.__all__,
    "_C_DIRECT",
    "__version__",
    "benchmark_utils",
    "multidevice",
    "nvfuser_direct_version",
    "ops",
    "pytorch_utils",
    "schedule",
]
