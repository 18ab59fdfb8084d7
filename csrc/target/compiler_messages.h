// SPDX-License-Identifier: BSD-3-Clause
// Reading what compilers say about a kernel's text.
#pragma once

#include <cstddef>
#include <string>

namespace nvfuser {

// At most `max_lines` lines of the text, numbered, around what the log complains about. For error
// messages.
std::string numberedExcerpt(const std::string& text, const std::string& log, size_t max_lines);

} // namespace nvfuser
