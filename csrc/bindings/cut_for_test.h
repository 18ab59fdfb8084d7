// SPDX-License-Identifier: BSD-3-Clause
// What tests ask about the cut of a definition.
#pragma once

#include <pybind11/pybind11.h>

namespace nvfuser::python {

void bindCutForTest(pybind11::module_& module);

} // namespace nvfuser::python
