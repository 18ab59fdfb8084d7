// Memory that is written for the first time: the system gives it out page by page.
#pragma once

#include <cstddef>

namespace nvfuser {

// Asks for large pages for what was just allocated, if it is long: with pages of 4 KB giving out
// the memory takes longer than writing it. Without effect where the system has none.
void preferLargePages(void* data, size_t bytes);

} // namespace nvfuser
