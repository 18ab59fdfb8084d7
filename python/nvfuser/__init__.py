# SPDX-License-Identifier: BSD-3-Clause
"""The legacy top-level name, for callers that still import these two functions from it.

Released versions of Lightning Thunder read `compute_tensor_descriptor` from `nvfuser` on their
first fused call. Everything else lives in `nvfuse_direct` (and under the drop-in name
`nvfuser_direct`).
"""

# Read by nvfuse_direct, which warns about another package called nvfuser in the process, but not
# about this one.
__nvfuse_direct_shim__ = True

from nvfuse_direct import compute_tensor_descriptor, version

__all__ = ["compute_tensor_descriptor", "version"]
