// SPDX-License-Identifier: BSD-3-Clause
// Lowering: a scheduled fusion in, a Kernel out. The list of passes is in lower.cpp.
#pragma once

#include <kernel/kernel.h>

#include <memory>

namespace nvfuser {

struct LowerOptions {
  // Int32, or Int for 64-bit index arithmetic.
  DataType index_type = DataType::Int;
  // Of a kernel for the host: one thread of it does what all threads of a block do, where that is
  // possible (thread_loops.cpp).
  bool threads_in_loops = false;
};

// The name follows nvFuser's C++ API: GpuLower lower(&fusion); lower.run(); lower.kernel().
class GpuLower {
 public:
  explicit GpuLower(Fusion* fusion, LowerOptions options = {});
  ~GpuLower();
  // Runs the passes. Errors: UserError if the schedule is illegal, in terms of the user's call.
  Kernel* run();
  Kernel* kernel() const {
    return kernel_.get();
  }
  std::unique_ptr<Kernel> take();

 private:
  std::unique_ptr<Kernel> kernel_;
  LowerOptions options_;
};

} // namespace nvfuser
