// SPDX-License-Identifier: BSD-3-Clause
// See pass_log.h.
#include <base/pass_log.h>

#include <base/options.h>

#include <chrono>
#include <iostream>
#include <utility>

namespace nvfuser {

PassLog::PassLog(bool verbose, std::function<std::string()> text, std::string before,
                 std::function<void(const char*)> verify)
    : verbose_(verbose),
      text_(std::move(text)),
      verify_(isOptionEnabled(EnableOption::VerifyIr) ? std::move(verify) : nullptr),
      last_(std::move(before)) {}

void PassLog::operator()(const char* name, const std::function<void()>& pass) {
  const auto start = std::chrono::steady_clock::now();
  pass();
  const std::chrono::duration<double, std::micro> time = std::chrono::steady_clock::now() - start;
  if (verify_) {
    verify_(name);
  }
  if (!verbose_) {
    return;
  }
  std::string text = text_();
  std::cout << "// " << name << ": " << time.count() << " us";
  if (text == last_) {
    std::cout << ", no change\n";
  } else {
    std::cout << "\n" << text << "\n";
    last_ = std::move(text);
  }
}

} // namespace nvfuser
