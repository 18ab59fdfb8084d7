// SPDX-License-Identifier: BSD-3-Clause
// Lists of conditions that hold together, each of them once, and what conditions say of other
// iterations.
#pragma once

#include <lower/context.h>

#include <vector>

namespace nvfuser {

using Conditions = std::vector<Val*>;

bool has(const Conditions& list, const Val* c);
void addTo(Conditions& list, Val* c);
Conditions without(const Conditions& list, const Conditions& remove);
bool sameSet(const Conditions& a, const Conditions& b);

// `v` does not decrease when the index of any of the loops grows: sums and products only. (Extents
// are >= 0.)
bool growsWith(const Val* v, const std::vector<const ForLoop*>& loops);

// In the last iteration of the loops, or the first.
Val* substitute(Val* v, const std::vector<const ForLoop*>& loops, bool last);

} // namespace nvfuser
