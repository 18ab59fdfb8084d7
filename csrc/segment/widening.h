// Widening casts (bf16 to float) at cuts: a segment that reads a widened tensor should read the
// narrow one and widen it itself, which costs an instruction instead of memory traffic.
#pragma once

#include <fusion.h>

namespace nvfuser {

bool isWideningCast(const Expr* e);

// Gives every reader of a widening cast a cast of its own, so that each can be on its reader's side
// of a cut.
void separateWideningCasts(Fusion* fusion);

} // namespace nvfuser
