// SPDX-License-Identifier: BSD-3-Clause
// Small helpers for text.
#pragma once

#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace nvfuser {

// Without the white space at both ends.
std::string_view trim(std::string_view text);

// The parts between the separators; n separators give n + 1 parts, an empty text one empty part.
std::vector<std::string_view> split(std::string_view text, char separator);

// Every line starts with `spaces` more blanks; empty lines stay empty.
std::string indent(std::string_view text, int spaces);

std::string replaceAll(std::string text, std::string_view from, std::string_view to);

// Streams the elements with the separator between them.
template <class Range>
std::string join(const Range& values, std::string_view separator = ", ") {
  std::ostringstream stream;
  bool first = true;
  for (const auto& value : values) {
    if (!first) {
      stream << separator;
    }
    first = false;
    stream << value;
  }
  return stream.str();
}

} // namespace nvfuser
