// SPDX-License-Identifier: BSD-3-Clause
// What a launch may be in the place of a kernel: work that somebody else does with the same
// arguments, in the same place of the plan.
#pragma once

#include <runtime/kernel_args.h>

#include <span>

namespace nvfuser {

class Evaluation {
 public:
  virtual ~Evaluation() = default;
  // Writes the outputs to the tensors given. All inputs are read before anything is written: an
  // output may lie in an input's storage. Work on a GPU is queued in the caller's current stream.
  // Called without locks, by any thread.
  virtual void run(std::span<const ArgView> inputs, std::span<const ArgView> outputs,
                   const PhiloxState& rng) const = 0;
};

} // namespace nvfuser
