// SPDX-License-Identifier: BSD-3-Clause
// Small helpers for text.
#include <base/string_utils.h>

namespace nvfuser {

std::string_view trim(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n";
  const size_t first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) {
    return {};
  }
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  size_t start = 0;
  for (size_t end = text.find(separator); end != std::string_view::npos;
       end = text.find(separator, start)) {
    parts.push_back(text.substr(start, end - start));
    start = end + 1;
  }
  parts.push_back(text.substr(start));
  return parts;
}

std::string indent(std::string_view text, int spaces) {
  std::string result;
  bool line_start = true;
  for (char c : text) {
    if (line_start && c != '\n') {
      result.append(static_cast<size_t>(spaces), ' ');
    }
    result.push_back(c);
    line_start = c == '\n';
  }
  return result;
}

std::string replaceAll(std::string text, std::string_view from, std::string_view to) {
  if (from.empty()) {
    return text;
  }
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
  return text;
}

} // namespace nvfuser
