// SPDX-License-Identifier: BSD-3-Clause
// What only tests ask of the compiler.
#pragma once

#include <pybind11/pybind11.h>

namespace nvfuser::python {

void bindTesting(pybind11::module_& module);

} // namespace nvfuser::python
