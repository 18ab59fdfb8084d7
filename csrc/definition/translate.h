// SPDX-License-Identifier: BSD-3-Clause
// A fusion as the Python source of a function that defines it.
#pragma once

#include <fusion.h>

#include <string>

namespace nvfuser {

// Definitions only: schedules are not part of the text. Error: an op or a memory order that has no
// Python form.
std::string translateFusion(Fusion* fusion);

// A constant as a Python literal: 3, 3.00000, True, float("inf"). Doubles print six significant
// digits when these give the value back, and as many as it takes otherwise.
std::string pythonLiteral(const ScalarValue& value);

} // namespace nvfuser
