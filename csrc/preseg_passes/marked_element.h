// SPDX-License-Identifier: BSD-3-Clause
// A mask that marks one element of each row, spelled iota == index.
#pragma once

#include <ir/nodes.h>

#include <cstddef>
#include <optional>

namespace nvfuser {

struct MarkedElement {
  TensorView* index = nullptr; // of integers, one for each row; outside of the row none is marked
  size_t dim = 0;              // that rows lie along
};

// `like`: a tensor with the dimensions of the mask. Nullopt: it marks others.
std::optional<MarkedElement> markedElement(const Val* mask, const TensorView* like);

} // namespace nvfuser
