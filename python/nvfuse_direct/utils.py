# SPDX-License-Identifier: BSD-3-Clause
"""Where the installed package keeps its C++ library, headers and CMake package."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent

# For CMAKE_PREFIX_PATH: find_package(nvfuser) then gives the target nvfuser::nvfuser.
cmake_prefix_path = str(_PACKAGE)
include_dir = str(_PACKAGE / "include" / "nvfuser")
library_dir = str(_PACKAGE / "lib")
