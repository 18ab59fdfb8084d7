// SPDX-License-Identifier: BSD-3-Clause
// What a user can ask of the compiler of a kernel; a target's flags follow from it.
#pragma once

#include <target/device.h>
#include <type.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace nvfuser {

struct CompileParams {
  // Int or Int32; unset: the narrowest that the shapes allow.
  std::optional<DataType> index_type;
  // Registers a thread may use at most; 255 is no limit.
  int64_t maxrregcount = 255;
  // What the schedule counts on, so that as many blocks share a multiprocessor: a kernel takes no
  // more if it can do so without spilling more than a little. 0: nothing is counted on.
  int64_t wanted_registers = 0;
  // Changes nothing: kernels have no magic zeros. It takes no part in comparing and hashing.
  bool enable_magic_zero = true;
  bool enable_ptxas_verbose = false;
  std::optional<Device> device;
  std::vector<std::string> include_paths;

  bool operator==(const CompileParams& other) const;
  uint64_t hash() const;
  std::string toString() const;
};

} // namespace nvfuser
