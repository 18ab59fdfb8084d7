// SPDX-License-Identifier: BSD-3-Clause
// How scalars lie in the bytes of kernel parameters.
#pragma once

#include <ir/base_nodes.h>
#include <type.h>

#include <cstddef>

namespace nvfuser {

constexpr size_t kMaxScalarBytes = 16;

// Writes a scalar as a kernel that declares it with this dtype reads it; returns the number of
// bytes.
size_t writeScalar(std::byte* to, const ScalarValue& value, DataType dtype);

} // namespace nvfuser
