// SPDX-License-Identifier: BSD-3-Clause
// Constants as C++ text.
#pragma once

#include <ir/base_nodes.h>

#include <string>

namespace nvfuser::codegen {

// Exact: the text reads back as the same value of that dtype. Infinities and NaN print as bit
// patterns.
std::string literal(const ScalarValue& value, DataType dtype);

} // namespace nvfuser::codegen
