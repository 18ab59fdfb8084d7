# SPDX-License-Identifier: BSD-3-Clause
# Finds Python's headers and pybind11 >= 3, asking the interpreter when CMake does not know where pybind11 is.

set(PYBIND11_FINDPYTHON ON)
find_package(Python 3.9 COMPONENTS Interpreter Development.Module QUIET)
if(Python_Development.Module_FOUND)
  if(NOT pybind11_DIR)
    execute_process(
      COMMAND ${Python_EXECUTABLE} -m pybind11 --cmakedir
      OUTPUT_VARIABLE nvfuser_pybind11_dir OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    if(nvfuser_pybind11_dir)
      list(APPEND CMAKE_PREFIX_PATH ${nvfuser_pybind11_dir})
      set(pybind11_ROOT ${nvfuser_pybind11_dir})
    endif()
  endif()
  find_package(pybind11 3.0 CONFIG QUIET)
endif()
