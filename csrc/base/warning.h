// SPDX-License-Identifier: BSD-3-Clause
// Warnings to the user: things that were asked for and have no effect. Each text is said once in
// the life of the process.
#pragma once

#include <string>

namespace nvfuser {

void warnOnce(const std::string& message);

// Where warnings go; standard error until somebody says otherwise (the Python module turns them
// into UserWarnings). May be called by any thread.
using WarningHandler = void (*)(const std::string& message);
void setWarningHandler(WarningHandler handler);

} // namespace nvfuser
