// A lookup reads its table at any position, so that no kernel that computes the table can do it. If
// the table is computed element by element from inputs of the fusion, the lookup goes before: what
// is found there is computed with.
#pragma once

#include <fusion.h>

namespace nvfuser {

// take_along_axis(f(x, row), index) becomes f(take_along_axis(x, index), row): the kernel that
// reduces rows of x also reads the elements that are looked up. Many positions may stand for one
// element of the table: index_select and embeddings repeat nothing but widening casts and copies.
void lookUpInInputs(Fusion* fusion);

} // namespace nvfuser
