// SPDX-License-Identifier: BSD-3-Clause
// See pass_log.h.
#include <base/pass_log.h>

#include <chrono>
#include <iostream>

namespace nvfuser {

void PassLog::operator()(const char* name, const std::function<void()>& pass) {
  const auto start = std::chrono::steady_clock::now();
  pass();
  if (!verbose_) {
    return;
  }
  const std::chrono::duration<double, std::micro> time = std::chrono::steady_clock::now() - start;
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
