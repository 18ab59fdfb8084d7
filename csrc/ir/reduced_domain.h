// What is left of a tensor's dimensions when some are reduced.
#pragma once

#include <ir/domain.h>

namespace nvfuser {

// New dimensions like those that are not reduced, in the same order in memory: for a tensor that takes the place
// of a reduction's result.
TensorDomain* copyWithoutReductions(const TensorDomain* domain);

} // namespace nvfuser
