# SPDX-License-Identifier: BSD-3-Clause
# Headers that most translation units read, compiled once for each target: about a third of the time of a build.
#
# A file still includes what it uses; a build with CMAKE_DISABLE_PRECOMPILE_HEADERS=ON (make test-sanitized) shows where
# it does not.

set(nvfuser_precompiled_headers
  <algorithm> <cmath> <cstring> <functional> <iterator> <limits> <map> <memory> <numeric> <optional> <set> <sstream>
  <string> <string_view> <unordered_map> <unordered_set> <utility> <vector>
  <base/error.h> <fusion.h> <ir/builder.h> <ir/exprs.h> <ir/nodes.h> <ir/visitor.h>)

# nvfuser_precompile_headers(target headers...): the headers above and the given ones.
function(nvfuser_precompile_headers target)
  target_precompile_headers(${target} PRIVATE ${nvfuser_precompiled_headers} ${ARGN})
endfunction()
