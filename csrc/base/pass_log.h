// SPDX-License-Identifier: BSD-3-Clause
// PassLog: runs the passes of a list, and on request prints what each one changed and how long it
// took.
#pragma once

#include <functional>
#include <string>
#include <utility>

namespace nvfuser {

class PassLog {
 public:
  // `text` prints what the passes work on, `before` is what a first pass without effect leaves.
  PassLog(bool verbose, std::function<std::string()> text, std::string before)
      : verbose_(verbose), text_(std::move(text)), last_(std::move(before)) {}

  void operator()(const char* name, const std::function<void()>& pass);

 private:
  const bool verbose_;
  const std::function<std::string()> text_;
  std::string last_;
};

} // namespace nvfuser
