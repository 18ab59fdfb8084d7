// SPDX-License-Identifier: BSD-3-Clause
// A definition with what it left open decided: replayed, expression by expression, into a new
// fusion.
#pragma once

#include <definition/concretization.h>
#include <fusion.h>

#include <unordered_map>

namespace nvfuser {

// Replays `from` into the empty fusion `to`. `mapping` (may be null) receives, for every input,
// tensor and scalar of `from` that `to` has, its counterpart.
void concretize(const Fusion& from, const Concretization& decisions, Fusion* to,
                std::unordered_map<const Val*, Val*>* mapping = nullptr);

} // namespace nvfuser
