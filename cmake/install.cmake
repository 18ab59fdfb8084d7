# SPDX-License-Identifier: BSD-3-Clause
# Install rules: library, headers, CMake package, and the extension when a wheel is being built.

include(CMakePackageConfigHelpers)

# One fixed layout (no lib64), so that the RPATH and the CMake package hold in a wheel and in a prefix alike.
set(NVFUSER_CMAKE_DIR share/cmake/nvfuser)
set_target_properties(nvfuser PROPERTIES INSTALL_RPATH "$ORIGIN")

install(TARGETS nvfuser EXPORT nvfuser-targets LIBRARY DESTINATION lib)
install(DIRECTORY csrc/ DESTINATION include/nvfuser
  FILES_MATCHING PATTERN "*.h"
  PATTERN bindings EXCLUDE
  PATTERN device/common EXCLUDE
  PATTERN device/cuda EXCLUDE
  PATTERN device/host EXCLUDE)
install(EXPORT nvfuser-targets NAMESPACE nvfuser:: DESTINATION ${NVFUSER_CMAKE_DIR})

configure_package_config_file(cmake/nvfuser-config.cmake.in ${PROJECT_BINARY_DIR}/nvfuser-config.cmake
  INSTALL_DESTINATION ${NVFUSER_CMAKE_DIR})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/nvfuser-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/nvfuser-config.cmake ${PROJECT_BINARY_DIR}/nvfuser-config-version.cmake
  DESTINATION ${NVFUSER_CMAKE_DIR})

if(SKBUILD AND TARGET _C_DIRECT)
  install(TARGETS _C_DIRECT LIBRARY DESTINATION .)
endif()
