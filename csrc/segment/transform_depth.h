// Reshapes, slices and pads in a row. All tensors of a kernel run through the loops of its outputs,
// so that a tensor's loops repeat the transforms of every such operation after it, and a kernel
// with n in a row takes time in the order of n squared to plan. Chains that are longer than any
// model's are therefore cut.
#pragma once

#include <fusion.h>

namespace nvfuser {

// The computed tensors after which to cut, so that no kernel has more than 32 of them in a row.
std::vector<TensorView*> cutsOfDeepTransforms(const Fusion* fusion);

} // namespace nvfuser
