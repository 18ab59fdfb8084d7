# SPDX-License-Identifier: BSD-3-Clause
"""Where CMake finds the installed C++ library and its headers."""

from nvfuse_direct.utils import cmake_prefix_path

__all__ = ["cmake_prefix_path"]
