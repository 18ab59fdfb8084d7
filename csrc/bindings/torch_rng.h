// SPDX-License-Identifier: BSD-3-Clause
// torch's default random generators as the source of random state, so that torch.manual_seed()
// governs kernels too.
#pragma once

#include <runtime/kernel_args.h>

namespace nvfuser::python {

// CUDA: the default Philox generator of the device, advanced as torch's own kernels advance it.
//
// Host: torch's CPU generator is a Mersenne Twister, which has no offset. The state given is the
// generator's seed and four times the count of numbers drawn from it since it was seeded; drawing
// one number for each Philox block moves it on. So after torch.manual_seed(s) the k-th op sees (s,
// 4 k) as on CUDA, and whatever restores the generator's state repeats the numbers.
//
// Without torch: DefaultRngState. May be called without the GIL.
class TorchRngState : public RngState {
 public:
  static TorchRngState& instance();
  PhiloxState advance(Device device, uint64_t numbers) override;
};

} // namespace nvfuser::python
