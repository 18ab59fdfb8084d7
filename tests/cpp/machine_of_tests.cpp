// SPDX-License-Identifier: BSD-3-Clause
// The tests are of what GPUs run, on a small one that the host stands for, unless NVFUSER_MACHINE
// says otherwise. Before anything reads the environment.
#include <cstdlib>

namespace {

[[gnu::constructor]] void scheduleForHopper() {
  ::setenv("NVFUSER_MACHINE", "hopper", /*overwrite=*/0);
}

} // namespace
