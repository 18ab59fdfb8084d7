# SPDX-License-Identifier: BSD-3-Clause
"""The name under which C++ builds look for the library: see nvfuser_common.utils."""
