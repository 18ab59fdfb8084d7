// SPDX-License-Identifier: BSD-3-Clause
// The machine that a test's kernels of CPU tensors are scheduled for, whatever NVFUSER_MACHINE
// says.
#pragma once

#include <base/options.h>

namespace nvfuser::test {

class SchedulesFor {
 public:
  explicit SchedulesFor(HostSchedules machine) {
    guard_.options().host_schedules = machine;
  }

 private:
  OptionsGuard guard_;
};

} // namespace nvfuser::test
