# SPDX-License-Identifier: BSD-3-Clause
# Build type, compiler cache, warnings and sanitizers, shared by every target through nvfuser_flags.

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Debug, Release, RelWithDebInfo" FORCE)
endif()
# -O3 buys nothing in a compiler and costs build time.
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

if(NOT CMAKE_CXX_COMPILER_LAUNCHER)
  find_program(NVFUSER_CCACHE ccache)
  if(NVFUSER_CCACHE)
    set(CMAKE_CXX_COMPILER_LAUNCHER
      ${PROJECT_SOURCE_DIR}/cmake/with_ccache.sh ${NVFUSER_CCACHE} ${PROJECT_SOURCE_DIR})
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
      add_compile_options(-fpch-preprocess)
    endif()
  endif()
endif()

include(CheckCXXCompilerFlag)

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)

add_library(nvfuser_flags INTERFACE)
target_compile_options(nvfuser_flags INTERFACE -Wall -Wextra -fno-semantic-interposition)
# A range-for over a member of a temporary reads freed memory; GCC sees it.
check_cxx_compiler_flag(-Werror=dangling-pointer NVFUSER_HAS_DANGLING_POINTER_WARNING)
if(NVFUSER_HAS_DANGLING_POINTER_WARNING)
  target_compile_options(nvfuser_flags INTERFACE -Werror=dangling-pointer)
endif()
if(NVFUSER_WERROR)
  target_compile_options(nvfuser_flags INTERFACE -Werror)
endif()
# One unwinder for all libraries, also where the compiler would link its own into each (-static-libgcc): an exception
# that crosses from a library with one into a library with another ends the process.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_link_libraries(nvfuser_flags INTERFACE gcc_s)
endif()
if(NVFUSER_STATIC_LIBSTDCXX)
  target_link_options(nvfuser_flags INTERFACE -static-libstdc++ -static-libgcc)
endif()
if(NVFUSER_SANITIZE)
  target_compile_options(nvfuser_flags INTERFACE
    -fsanitize=${NVFUSER_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all -g)
  target_link_options(nvfuser_flags INTERFACE -fsanitize=${NVFUSER_SANITIZE})
endif()
