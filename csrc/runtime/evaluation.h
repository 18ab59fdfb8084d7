// SPDX-License-Identifier: BSD-3-Clause
// What a launch may be in the place of a kernel: work that somebody else does with the same
// arguments, in the same place of the plan.
#pragma once

#include <base/error.h>
#include <runtime/kernel_args.h>

#include <span>
#include <vector>

namespace nvfuser {

class Evaluation {
 public:
  virtual ~Evaluation() = default;
  // Writes the outputs to the tensors given. All inputs are read before anything is written: an
  // output may lie in an input's storage. Work on a GPU is queued in the caller's current stream.
  // Called without locks, by any thread.
  virtual void run(std::span<const ArgView> inputs, std::span<const ArgView> outputs,
                   const PhiloxState& rng) const = 0;

  // Whether the work allocates its results itself: then make() hands them out, which saves a copy.
  virtual bool makesResults() const {
    return false;
  }
  // A tensor for each of the outputs, whose addresses are not read: of that type, device, sizes and
  // strides, in memory that is shared with nothing else.
  virtual std::vector<Tensor> make(std::span<const ArgView> /*inputs*/,
                                   std::span<const ArgView> /*outputs*/) const {
    NVF_THROW("this evaluation writes its results");
  }
};

} // namespace nvfuser
