// SPDX-License-Identifier: BSD-3-Clause
// See compiler_messages.h.
#include <target/compiler_messages.h>

#include <base/string_utils.h>

#include <algorithm>
#include <charconv>
#include <string_view>
#include <vector>

namespace nvfuser {

std::string numberedExcerpt(const std::string& text, const std::string& log, size_t max_lines) {
  // The first "file(12): error" (NVRTC) or "file:12:" (host compilers) of the log.
  size_t line = 0;
  const size_t at = std::min(log.find("): error"), log.find(": error"));
  if (at != std::string::npos) {
    size_t end = at;
    size_t begin = end;
    auto digit = [&](size_t i) { return log[i] >= '0' && log[i] <= '9'; };
    while (begin > 0 && digit(begin - 1)) {
      --begin;
    }
    if (begin > 0 && log[begin - 1] == ':') { // that was the column
      end = begin - 1;
      size_t first = end;
      while (first > 0 && digit(first - 1)) {
        --first;
      }
      begin = first < end ? first : begin;
    }
    std::from_chars(log.data() + begin, log.data() + end, line);
  }
  const std::vector<std::string_view> lines = split(text, '\n');
  const size_t first = line > max_lines / 2 ? line - max_lines / 2 : 0;
  std::string excerpt;
  for (size_t i = first; i < std::min(lines.size(), first + max_lines); ++i) {
    excerpt += std::to_string(i + 1) + "  ";
    excerpt += lines[i];
    excerpt += '\n';
  }
  return excerpt;
}

} // namespace nvfuser
