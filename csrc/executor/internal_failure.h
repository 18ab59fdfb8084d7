// SPDX-License-Identifier: BSD-3-Clause
// What is told when a mistake of ours keeps a kernel from being made and something simpler runs in
// its place: values are right, but somebody should know.
#pragma once

#include <fusion.h>
#include <runtime/kernel_args.h>

#include <functional>
#include <memory>
#include <span>
#include <string>

namespace nvfuser {

struct InternalFailure {
  std::shared_ptr<Fusion> definition;
  std::span<const ArgView> args; // of the call; their memory is not to be read
  std::string words;
};

// Called once for each definition, by the thread whose call it was, without locks. An exception
// goes on to the caller of that call; the next one is not told again.
using InternalFailureHandler = std::function<void(const InternalFailure&)>;
// Stays until the process ends. Without one the words go to standard error.
void setInternalFailureHandler(InternalFailureHandler handler);
void reportInternalFailure(const InternalFailure& failure);

} // namespace nvfuser
