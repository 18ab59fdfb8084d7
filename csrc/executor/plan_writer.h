// SPDX-License-Identifier: BSD-3-Clause
// Writes launch plans to the disk cache in the background.
//
// To write the file of a plan that takes known kernels to another shape takes several times as long
// as to make it (docs/measurements/new_shapes.md). So a thread writes such plans, soon after they
// were made. Until then whoever looks for one finds it here, and what is left when the process ends
// is written then. A process that is killed loses the last few plans, which the next one makes
// again.
#pragma once

#include <optional>
#include <string>

namespace nvfuser {

// Any thread may call these. A forked child starts without entries: its parent writes them.
void writePlanLater(const std::string& stored_key, std::string bytes);
std::optional<std::string> findUnwrittenPlan(const std::string& stored_key);
// Returns when all that was to be written is.
void finishWritingPlans();

} // namespace nvfuser
