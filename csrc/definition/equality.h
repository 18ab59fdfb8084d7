// SPDX-License-Identifier: BSD-3-Clause
// A definition as a list of numbers: equal lists, equal definitions.
#pragma once

#include <fusion.h>

#include <cstdint>
#include <vector>

namespace nvfuser {

// The same in every process of one build.
std::vector<uint64_t> definitionWords(const Fusion& fusion);

} // namespace nvfuser
