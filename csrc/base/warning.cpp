// SPDX-License-Identifier: BSD-3-Clause
// Warnings that are said once.
#include <base/warning.h>

#include <atomic>
#include <iostream>
#include <mutex>
#include <unordered_set>

namespace nvfuser {

namespace {

void printWarning(const std::string& message) {
  std::cerr << "WARNING: " + message + "\n";
}

std::atomic<WarningHandler> handler = &printWarning;

// True for the first call with this text.
bool isNew(const std::string& message) {
  static std::mutex mutex;
  static auto* said = new std::unordered_set<std::string>();
  const std::lock_guard lock(mutex);
  return said->insert(message).second;
}

} // namespace

void warnOnce(const std::string& message) {
  if (isNew(message)) {
    handler.load()(message);
  }
}

void setWarningHandler(WarningHandler new_handler) {
  handler = new_handler == nullptr ? &printWarning : new_handler;
}

} // namespace nvfuser
