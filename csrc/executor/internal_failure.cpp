// SPDX-License-Identifier: BSD-3-Clause
// See internal_failure.h.
#include <executor/internal_failure.h>

#include <iostream>
#include <mutex>

namespace nvfuser {
namespace {

// Never destroyed: calls may be under way while the process ends.
struct Installed {
  std::mutex mutex;
  InternalFailureHandler handler;
};

Installed& installed() {
  static auto* it = new Installed();
  return *it;
}

} // namespace

void setInternalFailureHandler(InternalFailureHandler handler) {
  const std::lock_guard lock(installed().mutex);
  installed().handler = std::move(handler);
}

void reportInternalFailure(const InternalFailure& failure) {
  InternalFailureHandler handler;
  {
    const std::lock_guard lock(installed().mutex);
    handler = installed().handler;
  }
  if (handler) {
    handler(failure);
    return;
  }
  std::cerr << "WARNING: a kernel could not be made, something simpler runs in its place: "
            << failure.words << std::endl;
}

} // namespace nvfuser
