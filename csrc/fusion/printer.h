// SPDX-License-Identifier: BSD-3-Clause
// Text of scheduled fusions. Definitions print with Fusion::printMath.
#pragma once

#include <fusion.h>

#include <string>

namespace nvfuser {

// As printMath, between `%kernel {` and `} // %kernel`. With `tensor_transforms` also the domains
// of every tensor and the transforms between them.
std::string printScheduled(const Fusion& fusion, bool tensor_transforms = false);

} // namespace nvfuser
