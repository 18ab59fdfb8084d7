// SPDX-License-Identifier: BSD-3-Clause
// Building and throwing the two kinds of errors.
#include <base/error.h>

#include <string_view>

namespace nvfuser::detail {

namespace {

// The path below csrc/, which is the same on every machine.
std::string_view shortPath(const char* file) {
  std::string_view path(file);
  const auto position = path.rfind("csrc/");
  return position == std::string_view::npos ? path : path.substr(position);
}

} // namespace

void throwUserError(const char* file, int line, const char* condition, const std::string& message) {
  if (!message.empty()) {
    throw UserError(message);
  }
  throw UserError(
      streamToString("Requirement not met: ", condition, " (", shortPath(file), ":", line, ")"));
}

void throwInternalError(const char* file, int line, const char* condition,
                        const std::string& message) {
  std::string text = streamToString("Compiler error at ", shortPath(file), ":", line);
  if (condition[0] != '\0') {
    text += streamToString(", expected ", condition);
  }
  if (!message.empty()) {
    text += ": " + message;
  }
  throw InternalError(text);
}

} // namespace nvfuser::detail
