// SPDX-License-Identifier: BSD-3-Clause
// PassLog: runs the passes of a list, and on request prints what each one changed and how long it
// took, and verifies what it left (NVFUSER_ENABLE=verify_ir).
#pragma once

#include <functional>
#include <string>

namespace nvfuser {

class PassLog {
 public:
  // `text` prints what the passes work on, `before` is what a first pass without effect leaves;
  // `verify` throws if that is wrong after the pass with the name.
  PassLog(bool verbose, std::function<std::string()> text, std::string before,
          std::function<void(const char*)> verify);

  void operator()(const char* name, const std::function<void()>& pass);

 private:
  const bool verbose_;
  const std::function<std::string()> text_;
  const std::function<void(const char*)> verify_; // null: nobody asked for it
  std::string last_;
};

} // namespace nvfuser
