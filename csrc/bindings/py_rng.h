// torch's default generators as the source of random state.
#pragma once

#include <runtime/kernel_args.h>

namespace nvfuser::python {

// CUDA: seed and philox offset of torch.cuda.default_generators[index], advanced as torch's own kernels do.
// Host, and where torch is missing: seed of torch's CPU generator with a philox offset kept here, which starts
// at 0 when the seed changes.
class PyRngState : public RngState {
 public:
  PhiloxState advance(Device device, uint64_t numbers) override;
};

} // namespace nvfuser::python
