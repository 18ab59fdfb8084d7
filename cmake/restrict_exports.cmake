# SPDX-License-Identifier: BSD-3-Clause
# Libraries that export what they declare, and nothing of the C++ library.
#
# A compiler that links libstdc++ statically puts its code into our libraries. Were it exported, the dynamic linker
# would replace parts of it by those of another libstdc++ in the process (torch loads one globally), and the two halves
# crash at the first stream or locale that they share.

function(nvfuser_restrict_exports target map)
  target_link_options(${target} PRIVATE LINKER:--version-script=${map})
  set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS ${map})
endfunction()
